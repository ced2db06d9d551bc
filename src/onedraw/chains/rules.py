# SPDX-License-Identifier: Apache-2.0
"""When a proposed move is made: rules that leave the posterior invariant and are private.

*Barker.* Accept with probability 1/(1 + e^-u), u the log ratio.

Guarantee:
    The posterior is invariant exactly: s(u) = 1/(1 + e^-u) has s(u) = e^u s(-u), which is detailed balance
    for a symmetric proposal [Barker 1965].

    A step whose u moves by at most Delta between neighbours has bounded range Delta, so it is Delta-DP and
    Delta^2/8 zero-concentrated DP. *Proof.* It is the exponential mechanism on {accept, reject}: the
    log odds of the two outcomes are u. The log probability of each moves by at most |u - u'|, in opposite
    directions, and their difference by exactly |u - u'| <= Delta: the privacy loss fills an interval of that
    width. []

    (The rule min(1, e^u) is *not* private: at u = 0 it never rejects, at u = -Delta it does, with probability
    1 - e^-Delta, which no epsilon covers.)

*Penalty* [Ceperley & Dewing 1999; Yildirim & Ermis 2019]. Accept if log U < u + sd xi - sd^2/2, U uniform,
xi standard normal.

Guarantee:
    The posterior is invariant exactly, for any sd that is the same for a move and its reverse (here a
    function of the distance). *Proof.* Let s = sd^2, v ~ N(u - s/2, s) with density n, and v' ~ N(-u - s/2,
    s) with density n' be what a move and its reverse compare with log U. Then n(x) = e^(u - x) n'(-x), so
    the probability of the move, the integral of n(x) min(1, e^x), is e^u times that of n'(-x) min(1, e^-x),
    the probability of its reverse. []

    The noisy ratio is the Gaussian mechanism: with sd = Delta/mu, where u moves by at most Delta between
    neighbours, a step is mu-GDP.

>>> from scipy import special
>>> bool(np.isclose(special.expit(0.7), np.exp(0.7) * special.expit(-0.7)))
True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from onedraw.chains.accounting import Sensitivity
from onedraw.chains.engine import Comparison
from onedraw.types import AnyArray, Array


@dataclass(frozen=True)
class Barker:
    """Accept with the logistic probability of the log ratio."""

    def accepts(self, comparison: Comparison, rng: np.random.Generator) -> AnyArray:
        """One Bernoulli variable for each chain."""
        ratio = comparison.log_ratio
        return np.asarray(rng.random(len(ratio)) < special.expit(ratio))


@dataclass(frozen=True, kw_only=True)
class Penalty:
    """Accept with noise on the log ratio, and half its variance as a penalty; each decision is ``mu``-GDP."""

    sensitivity: Sensitivity
    mu: float

    def sd(self, length: Array) -> Array:
        """The standard deviation of the noise for moves of that length (m,)."""
        return np.asarray(self.sensitivity(length) / self.mu)

    def accepts(self, comparison: Comparison, rng: np.random.Generator) -> AnyArray:
        """One noisy comparison for each chain."""
        ratio, sd = comparison.log_ratio, self.sd(comparison.move.length)
        noisy = ratio + sd * rng.standard_normal(len(ratio))
        return np.asarray(np.log(1.0 - rng.random(len(ratio))) < noisy - 0.5 * np.square(sd))


@dataclass(frozen=True)
class Always:
    """Make every move: the law of the chain is that of its proposals."""

    def accepts(self, comparison: Comparison, rng: np.random.Generator) -> AnyArray:
        """All of them; no look at the records."""
        return np.ones(len(comparison.states), dtype=bool)
