# SPDX-License-Identifier: Apache-2.0
"""Negative binomial responses with log link: mean mu = exp(eta), variance mu + mu^2/r, known dispersion r.

With q = mu/(mu + r) = 1/(1 + exp(log r - eta)),

    f(k | eta)  = Gamma(k + r) / (k! Gamma(r)) q^k (1 - q)^r,
    (log f)'    = k (1 - q) - r q,         (log f)'' = -(k + r) q (1 - q),
    f(k+1)/f(k) = q (k + r)/(k + 1), which tends to q, from above if r >= 1 and from below otherwise.

For large mu, f(k) is near the gamma density of shape r and mean mu where that power is integrable at zero
(r beta > b), and the counts near zero, of size mu^-r each, dominate I otherwise: I ~ C mu^-min(b, r beta).

>>> import numpy as np
>>> family = NegativeBinomial(dispersion=1.0)                       # the geometric distribution
>>> float(np.exp(family.log_density(np.array([2.0]), np.array([0.0])))[0])
0.125...
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy import special

from onedraw._validate import positive
from onedraw.families.base import Option
from onedraw.families.counts import LARGEST_LOG_MEAN, CountFamily, negative_log_factorial
from onedraw.families.noise_ratio import class_noise_ratio
from onedraw.types import Array

_LARGEST_TABLE_MEAN = 1e4
_MOST_TERMS = 2.0**17
_MOST_COUNTS, _LEFT_OUT = 20_000, 1e-9
"""Sums for intervals have at most so many terms, and leave out so much probability."""


@dataclass(frozen=True, kw_only=True)
class NegativeBinomial(CountFamily):
    """y in {0, 1, 2, ...} with mean exp(eta) and size parameter ``dispersion``."""

    dispersion: float

    name: ClassVar[str] = "negative_binomial"
    kind: ClassVar[str] = "negative_binomial"
    options: ClassVar[Mapping[str, Option]] = MappingProxyType(
        {
            "dispersion": Option(
                field="dispersion",
                default=1.0,
                about="Size parameter r: the variance is mean + mean^2/r.",
            )
        }
    )

    def __post_init__(self) -> None:
        positive(dispersion=self.dispersion)

    def describe(self, classes: tuple[Any, ...] | None = None) -> str:
        return f"negative binomial of dispersion {self.dispersion:g}, coefficients of the log mean"

    def log_coefficient(self, k: Array) -> Array:
        r = self.dispersion
        return special.gammaln(k + r) - special.gammaln(r) + negative_log_factorial(k)  # type: ignore[no-any-return]

    def natural(self, eta: Array) -> tuple[Array, Array]:
        shifted = eta - math.log(self.dispersion)
        return special.log_expit(shifted), -self.dispersion * special.log_expit(-shifted)

    def slopes(self, k: Array, eta: Array) -> tuple[Array, Array]:
        r = self.dispersion
        shifted = eta - math.log(r)
        q, rest = special.expit(shifted), special.expit(-shifted)
        return k * rest - r * q, -(k + r) * q * rest

    def mode(self, eta: Array) -> Array:
        r = self.dispersion
        return np.floor(np.exp(eta) * max(r - 1.0, 0.0) / r)

    def log_ratios(self, k: Array, eta: float) -> Array:
        log_q = float(special.log_expit(eta - math.log(self.dispersion)))
        return log_q + np.log1p((self.dispersion - 1.0) / (k + 1.0))

    def tail_ratio(self, k: float, eta: float) -> float:
        r = self.dispersion
        return float(special.expit(eta - math.log(r))) * max((k + r) / (k + 1.0), 1.0)

    def table_end(self, beta: float) -> float:
        # The power law in mu has set in far above r; about 45 mu/r terms carry the sum.
        settled = min(max(1e3, 20.0 * self.dispersion), _LARGEST_TABLE_MEAN)
        return math.log(min(settled, _MOST_TERMS * self.dispersion / 45.0))

    def leading_term(self, eta: Array, beta: float) -> tuple[Array, Array, Array]:
        # -b/2 times log(mu + mu^2/r), or the same shape with the slope of the counts near zero.
        shifted = eta - math.log(self.dispersion)
        q = special.expit(shifted)
        half = -0.5 * min(beta - 1.0, self.dispersion * beta)
        rest = special.expit(-shifted)
        return half * (eta - special.log_expit(-shifted)), half * (1.0 + q), half * q * rest

    def limit_rate(self, beta: float) -> float:
        return min(1.0, max(0.1, abs(self.dispersion * beta - (beta - 1.0))))

    def sample(self, eta: Array, rng: np.random.Generator, scale: Array | None = None) -> Array:
        r = self.dispersion
        mean = np.exp(np.minimum(eta, LARGEST_LOG_MEAN)) * rng.gamma(r, 1.0 / r, size=np.shape(eta))
        return rng.poisson(mean).astype(np.float64)

    def enough_counts(self, eta: float) -> int:
        # A Poisson count whose mean has a gamma law: next to the largest of those means, and its own spread.
        largest = math.exp(eta) * self._largest_mean
        return math.ceil(largest + 8.0 * math.sqrt(largest) + 40.0)

    @property
    def largest_drifting(self) -> float:
        # The smaller the dispersion, the longer the tail: sums stay short enough.
        return min(5.0, math.log(0.9 * _MOST_COUNTS / self._largest_mean))

    @property
    def _largest_mean(self) -> float:
        """A quantile of the gamma law with mean 1: a count is Poisson with the mean times a draw of it."""
        return float(special.gammainccinv(self.dispersion, _LEFT_OUT)) / self.dispersion

    def noise_ratio(self, beta: float, scale: float | None = None) -> float:
        return _noise_ratio(self, beta)


@lru_cache(maxsize=256)
def _noise_ratio(family: NegativeBinomial, beta: float) -> float:
    """kappa; beyond the grid no ratio exceeds the power of the largest probability at its end."""
    grid = np.linspace(-8.0, family.largest_drifting, 261)
    end = grid[-1:]
    beyond = float(np.exp((beta - 1.0) * family.log_density(family.mode(end), end))[0])
    return min(class_noise_ratio(beta), max(family.noise_ratio_on(grid, beta) * (1.0 + 1e-3), beyond))
