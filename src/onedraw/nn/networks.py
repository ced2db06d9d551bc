# SPDX-License-Identifier: Apache-2.0
"""The posterior of a neural network under the beta-divergence loss, as a density that NUTS can follow.

All weights and biases have the prior N(0, prior_scale^2); the squared residual scale of a regression is
inverse-gamma above its floor (``onedraw.priors``) and enters through u with scale = floor + exp(u).
``onedraw.model.network`` has the layout of the parameters and the same forward pass in NumPy.

Guarantee:
    The loss of a record is that of its family, whose certificate holds for every value of the outputs. So
    the sensitivity knows nothing of depth, width, activation or weights; for regression it uses the floor of
    the scale, which no draw can be below.

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

PROBES = 8
"""Public points at which the chains' predictions are compared."""


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
        """Linear outputs (n, q) of one network (p,)."""
        jnp = importlib.import_module("jax.numpy")
        *hidden, (last, last_bias) = self.shape.unpack(theta)
        values = features
        for weights, biases in hidden:
            values = values @ weights + biases
            values = jnp.maximum(values, 0.0) if self.activation == "relu" else jnp.tanh(values)
        return values @ last + last_bias

    def __call__(self, theta: Any, data: Any) -> Any:
        jnp = importlib.import_module("jax.numpy")
        weights = theta[: self.shape.size]
        prior = -0.5 * jnp.square(weights / data["prior_scale"]).sum()
        outputs = self.outputs(theta, data["features"])
        response, beta = data["response"], data["beta"]
        if self.family == "bernoulli":
            losses = likelihood.bernoulli_loss(response, outputs[:, 0], beta)
        elif self.family == "categorical":
            losses = likelihood.categorical_loss(response, outputs @ data["contrasts"].T, beta)
        else:
            scale, log_jacobian = above(data["floor"], theta[-1])
            log_scale = jnp.logaddexp(jnp.log(data["floor"]), theta[-1])
            prior += log_jacobian - (2.0 * data["shape"] + 1.0) * log_scale
            prior -= data["rate"] * jnp.exp(-2.0 * log_scale)
            losses = likelihood.gaussian_loss(response, outputs[:, 0], scale, beta, data["floor"])
        return prior - data["weight"] * losses.sum()


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
            "features": self.features,
            "response": self.response,
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
        return {name: np.asarray(value, dtype=np.float64) for name, value in data.items()}

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
