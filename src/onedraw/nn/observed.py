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

>>> law = ObservedLaw(loss=DeclaredLoss(0.0))
>>> bounds = law.loss.loss_bounds(2.0)
>>> bounds.upper - bounds.lower == bounds.observation_sensitivity == bounds.parameter_range
True
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Family, Gaussian, Laplace, Poisson, StudentT
from onedraw.families.certificate import bounded_density_bounds
from onedraw.losses import BetaDivergence, Loss, LossBounds
from onedraw.nn.likelihood import LOSSES, declared_loss
from onedraw.types import Array

TINY = 1e-300


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
    """What calibration at a given beta asks of a family: that its density is bounded."""

    log_sup_density: float
    name: ClassVar[str] = "declared"
    scale_floor: ClassVar[None] = None

    def loss_bounds(self, beta: float) -> LossBounds:
        """The certificate of any bounded density."""
        return bounded_density_bounds(beta, self.log_sup_density)


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
        """The certificate of its bound."""
        return BetaDivergence(self.family).loss_bounds(beta)


@dataclass(frozen=True)
class Reader:
    """How a NumPyro distribution of one record is read.

    Attributes:
        family: from the distribution of a made-up record and the floor of its scale, the family.
        eta: what the losses of ``onedraw.nn.likelihood`` take for ``eta``.
        scale: the scale, of those that have one.
        fixed: numbers that must be public constants, because the certificate depends on them.
    """

    family: Callable[[Any, Any], Family]
    eta: Callable[[Any], Any]
    scale: Callable[[Any], Any] | None = None
    fixed: Callable[[Any], tuple[float, ...]] = lambda law: ()


def _array(value: Any, shape: tuple[int, ...] = ()) -> Any:
    jnp = importlib.import_module("jax.numpy")
    return jnp.reshape(jnp.asarray(value), shape)


def _log(value: Any) -> Any:
    jnp = importlib.import_module("jax.numpy")
    return jnp.log(jnp.maximum(value, TINY))


def _classes(law: Any, floor: float | None) -> Categorical:
    return Categorical(num_classes=int(law.probs.shape[-1]))


def _student_t(law: Any, floor: Any) -> StudentT:
    return StudentT(df=_degrees(law)[0], scale_floor=floor)


def _degrees(law: Any) -> tuple[float, ...]:
    return (float(np.ravel(law.df)[0]),)


def _location(law: Any) -> Any:
    return _array(law.loc)


def _scale(law: Any) -> Any:
    return _array(law.scale)


READERS: Mapping[str, Reader] = {
    "BernoulliLogits": Reader(lambda law, floor: Bernoulli(), lambda law: _array(law.logits)),
    "BernoulliProbs": Reader(
        lambda law, floor: Bernoulli(), lambda law: _array(_log(law.probs) - _log(1.0 - law.probs))
    ),
    "CategoricalLogits": Reader(_classes, lambda law: _array(law.logits, (-1,))),
    "CategoricalProbs": Reader(_classes, lambda law: _array(_log(law.probs), (-1,))),
    "Poisson": Reader(lambda law, floor: Poisson(), lambda law: _array(_log(law.rate))),
    "Normal": Reader(lambda law, floor: Gaussian(scale_floor=floor), _location, _scale),
    "Laplace": Reader(lambda law, floor: Laplace(scale_floor=floor), _location, _scale),
    "StudentT": Reader(_student_t, _location, _scale, _degrees),
}
"""The distributions with a certificate, by the name of their class in NumPyro."""
KNOWN = "Bernoulli, Categorical, Normal, StudentT, Laplace and Poisson"


@dataclass(frozen=True, kw_only=True)
class ObservedLaw:
    """Which loss the responses have, and how it is read from their distribution."""

    loss: Loss
    reader: Reader | None = None
    """None of a declared density."""
    fixed: tuple[float, ...] = ()
    """Public constants of the distribution, which must not vary."""
    declared: DeclaredDensity | None = None

    @classmethod
    def of(cls, law: Any, floor: float | None, declared: DeclaredDensity | None) -> ObservedLaw:
        """From the distribution of a made-up record; without a certificate it is refused, with the reason."""
        name = type(law).__name__
        if declared is not None:
            if not 0.0 < declared.bound < np.inf:
                raise InvalidInput(f"Expected a bound > 0 and finite on the density, got {declared.bound!r}.")
            return cls(loss=DeclaredLoss(float(np.log(declared.bound))), declared=declared)
        if name not in READERS:
            raise InvalidInput(
                f"The observed site has the distribution {name}, for which no bound of the loss is proved "
                f"here; known are {KNOWN}. Pass declared=DeclaredDensity(bound=..., power_integral=...) if "
                "its density is bounded, and a beta."
            )
        reader = READERS[name]
        if reader.scale is not None and floor is None:
            raise InvalidInput(
                f"A {name} density is bounded only if its scale is. Pass noise_floor=..., the smallest scale "
                "that the model may use; smaller ones are read as that."
            )
        return cls(loss=BetaDivergence(reader.family(law, floor)), reader=reader, fixed=reader.fixed(law))

    def facts(self, beta: float) -> dict[str, Any]:
        """What the loss needs beside the distribution and beta."""
        family = self.loss.family
        return {} if self.reader is None else LOSSES[family.name].facts(family, beta)

    def varies(self, law: Any) -> bool:
        """Whether another distribution of the same site has other values of what must be fixed."""
        return self.reader is not None and self.reader.fixed(law) != self.fixed

    def loss_of(self, law: Any, response: Any, data: Any) -> Any:
        """The loss of one response under its distribution, within ``data["bounds"]``."""
        jnp, (lower, upper) = importlib.import_module("jax.numpy"), data["bounds"]
        loss = self._computed(law, _array(response), data)
        return jnp.clip(jnp.where(jnp.isnan(loss), upper, loss), lower, upper)

    def _computed(self, law: Any, y: Any, data: Any) -> Any:
        beta = data["beta"]
        if self.declared is not None:
            log_bound = self.loss.family.log_sup_density
            integral = _array(self.declared.power_integral(law, beta))
            return declared_loss(_array(law.log_prob(y)), integral, beta, log_bound)
        assert self.reader is not None
        scale = None if self.reader.scale is None else self.reader.scale(law)
        loss = LOSSES[self.loss.family.name]
        return loss.beta_loss(y, self.reader.eta(law), scale, beta, data["facts"])


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
