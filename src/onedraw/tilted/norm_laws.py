# SPDX-License-Identifier: Apache-2.0
"""Which norm the tilt of a fit has, and its law for several classes beside columns of categories.

T (K, p) has a row for each class and columns that sum to zero (``class_law``), p the entries of a row u with
an entry for every category (``one_hot``). A record's gradient is s (x) w, w = omega u, and s has entries that
sum to 0, and to 2 a in absolute values. So its norm

    ||T|| = max(that of ``class_law`` of the plain entries, half of the sum of |T| over each column)

is a ||w|| <= a: a category c of a column adds |s|_1 |w_c|/2, and all of them a times the sum of |w_c|.

Guarantee:
    The log density at a fixed theta changes by at most a/scale for a record of relative score a [``laws``].

*Sampling*, exact: the unit ball is a product of those of the plain entries and of the columns. A law of
density exp(-norm) has a radius that is independent of its direction, so a uniform point of a ball of
dimension m is a draw of that law, divided by its norm, times the m-th root of a uniform number. The
categories of a column have independent such laws, each that of a single entry.

>>> import numpy as np
>>> geometry = OneHot(num_features=3, columns=((1, 2),))
>>> law = norm_law(predictors=2, columns=4, scale=1.0, geometry=geometry)
>>> law.dim, law.sample(np.random.default_rng(0)).shape
(8, (8,))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from onedraw._validate import positive, whole
from onedraw.errors import InvalidInput
from onedraw.tilted.class_law import ClassNormLaw
from onedraw.tilted.laws import BallLaw, CubeLaw, Law, Uneven
from onedraw.tilted.one_hot import OneHot, OneHotLaw
from onedraw.tilted.weights import Geometry
from onedraw.types import Array

MOMENT_DRAWS = 20_000
"""From which variances are computed, to about a per cent. No guarantee rests on them."""


def norm_law(*, predictors: int, columns: int, scale: float, geometry: Geometry = "cube") -> Law:
    """The law of the tilt for rows of ``columns`` entries."""
    if isinstance(geometry, OneHot):
        if columns != geometry.dim:
            raise InvalidInput(f"Expected rows of {geometry.dim} entries, got {columns}.")
        if predictors > 1:
            return OneHotClassLaw(classes=predictors + 1, geometry=geometry, scale=scale)
        return OneHotLaw(geometry=geometry, scale=scale)
    if predictors > 1:
        return ClassNormLaw(classes=predictors + 1, columns=columns, scale=scale, geometry=geometry)
    return (CubeLaw if geometry == "cube" else BallLaw)(dim=columns, scale=scale)


@dataclass(frozen=True, kw_only=True)
class OneHotClassLaw(Uneven):
    """Density proportional to exp(-||T||/scale).

    Points are (classes - 1, entries), flattened predictor by predictor, in the contrasts.
    """

    classes: int
    geometry: OneHot
    scale: float

    def __post_init__(self) -> None:
        whole(minimum=2, classes=self.classes)
        positive(scale=self.scale)

    @property
    def dim(self) -> int:
        return (self.classes - 1) * self.geometry.dim

    @property
    def variances(self) -> Array:
        """Of each coordinate (dim,)."""
        return np.asarray(self.scale**2 * np.tile(_variances(self.classes, self.geometry), self.classes - 1))

    def norm(self, b: Array) -> float:
        entries = np.reshape(b, (self.classes - 1, self.geometry.dim))
        sizes = [0.0]
        if self.geometry.plain:
            plain = entries[:, list(self.geometry.plain)]
            sizes.append(_plain(self.classes, self.geometry).norm(plain.ravel()))
        single = ClassNormLaw(classes=self.classes, columns=1, scale=1.0)
        for block in self.geometry.blocks:
            sizes.append(float(single.norms(entries[:, list(block)].T).sum()))
        return max(sizes)

    def sample(self, rng: np.random.Generator) -> Array:
        point = _uniform_points(self.classes, self.geometry, 1, rng)[0]
        return np.asarray(rng.gamma(self.dim + 1, self.scale) * point).ravel()


def _plain(classes: int, geometry: OneHot) -> ClassNormLaw:
    return ClassNormLaw(classes=classes, columns=len(geometry.plain), scale=1.0)


def _uniform_points(classes: int, geometry: OneHot, count: int, rng: np.random.Generator) -> Array:
    """Uniform points (count, classes - 1, entries) of the unit ball."""
    out, q = np.empty((count, classes - 1, geometry.dim)), classes - 1
    if geometry.plain:
        law = _plain(classes, geometry)
        drawn = law.draws(count, rng)
        drawn *= (rng.random(count) ** (1.0 / law.dim) / law.norms(drawn))[:, None]
        out[:, :, list(geometry.plain)] = drawn.reshape(count, q, -1)
    single = ClassNormLaw(classes=classes, columns=1, scale=1.0)
    for block in geometry.blocks:
        size = len(block)
        drawn = single.draws(count * size, rng)
        norms = single.norms(drawn).reshape(count, size).sum(axis=1)
        inside = rng.random(count) ** (1.0 / (q * size)) / norms
        out[:, :, list(block)] = inside[:, None, None] * drawn.reshape(count, size, q).swapaxes(1, 2)
    return out


@cache
def _variances(classes: int, geometry: OneHot) -> Array:
    """Of the entries of a row (entries,) at scale 1, in the contrasts; those of a column are alike."""
    points = _uniform_points(classes, geometry, MOMENT_DRAWS, np.random.default_rng(0))
    squares, dim = np.mean(points**2, axis=(0, 1)), (classes - 1) * geometry.dim
    for alike in (geometry.plain, *geometry.blocks):
        squares[list(alike)] = squares[list(alike)].mean() if alike else 0.0
    return np.asarray((dim + 1) * (dim + 2) * squares)
