# SPDX-License-Identifier: Apache-2.0
"""What a family of conditional distributions f(y | eta, scale) must answer.

A family is the statistical half of a model: given the linear predictor ``eta`` (and, for families
that have one, the ``scale``) it knows the density of the response, a bound on it, the integral of
its powers, and the beta-divergence loss with derivatives. It knows nothing of features, priors,
weights or privacy; the certificate that turns its bound into a sensitivity is in ``onedraw.losses``.

**The loss.** With b = beta - 1 > 0 and I = sum or integral of f^beta over all responses,

    loss(y, eta) = (1 - f(y)^b) / b - (1 - I) / beta.

This is the beta-divergence loss -f^b/b + I/beta plus the constant 1/b - 1/beta, which changes no
posterior, and buys two things: as beta -> 1 it *is* the negative log density (no 1/b to cancel), and
for a probability mass function it lives in exactly [0, 1/b].

Shapes: ``eta`` is (rows, columns), one column per parameter value; ``y`` is (rows, 1), or anything
that broadcasts; ``scale`` is a scalar or (1, columns). Families with several predictors (the
categorical) take ``eta`` as (predictors, rows, columns). Results have the broadcast shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw.types import Array

SMALL_B = 0.05
"""Below this b = beta - 1, differences such as 1 - f^b are formed with expm1 to keep their digits."""


@dataclass(frozen=True, kw_only=True)
class Derivatives:
    """A function's value and partial derivatives in the linear predictor and the scale.

    ``d2_*`` are filled only where second derivatives were asked for, ``*_scale`` only for families
    with a scale. For several predictors ``d_eta`` is (q, rows, columns) and ``d2_eta`` (q, q, rows, columns).
    """

    value: Array
    d_eta: Array
    d2_eta: Array | None = None
    d_scale: Array | None = None
    d2_scale: Array | None = None
    d_eta_scale: Array | None = None


class Family(ABC):
    """A conditional distribution of one response given its linear predictor.

    Subclasses are frozen dataclasses. All methods are pure and vectorised, and stay finite for
    ``|eta|`` up to 1e4 and beta - 1 from 1e-8 to 20.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    has_scale: ClassVar[bool] = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    @property
    def num_predictors(self) -> int:
        """How many linear predictors one record has (1, except for the categorical family)."""
        return 1

    @property
    @abstractmethod
    def log_sup_density(self) -> float:
        """log M, where M is the supremum of the density over responses, predictors and scales."""

    @abstractmethod
    def log_density(self, y: Array, eta: Array, scale: Array | None = None) -> Array:
        """log f(y | eta, scale)."""

    @abstractmethod
    def log_density_derivatives(self, y: Array, eta: Array, scale: Array | None = None) -> Derivatives:
        """log f with first and second derivatives."""

    @abstractmethod
    def power_integral(self, eta: Array, beta: float, scale: Array | None = None) -> Array:
        """I = integral (or sum) of f(u | eta, scale)^beta over all responses u."""

    @abstractmethod
    def beta_loss(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        """The loss of the module docstring; the hot path of every sampler."""

    @abstractmethod
    def beta_loss_derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        """The loss with derivatives up to ``order`` (1 or 2)."""

    @abstractmethod
    def sample(self, eta: Array, rng: np.random.Generator, scale: Array | None = None) -> Array:
        """Responses drawn from the model, for simulation and planning; never from private data."""

    def signs(self, y: Array) -> Array | None:
        """s = +-1 with f(y | eta) = f(0 | s eta) and the same power integral; None if there are none."""
        return None

    @abstractmethod
    def check_response(self, y: Array) -> None:
        """Raise ``InvalidInput`` if ``y`` is not in the support (without quoting any value of it)."""


class MassFunction(Family):
    """A family of discrete responses, so f <= 1.

    Implementations must return a power integral with max_u f(u)^beta <= I <= 1. The certificate
    needs only that, so a truncated sum is as private as an exact one.
    """

    @property
    def log_sup_density(self) -> float:
        return 0.0


class LocationScale(Family):
    """A family f(y) = g((y - eta)/scale)/scale with scale >= ``scale_floor``, so f <= sup g / floor."""

    has_scale: ClassVar[bool] = True
    scale_floor: float

    @property
    @abstractmethod
    def log_sup_standard(self) -> float:
        """log sup g, for the standard density g."""

    @abstractmethod
    def log_standard_power_integral(self, beta: float) -> float:
        """log of the integral of g^beta, a constant of the family."""

    @property
    def log_sup_density(self) -> float:
        return self.log_sup_standard - float(np.log(self.scale_floor))
