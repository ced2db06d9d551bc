# SPDX-License-Identifier: Apache-2.0
"""Rows in which columns do not repeat one another: a private change of coordinates, found before the fit.

The tilt and the noise of a curvature are alike in all directions of the rows. Where columns go together, or
hardly vary within their ranges, the records vary little in some direction, and there the noise is all that is
left. So the products of the columns are released with noise first,

    M = sum_i omega_i z_i z_i' + noise,

and say where the columns' middle mu and covariance S are, nearly. The fit is then of rows

    u = (A x + c, 1) = C z,    A = S^(-1/2)/reach,    c = -A mu,

whose entries have about the same variance 1/reach^2 each and are hardly correlated, in the law of the ball:
parameters theta of them are C' theta of rows z. A row longer than sqrt(p) counts for less. Noise hides
variances of S below ``FLOOR`` sqrt(d) standard deviations of it: they count as that, so that no direction is
blown up by noise alone. After one round the small ones are still rough, so a second finds M of the rows of
the first.

Guarantee:
    (epsilon, delta)-DP for the terms given: each of ``ROUNDS`` rounds spends an equal part on a noisy matrix.
    omega z z' is positive semidefinite, its trace is at most p, and in the cube its entries are at most 1
    (``weights``), so ``curvature_law`` has the noise, with its proof. A and c are computed from released
    matrices, so the rows of the next round, and of the fit, are a public function of each record's own.
    [sequential composition]

*What it costs.* A part of epsilon, and the law of the ball in place of that of the cube: where columns fill
their declared ranges and have nothing to do with one another, errors are larger, and records in rare
categories count for less. *What it gains* is told in docs/uncertainty.md.

Edge cases:
    Without records A and c are finite noise. A row must have an intercept, which c adds to.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> total = rng.normal(size=(20_000, 1))
>>> x = 0.2 * (total + 0.1 * rng.normal(size=(20_000, 2)))                       # nearly the same twice
>>> from onedraw.records import Records
>>> from onedraw.tilted.weights import Weighing
>>> found = aligned(
...     Records(features=x, response=total[:, 0]), Weighing(fit_intercept=True),
...     Terms(epsilon=1.0, num_records=20_000), rng, noise=0.01)
>>> [bool(np.linalg.cond(np.cov(part.T)) > 3.0) for part in (x, found.alignment.rows(x))]
[True, False]
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from onedraw.columns import indicators
from onedraw.errors import InvalidInput
from onedraw.tables.base import Table
from onedraw.tilted.alignment import Alignment
from onedraw.tilted.curvature import NoisyCurvature, curvature_law
from onedraw.tilted.one_hot import FEWEST_LEVELS
from onedraw.tilted.scores import pieces
from onedraw.tilted.terms import Terms
from onedraw.tilted.weights import Rows, Weighing, squared_length
from onedraw.types import Array

ROUNDS = 2
FLOOR = 2.0
REACHES = ((0.1, 1.0), (0.02, 1.2), (0.0006, 1.3), (0.0, 1.7))
"""By the noise of the fit (``Terms.noise``) from which on it is taken: a small reach lets columns stand out
of the noise, a large one leaves long rows their weight."""
LEAST_COUNT = 0.3
"""Of the public number of records: the least that their weights are taken to add up to."""


def aligned(
    table: Table, weighing: Weighing, terms: Terms, rng: np.random.Generator, *, noise: float
) -> Weighing:
    """How to make aligned rows of ``table``, for ``terms``; ``weighing`` makes rows that are not.

    ``noise`` is that of the fit: see ``Terms.noise``.
    """
    if weighing.one_hot is not None or not weighing.fit_intercept:
        raise InvalidInput("Expected rows with an intercept and without columns of categories.")
    reach = next(reach for least, reach in REACHES if noise >= least)
    spent, alignment = terms.part(1.0 / ROUNDS), Alignment.none(table.shape[1])
    for _ in range(ROUNDS):
        rows: Table = table.map(weighing)
        (products,) = rows.sum(products_of_rows)
        law = curvature_law(
            dim=len(products),
            trace=float(squared_length(weighing.geometry, len(products))),
            entry=1.0 if weighing.geometry == "cube" else None,
            epsilon=spent.epsilon,
            delta=spent.delta,
            neighbours=spent.neighbours,
            rows_per_person=spent.rows_per_person,
        )
        found = law.release(products, rng)
        alignment = alignment.then(*spreading(found, terms.num_records or 0, reach))
        weighing = replace(weighing, alignment=alignment)
    return weighing


def without_alignment(model: Any) -> str:
    """Why rows of a model cannot be aligned, by what is public of it; empty if they can."""
    if not (model.fit_intercept and model.num_features):
        return "To align columns takes features and an intercept: rows are moved to their middle."
    found = indicators(model.features).items()
    names = [repr(name) for name, places in found if len(places) + 1 >= FEWEST_LEVELS]
    if names:
        return f"Columns of categories ({', '.join(names)}) are not aligned: their rows have another law."
    return ""


def spreading(noisy: NoisyCurvature, num_records: int, reach: float) -> tuple[Array, Array]:
    """The matrix and the shift that give the entries of rows the variance 1/reach^2 each, about 0, from the
    released products of the rows, the intercept last."""
    count = max(float(noisy.matrix[-1, -1]), noisy.diagonal_sd, LEAST_COUNT * num_records)
    middle = noisy.matrix[:-1, -1] / count
    covariance = noisy.matrix[:-1, :-1] / count - np.outer(middle, middle)
    hidden = FLOOR * math.sqrt(len(middle)) * noisy.off_diagonal_sd / count
    variances, axes = np.linalg.eigh(covariance)
    matrix = (axes / (reach * np.sqrt(np.maximum(variances, hidden)))) @ axes.T
    return matrix, -matrix @ middle


def products_of_rows(rows: Rows) -> tuple[Array]:
    """A kernel: sum omega z z' (p, p)."""
    total = np.zeros((rows.dim, rows.dim))
    for part in pieces(rows):
        design = part.design
        total += design.T @ (design if part.weight is None else design * part.weight[:, None])
    return (total,)
