# SPDX-License-Identifier: Apache-2.0
"""Fisher's information of three or more classes, E V (x) z z', by what rows show of it: their predictors.

V = B'(diag pi - pi pi')B is a function of the q = K - 1 predictors eta = theta z alone. In a cell of the law
of rows (``rows``), z ~ N(m, Sigma), they are a + L h with a = theta m, L L' = S = theta Sigma theta' and
standard normal h, and z given h has the mean m + U h, U = Sigma theta' L^-T, and the covariance Sigma - U U'.
So with the means v0, v1, v2 of V, V h and V h h' over h, a few numbers whatever the number of columns,

    E V (x) z z' = v0 (x) (Sigma - U U' + m m') + v1 (x) (m U' + U m') + U v2 U'       (block by block).

Means over h are those of ``nodes.rule``. Where no more columns vary than there are predictors, h are those
columns themselves: U = F, Sigma = F F'.

``pullback`` is the reverse mode by hand, as in ``curvature``.

>>> import numpy as np
>>> rows = Rows.of_moments(np.eye(2)[None], intercept=True)
>>> law = Information(classes=3, rows=rows, theta=np.zeros((1, 4)))
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

from onedraw.families.categorical import contrast_basis
from onedraw.inference.nodes import rule
from onedraw.inference.rows import Rows, RowsGradient
from onedraw.types import Array

LEAST_SPREAD = 1e-10
"""Of predictors, relative to their variance and by itself: some of them may not vary, or vary alike."""


@dataclass(frozen=True, kw_only=True)
class Information:
    """A batch (B) of laws of rows at parameters (q p,). Pairs are those a <= b of predictors, or of h."""

    classes: int
    rows: Rows
    theta: Array  # (B, q p)

    @property
    def curvature(self) -> Array:
        """E V (x) z z' (B, q p, q p)."""
        return self._blocks(self._means)

    def steeper(self, brier: float) -> Array:
        """E (V + c V^2) (x) z z' (B, q p, q p), c = ``brier``."""
        if not brier:
            return self.curvature
        q, variance = self.classes - 1, self._variance
        out, place = variance.copy(), {pair: k for k, pair in enumerate(pairs(q))}
        for k, (a, b) in enumerate(pairs(q)):
            for e in range(q):
                first, second = place[min(a, e), max(a, e)], place[min(e, b), max(e, b)]
                out[:, :, k] += brier * variance[:, :, first] * variance[:, :, second]
        return self._blocks(self._by_power(self._summed(out)))

    def _blocks(self, means: tuple[Array, Array, Array]) -> Array:
        """The formula above (B, q p, q p), from v0, v1 and v2."""
        q, mean, along, within = self.classes - 1, self.rows.mean, self._along, self._within
        batch, _, p = mean.shape
        out = np.empty((batch, q, p, q, p))
        for k, (a, b) in enumerate(pairs(q)):
            v0, v1, v2 = (part[:, :, k] for part in means)  # (B, C), (B, C, r), (B, C, r, r)
            cross = along @ (v1.transpose(0, 2, 1) @ mean)
            block = v0.sum(1)[:, None, None] * within + (v0[:, :, None] * mean).transpose(0, 2, 1) @ mean
            block += cross + cross.transpose(0, 2, 1) + along @ v2.sum(1) @ along.transpose(0, 2, 1)
            out[:, a, :, b] = out[:, b, :, a] = block
        return out.reshape(batch, q * p, q * p)

    def pullback(self, gradient: Array) -> RowsGradient:
        """The derivatives by the law of the rows from the symmetric d l/d curvature (B, q p, q p).

        A pair adds <G, v0 (Sigma - U U' + m m') + ...>, G twice its block off the diagonal: linear in V at
        every node, with the coefficients c0 + c1.h + h' c2 h.
        """
        q, mean, along, within = self.classes - 1, self.rows.mean, self._along, self._within
        batch, _, p = mean.shape
        size, blocks = along.shape[2], gradient.reshape(batch, q, p, q, p)
        linear = np.empty_like(self._moments)
        by_mean, by_along, by_within = np.zeros_like(mean), np.zeros_like(along), np.zeros((batch, p, p))
        for k, (a, b) in enumerate(pairs(q)):
            block = blocks[:, a, :, b]
            block = block if a == b else block + block.transpose(0, 2, 1)
            v0, v1, v2 = (part[:, :, k] for part in self._means)
            turned = mean @ block  # (B, C, p)
            inner = along.transpose(0, 2, 1) @ block  # (B, r, p)
            linear[:, :, k, 0] = (block * within).sum((1, 2))[:, None] + (turned * mean).sum(2)
            linear[:, :, k, 1 : 1 + size] = 2.0 * turned @ along
            linear[:, :, k, 1 + size :] = _folded(inner @ along)[:, None]
            by_mean += 2.0 * (v0[:, :, None] * turned + v1 @ inner)
            by_along += 2.0 * (turned.transpose(0, 2, 1) @ v1 + inner.transpose(0, 2, 1) @ v2.sum(1))
            by_within += v0.sum(1)[:, None, None] * block
        by_along -= 2.0 * by_within @ along
        by_centre, by_spread = self._by_predictors(self.rows.weight[:, :, None, None] * linear)
        by_covariance = by_within + self._by_covariance(by_along, by_spread)
        free, covariance = self.rows.free, np.zeros_like(by_within)
        covariance[:, free, free] = by_covariance[:, free, free]
        return RowsGradient(
            weight=(linear * self._moments).sum((2, 3)),
            mean=by_mean + by_centre @ self._theta,
            covariance=covariance,
        )

    # -- the predictors

    @cached_property
    def _theta(self) -> Array:
        return self.theta.reshape(len(self.theta), self.classes - 1, -1)

    @property
    def _by_columns(self) -> bool:
        """Whether h are the columns themselves."""
        free = self.rows.free
        return len(range(*free.indices(self.rows.size))) < self.classes

    @cached_property
    def _factor(self) -> Array:
        """The Cholesky factor of Sigma's free part (B, f, f), or of S (B, q, q)."""
        if self._by_columns:
            return or_nan(np.linalg.cholesky, self.rows.covariance[:, self.rows.free, self.rows.free])
        spread = self._theta @ self.rows.covariance @ self._theta.transpose(0, 2, 1)
        q = self.classes - 1
        least = LEAST_SPREAD * (1.0 + np.trace(spread, axis1=1, axis2=2))
        spread[:, np.arange(q), np.arange(q)] += least[:, None]
        return or_nan(np.linalg.cholesky, spread)

    @cached_property
    def _inverse(self) -> Array:
        return or_nan(np.linalg.inv, self._factor)

    @cached_property
    def _along(self) -> Array:
        """U (B, p, r)."""
        if not self._by_columns:
            return np.asarray(self._inverse @ (self._theta @ self.rows.covariance)).transpose(0, 2, 1)
        out = np.zeros((len(self.theta), self.rows.size, self._factor.shape[1]))
        out[:, self.rows.free] = self._factor
        return out

    @cached_property
    def _within(self) -> Array:
        """Sigma - U U' (B, p, p)."""
        return np.asarray(self.rows.covariance - self._along @ self._along.transpose(0, 2, 1))

    @cached_property
    def _spread(self) -> Array:
        """L (B, q, r)."""
        return self._theta @ self._along if self._by_columns else self._factor

    def _by_covariance(self, by_along: Array, by_spread: Array) -> Array:
        """From the derivatives by U (B, p, r) and L (B, q, r) to that by Sigma (B, p, p)."""
        if self._by_columns:
            by_factor = (by_along + self._theta.transpose(0, 2, 1) @ by_spread)[:, self.rows.free]
            out = np.zeros_like(self.rows.covariance)
            out[:, self.rows.free, self.rows.free] = self._by_factored(by_factor)
            return out
        inverse, theta = self._inverse, self._theta
        # U = Sigma theta' L^-T: dU = dSigma theta' L^-T - U dL' L^-T
        by_turned = by_along @ inverse
        by_factor = by_spread - inverse.transpose(0, 2, 1) @ by_along.transpose(0, 2, 1) @ self._along
        half = 0.5 * by_turned @ theta
        through = theta.transpose(0, 2, 1) @ self._by_factored(by_factor) @ theta
        return np.asarray(half + half.transpose(0, 2, 1) + through)

    def _by_factored(self, gradient: Array) -> Array:
        """The derivative by the matrix that was factored, symmetric, from that by its Cholesky factor."""
        diagonal = np.arange(gradient.shape[1])
        inner = np.tril(self._factor.transpose(0, 2, 1) @ gradient)
        inner[:, diagonal, diagonal] *= 0.5
        out = self._inverse.transpose(0, 2, 1) @ inner @ self._inverse
        return np.asarray(0.5 * (out + out.transpose(0, 2, 1)))

    # -- means over the nodes

    @cached_property
    def _probabilities(self) -> Array:
        """(B, C, K, N)."""
        size, basis = self._factor.shape[1], contrast_basis(self.classes)
        centre = self.rows.mean @ (basis @ self._theta).transpose(0, 2, 1)  # (B, C, K)
        values = (basis @ self._spread)[:, None] @ monomials(size)[0][1 : 1 + size] + centre[:, :, :, None]
        return to_probabilities(values, axis=2)

    @cached_property
    def _in_contrasts(self) -> Array:
        """(B, C, q, N)."""
        return np.asarray(contrast_basis(self.classes).T @ self._probabilities)

    @cached_property
    def _variance(self) -> Array:
        """V_ab (B, C, pairs, N)."""
        means, out = self._in_contrasts, products(self.classes) @ self._probabilities
        for k, (a, b) in enumerate(pairs(self.classes - 1)):
            out[:, :, k] -= means[:, :, a] * means[:, :, b]
        return np.asarray(out)

    @cached_property
    def _moments(self) -> Array:
        """Means of V_ab times the monomials (B, C, pairs, M)."""
        return self._summed(self._variance)

    @cached_property
    def _means(self) -> tuple[Array, Array, Array]:
        return self._by_power(self._moments)

    def _summed(self, values: Array) -> Array:
        """Means of values (..., N) times the monomials (..., M)."""
        return np.asarray(values @ monomials(self._factor.shape[1])[1].T)

    def _by_power(self, moments: Array) -> tuple[Array, Array, Array]:
        """v0 (B, C, pairs), v1 (..., r) and v2 (..., r, r), times the weights of the cells."""
        size = self._factor.shape[1]
        weighted = self.rows.weight[:, :, None, None] * moments
        second = np.empty((*weighted.shape[:3], size, size))
        for k, (i, j) in enumerate(pairs(size)):
            second[..., i, j] = second[..., j, i] = weighted[..., 1 + size + k]
        return weighted[..., 0], weighted[..., 1 : 1 + size], second

    def _by_predictors(self, linear: Array) -> tuple[Array, Array]:
        """The derivatives by a (B, C, q) and L (B, q, r), from coefficients of monomials (B, C, pairs, M)."""
        size = self._factor.shape[1]
        plain, weighted = monomials(size)
        basis, pi, means = contrast_basis(self.classes), self._probabilities, self._in_contrasts
        by_variance = linear @ weighted  # (B, C, pairs, N)
        by_means = np.zeros_like(means)
        for k, (a, b) in enumerate(pairs(self.classes - 1)):
            by_means[:, :, a] -= by_variance[:, :, k] * means[:, :, b]
            by_means[:, :, b] -= by_variance[:, :, k] * means[:, :, a]
        by_pi = products(self.classes).T @ by_variance + basis @ by_means
        by_pi -= (pi * by_pi).sum(axis=2, keepdims=True)
        by_pi *= pi
        by_eta = basis.T @ by_pi  # (B, C, q, N)
        return by_eta.sum(3), (by_eta @ plain[1 : 1 + size].T).sum(1)


def pairs(size: int) -> list[tuple[int, int]]:
    """All (a, b) with a <= b < ``size``."""
    return [(a, b) for a in range(size) for b in range(a, size)]


def _folded(square: Array) -> Array:
    """The coefficients of h_i h_j, i <= j, of h' c h for c (B, r, r): (B, pairs)."""
    both = square + square.transpose(0, 2, 1)
    rows, columns = np.triu_indices(square.shape[1])
    return np.asarray(np.where(rows == columns, 0.5, 1.0) * both[:, rows, columns])


@lru_cache(maxsize=16)
def products(classes: int) -> Array:
    """B_a B_b of all pairs (pairs, K)."""
    basis = contrast_basis(classes)
    return np.stack([basis[:, a] * basis[:, b] for a, b in pairs(classes - 1)])


@lru_cache(maxsize=16)
def monomials(dim: int) -> tuple[Array, Array]:
    """1, h, h_i h_j (i <= j) at the nodes of ``rule`` (M, N), and the same times their masses."""
    points, masses = rule(dim)
    squares = [points[:, i] * points[:, j] for i, j in pairs(dim)]
    values = np.stack([np.ones(len(points)), *points.T, *squares])
    return values, masses * values


def to_probabilities(logits: Array, axis: int) -> Array:
    """Their softmax, in their own memory."""
    logits -= logits.max(axis=axis, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=axis, keepdims=True)
    return logits


def or_nan(function: Callable[..., Any], matrices: Array) -> Array:
    """A function of every matrix; nan where it has none: a diverging proposal, which is rejected for it."""
    try:
        return np.asarray(function(matrices), dtype=np.float64)
    except np.linalg.LinAlgError:
        out = np.full_like(matrices, np.nan)
        for each, matrix in zip(out, matrices, strict=True):
            with suppress(np.linalg.LinAlgError):
                each[:] = function(matrix)
        return out
