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

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from onedraw._validate import whole
from onedraw.families.categorical import contrast_basis
from onedraw.inference.information import Information, or_nan, to_probabilities
from onedraw.inference.nodes import nodes
from onedraw.inference.rows import Rows, RowsGradient
from onedraw.types import AnyArray, Array

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
    """A batch (B) of laws of rows at parameters (q p,), the score that of a fit at those of ``scores``."""

    weight: ClassWeight
    rows: Rows
    theta: Array  # (B, q p)
    scores: Scores

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
        return self.scores.at(self.theta)

    def at(self, theta: Array, which: AnyArray) -> ClassRowLaw:
        """Some members of the batch, by a mask, at other parameters (n, q p)."""
        rows, scores = self.rows.chosen(which), self.scores.chosen(which)
        return ClassRowLaw(weight=self.weight, rows=rows, theta=theta, scores=scores)

    def pullback(self, gradient: Array) -> RowsGradient:
        """The derivatives by the law of the rows from the symmetric d l/d curvature (B, q p, q p)."""
        return self._information.pullback(gradient)

    @cached_property
    def _information(self) -> Information:
        return Information(classes=self.weight.classes, rows=self.rows, theta=self.theta)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Mean scores of ``members`` of a batch of laws of rows, for a fit at ``fitted`` (B, q p).

    What the scores at all parameters share, rows at nodes and the probabilities of the fit, is computed once.
    """

    weight: ClassWeight
    rows: Rows
    fitted: Array
    members: AnyArray  # places in the batch

    def chosen(self, which: AnyArray) -> Scores:
        """Some of the members, by a mask."""
        out = replace(self, members=self.members[which])
        out.__dict__["_nodes"] = self._nodes
        return out

    def at(self, theta: Array) -> Array:
        """E (1 + c V) B' pi (x) z (n, q p) at parameters (n, q p) of the members."""
        nodes, out = self._nodes, np.empty_like(theta)
        for some in _slices(len(theta)):
            which = self.members[some]
            places = nodes.places[which]
            scored = self._probabilities(theta[some], places)
            if self.weight.brier:
                fitted = nodes.fitted[which]
                spread = fitted * (scored - (fitted * scored).sum(1, keepdims=True))
                scored = scored + self.weight.brier * spread
            scored = (self._basis.T @ scored) * nodes.mass[which][:, None]
            out[some] = (scored @ places.transpose(0, 2, 1)).reshape(len(which), -1)
        return out

    @property
    def _basis(self) -> Array:
        return contrast_basis(self.weight.classes)

    def _probabilities(self, theta: Array, places: Array) -> Array:
        """(b, K, N) of rows (b, p, N) with parameters (b, q p)."""
        logits = (self._basis @ theta.reshape(len(theta), -1, self.rows.size)) @ places
        return to_probabilities(logits, axis=1)

    @cached_property
    def _nodes(self) -> _Nodes:
        cells, size = self.rows.weight.shape[1], self.rows.size
        free, batch = self.rows.free, len(self.rows)
        factor = or_nan(np.linalg.cholesky, self.rows.covariance[:, free, free])
        points = nodes(factor.shape[2], max(PER_CELL, max(NODES, PER_COLUMN * size) // cells))
        places = np.repeat(self.rows.mean.transpose(0, 2, 1), len(points), axis=2)
        fitted = np.empty((batch, self.weight.classes, places.shape[2] if self.weight.brier else 0))
        for some in _slices(batch):
            places[some, free] += np.tile(factor[some] @ points.T, cells)
            if self.weight.brier:
                fitted[some] = self._probabilities(self.fitted[some], places[some])
        return _Nodes(places, np.repeat(self.rows.weight, len(points), axis=1) / len(points), fitted)


class _Nodes(NamedTuple):
    """Rows at every node, which come last in every array."""

    places: Array  # (B, p, N)
    mass: Array  # (B, N)
    fitted: Array  # (B, K, N), of no nodes without Brier's score


def _slices(batch: int) -> list[slice]:
    """So few of a batch that what is computed of them fits a cache."""
    return [slice(first, first + BLOCK) for first in range(0, batch, BLOCK)]


def class_row_law(
    weight: ClassWeight, rows: Rows, theta: Array, fitted: Array | None = None
) -> ClassRowLaw:
    """The law of ``rows`` at ``theta`` (B, q p), as ``curvature.row_law``."""
    fitted, members = theta if fitted is None else fitted, np.arange(len(theta))
    scores = Scores(weight=weight, rows=rows, fitted=fitted, members=members)
    return ClassRowLaw(weight=weight, rows=rows, theta=theta, scores=scores)
