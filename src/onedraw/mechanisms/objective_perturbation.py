# SPDX-License-Identifier: Apache-2.0
"""Objective perturbation: a logistic fit with a random linear term in it [Chaudhuri et al. 2011].

Releases theta = argmin of the sum of losses + (R/2) |theta|^2 + b.theta, with random b, plus a trace of noise
that pays for the solver's inexactness.

Guarantee:
    epsilon-DP (pure) under replace-one, for features of norm at most X (longer ones are shrunk), with
    e1 = (1 - s) epsilon, s = ``solver_share``:

    * R = max(n lambda, c/(exp(e1/2) - 1)), c = X^2/4: the square of X, not X;
    * b has density proportional to exp(-|b| e2/(2 X)), e2 = e1 - log(1 + c/R), which is >= e1/2;
    * the solver's gradient is at most t = ``tolerance`` X, and spherical noise of scale 2t/(R s epsilon) is
      added.

*Proof.* (1) The exact minimiser. b = -(sum of gradients) - R theta maps minimisers to b one to one and
smoothly, so the density of theta is that of b(theta) times |det J|, J = R I + the Hessian of the losses.
At one theta, neighbours' b differ by at most 2 X: a factor exp(e2). The common records make up
H >= R I; the other one adds a PSD matrix E or E' of rank one, of trace at most c since the second derivative
of the logistic loss is at most 1/4. As det(H + E') >= det H,

    det(H + E)/det(H + E') <= det(I + H^-1/2 E H^-1/2) <= 1 + c/R:

a factor exp(log(1 + c/R)). Together exp(e1).
(The original's 2 log(1 + c/R) comes from bounding H + E against H + E' without the common part.)
(2) The computed minimiser is within r = t/R of the exact one. Given the exact minimiser, b is a function of
the data, and so is the gap between the two: a vector of norm at most r, moved by at most 2r between
neighbours. Releasing it with spherical noise of scale 2r/(s epsilon) costs s epsilon; the sum of both
releases is what is published. []

Why replace-one and one row a person only: R uses n as a public number. The proof needs a convex twice
differentiable loss, and therefore does not carry over to the beta-divergence.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=()))
>>> mechanism = ObjectivePerturbation(feature_norm=1.0, regularisation=0.01)
>>> mechanism = mechanism.calibrate(Request(epsilon=1.0), shape)
>>> round(mechanism.ridge(1000), 6), round(mechanism.noise_scale(1000), 3)       # 2/(0.99 - log 1.025)
(10.0, 2.072)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.mechanisms._perturbed_fit import PerturbedFit, spherical
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms.base import Requirements
from onedraw.records import Records
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
class ObjectivePerturbation(PerturbedFit):
    """A randomly tilted logistic fit. ``regularisation`` is lambda of the mean objective."""

    name: ClassVar[str] = "objective_perturbation"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        needs={
            "feature_norm": "one record tilts and bends the objective as much as its feature vector is "
            "long, and the noise must cover both.",
        },
        count="its regularisation is scaled by the number of records, which must be public.",
        prefer="logistic regression with pure ε; usually better than output perturbation",
    )

    tolerance: float = 1e-5
    solver_share: float = 0.01

    def _check_options(self) -> None:
        if not 0.0 < self.solver_share < 1.0:
            raise InvalidInput(f"Expected 0 < solver_share < 1, got solver_share={self.solver_share!r}.")
        super()._check_options()

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
        least = self.curvature / math.expm1(
            min(0.5 * self.tilt_epsilon, 700.0)
        )  # beyond, the exponential overflows
        return max(num_records * self.regularisation, least)

    def noise_scale(self, num_records: int) -> float:
        """The scale of |b|: 2 X/e2."""
        left = self.tilt_epsilon - math.log1p(self.curvature / self.ridge(num_records))
        return 2.0 * self._norm() / left

    def solver_noise_scale(self, num_records: int) -> float:
        """The scale of the noise that covers the solver's residual."""
        residual = self.tolerance * self._norm()
        return 2.0 * residual / (self.ridge(num_records) * self.solver_share * self.guarantee.epsilon)

    def minimiser(self, design: Array, response: Array, tilt: Array) -> Array:
        """The minimiser (p,) for the random term ``tilt``, to the declared tolerance. Private."""
        return self._minimise(design, response, ridge=self.ridge(len(response)), tilt=tilt)

    def _values(self, records: Records, rng: np.random.Generator) -> tuple[Array, Evidence]:
        design, n, dim = self._design(records), len(records.response), self.model.dim
        tilt = spherical(rng, dim, self.noise_scale(n))
        theta = self.minimiser(design, records.response, tilt)
        return (theta + spherical(rng, dim, self.solver_noise_scale(n)))[None, :], EVIDENCE

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {}
