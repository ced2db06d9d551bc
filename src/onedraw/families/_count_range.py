# SPDX-License-Identifier: Apache-2.0
"""How far the loss of one count can vary over the parameters: the range that add/remove accounting needs.

Guarantee:
    For every count y the loss varies by at most ``count_range`` over all log means eta.

*Proof.* With b = beta - 1, loss = (1 - f^b)/b - (1 - I)/beta. I falls as the mean rises: a Poisson count of
a larger mean is one of a smaller mean plus an independent count, and so is a negative binomial one (the
ratio of their generating functions, ((1 - q s)/(1 - q' s))^r up to a constant with q < q', has a logarithm
with coefficients r (q'^k - q^k)/k > 0); the law of a sum is majorised by that of a summand, and a sum of
convex powers falls along with it [Marshall, Olkin & Arnold 2011].

* y = 0: the loss is at least 0 (``certificate``), so it varies by no more than its largest value. Between
  neighbours eta_1 < eta_2 of a grid it is at most (1 - f(0 | eta_2)^b)/b - (1 - I(eta_1))/beta, because
  f(0) falls and I falls; beyond the last point at most 1/b - (1 - I)/beta with I there. I is bounded from
  above by a sum over counts below K plus f(K)^b P(count >= K), as f falls beyond its mode.
* y = 1: the loss is at most 1/b, because I <= 1. f(1) rises to eta = 0 and then falls, so between
  neighbours the loss is at least (1 - F^b)/b - (1 - I(eta_2))/beta with F the largest f(1) there; I is
  bounded from below by the sum over counts below K.
* y >= 2: again at most 1/b. With t = f(y), f(y - 1) f(y + 1) >= t^2 y/(y + 1), so by the inequality of means
  I >= k t^beta, k = 1 + 2 (2/3)^(beta/2). Then the loss is at least h(t) = (1 - t^b)/b - (1 - k
  t^beta)/beta, which falls until t = 1/k. And t is at most f(2) at mean 2: f(y) is largest at mean y, and
  that falls with y, by z log(1 + 1/z) < 1 < (z + 1) log(1 + 1/z). []

The bounds between neighbours leave slack of about a thousandth, far more than the error of the tabulated I.

>>> from onedraw.families import Poisson
>>> round(count_range(Poisson(), 2.0), 2)     # of 1/b = 1
0.72
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from onedraw.types import Array

if TYPE_CHECKING:
    from onedraw.families.counts import CountFamily

GRID = np.concatenate(
    [
        np.arange(-6.0, -1.5, 0.15),
        np.arange(-1.5, 1.0, 0.02),
        np.arange(1.0, 6.0, 0.05),
        np.arange(6.0, 40.0, 0.4),
    ]
)
"""Log means."""
COUNTS = 300
SAFETY = 1e-7


@lru_cache(maxsize=8)
def _log_densities(family: CountFamily) -> tuple[Array, Array]:
    """Log densities (counts, grid), and the probability (grid,) of larger counts; infinite where densities
    still rise there, so that it is of no use.
    """
    log_f = family.log_density(np.arange(COUNTS + 1.0)[:, None], GRID[None, :])
    beyond = np.maximum(1.0 - np.exp(log_f[:-1]).sum(axis=0), 0.0) + 1e-12
    return log_f, np.where(family.mode(GRID) <= COUNTS, beyond, np.inf)


@lru_cache(maxsize=1024)
def count_range(family: CountFamily, beta: float) -> float:
    """The certified range of a count's loss over its parameters; see the module docstring."""
    b, (log_f, beyond) = beta - 1.0, _log_densities(family)
    below = np.exp(beta * log_f[:-1]).sum(axis=0)
    tail = np.exp(b * log_f[-1]) * np.where(np.isfinite(beyond), beyond, 0.0)
    tail[~np.isfinite(beyond)] = np.inf
    above = np.minimum.accumulate(np.minimum(below + tail, 1.0))  # I falls, so an earlier bound still holds

    def first(log_density: Array) -> Array:
        return -np.expm1(b * log_density) / b

    zero = first(log_f[0])
    largest = np.append(zero[1:], 1.0 / b) - (1.0 - above) / beta
    of_zero = max(float(zero[0]), float(largest.max()))

    ends = np.maximum(log_f[1, :-1], log_f[1, 1:])
    peak = float(family.log_density(np.ones(1), np.zeros(1))[0])
    around = (GRID[:-1] <= 0.0) & (GRID[1:] >= 0.0)
    inside = first(np.where(around, peak, ends)) - (1.0 - below[1:]) / beta
    outside = (first(log_f[1, :1]) - (1.0 - below[:1]) / beta, first(log_f[1, -1:]) - 1.0 / beta)
    of_one = 1.0 / b - float(min(inside.min(), outside[0][0], outside[1][0]))

    k = 1.0 + 2.0 * (2.0 / 3.0) ** (0.5 * beta)
    t = min(float(np.exp(family.log_density(np.full(1, 2.0), np.full(1, math.log(2.0)))[0])), 1.0 / k)
    of_more = 1.0 / b - (-math.expm1(b * math.log(t)) / b - (1.0 - k * t**beta) / beta)
    return float(min(1.0 / b, (1.0 + SAFETY) * max(of_zero, of_one, of_more)))
