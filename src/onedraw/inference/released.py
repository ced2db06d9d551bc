# SPDX-License-Identifier: Apache-2.0
"""What a release says: parameters, the law of their tilt, and a noisy curvature. Intervals need no more.

>>> import numpy as np
>>> Released(
...     theta=np.zeros(2), ridge=4.0, tilt=NormalTilt(dim=2, scale=3.0), curvature=np.eye(2), diagonal_sd=1.0,
...     offdiagonal_sd=1.0, count=100.0).dim
2
>>> Released(
...     theta=np.zeros(2), ridge=4.0, tilt=NormalTilt(dim=2, scale=3.0), curvature=np.eye(3), diagonal_sd=1.0,
...     offdiagonal_sd=1.0, count=100.0)
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected curvature of shape (2, 2), got shape (3, 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.inference.classes import ClassWeight
from onedraw.inference.layout import Layout
from onedraw.inference.score import ModelScore, ScoreLaw
from onedraw.inference.weight import LogisticWeight, Weight
from onedraw.types import Array


class TiltLaw(Protocol):
    """The symmetric law of the tilt b."""

    @property
    def covariance(self) -> Array:
        """(p, p)."""
        ...

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Independent points (count, p)."""
        ...


@dataclass(frozen=True, kw_only=True)
class NormalTilt:
    """Independent normal coordinates with standard deviation ``scale``."""

    dim: int
    scale: float

    @property
    def covariance(self) -> Array:
        return self.scale**2 * np.eye(self.dim)

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        return rng.normal(0.0, self.scale, (count, self.dim))


@dataclass(frozen=True, kw_only=True, eq=False)
class FramedTilt:
    """A tilt whose law is known in rows u = C z (``Released.frame``); ``back`` is the inverse of C."""

    law: TiltLaw
    back: Array

    @property
    def covariance(self) -> Array:
        return np.asarray(self.back @ self.law.covariance @ self.back.T)

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        return np.asarray(self.law.draws(count, rng) @ self.back.T)


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """One tilted fit with its curvature, in units of the working rows.

    theta, centre: the released minimiser and the point that the ridge pulls to (p,); 0 unless given.
    ridge, tilt: R and the law of b.
    curvature: H~ (p, p), with the standard deviations of its noise on and off the diagonal.
    count: the number of records, or an estimate of it where it is private; then give a wide ``count_sd``, the
        standard deviation of its logarithm.
    weight: how records' curvature depends on the predictor. Several classes have parameters (q, p), row by
        row, and a curvature of as many rows and columns.
    layout: where the intercept and the indicators of categories stand in a row.
    score: what is known of the covariance K of the score; by the model it is the curvature.
    noise_ratio: how many times K counts: the largest number of rows of a person.
    aligned: whether the rows were made for this: a direction that noise could hide is then refused.
    frame: C (m, p), if the curvature (m, m) is that of rows u = C z: noise was added to C H C'.
    useful: the longest half-width of a 95% interval that says something, in units of the working
        coefficients; 3 is an odds ratio of 20 for half the range of a feature.
    """

    theta: Array
    ridge: float
    tilt: TiltLaw
    curvature: Array
    diagonal_sd: float
    offdiagonal_sd: float
    count: float
    centre: Array | None = None
    count_sd: float = 0.1
    weight: Weight | ClassWeight = field(default_factory=LogisticWeight)
    layout: Layout = field(default_factory=Layout)
    score: ScoreLaw = field(default_factory=ModelScore)
    noise_ratio: float = 1.0
    useful: float = 3.0
    aligned: bool = False
    frame: Array | None = None

    def __post_init__(self) -> None:
        positive(ridge=self.ridge)
        positive(diagonal_sd=self.diagonal_sd)
        positive(offdiagonal_sd=self.offdiagonal_sd)
        positive(count=self.count)
        positive(count_sd=self.count_sd)
        positive(noise_ratio=self.noise_ratio)
        positive(useful=self.useful)
        p = self.dim
        m = p if self.frame is None else len(self.frame)
        if self.curvature.shape != (m, m):
            raise InvalidInput(f"Expected curvature of shape {(m, m)}, got shape {self.curvature.shape}.")
        if self.frame is not None and (self.frame.shape != (m, p) or self.predictors > 1):
            raise InvalidInput(
                f"Expected a frame of shape {(m, p)} for one predictor, got shape {self.frame.shape} for "
                f"{self.predictors}."
            )
        if self.centre is not None and self.centre.shape != (p,):
            raise InvalidInput(f"Expected centre of shape {(p,)}, got shape {self.centre.shape}.")
        if p % self.predictors:
            raise InvalidInput(f"Expected parameters of {self.predictors} predictors, got {p} of them.")
        self.layout.check(self.columns)
        if not (np.isfinite(self.theta).all() and np.isfinite(self.curvature).all()):
            raise InvalidInput("Expected finite parameters and curvature, got others.")

    @property
    def dim(self) -> int:
        return len(self.theta)

    @property
    def predictors(self) -> int:
        """How many linear predictors a record has: one less than classes, if there are several."""
        return self.weight.predictors if isinstance(self.weight, ClassWeight) else 1

    @property
    def columns(self) -> int:
        """Entries of a row."""
        return self.dim // self.predictors

    @property
    def pull(self) -> Array:
        """R (theta^ - theta_0), the gradient of the ridge at the released point (p,)."""
        origin = 0.0 if self.centre is None else self.centre
        return np.asarray(self.ridge * (self.theta - origin))

    @property
    def order(self) -> Array:
        """The positions of the parameters, of each predictor as ``Layout.order``."""
        return self.layout.order(self.columns, predictors=self.predictors)
