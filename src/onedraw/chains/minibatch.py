# SPDX-License-Identifier: Apache-2.0
"""Barker's rule on a batch of the records, corrected for the noise of the batch.

Of n records m are looked at, chosen anew in every step without replacement. Their weighted log ratios r_i
have mean r and variance s^2, and a move is made with probability 1/(1 + e^-u),

    u = t + v T/2 + v^2 T (1 - T^2)/4,    t = log prior ratio + n r,    v = min(1/2, (1 - m/n) n^2 s^2/m),

T = tanh(t/2). t is about normal around the log ratio with variance v. For t normal around a log ratio the
average of 1/(1 + e^-u) is Barker's probability of it up to terms in v^3: with s the logistic function, the
solution of E[f(t)] = s for every mean is f = s - v s''/2 + v^2 s''''/8 - ..., and u is log f/(1 - f) up to
v^2. (Seita et al. 2017 and Heikkila et al. 2019 add normal noise of variance 2 - v and a variable that makes
it nearly logistic; a decision then has the same law up to the same accuracy, and a far larger bound on what
it tells.)

**Approximate in its target**: the mean of a batch is only about normal, terms in v^3 are left out, which
moves probabilities by at most 0.0007, and a variance above 1/2 is taken for 1/2, which heats the target;
steps and batches are chosen for variances below that. **Exact in its privacy**: the proof uses none of it.

Guarantee:
    Let |r_i| <= b for every record, q = m/n, and for neighbours of n records each, one of them replaced,

        V = (1 - q) n^2 b^2/m,    v* = min(1/2, V),
        eta = (1 + v*/4 + v*^2/8) 2 n b/m + (1/2 + v*/5) min(v*, 4 V/m).

    A step has bounded range Delta = log(1 + q (e^eta - 1)), so it is Delta-DP and Delta^2/8 zero-concentrated
    DP. For small eta this is 2 b, what a step of Barker's rule on all records costs.

    *Proof.* (1) *Given the batch.* Replacing one of m numbers in [-b, b] moves t by at most 2 n b/m. With the
    others fixed s^2 is (m - 1)/m^2 (x - their mean)^2 and a constant, so v moves by at most 4 V/m; and v <=
    v*, as s^2 <= b^2. As T has slope (1 - T^2)/2, those of u are at most 1 + v/4 + v^2/8 in t, and 1/2 + v/5
    in v, |T| (1 - T^2) being at most 0.385. So u moves by at most eta.

    (2) *Three mixtures.* Let p and p' be the probability of the move given that the batch holds the replaced
    record, before and after, and p0 given that it does not. All three are averages over the same choice of m
    - 1 other records, to which comes the record, its replacement, or a random third; by (1) the log odds of
    the three terms of each choice are at most eta apart. So are those of the averages: for the terms x and y
    of two of them y <= g(x) = e^eta x/(1 - x + e^eta x), which is concave, so by Jensen's inequality E[y] <=
    g(E[x]), which has e^eta times the odds of E[x].

    (3) *Sampling.* Let f(a) = log(1 - q + q e^a), which is convex, rises, and is 0 at 0. A step moves with
    probability (1 - q) p0 + q p, or (1 - q) p0 + q p'; say p' <= p. Write p = p0 e^c, p' = p0 e^c', 1 - p =
    (1 - p0) e^-d, 1 - p' = (1 - p0) e^-d': c and d have one sign, c' and d' too. The log odds differ by f(c)
    - f(c') + f(-d') - f(-d). If p' <= p0 <= p, the first two are at most f(c - c') and the last two at most
    f(d - d') by convexity, and their sum is at most f of the sum, which is at most eta. If p0 < p', f(c') -
    f(-d') >= 0 may be left out, and f(c) - f(-d) <= f(c + d) <= f(eta); p0 > p likewise. []

The published bound [Heikkila et al. 2019] is a divergence of order 2 of 0.4687, before sampling, for batches
of 100 at b = sqrt(m)/n, where a decision has 0.0163; and sampling without replacement is accounted by a
general theorem, which for a single bit loses another factor of 4 to 11.

>>> price = BatchPrice(per_record=Sensitivity(multiple=1.0, weight=1e-4, width=1.0), batch=400, count=40_000)
>>> price(np.ones(1)).round(6)                                             # 2 b is 0.0002
array([0.000206])
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from onedraw.chains.accounting import Sensitivity
from onedraw.chains.engine import Comparison
from onedraw.types import AnyArray, Array

LARGEST_VARIANCE = 0.5
"""Of a batch's log ratio, up to which it is corrected for."""


@dataclass(frozen=True, kw_only=True)
class BatchPrice:
    """Delta of the module docstring by the length of a step.

    ``per_record`` gives b, ``batch`` is m and ``count`` n.
    """

    per_record: Sensitivity
    batch: int
    count: int

    def __call__(self, length: Array) -> Array:
        """The range of steps of that length (m,)."""
        eta = self.of_a_batch(length)
        # Beyond 700 the exponential overflows, and nothing is lost by charging eta itself.
        sampled = np.log1p(self.batch / self.count * np.expm1(np.minimum(eta, 700.0)))
        return np.where(eta < 700.0, sampled, eta)

    def of_a_batch(self, length: Array) -> Array:
        """eta."""
        bound = self.per_record(length)
        spread = (1.0 - self.batch / self.count) * np.square(self.count * bound) / self.batch
        most = np.minimum(LARGEST_VARIANCE, spread)
        by_mean = (1.0 + most / 4.0 + np.square(most) / 8.0) * (2.0 * self.count / self.batch) * bound
        return np.asarray(by_mean + (0.5 + most / 5.0) * np.minimum(most, 4.0 * spread / self.batch))


@dataclass(frozen=True, kw_only=True)
class BatchBarker:
    """The rule of the module docstring, for moves with |r_i| <= ``per_record``, on batches of ``batch``."""

    per_record: Sensitivity
    batch: int

    def accepts(self, comparison: Comparison, rng: np.random.Generator) -> AnyArray:
        """One batch and one decision for each chain."""
        bounds = self.per_record(comparison.move.length)
        ratios = np.array([self._log_odds(comparison, i, float(b), rng) for i, b in enumerate(bounds)])
        return np.asarray(rng.random(len(ratios)) < special.expit(ratios))

    def _log_odds(self, comparison: Comparison, chain: int, b: float, rng: np.random.Generator) -> float:
        """u of the module docstring, for one chain."""
        n, m = comparison.target.num_records, self.batch
        rows = rng.choice(n, m, replace=False, shuffle=False)
        # The clip is for rounding errors: within them every ratio keeps to the bound.
        ratios = np.clip(comparison.record_log_ratios(chain, rows), -b, b)
        total = comparison.log_prior_ratio(chain) + n * float(ratios.mean())
        return corrected(total, (1.0 - m / n) * n**2 * float(ratios.var()) / m)


def corrected(total: float, variance: float) -> float:
    """u for t = ``total`` and the variance of a batch.

    >>> round(corrected(2.0, 0.0), 3), round(corrected(2.0, 0.25), 3), round(corrected(2.0, 9.0), 3)
    (2.0, 2.1, 2.21)
    """
    v, bend = min(LARGEST_VARIANCE, variance), math.tanh(0.5 * total)
    return total + 0.5 * v * bend + 0.25 * v**2 * bend * (1.0 - bend**2)
