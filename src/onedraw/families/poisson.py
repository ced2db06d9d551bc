# SPDX-License-Identifier: Apache-2.0
"""Poisson responses with log link: f(k | eta) = exp(k eta - mu) / k!, mu = exp(eta).

    (log f)' = k - mu,        (log f)'' = -mu,        f(k+1)/f(k) = mu/(k+1), which falls with k.

Over a cell of parameters f is bounded by its value where mu is nearest to k, and I by its value at one end:
it falls with eta, because Poisson(mu + d) = Poisson(mu) * Poisson(d) and Young's inequality gives
|f * g|_beta <= |f|_beta |g|_1.

For large mu, f is near the normal density of variance mu, and I = (2 pi mu)^(-b/2) beta^(-1/2) (1 + O(1/mu)).

>>> import numpy as np
>>> family = Poisson()
>>> float(np.exp(family.log_density(np.array([2.0]), np.array([0.0])))[0])       # exp(-1)/2
0.18393972...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from onedraw.families.cells import Cell
from onedraw.families.counts import LARGEST_LOG_MEAN, CountFamily, negative_log_factorial
from onedraw.types import Array

_LARGEST_EXPONENT = 340.0
"""exp(340) has a finite square, and under it every count has probability 0 to working precision."""

LARGEST_RATIO_AT = 3.5
"""The noise ratio has its largest value at a smaller predictor, and falls beyond."""


@dataclass(frozen=True, kw_only=True)
class Poisson(CountFamily):
    """y in {0, 1, 2, ...} with mean exp(eta)."""

    name: ClassVar[str] = "poisson"
    kind: ClassVar[str] = "poisson"
    is_canonical: ClassVar[bool] = True
    has_cell_bounds: ClassVar[bool] = True
    question: ClassVar[str | None] = "rate"
    question_assumes: ClassVar[str] = "counts are independent and vary as Poisson ones do"

    def describe(self, classes: tuple[Any, ...] | None = None) -> str:
        return "Poisson, coefficients of the log mean"

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

    def loss_minimum(self, y: Array, cell: Cell, beta: float) -> Array:
        b = beta - 1.0
        return (
            -np.expm1(b * self._highest(y, cell)) / b
            - (1.0 - self.power_integral(cell.eta_high, beta)) / beta
        )

    def loss_concavity(self, y: Array, cell: Cell, beta: float) -> tuple[Array, Array | None]:
        # -(loss)'' = f^b [b (y - mu)^2 - mu] - I''/beta, and I'' = beta sum f^beta [beta (k - mu)^2 - mu] >=
        # -beta mu I.
        b = beta - 1.0
        highest = np.exp(b * self._highest(y, cell))
        mean_low, mean_high = (np.exp(np.minimum(end, 300.0)) for end in (cell.eta_low, cell.eta_high))
        farthest = np.maximum(np.square(y - mean_low), np.square(y - mean_high))
        spread = highest * np.maximum(b * farthest - mean_low, 0.0)
        return spread + mean_high * self.power_integral(cell.eta_low, beta), None

    def _highest(self, y: Array, cell: Cell) -> Array:
        """The largest log density over the cell, rounded upwards."""
        peak = np.clip(np.log(np.maximum(y, 1e-300)), cell.eta_low, cell.eta_high)
        return np.minimum(self.log_density(y, peak) + _rounding(y, peak), 0.0)

    def enough_counts(self, eta: float) -> int:
        return 200 if eta <= LARGEST_RATIO_AT else 400  # 20 standard deviations above means of 33 and 148

    def noise_ratio(self, beta: float, scale: float | None = None) -> float:
        return _noise_ratio(beta)


@lru_cache(maxsize=256)
def _noise_ratio(beta: float) -> float:
    grid = np.linspace(-8.0, LARGEST_RATIO_AT, 1151)
    return min(1.0, Poisson().noise_ratio_on(grid, beta) * (1.0 + 1e-4))  # it may miss the top by 1e-5


def _rounding(y: Array, eta: Array) -> Array:
    """More than the terms y eta, exp(eta) and log y! of a log density lose in double precision."""
    size = np.abs(y * eta) + np.exp(np.minimum(eta, 300.0)) + y * np.log(y + 2.0)
    return 16.0 * np.finfo(float).eps * size


def _mean(eta: Array) -> Array:
    return np.exp(np.minimum(eta, _LARGEST_EXPONENT))
