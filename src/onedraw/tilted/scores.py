# SPDX-License-Identifier: Apache-2.0
"""Sums of squared scores, for the errors of a fit: their total, and the matrix of their products.

The relative score a = f'/(score bound) of a record is a number for each of q predictors, of length at most 1.

Guarantee:
    One record adds at most 1 to ``TotalScore``, sum omega a^2 (q = 1). To ``ScoreProducts``, sum omega^2
    (a a') (x) (z z'), it adds a positive semidefinite matrix of trace at most p, whose entries are at most 1
    in size for rows in the cube: what ``curvature_law(dim=q p, trace=p, entry=1 or None)`` needs, whatever q
    is.

*Proof.* What a record adds is v v' with v = a (x) omega z. Its trace is |v|^2 = |a|^2 |omega z|_2^2 <= p, as
omega <= 1 and omega |z|_2^2 <= p. Its entries are at most |v|_inf^2 <= |a|_2^2 |omega z|_inf^2, at most 1 in
the cube. Classes have |f'| <= sqrt(2), their score bound (``softmax_loss``). [] Both are reached: by a record
at a corner of the cube whose class had no probability, all of which another class had. Then f' is along the
contrast of the two classes, and if they are the first two that is a contrast of the basis by itself.

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
        for part in pieces(rows):
            squares = _relative(self.loss, part, self.theta) ** 2
            total += (squares if part.weight is None else squares * part.weight).sum()
        return (total,)


@dataclass(frozen=True)
class ScoreProducts:
    """The kernel of sum omega^2 (a a') (x) (z z') (q p, q p), one predictor after another, at (q, p)."""

    loss: Loss
    theta: Array

    def __call__(self, rows: Rows) -> tuple[Array]:
        total = np.zeros((self.theta.size, self.theta.size))
        for part in pieces(rows):
            score = _relative(self.loss, part, self.theta).reshape(len(part), -1, 1)
            design = part.design if part.weight is None else part.design * part.weight[:, None]
            scored = (score * design[:, None, :]).reshape(len(part), -1)
            total += scored.T @ scored
        return (total,)


def pieces(rows: Rows) -> list[Rows]:
    """A few thousand rows at a time, which stay in the cache."""
    return [rows.take(slice(first, first + PIECE)) for first in range(0, len(rows), PIECE)]


def _relative(loss: Loss, rows: Rows, theta: Array) -> Array:
    """a (n,), or (n, q) of several predictors."""
    assert rows.response is not None
    eta = rows.design @ (theta[0] if len(theta) == 1 else theta.T)
    if rows.offset is not None:
        eta += rows.offset
    return np.asarray(loss.slope(rows.response, eta) / loss.score_bound)
