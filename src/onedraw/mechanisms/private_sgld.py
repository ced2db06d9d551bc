# SPDX-License-Identifier: Apache-2.0
"""Langevin dynamics whose own noise pays for privacy [Wang, Fienberg & Smola 2015; Li et al. 2019],
corrected.

A step is theta + (h/2) A^2 gradient of the log posterior + A N(0, h I), on all records; A are the standard
deviations of the public reference.

Guarantee:
    (epsilon, delta)-DP for the whole chain and the first stage together. One person moves the gradient by at
    most D = c m w G, so T steps are mu-GDP with mu = sqrt(T h) max(A) D/2 (``onedraw.chains.proposals``):
    the step size h = (2 mu/(D max A))^2/T, or less, keeps the promise on the exact curve of the Gaussian
    mechanism. ``feature_norm`` is needed, as the gradient must be bounded.

The stationary law tends to the posterior as h falls (variance 1 for a standard normal; two published codes,
with a drift of h, have 1/2), but nothing is accepted or rejected, so for h > 0 it is the posterior only
approximately. Shorter steps are closer: at a fixed budget T h is fixed, and more passes buy accuracy, not
privacy.

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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.chains.accounting import Sensitivity
from onedraw.chains.proposals import Langevin
from onedraw.chains.rules import Always
from onedraw.mechanisms._chain_kinds import FEATURE_NORM, CountedChain
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.privacy.request import Request
from onedraw.types import Array

LARGEST = 0.2
"""The largest step, in variances of the narrowest coordinate of the reference: its law is then 5% too
wide."""


@dataclass(frozen=True, kw_only=True)
class PrivateSGLD(CountedChain):
    """States of a Langevin chain whose injected noise is the privacy noise; see the module docstring."""

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

    def _step(self, sds: Array, moved: Sensitivity, request: Request, steps: int) -> float:
        """The largest step that the budget and the reference allow."""
        total = gaussian_parameter(request.epsilon, request.delta)
        paid = (2.0 * total / (moved.gradient * float(np.max(sds)))) ** 2 / steps
        return min(paid, LARGEST)

    def _kernel(
        self, setting: tuple[float, ...], sds: Array, moved: Sensitivity, request: Request, steps: int
    ) -> tuple[Langevin, Always]:
        return Langevin(step=self._step(sds, moved, request, steps), scales=sds), Always()

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        approximate = "The states are those of a discretised diffusion, whose law is near the posterior's."
        return (*super().own_assumptions, approximate)
