# SPDX-License-Identifier: Apache-2.0
"""Laws of rows in free coordinates: moments of the plain columns, and shares and shifts of categories.

The plain columns (the intercept and what is no indicator) have means m, standard deviations D and
correlations in the coordinates and with the prior of ``moments``. Declared categories are described in the
one-hot basis, by cells (``cells``):

* log shares of the cells, up to a constant, are the main effects of the columns plus interactions of pairs.
  The effects of a column are the logarithms of shares that are uniform over all there are: a category may be
  empty, unless more than noise says otherwise. The effect of a pair is N(0, PAIR_SD^2);
* the mean of a plain column in a cell is m_j plus D_j times a shift, the sum of the shifts of the cell's
  categories, each N(0, SHIFT_SD^2) about the mean of its column's.

So the indicators of a column exclude one another and add up to the intercept whatever the coordinates are: a
diagonal block of shares in the one-hot basis, crossed with all others by what is free. In the coded rows it
is nearly singular, and noise hides that.

Free coordinates, in this order: those of ``moments``, main effects and interactions of the log shares, shifts
(contrast by contrast, column by column within). Without categories there is nothing but the first.

>>> import numpy as np
>>> plain = MomentSpace(dim=2, intercept=True, count_sd=0.1)
>>> space = RowSpace(plain=plain, categories=(Indicators.of_range(3),))
>>> space.dim, space.size                                        # 3 of the moments, 2 shares, 2 shifts
(4, 7)
>>> rows = space.read(np.zeros((1, 7))).rows
>>> rows.weight.round(3).tolist(), rows.mean[0, 1].tolist()
([[0.333, 0.333, 0.333]], [1.0, 0.0, 1.0, -1.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from onedraw.families.categorical import contrast_basis
from onedraw.inference.cells import Cells, Indicators
from onedraw.inference.moments import MomentPoint, MomentSpace
from onedraw.inference.rows import Rows, RowsGradient
from onedraw.types import Array

PAIR_SD = 0.5
SHIFT_SD = 0.5


@dataclass(frozen=True, kw_only=True)
class RowPoint:
    """A batch of points: everything that the density and its gradient need."""

    plain: MomentPoint
    rows: Rows
    shift: Array  # (B, C, d), of the plain columns in each cell, in units of D

    @property
    def log_count(self) -> Array:
        return self.plain.log_count


@dataclass(frozen=True, kw_only=True)
class RowSpace:
    """The free coordinates of the law of the rows and of the count, and their prior."""

    plain: MomentSpace
    categories: tuple[Indicators, ...] = ()

    @property
    def dim(self) -> int:
        """Entries of a row."""
        return self.plain.dim + int(self.cells.values.shape[1])

    @property
    def size(self) -> int:
        return self.plain.size + len(self.precision)

    @cached_property
    def cells(self) -> Cells:
        return Cells.of(self.categories)

    def read(self, free: Array) -> RowPoint:
        """The laws at free coordinates (B, size)."""
        plain, cells = self.plain.read(free[:, : self.plain.size]), self.cells
        batch, first, p = len(free), int(self.plain.intercept), self.plain.dim
        mean = np.empty((batch, len(cells), self.dim))
        mean[:, :, :first] = 1.0
        mean[:, :, first:p] = plain.mean[:, None]
        covariance = np.zeros((batch, self.dim, self.dim))
        covariance[:, first:p, first:p] = plain.covariance
        weight, shift = np.ones((batch, 1)), np.zeros((batch, 1, self.plain.columns))
        if self.categories:
            shares, shifts = self._parts(free)
            weight, shift = special.softmax(shares @ self._design.T, axis=1), cells.effects @ shifts
            mean[:, :, first:p] += shift * plain.scale[:, None]
            mean[:, :, p:] = cells.values
        rows = Rows(weight=weight, mean=mean, covariance=covariance, free=slice(first, p))
        return RowPoint(plain=plain, rows=rows, shift=shift)

    def log_prior(self, free: Array, point: RowPoint) -> tuple[Array, Array]:
        """The log prior density (B,), up to a constant, and its gradient (B, size)."""
        value, plain = self.plain.log_prior(free[:, : self.plain.size], point.plain)
        if not self.categories:
            return value, plain
        rest = free[:, self.plain.size :]
        pull = -rest * self.precision
        pull[:, : self.cells.effects.shape[1]] = 0.0
        value = value + 0.5 * (pull * rest).sum(1)
        place = 0
        for column in self.categories:
            basis, here = contrast_basis(column.levels), slice(place, place + column.levels - 1)
            log_shares = special.log_softmax(rest[:, here] @ basis.T, axis=1)
            value = value + log_shares.sum(1)
            pull[:, here] = -column.levels * np.exp(log_shares) @ basis
            place = here.stop
        return value, np.concatenate([plain, pull], axis=1)

    @cached_property
    def precision(self) -> Array:
        """Of the prior of the categories' coordinates, at equal shares."""
        effects, pairs = self.cells.effects.shape[1], self.cells.pairs.shape[1]
        sizes = (effects, pairs, effects * self.plain.columns)
        return np.repeat([1.0, PAIR_SD**-2, SHIFT_SD**-2], sizes)

    def pullback(self, point: RowPoint, by_rows: RowsGradient, by_count: Array) -> Array:
        """The gradient (B, size) from those with respect to the law of the rows and the log count (B,)."""
        plain, free = self.plain, point.rows.free
        by_mean = by_rows.mean[:, :, free]
        out = plain.pullback(point.plain, by_mean.sum(1), by_rows.covariance[:, free, free], by_count)
        if not self.categories:
            return out
        by_shift = by_mean * point.plain.scale[:, None]
        out[:, plain.scales] += plain.by_scale(point.plain, 0.5 * (by_shift * point.shift).sum(1))
        weight = point.rows.weight
        by_log = weight * (by_rows.weight - (weight * by_rows.weight).sum(1, keepdims=True))
        by_shifts = (self.cells.effects.T @ by_shift).reshape(len(by_count), -1)
        return np.concatenate([out, by_log @ self._design, by_shifts], axis=1)

    def _parts(self, free: Array) -> tuple[Array, Array]:
        """Coordinates of the log shares (B, ...) and of the shifts (B, sum of K - 1, plain columns)."""
        first, shares = self.plain.size, self._design.shape[1]
        shifts = free[:, first + shares :].reshape(len(free), self.cells.effects.shape[1], self.plain.columns)
        return free[:, first : first + shares], shifts

    @cached_property
    def _design(self) -> Array:
        return np.concatenate([self.cells.effects, self.cells.pairs], axis=1)
