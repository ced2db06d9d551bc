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
>>> model = NetworkModel(family=Bernoulli(), features=("a", "b"), hidden_layer_sizes=(3,), classes=(0, 1))
>>> posterior = NetworkPosterior(
...     model=model, beta=2.0, weight=0.5, prior=Prior(scale=1.0),
...     records=Records(features=np.zeros((5, 2)), response=np.zeros(5)))
>>> posterior
NetworkPosterior(...)
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
from onedraw.model.network import Layers, NetworkModel, forward, probe_points
from onedraw.nn.likelihood import LOSSES, known_loss
from onedraw.priors import Prior
from onedraw.private import Withheld
from onedraw.records import Records
from onedraw.samplers.nuts import above, double_precision
from onedraw.types import Array

LARGEST_OUTPUT = 1e300
PROBES = 8
"""Public points at which the chains' predictions are compared."""
BLOCK = 1000
"""Records of a block, at most: 1,000 columns of a layer's inputs, outputs and slopes fit into the cache."""


@dataclass(frozen=True, kw_only=True)
class NetworkDensity:
    """The log posterior density in JAX, up to a constant; hashable, so that its compiled code is shared.

    Beta, weight, prior and records are not part of it: they are passed to it as ``data``. So a second fit
    compiles nothing, unless its network has other layers or its table has other sizes. Nor then if the data
    have ``num_blocks``: blocks beyond that number are padding of one size for all, and are not looked at.
    """

    layers: Layers
    activation: str
    family: str
    """By name."""

    def outputs(self, theta: Any, features: Any) -> Any:
        """Linear outputs (q, n) of one network (p,) at features (d, n); records are columns, side by side."""
        jnp = importlib.import_module("jax.numpy")
        *hidden, (last, last_bias) = self.layers.unpack(theta)
        values = features
        for weights, biases in hidden:
            values = weights.T @ values + biases[:, None]
            values = jnp.maximum(values, 0.0) if self.activation == "relu" else jnp.tanh(values)
        values = last.T @ values + last_bias[:, None]
        largest = min(LARGEST_OUTPUT, float(jnp.finfo(values.dtype).max))  # of single precision: less
        return jnp.nan_to_num(values, nan=0.0, posinf=largest, neginf=-largest)

    def block_loss(self, theta: Any, block: Any, data: Any) -> Any:
        """The summed loss of one block of records, of which the last ones may be padding."""
        loss, facts = LOSSES[self.family], data["facts"]
        eta = loss.eta(self.outputs(theta, block["features"]), facts)
        scale = above(data["noise"]["floor"], theta[-1])[0] if "noise" in data else None
        return loss.beta_loss(block["response"], eta, scale, data["beta"], facts) @ block["counts"]

    def __call__(self, theta: Any, data: Any) -> Any:
        jnp = importlib.import_module("jax.numpy")
        prior = -0.5 * jnp.square(theta[: self.layers.size] / data["prior_scale"]).sum()
        if "noise" in data:
            prior += log_scale_prior(theta[-1], **data["noise"])
        return prior - data["weight"] * _summed(self)(theta, data)


def log_scale_prior(u: Any, floor: Any, shape: Any, rate: Any) -> Any:
    """Log density, up to a constant, of u where scale = floor + exp(u) and scale^2 is inverse-gamma."""
    jnp = importlib.import_module("jax.numpy")
    log_scale = jnp.logaddexp(jnp.log(floor), u)
    return u - (2.0 * shape + 1.0) * log_scale - rate * jnp.exp(-2.0 * log_scale)


@functools.lru_cache(maxsize=32)
def _summed(density: NetworkDensity) -> Any:
    """The loss of all blocks; its gradient is added up along with it, not in a second pass."""
    jax = importlib.import_module("jax")

    def accumulated(of_block: Any, theta: Any, data: Any) -> Any:
        def block(number: Any) -> Any:
            return jax.tree.map(lambda leaf: jax.numpy.asarray(leaf)[number], data["blocks"])

        def add(number: Any, sums: Any) -> Any:
            return jax.tree.map(jax.numpy.add, sums, of_block(theta, block(number), data))

        shapes = jax.eval_shape(lambda: of_block(theta, block(0), data))
        zeros = jax.tree.map(lambda leaf: jax.numpy.zeros(leaf.shape, leaf.dtype), shapes)
        num = data.get("num_blocks", len(data["blocks"]["counts"]))
        return jax.lax.fori_loop(0, num, add, zeros)

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
    return padded_blocks(features, response, num=num, size=-(-len(response) // num))


def padded_blocks(features: Array, response: Array, *, num: int, size: int) -> dict[str, Array]:
    """The records as ``num`` blocks of ``size`` columns, the last of them padding."""
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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NetworkPosterior(Withheld):
    """The posterior of a network given records in working units; it shows none of them."""

    model: NetworkModel
    beta: float
    weight: float
    prior: Prior
    records: Records

    def __post_init__(self) -> None:
        known_loss(self.model.family)
        if self.prior.box is not None:
            raise InvalidInput("A network has no truncated prior. Leave the box out.")
        if (self.prior.noise is not None) != self.model.has_scale:
            raise InvalidInput("Expected a prior of the residual scale exactly where the model has one.")

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def density(self) -> NetworkDensity:
        model = self.model
        return NetworkDensity(layers=model.layers, activation=model.activation, family=model.family.name)

    @property
    def data(self) -> dict[str, Any]:
        """Arrays for ``density``."""
        family, noise = self.model.family, self.prior.noise
        facts = known_loss(family).facts(family, self.beta)
        data = {
            "beta": _number(self.beta),
            "weight": _number(self.weight),
            "prior_scale": _number(self.prior.scale),
            "facts": {name: _number(value) for name, value in facts.items()},
            "blocks": blocks_of(self.records.features, self.records.response),
        }
        if noise is not None:
            numbers = {"floor": noise.floor, "shape": noise.shape, "rate": noise.rate}
            data["noise"] = {name: _number(value) for name, value in numbers.items()}
        return data

    def log_density(self, thetas: Array) -> Array:
        """Up to a constant, of each row of ``thetas`` (m, p) in working coordinates."""
        with double_precision():
            return np.asarray(_evaluated(self.density)(thetas, self.data), dtype=np.float64)

    def initial(self, num: int, rng: np.random.Generator) -> Array:
        """Draws from the prior."""
        return self.prior.sample(rng, num, self.dim)

    def monitored(self, positions: Array) -> Array:
        """Outputs at public probe points and the log scale: weights themselves are not identified."""
        layers = self.model.layers
        outputs = forward(layers, self.model.activation, positions, probe_points(PROBES, layers.inputs))
        columns = outputs.reshape(len(positions), -1)
        return columns if self.prior.noise is None else np.column_stack([columns, positions[:, -1]])


def _number(value: Any) -> Array:
    return np.asarray(value, dtype=np.float64)
