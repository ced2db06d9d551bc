# SPDX-License-Identifier: Apache-2.0
"""The law of the tilt of releases that do not state its scale: made before ``class_law`` was.

With one predictor it is today's. With three or more classes it was a sum of independent tilts, each of the
law for rows, along the differences of two classes, or along twice each class from four on.

>>> law = earlier_law(predictors=2, columns=6, sd=3.0, geometry="cube")
>>> round(law.variance, 9)
9.0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.families.categorical import contrast_basis
from onedraw.inference import TiltLaw
from onedraw.tilted.laws import Law, OneByOne
from onedraw.tilted.norm_laws import norm_law
from onedraw.tilted.weights import Geometry
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class SumOverClasses(OneByOne):
    """Independent tilts for rows, along differences of classes or along classes, in the contrasts."""

    classes: int
    part: Law

    @property
    def variance(self) -> float:
        return min(self.classes, 4) * self.part.variance

    @property
    def covariance(self) -> Array:
        return self.variance * np.eye((self.classes - 1) * self.part.dim)

    def sample(self, rng: np.random.Generator) -> Array:
        along = 2.0 * np.eye(self.classes)
        if self.classes == 3:
            along = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
        terms = np.array([self.part.sample(rng) for _ in along])
        return np.asarray((along @ contrast_basis(self.classes)).T @ terms).ravel()


def earlier_law(*, predictors: int, columns: int, sd: float, geometry: Geometry) -> TiltLaw:
    """The law whose coordinates have the standard deviation ``sd``."""
    part = norm_law(predictors=1, columns=columns, scale=1.0, geometry=geometry)
    terms = min(predictors + 1, 4) if predictors > 1 else 1
    part = norm_law(
        predictors=1, columns=columns, scale=sd / (terms * part.variance) ** 0.5, geometry=geometry
    )
    return part if predictors == 1 else SumOverClasses(classes=predictors + 1, part=part)
