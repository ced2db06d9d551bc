# SPDX-License-Identifier: Apache-2.0
"""A mixture of normal laws of the parameters: estimates, intervals at any level, contrasts and Wald tests.

The distribution function of a contrast c'theta is the mean of the components' normal ones, so quantiles are roots of a
smooth function and small p-values are not limited by a number of draws. The p-value of one contrast is twice the smaller
tail at the value tested: it is below 5% exactly if the equal-tailed 95% interval excludes the value.

A joint test of q contrasts C theta = c takes Wald's distance (C m - c)' V^-1 (C m - c), V = C Cov C', and compares
it with the same distance of draws from the mixture: normal theory if there is one component, wider otherwise.

>>> import numpy as np
>>> law = NormalMixture(means=np.array([[1.0, 0.0]]), covariances=np.eye(2)[None])
>>> law.interval(0.95).round(2).tolist()
[[-0.96, 2.96], [-1.96, 1.96]]
>>> round(law.p_value(np.array([1.0, 0.0])), 4)
0.3173
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import special

from onedraw.types import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalMixture:
    """Equally likely components: means (K, p), covariances (K, p, p)."""

    means: Array
    covariances: Array
    seed: int = field(default=20_000, repr=False)

    @property
    def dim(self) -> int:
        return int(self.means.shape[1])

    @property
    def mean(self) -> Array:
        return np.asarray(self.means.mean(axis=0))

    @property
    def covariance(self) -> Array:
        centred = self.means - self.mean
        return np.asarray(self.covariances.mean(axis=0) + centred.T @ centred / len(self.means))

    def project(self, contrasts: Array) -> tuple[Array, Array]:
        """Centres and standard deviations (K, q) of the contrasts (q, p) in every component."""
        variance = np.einsum("qi,kij,qj->kq", contrasts, self.covariances, contrasts)
        return self.means @ contrasts.T, np.sqrt(np.maximum(variance, 0.0))

    def quantile(self, probability: float, contrasts: Array | None = None) -> Array:
        """The quantile of each contrast (q,), the coefficients themselves if none are given."""
        centre, spread = self.project(np.eye(self.dim) if contrasts is None else np.atleast_2d(contrasts))
        far = special.ndtri(probability) * spread + centre
        low, high = far.min(axis=0), far.max(axis=0)  # a mixture's quantile lies between its components'
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = special.ndtr((middle - centre) / spread).mean(axis=0) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))

    def interval(self, level: float, contrasts: Array | None = None) -> Array:
        """Equal-tailed intervals (q, 2)."""
        tail = 0.5 * (1.0 - level)
        return np.stack([self.quantile(tail, contrasts), self.quantile(1.0 - tail, contrasts)], axis=1)

    def p_value(self, contrast: Array, value: float = 0.0) -> float:
        """Twice the smaller tail of the contrast (p,) beyond ``value``."""
        centre, spread = self.project(np.atleast_2d(contrast))
        z = (value - centre[:, 0]) / spread[:, 0]
        return float(min(1.0, 2.0 * min(special.ndtr(z).mean(), special.ndtr(-z).mean())))

    def draws(self, each: int = 8) -> Array:
        """``each`` draws from every component, always the same ones: (K * each, p)."""
        rng = np.random.default_rng(self.seed)
        factor = np.linalg.cholesky(self.covariances)
        noise = rng.standard_normal((each, len(self.means), self.dim))
        return np.asarray(self.means + np.einsum("kij,ekj->eki", factor, noise)).reshape(-1, self.dim)
