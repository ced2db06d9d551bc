# SPDX-License-Identifier: Apache-2.0
"""What a guarantee means for one person: how far an attacker's suspicion can grow.

Guarantee:
    The attacker knows everything about everybody else and has two candidates for one person's data,
    neighbours in the sense of the guarantee. Let P and Q be the laws of the release under them.

    * delta = 0: P <= e^epsilon Q at every outcome, so the odds of a suspicion grow at most by the factor
      e^epsilon [Bayes].
    * delta > 0: let S be the outcomes with P > 2 e^epsilon Q. Then P(S) <= e^epsilon Q(S) + delta and
      e^epsilon Q(S) <= P(S)/2, so P(S) <= 2 delta: the factor is at most 2 e^epsilon except with probability
      2 delta. (It is not true that e^epsilon is exceeded with probability at most delta.)
    * The probability of finding a true suspicion minus that of a false alarm is at most
      (e^epsilon - 1 + 2 delta)/(e^epsilon + 1) [Kairouz, Oh & Viswanath 2015].

>>> round(advantage(1.0), 4), round(posterior(0.5, 1.0), 4)
(0.4621, 0.7311)
"""

from __future__ import annotations

import math


def advantage(epsilon: float, delta: float = 0.0) -> float:
    """The largest difference between the rates of true and false alarms."""
    shrunk = math.exp(-epsilon)  # divided by e^epsilon, which overflows
    return min(1.0, (1.0 - shrunk + 2.0 * delta * shrunk) / (1.0 + shrunk))


def posterior(prior: float, epsilon: float, delta: float = 0.0) -> float:
    """The largest probability that a suspicion of that prior probability can reach; for delta see above."""
    log_factor = epsilon + (math.log(2.0) if delta > 0.0 else 0.0)
    return prior / (prior + (1.0 - prior) * math.exp(-log_factor))


def percent(share: float) -> str:
    """Three digits, and never 100% for less.

    >>> percent(0.7311), percent(0.99999), percent(1.0)
    ('73.1%', 'almost 100%', '100%')
    """
    text = f"{100.0 * share:.3g}%"
    return text if share == 1.0 or text != "100%" else "almost 100%"
