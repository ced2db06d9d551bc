# SPDX-License-Identifier: Apache-2.0
"""The power integral I(eta) = sum_k f(k)^beta of a count family, as a table that is built once.

The loss needs I elementwise on large arrays, and no closed form exists. G = log I is tabulated in the linear
predictor and interpolated by quintic Hermite polynomials through exact G, G', G'' at the nodes, refined until
the interpolant agrees with the exact value halfway between all neighbouring nodes.

*Exact values.* With l = log f and w_k proportional to f(k)^beta,

    G' = beta E_w[l'],        G'' = beta E_w[l''] + beta^2 Var_w(l').

Terms are taken relative to the largest, u_k = f(k)/max f, from sums of log ratios; as f sums to one, max f is
1/sum u_k, and G = log sum u_k^beta - beta log sum u_k. Both sums are at least 1 and are stopped at K once
u_K q/(1 - q) <= 1e-18, where f(k+1) <= q f(k) for all k >= K and q < 1 (``tail_ratio``). That bounds the rest
of both: as u_k <= 1 and beta >= 1,

    sum_{k > K} u_k^beta <= sum_{k > K} u_k <= u_K (q + q^2 + ...) = u_K q/(1 - q).

*Outside the table.* Left of it the mean is below 4e-17 and G is its value at the edge, zero to the last
digit. Right of it, at d = eta - eta_1 from the edge, G follows the family's ``leading_term`` L, which is near
-b/2 times the log variance, and a correction that settles at rate k; its two coefficients are fixed by G' and
G'' at the edge, so that G is twice continuously differentiable throughout:

    G = G_1 + L(eta) - L(eta_1) + c_1 (exp(-k d) - 1) + c_2 (exp(-2 k d) - 1).

*Why an approximation is safe.* The certificate of a mass function asks 0 <= f, I <= 1 and loss >= 0 of the
numbers that are used, not of the exact ones. ``CountFamily`` enforces those; the table only decides how
faithful the loss is.

>>> import numpy as np
>>> from onedraw.families import Poisson
>>> table = power_table(Poisson(), 2.0)
>>> float(np.exp(table(np.array([0.0])))[0])           # exp(-2) I_0(2), with the Bessel function I_0
0.308508...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly

from onedraw.types import Array

_LEFT = -38.0
_FIRST_SPACING = 0.5
_DEEPEST_LEVEL = 8
_TOLERANCE = 2e-12
_NEGLIGIBLE = 1e-18


class PowerSummand(Protocol):
    """What the table asks of a count family; ``CountFamily`` explains the methods."""

    def log_ratios(self, k: Array, eta: float) -> Array: ...

    def term_slopes(self, k: Array, eta: float) -> tuple[Array, Array]: ...

    def tail_ratio(self, k: float, eta: float) -> float: ...

    def table_end(self, beta: float) -> float: ...

    def leading_term(self, eta: Array, beta: float) -> tuple[Array, Array, Array]: ...

    def limit_rate(self, beta: float) -> float: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PowerTable:
    """G = log I with derivatives, for one family and one beta; elementwise in eta, for all finite eta.

    ``cells`` (6, number) are the polynomials once more, on cells as narrow as the narrowest interval, by
    powers of the distance from a cell's middle, in cells: finding one of equal cells takes no search.
    """

    family: PowerSummand
    beta: float
    quintic: PPoly
    cells: Array
    rate: float
    c_1: float
    c_2: float

    @property
    def start(self) -> float:
        return float(self.quintic.x[0])

    @property
    def end(self) -> float:
        return float(self.quintic.x[-1])

    def __call__(self, eta: Array) -> Array:
        """G = log I, at most 0."""
        return self.derivatives(eta, order=0)[0]

    def derivatives(self, eta: Array, order: int = 2) -> tuple[Array, ...]:
        """G and its derivatives up to ``order``."""
        if eta.flags.fnc:  # gathers give rows: keep the layout of eta
            return tuple(part.T for part in self.derivatives(eta.T, order))
        per_cell = self.cells.shape[1] / (self.end - self.start)
        place = np.clip(eta, self.start, self.end)
        place -= self.start
        place *= per_cell
        index = np.minimum(place.astype(np.intp), self.cells.shape[1] - 1)
        place -= index
        place -= 0.5
        parts = [_horner(self.cells, index, place, nu) for nu in range(order + 1)]
        for nu in range(1, order + 1):
            parts[nu] *= per_cell**nu
        beyond = np.asarray(eta > self.end)
        if beyond.any():
            self._continue(eta, beyond, parts)
        parts[0] = np.minimum(parts[0], 0.0)
        return tuple(parts)

    def _continue(self, eta: Array, beyond: NDArray[np.bool_], parts: list[Array]) -> None:
        """Overwrite ``parts`` beyond the table with the asymptotic form of G."""
        far = np.append(eta[beyond], self.end)
        leading = self.family.leading_term(far, self.beta)
        k, d = self.rate, far[:-1] - self.end
        slow, fast = self.c_1 * np.exp(-k * d), self.c_2 * np.exp(-2.0 * k * d)
        parts[0][beyond] += leading[0][:-1] - leading[0][-1] + (slow - self.c_1) + (fast - self.c_2)
        if len(parts) > 1:
            parts[1][beyond] = leading[1][:-1] - k * slow - 2.0 * k * fast
        if len(parts) > 2:
            parts[2][beyond] = leading[2][:-1] + k * k * (slow + 4.0 * fast)


def _horner(cells: Array, index: NDArray[np.intp], place: Array, nu: int) -> Array:
    """The ``nu``-th derivative of each polynomial at its place; gathered one by one to stay in cache."""
    degree = len(cells) - 1
    result: Array = np.take(cells[degree], index)
    if nu:
        result *= math.perm(degree, nu)
    for power in range(degree - 1, nu - 1, -1):
        result *= place
        result += np.take(cells[power] * math.perm(power, nu) if nu else cells[power], index)
    return result


def _equal_cells(quintic: PPoly) -> Array:
    """The same polynomials on equal cells, as ``PowerTable.cells``."""
    start, end = float(quintic.x[0]), float(quintic.x[-1])
    # Intervals were halved, some of them again and again: the narrowest divides all.
    number = round((end - start) / float(np.diff(quintic.x).min()))
    width = (end - start) / number
    middles = start + width * (np.arange(number) + 0.5)
    return np.stack([quintic(middles, nu) * width**nu / math.factorial(nu) for nu in range(6)])


@lru_cache(maxsize=64)
def power_table(family: PowerSummand, beta: float) -> PowerTable:
    """The table of ``family`` at ``beta``; families are frozen, so it is built once for each pair."""
    start, end = _LEFT, family.table_end(beta)
    nodes = np.linspace(start, end, 1 + math.ceil((end - start) / _FIRST_SPACING))
    values = _exact(family, nodes, beta)
    suspect = np.ones(nodes.size - 1, dtype=bool)
    for _ in range(_DEEPEST_LEVEL):
        left = np.flatnonzero(suspect)
        middle = 0.5 * (nodes[left] + nodes[left + 1])
        exact = _exact(family, middle, beta)
        wrong = np.abs(_hermite(nodes, values)(middle) - exact[0]) > _TOLERANCE * beta
        # Both halves of an interval that failed are checked in their turn; one that passed is settled.
        suspect = np.insert(np.zeros(suspect.size, dtype=bool), left[wrong] + 1, True)
        suspect[np.flatnonzero(suspect) - 1] = True
        nodes = np.insert(nodes, left[wrong] + 1, middle[wrong])
        values = np.insert(values, left[wrong] + 1, exact[:, wrong], axis=1)
        if not suspect.any():
            break
    quintic = _hermite(nodes, values)
    # What the settling part must add to the leading term's slope and curvature at the edge.
    _, leading_1, leading_2 = family.leading_term(np.array(end), beta)
    slope, curvature = float(values[1, -1] - leading_1), float(values[2, -1] - leading_2)
    rate = family.limit_rate(beta)
    c_2 = 0.5 * (curvature / rate + slope) / rate
    return PowerTable(
        family=family,
        beta=beta,
        quintic=quintic,
        cells=_equal_cells(quintic),
        rate=rate,
        c_1=-slope / rate - 2.0 * c_2,
        c_2=c_2,
    )


def _exact(family: PowerSummand, nodes: Array, beta: float) -> Array:
    """G, G', G'' at every node, (3, nodes)."""
    return np.array([_log_power_sum(family, float(eta), beta) for eta in nodes]).reshape(-1, 3).T


def _log_power_sum(family: PowerSummand, eta: float, beta: float) -> tuple[float, float, float]:
    """G, G', G'' at one eta, by the sum with the remainder of the module docstring."""
    size = 64
    while True:
        k = np.arange(size, dtype=np.float64)
        # Adding up log ratios on both sides of the largest term keeps the digits that differences of
        # log-gammas lose, and that G'' needs: beta E[l''] and beta^2 Var(l') nearly cancel for large means.
        steps = family.log_ratios(k[:-1], eta)
        peak = int(np.count_nonzero(steps > 0.0))
        log_u = np.zeros(size)
        np.cumsum(steps[peak:], out=log_u[peak + 1 :])
        log_u[:peak] = -np.cumsum(steps[:peak][::-1])[::-1]
        q = family.tail_ratio(size - 1.0, eta)
        if q < 1.0 and math.exp(log_u[-1]) * q / (1.0 - q) <= _NEGLIGIBLE:
            break
        size *= 2
    log_sum = math.log(float(np.exp(log_u).sum()))
    weights = np.exp(beta * log_u)
    total = float(weights.sum())
    slopes, curvatures = family.term_slopes(k, eta)
    weights /= total
    mean = float(weights @ slopes)
    deviations = slopes - mean
    variance = float(weights @ (deviations * deviations))
    curvature = float(weights @ curvatures)
    return math.log(total) - beta * log_sum, beta * mean, beta * curvature + beta * beta * variance


def _hermite(x: Array, values: Array) -> PPoly:
    """The piecewise quintic with given value, slope and curvature at each node; ``values`` is (3, nodes)."""
    h = np.diff(x)
    f, g, s = values[0], values[1], values[2]
    rise = np.diff(f) / h**2
    g_0, g_1, s_0, s_1 = g[:-1] / h, g[1:] / h, s[:-1], s[1:]
    coefficients = [
        (6.0 * rise - 3.0 * (g_0 + g_1) + 0.5 * (s_1 - s_0)) / h**3,
        (-15.0 * rise + 8.0 * g_0 + 7.0 * g_1 + 1.5 * s_0 - s_1) / h**2,
        (10.0 * rise - 6.0 * g_0 - 4.0 * g_1 - 1.5 * s_0 + 0.5 * s_1) / h,
        0.5 * s_0,
        g[:-1],
        f[:-1],
    ]
    return PPoly(np.array(coefficients), x)
