# SPDX-License-Identifier: Apache-2.0
"""Convex losses f(y, eta) with a bounded score: what the tilted fit can calibrate.

Guarantee:
    ``joint_loss(u, k)`` is an upper bound of

        sup over (y, eta) of one record of   a u + log det(I + k f''),    a = |f'|/score_bound,

    the one quantity of a loss on which the privacy of the tilted fit rests (see ``calibration``). A large
    score comes with a small curvature, so the two suprema are not added.

*Logistic*, f = the log loss + c (pi - y)^2, pi the probability of class 1 and c = ``brier`` in [0, 1/2]. Both
are proper scores, so their sum is least at the true probabilities, as the log loss alone is; its weights
omega(pi) = 1 + 2 c pi (1 - pi) make the score (pi - y) omega(pi) no larger at its largest, and its slope up
to 1 + c/2 times as large. With q = |pi - y|, whatever y: a = q (1 + 2 c q (1 - q)), da/dq = 1 + 4 c q - 6 c
q^2 >= min(1, 1 - 2 c) >= 0, so f is convex, f'' = q (1 - q) da/dq, and a <= a(1) = 1. 1 - a = (1 - q)(1 - 2 c
q^2), and f'' <= (1 + 2 c)(1 - a), since (1 + 2 c)(1 - 2 c q^2) - q (1 + 4 c q - 6 c q^2) is concave in c and
nonnegative at both ends: 1 - q at c = 0, (1 - q)^2 (2 + 3 q) at c = 1/2. So for k (1 + 2 c) <= u the supremum
is u: the curvature costs nothing. Otherwise it is at q = 1 or where the derivative in q, a polynomial over
a positive one, is zero.
*Shares*, y anywhere in [0, 1]: f is (1 - y) times that of class 0 and y times that of class 1, so slope and
curvature are linear in y, and |f'| <= 1 and f'' are within their bounds. For y from 0 to pi, a = (pi - y)
(1 + 2 c v) with v = pi (1 - pi), and f'' changes by -2 c v (1 - 2 pi) y. So a u + log(1 + k f'') falls
wherever 2 c k v |1 - 2 pi| <= u (1 + 2 c v), which is so at every pi for 2 c k <= 6 sqrt(3) u, as v |1 - 2
pi| <= 1/(6 sqrt(3)); likewise it rises from pi to 1. The supremum is then that of y in {0, 1}; beyond, both
suprema are added. f'' <= (1 + 2 c)(1 - a) is linear in y on either side of pi as well: it holds at both ends.
*Log-cosh*, f = c^2 log cosh((y - eta)/c): a = |tanh|, f'' = 1 - a^2, h'(a) = u - 2 k a/(1 + k (1 - a^2)),
whose last term increases in a up to 2k. So for k <= u/2 the supremum is again h(1) = u.

The *value* of the loss is never needed: the solver looks for the zero of a strongly monotone gradient.

>>> import numpy as np
>>> Logistic().joint_loss(0.5, 0.5), round(Logistic().joint_loss(0.5, 2.0), 3)
(0.5, 0.701)
>>> Logistic(brier=0.5).joint_loss(0.5, 0.25), Logistic(brier=0.5).slope(np.ones(1), np.zeros(1)).tolist()
(0.5, [-0.625])
>>> LogCosh(cut=1.5).slope(np.array([9.0]), np.array([0.0])).round(3)
array([-1.5])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.polynomial import Polynomial

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.types import Array


class Loss(Protocol):
    """A convex loss with bounded score. For q > 1 predictors ``eta`` is (n, q), otherwise (n,)."""

    @property
    def num_predictors(self) -> int: ...

    @property
    def score_bound(self) -> float:
        """B: the supremum of |f'| (in the norm of the law of the tilt)."""
        ...

    @property
    def curvature_bound(self) -> float:
        """c1: the supremum of f'' (of its largest eigenvalue)."""
        ...

    @property
    def trace_bound(self) -> float:
        """The supremum of the trace of f''; c1 with one predictor."""
        ...

    @property
    def price(self) -> float:
        """The share of epsilon paid for the curvature; 0 where the joint bound makes it free."""
        ...

    @property
    def accuracy(self) -> float:
        """A bound on the rounding error of ``slope``, relative to ``score_bound``, at a given eta."""
        ...

    @property
    def extends(self) -> bool:
        """Whether ``slope`` of a long double is as accurate as long doubles are."""
        ...

    @property
    def corners(self) -> int:
        """The number of extreme scores of a record besides 0, given its response and row."""
        ...

    @property
    def escape_ratio(self) -> float | None:
        """The multiple of k that a row of score 0 loses under a Gaussian tilt; None if nothing is known."""
        ...

    @property
    def information(self) -> Loss:
        """The loss whose curvature at the fit is released: this one, or another of the same probabilities."""
        ...

    def steepness(self, eta: Array) -> float:
        """About how many times as steep as ``information`` it is, where predictors are near eta (q,)."""
        ...

    def joint_loss(self, u: float, k: float) -> float:
        """An upper bound of sup a u + log det(I + k f'')."""
        ...

    def determinant_bound(self, k: float) -> float:
        """An upper bound of log det(I + k f'')."""
        ...

    def slope(self, y: Array, eta: Array) -> Array:
        """f' (n,) or (n, q), a new array."""
        ...

    def slope_and_curvature(self, y: Array, eta: Array) -> tuple[Array, Array]:
        """f' and f'': (n,) each, or (n, q) and (n, q, q)."""
        ...


L = TypeVar("L")


class ReleasedItself:
    """A loss whose own curvature is released."""

    @property
    def information(self: L) -> L:
        return self

    def steepness(self, eta: Array) -> float:
        return 1.0


LEAST_BRIER = 1e-3
STEEPEST = 6.0 * math.sqrt(3.0) * (1.0 - 1e-12)
"""The largest 2 c k/u for which a share costs no more than a class."""


@dataclass(frozen=True, kw_only=True)
class Logistic(ReleasedItself):
    """log(1 + exp(eta)) - y eta + ``brier`` (pi - y)^2 for y in {0, 1}, pi = 1/(1 + exp(-eta))."""

    brier: float = 0.0

    num_predictors: ClassVar[int] = 1
    score_bound: ClassVar[float] = 1.0
    price: ClassVar[float] = 0.0
    accuracy: ClassVar[float] = 1e-15
    extends: ClassVar[bool] = True
    corners: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.brier != 0.0 and not LEAST_BRIER <= self.brier <= 0.5:
            raise InvalidInput(
                f"Expected brier=0, or {LEAST_BRIER:g} <= brier <= 0.5, where the loss is convex with roots "
                f"far apart, got brier={self.brier!r}."
            )

    @property
    def curvature_bound(self) -> float:
        return _largest_curvature(self.brier)

    @property
    def trace_bound(self) -> float:
        return self.curvature_bound

    @property
    def escape_ratio(self) -> float | None:
        return 1.0 + 2.0 * self.brier

    def determinant_bound(self, k: float) -> float:
        return math.log1p(self.curvature_bound * k)

    def joint_loss(self, u: float, k: float) -> float:
        if k * (1.0 + 2.0 * self.brier) <= u:
            return u
        return _joint_logistic(self.brier, u, k)

    def slope(self, y: Array, eta: Array) -> Array:
        probability = _probability(eta)
        if not self.brier:
            probability -= y
            return probability
        weight = 1.0 - probability
        weight *= probability
        weight *= 2.0 * self.brier
        weight += 1.0
        probability -= y
        probability *= weight
        return probability

    def slope_and_curvature(self, y: Array, eta: Array) -> tuple[Array, Array]:
        probability = _probability(eta)
        curvature = 1.0 - probability
        curvature *= probability
        gap, c = probability, self.brier
        gap -= y
        if not c:
            return gap, curvature
        steepness = np.abs(gap)  # q, and then 1 + 4 c q - 6 c q^2
        steepness *= 4.0 * c - 6.0 * c * steepness
        steepness += 1.0
        gap *= 1.0 + 2.0 * c * curvature
        curvature *= steepness
        return gap, curvature


@dataclass(frozen=True, kw_only=True)
class LogisticShares(Logistic):
    """The same for y in [0, 1]: in the mean the probability that fits a share, whatever its law."""

    corners: ClassVar[int] = 2

    def joint_loss(self, u: float, k: float) -> float:
        if 2.0 * self.brier * k <= STEEPEST * u:
            return super().joint_loss(u, k)
        return _rounded_up(u + self.determinant_bound(k))

    def slope_and_curvature(self, y: Array, eta: Array) -> tuple[Array, Array]:
        probability = _probability(eta)
        variance, gap, c = probability * (1.0 - probability), probability - y, self.brier
        steepness = 1.0 + 2.0 * c * variance
        curvature = variance * (steepness + 2.0 * c * (1.0 - 2.0 * probability) * gap)
        return gap * steepness, curvature


@dataclass(frozen=True, kw_only=True)
class LogCosh(ReleasedItself):
    """cut^2 log cosh((y - eta)/cut): least squares near zero, absolute errors far out, smooth in between."""

    cut: float

    num_predictors: ClassVar[int] = 1
    curvature_bound: ClassVar[float] = 1.0
    trace_bound: ClassVar[float] = 1.0
    price: ClassVar[float] = 0.0
    accuracy: ClassVar[float] = 1e-15
    extends: ClassVar[bool] = True
    corners: ClassVar[int] = 2
    escape_ratio: ClassVar[float | None] = 2.0

    def __post_init__(self) -> None:
        positive(cut=self.cut)

    @property
    def score_bound(self) -> float:
        return self.cut

    def determinant_bound(self, k: float) -> float:
        return math.log1p(k)

    def joint_loss(self, u: float, k: float) -> float:
        if 2.0 * k <= u:
            return u
        # The root in (0, 1) of u (1 + k (1 - a^2)) = 2 k a.
        a = (1.0 + u * u * (1.0 + k) / k) ** 0.5 / u - 1.0 / u
        return _rounded_up(a * u + math.log1p(k * (1.0 - a * a)))

    def slope(self, y: Array, eta: Array) -> Array:
        relative = self._relative_score(y, eta)
        relative *= self.cut
        return relative

    def slope_and_curvature(self, y: Array, eta: Array) -> tuple[Array, Array]:
        relative = self._relative_score(y, eta)
        curvature = relative * relative
        np.subtract(1.0, curvature, out=curvature)
        relative *= self.cut
        return relative, curvature

    def _relative_score(self, y: Array, eta: Array) -> Array:
        relative = eta - y
        relative /= self.cut
        return np.asarray(np.tanh(relative, out=relative))


FIXED = np.linspace(0.0, 1.0, 17)
"""Places beside the roots: the bounds hold within a per cent or two even if a root were lost."""


@cache
def _logistic_polynomials(brier: float) -> tuple[Polynomial, Polynomial]:
    """a and f'' of the logistic loss, in q = |pi - y|."""
    score = Polynomial([0.0, 1.0, 2.0 * brier, -2.0 * brier])
    return score, Polynomial([0.0, 1.0, -1.0]) * score.deriv()


@cache
def _largest_curvature(brier: float) -> float:
    return _largest(_logistic_polynomials(brier)[1])


@cache
def _joint_logistic(brier: float, u: float, k: float) -> float:
    score, curvature = _logistic_polynomials(brier)
    steepness, product, change = _derivatives(brier)
    # The real parts of all roots: none is lost to rounding, and every place in [0, 1] is a record's.
    places = np.roots(u * steepness + u * k * product + k * change).real
    places = np.concatenate([np.clip(places, 0.0, 1.0), FIXED])
    return _rounded_up(float((u * score(places) + np.log1p(k * curvature(places))).max()))


@cache
def _derivatives(brier: float) -> tuple[Array, Array, Array]:
    """Coefficients of a', a' f'' and d f''/dq, the highest power first, all of the same length."""
    score, curvature = _logistic_polynomials(brier)
    asked = (score.deriv(), score.deriv() * curvature, curvature.deriv())
    parts = [np.asarray(part.coef[::-1], dtype=np.float64) for part in asked]
    size = max(len(part) for part in parts)
    steepness, product, change = (np.pad(part, (size - len(part), 0)) for part in parts)
    return steepness, product, change


def _largest(polynomial: Polynomial) -> float:
    """Its largest value on [0, 1]."""
    places = np.concatenate([np.clip(polynomial.deriv().roots().real, 0.0, 1.0), FIXED])
    return _rounded_up(float(polynomial(places).max()))


def _probability(eta: Array) -> Array:
    """(1 + tanh(eta/2))/2: NumPy takes tanh of many numbers at once, several times quicker than expit."""
    probability = np.asarray(0.5 * eta)
    np.tanh(probability, out=probability)
    probability *= 0.5
    probability += 0.5
    return probability


def _rounded_up(value: float) -> float:
    return value * (1.0 + 1e-14)
