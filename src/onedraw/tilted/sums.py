# SPDX-License-Identifier: Apache-2.0
"""Sums over records of gradients and curvatures: all that the solver knows of the data.

A ``Sums`` gives, at parameters theta (q, p), the gradient sum_i omega_i f'_i z_i (q, p) and the curvature
sum_i omega_i f''_i (x) z_i z_i' (qp, qp). Data on disk or on many machines need only provide these sums;
``ArraySums`` does for arrays, in blocks that stay in cache, so that each pass reads the rows once and memory
beyond the data does not grow with them.

Guarantee:
    ``gradient`` is within ``rounding(length)`` of the exact sum at any theta of Euclidean norm ``length``.

*Rounding.* With unit roundoff v: a predictor z.theta, added in runs of ``COLUMNS`` entries, carries at most
r v |z| |theta|, r = min(p, COLUMNS) + ceil(p/COLUMNS), which changes the slope by c1 times as much; the
slope itself carries ``accuracy`` B; products and sums over ``CHUNK`` rows in any order, and then of chunks
in pairs, carry (CHUNK + PAIRWISE) v relative to the sum of absolute terms. A row contributes omega |z|_2 <=
sqrt(p) and omega |z|_2^2 <= p. So per record: B sqrt(p) (accuracy + (CHUNK + PAIRWISE) v) + c1 p (r + q + 6)
v |theta|; a first-order bound, taken twice.

>>> import numpy as np
>>> from onedraw.tilted.losses import Logistic
>>> sums = ArraySums(loss=Logistic(), design=np.array([[1.0], [1.0]]), response=np.array([0.0, 1.0]))
>>> sums.gradient(np.array([[0.0]])), sums.gradient_and_curvature(np.array([[0.0]]))[1]
(array([[0.]]), array([[0.5]]))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from onedraw.tilted.losses import Loss
from onedraw.types import Array

UNIT = 2.0**-53
CHUNK = 128
"""Rows whose products are added in one go; the sums of such chunks are added in pairs."""
PAIRWISE = 64
"""Roundings of a chunk on its way into the sum: 16 in a lane, 3 across, one a doubling to 2^40, and 5."""
COLUMNS = 32
"""Entries of a predictor that are added in one go: a bound for all p at once would grow with p^2."""
BLOCK_CELLS = 1 << 16


class Sums(Protocol):
    """Sums over records at given parameters (q, p). Private."""

    @property
    def num_records(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int]:
        """(q, p)."""
        ...

    @property
    def factor(self) -> float:
        """How many times each record is counted: 1, or more in a subsample."""
        ...

    def gradient(self, theta: Array) -> Array:
        """The gradient (q, p), within ``rounding`` of exact."""
        ...

    def gradient_and_curvature(self, theta: Array, *, quick: bool) -> tuple[Array, Array]:
        """The gradient and the curvature (qp, qp); the latter may be of half precision if ``quick``."""
        ...

    def rounding(self, length: float) -> float:
        """A bound on the error of ``gradient`` at parameters of Euclidean norm ``length``."""
        ...

    def subsample(self, size: int, rng: np.random.Generator) -> Sums:
        """Sums of ``size`` records chosen at random, each counted n/size times."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ArraySums:
    """Sums over rows (n, p) of an array; ``weight`` (n,) or None for ones; ``factor`` times."""

    loss: Loss
    design: Array
    response: Array
    weight: Array | None = None
    factor: float = 1.0

    @property
    def num_records(self) -> int:
        return int(self.design.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        return self.loss.num_predictors, int(self.design.shape[1])

    def gradient(self, theta: Array) -> Array:
        chunks = []
        for rows in self._blocks():
            z = self.design[rows]
            slope = self.loss.slope(self.response[rows], self._predictor(z, theta))
            chunks.append(self._chunk_sums(z, self._times_weight(slope, rows)))
        return self.factor * _pairwise_sum(chunks, self.shape)

    def gradient_and_curvature(self, theta: Array, *, quick: bool = False) -> tuple[Array, Array]:
        q, p = self.shape
        chunks, total = [], np.zeros((q, q, p, p))
        for rows in self._blocks():
            z = self.design[rows]
            slope, curvature = self.loss.slope_and_curvature(self.response[rows], self._predictor(z, theta))
            chunks.append(self._chunk_sums(z, self._times_weight(slope, rows)))
            _add_curvature(total, z, self._times_weight(curvature, rows), np.float32 if quick else np.float64)
        for j in range(q):
            for i in range(j):
                total[j, i] = total[i, j]
        curvature = self.factor * total.transpose(0, 2, 1, 3).reshape(q * p, q * p)
        return self.factor * _pairwise_sum(chunks, self.shape), curvature

    def rounding(self, length: float) -> float:
        (q, p), loss = self.shape, self.loss
        score = loss.score_bound * math.sqrt(p) * (loss.accuracy + (CHUNK + PAIRWISE) * UNIT)
        roundings = min(p, COLUMNS) + -(-p // COLUMNS) + q + 6
        predictor = loss.curvature_bound * p * roundings * UNIT * length
        return 2.0 * self.factor * self.num_records * (score + predictor)

    def subsample(self, size: int, rng: np.random.Generator) -> ArraySums:
        # At random, never evenly spaced: tables come ordered, and a stride could miss a whole group.
        rows = np.sort(rng.choice(self.num_records, size, replace=False, shuffle=False))
        return ArraySums(
            loss=self.loss,
            design=self.design[rows],
            response=self.response[rows],
            weight=None if self.weight is None else self.weight[rows],
            factor=self.factor * self.num_records / size,
        )

    def _blocks(self) -> list[slice]:
        rows = max(1, BLOCK_CELLS // (CHUNK * max(1, self.design.shape[1]))) * CHUNK
        return [slice(first, first + rows) for first in range(0, self.num_records, rows)]

    def _predictor(self, z: Array, theta: Array) -> Array:
        weights = theta[0] if len(theta) == 1 else theta.T
        total = z[:, :COLUMNS] @ weights[:COLUMNS]
        for first in range(COLUMNS, len(weights), COLUMNS):
            total += z[:, first : first + COLUMNS] @ weights[first : first + COLUMNS]
        return np.asarray(total)

    def _times_weight(self, values: Array, rows: slice) -> Array:
        if self.weight is not None:
            weight = self.weight[rows]
            values *= weight.reshape(-1, *(1,) * (values.ndim - 1))
        return values

    def _chunk_sums(self, z: Array, slope: Array) -> Array:
        """Gradients (chunks, q, p) of CHUNK rows each."""
        q, p = self.shape
        slope = slope.reshape(-1, q)
        whole = len(z) // CHUNK * CHUNK
        left = slope[:whole].reshape(-1, CHUNK, q).swapaxes(1, 2)
        parts = left @ z[:whole].reshape(-1, CHUNK, p)
        if whole == len(z):
            return np.asarray(parts)
        return np.concatenate([parts, (slope[whole:].T @ z[whole:])[None]])


def _pairwise_sum(chunks: list[Array], shape: tuple[int, int]) -> Array:
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
