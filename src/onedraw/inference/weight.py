# SPDX-License-Identifier: Apache-2.0
"""The weight v(eta) that a record's row has in the curvature, and its means under a normal predictor.

A tilted fit has curvature H = sum omega v(eta) z z' with v = mu', the slope of the expected score. The
inference needs the *normal means*

    e_k(a, q) = E v^(k)(eta),   eta ~ N(a, q),   k = -1 (mu itself), 0, 1, 2, 3, 4,

because they are closed under differentiation: d e_k/d a = e_(k+1) (shift the law) and d e_k/d q = e_(k+2)/2
(the heat equation). So every gradient of the inference is made of the same six numbers.

*Logistic.* pi = 1/(1 + exp(-eta)) is a mixture of normal distribution functions, E Phi(eta/(2 K)), K with the
law of Kolmogorov and Smirnov [Andrews & Mallows 1974]. Its Gauss quadrature with ``POINTS`` points gives E pi
= sum_i c_i Phi(a/t_i), t_i^2 = 4 k_i^2 + q, and the e_k of s = pi (1 - pi) are its derivatives in a, exact
in q. With c times Brier's score in the loss (``tilted.losses``) v = s + 2 c s^2, and the variance of the
score is s (1 + 2 c s)^2; powers of s are sums of its even derivatives: D^2 s = s - 6 s^2, D^4 s = s - 30 s^2
+ 120 s^3. So s^2 = (s - D^2 s)/6, s^3 = (4 s - 5 D^2 s + D^4 s)/120, and nothing new is integrated.
*Exponential* (counts): mu = exp(eta), every e_k = exp(a + q/2). *Constant* (linear regression): mu = level *
eta. *Counts*: v is the mean of the loss's curvature over the counts (``tilted.count_loss``), of releases of
earlier versions the slope of mu = E min(Y, cap), and the e_k are tabulated over a and q (``tabulated``).

>>> import numpy as np
>>> LogisticWeight().normal_means(np.array([0.0]), np.array([0.0]))[:2].round(3).tolist()
[[0.5], [0.25]]
>>> ConstantWeight().normal_means(np.array([0.3]), np.array([2.0]))[:3].round(2).tolist()
[[0.3], [1.0], [0.0]]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from scipy import special

from onedraw.inference.tabulated import MeansTable
from onedraw.tilted.capped_counts import CappedCounts
from onedraw.tilted.count_loss import CountCosh
from onedraw.types import Array

POINTS = 8
FINEST = 0.1
"""The width of the steepest part of a weight that tables are made for."""


class Weight(Protocol):
    """A smooth weight v = mu' through its normal means."""

    def normal_means(self, centre: Array, variance: Array) -> Array:
        """e_(-1), e_0, ..., e_4 at a = ``centre``, q = ``variance`` (B,): shape (6, B)."""
        ...


@dataclass(frozen=True)
class LogisticWeight:
    """v = s + 2 ``brier`` s^2, s = pi (1 - pi): the log loss and so many times Brier's score."""

    brier: float = 0.0

    def normal_means(self, centre: Array, variance: Array) -> Array:
        third = self.brier / 3.0
        return _logistic_means((1.0 + third, -third), centre, variance)


@dataclass(frozen=True)
class LogisticVariance:
    """The variance s (1 + 2 ``brier`` s)^2 of the score, as a weight of its own."""

    brier: float = 0.0

    def normal_means(self, centre: Array, variance: Array) -> Array:
        squares, cubes = 4.0 * self.brier / 6.0, 4.0 * self.brier**2 / 120.0
        parts = (1.0 + squares + 4.0 * cubes, -squares - 5.0 * cubes, cubes)
        return _logistic_means(parts, centre, variance)


def _logistic_means(parts: tuple[float, ...], centre: Array, variance: Array) -> Array:
    """The means of sum over j of parts[j] times the 2j-th derivative of s."""
    points, weights = kolmogorov_rule(POINTS)
    inverse = 1.0 / np.sqrt(4.0 * points**2 + np.maximum(variance, 0.0)[:, None])
    x = centre[:, None] * inverse
    # Derivatives of Phi(a/t) in a: phi(x) (-1/t)^(k-1)/t times Hermite's polynomials of x, by recurrence.
    before, now = np.zeros_like(x), weights * inverse * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    means = [special.ndtr(x) @ weights]
    while len(means) < 4 + 2 * len(parts):
        means.append(now.sum(1))
        k = len(means) - 2
        before, now = now, -inverse * (x * now + k * inverse * before)
    return np.stack([sum(part * means[i + 2 * j] for j, part in enumerate(parts)) for i in range(6)])


@dataclass(frozen=True)
class ExponentialWeight:
    """mu = v = exp(eta): counts with the logarithm as link."""

    def normal_means(self, centre: Array, variance: Array) -> Array:
        mean = np.exp(np.minimum(centre + 0.5 * variance, 50.0))
        return np.stack([mean] * 6)


@dataclass(frozen=True)
class ConstantWeight:
    """mu = level * eta: a curvature that does not change with the parameters."""

    level: float = 1.0

    def normal_means(self, centre: Array, variance: Array) -> Array:
        out = np.zeros((6, len(centre)))
        out[0], out[1] = self.level * centre, self.level
        return out


@dataclass(frozen=True, kw_only=True)
class CountWeight:
    """v = E f'' of the loss of counts with mean exp(eta); ``dispersion`` is the negative binomial's size.

    Without a ``cut`` mu = E min(Y, cap): releases of earlier versions.
    """

    cap: int
    cut: float | None = None
    dispersion: float | None = None

    def normal_means(self, centre: Array, variance: Array) -> Array:
        return _count_tables(self.cap, self.cut, self.dispersion)[0].at(centre, variance)


@dataclass(frozen=True, kw_only=True)
class CountVariance:
    """v = E f'^2, as a weight of its own; its mu, an integral of no use, is 0."""

    cap: int
    cut: float | None = None
    dispersion: float | None = None

    def normal_means(self, centre: Array, variance: Array) -> Array:
        return _count_tables(self.cap, self.cut, self.dispersion)[1].at(centre, variance)


@dataclass(frozen=True)
class SeveralCounts:
    """The weights of the counts of several releases, whose entries stand together in a batch."""

    weights: tuple[CountWeight, ...]

    def normal_means(self, centre: Array, variance: Array) -> Array:
        return self._table.at(centre, variance)

    @cached_property
    def _table(self) -> MeansTable:
        return MeansTable.joined([_count_tables(w.cap, w.cut, w.dispersion)[0] for w in self.weights])


@lru_cache(maxsize=16)
def _count_tables(cap: int, cut: float | None, dispersion: float | None) -> tuple[MeansTable, MeansTable]:
    """Tables of the curvature's weight and of the variance of the score."""
    loss: CappedCounts | CountCosh = CappedCounts(cap=cap, dispersion=dispersion)
    if cut is not None:
        loss = CountCosh(cap=cap, cut=cut, dispersion=dispersion)
    middle = float(np.log(cap))
    level = float(loss.mean(np.array([np.inf]))[0])
    places = {
        "middle": middle,
        "right": min(middle + 6.0 + (0.0 if dispersion is None else 12.0 / dispersion), 100.0),
        # Counts near the cap vary by its root; for large caps the finest detail is not needed.
        "detail": max(cap**-0.5, FINEST),
    }
    return (
        MeansTable.of(loss.mean_slope, loss.mean, level=level, **places),
        MeansTable.of(loss.variance, np.zeros_like, level=0.0, **places),
    )


@lru_cache(maxsize=4)
def kolmogorov_rule(size: int) -> tuple[Array, Array]:
    """Points and weights of the Gauss quadrature for the law of Kolmogorov and Smirnov.

    The law is put on a fine grid, orthogonal polynomials are built by the recurrence of Stieltjes, and the
    eigenvalues of its tridiagonal matrix are the points [Golub & Welsch 1969].
    """
    edges = np.linspace(0.15, 4.0, 20_001)
    grid = 0.5 * (edges[1:] + edges[:-1])
    mass = -np.diff(special.kolmogorov(edges))
    mass = mass / mass.sum()
    diagonal, off = np.zeros(size), np.zeros(size)
    before, now, norm = np.zeros_like(grid), np.ones_like(grid), 1.0
    for k in range(size):
        diagonal[k] = (mass * grid * now * now).sum()
        after = (grid - diagonal[k]) * now - off[k - 1] * before
        norm = np.sqrt((mass * after * after).sum())
        before, now = now, after / norm
        off[k] = norm
    matrix = np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    points, vectors = np.linalg.eigh(matrix)
    return points, vectors[0] ** 2
