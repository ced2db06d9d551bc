# SPDX-License-Identifier: Apache-2.0
"""The privacy curve of the Gaussian mechanism, and its inverse.

A mechanism is a-GDP if telling two neighbours apart is no easier than telling N(0, 1) from N(a, 1). That pair
has the curve

    delta(epsilon) = Phi(-epsilon/a + a/2) - e^epsilon Phi(-epsilon/a - a/2),

increasing in a. Gaussian noise of standard deviation s on a statistic of L2 sensitivity D is a-GDP with
a = D/s, and mechanisms with a_1, ..., a_k compose to sqrt(a_1^2 + ... + a_k^2) exactly
[Dong, Roth & Su 2022; the curve: Balle & Wang 2018].

>>> round(gaussian_parameter(1.0, 1e-5), 4)
0.2681
"""

from __future__ import annotations

import math

from scipy import special

from onedraw._validate import positive

SAFETY = 1e-9
"""Computed deltas are raised by this relative amount, far above their rounding error."""


def gaussian_delta(a: float, epsilon: float) -> float:
    """The smallest delta at ``epsilon`` of an a-GDP mechanism, rounded up.

    >>> gaussian_delta(1.0, 0.0) > 0.38
    True
    """
    positive(a=a)
    upper = float(special.log_ndtr(-epsilon / a + 0.5 * a))
    lower = epsilon + float(special.log_ndtr(-epsilon / a - 0.5 * a))
    if upper <= lower:  # both vanish; their difference is below what a float64 can tell
        return math.exp(upper)
    # The difference of the logarithms carries the rounding error of each: allow for it.
    rounding = 4e-16 * (1.0 + abs(upper) + abs(lower) + epsilon)
    return min(1.0, math.exp(upper) * -math.expm1(lower - upper - rounding) * (1.0 + SAFETY))


def gaussian_parameter(epsilon: float, delta: float) -> float:
    """The largest a such that a-GDP implies (epsilon, delta)-DP, rounded down."""
    epsilon, delta = positive(epsilon=epsilon), positive(delta=delta)
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2.0 * high
    while high - low > 1e-13 * high:  # `low` always satisfies the guarantee
        middle = 0.5 * (low + high)
        if gaussian_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low
