# SPDX-License-Identifier: Apache-2.0
"""Convex losses f(y, eta) with a bounded score: what the tilted fit can calibrate.

Guarantee:
    ``joint_loss(u, k)`` is an upper bound of

        sup over (y, eta) of one record of   a u + log det(I + k f''),    a = |f'|/score_bound,

    the one quantity of a loss on which the privacy of the tilted fit rests (see ``calibration``). A large
    score comes with a small curvature, so the two suprema are not added.

*Logistic.* |f'| = a gives f'' = a (1 - a), whatever y. h(a) = a u + log(1 + k a (1 - a)) is concave with
h'(a) = u + k (1 - 2a)/(1 + k a (1 - a)) >= u - k. So for k <= u the supremum is h(1) = u: the curvature costs
nothing. For k > u it is at the root of h'.
*Log-cosh*, f = c^2 log cosh((y - eta)/c): a = |tanh|, f'' = 1 - a^2, h'(a) = u - 2 k a/(1 + k (1 - a^2)),
whose last term increases in a up to 2k. So for k <= u/2 the supremum is again h(1) = u.

The *value* of the loss is never needed: the solver looks for the zero of a strongly monotone gradient.

>>> import numpy as np
>>> Logistic().joint_loss(0.5, 0.5), round(Logistic().joint_loss(0.5, 2.0), 3)
(0.5, 0.701)
>>> LogCosh(cut=1.5).slope(np.array([9.0]), np.array([0.0])).round(3)
array([-1.5])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from onedraw._validate import positive
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


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """log(1 + exp(eta)) - y eta for y in {0, 1}."""

    num_predictors: ClassVar[int] = 1
    score_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 0.25
    trace_bound: ClassVar[float] = 0.25
    price: ClassVar[float] = 0.0
    accuracy: ClassVar[float] = 1e-15
    extends: ClassVar[bool] = True
    corners: ClassVar[int] = 1
    escape_ratio: ClassVar[float | None] = 1.0

    def determinant_bound(self, k: float) -> float:
        return math.log1p(0.25 * k)

    def joint_loss(self, u: float, k: float) -> float:
        if k <= u:
            return u
        # The root in (1/2, 1) of u (1 + k a (1 - a)) + k (1 - 2 a) = 0.
        linear = k * (u - 2.0)
        a = (linear + math.sqrt(linear**2 + 4.0 * u * k * (u + k))) / (2.0 * u * k)
        return _rounded_up(a * u + math.log1p(k * a * (1.0 - a)))

    def slope(self, y: Array, eta: Array) -> Array:
        probability = _probability(eta)
        probability -= y
        return probability

    def slope_and_curvature(self, y: Array, eta: Array) -> tuple[Array, Array]:
        probability = _probability(eta)
        curvature = 1.0 - probability
        curvature *= probability
        probability -= y
        return probability, curvature


@dataclass(frozen=True, kw_only=True)
class LogCosh:
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


def _probability(eta: Array) -> Array:
    """(1 + tanh(eta/2))/2: NumPy takes tanh of many numbers at once, several times quicker than expit."""
    probability = np.asarray(0.5 * eta)
    np.tanh(probability, out=probability)
    probability *= 0.5
    probability += 0.5
    return probability


def _rounded_up(value: float) -> float:
    return value * (1.0 + 1e-14)
