# SPDX-License-Identifier: Apache-2.0
"""The posterior of a neural network under the beta-divergence loss, as a density that NUTS can follow.

The losses of the records are summed block by block, loss and gradient of a block together: what a block needs
stays in the processor's cache, which halves the time of a gradient at 10,000 records.

All weights and biases have the prior N(0, prior_scale^2); the squared residual scale of a regression is
inverse-gamma above its floor (``onedraw.priors``) and enters through u with scale = floor + exp(u).
``onedraw.model.network`` has the layout of the parameters and the same forward pass in NumPy.

Guarantee:
    The loss of a record is that of its family, whose certificate holds for every value of the outputs. So
    the sensitivity knows nothing of depth, width, activation or weights; for regression it uses the floor of
    the scale, which no draw can be below. Outputs that overflow are held at +-1e300, and one that is not a
    number counts as 0, so that there is no network under which a record has no loss.

>>> import numpy as np
>>> from onedraw.families import Bernoulli
>>> from onedraw.losses import BetaDivergence
>>> from onedraw.model import NetworkModel
>>> posterior = NetworkPosterior(
...     model=NetworkModel(features=("a", "b"), hidden_layer_sizes=(3,), classes=(0, 1)),
...     loss=BetaDivergence(Bernoulli()), beta=2.0, weight=0.5, prior=Prior(scale=1.0),
...     features=np.zeros((5, 2)), response=np.zeros(5))
>>> posterior.dim, posterior.monitored(np.zeros((4, 13))).shape
(13, (4, 8))
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Gaussian
from onedraw.losses.base import Loss
from onedraw.model.network import NetworkModel, Shape, forward, probe_points
from onedraw.nn import likelihood
from onedraw.priors import Prior
from onedraw.samplers.nuts import above, double_precision
from onedraw.types import Array

LARGEST_OUTPUT = 1e300
PROBES = 8
"""Public points at which the chains' predictions are compared."""
BLOCK = 1000
"""Records of a block, at most: 1,000 columns of a layer's inputs, outputs and slopes fit into the cache."""


def refuse_other_model(mechanism: str, own: NetworkModel, given: Any) -> None:
    """A mechanism for a network is made for one model: its loss, its noise and its grid follow from it."""
    if given != own:
        raise InvalidInput(
            f"Expected the model that {mechanism} was made for, got another one: its noise and its grid "
            "follow from the model. Give the same model to both."
        )


@dataclass(frozen=True, kw_only=True)
class NetworkDensity:
    """The log posterior density in JAX, up to a constant; hashable, so that its compiled code is shared.

    Everything that calibration or the data set is in ``data``: only another shape compiles anew.
    """

    shape: Shape
    activation: str
    family: str

    def outputs(self, theta: Any, features: Any) -> Any:
        """Linear outputs (q, n) of one network (p,) at features (d, n); records are columns, side by side."""
        jnp = importlib.import_module("jax.numpy")
        *hidden, (last, last_bias) = self.shape.unpack(theta)
        values = features
        for weights, biases in hidden:
            values = weights.T @ values + biases[:, None]
            values = jnp.maximum(values, 0.0) if self.activation == "relu" else jnp.tanh(values)
        values = last.T @ values + last_bias[:, None]
        return jnp.nan_to_num(values, nan=0.0, posinf=LARGEST_OUTPUT, neginf=-LARGEST_OUTPUT)

    def block_loss(self, theta: Any, block: Any, data: Any) -> Any:
        """The summed loss of one block of records, of which the last ones may be padding."""
        outputs = self.outputs(theta, block["features"])
        response, beta = block["response"], data["beta"]
        if self.family == "bernoulli":
            losses = likelihood.bernoulli_loss(response, outputs[0], beta)
        elif self.family == "categorical":
            losses = likelihood.categorical_loss(response, (data["contrasts"] @ outputs).T, beta)
        else:
            scale, _ = above(data["floor"], theta[-1])
            losses = likelihood.gaussian_loss(response, outputs[0], scale, beta, data["floor"])
        return losses @ block["counts"]

    def __call__(self, theta: Any, data: Any) -> Any:
        jnp = importlib.import_module("jax.numpy")
        prior = -0.5 * jnp.square(theta[: self.shape.size] / data["prior_scale"]).sum()
        if self.family == "gaussian":
            _, log_jacobian = above(data["floor"], theta[-1])
            log_scale = jnp.logaddexp(jnp.log(data["floor"]), theta[-1])
            prior += log_jacobian - (2.0 * data["shape"] + 1.0) * log_scale
            prior -= data["rate"] * jnp.exp(-2.0 * log_scale)
        return prior - data["weight"] * _summed(self)(theta, data)


@functools.lru_cache(maxsize=32)
def _summed(density: NetworkDensity) -> Any:
    """The loss of all blocks; its gradient is added up along with it, not in a second pass."""
    jax = importlib.import_module("jax")

    def accumulated(of_block: Any, theta: Any, data: Any) -> Any:
        def add(sums: Any, block: Any) -> Any:
            return jax.tree.map(jax.numpy.add, sums, of_block(theta, block, data)), None

        shapes = jax.eval_shape(lambda: of_block(theta, jax.tree.map(lambda x: x[0], data["blocks"]), data))
        zeros = jax.tree.map(lambda leaf: jax.numpy.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.scan(add, zeros, data["blocks"])[0]

    def value_alone(theta: Any, data: Any) -> Any:
        return accumulated(density.block_loss, theta, data)

    def forward(theta: Any, data: Any) -> Any:
        return accumulated(jax.value_and_grad(density.block_loss), theta, data)

    def backward(gradient: Any, slope: Any) -> tuple[Any, None]:
        return slope * gradient, None  # the data are constants

    summed = jax.custom_vjp(value_alone)
    summed.defvjp(forward, backward)
    return summed


def blocks_of(features: Array, response: Array) -> dict[str, Array]:
    """Records (n, d) and (n,) as blocks of columns, (m, d, size) and (m, size); ``counts`` is 0 for padding.

    >>> blocks = blocks_of(np.ones((1001, 2)), np.ones(1001))
    >>> blocks["features"].shape, float(blocks["counts"].sum())
    ((2, 2, 501), 1001.0)
    """
    num = max(1, -(-len(response) // BLOCK))
    size = -(-len(response) // num)
    padding = num * size - len(response)
    columns = np.pad(features, [(0, padding), (0, 0)]).reshape(num, size, features.shape[1])
    return {
        "features": np.ascontiguousarray(columns.transpose(0, 2, 1)),
        "response": np.pad(response, (0, padding)).reshape(num, size),
        "counts": np.pad(np.ones(len(response)), (0, padding)).reshape(num, size),
    }


@functools.lru_cache(maxsize=32)
def _evaluated(density: NetworkDensity) -> Any:
    """The density at many parameters, compiled."""
    jax = importlib.import_module("jax")
    return jax.jit(jax.vmap(density, in_axes=(0, None)))


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkPosterior:
    """The posterior of one data set, in working units. Private."""

    model: NetworkModel
    loss: Loss
    beta: float
    weight: float
    prior: Prior
    features: Array
    response: Array

    def __post_init__(self) -> None:
        if self.prior.box is not None:
            raise InvalidInput("A network has no truncated prior. Leave the box out.")

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def density(self) -> NetworkDensity:
        return NetworkDensity(
            shape=self.model.shape, activation=self.model.activation, family=self.loss.family.name
        )

    @property
    def data(self) -> dict[str, Any]:
        """Arrays for ``density``."""
        family, noise = self.loss.family, self.prior.noise
        data: dict[str, Any] = {
            "beta": self.beta,
            "weight": self.weight,
            "prior_scale": self.prior.scale,
        }
        if isinstance(family, Categorical):
            data["contrasts"] = family.contrasts
        elif isinstance(family, Gaussian) and noise is not None:
            data |= {"floor": family.scale_floor, "shape": noise.shape, "rate": noise.rate}
        elif not isinstance(family, Bernoulli):
            raise InvalidInput(f"No network is known for the {family.name} family.")
        numbers = {name: np.asarray(value, dtype=np.float64) for name, value in data.items()}
        return {**numbers, "blocks": blocks_of(self.features, self.response)}

    def log_density(self, thetas: Array) -> Array:
        """Up to a constant, of each row of ``thetas`` (m, p) in working coordinates."""
        with double_precision():
            return np.asarray(_evaluated(self.density)(thetas, self.data), dtype=np.float64)

    def initial(self, num: int, rng: np.random.Generator) -> Array:
        """Draws from the prior."""
        return self.prior.sample(rng, num, self.dim)

    def monitored(self, positions: Array) -> Array:
        """Outputs at public probe points and the log scale: weights themselves are not identified."""
        shape = self.model.shape
        outputs = forward(shape, self.model.activation, positions, probe_points(PROBES, shape.inputs))
        columns = outputs.reshape(len(positions), -1)
        return columns if self.prior.noise is None else np.column_stack([columns, positions[:, -1]])
