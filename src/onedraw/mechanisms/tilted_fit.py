# SPDX-License-Identifier: Apache-2.0
"""The tilted fit: a convex, weighted fit with a random tilt in its objective, whose noise vanishes with n.

Released is the minimiser of

    sum_i omega_i f(y_i, z_i.theta) + (R/2) |theta|^2 + b.theta

with a random b of known law, a public ridge R, and weights omega that keep far-out rows from counting too
much. Its error is that of the non-private fit plus noise of order p/(n epsilon).

Guarantee:
    Pure epsilon-DP for every data set, without bounds on features or response, under both relations and with
    several rows per person; the number of records is never used. With delta > 0 the tilt is Gaussian where
    that has less noise. [proof: ``onedraw.tilted.calibration``, ``onedraw.tilted.weights``]
    Nothing rests on a sampler: the evidence is ``accounted``.

Edge cases:
    n = 0 releases noise around zero. Features with declared bounds are mapped to [-1, 1] and have the law of
    the cube; without bounds they are divided by ``cut`` and have the law of the ball.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> bounds = ((-1.0, 1.0),) * 5
>>> model = RegressionModel(family=Bernoulli(), features=tuple("abcde"), feature_bounds=bounds)
>>> mechanism = TiltedFit().calibrate(Request(epsilon=1.0), Shape(model=model))
>>> round(mechanism.calibrated.law.scale, 2), round(mechanism.calibrated.ridge, 1)      # 2/epsilon, 2p/epsilon
(2.01, 12.1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive
from onedraw.families import Bernoulli, Categorical
from onedraw.mechanisms.base import Mechanism, Requirements, solved, uncalibrated
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence
from onedraw.tilted.calibration import Calibration, calibrate
from onedraw.tilted.fit import tilted_fit
from onedraw.tilted.losses import Logistic, Loss
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.weights import CUT, Rows, ball_rows, cube_rows
from onedraw.types import Array

EVIDENCE = Evidence(
    level="accounted",
    statement=(
        "The objective was tilted by noise of a known law, and its minimiser computed to a public tolerance "
        "that further noise covers; nothing rests on a sampler."
    ),
)


@dataclass(frozen=True, kw_only=True)
class TiltedFit(Mechanism):
    """A randomly tilted convex fit.

    Args:
        cut: what features without declared bounds are divided by; a public guess of how far they spread.
    """

    name: ClassVar[str] = "tilted_fit"
    requirements: ClassVar[Requirements] = Requirements(
        families=(Bernoulli.name, Categorical.name),
        delta="optional",
        prefer="accuracy: its noise vanishes as the number of records grows",
    )

    cut: float = CUT
    calibration: Calibration | None = solved()

    def _check_options(self) -> None:
        positive(cut=self.cut)

    @property
    def _bounded(self) -> bool:
        return self.model.feature_bounds is not None or not self.model.num_features

    @property
    def loss(self) -> Loss:
        """The convex loss of the model's family."""
        predictors = self.model.family.num_predictors
        return Logistic() if predictors == 1 else Softmax(classes=predictors + 1)

    def _solve(self, request: Request) -> TiltedFit:
        terms = {name: value for name, value in request.terms.items() if name != "draws"}
        dim = self.model.num_features + int(self.model.fit_intercept)
        found = calibrate(self.loss, **terms, dim=dim, geometry="cube" if self._bounded else "ball")
        return replace(self, promise=request.guarantee(), calibration=found)

    @property
    def calibrated(self) -> Calibration:
        """The law of the tilt and the ridge, or an error that says how to get them."""
        if self.calibration is None:
            raise uncalibrated()
        return self.calibration

    def _rows(self, records: Records) -> Rows:
        """Working rows with their weights."""
        model = self.model
        if self._bounded:
            unit = np.tile([-1.0, 1.0], (model.num_features, 1))
            return cube_rows(records.features, bounds=unit, fit_intercept=model.fit_intercept)
        return ball_rows(records.features, cut=self.cut, fit_intercept=model.fit_intercept)

    def _values(self, records: Records, rng: np.random.Generator) -> tuple[Array, Evidence]:
        theta = tilted_fit(self.loss, self._rows(records), records.response, self.calibrated, rng)
        return self._working(theta)[None, :], EVIDENCE

    def _working(self, theta: Array) -> Array:
        """Parameters (q, p) of the rows as working parameters: coefficients, then intercepts."""
        d = self.model.num_features
        coefficients = theta[:, :d] if self._bounded else theta[:, :d] / self.cut
        return np.concatenate([coefficients.ravel(), theta[:, d:].ravel()])

    @property
    def grid(self) -> Grid:
        """2^-40 of a working unit."""
        return Grid(coefficient=coefficient_step(1.0))

    def _numbers(self) -> Mapping[str, Any]:
        law = self.calibrated.law
        return {
            "law": type(law).__name__,
            "law_scale": law.scale,
            "ridge": self.calibrated.ridge,
            "tilt_sd": self.calibrated.tilt_sd,
        }
