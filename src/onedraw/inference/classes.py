# SPDX-License-Identifier: Apache-2.0
"""The curvature and the expected score of three or more classes, as functions of the moments of the rows.

With K classes a record has q = K - 1 predictors eta = theta z in orthonormal contrasts B (logits B eta), its
score is B'(pi - e_y) (x) z and its curvature V (x) z z', V = B'(diag pi - pi pi')B. Their means over normal
rows with second moments M have no closed form, so they are means over ``nodes``: z = F u, M = F F', with
fixed points u = (1, g) whose second moments are exactly the identity and whose odd moments vanish. What is
linear or quadratic in z alone is therefore exact; the rest is as accurate as ``NODES`` normal points are.

All K (K-1)/2 blocks of the curvature follow from one M. Rows that are not normal bend them apart: that is
``misfit``.

Everything is batched over the leading axis. Parameters are (q, p) row by row, the intercept first in each.

>>> import numpy as np
>>> law = class_row_law(ClassWeight(classes=3), np.eye(2)[None], np.zeros((1, 4)), intercept=True)
>>> law.curvature[0].diagonal().round(3).tolist()                       # 1/K at equal probabilities
[0.333, 0.333, 0.333, 0.333]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from onedraw._validate import whole
from onedraw.families.categorical import contrast_basis
from onedraw.types import Array

NODES = 256
PER_COLUMN = 8
"""Nodes at the least for every column of the rows."""


@dataclass(frozen=True, kw_only=True)
class ClassWeight:
    """The softmax of ``classes`` classes in sum-to-zero contrasts."""

    classes: int

    def __post_init__(self) -> None:
        whole(minimum=2, classes=self.classes)

    @property
    def predictors(self) -> int:
        return self.classes - 1


@dataclass(frozen=True, kw_only=True)
class ClassRowLaw:
    """A batch (B) of second-moment matrices (p, p) at parameters (q p,)."""

    classes: int
    moments: Array  # (B, p, p)
    theta: Array  # (B, q p)
    intercept: bool

    @property
    def curvature(self) -> Array:
        """E V (x) z z' (B, q p, q p)."""
        z, q = self._rows, self.classes - 1
        batch, size, p = z.shape
        out = np.empty((batch, q, p, q, p))
        for a in range(q):
            for b in range(a, q):
                weighted = z * (self._variance(a, b) / size)[:, :, None]
                out[:, a, :, b] = out[:, b, :, a] = weighted.transpose(0, 2, 1) @ z
        return out.reshape(batch, q * p, q * p)

    @property
    def score(self) -> Array:
        """E B' pi (x) z (B, q p)."""
        z = self._rows
        return np.asarray(self._means.transpose(0, 2, 1) @ z / z.shape[1]).reshape(len(z), -1)

    def pullback(self, gradient: Array) -> Array:
        """The symmetric d l/d M (B, p, p) from the symmetric d l/d curvature (B, q p, q p).

        By a node: dl = sum_ab (dV_ab z'G_ab z + 2 V_ab z'G_ab dz). With W = B (z'G_ab z)_ab B', the gradient
        of tr W (diag pi - pi pi') in the logits is pi (diag W - pi.diag W) - 2 pi (W pi - pi'W pi). From the
        rows to F it is a sum over nodes, and from F = chol M the reverse of a Cholesky factorisation.
        """
        z, q, pi = self._rows, self.classes - 1, self._probabilities
        batch, size, p = z.shape
        blocks = gradient.reshape(batch, q, p, q, p).transpose(0, 2, 1, 3, 4).reshape(batch, p, -1)
        turned = (z @ blocks).reshape(batch, size, q, q, p)
        squares = np.einsum("bnxyi,bni->bnxy", turned, z)
        by_rows = np.zeros_like(z)
        for a in range(q):
            for b in range(q):
                by_rows += 2.0 * self._variance(a, b)[:, :, None] * turned[:, :, a, b]
        basis = contrast_basis(self.classes)
        lifted = basis @ squares @ basis.T
        own = np.diagonal(lifted, axis1=2, axis2=3)
        mixed = (lifted @ pi[:, :, :, None])[:, :, :, 0]
        by_logits = own - (pi * own).sum(2, keepdims=True)
        by_logits = pi * (by_logits - 2.0 * (mixed - (pi * mixed).sum(2, keepdims=True)))
        by_rows += by_logits @ basis @ self.theta.reshape(batch, q, p)
        by_factor = by_rows.transpose(0, 2, 1) @ nodes(p, self.intercept) / size
        inner = np.tril(self._factor.transpose(0, 2, 1) @ by_factor)
        inner[:, np.arange(p), np.arange(p)] *= 0.5
        inverse = np.linalg.inv(self._factor)
        out = inverse.transpose(0, 2, 1) @ inner @ inverse
        return np.asarray(0.5 * (out + out.transpose(0, 2, 1)))

    @cached_property
    def _factor(self) -> Array:
        try:
            return np.asarray(np.linalg.cholesky(self.moments), dtype=np.float64)
        except np.linalg.LinAlgError:  # a diverging proposal of the sampler is nan, and rejected for it
            return np.stack([_factor_or_nan(moments) for moments in self.moments])

    @cached_property
    def _rows(self) -> Array:
        """(B, nodes, p)."""
        return nodes(self.moments.shape[1], self.intercept) @ self._factor.transpose(0, 2, 1)

    @cached_property
    def _probabilities(self) -> Array:
        """(B, nodes, K)."""
        batch, p = len(self.moments), self.moments.shape[1]
        logits = contrast_basis(self.classes) @ self.theta.reshape(batch, -1, p)
        values = self._rows @ logits.transpose(0, 2, 1)
        values -= values.max(axis=2, keepdims=True)
        np.exp(values, out=values)
        return np.asarray(values / values.sum(axis=2, keepdims=True))

    @cached_property
    def _means(self) -> Array:
        """(B, nodes, q): pi in contrasts."""
        return np.asarray(self._probabilities @ contrast_basis(self.classes))

    def _variance(self, a: int, b: int) -> Array:
        """V_ab (B, nodes)."""
        basis = contrast_basis(self.classes)
        return np.asarray(
            self._probabilities @ (basis[:, a] * basis[:, b]) - self._means[:, :, a] * self._means[:, :, b]
        )


def _factor_or_nan(moments: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(moments), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.full_like(moments, np.nan)


def class_row_law(weight: ClassWeight, moments: Array, theta: Array, *, intercept: bool) -> ClassRowLaw:
    """The law of rows with ``moments`` (B, p, p) at ``theta`` (B, q p), as ``curvature.row_law``."""
    return ClassRowLaw(classes=weight.classes, moments=moments, theta=theta, intercept=intercept)


@lru_cache(maxsize=16)
def nodes(size: int, intercept: bool) -> Array:
    """Fixed points (N, size) with second moments I: normal ones and their mirror images; the first is 1."""
    free = size - int(intercept)
    count = max(NODES, PER_COLUMN * size)
    points = np.random.default_rng(0).standard_normal((count // 2, free))
    if free:
        factor = np.linalg.cholesky(points.T @ points / (count // 2))
        points = np.linalg.solve(factor, points.T).T
    points = np.concatenate([points, -points])
    return np.column_stack([np.ones(len(points)), points]) if intercept else points
