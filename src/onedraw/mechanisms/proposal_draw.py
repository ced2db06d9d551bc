# SPDX-License-Identifier: Apache-2.0
"""One of many public proposals, chosen by the exponential mechanism: a posterior draw that assumes nothing.

N points are drawn from a public law around a first release (a tilted fit with a share of epsilon), and one of
them is picked with probability proportional to posterior/law. That is importance resampling; as a mechanism
it is the exponential mechanism on a finite public set, like ``OnePosterior(evidence="enumerated")`` with a
grid that lies where the posterior is.

Guarantee:
    epsilon-DP (pure), for any number of proposals, any data and any first stage
    [``onedraw.chains.perfect``]. The time depends on the number of records and of proposals alone. What
    rests on N is accuracy: the law tends to the posterior as N grows.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("x",)), num_records=200)
>>> mechanism = ProposalDraw().calibrate(Request(epsilon=1.0), shape)
>>> mechanism.guarantee.epsilon, mechanism.calibrated.epsilon        # the rest is the first stage's
(1.0, 0.8)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw._validate import whole
from onedraw.chains.perfect import enumerated
from onedraw.mechanisms._perfect_draw import PerfectDraw
from onedraw.mechanisms.base import Requirements
from onedraw.records import Records
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class ProposalDraw(PerfectDraw):
    """One of ``proposals`` public points, by the exponential mechanism."""

    name: ClassVar[str] = "proposal_draw"
    requirements: ClassVar[Requirements] = Requirements(
        prefer="one draw with no bound on the data and nothing assumed about a sampler; fixed running time",
    )
    what: ClassVar[str] = "The exponential mechanism picked one of a public number of public proposals"

    proposals: int = 2048

    def _check_options(self) -> None:
        super()._check_options()
        whole(proposals=self.proposals)

    def _draw(self, records: Records, rng: np.random.Generator) -> Array:
        return enumerated(self.acceptance(records, rng), proposals=self.proposals, rng=rng)
