# SPDX-License-Identifier: Apache-2.0
"""A convex loss for counts whose score is bounded: G(eta) - min(y, cap), G(eta) = E min(Y, cap).

Y has mean mu = exp(eta) and is Poisson, or negative binomial of size r. The score has mean zero at the
truth, whatever the cap: capping y and its model alike loses information, but not consistency. Y grows
stochastically with eta, so G increases and the loss is convex.

    Poisson:            G = mu P(Y <= cap-2) + cap P(Y >= cap),          G' = mu P(Y <= cap-1).
    Negative binomial:  G = mu P(Y+ <= cap-2) + cap P(Y >= cap),         G' = mu P(Y+ <= cap-1),

where Y+ has size r + 1 and the same odds mu/r (k P_r(k) = mu P_{r+1}(k-1), and
dP(Y > k)/dmu = (r + k)/(r + mu) P_r(k) = P_{r+1}(k)).

Guarantee:
    ``joint_loss(u, k)`` bounds a u + log(1 + k G') over all real eta and all y, a = |G - min(y, cap)|/cap.

*Proof.* The worst y gives a = max(G, cap - G)/cap. On a cell [l, l + h] of a grid G <= G(l + h) and cap - G
<= cap - G(l). G is concave in mu (for Poisson dG/dmu = P(Y <= cap-1) falls; the negative binomial is a
mixture over mu), so d log G'/d eta = 1 + mu G_mumu/G_mu <= 1, and G' <= e^h G'(l) on the cell. Below the
grid a <= 1 and G' <= mu; above it, where mu >= cap, a <= 1 and G' decreases: for Poisson each term mu P(Y =
j) falls once mu >= j + 1, for the negative binomial each mu P(Y+ = j) once mu >= r (j + 1)/(r + 1). [] A
price is due: G'/(cap - G) grows like mu, so no k > 0 makes the supremum exactly u.

>>> import numpy as np
>>> loss = CappedCounts(cap=3)
>>> loss.slope(np.array([0.0, 99.0]), np.array([-50.0, 50.0])).round(6), round(loss.curvature_bound, 2)
(array([0., 0.]), 1.37)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy import special

from onedraw._validate import positive, whole
from onedraw.records import FARTHEST
from onedraw.tilted.losses import ReleasedItself
from onedraw.types import Array

LOWEST = -25.0
CELLS = 100_000
LARGEST = 300.0
"""Predictors are cut here: beyond, G is cap to working precision for every size r that is not tiny."""


@dataclass(frozen=True, kw_only=True)
class CappedCounts(ReleasedItself):
    """The loss with score G(eta) - min(y, cap); ``dispersion`` is r, None for Poisson."""

    cap: int
    dispersion: float | None = None

    num_predictors: ClassVar[int] = 1
    corners: ClassVar[int] = 2
    escape_ratio: ClassVar[float | None] = None
    price: ClassVar[float] = 0.1
    accuracy: ClassVar[float] = 1e-13 + FARTHEST * 2.0**-53
    """The second part is for adding an offset to the predictor: G' = E[Y; Y <= cap] <= cap, so a change of
    the predictor by the rounding of an offset changes the slope by as much, relative to the cap."""
    extends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole(cap=self.cap)
        if self.dispersion is not None:
            positive(dispersion=self.dispersion)

    @property
    def score_bound(self) -> float:
        return float(self.cap)

    @property
    def curvature_bound(self) -> float:
        return float(_cells(self.cap, self.dispersion)[1].max())

    @property
    def trace_bound(self) -> float:
        return self.curvature_bound

    def determinant_bound(self, k: float) -> float:
        return math.log1p(k * self.curvature_bound)

    def joint_loss(self, u: float, k: float) -> float:
        score, curvature = _cells(self.cap, self.dispersion)
        return float((score * u + np.log1p(k * curvature)).max()) * (1.0 + 1e-14)

    def slope(self, y: Array, eta: Array) -> Array:
        return self.mean(eta) - np.minimum(y, self.cap)

    def slope_and_curvature(self, y: Array, eta: Array) -> tuple[Array, Array]:
        return self.slope(y, eta), self.mean_slope(eta)

    def mean(self, eta: Array) -> Array:
        """G(eta)."""
        mu = np.exp(np.minimum(eta, LARGEST))
        below = mu * self._at_most(self.cap - 2, mu, extra=1.0) if self.cap > 1 else 0.0
        reached = 1.0 - self._at_most(self.cap - 1, mu, extra=0.0)
        return np.clip(below + self.cap * reached, 0.0, self.cap)

    def mean_slope(self, eta: Array) -> Array:
        """G'(eta)."""
        mu = np.exp(np.minimum(eta, LARGEST))
        return np.asarray(mu * self._at_most(self.cap - 1, mu, extra=1.0))

    def variance(self, eta: Array) -> Array:
        """Var min(Y, cap) = E min(Y, cap)^2 - G^2; k (k-1) P_r(k) = mu^2 (1 + 1/r) P_{r+2}(k-2)."""
        mu = np.exp(np.minimum(eta, LARGEST))
        pairs = mu**2 * (1.0 if self.dispersion is None else 1.0 + 1.0 / self.dispersion)
        square = self.cap**2 * (1.0 - self._at_most(self.cap - 1, mu, extra=0.0))
        if self.cap > 1:
            square += mu * self._at_most(self.cap - 2, mu, extra=1.0)
        if self.cap > 2:
            square += pairs * self._at_most(self.cap - 3, mu, extra=2.0)
        return np.asarray(np.maximum(square - self.mean(eta) ** 2, 0.0))

    def _at_most(self, count: int, mu: Array, *, extra: float) -> Array:
        """P(Y <= count) for size r + extra and odds mu/r (no size for Poisson)."""
        if self.dispersion is None:
            return np.asarray(special.pdtr(count, mu))
        odds = self.dispersion / (self.dispersion + mu)
        return np.asarray(special.betainc(self.dispersion + extra, count + 1.0, odds))


@lru_cache(maxsize=64)
def _cells(cap: int, dispersion: float | None) -> tuple[Array, Array]:
    """Upper bounds of the relative score and of G' on cells that cover the real line."""
    loss = CappedCounts(cap=cap, dispersion=dispersion)
    tail = 5.0 if dispersion is None else min(5.0 + 40.0 / dispersion, 200.0)
    eta = np.linspace(LOWEST, math.log(cap) + tail, CELLS + 1)
    mean, slope = loss.mean(eta), loss.mean_slope(eta)
    # The relative errors of both are far below the 1e-12 that is added.
    score = np.maximum(mean[1:], cap - mean[:-1]) / cap * (1.0 + 1e-12)
    curvature = slope[:-1] * math.exp(eta[1] - eta[0]) * (1.0 + 1e-12)
    ends = np.array([math.exp(LOWEST), slope[-1]])
    return np.append(np.minimum(score, 1.0), [1.0, 1.0]), np.append(curvature, ends)
