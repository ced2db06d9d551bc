# SPDX-License-Identifier: Apache-2.0
"""Output perturbation: the regularised logistic estimate plus noise [Chaudhuri, Monteleoni & Sarwate 2011].

The estimate is theta = argmin (1/n) sum of losses + (lambda/2) |theta|^2, intercept included in the penalty.

Guarantee:
    epsilon-DP (pure) under replace-one, for features of norm at most X (``feature_norm``; longer ones are
    shrunk). With a solver whose gradient is at most t = ``tolerance`` X/n,

        |theta - theta'|_2 <= D = 2 X (1 + tolerance) / (n lambda),

    * ``noise="spherical"``: density proportional to exp(-epsilon |z|_2/D), that is, a Gamma(p, D/epsilon)
      radius in a uniform direction;
    * ``noise="laplace"``: independent Laplace coordinates of scale sqrt(p) D/epsilon, because an L2 distance
      of D may be an L1 distance of sqrt(p) D. For features in [-1, 1]^p, where X = sqrt(p), that is
      2p/(n lambda epsilon). (The scale 2/(n lambda epsilon) seen in print is too small by p - 1 and more.)
      The estimate is moved to the public grid of step h and the noise is a whole number of steps, drawn
      exactly (``onedraw.noise``); p h more pays for moving it. Spherical noise is drawn in floating point
      and rounded: its law on the grid is that of the proof up to rounding, which nothing bounds.

*Proof.* Both objectives are lambda-strongly convex, and at the minimiser of one the gradient of the other
is the difference of the changed records' gradients over n: at most 2 X/n, since each is a number in (0, 1)
times a feature vector. So the exact minimisers are within 2 X/(n lambda). The computed ones are within
t/lambda of them, each. Noise with density proportional to exp(-epsilon norm(z)/D) for the norm in which D
bounds the move gives a density ratio of at most exp(epsilon). On the grid: two numbers moved to multiples
of h are at most h further apart than before, so p of them at most sqrt(p) D + p h in L1. []

*Tables of any size.* Of more records than a look holds, the solver is that of the tilted fit, without a
tilt and on rows x sqrt(p)/X, in three passes (``tilted.solver``). Its residual is a thousandth smaller, far
more than the rounding of these units.

Why replace-one and one row a person only: the noise and the estimate use n as a public number, which other
neighbours do not share. The solver either certifies its residual, rounding included, or raises.

Edge cases:
    n = 0 has no estimate and is refused. The error of a failed solve depends on the data, but with
    lambda > 0 damped Newton steps converge for every data set.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")))
>>> mechanism = OutputPerturbation(feature_norm=2.0, regularisation=0.1)
>>> mechanism = mechanism.calibrate(Request(epsilon=1.0), shape)
>>> round(mechanism.sensitivity(num_records=1000), 6)            # 2 X/(n lambda), and a thousandth more
0.04004
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from onedraw._validate import one_of, positive, whole
from onedraw.errors import InvalidInput
from onedraw.mechanisms._bounds import bounded_design, clipping_note
from onedraw.mechanisms._logistic import minimise
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms.base import Requirements
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.noise import discrete_laplace, on_grid, rounded_up
from onedraw.records import Records
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence
from onedraw.tables import base
from onedraw.tables.base import Table
from onedraw.tilted import solver
from onedraw.tilted.laws import BallLaw
from onedraw.tilted.losses import Logistic
from onedraw.tilted.sums import Sums
from onedraw.tilted.weights import Rows
from onedraw.types import Array

NOISE = ("spherical", "laplace")
EVIDENCE = Evidence(
    level="accounted",
    statement=(
        "Noise of a known law was added to an estimate whose distance from the optimum is bounded by a "
        "public number, which the noise covers; nothing rests on a sampler."
    ),
)


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(GridMechanism):
    """Noise on the minimiser. ``regularisation`` is lambda; ``tolerance`` the solver's share of the noise."""

    name: ClassVar[str] = "output_perturbation"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        needs={
            "feature_norm": "one record moves the estimate in proportion to the length of its feature "
            "vector, so the noise must cover the longest one that may occur.",
        },
        count="its noise is scaled by the number of records, which must be public.",
        floating="spherical noise (Laplace noise is exact)",
        prefer="large n and strong regularisation; speed",
    )

    feature_norm: float | None = None
    regularisation: float = 0.01
    noise: Literal["spherical", "laplace"] = "spherical"
    tolerance: float = 1e-3

    def _check_options(self) -> None:
        one_of(NOISE, noise=self.noise)
        positive(tolerance=self.tolerance)
        positive(
            regularisation=self.regularisation,
            remedy="Without it one record can move the estimate arbitrarily far.",
        )

    def _norm(self) -> float:
        return self._needed("feature_norm")

    def sensitivity(self, *, num_records: int) -> float:
        """How far, in Euclidean distance, one person can move the computed estimate."""
        n = whole(num_records=num_records, remedy="There is no estimate without records.")
        moved = 2.0 * self._norm() / (n * self.regularisation)
        return moved * (1.0 + self.tolerance)

    def noise_scale(self, *, num_records: int, dim: int) -> float:
        """The scale of the radius (spherical) or of each coordinate (laplace)."""
        moved = self.sensitivity(num_records=num_records)
        if self.noise == "laplace":
            moved = math.sqrt(dim) * moved + dim * self.grid.coefficient
        return moved / self.guarantee.epsilon

    def estimate(self, design: Array, response: Array) -> Array:
        """The minimiser (p,) to the declared tolerance, which may not leave."""
        # In sums instead of means: the residual is X tolerance, a share ``tolerance`` of the sensitivity.
        return minimise(
            design,
            2.0 * response - 1.0,
            ridge=len(response) * self.regularisation,
            tilt=np.zeros(design.shape[1]),
            feature_norm=self._norm(),
            residual=self.tolerance * self._norm(),
        )

    def estimate_anywhere(self, records: Table, rng: np.random.Generator) -> Array:
        """The same of records that may lie anywhere."""
        shrinking = Shrinking(fit_intercept=self.model.fit_intercept, feature_norm=self._norm())
        num_records = records.shape[0]
        if num_records <= base.LOOK:
            rows = shrinking(records)
            assert rows.response is not None
            return self.estimate(rows.design, rows.response)
        unit = self._norm() / math.sqrt(self.model.dim)
        rows = records.map(replace(shrinking, unit=unit))
        found = solver.minimise(
            Sums(loss=Logistic(), table=rows),
            ridge=num_records * self.regularisation / unit**2,
            tilt=np.zeros((1, self.model.dim)),
            residual=0.999 * self.tolerance * math.sqrt(self.model.dim),
            rng=rng,
        )
        return np.asarray(found[0] / unit)

    @property
    def reads_anywhere(self) -> bool:
        """The solver needs sums only."""
        return True

    def _values(self, records: Table, rng: np.random.Generator) -> tuple[Array, Evidence]:
        dim = self.model.dim
        scale = self.noise_scale(num_records=records.shape[0], dim=dim)
        estimate = self.estimate_anywhere(records, rng)
        if self.noise == "spherical":
            return (estimate + BallLaw(dim=dim, scale=scale).sample(rng))[None, :], EVIDENCE
        step = self.grid.coefficient
        steps = discrete_laplace(rounded_up(scale / step), dim, rng)
        return on_grid(estimate, step, steps)[None, :], EVIDENCE

    def check_records(self, records: Records) -> None:
        """Their number is public here, so an empty table may be refused."""
        super().check_records(records)
        if not len(records.response):
            raise InvalidInput("Expected at least one record: there is no estimate to add noise to.")

    @property
    def grid(self) -> Grid:
        """2^-40 of a length that no unperturbed fit exceeds: |theta|^2 <= 2 log 2/lambda, or 0 is better."""
        return Grid(coefficient=coefficient_step(math.sqrt(2.0 * math.log(2.0) / self.regularisation)))

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return (clipping_note(self._norm()),)

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {}


@dataclass(frozen=True, kw_only=True)
class Shrinking:
    """From records to rows no longer than ``feature_norm``, divided by ``unit``: a map of each by itself."""

    fit_intercept: bool
    feature_norm: float
    unit: float = 1.0

    def __call__(self, records: Any) -> Rows:
        design = bounded_design(
            records.features, fit_intercept=self.fit_intercept, feature_norm=self.feature_norm
        )
        return Rows(features=design / self.unit, weight=None, geometry="ball", response=records.response)
