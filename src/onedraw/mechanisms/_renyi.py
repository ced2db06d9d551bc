# SPDX-License-Identifier: Apache-2.0
"""Renyi divergences between the posteriors of neighbours, for conjugate models [Geumlek et al. 2017].

Guarantee:
    (epsilon, delta)-DP with epsilon = min over orders k of D_k + log(1 - 1/k) - log(delta k)/(k - 1), where
    D_k bounds the Renyi divergence of order k between the posteriors of neighbours.

*Beta-Bernoulli, prior Beta(a, b), m rows a person.* With f = log Gamma and a shift t >= 0 let
    U_t(x) = f(x + k t) - k f(x + t) + (k - 1) f(x),    V_t(x) = f(x - (k-1) t) - k f(x) + (k - 1) f(x + t),
infinite unless x > (k - 1) t. f is convex, so neither is negative and both increase with t; f' is concave and
f'' convex, so both are decreasing and convex in x. Without the two people the counts of ones and zeros give
Beta(x, y); with the first they give Beta(x + p, y + q), with the second Beta(x + p', y + q'), all four being
multiples of w with p + q, p' + q' <= m w. Then (k - 1) D_k is

    S(x, p, p') + S(y, q, q') - S(x + y, p + q, p' + q'),   S(x, p, p') = U_{p-p'}(x + p') or V_{p'-p}(x + p),

the one that has a shift >= 0. The last term, of the normalisers, is subtracted, and x >= a, y >= b. Hence
(k - 1) D_k is at most the largest of

* U_r(a) + U_s(b) and V_r(a) + V_s(b) over r + s = m w, where both counts move the same way: all of
  add/remove, and replace-one with several rows, where the other person may have fewer;
* U_t(a) + V_t(b) and U_t(b) + V_t(a) with t = m w, where they move in opposite ways: replace-one.

With one row the normalisers cancel under replace-one. If the number of records n is declared (m = 1), the
worst data sets are then the extreme ones (a convex function of the count), which have a + w(n - 1) in place
of a or b + w(n - 1) in place of b.  []

The golden value: Beta(4, 3) against Beta(3, 4).

>>> round(beta_renyi(2.0, (4.0, 3.0), (3.0, 4.0)), 6)                                  # log 2
0.693147
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from onedraw.errors import CalibrationError
from onedraw.privacy.guarantee import Guarantee
from onedraw.types import Array

ORDERS = 1.0 + np.geomspace(1e-3, 1e5, 250)
MOST_SPLITS = 64


def beta_renyi(order: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    """The Renyi divergence of Beta(one) from Beta(other); infinite where a mixed parameter is not > 0."""
    mixed = [order * p + (1.0 - order) * q for p, q in zip(one, other, strict=True)]
    if min(mixed) <= 0.0:
        return math.inf
    terms = special.betaln(*mixed) - order * special.betaln(*one) - (1.0 - order) * special.betaln(*other)
    return float(terms / (order - 1.0))


def _rise(x: float, shift: float, order: Array) -> Array:
    """U(x) of the module docstring, rounded up."""
    return _bracket(x, shift, -order, -1.0, order, start=x)


def _fall(x: float, shift: float, order: Array) -> Array:
    """V(x) of the module docstring, rounded up; infinite where x <= (order - 1) shift."""
    return _bracket(x, shift, order - 1.0, 0.0, order, start=x - (order - 1.0) * shift)


def _bracket(x: float, shift: float, far: Array, near: float, order: Array, start: Array | float) -> Array:
    """f(x - far shift) - order f(x - near shift) + (order - 1) f(the remaining point).

    It is order (order - 1)/2 shift^2 times an average of f'' over an interval that starts at ``start``, at
    most f''(start): used where the sum has lost its digits.
    """
    remaining = x if near else x + shift
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = [
            special.gammaln(x - far * shift),
            -order * special.gammaln(x - near * shift),
            (order - 1.0) * special.gammaln(remaining),
        ]
        rounding = 1e-15 * (1.0 + sum(np.abs(term) for term in terms))
        smooth = 0.5 * order * (order - 1.0) * shift**2 * special.zeta(2.0, np.maximum(start, 1e-300))
        value = np.minimum(sum(terms) + 8.0 * rounding, smooth)
    return np.where(np.asarray(start) > 0.0, value, np.inf)


def beta_bernoulli_rdp(
    order: Array,
    *,
    prior: tuple[float, float],
    weight: float,
    guarantee: Guarantee,
    num_records: int | None = None,
) -> Array:
    """A bound on the Renyi divergence between the posteriors of neighbours, for an array of orders."""
    rows = guarantee.rows_per_person
    shift = rows * weight
    a, b = prior
    rise, fall = ({x: f(x, shift, order) for x in prior} for f in (_rise, _fall))
    opposite = np.maximum(rise[a] + fall[b], rise[b] + fall[a])
    if guarantee.neighbours == "add_remove":
        worst = _same_way(prior, rows, weight, order)
    elif num_records is None:
        worst = opposite if rows == 1 else np.maximum(opposite, _same_way(prior, rows, weight, order))
    else:
        others = weight * max(0, num_records - 1)
        worst = np.maximum.reduce(
            [
                rise[a] + _fall(b + others, shift, order),
                _rise(a + others, shift, order) + fall[b],
                rise[b] + _fall(a + others, shift, order),
                _rise(b + others, shift, order) + fall[a],
            ]
        )
    return np.asarray(worst / (order - 1.0))


def _same_way(prior: tuple[float, float], rows: int, weight: float, order: Array) -> Array:
    """The largest U_r(a) + U_s(b) or V_r(a) + V_s(b) over r + s = rows * weight, in multiples of the weight.

    Of very many rows, blocks of equal length: U and V increase with the shift, so the ends of a block bound
    what lies in it.
    """
    ends = np.unique(np.linspace(0, rows, min(rows, MOST_SPLITS) + 1).round().astype(int))
    blocks = [(int(low), int(high)) for low, high in zip(ends[:-1] + 1, ends[1:], strict=True)]
    splits = [(0, rows), *((high, rows - low) for low, high in blocks)]
    a, b = prior
    sums = [f(a, r * weight, order) + f(b, s * weight, order) for f in (_rise, _fall) for r, s in splits]
    return np.asarray(np.maximum.reduce(sums))


def rdp_to_epsilon(divergence: Array, order: Array, delta: float) -> float:
    """The smallest epsilon that the orders give [Canonne, Kamath & Steinke 2020]; each is valid by itself."""
    bound = divergence + np.log1p(-1.0 / order) - (math.log(delta) + np.log(order)) / (order - 1.0)
    return max(0.0, float(bound.min()))


def largest_weight(meets: Callable[[float], bool], requested: float) -> float:
    """The largest weight of at most 1 found to meet the guarantee."""
    if meets(1.0):
        return 1.0
    low, high = 1e-9, 1.0
    if not meets(low):
        raise CalibrationError("No weight meets this guarantee: use a larger epsilon.", requested=requested)
    while high - low > 1e-8 * high:  # `low` always satisfies the guarantee
        middle = 0.5 * (low + high)
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low
