# SPDX-License-Identifier: Apache-2.0
"""Laws of rows in free coordinates: moments of the plain columns, and shares and shifts of categories.

The plain columns (the intercept and what is no indicator) have second moments M in the coordinates and with
the prior of ``moments``. Declared categories are described in the one-hot basis, by cells (``cells``):

* log shares of the cells, up to a constant, are the main effects of the columns plus interactions of pairs.
  The effect of a category is N(0, SHARE_SD^2) about the mean of its column's, that of a pair
  N(0, PAIR_SD^2);
* the mean of a plain column in a cell is that of M plus S_j times a shift, the sum of the shifts of the
  cell's categories, each N(0, SHIFT_SD^2) about the mean of its column's. S_j^2 = M_jj.

So the indicators of a column exclude one another and add up to the intercept whatever the coordinates are: a
diagonal block of shares in the one-hot basis, crossed with all others by what is free. In the coded rows it
is nearly singular, which the prior of correlations of ``moments`` holds for unlikely and noise hides.

Free coordinates, in this order: those of ``moments``, main effects and interactions of the log shares, shifts
(contrast by contrast, column by column within). Without categories there is nothing but the first.

>>> import numpy as np
>>> plain = MomentSpace(dim=2, intercept=True, count_sd=0.1)
>>> space = RowSpace(plain=plain, categories=(Indicators.of_range(3),))
>>> space.dim, space.size                                        # 4 of the moments, 2 shares, 2 shifts
(4, 8)
>>> rows = space.read(np.zeros((1, 8))).rows
>>> rows.weight.round(3).tolist(), rows.mean[0, 1].tolist()
([[0.333, 0.333, 0.333]], [1.0, 0.0, 1.0, -1.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from onedraw.inference.cells import Cells, Indicators
from onedraw.inference.moments import MomentPoint, MomentSpace
from onedraw.inference.rows import Rows, RowsGradient
from onedraw.types import Array

SHARE_SD = 1.0
PAIR_SD = 0.5
SHIFT_SD = 0.5


@dataclass(frozen=True, kw_only=True)
class RowPoint:
    """A batch of points: everything that the density and its gradient need."""

    plain: MomentPoint
    rows: Rows
    shift: Array  # (B, C, d), of the plain columns in each cell, in units of S
    member: Array  # (C, all categories)

    @property
    def log_count(self) -> Array:
        return self.plain.log_count

    @property
    def log_sizes(self) -> Array:
        """Logarithms of what every plain column and every category adds up to over the records, over n."""
        plain = 2.0 * np.log(self.plain.scale)
        shares = np.log(self.rows.weight @ self.member)
        return np.asarray(self.log_count[:, None] + np.concatenate([plain, shares], axis=1))


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
        return self.plain.size + len(self.spreads)

    @cached_property
    def cells(self) -> Cells:
        return Cells.of(self.categories)

    def read(self, free: Array) -> RowPoint:
        """The laws at free coordinates (B, size)."""
        plain, cells = self.plain.read(free[:, : self.plain.size]), self.cells
        moments = Rows.of_moments(plain.moments, intercept=self.plain.intercept)
        p, first = self.plain.dim, self.plain.dim - self.plain.scales
        if not self.categories:
            none = np.zeros((len(free), 1, self.plain.scales))
            return RowPoint(plain=plain, rows=moments, shift=none, member=cells.member)
        shares, shifts = self._parts(free)
        shift = cells.effects @ shifts
        mean = np.empty((len(free), len(cells), self.dim))
        mean[:, :, :p] = moments.mean
        mean[:, :, first:p] += shift * plain.scale[:, None, first:]
        mean[:, :, p:] = cells.values
        covariance = np.zeros((len(free), self.dim, self.dim))
        covariance[:, :p, :p] = moments.covariance
        rows = Rows(
            weight=special.softmax(shares @ self._design.T, axis=1),
            mean=mean,
            covariance=covariance,
            free=slice(first, p),
        )
        return RowPoint(plain=plain, rows=rows, shift=shift, member=cells.member)

    def log_prior(self, free: Array, point: RowPoint) -> tuple[Array, Array]:
        """The log prior density (B,), up to a constant, and its gradient (B, size)."""
        value, plain = self.plain.log_prior(free[:, : self.plain.size], point.plain)
        if not self.categories:
            return value, plain
        rest = free[:, self.plain.size :]
        pull = -rest / self.spreads**2
        return value + 0.5 * (pull * rest).sum(1), np.concatenate([plain, pull], axis=1)

    @cached_property
    def spreads(self) -> Array:
        """The prior standard deviations of the coordinates of the categories."""
        effects, pairs = self.cells.effects.shape[1], self.cells.pairs.shape[1]
        sizes = (effects, pairs, effects * self.plain.scales)
        return np.repeat([SHARE_SD, PAIR_SD, SHIFT_SD], sizes)

    def pullback(self, point: RowPoint, by_rows: RowsGradient, by_count: Array) -> Array:
        """The gradient (B, size) from those with respect to the law of the rows and the log count (B,)."""
        p, first, plain = self.plain.dim, self.plain.dim - self.plain.scales, point.plain
        by_moments = by_rows.covariance[:, :p, :p].copy()
        if self.plain.intercept:  # m = M e_0 and Sigma = M - m m'
            by_mean = by_rows.mean[:, :, :p].sum(1)
            by_mean -= 2.0 * (by_moments @ plain.moments[:, :, :1])[:, :, 0]
            by_moments[:, :, 0] += 0.5 * by_mean
            by_moments[:, 0, :] += 0.5 * by_mean
        out = self.plain.pullback(plain, by_moments, by_count)
        if not self.categories:
            return out
        by_shift = by_rows.mean[:, :, first:p] * plain.scale[:, None, first:]
        pairs, scales = self.plain.pairs, self.plain.scales
        out[:, pairs : pairs + scales] += 0.5 * (by_shift * point.shift).sum(1)
        weight = point.rows.weight
        by_log = weight * (by_rows.weight - (weight * by_rows.weight).sum(1, keepdims=True))
        by_shifts = (self.cells.effects.T @ by_shift).reshape(len(by_count), -1)
        return np.concatenate([out, by_log @ self._design, by_shifts], axis=1)

    def _parts(self, free: Array) -> tuple[Array, Array]:
        """Coordinates of the log shares (B, ...) and of the shifts (B, sum of K - 1, plain columns)."""
        first, shares = self.plain.size, self._design.shape[1]
        shifts = free[:, first + shares :].reshape(len(free), self.cells.effects.shape[1], self.plain.scales)
        return free[:, first : first + shares], shifts

    @cached_property
    def _design(self) -> Array:
        return np.concatenate([self.cells.effects, self.cells.pairs], axis=1)
