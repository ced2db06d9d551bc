# SPDX-License-Identifier: Apache-2.0
"""From draws of the rows' law to normal laws of the true parameters, one for each draw.

The released parameters solve  score(theta^) + R (theta^ - theta_0) + b = 0  (sums over records). At the truth
the score is -S, S of mean 0 and covariance K. With the expected score of the rows in between,

    count (E mu z at theta* - E mu z at theta^) = R (theta^ - theta_0) + b + S.

Given (rows, count, b) the equation is solved for theta* at S = 0 by Newton's method (of classes with a
derivative that is right near theta^, and learns elsewhere): no linearisation at the released point, which
the ridge pulls towards theta_0, where the curvature is another. (Of counts mu is the integral of E f'', each
at the truth: the mean score at a fit whose predictors are off by d differs from that by up to 0.05 d for
|d| = 0.3 and 0.3 d for 0.6, at means of 5.) S moves the solution by
H^-1 S, H the derivative of the expected score *at the solution*, so theta* is normal with covariance H^-1 K
H^-1 (``score``). H is the curvature, or for classes a little more than the released one (``classes``).

Where H is L G L' and not the L L' of the rows (``misfit``), a shift t moves the parameters by L^-T G^-1 L^-1
t to first order, which is what L G^-1 L^-1 t does to those of the rows: this is solved for.

>>> import numpy as np
>>> from onedraw.inference.weight import ConstantWeight
>>> found = solved(
...     ConstantWeight(), Rows.of_moments(np.eye(2)[None], intercept=True), np.array([100.0]),
...     np.array([[1.0, 2.0]]), np.array([[10.0, 0.0]]))
>>> found.point.round(3).tolist(), found.inverse[0].diagonal().round(3).tolist()
([[1.1, 2.0]], [0.01, 0.01])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onedraw.inference.classes import ClassRowLaw, ClassWeight
from onedraw.inference.curvature import RowLaw, row_law
from onedraw.inference.rows import Rows
from onedraw.inference.weight import Weight
from onedraw.types import Array

ITERATIONS = 10
LONGEST = 2.0
"""The longest Newton step: by how much it may move the predictors of a cell, as their root mean square."""
FARTHEST = 10.0
"""The farthest a solution may be, in the same units. Under a tilt that no parameters explain, as where it
asks for more events than a category has records, there is none: then it is far, its curvature a number."""
CLOSE = 0.1
"""Of classes the derivative is not exact. It is computed anew only after longer steps than this; after others
it is corrected by what they did."""
SETTLED = 1e-6
"""Steps shorter than this end the iteration."""


@dataclass(frozen=True, kw_only=True)
class Solved:
    """The parameters (B, n) that explain a release, with the law and the number of the rows there."""

    point: Array
    law: RowLaw | ClassRowLaw
    count: Array  # (B,)
    ratio: Array | None = None  # (B, n, n), G of ``misfit``

    @cached_property
    def slope(self) -> Array:
        """H (B, n, n), a sum over records."""
        return self._summed(self.law.jacobian)

    @cached_property
    def inverse(self) -> Array:
        """H^-1 (B, n, n)."""
        return np.asarray(np.linalg.inv(self.slope), dtype=np.float64)

    @property
    def curvature(self) -> Array:
        """What is released of the fit, at the solution (B, n, n)."""
        return self._summed(self.law.curvature)

    def _summed(self, each: Array) -> Array:
        out = self.count[:, None, None] * each
        if self.ratio is None:
            return np.asarray(out)
        factor = np.linalg.cholesky(out)
        return np.asarray(factor @ self.ratio @ factor.transpose(0, 2, 1))


def solved(
    weight: Weight | ClassWeight,
    rows: Rows,
    count: Array,
    theta: Array,
    shift: Array,
    *,
    ratio: Array | None = None,
) -> Solved:
    """The true parameters for every draw of the rows.

    ``shift`` (B, n) is R (theta^ - theta_0) + b; ``ratio`` is G where the curvature is not that of the rows.
    """
    law = of_all = row_law(weight, rows, theta)
    slope, exact = law.jacobian, not isinstance(weight, ClassWeight)
    inverse = np.asarray(np.linalg.inv(slope), dtype=np.float64)
    if ratio is not None:
        factor = np.linalg.cholesky(slope)
        shift = (factor @ np.linalg.solve(ratio, np.linalg.solve(factor, shift[:, :, None])))[:, :, 0]
    score = law.score
    target = score + shift / count[:, None]
    point, start, open_ = theta.copy(), theta, np.arange(len(theta))
    for _ in range(ITERATIONS):
        step = np.asarray((inverse @ (target - score)[:, :, None])[:, :, 0])
        length = _length(step, law.rows)
        way = point[open_] - start + step * np.minimum(1.0, LONGEST / length)[:, None]
        way = start + way * np.minimum(1.0, FARTHEST / _length(way, law.rows))[:, None]
        moved, point[open_] = way - point[open_], way
        far = length >= SETTLED
        if not far.any():
            break
        open_, start, target = open_[far], start[far], target[far]
        law = law.at(point[open_], far)
        before, score = score[far], law.score
        if exact:
            inverse = np.asarray(np.linalg.inv(law.jacobian), dtype=np.float64)
            continue
        inverse, anew = corrected(inverse[far], moved[far], score - before), length[far] > CLOSE
        if anew.any():
            inverse[anew] = np.linalg.inv(law.at(law.theta[anew], anew).jacobian)
    law = of_all.at(point, np.ones(len(point), dtype=bool))
    return Solved(point=point, law=law, count=count, ratio=ratio)


def corrected(inverse: Array, moved: Array, change: Array) -> Array:
    """Inverse derivatives (B, n, n) that say of a step what it did [Broyden 1965]."""
    said = (inverse @ change[:, :, None])[:, :, 0]
    size = (moved * said).sum(1)
    # Where they were off by half, or there was no step, nothing is learned from it.
    usable = np.abs(size) > 0.5 * (moved * moved).sum(1)
    factor = np.where(usable, 1.0 / np.where(usable, size, 1.0), 0.0)
    along = (moved[:, None] @ inverse)[:, 0]
    return inverse + (factor[:, None] * (moved - said))[:, :, None] * along[:, None]


def _length(step: Array, rows: Rows) -> Array:
    """By how much a step (B, n) moves predictors: the largest root mean square of a cell (B,)."""
    parts = step.reshape(len(step), -1, rows.size)
    within = ((parts @ rows.covariance) * parts).sum(2)
    between = (parts @ rows.mean.transpose(0, 2, 1)) ** 2
    return np.asarray(np.sqrt(np.maximum((between + within[:, :, None]).max((1, 2)), 1e-300)))
