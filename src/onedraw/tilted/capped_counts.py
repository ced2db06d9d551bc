# SPDX-License-Identifier: Apache-2.0
"""The law of capped counts g = min(Y, cap) as a function of eta: probabilities, mean and variance.

Y has mean mu = exp(eta) and is Poisson, or negative binomial of size r. With G = E g:

    Poisson:            G = mu P(Y <= cap-2) + cap P(Y >= cap),          G' = mu P(Y <= cap-1).
    Negative binomial:  G = mu P(Y+ <= cap-2) + cap P(Y >= cap),         G' = mu P(Y+ <= cap-1),

where Y+ has size r + 1 and the same odds mu/r (k P_r(k) = mu P_{r+1}(k-1), and
dP(Y > k)/dmu = (r + k)/(r + mu) P_r(k) = P_{r+1}(k)).

Earlier versions fitted counts by the score G - g, so this is also what their releases are read by: G' is
their curvature's weight, the variance that of their score.

>>> import numpy as np
>>> counts = CappedCounts(cap=3)
>>> counts.mean(np.array([-50.0, 0.0, 50.0])).round(3), counts.probabilities(np.zeros(1))[0].round(3)
(array([0.   , 0.977, 3.   ]), array([[0.368, 0.368, 0.184, 0.08 ]]))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from onedraw._validate import positive, whole
from onedraw.types import Array

LARGEST = 300.0
"""Predictors are cut here: beyond, G is cap to working precision for every size r that is not tiny."""


@dataclass(frozen=True, kw_only=True)
class CappedCounts:
    """Counts up to ``cap``; ``dispersion`` is r, None for Poisson."""

    cap: int
    dispersion: float | None = None

    def __post_init__(self) -> None:
        whole(cap=self.cap)
        if self.dispersion is not None:
            positive(dispersion=self.dispersion)

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

    def probabilities(self, eta: Array) -> tuple[Array, Array]:
        """P(g = k), k = 0, ..., cap, and their derivatives by eta (n, cap + 1); P(Y >= k) has mu P(Y+ = k-1),
        Y+ being Y itself for Poisson."""
        mu = np.exp(np.minimum(eta, LARGEST))
        none, all_of_it = np.zeros((1, len(mu))), np.ones((1, len(mu)))
        at_most = np.stack([self._at_most(k, mu, extra=0.0) for k in range(self.cap)])
        raised = np.stack([self._at_most(k, mu, extra=1.0) for k in range(self.cap)])
        reached = np.concatenate([none, mu * np.diff(raised, axis=0, prepend=0.0), none])
        return np.diff(np.concatenate([none, at_most, all_of_it]), axis=0).T, -np.diff(reached, axis=0).T

    def _at_most(self, count: int, mu: Array, *, extra: float) -> Array:
        """P(Y <= count) for size r + extra and odds mu/r (no size for Poisson)."""
        if self.dispersion is None:
            return np.asarray(special.pdtr(count, mu))
        odds = self.dispersion / (self.dispersion + mu)
        return np.asarray(special.betainc(self.dispersion + extra, count + 1.0, odds))
