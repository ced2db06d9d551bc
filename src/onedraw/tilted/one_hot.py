# SPDX-License-Identifier: Apache-2.0
"""Columns of categories as they are: a record meets one category of each, and its row is 1 there alone.

A model has an indicator for each category but the reference, and an intercept: rows z. Within their ranges
all indicators are -1 or 1, and as points of a cube they leave room for records that cannot be: rows that meet
all categories at once. Here a column of K categories has K entries, its reference included, 1 for the
category that is met and 0 for the others; they sum to 1, so no intercept is needed. Plain entries stay in
[-1, 1]. These rows u = C z (``OneHot.frame``) are as good for a regression, with theta.u = (C' theta).z, and

    ||u|| = max(largest plain entry, sum of the entries of each column)

is 1 for every record, in absolute values. Its unit ball, a cube times cross-polytopes, is much smaller.

Guarantee:
    For every finite feature vector, ``OneHot.weighted`` has ||omega u|| <= 1 and omega |u|_2^2 <= c0, the
    number of plain entries and of columns: what ``calibration`` needs, with the law below. The entries of
    omega u u' are at most 1 in size, and those of its upper triangle, times a number in [0, 1], change by at
    most ``moved`` in all if the record is added or replaced: what ``curvature`` needs. That is reached with
    up to two plain entries; with more, their products cannot all change signs.

*Proof.* omega = min(1, 1/||u||^2). The squares of plain entries are at most ||u||^2 each, and so is the sum
of the squares of a column, which is at most the square of its sum. So |u|_2^2 <= c0 ||u||^2, and omega times
it is at most c0; ||omega u|| <= 1. Records of declared categories have ||u|| = 1; nothing rests on it. []

*Proof for what a record moves.* Let x, of length d, be the plain entries of sqrt(f omega) u in absolute
values, in [0, 1], f the number in [0, 1], and J the number of columns. The sum over i <= j of f omega |u_i
u_j| is at most t(x) = ((J + sum x)^2 + J + sum x^2)/2 <= t(1) = c0 (c0 + 1)/2. Two records differ by at most
t(x) + t(x') - 2 sum min(x_i, x'_i)^2, as squares of plain entries are not negative. That grows with the
larger of x_i and x'_i, so one of them is 1 and the other some y_i. The a places where x_i = 1, and likewise
the d - a others, add ((c + sum y)^2 - 3 sum y^2)/2, c = J plus the number of places of the other kind. Given
the sum it is largest where all these y are alike, and then grows up to y = 1 where c + (a - 3) y >= 0: always
but for a = c = 1, a feature and a column. So they differ by at most 2 t(1) - 2 d, and there by 17/4. []

*Several columns* have a sum of 1 each, so rows lie in a subspace, and theta is determined up to what is added
to one column and taken off another, on which no predictor depends. The ridge holds that; the theorem is about
all of theta.

*What it gains.* The noise of a category, over the number of records times the slope of the mean: with eight
equally common categories and one feature it is a ninth of that in the cube, with twelve a twentieth, with
three two thirds. The ridge is c0 in place of the number of entries, and pulls at the level of each category
instead of at that of the reference, of which indicators leave little.

>>> import numpy as np
>>> geometry = OneHot(num_features=3, columns=((1, 2),))                # a feature, three categories
>>> z = np.array([[0.5, -1.0, -1.0, 1.0], [0.5, -1.0, 1.0, 1.0]])       # the reference, the last category
>>> (z @ geometry.frame.T).tolist()
[[0.5, 0.0, 0.0, 1.0], [0.5, 0.0, 1.0, 0.0]]
>>> geometry.dim, geometry.squared_length
(4, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from onedraw._validate import positive
from onedraw.columns import indicators
from onedraw.errors import InvalidInput
from onedraw.tilted.laws import Uneven
from onedraw.types import Array, Neighbours

ONE_HOT = "one_hot_"
"""Before the names of released numbers of such rows, so that none is taken for one of rows of indicators."""
FEWEST_LEVELS = 3
"""Two categories are a cube already."""


@dataclass(frozen=True, kw_only=True)
class OneHot:
    """Where the indicators of columns of categories stand among the features, beside an intercept.

    Entries of a row u are the features in their order, then the references in the order of the columns.
    """

    num_features: int
    columns: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        places = [place for column in self.columns for place in column]
        fits = len(set(places)) == len(places) and all(0 <= place < self.num_features for place in places)
        if not (fits and self.columns and all(self.columns)):
            raise InvalidInput(
                f"Expected columns of categories with places of their own below {self.num_features}, got "
                f"{self.columns!r}."
            )

    @classmethod
    def of_numbers(cls, numbers: Sequence[float]) -> OneHot:
        """From the number of the column of each feature, as a release states it."""
        last = max((int(number) for number in numbers), default=0)
        columns = [tuple(place for place, at in enumerate(numbers) if at == k) for k in range(1, last + 1)]
        return cls(num_features=len(numbers), columns=tuple(columns))

    @property
    def numbers(self) -> tuple[float, ...]:
        """The number of the column of each feature, 0 for those that are no indicators."""
        out = [0.0] * self.num_features
        for k, column in enumerate(self.columns, start=1):
            for place in column:
                out[place] = float(k)
        return tuple(out)

    @property
    def dim(self) -> int:
        """Entries of a row."""
        return self.num_features + len(self.columns)

    @property
    def squared_length(self) -> int:
        """c0."""
        return len(self.plain) + len(self.columns)

    def moved(self, neighbours: Neighbours) -> float:
        """A bound on what a record changes in the upper triangle of omega u u', in absolute values."""
        d, one = len(self.plain), 0.5 * self.squared_length * (self.squared_length + 1)
        if neighbours == "add_remove":
            return one
        return 4.25 if d == len(self.columns) == 1 else 2.0 * (one - d)

    @cached_property
    def plain(self) -> tuple[int, ...]:
        """Places of the features that are no indicators."""
        taken = {place for column in self.columns for place in column}
        return tuple(place for place in range(self.num_features) if place not in taken)

    @cached_property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Places of the entries of each column in a row, its reference last."""
        return tuple((*column, self.num_features + j) for j, column in enumerate(self.columns))

    @cached_property
    def frame(self) -> Array:
        """C (dim, features + 1): u = C z, for rows z with indicators of -1 or 1 and the intercept last."""
        out = np.zeros((self.dim, self.num_features + 1))
        out[list(self.plain), list(self.plain)] = 1.0
        for *others, reference in self.blocks:
            out[others, others] = 0.5
            out[others, -1] = 0.5
            out[reference] = -out[others].sum(axis=0)
            out[reference, -1] += 1.0
        return out

    @cached_property
    def back(self) -> Array:
        """The inverse of the frame (features + 1, dim) on rows that can be; 0 across them."""
        return np.asarray(np.linalg.pinv(self.frame))

    @cached_property
    def constant(self) -> Array:
        """Parameters (dim,) with the predictor 1 at every record."""
        return np.asarray(self.back[-1])

    def rows(self, features: Array) -> Array:
        """u (n, dim) of features (n, features) in working units."""
        out = np.empty((len(features), self.dim))
        out[:, : self.num_features] = features
        for *others, reference in self.blocks:
            out[:, others] *= 0.5
            out[:, others] += 0.5
            out[:, reference] = 1.0 - summed(out[:, others].T)
        return out

    def norms(self, rows: Array) -> Array:
        """||u|| (n,)."""
        size = np.abs(rows[:, list(self.plain)]).max(axis=1, initial=0.0)
        for block in self.blocks:
            np.maximum(size, summed(np.abs(rows[:, list(block)]).T), out=size)
        return np.asarray(size)


def summed(columns: Array) -> Array:
    """The sum (n,) of columns (k, n), one after the other.

    So it is the same to the last bit wherever a record stands; a product of matrices adds the records at the
    end of a block in another order.
    """
    total = np.zeros(columns.shape[1])
    for column in columns:
        total += column
    return total


@dataclass(frozen=True, kw_only=True)
class OneHotLaw(Uneven):
    """Density proportional to exp(-||b||/scale): see ``laws``.

    A uniform point of the ball has a uniform point of the cube in its plain entries, and of a cross-polytope
    in each column: random signs and K of K + 1 proportions that are uniform on a simplex.
    """

    geometry: OneHot
    scale: float

    def __post_init__(self) -> None:
        positive(scale=self.scale)

    @property
    def dim(self) -> int:
        return self.geometry.dim

    @property
    def variances(self) -> Array:
        """Of each coordinate (dim,); coordinates are uncorrelated."""
        out = np.full(self.dim, 1.0 / 3.0)
        for block in self.geometry.blocks:
            out[list(block)] = 2.0 / ((len(block) + 1) * (len(block) + 2))
        return np.asarray(self.scale**2 * (self.dim + 1) * (self.dim + 2) * out)

    def norm(self, b: Array) -> float:
        return float(self.geometry.norms(np.reshape(b, (1, -1)))[0])

    def sample(self, rng: np.random.Generator) -> Array:
        point = rng.uniform(-1.0, 1.0, self.dim)
        for block in self.geometry.blocks:
            shares = rng.standard_exponential(len(block) + 1)
            point[list(block)] = np.sign(point[list(block)]) * (shares[:-1] / shares.sum())
        return np.asarray(rng.gamma(self.dim + 1, self.scale) * point)


def one_hot_of(model: Any) -> OneHot | None:
    """The declared categories of a model, by what is public of it; None if there is nothing to gain.

    They need an intercept, which their indicators sum to, indicators with their range of 0 and 1, and bounds
    of all other features.
    """
    bounds = model.feature_bounds
    if bounds is None or not model.fit_intercept:
        return None
    found = indicators(model.features, bounds).values()
    columns = tuple(places for places in found if len(places) + 1 >= FEWEST_LEVELS)
    return OneHot(num_features=model.num_features, columns=columns) if columns else None
