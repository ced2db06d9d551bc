# SPDX-License-Identifier: Apache-2.0
"""Barker's rule on a batch of the records, with the noise of the batch as a part of its randomness.

Of n records m are looked at, chosen anew in every step without replacement. Their weighted log ratios r_i
have mean r and variance s^2, and a move is made if

    log prior ratio + n r + N(0, 2 - v) + V > 0,     v = (1 - m/n) n^2 s^2/m,

where V is a public variable for which N(0, 2) + V is nearly logistic [Seita et al. 2017; Heikkila et al.
2019]. n r is about normal around the log ratio with variance v, so that the rule is about Barker's.

**Approximate in its target**: the mean of a batch is only about normal, and N(0, 2) + V is logistic up to
0.0006 of its distribution function. **Exact in its privacy**: the proof uses neither.

Guarantee:
    Let |r_i| <= k sqrt(m)/n, k <= 1, for every record and every move that is proposed (the published
    condition is k = 1), and h = 4 k^2 (1 - m/n)/m. For neighbours of n records each, one of them replaced, a
    step whose batch holds the replaced record has Renyi divergence of order a, for (a - 1) h < b = 2 - k^2,
    at most

        e(a) = a (4 k^2/m)/(2 (b - (a - 1) h)) - log(1 + h/b)/2 - log(1 - (a - 1) h/b)/(2 (a - 1)),

    and a step, which holds it with probability q = m/n, for whole a >= 2 at most e(a) and

        log(1 + q^2 C(a,2) min(4 (e^e(2) - 1), 2 e^e(2)) + sum_{j=3..a} 2 q^j C(a,j) e^((j-1) e(j)))/(a - 1)

    [sampling without replacement: Wang, Balle & Kasiviswanathan 2019, theorem 9]. Steps add up, and T of them
    are (epsilon, delta)-DP if T times this is at most epsilon - log(1 - 1/a) + (log delta + log a)/(a - 1)
    for some a [Canonne, Kamath & Steinke 2020].

    *Proof of e(a).* A decision is computed from a normal variable with mean n r and variance 2 - v. Replacing
    one of m numbers in [-c, c], c = k sqrt(m)/n, moves n r by at most 2 c n/m = 2 k/sqrt(m); and with the
    others fixed s^2 is (m - 1)/m^2 (x - their mean)^2 and a constant, so it moves by at most 4 c^2/m, and v
    by at most h. s^2 <= c^2, so variances lie in [b, 2]. The divergence of N(x, A) from N(y, B) is a (x -
    y)^2/(2 B') + f(A/B), with B' = B - (a - 1)(A - B) and f(t) = -log(t)/2 - log(1 - (a - 1)(t - 1))/(2 (a -
    1)), which falls before t = 1 and rises after it. For A >= B both terms are largest at B = b, A = b + h:
    that is e(a). For A < B the first is smaller, and the second at most f(1/(1 + h/b)) <= f(1 + h/b): their
    difference is 0 at h = 0, and with x = 1 + a h/b its slope is that of a multiple of x + 1/x - 2 >= 0, or
    more. []

The published bound has 5/m for h, takes each of the three terms at its own worst, and is 0.4687 at m = 100,
a = 2, k = 1, where this one is 0.0425.

>>> round(float(batch_divergence(np.array([2.0]), batch=100, part=0.0, clip=1.0)[0]), 4)
0.0425
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from onedraw.chains.engine import Comparison
from onedraw.types import AnyArray, Array

PLACES = np.array([0.0, 2.0, 3.0, 9.0, 10.0])
MASSES = np.array([0.863939, 0.010243, 0.123776, 0.00062, 0.001422])
"""V is one of ``PLACES``, of either sign, with these probabilities: the best on whole places."""
BELOW = np.cumsum(MASSES / MASSES.sum())[:-1]
LARGEST = 1e6
"""Stands for an infinite divergence: no budget pays for it."""
ORDERS = np.array([*range(2, 65), *range(72, 129, 8), *range(160, 257, 32)])


def batch_divergence(order: Array, *, batch: int, part: float, clip: float) -> Array:
    """e(a) of the module docstring, ``part`` being m/n and ``clip`` k; infinite where it has no bound."""
    least, moved = 2.0 - clip**2, 4.0 * clip**2 / batch
    h = moved * (1.0 - part)
    left = 1.0 - (order - 1.0) * h / least
    inside = np.where(left > 0.0, left, 1.0)
    by_mean = order * moved / (2.0 * least * inside)
    by_variance = -0.5 * math.log1p(h / least) - np.log(inside) / (2.0 * (order - 1.0))
    return np.where(left > 0.0, by_mean + by_variance, np.inf)


def sampled_divergence(whole: Array, part: float) -> Array:
    """The bound of a step with sampling at each of ``ORDERS``; ``whole`` are e(2), e(3), ... without it."""
    whole = np.minimum(whole, LARGEST)
    j, alone = np.arange(2.0, ORDERS[-1] + 1.0), whole[ORDERS - 2]
    with np.errstate(over="ignore"):
        terms = math.log(2.0) + j * math.log(part) + (j - 1.0) * whole + _log_choose()
        second = min(math.log(4.0) + math.log(math.expm1(whole[0])), math.log(2.0) + float(whole[0]))
        terms[:, 0] = second + 2.0 * math.log(part) + _log_choose()[:, 0]
        total = np.logaddexp(0.0, special.logsumexp(terms, axis=1)) / (ORDERS - 1.0)
    return np.asarray(np.minimum(total, alone))


def steps_allowed(*, epsilon: float, delta: float, batch: int, part: float, clip: float) -> int:
    """The largest number of steps that are (epsilon, delta)-DP together."""
    whole = batch_divergence(np.arange(2.0, ORDERS[-1] + 1.0), batch=batch, part=part, clip=clip)
    left = epsilon - np.log1p(-1.0 / ORDERS) + (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1.0)
    most = float((left / sampled_divergence(whole, part)).max())
    return max(0, int(most * (1.0 - 1e-9)))


@functools.cache
def _log_choose() -> Array:
    """log C(a, j) for ``ORDERS`` (rows) and j = 2, 3, ...; minus infinity for j > a."""
    a, j = ORDERS[:, None].astype(float), np.arange(2.0, ORDERS[-1] + 1.0)
    below = np.maximum(a - j, 0.0)
    logs = special.gammaln(a + 1.0) - special.gammaln(j + 1.0) - special.gammaln(below + 1.0)
    return np.where(j <= a, logs, -np.inf)


@dataclass(frozen=True, kw_only=True)
class BatchBarker:
    """The rule of the module docstring on batches of m = ``batch``, for moves with |r_i| <= ``clip``
    sqrt(m)/n.

    Log ratios beyond that are cut off, which keeps the privacy of moves that should not have been proposed.
    """

    batch: int
    clip: float

    def accepts(self, comparison: Comparison, rng: np.random.Generator) -> AnyArray:
        """One batch and one decision for each chain."""
        return np.array([self._accepts(comparison, chain, rng) for chain in range(len(comparison.states))])

    def _accepts(self, comparison: Comparison, chain: int, rng: np.random.Generator) -> bool:
        n, m = comparison.target.num_records, self.batch
        limit = self.clip * math.sqrt(m) / n
        rows = rng.choice(n, m, replace=False)
        ratios = np.clip(comparison.record_log_ratios(chain, rows), -limit, limit)
        total = comparison.log_prior_ratio(chain) + n * float(ratios.mean())
        variance = (1.0 - m / n) * n**2 * float(ratios.var()) / m
        noise = math.sqrt(2.0 - variance) * rng.standard_normal()
        correction = PLACES[np.searchsorted(BELOW, rng.random())]
        side = 1.0 if rng.random() < 0.5 else -1.0
        return bool(total + noise + side * correction > 0.0)
