# SPDX-License-Identifier: Apache-2.0
"""The distribution of a NumPyro model's observed site: its certificate, and the loss of one response.

Guarantee:
    The loss is within the certificate of its family for anything that a model hands over, and where the
    result is not a number it counts as the largest loss there is. *Why that is enough.* The certificate is an
    interval [lower, upper] of the loss at beta, whose width is at least its two widths S and R
    [``onedraw.losses.beta_divergence``: they are equal]. Whatever function of (record, theta) a model
    defines, the loss used is a function of the same two with values in that interval, defined everywhere. So
    it moves by at most S between records and by at most R between parameters, which is all that calibration
    uses. []

>>> law = ObservedLaw(kind="declared", loss=DeclaredLoss(0.0))
>>> bounds = law.loss.loss_bounds(2.0)
>>> bounds.upper - bounds.lower == bounds.observation_sensitivity == bounds.parameter_range
True
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Family, Gaussian, Laplace, Poisson, StudentT
from onedraw.families._count_power import power_table
from onedraw.losses import BetaDivergence, Loss, LossBounds
from onedraw.nn import likelihood
from onedraw.types import Array

TINY = 1e-300
KNOWN = "Bernoulli, Categorical, Normal, StudentT, Laplace and Poisson"


@dataclass(frozen=True, kw_only=True)
class DeclaredDensity:
    """What a user declares of an observed distribution that has no certificate here.

    Args:
        bound: M, which no value of the density exceeds; a density above it is read as M.
        power_integral: called with the distribution of one record and beta, the integral of its density to
            the power beta, as a JAX number; read as being between 0 and M^(beta - 1).
    """

    bound: float
    power_integral: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class _AnyDensity:
    """What the certificate of a bounded density asks of its family."""

    log_sup_density: float
    name: str = "declared"


@dataclass(frozen=True)
class DeclaredLoss:
    """The beta-divergence loss of a density that is at most exp(log_bound), and nothing more is known."""

    log_bound: float

    @property
    def family(self) -> Any:
        """A bound and a name."""
        return _AnyDensity(self.log_bound)

    def value(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        """Not known outside the program."""
        raise InvalidInput("The loss of a declared density is known inside its program only.")

    derivatives: Any = value

    def loss_bounds(self, beta: float) -> LossBounds:
        """The certificate of any bounded density, which asks for no family beyond its bound."""
        return BetaDivergence(self.family).loss_bounds(beta)


@dataclass(frozen=True, kw_only=True)
class ObservedLaw:
    """Which loss the responses have; ``df`` is of a Student-t alone."""

    kind: str
    loss: Loss
    floor: float | None = None
    df: float | None = None
    declared: DeclaredDensity | None = None

    @classmethod
    def of(cls, law: Any, floor: float | None, declared: DeclaredDensity | None) -> ObservedLaw:
        """From the distribution of a made-up record; without a certificate it is refused, with the reason."""
        name = type(law).__name__
        if declared is not None:
            if not 0.0 < declared.bound < np.inf:
                raise InvalidInput(f"Expected a bound > 0 and finite on the density, got {declared.bound!r}.")
            loss = DeclaredLoss(float(np.log(declared.bound)))
            return cls(kind="declared", loss=loss, declared=declared)
        if name in ("BernoulliLogits", "BernoulliProbs"):
            return cls(kind="bernoulli", loss=BetaDivergence(Bernoulli()))
        if name in ("CategoricalLogits", "CategoricalProbs"):
            family: Family = Categorical(num_classes=int(_logits(law).shape[-1]))
            return cls(kind="categorical", loss=BetaDivergence(family))
        if name == "Poisson":
            return cls(kind="poisson", loss=BetaDivergence(Poisson()))
        if name not in ("Normal", "StudentT", "Laplace"):
            raise InvalidInput(
                f"The observed site has the distribution {name}, for which no bound of the loss is proved "
                f"here; known are {KNOWN}. Pass declared=DeclaredDensity(bound=..., power_integral=...) if "
                "its density is bounded, and a beta."
            )
        if floor is None:
            raise InvalidInput(
                f"A {name} density is bounded only if its scale is. Pass noise_floor=..., the smallest scale "
                "that the model may use; smaller ones are read as that."
            )
        if name == "StudentT":
            df = float(np.ravel(law.df)[0])
            family = StudentT(df=df, scale_floor=floor)
            return cls(kind="student_t", loss=BetaDivergence(family), floor=floor, df=df)
        family = Gaussian(scale_floor=floor) if name == "Normal" else Laplace(scale_floor=floor)
        return cls(kind=family.name, loss=BetaDivergence(family), floor=floor)

    def table(self, beta: float) -> dict[str, Any]:
        """What the loss of counts needs beside beta."""
        return likelihood.log_power_table(power_table(Poisson(), beta)) if self.kind == "poisson" else {}

    def loss_of(self, law: Any, response: Any, data: Any) -> Any:
        """The loss of one response under its distribution, within ``data["bounds"]``."""
        jnp, (lower, upper) = importlib.import_module("jax.numpy"), data["bounds"]
        loss = self._computed(law, jnp.reshape(response, ()), data)
        return jnp.clip(jnp.where(jnp.isnan(loss), upper, loss), lower, upper)

    def _computed(self, law: Any, y: Any, data: Any) -> Any:
        jnp, beta = importlib.import_module("jax.numpy"), data["beta"]

        def single(value: Any) -> Any:
            return jnp.reshape(jnp.asarray(value), ())

        if self.declared is not None:
            assert isinstance(self.loss, DeclaredLoss)
            integral = single(self.declared.power_integral(law, beta))
            return likelihood.declared_loss(single(law.log_prob(y)), integral, beta, self.loss.log_bound)
        if self.kind == "bernoulli":
            return likelihood.bernoulli_loss(y, single(_log_odds(law)), beta)
        if self.kind == "categorical":
            logits = jnp.reshape(_logits(law), (-1,))
            return likelihood.categorical_loss(jnp.clip(y, 0, logits.shape[0] - 1), logits, beta)
        if self.kind == "poisson":
            log_mean = jnp.log(jnp.maximum(single(law.rate), TINY))
            return likelihood.poisson_loss(y, log_mean, beta, data["table"])
        location, scale = single(law.loc), single(law.scale)
        if self.df is not None:
            return likelihood.student_t_loss(y, location, scale, beta, self.floor, self.df)
        loss = {"gaussian": likelihood.gaussian_loss, "laplace": likelihood.laplace_loss}[self.kind]
        return loss(y, location, scale, beta, self.floor)


def bare(law: Any, site: str) -> Any:
    """The distribution inside expansions; masks change what is summed and are refused."""
    distributions = importlib.import_module("numpyro.distributions")
    while isinstance(law, distributions.ExpandedDistribution | distributions.Independent):
        law = law.base_dist
    if isinstance(law, distributions.MaskedDistribution):
        raise InvalidInput(
            f"Site {site!r} is masked, which changes what its density counts for. Leave the mask out, and "
            "the records that should not count."
        )
    return law


def _log_odds(law: Any) -> Any:
    if type(law).__name__ == "BernoulliLogits":
        return law.logits
    jnp = importlib.import_module("jax.numpy")
    return jnp.log(jnp.maximum(law.probs, TINY)) - jnp.log(jnp.maximum(1.0 - law.probs, TINY))


def _logits(law: Any) -> Any:
    if type(law).__name__ == "CategoricalLogits":
        return law.logits
    jnp = importlib.import_module("jax.numpy")
    return jnp.log(jnp.maximum(law.probs, TINY))
