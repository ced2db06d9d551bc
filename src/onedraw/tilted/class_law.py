# SPDX-License-Identifier: Apache-2.0
"""The law of the tilt for several classes: density proportional to exp(-||T||/scale), T a row for each class.

T (K, p) has columns that sum to zero, as a gradient has, and ||T|| = (|T_1| + ... + |T_K|)/2, |.| the norm
for rows: the largest entry (cube) or the Euclidean length (ball).

Guarantee:
    A record's gradient is s (x) w with s_k >= 0 for all classes but its own, y, and s_y = -a, less the sum of
    the others (``softmax_loss``): for |w| <= 1 its norm is a |w| <= a, and the log density changes by at most
    a/scale [``laws``].

*Proof.* Its rows have the norms s_k |w|, k != y, which add up to a |w|, and a |w|. []

*How good it is.* No norm that gives gradients at most their score is larger than the gauge of the hull of
{(e_k - e_l) (x) w}: the least sum of |c_kl| with sum (e_k - e_l) (x) c_kl = T. For three classes in the cube
this is that gauge. The gauge is at least ||T||. Conversely let x_1, x_2, x_3 be points with T_1 = x_2 - x_3
and so on, and r_k = ||T|| - |T_k| >= 0. Cubes of radius r_k around x_k meet in pairs, r_k + r_l = |x_k -
x_l|, so they have a point in common, as intervals do column by column; its distances to the three points are
terms c with sum at most r_1 + r_2 + r_3 = ||T||. [] The variance is then 0.83 of that of a sum of independent
tilts along the three differences at three columns, 0.77 at twenty; for four classes it is 0.7 of that of a
sum along the classes (in the ball 0.86 and 0.72).

*Sampling*, exact, at a cost in proportion to K p. It is the law of K independent rows of density
exp(-|T_k|/(2 scale)) given that they sum to zero, and each is a mixture:

* Ball: normal rows of variance v_k ~ Gamma((p + 1)/2, 8 scale^2). Their sum has density (sum v)^(-p/2) at
  zero, so given that it is zero the proportions of v are as before, Dirichlet((p + 1)/2), and the total is
  Gamma(K (p + 1)/2 - p/2). Normal rows given their sum: T_k = x_k - (v_k/sum v) sum x.
* Cube: rows uniform within levels [-u_k, u_k], u_k ~ Gamma(p + 1, 2 scale). Columns are independent, so the
  sum has density f(u)^p at zero, f(u) that of the sum of one uniform number from each [-u_k, u_k]. It scales
  as 1/sum u. So given a sum of zero the total is Gamma(K (p + 1) - p), and the proportions are Dirichlet(p +
  1) weighted by f^p: drawn by rejection, since f is largest where all are equal (about 0.6 are accepted,
  whatever K and p). Then each column is uniform on the part of its box where the sum is zero.

*Proof that equal levels are best.* Let W = u_1 U_1 + u_2 U_2 (U uniform on [-1, 1]), c = u_1 + u_2 and d =
|u_1 - u_2|. P(|W| > t) is 1 - 2t/(c + d) for t <= d and (c - t)^2/(c^2 - d^2) beyond, which both grow with d;
f is the mean, over W, of the density of the other terms' sum, which is symmetric and unimodal. So f does not
fall when two levels are replaced by their mean, and equal levels are the limit of such steps. []

>>> import numpy as np
>>> law = ClassNormLaw(classes=3, columns=2, scale=1.0, geometry="ball")
>>> round(law.variance, 3), law.sample(np.random.default_rng(0)).shape
(7.636, (4,))
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from onedraw._validate import positive, whole
from onedraw.families.categorical import contrast_basis
from onedraw.types import Array

MOST_SIGNS = 8
"""Classes up to which the density at zero is a sum over signs; it loses digits beyond, where its Fourier
series is short."""
FREQUENCIES = 128
MOMENT_DRAWS = 100_000
"""Entries from which the variance in the cube is computed, to about 0.3%. No guarantee rests on it."""


@dataclass(frozen=True, kw_only=True)
class ClassNormLaw:
    """Density proportional to exp(-(sum of the norms of the classes' rows)/(2 scale)).

    Points are (classes - 1, ``columns``), flattened predictor by predictor, in the contrasts.
    """

    classes: int
    columns: int
    scale: float
    geometry: Literal["cube", "ball"] = "cube"

    def __post_init__(self) -> None:
        whole(minimum=2, classes=self.classes)
        whole(columns=self.columns)
        positive(scale=self.scale)

    @property
    def dim(self) -> int:
        return (self.classes - 1) * self.columns

    @property
    def variance(self) -> float:
        if self.geometry == "cube":
            return self.scale**2 * _cube_variance(self.classes, self.columns)
        each = 0.5 * (self.columns + 1)
        total = self.classes * each
        return self.scale**2 * 8.0 * each * (total - 0.5 * self.columns) / (total + 1.0)

    @property
    def covariance(self) -> Array:
        return self.variance * np.eye(self.dim)

    def norm(self, b: Array) -> float:
        return float(self.norms(np.reshape(b, (1, self.dim)))[0])

    def norms(self, points: Array) -> Array:
        """Of points (n, dim)."""
        rows = contrast_basis(self.classes) @ points.reshape(len(points), self.classes - 1, self.columns)
        sizes = np.linalg.norm(rows, ord=np.inf if self.geometry == "cube" else 2, axis=2)
        return np.asarray(0.5 * sizes.sum(axis=1))

    def sample(self, rng: np.random.Generator) -> Array:
        return np.asarray(self.draws(1, rng)[0])

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Independent points (count, dim)."""
        rows = self._in_cubes(count, rng) if self.geometry == "cube" else self._in_balls(count, rng)
        return np.asarray(self.scale * (contrast_basis(self.classes).T @ rows)).reshape(count, self.dim)

    def _in_cubes(self, count: int, rng: np.random.Generator) -> Array:
        total = rng.gamma(_shape_of_levels(self.classes, self.columns), 2.0, (count, 1, 1))
        return np.asarray(total * directions(self.classes, self.columns, count, rng))

    def _in_balls(self, count: int, rng: np.random.Generator) -> Array:
        each = 0.5 * (self.columns + 1)
        shares = rng.dirichlet(np.full(self.classes, each), count)[:, :, None]
        total = rng.gamma(self.classes * each - 0.5 * self.columns, 8.0, (count, 1, 1))
        rows = np.sqrt(total * shares) * rng.standard_normal((count, self.classes, self.columns))
        return np.asarray(rows - shares * rows.sum(axis=1, keepdims=True))


def _shape_of_levels(classes: int, columns: int) -> int:
    return (classes - 1) * columns + classes


@cache
def _cube_variance(classes: int, columns: int) -> float:
    """At scale 1, in the contrasts. The total of the levels is independent of the rest, which is drawn."""
    count = max(1, MOMENT_DRAWS // ((classes - 1) * columns))
    unit = directions(classes, columns, count, np.random.default_rng(0))
    shape = _shape_of_levels(classes, columns)
    return 4.0 * shape * (shape + 1.0) * float(np.mean(unit**2)) * classes / (classes - 1.0)


def directions(classes: int, columns: int, count: int, rng: np.random.Generator) -> Array:
    """Matrices (count, classes, columns) of the cube's law, each divided by the total of its levels."""
    levels = np.repeat(level_shares(classes, columns, count, rng), columns, axis=0)
    return sums_of_zero(levels, rng).reshape(count, columns, classes).transpose(0, 2, 1)


def level_shares(classes: int, columns: int, count: int, rng: np.random.Generator) -> Array:
    """Proportions of the levels (count, classes)."""
    most, found = _largest_density(classes), np.empty((0, classes))
    while len(found) < count:
        shares = rng.dirichlet(np.full(classes, columns + 1.0), 1 + 3 * (count - len(found)) // 2)
        chance = (np.maximum(density_at_zero(shares), 0.0) / most) ** columns
        found = np.concatenate([found, shares[rng.random(len(shares)) < chance]])
    return found[:count]


@cache
def _largest_density(classes: int) -> float:
    return float(density_at_zero(np.full((1, classes), 1.0 / classes))[0])


def density_at_zero(levels: Array) -> Array:
    """At zero (n,), of the sum of uniform numbers from each [-u_k, u_k]; levels (n, K) that sum to one.

    With e over all signs it is sum of (prod e) (e.u)_+^(K - 1)/((K - 1)! prod 2 u). As the sum lies within
    [-1, 1], it is also the sum over all whole m of its characteristic function at 2 pi m [Poisson].
    """
    classes = levels.shape[1]
    if classes > MOST_SIGNS:
        steps = 2.0 * np.arange(1, FREQUENCIES + 1)
        products = np.ones((len(levels), FREQUENCIES))
        for level in levels.T:
            products *= np.sinc(np.multiply.outer(level, steps))
        return np.asarray(1.0 + 2.0 * products.sum(axis=1))
    signs = _signs(classes)
    ends = levels @ signs.T
    total = (np.sign(ends) * ends ** (classes - 1)) @ signs.prod(axis=1)  # e and -e together
    return np.asarray(total / (math.factorial(classes - 1) * np.prod(2.0 * levels, axis=1)))


@cache
def _signs(classes: int) -> Array:
    """All signs, the first of them positive (2^(K - 1), K)."""
    return np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=classes - 1)])


def sums_of_zero(levels: Array, rng: np.random.Generator) -> Array:
    """For each row of levels a point uniform on the part of its box where the sum is zero (n, K)."""
    order = np.argsort(levels, axis=1)
    sides = np.take_along_axis(levels, order, axis=1)
    points, open_ = np.empty_like(sides), np.arange(len(sides))
    while (
        open_.size
    ):  # the widest side takes what the others leave; of twenty classes it can a third of times
        tries = sides[open_, :-1] * rng.uniform(-1.0, 1.0, (len(open_), sides.shape[1] - 1))
        rest = -tries.sum(axis=1)
        fits = np.abs(rest) <= sides[open_, -1]
        points[open_[fits]] = np.column_stack([tries, rest])[fits]
        open_ = open_[~fits]
    out = np.empty_like(points)
    np.put_along_axis(out, order, points, axis=1)
    return out
