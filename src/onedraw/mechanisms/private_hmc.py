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
from dataclasses import dataclass
from typing import ClassVar

from onedraw._validate import whole
from onedraw.chains.accounting import Sensitivity
from onedraw.chains.proposals import NoisyLeapfrog
from onedraw.chains.rules import Penalty
from onedraw.errors import InvalidInput
from onedraw.mechanisms._chain_kinds import FEATURE_NORM, CountedChain
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.privacy.request import Request
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class PrivateHMC(CountedChain):
    """States of a Hamiltonian chain of ``leapfrog`` steps an iteration; see the module docstring.

    ``gradient_share`` is the part of mu^2 that the gradients of a trajectory take together.
    """

    name: ClassVar[str] = "private_hmc"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        needs=FEATURE_NORM,
        delta="needed",
        draws="several",
        prefer="many parameters, where gradients tell more than one acceptance does",
    )
    what: ClassVar[str] = (
        "Each trajectory followed gradients with noise and was accepted by a noisy log ratio"
    )

    settings = ((0.1,), (0.2,), (0.4,), (0.8,))
    counts = (10, 30, 100, 300)

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

    @property
    def passes(self) -> float:
        """Those of the gradients, and one for the log ratio."""
        return self.gradients + 1

    def _parts(self, request: Request, steps: int) -> tuple[float, float]:
        """mu_g of one gradient, and mu_l of one log ratio."""
        share = gaussian_parameter(request.epsilon, request.delta) / math.sqrt(steps)
        gradient = share * math.sqrt(self.gradient_share / self.gradients)
        return gradient, share * math.sqrt(1.0 - self.gradient_share)

    def _kernel(
        self, setting: tuple[float, ...], sds: Array, moved: Sensitivity, request: Request, steps: int
    ) -> tuple[NoisyLeapfrog, Penalty]:
        gradient, ratio = self._parts(request, steps)
        noise = moved.gradient / gradient
        proposal = NoisyLeapfrog(scales=sds, step=setting[0], count=self.leapfrog, noise=noise)
        return proposal, Penalty(sensitivity=moved, mu=ratio)
