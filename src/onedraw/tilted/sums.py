# SPDX-License-Identifier: Apache-2.0
"""Sums over records of gradients and curvatures: all that the solver knows of the data.

A ``Sums`` gives, at parameters theta (q, p), the gradient sum_i omega_i f'_i z_i (q, p) and the curvature
sum_i omega_i f''_i (x) z_i z_i' (qp, qp) of a table of ``Rows``, wherever they lie. ``Slope`` and
``Curvature`` are the kernels: they walk over a block in pieces that stay in cache.

Guarantee:
    ``gradient`` is within ``rounding(length)`` of the exact sum at any theta of Euclidean norm ``length``,
    however the records are spread over blocks.

*Units.* Features stay as they are in memory, x with z = factor x: the predictor is x.(factor theta), and a
sum of scores times x is multiplied by the factor at its end. The intercept's part is added by itself.

*Rounding.* With unit roundoff v: a predictor z.theta, added in runs of ``COLUMNS`` entries, carries at most
r v |z| |theta|, r = min(p, COLUMNS) + ceil(p/COLUMNS) + 2 (of which 1 for factor theta and 1 for the
intercept), which changes the slope by c1 times as much; the slope itself carries ``accuracy`` B; products and
sums over ``CHUNK`` rows in any order, then of chunks in pairs and at last of blocks in pairs, and the factor,
carry (CHUNK + PAIRWISE) v relative to the sum of absolute terms. A row contributes omega |z|_2 <= sqrt(p) and
omega |z|_2^2 <= p. So per record: B sqrt(p) (accuracy + (CHUNK + PAIRWISE) v) + c1 p (r + q + 6) v |theta|; a
first-order bound, taken twice. ``quick`` sums are for directions only: this bound is not theirs. Adding an
offset rounds once more: v |z| |theta|, which the 6 leave room for, and v times the offset, which ``accuracy``
includes (``count_loss``).

*Many records.* The bound grows with n, and the residual that the noise pays for does not: at 11 columns
doubles end at 5 million records. ``precise`` sums take every step in the long doubles of the platform, with v
their unit roundoff and ``accuracy`` in proportion, times ``LIBRARY`` for what elementary functions lose. On
x86 that is good for 10^9 records and more; where long doubles are doubles, it gains nothing.

>>> import numpy as np
>>> from onedraw.tilted.losses import Logistic
>>> from onedraw.tilted.weights import Rows
>>> design, response = np.array([[1.0], [1.0]]), np.array([0.0, 1.0])
>>> rows = Rows(features=design, weight=None, geometry="cube", response=response)
>>> sums = Sums(loss=Logistic(), table=rows)
>>> sums.gradient(np.array([[0.0]])), sums.gradient_and_curvature(np.array([[0.0]]))[1]
(array([[0.]]), array([[0.5]]))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from onedraw.private import Withheld
from onedraw.tables.base import Table, Together
from onedraw.tilted.losses import Loss
from onedraw.tilted.weights import Rows
from onedraw.types import Array

UNIT = 2.0**-53
CHUNK = 128
"""Rows whose products are added in one go; the sums of such chunks are added in pairs."""
PAIRWISE = 64
"""Roundings of a chunk on its way into the sum: 16 in a lane, 3 across, one a doubling to 2^40, within a
block or of blocks, one for the factor, and 4."""
LIBRARY = 16.0
LONG = float(np.finfo(np.longdouble).eps) / 2.0
"""The unit roundoff of long doubles."""
COLUMNS = 32
"""Entries of a predictor that are added in one go: a bound for all p at once would grow with p^2."""
BLOCK_CELLS = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sums(Withheld):
    """Sums over a table of ``Rows`` at given parameters (q, p), each record counted ``factor`` times."""

    loss: Loss
    table: Table
    factor: float = 1.0

    @property
    def num_records(self) -> int:
        return self.table.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """(q, p)."""
        return self.loss.num_predictors, self.table.shape[1]

    def gradient(self, theta: Array) -> Array:
        """The gradient (q, p), within ``rounding`` of exact."""
        (slope,) = self.table.sum(Slope(self.loss, theta))
        return self.factor * slope

    def gradient_and_curvature(self, theta: Array, *, quick: bool = False) -> tuple[Array, Array]:
        """The gradient and the curvature (qp, qp); if ``quick`` for directions only, in half precision."""
        kernels = Slope(self.loss, theta, quick=quick), Curvature(self.loss, theta, quick)
        (slope,), (total,) = Together.split(self.table.sum(Together(kernels)))
        return self.factor * slope, self.factor * squared(total)

    def curvature(self, theta: Array) -> Array:
        """The curvature (qp, qp) for directions only, in half precision."""
        (total,) = self.table.sum(Curvature(self.loss, theta, quick=True))
        return self.factor * squared(total)

    @property
    def can_be_precise(self) -> bool:
        """Whether long doubles are longer than doubles here, and the loss makes use of them."""
        return can_be_precise(self.loss)

    def rounding(self, length: float, *, precise: bool = False) -> float:
        """A bound on the error of the gradient at parameters of Euclidean norm ``length``."""
        bound = rounding(self.loss, self.shape[1], length, precise=precise and self.can_be_precise)
        return self.factor * self.num_records * bound

    def subsamples(self, sizes: list[int], rng: np.random.Generator) -> list[Sums]:
        """Sums of so many records chosen at random, each counted as often as makes up for it.

        Always the same places: whom they show decides how soon a minimiser is found, and nothing else. Of a
        table elsewhere they are places of its look, the only part that ``rng`` may choose.
        """
        held: Any = self.table if self.table.in_memory else self.table.look(rng)
        places, found = np.random.default_rng(0), []
        for size in sizes:
            part = held
            if len(held) > size:
                part = held.take(np.sort(places.choice(len(held), size, replace=False, shuffle=False)))
            found.append(Sums(loss=self.loss, table=part, factor=self.factor * self.num_records / len(part)))
        return found


def can_be_precise(loss: Loss) -> bool:
    """Whether long doubles are longer than doubles here, and the loss makes use of them."""
    return loss.extends and LONG < UNIT


def rounding(loss: Loss, dim: int, length: float, *, precise: bool) -> float:
    """What one record adds to the bound of ``Sums.rounding``."""
    unit, accuracy = UNIT, loss.accuracy
    if precise:
        unit, accuracy = LONG, LIBRARY * loss.accuracy * LONG / UNIT
    score = loss.score_bound * math.sqrt(dim) * (accuracy + (CHUNK + PAIRWISE) * unit)
    roundings = min(dim, COLUMNS) + -(-dim // COLUMNS) + 2 + loss.num_predictors + 6
    return 2.0 * (score + loss.curvature_bound * dim * roundings * unit * length)


# -- kernels


@dataclass(frozen=True)
class Slope:
    """The gradient (q, p) of a block; with ``precise`` in long doubles, with ``quick`` as fast as can be."""

    loss: Loss
    theta: Array
    precise: bool = False
    quick: bool = False

    def __call__(self, rows: Rows) -> tuple[Array]:
        kind: Any = np.longdouble if self.precise else np.float64
        line = _Line(rows, self.theta.astype(kind, copy=False), rows.dim if self.quick else COLUMNS)
        chunks = []
        for part in _pieces(rows):
            x: Array = part.features.astype(kind, copy=False)
            slope = _times_weight(self.loss.slope(part.response, line.predictor(x, part.offset)), part)
            chunks.append(_chunk_sums(x, slope, len(x) if self.quick else CHUNK))
        return (line.scaled(_pairwise_sum(chunks, self.theta.shape)),)


@dataclass(frozen=True)
class Curvature:
    """The upper blocks of the curvature (q, q, p, p) of a block; if ``quick`` in half precision."""

    loss: Loss
    theta: Array
    quick: bool = False

    def __call__(self, rows: Rows) -> tuple[Array]:
        q, p = self.theta.shape
        line = _Line(rows, self.theta, p if self.quick else COLUMNS)
        total, pieces = np.zeros((q, q, p, p)), _pieces(rows)
        most = len(pieces[0].features) if pieces else 0
        # With one predictor the intercept is added by itself: rows of the length of the features are quicker.
        columns = rows.features.shape[1] if q == 1 else p
        room = np.empty((most, columns), np.float32 if self.quick else np.float64)
        for part in pieces:
            eta = line.predictor(part.features, part.offset)
            curvature = _times_weight(self.loss.slope_and_curvature(part.response, eta)[1], part)
            _add_curvature(total, part.features, curvature, room[: len(part.features)])
        return (line.scaled(line.scaled(total, axis=-2)),)


def information(loss: Loss, theta: Array) -> Curvature:
    """The curvature that is released of a fit."""
    return Curvature(loss.information, theta)


def squared(total: Array) -> Array:
    """The curvature (qp, qp) from its upper blocks."""
    q, _, p, _ = total.shape
    for j in range(q):
        for i in range(j):
            total[j, i] = total[i, j]
    return total.transpose(0, 2, 1, 3).reshape(q * p, q * p)


class _Line:
    """Linear predictors of rows at parameters (q, p), and the way of sums back to the units of z.

    ``columns`` entries are added in one go.
    """

    def __init__(self, rows: Rows, theta: Array, columns: int) -> None:
        d = rows.features.shape[1]
        inner = theta[:, :d] if rows.factor is None else theta[:, :d] * rows.factor
        self.weights = np.ascontiguousarray(inner[0] if len(theta) == 1 else inner.T)
        constant = theta[:, d:]  # (q, 1) or (q, 0)
        self.constant = constant.ravel() if constant.size else None
        self.scaling = None if rows.factor is None else rows.scaling
        self.columns = max(1, columns)

    def predictor(self, x: Array, offset: Array | None) -> Array:
        """(n,) or (n, q) of features (n, d); offsets are of losses with one predictor."""
        weights, run = self.weights, self.columns
        total = x[:, :run] @ weights[:run]
        for first in range(run, len(weights), run):
            total += x[:, first : first + run] @ weights[first : first + run]
        if self.constant is not None:
            total += self.constant
        if offset is not None:
            total += offset
        return np.asarray(total)

    def scaled(self, sums: Array, axis: int = -1) -> Array:
        """Sums over features and the intercept as those over the entries of z."""
        if self.scaling is None:
            return sums
        sums *= self.scaling if axis == -1 else self.scaling[:, None]
        return sums


class _Piece(NamedTuple):
    features: Array
    response: Any
    weight: Array | None
    offset: Array | None


def _pieces(rows: Rows) -> list[_Piece]:
    size = max(1, BLOCK_CELLS // (CHUNK * max(1, rows.dim))) * CHUNK
    assert rows.response is not None
    return [
        _Piece(
            features=rows.features[first : first + size],
            response=rows.response[first : first + size],
            weight=None if rows.weight is None else rows.weight[first : first + size],
            offset=None if rows.offset is None else rows.offset[first : first + size],
        )
        for first in range(0, len(rows), size)
    ]


def _times_weight(values: Array, piece: _Piece) -> Array:
    if piece.weight is not None:
        values *= piece.weight.reshape(-1, *(1,) * (values.ndim - 1))
    return values


def _chunk_sums(x: Array, slope: Array, chunk: int) -> tuple[Array, Array]:
    """Sums (chunks, q, d) of slopes times features and (chunks, q) of slopes, ``chunk`` rows each."""
    slope = slope.reshape(len(x), -1)
    if chunk >= len(x):
        return (slope.T @ x)[None], slope.sum(axis=0)[None]
    q, whole = slope.shape[1], len(x) // chunk * chunk
    left = slope[:whole].reshape(whole // chunk, chunk, q).swapaxes(1, 2)
    products, sums = left @ x[:whole].reshape(whole // chunk, chunk, x.shape[1]), left.sum(axis=2)
    if whole == len(x):
        return products, sums
    rest = slope[whole:].T
    return np.concatenate([products, (rest @ x[whole:])[None]]), np.concatenate(
        [sums, rest.sum(axis=1)[None]]
    )


def _pairwise_sum(chunks: list[tuple[Array, Array]], shape: tuple[int, ...]) -> Array:
    """The sum (q, p) of chunks, with that of the slopes last where p entries ask for it."""
    q, p = shape
    if not chunks:
        return np.zeros(shape)
    products = np.concatenate([part for part, _ in chunks])
    if products.shape[2] < p:
        products = np.concatenate(
            [products, np.concatenate([part for _, part in chunks])[:, :, None]], axis=2
        )
    # Along contiguous memory NumPy adds in pairs, beyond runs of 128 terms in eight lanes.
    return np.asarray(np.ascontiguousarray(products.reshape(-1, q * p).T).sum(axis=1)).reshape(shape)


def _add_curvature(total: Array, x: Array, curvature: Array, room: Array) -> None:
    """Add sum_i f''_i (x) x_i x_i' to ``total`` (q, q, p, p), its upper blocks only; x_i with its 1."""
    d = x.shape[1]
    if curvature.ndim == 1:
        root, inner = np.sqrt(curvature, dtype=room.dtype), total[0, 0]
        room[:] = x
        room *= root[:, None]
        inner[:d, :d] += room.T @ room  # a product of a matrix with itself costs half of another one
        if len(inner) > d:
            inner[d, :d] += root @ room
            inner[:d, d] = inner[d, :d]
            inner[d, d] += root @ root
        return
    room[:, :d], room[:, d:] = x, 1.0
    curvature = curvature.astype(room.dtype, copy=False)
    for i in range(len(total)):
        for j in range(i, len(total)):
            total[i, j] += (room * curvature[:, i, j, None]).T @ room
