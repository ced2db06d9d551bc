# SPDX-License-Identifier: Apache-2.0
"""The records as a posterior reads them, and the sums that it needs of them.

``Designing`` turns a block of features and responses into a design with an intercept; a ``Terms`` says what
some of its rows add to sums of losses, slopes or curvatures; ``InCache`` is the kernel that walks over a
block in pieces that stay in cache, and over a large one on all cores (on a worker of a cluster, on its own).
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from onedraw.families.base import Derivatives
from onedraw.losses.base import Loss
from onedraw.tables.base import Block, PairwiseSum, Rows, Sums, on_one_thread
from onedraw.types import Array

Terms = Callable[[Array, Array], Sums]
"""Maps responses (rows, 1) and design (rows, size) to sums; frozen, without records, to be pickled."""
BLOCK_CELLS = 1 << 15
"""Rows times columns of a block: 256 KiB of doubles, so that elementwise passes stay in cache."""
PARALLEL_CELLS = 1 << 17
SPANS = 8
UNIT = 2.0**-53
ALL_ZERO: Array = np.zeros((1, 1))


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """Threads for elementwise NumPy work, which releases the interpreter's lock."""
    return ThreadPoolExecutor(max_workers=min(SPANS, os.cpu_count() or 1), thread_name_prefix="onedraw")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child that used its parent's pool would wait for ever.
    os.register_at_fork(after_in_child=_workers.cache_clear)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Observed(Block):
    """Features (n, d) and response (n,) as they are; ``Records`` are such a block that was checked."""

    features: Array
    response: Array

    def __len__(self) -> int:
        return len(self.response)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.response), int(self.features.shape[1])

    def take(self, rows: Rows) -> Observed:
        return Observed(features=self.features[rows], response=self.response[rows])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Design(Block):
    """Design (n, size), each column contiguous so that sums run along records, and response (n, 1).

    Where the family is symmetric, (0, x) or (0, -x) stands for each record (y, x), and one 0 for all
    responses.
    """

    design: Array
    response: Array

    def __len__(self) -> int:
        return len(self.design)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.design), int(self.design.shape[1])

    def take(self, rows: Rows) -> Design:
        y, design = self.rows(rows)
        return Design(design=design, response=y)

    def rows(self, rows: Rows) -> tuple[Array, Array]:
        """Responses and design of some records."""
        # One response stands for all: ``ALL_ZERO``, or a copy that came from another process.
        y = self.response if len(self.response) == 1 else self.response[rows]
        return y, self.design[rows] if isinstance(rows, slice) else self._by_record[rows]

    @functools.cached_property
    def _by_record(self) -> Array:
        """The design with each record contiguous: a few records at random places are then read at once."""
        return np.ascontiguousarray(self.design)


@dataclass(frozen=True, kw_only=True)
class Designing:
    """From features and response to a ``Design``, with ones for an intercept."""

    loss: Loss
    fit_intercept: bool

    def __call__(self, block: Any) -> Design:
        n, d = block.shape
        design = np.empty((d + int(self.fit_intercept), n)).T
        design[:, :d] = block.features
        design[:, d:] = 1.0
        signs = self.loss.family.signs(block.response)
        if signs is None:
            return Design(design=design, response=block.response[:, None])
        design *= signs[:, None]
        return Design(design=design, response=ALL_ZERO)


@dataclass(frozen=True, kw_only=True)
class InCache:
    """The kernel that adds up ``terms`` over cache-sized pieces of a block, large sums on all cores.

    ``columns`` is the room that a row takes. The pieces and the order of summation depend only on the shapes,
    so a seed gives the same draw on any number of cores.

    Guarantee:
        A sum over n records is within ``summation_error`` of the exact sum of what was added, relative to the
        sum of absolute values, wherever the records lie.
    """

    terms: Terms
    columns: int

    def __call__(self, block: Design) -> Sums:
        n, rows = len(block), rows_of_a_piece(self.columns)

        def span(start: int, stop: int) -> Sums:
            total = PairwiseSum()
            for first in range(start, max(stop, start + 1), rows):
                total.add(self.terms(*block.rows(slice(first, min(first + rows, stop)))))
            return total.result()

        if n * self.columns < PARALLEL_CELLS:
            return span(0, n)
        edges = np.linspace(0, n, SPANS + 1).astype(int).tolist()
        each = map if on_one_thread() else _workers().map
        parts = list(each(span, edges[:-1], edges[1:]))
        return tuple(sum(pieces[1:], start=pieces[0]) for pieces in zip(*parts, strict=True))


def rows_of_a_piece(columns: int) -> int:
    """How many rows are added in one go, where a row takes ``columns`` cells."""
    return max(64, BLOCK_CELLS // columns)


def summation_error(num_records: int, columns: int) -> float:
    """By how much a sum of ``InCache`` may be wrong, relative to the sum of the sizes of its terms.

    *Proof.* Where a term takes part in at most D additions, the computed sum is the exact one of terms times
    1 + t, |t| <= D v/(1 - D v), with v = 2^-53 the unit roundoff [Higham 2002, section 4.2]. A piece of r
    rows is added in some order: at most r - 1 additions (a product with a matrix rounds once more). Pieces
    of a span and blocks of a table are added in pairs (``PairwiseSum``): at most ceil(log2 n) additions each,
    as there are no more pieces or blocks with records than records. ``SPANS`` - 1 additions join the spans.
    So D <= r + 2 ceil(log2 n) + SPANS, which grows with the logarithm of n. The error of a sum of terms of
    size 1 grows as n log n, where in one row it would grow as n^2. []
    """
    doublings = math.ceil(math.log2(max(1, num_records)))
    additions = rows_of_a_piece(columns) + 2 * doublings + SPANS
    return additions * UNIT / (1.0 - additions * UNIT)


# -- what some rows add


@dataclass(frozen=True, kw_only=True)
class _AtParameters:
    """The loss at parameters (m, q, size), predictor by predictor, and scales (1, m) or None."""

    loss: Loss
    beta: float
    stacked: Array
    scale: Array | None


class Losses(_AtParameters):
    """The losses (m,)."""

    def __call__(self, y: Array, design: Array) -> Sums:
        return (self.each(y, design).sum(axis=0),)

    def each(self, y: Array, design: Array) -> Array:
        """Those (rows, m) of each record."""
        eta = _predictors(design, self.stacked)
        return np.asarray(self.loss.value(y, eta, self.beta, self.scale))


class Slopes(_AtParameters):
    """The losses, their stacked gradients (m, q size) and their derivatives in the scale (m,)."""

    def __call__(self, y: Array, design: Array) -> Sums:
        eta = _predictors(design, self.stacked)
        loss = self.loss.derivatives(y, eta, self.beta, self.scale, order=1)
        return _gradient_pieces(design, loss, self.stacked.shape[1])


@dataclass(frozen=True, kw_only=True)
class Curvatures(_AtParameters):
    """As ``Slopes``, and the curvature, at one parameter; averaged over the normal law of ``root``."""

    root: Array | None

    def __call__(self, y: Array, design: Array) -> Sums:
        q, eta = self.stacked.shape[1], _predictors(design, self.stacked)
        nodes = [(0.0, 1.0)] if self.root is None else _nodes(design, self.root)
        losses = [self.loss.derivatives(y, eta + shift, self.beta, self.scale, order=2) for shift, _ in nodes]
        loss = losses[0] if len(losses) == 1 else _average(losses, [weight for _, weight in nodes])
        if self.loss.family.has_kinks and len(losses) == 3:
            # Stein's lemma: the average curvature from slopes on both sides, between which kinks count.
            loss = replace(loss, d2_eta=(losses[2].d_eta - losses[0].d_eta) / (2.0 * nodes[2][0]))
        return _gradient_pieces(design, loss, q) + _curvature_pieces(design, loss, q)


def _predictors(design: Array, stacked: Array) -> Array:
    """The linear predictors: (rows, m), or (q, rows, m) for families with several."""
    m, q, size = stacked.shape
    eta = stacked.reshape(m * q, size) @ design.T
    # Records run along contiguous memory: elementwise loops are long, however few parameters there are.
    return eta.T if q == 1 else eta.reshape(m, q, -1).transpose(1, 2, 0)


def _gradient_pieces(design: Array, loss: Derivatives, q: int) -> tuple[Array, ...]:
    """The loss (m,), its stacked gradient (m, q size) and its derivative in the scale (m,)."""
    total = loss.value.sum(axis=0)
    d_eta = loss.d_eta.reshape(q, len(design), len(total))
    slope = np.concatenate([part.T @ design for part in d_eta], axis=1)
    return total, slope, total if loss.d_scale is None else loss.d_scale.sum(axis=0)


def _curvature_pieces(design: Array, loss: Derivatives, q: int) -> tuple[Array, ...]:
    """Of one parameter vector: the stacked curvature, and the scale's cross terms and curvature."""
    size = design.shape[1]
    assert loss.d2_eta is not None
    d2_eta = loss.d2_eta.reshape(q, q, -1)
    curvature = np.empty((q, size, q, size))
    for j in range(q):
        for k in range(j, q):
            curvature[j, :, k, :] = (design.T * d2_eta[j, k]) @ design
            curvature[k, :, j, :] = curvature[j, :, k, :].T
    cross, d2_scale = np.zeros(q * size), np.zeros(1)
    if loss.d_eta_scale is not None and loss.d2_scale is not None:
        cross, d2_scale = loss.d_eta_scale.reshape(-1) @ design, loss.d2_scale.sum(axis=0)
    return curvature.reshape(q * size, q * size), cross, d2_scale


def _nodes(design: Array, root: Array) -> list[tuple[Any, float]]:
    """Shifts of the linear predictors, and weights, that average over the normal law of ``root``.

    Three Gauss-Hermite nodes for one predictor. For several, the 2 q points sqrt(q) from the centre along the
    axes of each record's covariance, exact for cubic functions.
    """
    q, white = len(root), [design @ part for part in root]
    if q == 1:
        spread = np.sqrt(3.0 * np.einsum("ij,ij->i", white[0], white[0]))[:, None]
        return [(-spread, 1 / 6), (0.0, 2 / 3), (spread, 1 / 6)]
    stacked = np.stack(white, axis=1)
    covariance = stacked @ stacked.swapaxes(1, 2)
    covariance[:, range(q), range(q)] *= 1.0 + 1e-9
    axes = math.sqrt(q) * np.linalg.cholesky(covariance + 1e-300 * np.eye(q))
    shifts = [np.ascontiguousarray(axes[:, :, k].T)[:, :, None] for k in range(q)]
    return [(sign * shift, 0.5 / q) for shift in shifts for sign in (1.0, -1.0)]


def _average(losses: list[Derivatives], weights: list[float]) -> Derivatives:
    """The weighted sum of each field that is there."""

    def combine(name: str) -> Any:
        values = [getattr(loss, name) for loss in losses]
        return None if values[0] is None else sum(w * v for w, v in zip(weights, values, strict=True))

    return Derivatives(**{field.name: combine(field.name) for field in fields(Derivatives)})
