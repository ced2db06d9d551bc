# SPDX-License-Identifier: Apache-2.0
"""What the two perturbed logistic fits share: bounded features, a penalty, a certified minimiser, a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onedraw._validate import positive
from onedraw.mechanisms._bounds import bounded_design, clipping_note
from onedraw.mechanisms._logistic import minimise
from onedraw.mechanisms.base import Mechanism
from onedraw.records import Records
from onedraw.release import Grid, coefficient_step
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class PerturbedFit(Mechanism):
    """A penalised logistic fit. ``regularisation`` is lambda of the mean objective."""

    feature_norm: float | None = None
    regularisation: float = 0.01
    tolerance: float

    def _check_options(self) -> None:
        positive(tolerance=self.tolerance)
        positive(
            regularisation=self.regularisation,
            remedy="Without it one record can move the estimate arbitrarily far.",
        )

    def _norm(self) -> float:
        return self._needed("feature_norm")

    def _design(self, records: Records) -> Array:
        """The clipped design (n, p)."""
        fit_intercept = self.model.fit_intercept
        return bounded_design(records.features, fit_intercept=fit_intercept, feature_norm=self._norm())

    def _minimise(self, design: Array, response: Array, *, ridge: float, tilt: Array) -> Array:
        """The minimiser (p,) to a gradient of tolerance X in sums over records."""
        norm = self._norm()
        return minimise(
            design,
            2.0 * response - 1.0,
            ridge=ridge,
            tilt=tilt,
            feature_norm=norm,
            residual=self.tolerance * norm,
        )

    @property
    def grid(self) -> Grid:
        """2^-40 of a length that no unperturbed fit exceeds: |theta|^2 <= 2 log 2/lambda, or 0 is better."""
        return Grid(coefficient=coefficient_step(math.sqrt(2.0 * math.log(2.0) / self.regularisation)))

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return (clipping_note(self._norm()),)


def spherical(rng: np.random.Generator, dim: int, scale: float) -> Array:
    """Noise (dim,) with density proportional to exp(-|z|/scale)."""
    direction = rng.standard_normal(dim)
    return np.asarray(rng.gamma(dim, scale) * direction / np.linalg.norm(direction))
