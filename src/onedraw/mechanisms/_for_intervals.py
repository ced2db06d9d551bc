# SPDX-License-Identifier: Apache-2.0
"""What a tilted fit releases for its intervals, beside the parameters: noisy matrices, and a noisy total.

Guarantee:
    As private as ``terms`` say, given the released parameters: a curvature with the noise of
    ``tilted.curvature``; of a model with a residual scale, a part of it for the total of squared scores; for
    robust errors as much again for the matrix of their products (``tilted.scores``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.release import Statistic
from onedraw.tilted.curvature import NoisyCurvature, curvature_law, total_scale
from onedraw.tilted.one_hot import OneHot
from onedraw.tilted.recipes import Fitted
from onedraw.tilted.scores import ScoreProducts, TotalScore
from onedraw.tilted.solver import AtPoint
from onedraw.tilted.sums import information
from onedraw.tilted.terms import Terms
from onedraw.tilted.weights import Geometry, squared_length
from onedraw.types import Array

DISPERSION_SHARE = 0.1
"""Of the curvature's part, for the spread of the scores of a model with a residual scale."""


@dataclass(frozen=True, kw_only=True)
class ForIntervals:
    """Noisy sums at the released parameters; ``terms`` are those of each matrix.

    ``before`` stands before the names of what is released, where rows are not those of the parameters.
    """

    geometry: Geometry
    before: str
    terms: Terms
    robust: bool
    has_scale: bool

    @property
    def wanted(self) -> tuple[AtPoint, ...]:
        """The sums that are needed, for the last pass of the fit to take."""
        if self.robust:
            return (information, ScoreProducts)
        return (information, TotalScore) if self.has_scale else (information,)

    def released(self, found: Fitted, rng: np.random.Generator) -> dict[str, Statistic]:
        """All of them, in units of the working rows."""
        if self.robust:
            return self._score_products(found, rng) | self._curvature(found, self.terms, rng)
        if not self.has_scale:
            return self._curvature(found, self.terms, rng)
        dispersion = self._dispersion(found, self.terms.part(DISPERSION_SHARE), rng)
        return dispersion | self._curvature(found, self.terms.part(1.0 - DISPERSION_SHARE), rng)

    def _curvature(self, found: Fitted, terms: Terms, rng: np.random.Generator) -> dict[str, Statistic]:
        loss, dim = found.loss.information, found.table.shape[1]
        trace = squared_length(self.geometry, dim) * loss.trace_bound
        return self._matrix("curvature", found.curvature, trace, loss.curvature_bound, terms, rng)

    def _score_products(self, found: Fitted, rng: np.random.Generator) -> dict[str, Statistic]:
        """The noisy sum of products of relative scores: the middle of a sandwich."""
        (products,) = found.summed(ScoreProducts)
        trace = float(squared_length(self.geometry, found.table.shape[1]))
        return self._matrix("score_products", products, trace, 1.0, self.terms, rng)

    def _dispersion(self, found: Fitted, terms: Terms, rng: np.random.Generator) -> dict[str, Statistic]:
        """The noisy total of squared relative scores of a log-cosh fit, sum omega tanh^2."""
        (total,) = found.summed(TotalScore)
        scale = total_scale(epsilon=terms.epsilon, rows_per_person=terms.rows_per_person)
        total = total[0] + rng.laplace(0.0, scale)
        return {
            "dispersion": Statistic.rounded([total], unit=scale),
            "dispersion_noise": Statistic.rounded([scale], unit=scale),
        }

    def _matrix(
        self, name: str, matrix: Array, trace: float, entry: float, terms: Terms, rng: np.random.Generator
    ) -> dict[str, Statistic]:
        """A matrix with noise for records of this trace and these entries, and its standard deviations."""
        one_hot = self.geometry if isinstance(self.geometry, OneHot) else None
        law = curvature_law(
            dim=len(matrix),
            trace=trace,
            entry=None if self.geometry == "ball" else entry,
            moved=None if one_hot is None else one_hot.moved(terms.neighbours) * entry,
            epsilon=terms.epsilon,
            delta=terms.delta,
            neighbours=terms.neighbours,
            rows_per_person=terms.rows_per_person,
        )
        return _statistics(f"{self.before}{name}", law.release(matrix, rng))


def _statistics(name: str, noisy: NoisyCurvature) -> dict[str, Statistic]:
    upper = np.triu_indices(len(noisy.matrix))
    # The unit is that of the noise: on a grid finer than its last bits nothing would be rounded.
    unit = min(noisy.diagonal_sd, noisy.off_diagonal_sd)
    return {
        name: Statistic.rounded(noisy.matrix[upper], unit=unit),
        f"{name}_sd": Statistic.rounded([noisy.diagonal_sd, noisy.off_diagonal_sd], unit=unit),
    }
