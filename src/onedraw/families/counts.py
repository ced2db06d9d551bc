# SPDX-License-Identifier: Apache-2.0
"""Counts k = 0, 1, 2, ... with log link: f(k | eta) = exp(c_k + k t(eta) - A(eta)), mean exp(eta).

The Poisson and the negative binomial differ only in c, t and A; density, loss and derivatives are shared. The
power integral is a table (see ``_count_power``).

Guarantee:
    Every value of the loss lies in [0, 1/b]: log f and log I are held at or below 0, so that loss <= 1/b, and
    the loss is held at or above 0, where the exact one is by f(y)^beta <= I. Rounding and interpolation
    errors can therefore never break the certificate of a mass function. The range over the parameters of
    one record is smaller, see ``_count_range``.

>>> import numpy as np
>>> from onedraw.families import NegativeBinomial, Poisson
>>> near = NegativeBinomial(dispersion=1e7).beta_loss(np.array([3.0]), np.array([0.5]), 2.0)
>>> bool(np.isclose(near, Poisson().beta_loss(np.array([3.0]), np.array([0.5]), 2.0)))
True
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy import special

from onedraw.families._compose import compose_beta_loss
from onedraw.families._count_power import power_table
from onedraw.families._count_range import count_range
from onedraw.families.base import SMALL_B, Derivatives, MassFunction
from onedraw.families.certificate import LossBounds
from onedraw.families.noise_ratio import largest_ratio
from onedraw.families.reference import ReferenceTable
from onedraw.types import AnyArray, Array

_LARGEST_COUNT = 2.0**53
"""Beyond it a float64 no longer tells one whole number from the next."""

_LARGEST_LOG = 700.0
"""exp(700) is finite."""

LARGEST_LOG_MEAN = 34.0
"""Simulated counts have at most this log mean, so that they fit a 64-bit integer."""

REFERENCE_INTERCEPTS, REFERENCE_SPREAD, REFERENCE_COUNTS = (-1.0, 0.0, 1.0, 2.0, 3.0), 0.5, 600
SMALLEST_DRIFTING = -15.0


class CountFamily(MassFunction):
    """A count family with log link, from its three functions c, t and A and what the table of I asks."""

    response: ClassVar[str] = "counts (whole numbers from 0 to 2**53)"
    response_remedy: ClassVar[str] = "Use a linear regression for a continuous response."
    has_intervals: ClassVar[bool] = True
    ratio: ClassVar[str | None] = "rate ratio"
    takes_offset: ClassVar[bool] = True
    exponential_intercept: ClassVar[str] = "the mean count where every feature is 0"
    usual_spread: ClassVar[float] = 0.5

    @abstractmethod
    def log_coefficient(self, k: Array) -> Array:
        """c_k."""

    @abstractmethod
    def natural(self, eta: Array) -> tuple[Array, Array]:
        """t(eta) and A(eta), as new arrays."""

    @abstractmethod
    def slopes(self, k: Array, eta: Array) -> tuple[Array, Array]:
        """First and second derivative of log f(k | eta) in eta; small enough that squares are finite."""

    @abstractmethod
    def mode(self, eta: Array) -> Array:
        """A most probable count."""

    @abstractmethod
    def tail_ratio(self, k: float, eta: float) -> float:
        """An upper bound of f(j+1)/f(j) over all j >= k."""

    @abstractmethod
    def table_end(self, beta: float) -> float:
        """The eta at which the table of I ends and its asymptotic form takes over."""

    @abstractmethod
    def leading_term(self, eta: Array, beta: float) -> tuple[Array, Array, Array]:
        """L, L', L'', where log I - L settles as eta grows."""

    @abstractmethod
    def limit_rate(self, beta: float) -> float:
        """k such that log I - L settles as exp(-k eta)."""

    @abstractmethod
    def log_ratios(self, k: Array, eta: float) -> Array:
        """log f(k+1) - log f(k) for many counts at one eta; changes sign at most once, from plus to minus."""

    def term_slopes(self, k: Array, eta: float) -> tuple[Array, Array]:
        """``slopes`` for many counts at one eta."""
        return self.slopes(k, np.array(eta))

    def log_density(self, y: Array, eta: Array, scale: Array | None = None) -> Array:
        t, a = self.natural(eta)
        result = np.asarray(y * t)
        result -= a
        result += self.log_coefficient(y)
        return np.minimum(result, 0.0, out=result)

    def log_density_derivatives(self, y: Array, eta: Array, scale: Array | None = None) -> Derivatives:
        first, second = self.slopes(y, eta)
        return Derivatives(value=self.log_density(y, eta), d_eta=first, d2_eta=second)

    def power_integral(self, eta: Array, beta: float, scale: Array | None = None) -> Array:
        # The largest term bounds I from below. At zero it is exact; beyond the table the mode is either zero
        # or one of very many comparable counts, and no bound at all.
        table = power_table(self, beta)
        eta = np.asarray(eta, dtype=np.float64)
        inside = np.minimum(eta, table.end)
        mode = np.where(eta <= table.end, self.mode(inside), 0.0)
        largest = np.maximum(self.log_density(mode, eta), self.log_density(np.zeros(()), eta))
        return np.exp(np.maximum(table(eta), beta * largest))

    def beta_loss(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        return _loss_in_place(self.log_density(y, eta), power_table(self, beta)(eta), beta)

    def beta_loss_derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        log_integral, first, *rest = power_table(self, beta).derivatives(eta, order)
        total = np.exp(log_integral)
        second = total * (rest[0] + first * first) if rest else None
        integral = Derivatives(value=total, d_eta=total * first, d2_eta=second)
        log_density = self.log_density_derivatives(y, eta)
        loss = _loss_in_place(np.array(log_density.value), log_integral, beta)
        return compose_beta_loss(loss, log_density, integral, beta=beta, order=order)

    def loss_bounds(self, beta: float) -> LossBounds:
        return replace(super().loss_bounds(beta), parameter_range=count_range(self, beta))

    def mean(self, eta: Array) -> Array:
        return np.exp(np.clip(eta, -_LARGEST_LOG, _LARGEST_LOG))

    def in_support(self, y: Array) -> AnyArray:
        return np.asarray((y >= 0) & (y <= _LARGEST_COUNT) & (y == np.floor(y)))

    def rough_predictor(self, y: Array) -> Array:
        return np.log(y + 0.5)

    def reference_table(self, scale: float) -> ReferenceTable:
        centres = np.array(REFERENCE_INTERCEPTS)
        intercepts = np.full(centres.size, 1.0 / centres.size)
        return self._reference(np.arange(REFERENCE_COUNTS + 1.0), centres, intercepts, REFERENCE_SPREAD)

    def usual_intercept(self, fit_intercept: bool) -> float:
        return 0.0

    @abstractmethod
    def enough_counts(self, eta: float) -> int:
        """A count beyond which there is next to no probability, for this and all smaller predictors."""

    @property
    def largest_drifting(self) -> float:
        """The largest predictor at which the curvature of the loss is followed: a mean count of 148."""
        return 5.0

    def drift_support(self, eta: Array) -> tuple[Array, Array]:
        largest = self.largest_drifting
        return np.arange(self.enough_counts(largest) + 1.0), np.clip(eta, SMALLEST_DRIFTING, largest)

    def noise_ratio_on(self, grid: Array, beta: float) -> float:
        """The largest noise ratio on an increasing grid of predictors, by sums over counts."""
        largest = 0.0
        for eta in np.array_split(grid, 1 + len(grid) // 64):
            y = np.arange(float(self.enough_counts(float(eta[-1]))))[:, None]
            eta = np.broadcast_to(eta, (len(y), len(eta)))
            largest = max(largest, largest_ratio(self.log_density(y, eta), self.slopes(y, eta)[0], beta))
        return largest


def _loss_in_place(log_density: Array, log_integral: Array, beta: float) -> Array:
    """(1 - f^b)/b - (1 - I)/beta, held at or above 0, overwriting both arrays."""
    b, loss, missing = beta - 1.0, log_density, log_integral
    loss *= b
    if b < SMALL_B:
        np.expm1(loss, out=loss)
    else:
        np.exp(loss, out=loss)
        loss -= 1.0
    loss *= -1.0 / b
    np.expm1(missing, out=missing)
    missing *= 1.0 / beta
    loss += missing
    return np.maximum(loss, 0.0, out=loss)


def negative_log_factorial(k: Array) -> Array:
    """-log k!."""
    return -special.gammaln(k + 1.0)  # type: ignore[no-any-return]
