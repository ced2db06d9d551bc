# SPDX-License-Identifier: Apache-2.0
"""A released curvature matrix and the posterior density of what it was before noise was added.

The release is H~ = H + N, N symmetric with independent entries of known standard deviations: one on the
diagonal, one off it. H = count * E v z z' is written in the law of the rows (``curvature``, ``space``) at
the *released* parameters, where it was computed. The noise is taken as normal; the laws in
use (cube, symmetrised Wishart, Laplace) have these standard deviations, and entries whose joint tails are
lighter or a little heavier. Where the noise was added to the curvature of other rows u = C z, it is
C H C' that is compared (``frame``).

>>> import numpy as np
>>> from onedraw.inference.moments import MomentSpace
>>> from onedraw.inference.space import RowSpace
>>> from onedraw.inference.weight import LogisticWeight
>>> noisy = NoisyCurvature(
...     matrix=np.diag([250.0, 80.0])[None], diagonal_sd=np.array([5.0]), offdiagonal_sd=np.array([5.0]))
>>> density = CurvatureDensity(
...     space=RowSpace(plain=MomentSpace(dim=2, intercept=True, count_sd=0.1)), weight=LogisticWeight(),
...     theta=np.zeros((1, 2)), count=np.array([1000.0]), noisy=noisy)
>>> density(np.zeros((1, 4)))[0].shape
(1,)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onedraw.inference.classes import ClassWeight
from onedraw.inference.curvature import row_law
from onedraw.inference.space import RowSpace
from onedraw.inference.weight import Weight
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class NoisyCurvature:
    """A batch (B) of released matrices with the standard deviations of their noise."""

    matrix: Array  # (B, p, p), symmetric
    diagonal_sd: Array  # (B,)
    offdiagonal_sd: Array  # (B,)
    misfit: Array | None = None
    """Variances (B, p, p) by which the matrix may differ from its formula, beside the noise."""
    frame: Array | None = None
    """C (m, p), where the matrices (B, m, m) are those of rows C z."""

    @property
    def of_rows(self) -> Array:
        """The matrices (B, p, p) as those of the rows themselves."""
        if self.frame is None:
            return self.matrix
        back = np.linalg.pinv(self.frame)
        return np.asarray(back @ self.matrix @ back.T)

    def framed(self, curvature: Array) -> Array:
        """Curvatures (..., p, p) of the rows as the matrices show them."""
        return curvature if self.frame is None else np.asarray(self.frame @ curvature @ self.frame.T)

    def pullback(self, gradient: Array) -> Array:
        """From a gradient by ``framed`` curvatures to one by those of the rows."""
        return gradient if self.frame is None else np.asarray(self.frame.T @ gradient @ self.frame)

    def precision(self) -> Array:
        """The matrix (B, p, p) of weights with which squared deviations add up; a pair is counted twice."""
        p = self.matrix.shape[1]
        variance = np.empty_like(self.matrix)
        variance[:] = self.offdiagonal_sd[:, None, None] ** 2
        variance[:, np.arange(p), np.arange(p)] = self.diagonal_sd[:, None] ** 2
        if self.misfit is not None:
            variance += self.misfit
        out = 0.5 / variance
        out[:, np.arange(p), np.arange(p)] *= 2.0
        return np.asarray(out)


@dataclass(frozen=True, kw_only=True)
class CurvatureDensity:
    """The log posterior density of the free coordinates of the rows' law, batched over releases."""

    space: RowSpace
    weight: Weight | ClassWeight
    theta: Array  # (B, p), the released parameters
    count: Array  # (B,)
    noisy: NoisyCurvature

    def __call__(self, free: Array) -> tuple[Array, Array]:
        """The log density (B,) at (B, size), up to a constant, and its gradient (B, size)."""
        point = self.space.read(free)
        value, gradient = self.space.log_prior(free, point)
        law = row_law(self.weight, point.rows, self.theta)
        count = self.count * np.exp(point.log_count)
        curvature = self.noisy.framed(count[:, None, None] * law.curvature)
        gap = self.noisy.matrix - curvature
        pull = self._precision * gap
        value -= 0.5 * np.einsum("bij,bij->b", pull, gap)
        by_rows = law.pullback(count[:, None, None] * self.noisy.pullback(pull))
        by_count = np.einsum("bij,bij->b", pull, curvature)
        return value, gradient + self.space.pullback(point, by_rows, by_count)

    @cached_property
    def _precision(self) -> Array:
        return self.noisy.precision()
