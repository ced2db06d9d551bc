# SPDX-License-Identifier: Apache-2.0
"""Even weights, by which long rows count for less in the curvature that is released.

The noise of a released curvature is in proportion to the largest trace that a record may have. Of rows in
the cube that is p c1, but few are so long: features that fill their ranges evenly have |z|^2 = 1 + d/3 on
average.
So in the matrix that is released, not in the fit, rows have the weight

    omega'' = min(omega, t/|z|^2),      t = 1 + d/2  (``longest_row``),

and the noise is that of a trace t c1: half of it for many features. The total of omega - omega'' is released
too, and the matrix divided by the share of weight that is left.

Guarantee:
    A record adds to the matrix a positive semidefinite D of trace at most t c1 (for classes t times
    ``trace_bound``), entries at most c1 in size and at least 0 on the diagonal; and to the total a number in
    [0, 1 - t/p]. What is done with the noisy numbers afterwards is post-processing.

*Proof.* omega'' |z|^2 <= t, and omega'' <= omega, so entries are bounded as before. omega |z|^2 <= p, so
t/|z|^2 >= omega t/p and omega - omega'' <= omega (1 - t/p). []

*What the division leaves.* H is found up to the difference between its rows weighted by omega'' and by omega.
Where all rows have the same length (dummies of +-1, however many) there is none. Columns that vary within
their ranges count a little less in long rows: of five evenly spread ones beside five dummies the curvature is
3.5% too small, and errors are 1.8% too long; of two or ten evenly spread ones, 1.5% and 0.1%. Only a column
that is in the middle of its range wherever many others are at their ends counts for too much: beside nine
dummies that half of the rows do not have, errors of such a column are a tenth too short.

>>> import numpy as np
>>> rows = Rows(features=np.array([[1.0, 1.0], [0.1, 0.1]]), weight=None, geometry="cube", intercept=True)
>>> even, lost = evened(rows, longest_row(3, intercept=True))
>>> even.weight.round(3).tolist(), round(lost, 3)
([0.667, 1.0], 0.333)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onedraw.tilted.curvature import total_scale
from onedraw.tilted.losses import Loss
from onedraw.tilted.sums import Curvature
from onedraw.tilted.weights import SHRINK, Rows
from onedraw.types import Array

MEAN_SQUARE = 0.5
"""Of a feature, up to which rows keep their weight."""


def longest_row(dim: int, *, intercept: bool) -> float:
    """t, for rows of ``dim`` entries."""
    return int(intercept) + MEAN_SQUARE * (dim - int(intercept))


def evened(rows: Rows, longest: float) -> tuple[Rows, float]:
    """Rows of the cube with even weights, and the weight that they have lost. Private."""
    x = rows.features
    squares = np.einsum("ij,ij->i", x, x) + float(rows.intercept)
    if squares.max(initial=0.0) <= SHRINK * longest:
        return rows, 0.0
    weight = np.ones(len(x)) if rows.weight is None else rows.weight
    even = np.minimum(weight, SHRINK * longest / np.maximum(squares, SHRINK * longest))
    return replace(rows, weight=even), float((weight - even).sum())


def share_left(
    lost: float, *, longest: float, dim: int, num_records: int, epsilon: float, rng: np.random.Generator
) -> float:
    """The noisy share of weight that rows of ``dim`` entries have kept, of a public number of records.

    Guarantee:
        epsilon-DP for replace-one, one row a person: Laplace noise of scale (1 - t/p)/epsilon on the total.
    """
    least = longest / dim
    scale = (1.0 - least) * total_scale(epsilon=epsilon)
    return float(np.clip(1.0 - (lost + rng.laplace(0.0, scale)) / num_records, least, 1.0))


@dataclass(frozen=True)
class EvenInformation:
    """What makes the kernel of the curvature of even rows and their lost weight, at parameters of a fit."""

    longest: float

    def __call__(self, loss: Loss, theta: Array) -> EvenCurvature:
        return EvenCurvature(loss, theta, self.longest)


@dataclass(frozen=True)
class EvenCurvature:
    """The kernel: the upper blocks of the curvature (q, q, p, p), and the lost weight (1,)."""

    loss: Loss
    theta: Array
    longest: float

    def __call__(self, rows: Rows) -> tuple[Array, Array]:
        even, lost = evened(rows, self.longest)
        (total,) = Curvature(self.loss.information, self.theta)(even)
        return total, np.array([lost])
