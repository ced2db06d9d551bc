# SPDX-License-Identifier: Apache-2.0
"""Poisson responses with log link: f(k | eta) = exp(k eta - mu) / k!, mu = exp(eta).

    (log f)' = k - mu,        (log f)'' = -mu,        f(k+1)/f(k) = mu/(k+1), which falls with k.

For large mu, f is near the normal density of variance mu, and I = (2 pi mu)^(-b/2) beta^(-1/2) (1 + O(1/mu)).

>>> import numpy as np
>>> family = Poisson()
>>> float(np.exp(family.log_density(np.array([2.0]), np.array([0.0])))[0])       # exp(-1)/2
0.18393972...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.families.counts import LARGEST_LOG_MEAN, CountFamily, negative_log_factorial
from onedraw.types import Array

_LARGEST_EXPONENT = 340.0
"""exp(340) has a finite square, and under it every count has probability 0 to working precision."""


@dataclass(frozen=True, kw_only=True)
class Poisson(CountFamily):
    """y in {0, 1, 2, ...} with mean exp(eta)."""

    name: ClassVar[str] = "poisson"
    kind: ClassVar[str] = "poisson"

    def log_coefficient(self, k: Array) -> Array:
        return negative_log_factorial(k)

    def natural(self, eta: Array) -> tuple[Array, Array]:
        return eta, _mean(eta)

    def slopes(self, k: Array, eta: Array) -> tuple[Array, Array]:
        mean = _mean(eta)
        return k - mean, np.broadcast_to(-mean, np.broadcast_shapes(np.shape(k), np.shape(mean)))

    def mode(self, eta: Array) -> Array:
        return np.floor(_mean(eta))

    def log_ratios(self, k: Array, eta: float) -> Array:
        return eta - np.log(k + 1.0)

    def tail_ratio(self, k: float, eta: float) -> float:
        return math.exp(eta) / (k + 1.0)

    def table_end(self, beta: float) -> float:
        return math.log(1000.0 * beta)

    def leading_term(self, eta: Array, beta: float) -> tuple[Array, Array, Array]:
        slope = -0.5 * (beta - 1.0)
        return slope * eta, np.full_like(eta, slope), np.zeros_like(eta)

    def limit_rate(self, beta: float) -> float:
        return 1.0

    def sample(self, eta: Array, rng: np.random.Generator, scale: Array | None = None) -> Array:
        return rng.poisson(np.exp(np.minimum(eta, LARGEST_LOG_MEAN))).astype(np.float64)


def _mean(eta: Array) -> Array:
    return np.exp(np.minimum(eta, _LARGEST_EXPONENT))
