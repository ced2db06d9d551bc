# SPDX-License-Identifier: Apache-2.0
"""A Markov chain with noise on its log ratios, and the penalty that keeps its target [Yildirim & Ermis 2019].

Guarantee:
    (epsilon, delta)-DP for the whole chain and the first stage together. Every step adds normal noise of
    standard deviation Delta(d)/mu to its log ratio, Delta(d) what one person can move it by
    (``onedraw.chains.accounting``), so T steps are sqrt(T) mu-GDP, and mu follows from the exact curve of
    the Gaussian mechanism. The penalty of half the variance leaves the posterior invariant
    (``onedraw.chains.rules``).

At equal privacy ``PrivateBarker`` accepts more: its decision is a randomised one by itself, where this rule
adds noise to a decision that is randomised already.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=100_000)
>>> mechanism = PenaltyChain(feature_norm=3**0.5).calibrate(Request(epsilon=1.0, delta=1e-6), shape)
>>> mechanism.tuning.effective >= 5.0
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from onedraw.chains.accounting import Sensitivity
from onedraw.chains.proposals import RandomWalk
from onedraw.chains.rules import Penalty
from onedraw.mechanisms._chain_kinds import CountedChain, walk
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.privacy.request import Request
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class PenaltyChain(CountedChain):
    """States of a full-batch penalty chain; see the module docstring."""

    name: ClassVar[str] = "penalty_chain"
    requirements: ClassVar[Requirements] = Requirements(
        delta="needed",
        draws="several",
        prefer="comparison with PrivateBarker, which accepts more at the same price",
    )
    what: ClassVar[str] = "Each step of the chain was decided by a log ratio with noise and its penalty"
    settings = ((0.3,), (0.5,), (0.8,), (1.2,), (2.0,))
    counts = (20, 60, 200, 600, 2000)

    def _rule(self, moved: Sensitivity, request: Request, steps: int) -> Penalty:
        total = gaussian_parameter(request.epsilon, request.delta)
        return Penalty(sensitivity=moved, mu=total / math.sqrt(steps))

    def _kernel(
        self, setting: tuple[float, ...], sds: Array, moved: Sensitivity, request: Request, steps: int
    ) -> tuple[RandomWalk, Penalty]:
        return walk(sds, setting[0]), self._rule(moved, request, steps)
