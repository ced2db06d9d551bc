# SPDX-License-Identifier: Apache-2.0
"""How the privacy loss of several draws adds up.

One draw from a generalised posterior is an exponential mechanism. For neighbouring data sets with
posteriors P and Q its privacy loss log(P/Q) lies in an interval [t - r, t] of width r with 0 <= t <= r: it
has *bounded range* r. That is more than r-differential privacy (which allows width 2r), and composes
better.

Guarantee:
    k draws, each of bounded range r, together satisfy (epsilon, delta)-differential privacy with

    * ``compose_pure``: epsilon = k r, delta = 0. Any mechanisms, chosen adaptively.
    * ``compose_zcdp``: k r^2/8 zero-concentrated DP, converted. Any mechanisms of that range, chosen
      adaptively.
    * ``compose_bounded_range``: the smallest epsilon possible. Only for independent draws of **one**
      posterior.

*Why r^2/8* [Cesar & Rogers 2021]. Let Z = log(P/Q) under Q and K(a) = log E exp(a Z). Then K(0) = K(1) = 0,
and K''(a) is the variance of Z under a tilted law, at most r^2/4 because Z lives in an interval of width r.
By the error of linear interpolation K(a) <= a (a - 1) r^2/8 for a > 1: the Renyi divergence of order a is
at most a r^2/8. These divergences add.

*Why the optimal curve is right* [after Dong, Durfee & Rogers 2020]. Let L = P/Q under Q, so E L = 1 and L
lies in [e^(t-r), e^t]. With k independent draws of the same pair the likelihood ratio is L_1 ... L_k and

    delta(epsilon) = E (L_1 ... L_k - e^epsilon)_+ ,

which is convex in each L_i with the others held fixed. A convex function of a variable with given mean and
range is largest in expectation when the variable sits at the two ends of its range. Moving the L_i there
one after another gives the two-point pair, with the same t for all draws because P and Q are the same. (In
Blackwell's words: the two-point pair is the most informative of its range, and products preserve that
order.) So, with q = (e^-t - e^-r)/(1 - e^-r),

    delta(epsilon) = sup over t of  sum_i C(k,i) q^(k-i) (1-q)^i [e^(kt - ir) - e^epsilon]_+ .

*The supremum is a maximum over k known points.* The sum is the largest over m of F_m(t) = P(i <= m) -
e^epsilon Q(i <= m), where i is binomial under both. Differentiating the binomial tails, F_m'(t) has the
sign of e^epsilon e^-t - e^(kt - (m+1)r): F_m rises up to t_m = (epsilon + (m+1) r)/(k+1) and falls after
it. So the supremum is max F_m(t_m) over m = 0..k-1 with t_m < r, exactly; no search.

Edge cases:
    delta = 0 gives k r. One draw at delta = 0 gives r back. A delta larger than the total variation gives
    epsilon = 0.

>>> round(compose_bounded_range(0.1, draws=100, delta=1e-6), 2), compose_pure(0.1, draws=100)
(2.25, 10.0)
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import optimize, special

from onedraw._validate import one_of, positive, probability, whole
from onedraw.types import Array

SAFETY = 1e-9
"""Computed deltas are raised by this relative amount, far above their rounding error."""

_SMALLEST = 1e-300
_BLOCK = 64


def compose_pure(bounded_range: float, *, draws: int = 1) -> float:
    """The epsilon of ``draws`` mechanisms of ``bounded_range``-DP: their sum.

    >>> compose_pure(0.5, draws=4)
    2.0
    """
    return whole(draws=draws) * positive(bounded_range=bounded_range)


def zcdp_of_bounded_range(bounded_range: float, *, draws: int = 1) -> float:
    """The zero-concentrated DP parameter rho of ``draws`` mechanisms, chosen adaptively if need be.

    >>> zcdp_of_bounded_range(2.0, draws=3)
    1.5
    """
    return whole(draws=draws) * positive(bounded_range=bounded_range) ** 2 / 8.0


def zcdp_to_epsilon(rho: float, *, delta: float, conversion: str = "tight") -> float:
    """An epsilon such that rho-zCDP implies (epsilon, delta)-DP.

    ``"simple"`` is rho + 2 sqrt(rho log(1/delta)) [Bun & Steinke 2016]. ``"tight"`` is the least of
    a rho + log(1 - 1/a) - log(delta a)/(a - 1) over orders a > 1 [Canonne, Kamath & Steinke 2020]; each order
    gives a valid bound, so an inexact minimiser costs a little accuracy and no privacy.

    >>> [round(zcdp_to_epsilon(0.125, delta=1e-6, conversion=how), 2) for how in ("tight", "simple")]
    [2.42, 2.75]
    """
    positive(rho=rho)
    delta = probability(delta=delta)
    one_of(("simple", "tight"), conversion=conversion)
    if delta == 0.0:
        return math.inf
    simple = rho + 2.0 * math.sqrt(rho * -math.log(delta))
    if conversion == "simple":
        return simple

    def bound(log_excess: float) -> float:  # log(a - 1), since the best order may be close to 1
        excess = math.exp(log_excess)
        log_order = math.log1p(excess)
        return (1.0 + excess) * rho + log_excess - log_order - (math.log(delta) + log_order) / excess

    guess = 0.5 * math.log(max(-math.log(delta), 1e-12) / rho)  # the minimiser of the simple conversion
    found = optimize.minimize_scalar(bound, bounds=(guess - 8.0, guess + 8.0), method="bounded")
    return max(0.0, min(simple, float(found.fun)))


def compose_zcdp(bounded_range: float, *, draws: int = 1, delta: float, conversion: str = "tight") -> float:
    """The epsilon of ``draws`` mechanisms through zero-concentrated DP, or their sum where that is less.

    >>> round(compose_zcdp(0.5, draws=20, delta=1e-6), 2)
    5.93
    """
    rho = zcdp_of_bounded_range(bounded_range, draws=draws)
    return min(
        compose_pure(bounded_range, draws=draws), zcdp_to_epsilon(rho, delta=delta, conversion=conversion)
    )


def bounded_range_delta(bounded_range: float, *, draws: int = 1, epsilon: float) -> float:
    """The smallest delta at ``epsilon`` for ``draws`` draws of one posterior: the module's optimal curve.

    >>> bounded_range_delta(1.0, epsilon=1.0)
    0.0
    """
    r, k = positive(bounded_range=bounded_range), whole(draws=draws)
    tails: Array = np.arange(k, dtype=np.float64)
    t = (epsilon + (tails + 1.0) * r) / (k + 1.0)
    gap = ((k - tails) * r - epsilon) / (k + 1.0)  # r - t without cancellation
    inside = (t > 0.0) & (gap > 0.0)
    tails, t, gap = tails[inside], t[inside], gap[inside]
    if not tails.size:  # epsilon >= k r
        return 0.0
    # P(i <= m) bounds F_m from above, and subtracting most of e^epsilon Q(i <= m) does so closely. That
    # orders the candidates; those whose bound is below a value already reached need no exact sum.
    log_high, log_low = _two_point(t, gap, r)
    p_tail = special.betainc(k - tails, tails + 1.0, np.minimum(1.0, np.exp(log_high + t)))
    q_tail = special.betainc(k - tails, tails + 1.0, np.minimum(1.0, np.exp(log_high)))
    with np.errstate(divide="ignore"):
        ratio = np.exp(np.minimum(0.0, epsilon + np.log(q_tail) - np.log(np.maximum(p_tail, _SMALLEST))))
    bound = np.maximum(p_tail * (1.0 - ratio * (1.0 - 1e-6)), _SMALLEST)
    order = np.argsort(-bound)
    best = 0.0
    for start in range(0, order.size, _BLOCK):
        block = order[start : start + _BLOCK]
        if bound[block[0]] <= best:
            break
        exact = _log_excess(tails[block], log_high[block], log_low[block], r, k, epsilon)
        best = max(best, float(np.exp(exact.max())))
    return min(1.0, best * (1.0 + SAFETY))


def compose_bounded_range(bounded_range: float, *, draws: int = 1, delta: float) -> float:
    """The smallest epsilon at ``delta`` of ``draws`` independent draws of one posterior.

    Not valid for mechanisms chosen adaptively: use ``compose_zcdp`` there.

    >>> compose_bounded_range(0.7, draws=1, delta=0.0)
    0.7
    """
    high = compose_pure(bounded_range, draws=draws)
    delta = probability(delta=delta)
    return high if delta == 0.0 else _smallest_epsilon(bounded_range, draws, delta, high)


@lru_cache(maxsize=1024)
def _smallest_epsilon(bounded_range: float, draws: int, delta: float, high: float) -> float:
    if bounded_range_delta(bounded_range, draws=draws, epsilon=0.0) <= delta:
        return 0.0
    low = 0.0
    while high - low > 1e-12 * high:  # `high` always satisfies the guarantee
        middle = 0.5 * (low + high)
        if bounded_range_delta(bounded_range, draws=draws, epsilon=middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def range_per_draw(epsilon: float, *, delta: float = 0.0, draws: int = 1) -> float:
    """The largest bounded range such that ``draws`` draws of one posterior satisfy (epsilon, delta)-DP.

    Rounded down: composing the answer again never exceeds ``epsilon``.

    >>> range_per_draw(1.0, draws=4), round(range_per_draw(1.0, delta=1e-6, draws=100), 4)
    (0.25, 0.0475)
    """
    epsilon, delta, draws = positive(epsilon=epsilon), probability(delta=delta), whole(draws=draws)
    low = epsilon / draws
    while low * draws > epsilon:
        low = math.nextafter(low, 0.0)
    return low if delta == 0.0 else _largest_range(epsilon, draws, delta, low)


@lru_cache(maxsize=1024)
def _largest_range(epsilon: float, draws: int, delta: float, low: float) -> float:
    high = low
    while bounded_range_delta(high, draws=draws, epsilon=epsilon) <= delta:
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:  # `low` always satisfies the guarantee
        middle = 0.5 * (low + high)
        if bounded_range_delta(middle, draws=draws, epsilon=epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def _two_point(t: Array, gap: Array, r: float) -> tuple[Array, Array]:
    """Log probabilities under Q of the losses t and t - r, to full accuracy; ``gap`` is r - t."""
    log_width = math.log(-math.expm1(-r))
    return np.log(-np.expm1(-gap)) - t - log_width, np.log(-np.expm1(-t)) - log_width


def _log_excess(tails: Array, log_high: Array, log_low: Array, r: float, k: int, epsilon: float) -> Array:
    """log of sum_{i <= m} C(k,i) q^(k-i) (1-q)^i (e^(kt - ir) - e^epsilon) at t = t_m, for each m.

    All terms are positive, so nothing cancels; kt - ir - epsilon is formed from t_m's definition likewise.
    """
    i = np.arange(int(tails.max()) + 1)
    log_count = special.gammaln(k + 1.0) - special.gammaln(i + 1.0) - special.gammaln(k - i + 1.0)
    log_mass = log_count + np.outer(log_high, k - i) + np.outer(log_low, i)
    m = tails[:, None]
    excess = (((m + 1.0 - i) * (k + 1.0) - (m + 1.0)) * r - epsilon) / (k + 1.0)
    with np.errstate(divide="ignore"):
        terms = log_mass + (excess + epsilon) + np.log(-np.expm1(-np.maximum(excess, 0.0)))
    return special.logsumexp(terms, axis=1)  # type: ignore[no-any-return]
