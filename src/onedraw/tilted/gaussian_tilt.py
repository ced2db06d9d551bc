# SPDX-License-Identifier: Apache-2.0
"""The Gaussian tilt: (epsilon, delta)-DP, with less noise than a norm law where there are many coefficients.

b ~ N(0, sigma^2 I), gradients of Euclidean norm at most a L, a in [0, 1] the relative score, mu = L/sigma,
k = sup omega |z|_2^2 / ridge, and H_mu(e) = Phi(-e/mu + mu/2) - e^e Phi(-e/mu - mu/2), the Gaussian's curve.

Guarantee (``tilt_delta``), m rows a person, one sum over what each row may do, h = (1 + 2 c) k for the
logistic loss with c times Brier's score:
    logistic:   replace-one  sum_ij C(m,i) C(m,j) H_{(i+j) mu}(epsilon - (m-i) h),
                add/remove   sum_i  C(m,i) H_{i mu}(epsilon - (m-i) h),              if m h <= epsilon;
    log-cosh:   replace-one  sum_i  C(m,i) 2^i 2^m H_{(i+m) mu}(epsilon - 2 (m-i) k),
                add/remove   sum_i  C(m,i) 2^i H_{i mu}(epsilon - 2 (m-i) k),        if 2 m k <= epsilon;
    others:     replace-one  sum_ij over corners, H_{(i+j) mu}(epsilon - m D),
                add/remove   likewise, D = sup log det(I + k f'').

*Proof.* Let b ~ N under the first data set. The privacy loss at theta(b) is L = (2 b.g + |g|^2)/(2 sigma^2) +
the log ratio of determinants, g the difference of gradients: convex in g. Take one row, of the first data set
only, first; let phi be the Gaussian part as a function of its score, all else fixed.
Logistic: g moves along a segment a v, v fixed by (y, z), a in [0, 1]; phi is convex, and the determinant
adds at most k f'' <= h (1-a) [``losses``]. If phi(1) - phi(0) >= h, then phi(a) + h (1-a) <= phi(0) + a
(phi(1)-phi(0)) + h (1-a) <= phi(1). Otherwise it is <= phi(0) + a h + h (1-a) = phi(0) + h. So the row counts
as a constant shift v, or as none with h lost.
Log-cosh: a in [-1, 1], the determinant adds k (1-a^2). For a >= 0: if phi(1) - phi(0) >= 2k, then phi(a) +
k (1-a)(1+a) <= phi(1); otherwise <= phi(0) + 2 k a + k (1-a^2) <= phi(0) + 2k. Likewise for a < 0. So the row
counts as a shift v, as -v, or as none with 2k lost.
Others: the score lies in a polytope with ``corners`` corners besides 0, so phi is at most its largest value
at a corner or at 0, and the determinant adds at most D. A row of the second data set only has no
determinant to pay, and phi, convex, is at most its largest value at the ends of its segment (0 or v' for
logistic, v' or -v' for log-cosh). So L is at most the maximum over finitely many *constant* shifts, of
length at most j mu, of their loss + a constant c. delta = E (1 - e^(epsilon-L))_+ increases with L, hence
it is at most the sum over these. A constant shift gives H(epsilon - c), which increases with its length;
shift 0 gives 0 as c <= epsilon. More rows: one by one. []

The log-cosh condition is 2 k <= epsilon only; the exact Gaussian curve for logistic add/remove has neither a
factor nor |log det| subtracted from epsilon.

>>> from onedraw.tilted.losses import Logistic
>>> law = gaussian_ratios(Logistic(), epsilon=1.0, delta=1e-6, neighbours="add_remove", rows_per_person=1)
>>> round(1.0 / law[0], 3), round(law[1], 6)                      # sigma/L, and k
(4.225, 1.0)
"""

from __future__ import annotations

import math

from onedraw.privacy.gaussian import gaussian_delta
from onedraw.tilted.losses import Loss
from onedraw.types import Neighbours

REPLACED_SHARE = 0.4
"""Of epsilon, what a row of score 0 may lose: its terms then add less than 1 per cent to sigma."""
ADDED_SHARE = 0.8
PRICE = 0.1
MOST_WAYS = 1e40
"""Terms of the sum, beyond which it is not used: it would ask for more noise than a norm law, or overflow."""


def gaussian_ratios(
    loss: Loss, *, epsilon: float, delta: float, neighbours: Neighbours, rows_per_person: int
) -> tuple[float, float]:
    """(mu, k), mu = L/sigma the largest, rounded down, that ``tilt_delta`` allows."""
    k = _curvature_ratio(loss, epsilon, neighbours, rows_per_person)

    def allowed(mu: float) -> bool:
        spent = tilt_delta(
            loss, mu=mu, k=k, epsilon=epsilon, neighbours=neighbours, rows_per_person=rows_per_person
        )
        return spent <= delta

    low, high = 0.0, 1.0
    while allowed(high):
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low, k


def is_of_use(loss: Loss, rows_per_person: int) -> bool:
    """Whether the sum over what each row of a person may do has at most ``MOST_WAYS`` terms."""
    return 2 * rows_per_person * math.log1p(loss.corners) <= math.log(MOST_WAYS)


def _curvature_ratio(loss: Loss, epsilon: float, neighbours: Neighbours, rows: int) -> float:
    if loss.escape_ratio is None:
        room = PRICE * epsilon / rows
        k = 1.0
        while loss.determinant_bound(k) > room:
            k *= 0.5
        low, high = 0.0, 2.0 * k
        while high - low > 1e-12 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if loss.determinant_bound(middle) <= room else (low, middle)
        return low
    share = REPLACED_SHARE
    if neighbours == "add_remove":
        share = 1.0 if rows == 1 else ADDED_SHARE
    return share * epsilon / (rows * loss.escape_ratio)


def tilt_delta(
    loss: Loss, *, mu: float, k: float, epsilon: float, neighbours: Neighbours, rows_per_person: int
) -> float:
    """An upper bound of delta at ``epsilon``; see the module docstring."""
    m, corners = rows_per_person, loss.corners
    free = loss.escape_ratio
    escape = m * loss.determinant_bound(k) if free is None else free * k
    if (m * escape if free is not None else escape) > epsilon * (1.0 + 1e-12):
        return 1.0
    one_sided = free is None or corners == 1  # whether 0 is an end of the other row's segment
    if neighbours == "add_remove":
        others = [(0, 1.0)]
    elif one_sided:
        others = [(j, float(math.comb(m, j)) * corners**j) for j in range(m + 1)]
    else:
        others = [(m, float(corners) ** m)]
    total = 0.0
    for i in range(m + 1):
        ways = float(math.comb(m, i)) * float(corners) ** i
        left = max(epsilon - (escape if free is None else (m - i) * escape), 0.0)
        total += sum(ways * more * gaussian_delta((i + j) * mu, left) for j, more in others if i + j > 0)
    return min(total, 1.0)
