# SPDX-License-Identifier: Apache-2.0
"""Perfect sampling by artificial atoms [Lee, Doucet & Perron 2014; Seeman, Reimherr & Slavkovic 2021].

A chain moves on the parameters and one artificial state more, the atom, which it can reach from everywhere
with a known probability. So a geometric number of steps from the atom ends in the stationary law *exactly*,
with no convergence to be waited for. If it ends in the atom, a proposal is released instead.

Guarantee:
    epsilon-DP (pure), with no assumption about the chain; the law is known [``onedraw.chains.perfect``]. With
    delta > 0 the same number of steps is made for every data set: (epsilon, delta)-DP.

When to use it: to compare. With a bound that is global, the only one that is proved, it looks at about
2/defence points, no fewer than ``DefensiveRejection``, whose law is the same up to the size of the defence,
and one after another.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("x",)), num_records=200)
>>> AtomSampler().calibrate(Request(epsilon=1.0, delta=1e-6), shape).steps
3018
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.chains.perfect import StudentEnvelope, atoms, steps_for
from onedraw.mechanisms._perfect_draw import DefendedDraw
from onedraw.mechanisms.base import Requirements
from onedraw.records import Records
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class AtomSampler(DefendedDraw):
    """The end of a geometric number of steps from an atom of mass ``defence``, in units of the level."""

    name: ClassVar[str] = "atom_sampler"
    requirements: ClassVar[Requirements] = Requirements(
        delta="optional",
        prefer="comparison with DefensiveRejection, which has the same law and less work",
    )
    what: ClassVar[str] = "A chain with an artificial atom was run for a geometric number of steps"

    defence: float = 0.01

    @property
    def steps(self) -> int | None:
        """Their fixed number, where delta pays for it."""
        promised = self.guarantee
        return steps_for(self.defence, promised.epsilon, promised.delta) if promised.delta else None

    def _draw(self, records: Records, rng: np.random.Generator) -> Array:
        accept = self.acceptance(records, rng)
        envelope, dim = accept.envelope, self.model.dim
        scales = envelope.scales if isinstance(envelope, StudentEnvelope) else np.full(dim, self.prior_scale)
        scales = scales / np.sqrt(max(1, dim))
        return atoms(accept, defence=self.defence, scales=scales, rng=rng, steps=self.steps)

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {**super()._numbers(), "steps": self.steps}
