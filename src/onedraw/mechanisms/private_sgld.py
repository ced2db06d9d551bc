# SPDX-License-Identifier: Apache-2.0
"""Langevin dynamics whose own noise pays for privacy [Wang, Fienberg & Smola 2015; Li et al. 2019],
corrected.

A step is theta + (h/2) A^2 gradient of the log posterior + A N(0, h I); A are the standard deviations of the
public reference. The gradient is that of all records, or, with ``sampling_rate`` q, of a random part: every
record is taken with probability q, independently, and counts 1/q times.

Guarantee:
    (epsilon, delta)-DP for the whole chain and the first stage together. One person moves the gradient by at
    most D = c m w G, so T steps are mu-GDP with mu = sqrt(T h) max(A) D/2 (``onedraw.chains.proposals``):
    the step size h = (2 mu/(D max A))^2/T, or less, keeps the promise on the exact curve of the Gaussian
    mechanism. ``feature_norm`` is needed, as the gradient must be bounded.

    With ``sampling_rate`` a step is a Poisson-subsampled Gaussian mechanism with noise multiplier z = 2 q/
    (sqrt(h) max(A) w G), and T of them are composed as privacy-loss distributions by dp-accounting, for the
    relation asked for: h = (2 q/(z max(A) w G))^2, or less, with the z that it gives for epsilon and delta
    [``onedraw.privacy.subsampled``, with the proof for add/remove, for replace-one, whose pair of laws is
    another, and for several rows a person]. q is public and the number of records taken is random and stays
    inside, so neither relation needs a public number of records.

The stationary law tends to the posterior as h falls (variance 1 for a standard normal; two published codes,
with a drift of h, have 1/2), but nothing is accepted or rejected, so for h > 0 it is the posterior only
approximately. Shorter steps are closer: at a fixed budget T h is fixed, and more passes buy accuracy, not
privacy. Sampling buys shorter steps for the same passes; the noise of the sampled gradient widens the law by
about h w K (1 - q)/(4 q H), K and H squared slope and curvature of the public reference, and h is held to
what keeps both effects together at 5%.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=100_000)
>>> mechanism = PrivateSGLD(feature_norm=3**0.5).calibrate(Request(epsilon=1.0, delta=1e-6), shape)
>>> mechanism.tuning.effective >= 5.0
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.chains.accounting import Sensitivity
from onedraw.chains.proposals import Langevin
from onedraw.chains.rules import Always
from onedraw.chains.tuning import reference_curvature, reference_squared_slope
from onedraw.errors import InvalidInput
from onedraw.mechanisms._chain_kinds import FEATURE_NORM, CountedChain
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.privacy.request import Request
from onedraw.privacy.subsampled import Sampling, noise_multiplier
from onedraw.types import Array

LARGEST = 0.2
"""The largest step, in variances of the narrowest coordinate of the reference: its law is then 5% too
wide."""


@dataclass(frozen=True, kw_only=True)
class PrivateSGLD(CountedChain):
    """States of a Langevin chain whose injected noise is the privacy noise; see the module docstring.

    With ``sampling_rate`` a step takes each record with that probability, and dp-accounting must be there.
    """

    name: ClassVar[str] = "private_sgld"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        needs=FEATURE_NORM,
        delta="needed",
        draws="several",
        prefer="many parameters and large n; its law is the posterior only approximately",
    )
    what: ClassVar[str] = "Each step of the chain was a gradient step with noise"
    counts = (50, 200, 800, 3200)

    sampling_rate: float | None = None

    def _check_options(self) -> None:
        super()._check_options()
        if self.sampling_rate is not None and not 0.0 < self.sampling_rate <= 1.0:
            raise InvalidInput(
                "Expected sampling_rate, the probability that a step takes a record, above 0 and at most 1, "
                f"got sampling_rate={self.sampling_rate!r}."
            )

    @property
    def passes(self) -> float:
        """The share of the records that a step takes, on average."""
        return self.sampling_rate or 1.0

    def _paid(self, moved: Sensitivity, request: Request, steps: int) -> float:
        """sqrt(h) max(A): the standard deviation of the noise in its widest coordinate, or less."""
        if self.passes == 1.0:
            total = gaussian_parameter(request.epsilon, request.delta)
            return 2.0 * total / (moved.gradient * math.sqrt(steps))
        rows = request.rows_per_person
        plan = Sampling(rate=self.passes, steps=steps, rows_per_person=rows)
        multiplier = noise_multiplier(request.epsilon, request.delta, plan, request.neighbours)
        return 2.0 * self.passes / (multiplier * moved.weight * moved.slope)

    def _step(self, sds: Array, moved: Sensitivity, request: Request, steps: int) -> float:
        """The largest step that the budget and the reference allow."""
        paid = (self._paid(moved, request, steps) / float(np.max(sds))) ** 2
        return min(paid, LARGEST / (1.0 + moved.weight * self._sampling_noise))

    @property
    def _sampling_noise(self) -> float:
        """K (1 - q)/(q H)."""
        assert self.chosen_beta is not None
        family, beta = self.model.family, self.chosen_beta
        ratio = reference_squared_slope(family, beta) / reference_curvature(family, beta)
        return ratio * (1.0 - self.passes) / self.passes

    def _kernel(
        self, setting: tuple[float, ...], sds: Array, moved: Sensitivity, request: Request, steps: int
    ) -> tuple[Langevin, Always]:
        step = self._step(sds, moved, request, steps)
        return Langevin(step=step, scales=sds, rate=self.passes), Always()

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        approximate = "The states are those of a discretised diffusion, whose law is near the posterior's."
        return (*super().own_assumptions, approximate)
