# SPDX-License-Identifier: Apache-2.0
"""Barker's rule on a random few of the records, with the posterior as its law exactly [Zhang & Zhang 2023].

Let r_i be what a move adds to the weighted loss of record i, |r_i| <= b for every record (b is public: w
min(R, G d) for a move of length d), f_i = (b + r_i)/2, and l = b/x for a public number x. Record i is counted
S_i ~ Poisson(l + f_i) times, and the move made with probability 1/(1 + e^-u),

    u = log prior ratio + sum of S_i log((l + b - f_i)/(l + f_i)).

To draw the counts one looks at Poisson(n (l + b)) records with replacement and keeps each with probability
(l + f_i)/(l + b): n b (1 + 1/x) of n records are enough, with short moves a small part.

Guarantee:
    *The posterior is invariant exactly.* The reverse move has b - f_i for f_i and the opposite u. Up to what
    both have in common, the density of state and counts is prior exp(-sum of w loss) prod (l + f_i)^S_i
    exp(-f_i); as sum f_i is half of what the move adds to the loss and a constant, the density of the reverse
    over it is e^u, and Barker's rule is in balance for every S [Zhang & De Sa 2019; Zhang, Cooper & De Sa
    2020].

    *A step is private by itself.* Between neighbours the log odds of acceptance given the counts of all
    others lie in one interval of width (2 + x) b a row under replace-one, and at most (1 + x) b from where
    they are without the row under add/remove: a step is Delta-DP and Delta^2/8 zero-concentrated DP with that
    Delta, as a step with all records is with 2 b and b.

    *Proof.* Let s be what a person's counts add to u, and a the rest. As 1/(1 + e^-u) = e^u/(1 + e^u), the
    odds are e^a E[e^s g(s)]/E[g(s)] with g(s) = 1/(1 + e^(a + s)), which falls while e^s rises: at most e^a
    E[e^s] (Chebyshev's inequality), and likewise at least e^a/E[e^-s]. For a row E[e^s] = exp((l + b - f) -
    (l + f)) = e^(b - 2f) <= e^b, and E[e^-s] = exp((2f - b)(l + f)/(l + b - f)) <= exp(b (l + b)/l) = e^(b (1
    + x)). Rows multiply, and a row that is not there has s = 0. The law of a decision is a mixture over the
    counts of the others, which are the same for neighbours, and of two mixtures neither the ratios nor the
    Renyi divergences are larger than those of the worst component. []

The published code is not private: it draws uniform noise for normal noise, has l the wrong way round in one
script, leaves out the prior, and decides by min(1, e^u) below a threshold, which at u = 0 never rejects and
so has no epsilon. With the logistic rule no noise is needed at all.

>>> sampled = Thinned(per_record=Sensitivity(multiple=1.0, weight=0.01, width=1.0), overhead=0.2)
>>> round(float(sampled.rate(np.ones(1))[0]), 3)                  # of the records are looked at in a step
0.06
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from onedraw.chains.accounting import Sensitivity
from onedraw.chains.engine import Comparison
from onedraw.types import AnyArray, Array


@dataclass(frozen=True, kw_only=True)
class Thinned:
    """The rule of the module docstring: ``per_record`` gives b, ``overhead`` is x."""

    per_record: Sensitivity
    overhead: float

    def rate(self, length: Array) -> Array:
        """How often a record is looked at in a step of that length (m,), on average: l + b."""
        return np.asarray(self.per_record(length) * (1.0 + 1.0 / self.overhead))

    def accepts(self, comparison: Comparison, rng: np.random.Generator) -> AnyArray:
        """One set of counts and one decision for each chain."""
        bounds = self.per_record(comparison.move.length)
        ratios = np.array([self._log_ratio(comparison, i, float(b), rng) for i, b in enumerate(bounds)])
        return np.asarray(rng.random(len(ratios)) < special.expit(ratios))

    def _log_ratio(self, comparison: Comparison, chain: int, b: float, rng: np.random.Generator) -> float:
        """u of the module docstring, for one chain."""
        n, least, total = comparison.target.num_records, b / self.overhead, comparison.log_prior_ratio(chain)
        looked = int(rng.poisson(n * (least + b)))
        if not looked:
            return total
        rows = rng.integers(n, size=looked)
        added = -comparison.record_log_ratios(chain, rows)
        f = np.clip(0.5 * (b + added), 0.0, b)
        kept = rng.random(looked) * (least + b) < least + f
        return total + float(np.log((least + b - f[kept]) / (least + f[kept])).sum())


@dataclass(frozen=True, kw_only=True)
class ThinnedReference:
    """How ``Thinned`` decides on the reference, where there are no records, for tuning.

    Given the records, u is about normal around the log ratio less half of its variance, which is about
    ``count`` times w^2 times the mean square of slopes times squares of moves, over l + b/2;
    ``squared_slopes`` (p,) are their means by coordinate."""

    rule: Thinned
    count: int
    squared_slopes: Array

    def accepts(self, comparison: Comparison, rng: np.random.Generator) -> AnyArray:
        """One decision for each chain."""
        bound, weight = self.rule.per_record(comparison.move.length), self.rule.per_record.weight
        moves = comparison.move.states - comparison.states
        squares = self.count * weight**2 * (np.square(moves) @ self.squared_slopes)
        variance = squares / np.maximum(bound / self.rule.overhead + 0.5 * bound, 1e-300)
        u = comparison.log_ratio - 0.5 * variance + np.sqrt(variance) * rng.standard_normal(len(bound))
        return np.asarray(rng.random(len(bound)) < special.expit(u))
