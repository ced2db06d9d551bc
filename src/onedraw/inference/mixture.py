# SPDX-License-Identifier: Apache-2.0
"""A mixture of normal laws of the parameters: estimates, intervals at any level, contrasts and Wald tests.

The distribution function of a contrast c'theta is the mean of the components' normal ones, so quantiles are
roots of a smooth function and small p-values are not limited by a number of draws. The p-value of one
contrast is twice the smaller tail at the value tested: it is below 5% exactly if the equal-tailed 95%
interval excludes the value. Standard errors are the 95% interval's width over 2 * 1.96, which a few wild
components cannot blow up.

A joint test of q contrasts C theta = c takes Wald's distance (C m - c)' V^-1 (C m - c), V = C Cov C', and
compares it with the same distance of draws from the mixture: the law of chi-square if there is one component,
a wider one otherwise. Beyond the last ``TAIL`` draws the tail goes on as that of a scaled chi-square.

>>> import numpy as np
>>> law = NormalMixture(means=np.array([[1.0, 0.0]]), covariances=np.eye(2)[None])
>>> law.interval(0.95).round(2).tolist()
[[-0.96, 2.96], [-1.96, 1.96]]
>>> test = law.wald(np.array([[1.0, 0.0]]))
>>> round(test.p_value, 4)
0.3173
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import special, stats

from onedraw.errors import InvalidInput
from onedraw.types import Array

NORMAL = float(special.ndtri(0.975))
ROOT = float(np.sqrt(2.0 * np.pi))
STEPS, SETTLED = 100, 1e-12
"""The most steps of Newton's method (or halvings) to a quantile, and the step that ends them, in standard
deviations of the narrowest component."""
FAR = 40.0
"""Standard deviations beyond which a normal law has nothing left."""
TAIL = 100
DRAWS = 20_000


@dataclass(frozen=True, kw_only=True)
class WaldTest:
    """A test of q contrasts: Wald's distance, its p-value, and z (signed; None if q > 1)."""

    statistic: float
    degrees: int
    p_value: float
    z: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalMixture:
    """Equally likely components: means (K, p), covariances (K, p, p)."""

    means: Array
    covariances: Array
    seed: int = field(default=0, repr=False)

    @property
    def dim(self) -> int:
        return int(self.means.shape[1])

    @cached_property
    def estimate(self) -> Array:
        """The medians (p,)."""
        return self.quantile(0.5)

    @cached_property
    def standard_error(self) -> Array:
        """The widths of the 95% intervals over 2 * 1.96 (p,)."""
        ends = self.interval(0.95)
        return np.asarray((ends[:, 1] - ends[:, 0]) / (2.0 * NORMAL))

    @cached_property
    def draws(self) -> Array:
        """At least ``DRAWS`` draws, the same number from every component and always the same ones."""
        rng = np.random.default_rng(self.seed)
        factor = _roots(self.covariances)
        each = -(-DRAWS // len(self.means))
        noise = rng.standard_normal((len(self.means), each, self.dim))
        return np.asarray(self.means[:, None] + noise @ factor.transpose(0, 2, 1)).reshape(-1, self.dim)

    @cached_property
    def covariance(self) -> Array:
        """Standard errors times the correlations of the draws' normal scores (p, p): positive definite."""
        size = len(self.draws)
        scores, sorted_scores = (
            np.empty((self.dim, size)),
            special.ndtri(np.arange(1, size + 1) / (size + 1.0)),
        )
        for score, draws in zip(scores, self.draws.T, strict=True):
            score[np.argsort(draws)] = sorted_scores
        correlation = scores @ scores.T / (sorted_scores @ sorted_scores)
        return np.asarray(self.standard_error[:, None] * correlation * self.standard_error)

    def project(self, contrasts: Array | None) -> tuple[Array, Array]:
        """Centres and standard deviations (K, q) of the contrasts (q, p) in every component."""
        if contrasts is None:  # the coefficients themselves
            variance = np.diagonal(self.covariances, axis1=1, axis2=2)
            return self.means, np.sqrt(np.maximum(variance, 1e-300))
        variance = ((contrasts @ self.covariances) * contrasts).sum(axis=2)
        return self.means @ contrasts.T, np.sqrt(np.maximum(variance, 1e-300))

    def quantile(self, probability: float, contrasts: Array | None = None) -> Array:
        """The quantile of each contrast (q,), of the coefficients themselves if none are given."""
        centre, spread = self.project(None if contrasts is None else self._rows(contrasts))
        normal = special.ndtri(probability)
        far = normal * spread + centre
        low, high = far.min(axis=0), far.max(axis=0)  # a mixture's quantile lies between its components'
        whole = np.sqrt(centre.var(axis=0) + (spread**2).mean(axis=0))
        place = np.clip(centre.mean(axis=0) + normal * whole, low, high)
        for _ in range(STEPS):
            z = np.clip((place - centre) / spread, -FAR, FAR)
            excess = special.ndtr(z).mean(axis=0) - probability
            low, high = np.where(excess < 0.0, place, low), np.where(excess < 0.0, high, place)
            density = (np.exp(-0.5 * z * z) / spread).mean(axis=0) / ROOT
            newton = place - excess / np.maximum(density, 1e-300)
            within = (low <= newton) & (newton <= high)
            before, place = place, np.where(within, newton, 0.5 * (low + high))
            if (np.abs(place - before) <= SETTLED * spread.min(axis=0)).all():
                break
        return np.asarray(place)

    def interval(self, level: float, contrasts: Array | None = None) -> Array:
        """Equal-tailed intervals (q, 2)."""
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"Expected 0 < level < 1, got level={level!r}.")
        tail = 0.5 * (1.0 - level)
        return np.stack([self.quantile(tail, contrasts), self.quantile(1.0 - tail, contrasts)], axis=1)

    def wald(self, contrasts: Array, value: Array | float = 0.0) -> WaldTest:
        """The test of contrasts (q, p) @ theta = value."""
        rows = self._rows(contrasts)
        if np.linalg.matrix_rank(rows) < len(rows):
            raise InvalidInput(
                f"Expected contrasts to be linearly independent rows, got {len(rows)} of which some follow "
                "from others. Test fewer of them together."
            )
        value = np.broadcast_to(np.asarray(value, dtype=float), len(rows))
        return self.single_tests(rows, value)[0] if len(rows) == 1 else self._joint(rows, value)

    def single_tests(self, contrasts: Array, values: Array) -> list[WaldTest]:
        """The tests of contrasts (q, p) having the ``values`` (q,), each by itself."""
        centre, spread = self.project(self._rows(contrasts))
        z = (values - centre) / spread
        below, above = special.ndtr(z).mean(axis=0), special.ndtr(-z).mean(axis=0)
        return [_single(*tails) for tails in zip(below.tolist(), above.tolist(), strict=True)]

    def _joint(self, rows: Array, value: Array) -> WaldTest:
        centre = self.quantile(0.5, rows)
        whitener = np.linalg.inv(np.linalg.cholesky(rows @ self.covariance @ rows.T))
        distances = np.sort((((self.draws @ rows.T - centre) @ whitener.T) ** 2).sum(1))
        statistic = float(((whitener @ (centre - value)) ** 2).sum())
        degrees, size = len(rows), len(distances)
        beyond = size - int(np.searchsorted(distances, statistic))
        p_value = beyond / size
        if beyond < TAIL:
            last, share = float(distances[-TAIL]), TAIL / size
            scale = last / float(stats.chi2.isf(share, degrees))
            p_value = float(stats.chi2.sf(max(statistic, last) / scale, degrees))
        return WaldTest(statistic=statistic, degrees=degrees, p_value=min(1.0, p_value), z=None)

    def _rows(self, contrasts: Array) -> Array:
        rows = np.atleast_2d(np.asarray(contrasts, dtype=float))
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise InvalidInput(
                f"Expected contrasts to be rows of length {self.dim}, got an array of shape "
                f"{np.shape(contrasts)}. Give one row per contrast."
            )
        return rows


def _single(below: float, above: float) -> WaldTest:
    """By the tails on both sides of the value tested."""
    p_value = min(1.0, 2.0 * min(below, above))
    root = float(-special.ndtri(max(0.5 * p_value, 1e-300)))
    return WaldTest(statistic=root**2, degrees=1, p_value=p_value, z=root if below < above else -root)


def _roots(covariances: Array) -> Array:
    """F (K, p, p) with F F' the covariances, which rounding may have made indefinite."""
    try:
        return np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(0.5 * (covariances + covariances.transpose(0, 2, 1)))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :], dtype=np.float64)
