# SPDX-License-Identifier: Apache-2.0
"""Working rows z and weights omega that bound every record's part in the fit, whatever its features are.

Guarantee:
    For every finite feature vector, with p the length of z (the intercept's 1 included),

    * ``cube_rows``: |omega z|_inf <= 1 and omega |z|_2^2 <= p;
    * ``ball_rows``: |omega z|_2 <= sqrt(p) and omega |z|_2^2 <= p;
    * ``one_hot_rows``: as ``one_hot`` says, which has the proof.

*Proof.* Cube: omega = min(1, 1/m^2) with m = |z|_inf. If m <= 1, omega = 1 and |z|_2^2 <= p m^2 <= p. If
m > 1, |omega z|_inf = 1/m < 1 and omega |z|_2^2 <= p m^2/m^2 = p. Ball: omega = min(1, p/|z|_2^2), so
omega |z|_2^2 <= p, and |omega z|_2^2 = omega (omega |z|_2^2) <= p as omega <= 1. Weights below 1 are computed
1e-12 too small, far more than their rounding. []

*Why weights and not clipping.* Features beyond their declared bounds are allowed inputs. Clipping them would
change the model at these rows (a line through a kink), so the fit would not find the true coefficients. A
weight that depends on the features alone keeps the score's mean at zero at the truth: only rows count for
less. It must fall as 1/|z|^2: with 1/|z| the curvature omega f'' z z' would not be bounded.

Edge cases:
    A row more than ``FAR`` times out of its bounds gets weight 0 (its weight would be below 1e-12 p), so that
    no predictor overflows. Just below it adds as much as any, so its size must not depend on other rows by
    as little as a last bit (``one_hot.summed``). Features that are not finite must be refused before.

>>> import numpy as np
>>> rows = cube_rows(np.array([[5.0], [30.0]]), bounds=np.array([[0.0, 10.0]]))
>>> rows.design, rows.weight.round(3)
(array([[0., 1.], [5., 1.]]), array([1.  , 0.04]))
>>> ball_rows(np.array([[1.5], [6.0]]), units=np.array([1.5])).weight.round(3)
array([1.   , 0.118])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.tables.base import Block
from onedraw.tables.base import Rows as Places
from onedraw.tilted.alignment import Alignment
from onedraw.tilted.one_hot import OneHot, summed
from onedraw.types import Array

Geometry: TypeAlias = Literal["cube", "ball"] | OneHot

FAR = 1e6
SHRINK = 1.0 - 1e-12
BLOCK_CELLS = 1 << 15


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Rows(Block):
    """Working rows z (n, p), their weights (n,), None if all are 1, and responses.

    z is a row of ``features`` (n, d) times ``factor`` (d,), then the intercept's 1 where there is one. The
    features stay in memory as they are: sums over rows bring parameters to their units, and back.
    ``offset`` (n,) is added to the predictors. It is no part of the rows, and changes no weight.
    """

    features: Array
    weight: Array | None
    geometry: Geometry
    factor: Array | None = None
    """1 for each feature if None."""
    intercept: bool = False
    response: Array | None = None
    given: Array | None = None
    """The responses of the records, where ``response`` is what a stage has made of them."""
    offset: Array | None = None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.features), self.dim

    @property
    def dim(self) -> int:
        return int(self.features.shape[1]) + int(self.intercept)

    @property
    def scaling(self) -> Array:
        """What each entry of a row is a multiple of (p,)."""
        factor = np.ones(self.features.shape[1]) if self.factor is None else self.factor
        return np.append(factor, 1.0) if self.intercept else factor

    @property
    def design(self) -> Array:
        """z (n, p), a copy."""
        ones = np.ones((len(self), int(self.intercept)))
        return np.concatenate([self.features, ones], axis=1) * self.scaling

    def take(self, rows: Places) -> Rows:
        return replace(
            self,
            features=self.features[rows],
            weight=None if self.weight is None else self.weight[rows],
            response=None if self.response is None else self.response[rows],
            given=None if self.given is None else self.given[rows],
            offset=None if self.offset is None else self.offset[rows],
        )


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """From records in working units to ``Rows``: of the cube, of the ball where ``units`` or an ``alignment``
    (of features in their units) are given, or of columns of categories that are met one at a time."""

    fit_intercept: bool
    units: tuple[float, ...] | None = None
    one_hot: OneHot | None = None
    alignment: Alignment | None = None

    @property
    def geometry(self) -> Geometry:
        if self.one_hot is not None:
            return self.one_hot
        return "cube" if self.units is None and self.alignment is None else "ball"

    def __call__(self, records: Any) -> Rows:
        features = np.ascontiguousarray(records.features, dtype=np.float64)
        if self.one_hot is not None:
            rows = one_hot_rows(features, self.one_hot)
        elif self.alignment is not None:
            with np.errstate(over="ignore"):  # such rows are far out, and get weight 0
                scaled = features if self.units is None else features / self.units
            features, units = self.alignment.rows(scaled), np.ones(features.shape[1])
            rows = ball_rows(features, units=units, fit_intercept=self.fit_intercept)
        elif self.units is None:
            unit = np.tile([-1.0, 1.0], (features.shape[1], 1))
            rows = cube_rows(features, bounds=unit, fit_intercept=self.fit_intercept)
        else:
            rows = ball_rows(features, units=np.array(self.units), fit_intercept=self.fit_intercept)
        return replace(rows, response=records.response, offset=records.offset)


def cube_rows(features: Array, *, bounds: Array, fit_intercept: bool = True) -> Rows:
    """Rows of features with declared bounds (d, 2), mapped to [-1, 1]; rows beyond count for less."""
    centre, half = 0.5 * (bounds[:, 0] + bounds[:, 1]), 0.5 * (bounds[:, 1] - bounds[:, 0])
    if not (half > 0.0).all() or not np.isfinite(half).all():
        raise InvalidInput("Expected finite feature bounds with lower < upper, got another pair. Widen it.")
    if centre.any() or (half != 1.0).any():
        with np.errstate(over="ignore", invalid="ignore"):  # such rows are far out, and get weight 0
            features = (features - centre) / half
    return _weighted(features, _sizes(features, _largest), fit_intercept, "cube", None)


def ball_rows(features: Array, *, units: Array, fit_intercept: bool = True) -> Rows:
    """Rows of features without declared bounds, divided by ``units`` (d,); long rows count for less."""
    if not (units > 0.0).all() or not np.isfinite(units).all():
        raise InvalidInput("Expected units of features that are positive and finite, got another number.")
    factor = 1.0 / units

    def squares_of(part: Array, room: Array) -> Array:
        turned = np.multiply(part.T, factor[:, None], out=room.reshape(part.shape[::-1]))
        return summed(np.square(turned, out=turned))

    squares = _sizes(features, squares_of)
    squares += float(fit_intercept)
    return _weighted(features, squares, fit_intercept, "ball", factor)


def one_hot_rows(features: Array, geometry: OneHot) -> Rows:
    """Rows of features in working units, with an entry for every category and no intercept."""
    with np.errstate(over="ignore", invalid="ignore"):  # such rows are far out, and get weight 0
        rows = geometry.rows(features)
        size = geometry.norms(rows)
    return _weighted(rows, size, False, geometry, None)


def squared_length(geometry: Geometry, dim: int) -> int:
    """c0, the largest omega |z|_2^2 of rows of ``dim`` entries."""
    return geometry.squared_length if isinstance(geometry, OneHot) else dim


def constant(geometry: Geometry, dim: int, *, intercept: bool) -> Array:
    """Parameters (dim,) with the predictor 1 at every record; none have it without an intercept."""
    if isinstance(geometry, OneHot):
        return geometry.constant
    out = np.zeros(dim)
    out[dim - int(intercept) :] = 1.0
    return out


def _sizes(features: Array, size_of: Callable[[Array, Array], Array | float]) -> Array:
    """A size of each row of features, block by block; ``size_of`` has room for as many numbers."""
    n, d = features.shape
    rows = max(16, BLOCK_CELLS // max(1, d))
    sizes, room = np.empty(n), np.empty((rows, d))
    with np.errstate(over="ignore", invalid="ignore"):  # such rows are far out, and get weight 0
        for first in range(0, n, rows):
            part = features[first : first + rows]
            sizes[first : first + rows] = size_of(part, room[: len(part)])
    return sizes


def _largest(part: Array, room: Array) -> Array | float:
    """|z|_inf, at least 1 where no row of the block is beyond its bounds: the common case, at one look."""
    if part.min(initial=0.0) >= -1.0 and part.max(initial=0.0) <= 1.0:
        return 1.0
    return np.asarray(np.abs(part, out=room).max(axis=1, initial=0.0))


def _weighted(
    features: Array, size: Array, intercept: bool, geometry: Geometry, factor: Array | None
) -> Rows:
    """Rows with weights by their sizes: |z|_2^2 for the ball, else the norm that is to be at most 1."""
    rows = Rows(features=features, weight=None, geometry=geometry, factor=factor, intercept=intercept)
    ball, limit = geometry == "ball", float(rows.dim)
    if (size <= (limit * SHRINK if ball else 1.0)).all():
        return rows
    far = ~(size <= (limit * FAR**2 if ball else FAR))  # infinite where a square overflowed
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if ball:
            weight = np.minimum(1.0, limit * SHRINK / size)
        else:
            weight = np.where(size <= 1.0, 1.0, SHRINK / (size * size))
    if far.any():
        features = np.where(far[:, None], 0.0, features)
        weight[far] = 0.0
    return replace(rows, features=features, weight=weight)
