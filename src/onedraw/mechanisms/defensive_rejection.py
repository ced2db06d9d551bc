# SPDX-License-Identifier: Apache-2.0
"""Rejection sampling that is private on every data set, by a defence and a cut.

Proposals come from a public law around a first release. Each is returned as it is with probability
``defence``, and otherwise accepted with probability min(1, posterior/(level * law)). Where the level is too
low the posterior is cut off, and where it is too high the defence returns a proposal in the end: both cost
accuracy, neither costs privacy, and neither needs to be found out.

Guarantee:
    epsilon-DP (pure) with no assumption about a sampler; the law is known [``onedraw.chains.perfect``]. With
    delta > 0 the same number of rounds is made for every data set, log(delta)/log(1 - defence), so that the
    running time tells nothing: (epsilon, delta)-DP.

Edge cases:
    ``first_stage=0`` proposes from the prior, and no level is needed; with more than a few dozen records
    nearly all is then rejected, and what is returned is a draw from the prior.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("x",)), num_records=200)
>>> timed = DefensiveRejection(defence=0.001).calibrate(Request(epsilon=1.0, delta=1e-6), shape)
>>> timed.rounds
13809
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.chains.perfect import rejection, rounds_for
from onedraw.mechanisms._perfect_draw import DefendedDraw
from onedraw.mechanisms.base import Requirements
from onedraw.records import Records
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class DefensiveRejection(DefendedDraw):
    """The first proposal that is defended or accepted; at most 1/``defence`` are expected."""

    name: ClassVar[str] = "defensive_rejection"
    requirements: ClassVar[Requirements] = Requirements(
        delta="optional",
        prefer="one draw with a closed-form law for every data set; δ > 0 fixes its running time",
    )
    what: ClassVar[str] = "Public proposals were accepted or rejected, with a defence"

    @property
    def rounds(self) -> int | None:
        """Their fixed number, where delta pays for it."""
        delta = self.guarantee.delta
        return rounds_for(self.defence, delta) if delta else None

    def _draw(self, records: Records, rng: np.random.Generator) -> Array:
        accept = self.acceptance(records, rng)
        return rejection(accept, defence=self.defence, rng=rng, rounds=self.rounds)

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {**super()._numbers(), "rounds": self.rounds}
