# SPDX-License-Identifier: Apache-2.0
"""The tilted fit: a convex, weighted fit with a random tilt in its objective, whose noise vanishes with n.

Released is the minimiser of

    sum_i omega_i f(y_i, z_i.theta) + (R/2) |theta - theta_0|^2 + b.theta

with a random b of known law, a public ridge R, and weights omega that keep far-out rows from counting too
much. Its error is that of the non-private fit plus noise of order p/(n epsilon). With ``inference`` a noisy
curvature of the objective at the minimiser is released as well: together they give intervals.

Guarantee:
    Pure epsilon-DP for every data set, without bounds on features or response, under both relations and with
    several rows per person; the number of records is never used. With delta > 0 a noise is Gaussian where
    that is smaller. [proofs: ``onedraw.tilted.calibration``, ``weights``, ``recipes`` and ``curvature``]
    Nothing rests on a sampler: the evidence is ``accounted``.

Edge cases:
    n = 0 releases noise. Features with declared bounds are mapped to [-1, 1] and have the law of the cube;
    without bounds they are divided by ``cut`` and have the law of the ball. A residual scale is found
    privately and has no floor.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> bounds = ((-1.0, 1.0),) * 5
>>> model = RegressionModel(family=Bernoulli(), features=tuple("abcde"), feature_bounds=bounds)
>>> mechanism = TiltedFit(inference=False).calibrate(Request(epsilon=1.0), Shape(model=model))
>>> mechanism.terms.epsilon, mechanism.guarantee.epsilon
(1.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.mechanisms.base import SOLVED, Computed, Mechanism, Requirements, uncalibrated
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.release import Grid, Statistic, coefficient_step, scale_step
from onedraw.samplers.base import Evidence
from onedraw.tilted.curvature import CurvatureLaw, curvature_law
from onedraw.tilted.recipes import RECIPES, Fitted, Terms, recipe_of
from onedraw.tilted.sums import ArraySums
from onedraw.tilted.weights import CUT, Rows, ball_rows, cube_rows
from onedraw.types import Array

CURVATURE_SHARE = 0.2
"""Of epsilon, for the curvature."""
LEAST_SCALE = 2.0**-200
"""A residual scale that is found privately has no floor but this."""
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
        inference: whether to release a noisy curvature too, from which intervals are computed; it takes
            ``curvature_share`` of epsilon.
        curvature_share: the part of epsilon, and of delta, that the curvature takes.
        cut: what features without declared bounds are divided by; a public guess of how far they spread.
    """

    name: ClassVar[str] = "tilted_fit"
    requirements: ClassVar[Requirements] = Requirements(
        families=tuple(RECIPES),
        delta="optional",
        prefer="accuracy: its noise vanishes as the number of records grows",
    )

    inference: bool = False
    curvature_share: float = CURVATURE_SHARE
    cut: float = CUT
    terms_of_fit: Terms | None = field(default=None, repr=False, metadata=SOLVED)
    terms_of_curvature: Terms | None = field(default=None, repr=False, metadata=SOLVED)

    # -- calibration

    def _check_options(self) -> None:
        positive(cut=self.cut)
        if not 0.0 < self.curvature_share < 1.0:
            raise InvalidInput(
                f"Expected curvature_share between 0 and 1, got curvature_share={self.curvature_share!r}. "
                "inference=False releases no curvature."
            )

    def _described(self, model: Any) -> Any:
        if not model.family.has_scale:
            return model
        return model.with_scale(replace(model.family, scale_floor=LEAST_SCALE))

    def _check_model(self, model: Any) -> None:
        if not model.num_location:
            raise InvalidInput("Expected a model with a parameter, got no features and no intercept.")

    def _solve(self, request: Request) -> TiltedFit:
        whole = Terms(**{name: value for name, value in request.terms.items() if name != "draws"})
        if not self.inference:
            return replace(self, promise=request.guarantee(), terms_of_fit=replace(whole, raw=True))
        return replace(
            self,
            promise=request.guarantee(),
            terms_of_fit=whole.part(1.0 - self.curvature_share),
            terms_of_curvature=whole.part(self.curvature_share),
        )

    @property
    def terms(self) -> Terms:
        """What the fit may spend."""
        if self.terms_of_fit is None:
            raise uncalibrated()
        return self.terms_of_fit

    # -- computation

    @property
    def _bounded(self) -> bool:
        """Whether the working rows lie in a cube."""
        return self.model.feature_bounds is not None or not self.model.num_features

    def _rows(self, records: Records) -> Rows:
        """Working rows with their weights."""
        model = self.model
        if self._bounded:
            unit = np.tile([-1.0, 1.0], (model.num_features, 1))
            return cube_rows(records.features, bounds=unit, fit_intercept=model.fit_intercept)
        return ball_rows(records.features, cut=self.cut, fit_intercept=model.fit_intercept)

    def _computed(self, records: Records, rng: np.random.Generator) -> Computed:
        rows = self._rows(records)
        found = recipe_of(self.model)(rows, records.response, self.terms, rng)
        unit = found.published.get("window_scale", 1.0)
        statistics = {
            name: Statistic.rounded([value], unit=unit) for name, value in found.published.items()
        }
        statistics["centre"] = Statistic.rounded(self._working(found.centre), unit=unit)
        statistics["ridge"] = Statistic.rounded([found.calibration.ridge], unit=1.0)
        statistics["tilt_sd"] = Statistic.rounded([found.calibration.tilt_sd], unit=unit)
        if self.terms_of_curvature is not None:
            statistics |= self._curvature(rows, found, self.terms_of_curvature, rng)
        values = self._working(found.theta)
        scale = None
        if self.model.has_scale:
            values, scale = np.append(values, found.published["scale"]), scale_step(unit)
        grid = Grid(coefficient=coefficient_step(unit), scale=scale)
        return Computed.rounded(values[None, :], EVIDENCE, grid=grid, statistics=statistics)

    def _curvature(
        self, rows: Rows, found: Fitted, terms: Terms, rng: np.random.Generator
    ) -> dict[str, Statistic]:
        """The noisy curvature at the released parameters, in units of the working rows."""
        sums = ArraySums(loss=found.loss, design=rows.design, response=found.response, weight=rows.weight)
        _, curvature = sums.gradient_and_curvature(found.theta - found.centre)
        noisy = self._curvature_law(found, rows.dim, terms).release(curvature, rng)
        upper = np.triu_indices(len(noisy.matrix))
        # The unit is that of the noise: on a grid finer than its last bits nothing would be rounded.
        unit = min(noisy.diagonal_sd, noisy.off_diagonal_sd)
        return {
            "curvature": Statistic.rounded(noisy.matrix[upper], unit=unit),
            "curvature_sd": Statistic.rounded([noisy.diagonal_sd, noisy.off_diagonal_sd], unit=unit),
        }

    def _curvature_law(self, found: Fitted, dim: int, terms: Terms) -> CurvatureLaw:
        loss = found.loss
        return curvature_law(
            dim=dim * loss.num_predictors,
            trace=dim * loss.trace_bound,
            entry=loss.curvature_bound if self._bounded else None,
            epsilon=terms.epsilon,
            delta=terms.delta,
            neighbours=terms.neighbours,
            rows_per_person=terms.rows_per_person,
        )

    def _working(self, theta: Array) -> Array:
        """Parameters (q, p) of the rows as working parameters: coefficients, then intercepts."""
        d = self.model.num_features
        coefficients = theta[:, :d] if self._bounded else theta[:, :d] / self.cut
        return np.concatenate([coefficients.ravel(), theta[:, d:].ravel()])

    @property
    def grid(self) -> Grid:
        """2^-40 of a working unit; a linear model, whose unit is found privately, has a grid of its own."""
        return Grid(coefficient=coefficient_step(1.0))

    def _numbers(self) -> Mapping[str, Any]:
        loss, model = recipe_of(self.model).loss, self.model
        if loss is None:  # the rest depends on a scale or a cap that is found privately
            return {"epsilon_of_fit": self.terms.epsilon}
        dim = model.num_features + int(model.fit_intercept)
        known = self.terms.calibrated(loss, dim, "cube" if self._bounded else "ball")
        return {
            "epsilon_of_fit": self.terms.epsilon,
            "tilt_law": type(known.law).__name__,
            "tilt_scale": known.law.scale,
            "ridge": known.ridge,
        }
