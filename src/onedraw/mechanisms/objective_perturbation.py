# SPDX-License-Identifier: Apache-2.0
"""Objective perturbation: a logistic fit with a random linear term in it [Chaudhuri et al. 2011].

Releases theta = argmin of the sum of losses + (R/2) |theta|^2 + b.theta, with random b, plus a trace of noise
that pays for the solver's inexactness.

Guarantee:
    epsilon-DP (pure) under replace-one, for features of norm at most X (longer ones are shrunk), with m
    rows a person, e1 = (1 - s) epsilon, s = ``solver_share``:

    * R = max(n lambda, c/(exp(e1/(2m)) - 1)), c = X^2/4: the square of X, not X;
    * b has density proportional to exp(-|b| e2/(2 m X)), e2 = e1 - m log(1 + c/R), which is >= e1/2;
    * the solver's gradient is at most t = ``tolerance`` X, and spherical noise of scale 2t/(R s epsilon) is
      added.

*Proof.* (1) The exact minimiser. b = -(sum of gradients) - R theta maps minimisers to b one to one and
smoothly, so the density of theta is that of b(theta) times |det J|, J = R I + the Hessian of the losses.
At one theta, neighbours' b differ by at most 2 m X: a factor exp(e2). The common records make up
H >= R I; the m others add PSD matrices E and E' of rank at most m, of trace at most m c since the second
derivative of the logistic loss is at most 1/4. As det(H + E') >= det H,

    det(H + E)/det(H + E') <= det(I + H^-1/2 E H^-1/2) <= (1 + c/R)^m

by concavity of the logarithm over at most m eigenvalues: a factor exp(m log(1 + c/R)). Together exp(e1).
(The original's 2 log(1 + c/R) comes from bounding H + E against H + E' without the common part.)
(2) The computed minimiser is within r = t/R of the exact one. Given the exact minimiser, b is a function of
the data, and so is the gap between the two: a vector of norm at most r, moved by at most 2r between
neighbours. Releasing it with spherical noise of scale 2r/(s epsilon) costs s epsilon; the sum of both
releases is what is published. []

Why replace-one only: R uses n as a public number. The proof needs a convex twice differentiable loss, and
therefore does not carry over to the beta-divergence.

>>> mechanism = ObjectivePerturbation(feature_norm=1.0, regularisation=0.01).calibrate(epsilon=1.0)
>>> round(mechanism.ridge(1000), 6), round(mechanism.noise_scale(1000), 3)       # 2/(0.99 - log 1.025)
(10.0, 2.072)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli
from onedraw.mechanisms._base import (
    BoundedMechanism,
    bounded_design,
    clipping_note,
    epsilon_only,
    need_bound,
    shared_count_only,
)
from onedraw.mechanisms._logistic import minimise
from onedraw.mechanisms.one_posterior import Records
from onedraw.mechanisms.output_perturbation import spherical
from onedraw.model import RegressionModel
from onedraw.privacy.guarantee import Guarantee
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence
from onedraw.types import Array

EVIDENCE = Evidence(
    level="accounted",
    statement=(
        "The objective was tilted by noise of a known law, and its minimiser computed to a public tolerance "
        "that further noise covers; nothing rests on a sampler."
    ),
)


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(BoundedMechanism):
    """A randomly tilted logistic fit. ``regularisation`` is lambda of the mean objective."""

    name: ClassVar[str] = "objective_perturbation"

    feature_norm: float | None = None
    regularisation: float = 0.01
    tolerance: float = 1e-5
    solver_share: float = 0.01

    def _check(self, guarantee: Guarantee) -> Guarantee:
        positive(regularisation=self.regularisation)
        positive(tolerance=self.tolerance)
        if not 0.0 < self.solver_share < 1.0:
            raise InvalidInput(f"Expected 0 < solver_share < 1, got solver_share={self.solver_share!r}.")
        self._norm()
        epsilon_only(guarantee, type(self).__name__)
        shared_count_only(
            guarantee,
            type(self).__name__,
            "its regularisation is scaled by the number of records, which must be public.",
        )
        return guarantee

    def _norm(self) -> float:
        return need_bound(
            self.feature_norm,
            name="feature_norm",
            mechanism=type(self).__name__,
            why="one record tilts and bends the objective as much as its feature vector is long, and the "
            "noise must cover both.",
        )

    @property
    def tilt_epsilon(self) -> float:
        """e1: the privacy loss spent on the exact minimiser."""
        return (1.0 - self.solver_share) * self.guarantee.epsilon

    @property
    def curvature(self) -> float:
        """c: the most that one record can add to the Hessian of the objective."""
        return 0.25 * self._norm() ** 2

    def ridge(self, num_records: int) -> float:
        """R: the regularisation of the sum of losses, raised where bending would cost more than e1/2."""
        bending = 0.5 * self.tilt_epsilon / self.guarantee.rows_per_person
        least = self.curvature / math.expm1(min(bending, 700.0))  # beyond, the exponential overflows
        return max(num_records * self.regularisation, least)

    def noise_scale(self, num_records: int) -> float:
        """The scale of |b|: 2 m X/e2."""
        rows = self.guarantee.rows_per_person
        left = self.tilt_epsilon - rows * math.log1p(self.curvature / self.ridge(num_records))
        return 2.0 * rows * self._norm() / left

    def solver_noise_scale(self, num_records: int) -> float:
        """The scale of the noise that covers the solver's residual."""
        residual = self.tolerance * self._norm()
        return 2.0 * residual / (self.ridge(num_records) * self.solver_share * self.guarantee.epsilon)

    def minimiser(self, design: Array, response: Array, tilt: Array) -> Array:
        """The minimiser (p,) for the random term ``tilt``, to the declared tolerance. Private."""
        return minimise(
            design,
            2.0 * response - 1.0,
            ridge=self.ridge(len(response)),
            tilt=tilt,
            feature_norm=self._norm(),
            residual=self.tolerance * self._norm(),
        )

    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        Bernoulli().check_response(data.response)
        n = len(data.response)
        design = bounded_design(data.features, fit_intercept=model.fit_intercept, feature_norm=self._norm())
        tilt = spherical(rng, model.dim, self.noise_scale(n))
        theta = self.minimiser(design, data.response, tilt)
        return (theta + spherical(rng, model.dim, self.solver_noise_scale(n)))[None, :], EVIDENCE

    def grid(self, model: RegressionModel) -> Grid:
        """2^-40 of the length that no minimiser without tilt exceeds, sqrt(2 log 2/lambda)."""
        return Grid(coefficient=coefficient_step(math.sqrt(2.0 * math.log(2.0) / self.regularisation)))

    @property
    def description(self) -> Mapping[str, str | float | None]:
        """The public numbers that define the mechanism, for the release."""
        return {
            "feature_norm": self._norm(),
            "regularisation": self.regularisation,
            "tolerance": self.tolerance,
            "solver_share": self.solver_share,
        }

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return (clipping_note(self._norm()),)
