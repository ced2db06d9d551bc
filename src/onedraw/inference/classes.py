# SPDX-License-Identifier: Apache-2.0
"""The curvature and the expected score of three or more classes, as functions of the moments of the rows.

With K classes a record has q = K - 1 predictors eta = theta z in orthonormal contrasts B (logits B eta). Let
V = B'(diag pi - pi pi')B. The released curvature is that of the log loss, V (x) z z': Fisher's information.
With c times Brier's score in the loss (``tilted.softmax_loss``) a record's score is (1 + c V) B'(pi - e_y)
(x) z. Where pi are those of a fit and the truth has others, pi*, its mean is (1 + c V) B'(pi - pi*) (x) z,
and near pi* = pi it changes by (V + c V^2) (x) z z' with the true parameters: ``jacobian``.

The mean of the information over rows that are normal in every cell (``rows``) is that of ``information``. The
score at two parameters has means over ``nodes``: z = m + F g, Sigma = F F', with fixed points g whose second
moments are exactly the identity and whose odd moments vanish, the same for both, so that their difference is
as accurate as its parts.

All K (K-1)/2 blocks of the curvature follow from one law of rows. Rows that are not normal bend them apart:
that is ``misfit``.

Everything is batched over the leading axis. Parameters are (q, p) row by row, the intercept first in each.

>>> import numpy as np
>>> law = class_row_law(
...     ClassWeight(classes=3), Rows.of_moments(np.eye(2)[None], intercept=True), np.zeros((1, 4)))
>>> law.curvature[0].diagonal().round(3).tolist()                       # 1/K at equal probabilities
[0.333, 0.333, 0.333, 0.333]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onedraw._validate import whole
from onedraw.families.categorical import contrast_basis
from onedraw.inference.information import Information, or_nan, to_probabilities
from onedraw.inference.nodes import nodes
from onedraw.inference.rows import Rows, RowsGradient
from onedraw.types import Array

NODES = 256
PER_COLUMN, PER_CELL = 8, 32
"""Nodes at the least for every column of the rows, and in every cell."""
BLOCK = 16
"""Members of a batch that are computed together."""


@dataclass(frozen=True, kw_only=True)
class ClassWeight:
    """The softmax of ``classes`` classes in sum-to-zero contrasts, fitted with ``brier`` of Brier's score."""

    classes: int
    brier: float = 0.0

    def __post_init__(self) -> None:
        whole(minimum=2, classes=self.classes)

    @property
    def predictors(self) -> int:
        return self.classes - 1


@dataclass(frozen=True, kw_only=True)
class ClassRowLaw:
    """A batch (B) of laws of rows at parameters (q p,), the score that of a fit at ``fitted``."""

    weight: ClassWeight
    rows: Rows
    theta: Array  # (B, q p)
    fitted: Array  # (B, q p)

    @property
    def curvature(self) -> Array:
        """E V (x) z z' (B, q p, q p)."""
        return self._information.curvature

    @property
    def jacobian(self) -> Array:
        """E (V + c V^2) (x) z z' (B, q p, q p)."""
        return self._information.steeper(self.weight.brier)

    @property
    def score(self) -> Array:
        """E (1 + c V) B' pi (x) z (B, q p), V at the parameters of the fit and pi at ``theta``."""
        return np.concatenate([block.score() for block in self._blocks])

    def pullback(self, gradient: Array) -> RowsGradient:
        """The derivatives by the law of the rows from the symmetric d l/d curvature (B, q p, q p)."""
        return self._information.pullback(gradient)

    @cached_property
    def _information(self) -> Information:
        return Information(classes=self.weight.classes, rows=self.rows, theta=self.theta)

    @cached_property
    def _factor(self) -> Array:
        """Of the free columns (B, f, f)."""
        return or_nan(np.linalg.cholesky, self.rows.covariance[:, self.rows.free, self.rows.free])

    @cached_property
    def _points(self) -> Array:
        """The nodes (N, f) of every cell."""
        return nodes(self._factor.shape[1], max(PER_CELL, self._count // self.rows.weight.shape[1]))

    @property
    def _count(self) -> int:
        return max(NODES, PER_COLUMN * self.rows.size)

    @cached_property
    def _blocks(self) -> list[_Block]:
        theta, fitted = (each.reshape(len(each), -1, self.rows.size) for each in (self.theta, self.fitted))
        points, out = self._points, []
        for rows in _slices(len(theta)):
            weight, mean = self.rows.weight[rows], self.rows.mean[rows]
            places = np.repeat(mean.transpose(0, 2, 1), len(points), axis=2)
            places[:, self.rows.free] += np.tile(self._factor[rows] @ points.T, weight.shape[1])
            mass = np.repeat(weight, len(points), axis=1) / len(points)
            each = {"theta": theta[rows], "fitted": fitted[rows]}
            out.append(_Block(weight=self.weight, rows=places, mass=mass, **each))
        return out


def _slices(batch: int) -> list[slice]:
    return [slice(first, first + BLOCK) for first in range(0, batch, BLOCK)]


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Rows at every node, which come last in every array, for so few of a batch that they fit a cache."""

    weight: ClassWeight
    rows: Array  # (b, p, N)
    mass: Array  # (b, N)
    theta: Array  # (b, q, p)
    fitted: Array  # (b, q, p)

    def score(self) -> Array:
        scored = self._at(self.theta)
        if self.weight.brier:
            fitted = self._at(self.fitted)
            scored = scored + self.weight.brier * fitted * (scored - (fitted * scored).sum(1, keepdims=True))
        found = (self._basis.T @ scored * self.mass[:, None]) @ self.rows.transpose(0, 2, 1)
        return np.asarray(found).reshape(len(found), -1)

    @property
    def _basis(self) -> Array:
        return contrast_basis(self.weight.classes)

    def _at(self, theta: Array) -> Array:
        """Probabilities (b, K, N)."""
        return to_probabilities((self._basis @ theta) @ self.rows, axis=1)


def class_row_law(
    weight: ClassWeight, rows: Rows, theta: Array, fitted: Array | None = None
) -> ClassRowLaw:
    """The law of ``rows`` at ``theta`` (B, q p), as ``curvature.row_law``."""
    return ClassRowLaw(weight=weight, rows=rows, theta=theta, fitted=theta if fitted is None else fitted)
