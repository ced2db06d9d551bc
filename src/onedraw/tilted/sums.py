# SPDX-License-Identifier: Apache-2.0
"""Sums over records of gradients and curvatures: all that the solver knows of the data.

A ``Sums`` gives, at parameters theta (q, p), the gradient sum_i omega_i f'_i z_i (q, p) and the curvature
sum_i omega_i f''_i (x) z_i z_i' (qp, qp) of a table of ``Rows``, wherever they lie. ``Slope`` and
``SlopeAndCurvature`` are the kernels: they walk over a block in pieces that stay in cache.

Guarantee:
    ``gradient`` is within ``rounding(length)`` of the exact sum at any theta of Euclidean norm ``length``,
    however the records are spread over blocks.

*Rounding.* With unit roundoff v: a predictor z.theta, added in runs of ``COLUMNS`` entries, carries at most
r v |z| |theta|, r = min(p, COLUMNS) + ceil(p/COLUMNS), which changes the slope by c1 times as much; the
slope itself carries ``accuracy`` B; products and sums over ``CHUNK`` rows in any order, then of chunks in
pairs and at last of blocks in pairs, carry (CHUNK + PAIRWISE) v relative to the sum of absolute terms. A row
contributes omega |z|_2 <= sqrt(p) and omega |z|_2^2 <= p. So per record: B sqrt(p) (accuracy + (CHUNK +
PAIRWISE) v) + c1 p (r + q + 6) v |theta|; a first-order bound, taken twice. Adding an offset rounds once
more: v |z| |theta|, which the 6 leave room for, and v times the offset, which ``accuracy`` includes
(``count_loss``).

*Many records.* The bound grows with n, and the residual that the noise pays for does not: at 11 columns
doubles end at 5 million records. ``precise`` sums take every step in the long doubles of the platform, with v
their unit roundoff and ``accuracy`` in proportion, times ``LIBRARY`` for what elementary functions lose. On
x86 that is good for 10^9 records and more; where long doubles are doubles, it gains nothing.

>>> import numpy as np
>>> from onedraw.tilted.losses import Logistic
>>> from onedraw.tilted.weights import Rows
>>> design, response = np.array([[1.0], [1.0]]), np.array([0.0, 1.0])
>>> rows = Rows(design=design, weight=None, geometry="cube", response=response)
>>> sums = Sums(loss=Logistic(), table=rows)
>>> sums.gradient(np.array([[0.0]])), sums.gradient_and_curvature(np.array([[0.0]]))[1]
(array([[0.]]), array([[0.5]]))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.private import Withheld
from onedraw.tables.base import Table
from onedraw.tilted.losses import Loss
from onedraw.tilted.weights import Rows
from onedraw.types import Array

UNIT = 2.0**-53
CHUNK = 128
"""Rows whose products are added in one go; the sums of such chunks are added in pairs."""
PAIRWISE = 64
"""Roundings of a chunk on its way into the sum: 16 in a lane, 3 across, one a doubling to 2^40, within a
block or of blocks, and 5."""
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
        """The gradient and the curvature (qp, qp); the latter of half precision if ``quick``."""
        slope, total = self.table.sum(SlopeAndCurvature(self.loss, theta, quick))
        return self.factor * slope, self.factor * squared(total)

    @property
    def can_be_precise(self) -> bool:
        """Whether long doubles are longer than doubles here, and the loss makes use of them."""
        return can_be_precise(self.loss)

    def rounding(self, length: float, *, precise: bool = False) -> float:
        """A bound on the error of the gradient at parameters of Euclidean norm ``length``."""
        bound = rounding(self.loss, self.shape[1], length, precise=precise and self.can_be_precise)
        return self.factor * self.num_records * bound

    def subsamples(self, sizes: list[int], rng: np.random.Generator) -> list[Sums]:
        """Sums of so many records of the look, chosen at random, each counted as often as makes up for it."""
        found, look = [], self.table.look(rng)
        for size in sizes:
            part = look
            if len(look) > size:
                part = look.take(np.sort(rng.choice(len(look), size, replace=False, shuffle=False)))
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
    roundings = min(dim, COLUMNS) + -(-dim // COLUMNS) + loss.num_predictors + 6
    return 2.0 * (score + loss.curvature_bound * dim * roundings * unit * length)


# -- kernels


@dataclass(frozen=True)
class Slope:
    """The gradient (q, p) of a block; with ``precise`` in long doubles."""

    loss: Loss
    theta: Array
    precise: bool = False

    def __call__(self, rows: Rows) -> tuple[Array]:
        kind: Any = np.longdouble if self.precise else np.float64
        theta: Array = self.theta.astype(kind, copy=False)
        chunks = []
        for part in _pieces(rows):
            z: Array = part.design.astype(kind, copy=False)
            slope = self.loss.slope(part.response, _predictor(z, theta, part.offset))
            chunks.append(_chunk_sums(z, _times_weight(slope, part)))
        return (_pairwise_sum(chunks, self.theta.shape),)


@dataclass(frozen=True)
class SlopeAndCurvature:
    """The gradient (q, p) and the upper blocks of the curvature (q, q, p, p), of half precision if quick."""

    loss: Loss
    theta: Array
    quick: bool = False

    def __call__(self, rows: Rows) -> tuple[Array, Array]:
        q, p = self.theta.shape
        chunks, total = [], np.zeros((q, q, p, p))
        for part in _pieces(rows):
            z = part.design
            eta = _predictor(z, self.theta, part.offset)
            slope, curvature = self.loss.slope_and_curvature(part.response, eta)
            chunks.append(_chunk_sums(z, _times_weight(slope, part)))
            curvature = _times_weight(curvature, part)
            _add_curvature(total, z, curvature, np.float32 if self.quick else np.float64)
        return _pairwise_sum(chunks, self.theta.shape), total


def squared(total: Array) -> Array:
    """The curvature (qp, qp) from its upper blocks."""
    q, _, p, _ = total.shape
    for j in range(q):
        for i in range(j):
            total[j, i] = total[i, j]
    return total.transpose(0, 2, 1, 3).reshape(q * p, q * p)


@dataclass(frozen=True, eq=False)
class _Piece:
    design: Array
    response: Any
    weight: Array | None
    offset: Array | None


def _pieces(rows: Rows) -> list[_Piece]:
    size = max(1, BLOCK_CELLS // (CHUNK * max(1, rows.dim))) * CHUNK
    assert rows.response is not None
    return [
        _Piece(
            design=rows.design[first : first + size],
            response=rows.response[first : first + size],
            weight=None if rows.weight is None else rows.weight[first : first + size],
            offset=None if rows.offset is None else rows.offset[first : first + size],
        )
        for first in range(0, len(rows), size)
    ]


def _predictor(z: Array, theta: Array, offset: Array | None) -> Array:
    weights = theta[0] if len(theta) == 1 else theta.T
    total = z[:, :COLUMNS] @ weights[:COLUMNS]
    for first in range(COLUMNS, len(weights), COLUMNS):
        total += z[:, first : first + COLUMNS] @ weights[first : first + COLUMNS]
    if offset is not None:  # of losses with one predictor
        total += offset
    return np.asarray(total)


def _times_weight(values: Array, piece: _Piece) -> Array:
    if piece.weight is not None:
        values *= piece.weight.reshape(-1, *(1,) * (values.ndim - 1))
    return values


def _chunk_sums(z: Array, slope: Array) -> Array:
    """Gradients (chunks, q, p) of CHUNK rows each."""
    p = z.shape[1]
    slope = slope.reshape(len(z), -1)
    q, whole = slope.shape[1], len(z) // CHUNK * CHUNK
    left = slope[:whole].reshape(-1, CHUNK, q).swapaxes(1, 2)
    parts = left @ z[:whole].reshape(-1, CHUNK, p)
    if whole == len(z):
        return np.asarray(parts)
    return np.concatenate([parts, (slope[whole:].T @ z[whole:])[None]])


def _pairwise_sum(chunks: list[Array], shape: tuple[int, ...]) -> Array:
    if not chunks:
        return np.zeros(shape)
    columns = np.concatenate(chunks).reshape(-1, shape[0] * shape[1]).T
    # Along contiguous memory NumPy adds in pairs, beyond runs of 128 terms in eight lanes.
    return np.asarray(np.ascontiguousarray(columns).sum(axis=1)).reshape(shape)


def _add_curvature(total: Array, z: Array, curvature: Array, precision: type[np.floating[Any]]) -> None:
    """Add sum_i f''_i (x) z_i z_i' to ``total`` (q, q, p, p), its upper blocks only."""
    z, curvature = z.astype(precision, copy=False), curvature.astype(precision, copy=False)
    if curvature.ndim == 1:
        root = z * np.sqrt(curvature)[:, None]
        total[0, 0] += root.T @ root  # a product of a matrix with itself costs half of another one
        return
    for i in range(len(total)):
        for j in range(i, len(total)):
            total[i, j] += (z * curvature[:, i, j, None]).T @ z
