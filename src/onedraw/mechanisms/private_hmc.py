# SPDX-License-Identifier: Apache-2.0
"""Hamiltonian Monte Carlo with noisy gradients and the penalty rule [Raisa, Koskela & Honkela 2021].

Guarantee:
    (epsilon, delta)-DP for the whole chain and the first stage together. A trajectory of L leapfrog steps
    looks at
    **L + 1** gradients, each with fresh noise of standard deviation D/mu_g, D = c m w G, and is accepted by
    a log ratio with noise Delta/mu_l. T iterations are mu-GDP with

        mu^2 = T [(L + 1) mu_g^2 + mu_l^2],

    and mu follows from the exact curve of the Gaussian mechanism. The posterior is invariant
    (``onedraw.chains.proposals``, ``rules``). A density bound is not enough: the gradient must be bounded, so
    ``feature_norm`` is needed.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=100_000)
>>> mechanism = PrivateHMC(feature_norm=3**0.5).calibrate(Request(epsilon=1.0, delta=1e-6), shape)
>>> mechanism.tuning.effective >= 5.0
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import whole
from onedraw.chains.accounting import Sensitivity, Steps
from onedraw.chains.engine import Trajectory, run
from onedraw.chains.proposals import NoisyLeapfrog
from onedraw.chains.rules import Penalty
from onedraw.chains.tuning import Candidate
from onedraw.errors import InvalidInput
from onedraw.mechanisms._chain import ChainMechanism
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.privacy.request import Request
from onedraw.types import Array

SIZES = (0.1, 0.2, 0.4, 0.8)
"""Leapfrog steps to choose from, in standard deviations of the reference."""
COUNTS = (10, 30, 100, 300)


@dataclass(frozen=True, kw_only=True)
class PrivateHMC(ChainMechanism):
    """States of a Hamiltonian chain of ``leapfrog`` steps an iteration; see the module docstring.

    ``gradient_share`` is the part of mu^2 that the gradients of a trajectory take together.
    """

    name: ClassVar[str] = "private_hmc"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        needs={
            "feature_norm": "a gradient of the loss is as long as the feature vector is, and the noise must "
            "cover the longest one that may occur.",
        },
        delta="needed",
        draws="several",
        prefer="many parameters, where gradients tell more than one acceptance does",
    )
    what: ClassVar[str] = (
        "Each trajectory followed gradients with noise and was accepted by a noisy log ratio"
    )

    leapfrog: int = 5
    gradient_share: float = 0.5

    def _check_options(self) -> None:
        super()._check_options()
        whole(leapfrog=self.leapfrog)
        if not 0.0 < self.gradient_share < 1.0:
            raise InvalidInput(
                f"Expected gradient_share between 0 and 1, got gradient_share={self.gradient_share!r}."
            )

    @property
    def gradients(self) -> int:
        """How many noisy gradients a trajectory looks at."""
        return self.leapfrog + 1

    def _parts(self, request: Request, steps: int) -> tuple[float, float]:
        """mu_g of one gradient, and mu_l of one log ratio."""
        share = gaussian_parameter(request.epsilon, request.delta) / math.sqrt(steps)
        gradient = share * math.sqrt(self.gradient_share / self.gradients)
        return gradient, share * math.sqrt(1.0 - self.gradient_share)

    def _kernel(
        self, sds: Array, size: float, moved: Sensitivity, request: Request, steps: int
    ) -> tuple[NoisyLeapfrog, Penalty]:
        gradient, ratio = self._parts(request, steps)
        proposal = NoisyLeapfrog(scales=sds, step=size, count=self.leapfrog, noise=moved.gradient / gradient)
        return proposal, Penalty(sensitivity=moved, mu=ratio)

    def _candidates(self, sds: Array, moved: Sensitivity, request: Request) -> Sequence[Candidate]:
        passes = self.gradients + 1
        most = max(1, self.most_passes // passes)
        counts = [min(count, most) for count in COUNTS] if self.steps is None else [self.steps]
        found = []
        for size in SIZES:
            for count in counts:
                proposal, rule = self._kernel(sds, size, moved, request, count)
                found.append(
                    Candidate(
                        proposal=proposal,
                        rule=rule,
                        sds=sds,
                        allowed=lambda lengths, count=count: float(count),  # type: ignore[misc]
                        passes=passes,
                        setting=(size,),
                    )
                )
        return found

    def _run(self, target: Any, start: Array, request: Request, rng: np.random.Generator) -> Trajectory:
        found = self.tuning
        proposal, rule = self._kernel(
            np.array(found.sds), found.setting[0], self._moved, request, found.steps
        )
        return run(target, start, proposal=proposal, rule=rule, meter=Steps(found.steps), rng=rng)
