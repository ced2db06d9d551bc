# SPDX-License-Identifier: Apache-2.0
"""The curvature and the expected score of three or more classes, as functions of the moments of the rows.

With K classes a record has q = K - 1 predictors eta = theta z in orthonormal contrasts B (logits B eta). Let
V = B'(diag pi - pi pi')B. The released curvature is that of the log loss, V (x) z z': Fisher's information.
With c times Brier's score in the loss (``tilted.softmax_loss``) a record's score is (1 + c V) B'(pi - e_y)
(x) z. Where pi are those of a fit and the truth has others, pi*, its mean is (1 + c V) B'(pi - pi*) (x) z,
and near pi* = pi it changes by (V + c V^2) (x) z z' with the true parameters: ``jacobian``.

Means over rows that are normal in every cell (``rows``) have no closed form, so they are means over
``nodes``: z = m + F g, Sigma = F F', with fixed points g whose second moments are exactly the identity and
whose odd moments vanish. What is linear or quadratic in z alone is therefore exact; the rest is as accurate
as ``NODES`` normal points are.

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

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import optimize, special

from onedraw._validate import whole
from onedraw.families.categorical import contrast_basis
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
        return np.concatenate([block.curvature(block.variance) for block in self._blocks])

    @property
    def jacobian(self) -> Array:
        """E (V + c V^2) (x) z z' (B, q p, q p)."""
        return np.concatenate([block.curvature(block.steeper) for block in self._blocks])

    @property
    def score(self) -> Array:
        """E (1 + c V) B' pi (x) z (B, q p), V at the parameters of the fit and pi at ``theta``."""
        return np.concatenate([block.score() for block in self._blocks])

    def pullback(self, gradient: Array) -> RowsGradient:
        """The derivatives by the law of the rows from the symmetric d l/d curvature (B, q p, q p).

        From rows at the nodes to m and F they are sums over nodes, and from F = chol Sigma the reverse of a
        Cholesky factorisation.
        """
        cells, free = self.rows.weight.shape[1], self.rows.free
        blocks = zip(self._blocks, _slices(len(gradient)), strict=True)
        parts = [block.by_nodes(gradient[rows]) for block, rows in blocks]
        by_rows, by_weight = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        batch, p, _ = by_rows.shape
        by_cells = by_rows.reshape(batch, p, cells, -1)
        covariance = np.zeros((batch, p, p))
        covariance[:, free, free] = self._by_covariance(by_cells[:, free].sum(2) @ self._points)
        return RowsGradient(
            weight=by_weight.reshape(batch, cells, -1).mean(2),
            mean=by_cells.sum(3).transpose(0, 2, 1),
            covariance=covariance,
        )

    def _by_covariance(self, by_factor: Array) -> Array:
        diagonal = np.arange(by_factor.shape[1])
        inner = np.tril(self._factor.transpose(0, 2, 1) @ by_factor)
        inner[:, diagonal, diagonal] *= 0.5
        inverse = _or_nan(np.linalg.inv, self._factor)
        out = inverse.transpose(0, 2, 1) @ inner @ inverse
        return np.asarray(0.5 * (out + out.transpose(0, 2, 1)))

    @cached_property
    def _factor(self) -> Array:
        """Of the free columns (B, f, f)."""
        return _or_nan(np.linalg.cholesky, self.rows.covariance[:, self.rows.free, self.rows.free])

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
    """What ``ClassRowLaw`` needs at every node, for few enough of a batch that it fits a processor's cache.

    Nodes come last in every array. V is symmetric, so its entries are those of the pairs a <= b.
    """

    weight: ClassWeight
    rows: Array  # (b, p, N)
    mass: Array  # (b, N)
    theta: Array  # (b, q, p)
    fitted: Array  # (b, q, p)

    def curvature(self, variance: Array) -> Array:
        z, q, variance = self.rows, self.weight.predictors, variance * self.mass[:, None]
        batch, p, _ = z.shape
        out, across = np.empty((batch, q, p, q, p)), z.transpose(0, 2, 1)
        for k, (a, b) in enumerate(self._pairs):
            out[:, a, :, b] = out[:, b, :, a] = (z * variance[:, k : k + 1]) @ across
        return out.reshape(batch, q * p, q * p)

    def score(self) -> Array:
        scored = self._probabilities
        if self.weight.brier:
            fitted = self._at(self.fitted)
            scored = scored + self.weight.brier * fitted * (scored - (fitted * scored).sum(1, keepdims=True))
        found = (self._basis.T @ scored * self.mass[:, None]) @ self.rows.transpose(0, 2, 1)
        return np.asarray(found).reshape(len(found), -1)

    def by_nodes(self, gradient: Array) -> tuple[Array, Array]:
        """d l/d z (b, p, N) and d l/d mass (b, N).

        With S_ab = G_ab + G_ba (G_aa alone on the diagonal) a node of mass 1 adds dl = sum over pairs of
        dV_ab z'S_ab z + 2 V_ab z'S_ab dz, and V_ab = pi.(B_a B_b) - (pi.B_a)(pi.B_b).
        """
        z, pi, means, variance = self.rows, self._probabilities, self._means, self.variance
        batch, p, _ = z.shape
        basis, blocks = self._basis, gradient.reshape(batch, -1, p, self.weight.predictors, p)
        by_rows, squares, by_means = np.zeros_like(z), np.empty_like(variance), np.zeros_like(means)
        for k, (a, b) in enumerate(self._pairs):
            part = blocks[:, a, :, b]
            turned = (part if a == b else part + part.transpose(0, 2, 1)) @ z
            squares[:, k] = (turned * z).sum(1)
            by_rows += 2.0 * variance[:, k : k + 1] * turned
            by_means[:, a] -= squares[:, k] * means[:, b]
            by_means[:, b] -= squares[:, k] * means[:, a]
        by_probability = self._products.T @ squares + basis @ by_means
        by_logits = pi * (by_probability - (pi * by_probability).sum(1, keepdims=True))
        by_rows += (basis @ self.theta).transpose(0, 2, 1) @ by_logits
        return self.mass[:, None] * by_rows, (variance * squares).sum(1)

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        q = self.weight.predictors
        return [(a, b) for a in range(q) for b in range(a, q)]

    @property
    def _basis(self) -> Array:
        return contrast_basis(self.weight.classes)

    @property
    def _products(self) -> Array:
        """B_a B_b of all pairs (pairs, K)."""
        return np.stack([self._basis[:, a] * self._basis[:, b] for a, b in self._pairs])

    @cached_property
    def _probabilities(self) -> Array:
        return self._at(self.theta)

    def _at(self, theta: Array) -> Array:
        """Probabilities (b, K, N)."""
        values = (self._basis @ theta) @ self.rows
        values -= values.max(axis=1, keepdims=True)
        np.exp(values, out=values)
        values /= values.sum(axis=1, keepdims=True)
        return np.asarray(values)

    @cached_property
    def _means(self) -> Array:
        """(b, q, N): pi in contrasts."""
        return np.asarray(self._basis.T @ self._probabilities)

    @property
    def steeper(self) -> Array:
        """V + c V^2 of all pairs (b, pairs, N)."""
        out, place = self.variance.copy(), {pair: k for k, pair in enumerate(self._pairs)}
        for k, (a, b) in enumerate(self._pairs):
            for e in range(self.weight.predictors if self.weight.brier else 0):
                first, second = place[min(a, e), max(a, e)], place[min(e, b), max(e, b)]
                out[:, k] += self.weight.brier * self.variance[:, first] * self.variance[:, second]
        return out

    @cached_property
    def variance(self) -> Array:
        """V_ab of all pairs (b, pairs, N)."""
        out = self._products @ self._probabilities
        for k, (a, b) in enumerate(self._pairs):
            out[:, k] -= self._means[:, a] * self._means[:, b]
        return np.asarray(out)


def _or_nan(function: Callable[..., Any], matrices: Array) -> Array:
    """A function of every matrix; nan where it has none: a diverging proposal, which is rejected for it."""
    try:
        return np.asarray(function(matrices), dtype=np.float64)
    except np.linalg.LinAlgError:
        out = np.full_like(matrices, np.nan)
        for each, matrix in zip(out, matrices, strict=True):
            with suppress(np.linalg.LinAlgError):
                each[:] = function(matrix)
        return out


def class_row_law(
    weight: ClassWeight, rows: Rows, theta: Array, fitted: Array | None = None
) -> ClassRowLaw:
    """The law of ``rows`` at ``theta`` (B, q p), as ``curvature.row_law``."""
    return ClassRowLaw(weight=weight, rows=rows, theta=theta, fitted=theta if fitted is None else fitted)


@lru_cache(maxsize=16)
def nodes(free: int, count: int) -> Array:
    """Fixed points (N, free) with second moments I: normal ones and their mirror images; one where none vary.

    There are ``count`` of them, or more if so many columns need them. They are normal quantiles of multiples
    of the powers of 1/g, g^(free + 1) = g + 1, modulo 1 [Roberts 2018], which lie more evenly than random
    ones: with 256 of them errors are a tenth at one column, a third at two, nine tenths at ten.
    """
    if not free:
        return np.zeros((1, 0))
    half = max(count // 2, 2 * free)
    golden = optimize.brentq(lambda g: g ** (free + 1) - g - 1.0, 1.0, 2.0, xtol=1e-15)
    powers = golden ** -np.arange(1.0, free + 1.0)
    points = special.ndtri((0.5 + np.outer(np.arange(1, half + 1), powers)) % 1.0)
    points = np.linalg.solve(np.linalg.cholesky(points.T @ points / half), points.T).T
    return np.concatenate([points, -points])
