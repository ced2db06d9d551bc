# SPDX-License-Identifier: Apache-2.0
"""Sums of squared scores, for the errors of a fit: their total, and the matrix of their products.

The relative score a = |f'|/(score bound) of a loss with one predictor is in [0, 1].

Guarantee:
    One record adds at most 1 to ``TotalScore``, sum omega a^2. To ``ScoreProducts``, sum omega^2 a^2 z z', it
    adds a positive semidefinite matrix of trace at most p, whose entries are at most 1 in size for rows in
    the cube: what ``curvature_law(dim=p, trace=p, entry=1 or None)`` needs.

*Proof.* omega <= 1 and omega |z|_2^2 <= p, so omega^2 a^2 |z|_2^2 <= p; in the cube |omega z|_inf <= 1. []

>>> import numpy as np
>>> from onedraw.tilted.losses import Logistic
>>> from onedraw.tilted.weights import Rows
>>> design, response = np.array([[1.0, 1.0], [-1.0, 1.0]]), np.array([0.0, 1.0])
>>> rows = Rows(features=design, weight=None, geometry="cube", response=response)
>>> rows.sum(ScoreProducts(Logistic(), np.zeros((1, 2))))[0]                 # scores of 1/2 and -1/2
array([[0.5, 0. ], [0. , 0.5]])
>>> rows.sum(TotalScore(Logistic(), np.zeros((1, 2))))[0]
array([0.5])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.tilted.losses import Loss
from onedraw.tilted.weights import Rows
from onedraw.types import Array

PIECE = 1 << 12


@dataclass(frozen=True)
class TotalScore:
    """The kernel of sum omega a^2 (1,), at parameters (1, p)."""

    loss: Loss
    theta: Array

    def __call__(self, rows: Rows) -> tuple[Array]:
        total = np.zeros(1)
        for part in _pieces(rows):
            squares = _relative(self.loss, part, self.theta) ** 2
            total += (squares if part.weight is None else squares * part.weight).sum()
        return (total,)


@dataclass(frozen=True)
class ScoreProducts:
    """The kernel of sum omega^2 a^2 z z' (p, p), at parameters (1, p)."""

    loss: Loss
    theta: Array

    def __call__(self, rows: Rows) -> tuple[Array]:
        total = np.zeros((rows.dim, rows.dim))
        for part in _pieces(rows):
            score = _relative(self.loss, part, self.theta)
            scored = part.design * (score if part.weight is None else score * part.weight)[:, None]
            total += scored.T @ scored
        return (total,)


def _pieces(rows: Rows) -> list[Rows]:
    return [rows.take(slice(first, first + PIECE)) for first in range(0, len(rows), PIECE)]


def _relative(loss: Loss, rows: Rows, theta: Array) -> Array:
    assert rows.response is not None
    eta = rows.design @ theta[0]
    if rows.offset is not None:
        eta += rows.offset
    return np.asarray(loss.slope(rows.response, eta) / loss.score_bound)
