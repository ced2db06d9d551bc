# SPDX-License-Identifier: Apache-2.0
"""Output densities that are known in closed form, found independently of the mechanism's own arithmetic.

* Output perturbation: Laplace or spherical noise around the minimiser, which SciPy finds.
* Draws of a mean or of a logit from a conjugate posterior: a normal law, and that of the logit of a Beta.
* One step of gradient descent in full batches, by ``DPSGD`` and its relatives: a normal law around minus the
  learning rate times the sum of the clipped gradients at the public start, which are written down by hand.

The data sets and the mechanism's public numbers determine them, so the attacker knows them too.

>>> density = NormalDensity(location=np.zeros(2), scale=2.0)
>>> bool(np.isclose(density.log_density(np.zeros((1, 2)))[0], -np.log(2.0 * np.pi * 4.0)))
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from scipy import optimize, special

from onedraw._validate import one_of, positive
from onedraw.errors import InvalidInput
from onedraw.mechanisms import BetaBernoulliDraw, GaussianMeanDraw, OutputPerturbation, Records
from onedraw.nn.beta_sgd import BetaSGD
from onedraw.nn.dp_vi import DPVI, START
from onedraw.nn.noisy_gradients import NoisyGradients
from onedraw.types import Array


class Density(Protocol):
    """A log density of outputs, up to a constant of its own. A ``Posterior`` is one."""

    def log_density(self, thetas: Array) -> Array: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseDensity:
    """Noise around a location (p,): density proportional to exp(-|theta - location|/scale).

    ``spherical`` takes the Euclidean length, ``laplace`` the sum of absolute values.
    """

    location: Array
    scale: float
    noise: Literal["spherical", "laplace"] = "spherical"

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        one_of(("spherical", "laplace"), noise=self.noise)

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row of ``thetas``."""
        away = thetas - self.location
        dim = thetas.shape[1]
        if self.noise == "laplace":
            return np.asarray(-np.abs(away).sum(axis=1) / self.scale - dim * math.log(2.0 * self.scale))
        # The radius is Gamma(p, scale) in a uniform direction: |S^(p-1)| = 2 pi^(p/2)/Gamma(p/2).
        log_sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)
        constant = math.lgamma(dim) + dim * math.log(self.scale) + log_sphere
        return np.asarray(-np.linalg.norm(away, axis=1) / self.scale - constant)


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalDensity:
    """Independent normal noise of standard deviation ``scale`` around a location (p,)."""

    location: Array
    scale: float

    def __post_init__(self) -> None:
        positive(scale=self.scale)

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row of ``thetas``."""
        squares = np.square((thetas - self.location) / self.scale).sum(axis=1)
        return np.asarray(-0.5 * squares - thetas.shape[1] * math.log(self.scale * math.sqrt(2.0 * math.pi)))


@dataclass(frozen=True, kw_only=True, eq=False)
class LogitBetaDensity:
    """The logit of a Beta(ones, zeros) variable."""

    ones: float
    zeros: float

    @property
    def location(self) -> Array:
        """Its mean, (1,)."""
        return np.array([special.digamma(self.ones) - special.digamma(self.zeros)])

    @property
    def scale(self) -> float:
        """Its standard deviation."""
        return math.sqrt(special.zeta(2.0, self.ones) + special.zeta(2.0, self.zeros))

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row of ``thetas``."""
        logit = thetas[:, 0]
        logs = self.ones * special.log_expit(logit) + self.zeros * special.log_expit(-logit)
        return np.asarray(logs - special.betaln(self.ones, self.zeros))


AroundLocation = NoiseDensity | NormalDensity | LogitBetaDensity


def has_known_density(mechanism: Any) -> bool:
    """Whether ``known_density`` knows the mechanism."""
    if isinstance(mechanism, NoisyGradients):
        return is_one_step(mechanism)
    return isinstance(mechanism, OutputPerturbation | BetaBernoulliDraw | GaussianMeanDraw)


def has_exact_density(mechanism: Any) -> bool:
    """Whether what it knows leaves nothing out."""
    return has_known_density(mechanism) and not isinstance(mechanism, DPVI)


def known_density(mechanism: Any, data: Records, model: Any) -> AroundLocation:
    """The density of the mechanism's release on the data; of several draws, that of their mean."""
    if not has_known_density(mechanism):
        raise InvalidInput(
            f"The output density of {type(mechanism).__name__} is not known here: use black_box_audit, which "
            "needs its outputs only."
        )
    if isinstance(mechanism, OutputPerturbation):
        return output_density(mechanism, data, model)
    if isinstance(mechanism, BetaBernoulliDraw):
        ones, zeros = (mechanism.weight * float(np.sum(data.response == y)) for y in (1.0, 0.0))
        return LogitBetaDensity(ones=mechanism.prior[0] + ones, zeros=mechanism.prior[1] + zeros)
    if isinstance(mechanism, GaussianMeanDraw):
        return mean_density(mechanism, data)
    return one_step_density(mechanism, data)


def mean_density(mechanism: GaussianMeanDraw, data: Records) -> NormalDensity:
    """The posterior of a mean under N(0, s^2), each response counting for the weight over r^2."""
    bound = positive(response_bound=mechanism.response_bound)
    held = np.clip(data.response, -bound, bound)
    per_record = mechanism.weight / mechanism.noise_scale**2
    precision = mechanism.prior_scale**-2 + per_record * len(held)
    location = np.array([per_record * held.sum() / precision])
    return NormalDensity(location=location, scale=1.0 / math.sqrt(precision))


def output_density(mechanism: OutputPerturbation, data: Records, model: Any) -> NoiseDensity:
    """The density of an output perturbation, its minimiser found independently of the mechanism's solver."""
    norm = positive(feature_norm=mechanism.feature_norm)
    design = np.column_stack([data.features, np.ones((len(data.features), int(model.fit_intercept)))])
    design /= np.maximum(1.0, np.linalg.norm(design, axis=1, keepdims=True) / norm)
    signs = 2.0 * data.response - 1.0

    def objective(theta: Array) -> tuple[float, Array]:
        margin = signs * (design @ theta)
        slope = -(design.T @ (signs * special.expit(-margin))) / len(signs)
        value = np.logaddexp(0.0, -margin).mean() + 0.5 * mechanism.regularisation * float(theta @ theta)
        return float(value), slope + mechanism.regularisation * theta

    start = np.zeros(design.shape[1])
    location = optimize.minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x
    scale = mechanism.noise_scale(num_records=len(signs), dim=len(start))
    return NoiseDensity(location=location, scale=scale, noise=mechanism.noise)


def is_one_step(mechanism: NoisyGradients) -> bool:
    """Whether it makes one plain step, in full batches, on two classes without a hidden layer."""
    plan, model = mechanism.plan, mechanism.model
    whole_batches = plan.sampling.rate == 1.0 and plan.sampling.steps == 1 and plan.optimiser == "sgd"
    return whole_batches and not model.hidden_layer_sizes and len(model.classes or ()) == 2


def one_step_density(mechanism: NoisyGradients, data: Records) -> NormalDensity:
    """The law of the parameters after one step from 0.

    At 0 both classes have probability 1/2, where the slope of the loss in the output is 1/2 for -log f and
    2^-beta for the beta-divergence. ``DPVI`` starts with a small spread, which is left out of the gradients
    (and the mean of its draws has a little noise more): its law is an approximation.
    """
    features = data.features
    if isinstance(mechanism, BetaSGD):
        room = math.sqrt(positive(feature_norm=mechanism.feature_norm) ** 2 - 1.0)
        features = features / np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True) / room)
    beta: float | None = getattr(mechanism, "beta", None)
    slope = 0.5 if beta is None else 0.5**beta
    slope *= float(getattr(mechanism, "weight", 1.0))
    design = np.column_stack([features, np.ones(len(features))])
    gradients = slope * (1.0 - 2.0 * data.response)[:, None] * design
    plan = mechanism.plan
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped = gradients / np.maximum(1.0, lengths / plan.clip)
    rate = plan.learning_rate / plan.expected
    scale = rate * plan.noise
    if isinstance(mechanism, DPVI):
        scale = math.hypot(scale, START * mechanism.prior_scale / math.sqrt(mechanism.draws))
    return NormalDensity(location=-rate * clipped.sum(axis=0), scale=scale)
