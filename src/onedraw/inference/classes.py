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
    """A batch (B) of laws of rows at parameters (q p,): ``members`` of that of a fit, whose score it has."""

    rows: Rows
    theta: Array  # (B, q p)
    fit: Fit
    members: AnyArray

    @property
    def curvature(self) -> Array:
        """E V (x) z z' (B, q p, q p)."""
        return self._information.curvature

    @property
    def jacobian(self) -> Array:
        """E (V + c V^2) (x) z z' (B, q p, q p)."""
        return self._information.steeper(self.fit.weight.brier)

    @property
    def score(self) -> Array:
        """E (1 + c V) B' pi (x) z (B, q p), V at the parameters of the fit and pi at ``theta``."""
        return self.fit.scores(self.theta, self.members)

    def at(self, theta: Array, which: AnyArray) -> ClassRowLaw:
        """Some members of the batch, by a mask, at other parameters (n, q p)."""
        rows, members = self.rows.chosen(which), self.members[which]
        return ClassRowLaw(rows=rows, theta=theta, fit=self.fit, members=members)

    def pullback(self, gradient: Array) -> RowsGradient:
        """The derivatives by the law of the rows from the symmetric d l/d curvature (B, q p, q p)."""
        return self._information.pullback(gradient)

    @cached_property
    def _information(self) -> Information:
        return Information(classes=self.fit.weight.classes, rows=self.rows, theta=self.theta)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A batch (B) of laws of rows with the parameters of a fit (B, q p).

    What its mean scores at all parameters share, rows at nodes and its own probabilities there, is computed
    once, when the first of them is asked for. Nodes (N) come last in every array.
    """

    weight: ClassWeight
    rows: Rows
    theta: Array

    def scores(self, theta: Array, members: AnyArray) -> Array:
        """E (1 + c V) B' pi (x) z (n, q p) at parameters (n, q p) of some members of the batch."""
        out = np.empty_like(theta)
        for some in _slices(len(theta)):
            which = members[some]
            places = self._places[which]
            scored = self._at(theta[some], places)
            if self.weight.brier:
                own = self._probabilities[which]
                scored = scored + self.weight.brier * own * (scored - (own * scored).sum(1, keepdims=True))
            scored = (self._basis.T @ scored) * self._mass[which][:, None]
            out[some] = (scored @ places.transpose(0, 2, 1)).reshape(len(which), -1)
        return out

    def _at(self, theta: Array, places: Array) -> Array:
        """Probabilities (b, K, N) of rows (b, p, N) with parameters (b, q p)."""
        logits = (self._basis @ theta.reshape(len(theta), -1, self.rows.size)) @ places
        return to_probabilities(logits, axis=1)

    @property
    def _basis(self) -> Array:
        return contrast_basis(self.weight.classes)

    @cached_property
    def _factor(self) -> Array:
        """Of the free columns (B, f, f)."""
        return or_nan(np.linalg.cholesky, self.rows.covariance[:, self.rows.free, self.rows.free])

    @cached_property
    def _points(self) -> Array:
        """The nodes of every cell (N / cells, f)."""
        count = max(NODES, PER_COLUMN * self.rows.size) // self.rows.weight.shape[1]
        return nodes(self._factor.shape[1], max(PER_CELL, count))

    @cached_property
    def _places(self) -> Array:
        """(B, p, N)."""
        out = np.repeat(self.rows.mean.transpose(0, 2, 1), len(self._points), axis=2)
        for some in _slices(len(out)):
            turned = self._factor[some] @ self._points.T
            out[some, self.rows.free] += np.tile(turned, self.rows.weight.shape[1])
        return out

    @cached_property
    def _mass(self) -> Array:
        """(B, N)."""
        return np.repeat(self.rows.weight, len(self._points), axis=1) / len(self._points)

    @cached_property
    def _probabilities(self) -> Array:
        """(B, K, N)."""
        blocks = [self._at(self.theta[some], self._places[some]) for some in _slices(len(self.theta))]
        return np.concatenate(blocks)


def _slices(batch: int) -> list[slice]:
    """So few of a batch that what is computed of them fits a cache."""
    return [slice(first, first + BLOCK) for first in range(0, batch, BLOCK)]


def class_row_law(weight: ClassWeight, rows: Rows, theta: Array) -> ClassRowLaw:
    """The law of ``rows`` at the parameters of a fit (B, q p), as ``curvature.row_law``."""
    fit = Fit(weight=weight, rows=rows, theta=theta)
    return ClassRowLaw(rows=rows, theta=theta, fit=fit, members=np.arange(len(theta)))
