# SPDX-License-Identifier: Apache-2.0
"""A Barker chain that looks at a batch of the records in a step [Heikkila, Jalko, Dikmen & Honkela 2019].

The noise of the batch takes the place of a part of Barker's own randomness, and sampling the batch makes a
step cheaper in privacy and in work: a chain of thousands of steps may take a few passes over the records.

Guarantee:
    (epsilon, delta)-DP for the whole chain and the first stage together, for neighbours of equal, public
    number of records: every step has a Renyi divergence that follows from the sizes of batch and table and
    from a bound on the log ratio of a record, and these add up [proof, and the bound itself:
    ``onedraw.chains.minibatch``]. Moves are shrunk to the length at which that bound holds, w min(W, G d) <=
    k sqrt(m)/n, with k <= 1.

    Its target is the posterior only approximately (the mean of a batch is not quite normal, and the
    randomness not quite logistic); its privacy does not rest on that.

Where only the loss is bounded, W and not G d counts, and the weight is at most k sqrt(m)/(n W): declare
``feature_norm`` or a range of the features.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=100_000)
>>> mechanism = MinibatchBarker(feature_norm=3**0.5).calibrate(Request(epsilon=1.0, delta=1e-6), shape)
>>> mechanism.tuning.effective >= 5.0, mechanism.planned_passes < 500
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import whole
from onedraw.advice import Set
from onedraw.chains.accounting import Sensitivity, Steps
from onedraw.chains.engine import Trajectory, run
from onedraw.chains.minibatch import BatchBarker, steps_allowed
from onedraw.chains.proposals import RandomWalk
from onedraw.chains.rules import Barker
from onedraw.chains.tuning import Candidate
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.mechanisms._chain import ChainMechanism
from onedraw.mechanisms._chain_kinds import walk
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.request import Request
from onedraw.types import Array

LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.4, 2.4)
"""Steps to choose from, in standard deviations of the reference times 1/sqrt(p)."""
BATCHES = (50, 200, 800, 3200)
STRETCH = 1.3
"""Steps are shrunk to this multiple of their typical length, or to less."""
MOST_STEPS = 20_000


@dataclass(frozen=True, kw_only=True)
class MinibatchBarker(ChainMechanism):
    """States of a Barker chain on batches of ``batch`` records; see the module docstring."""

    name: ClassVar[str] = "minibatch_barker"
    requirements: ClassVar[Requirements] = Requirements(
        delta="needed",
        draws="several",
        count="the share of the records that a batch holds follows from their number.",
        prefer="large n and few passes over the records; its law is the posterior only approximately",
    )
    what: ClassVar[str] = "Each step of the chain was decided by a random batch of records and noise"

    batch: int | None = None

    def _check_options(self) -> None:
        super()._check_options()
        if self.batch is not None:
            whole(batch=self.batch)

    @property
    def count(self) -> int:
        """The public number of records."""
        known = self.num_records if self.shape is None else self.shape.num_records or self.num_records
        if known is None:
            raise CalibrationError(
                "MinibatchBarker needs the number of records, which is public, before it is calibrated.",
                advice=[Set("num_records", of="MinibatchBarker")],
            )
        return known

    def check_records(self, records: Any) -> None:
        """Refuse another number of records than the one that the share of a batch was computed from."""
        super().check_records(records)
        if len(records.response) != self.count:
            raise InvalidInput(
                f"Expected the {self.count} records that the mechanism was calibrated for, got "
                f"{len(records.response)}."
            )

    def _kernel(
        self, setting: tuple[float, ...], sds: Array, moved: Sensitivity
    ) -> tuple[RandomWalk, BatchBarker] | None:
        """The walk, with its longest step, and the rule; None where no step is short enough."""
        length, batch = setting[0], int(setting[1])
        free, per_record = walk(sds, length), replace(moved, multiple=1.0)
        most = math.sqrt(batch) / self.count
        longest = STRETCH * float(np.linalg.norm(free.scales))
        bound = float(per_record(np.array([longest]))[0])
        by_length = math.isfinite(per_record.slope)
        if bound > most:
            if not by_length:
                return None
            longest = min(longest, most / (per_record.weight * per_record.slope))
            bound = most
        rule = BatchBarker(batch=batch, clip=min(1.0, bound / most))
        return replace(free, longest=longest if by_length else math.inf), rule

    def _candidates(self, sds: Array, moved: Sensitivity, request: Request) -> Sequence[Candidate]:
        offered = BATCHES if self.batch is None else (self.batch,)
        batches = sorted({min(batch, self.count) for batch in offered})
        found = []
        for setting in [(length, float(batch)) for length in LENGTHS for batch in batches]:
            kernel = self._kernel(setting, sds, moved)
            allowed = 0 if kernel is None else self._steps(kernel[1], request)
            found.append(
                Candidate(
                    proposal=walk(sds, setting[0]) if kernel is None else kernel[0],
                    rule=Barker(),
                    sds=sds,
                    allowed=lambda lengths, allowed=allowed: float(allowed),  # type: ignore[misc]
                    passes=self._passes(setting),
                    setting=setting,
                )
            )
        return found

    def _passes(self, setting: tuple[float, ...]) -> float:
        """In a step: the batch at both points."""
        return 2.0 * setting[1] / self.count

    def _steps(self, rule: BatchBarker, request: Request) -> int:
        part = rule.batch / self.count
        allowed = steps_allowed(
            epsilon=request.epsilon, delta=request.delta, batch=rule.batch, part=part, clip=rule.clip
        )
        return min(allowed, MOST_STEPS)

    @property
    def planned_passes(self) -> float:
        """Passes over the records in the whole chain."""
        return self.tuning.steps * self._passes(self.tuning.setting)

    def _run(self, target: Any, start: Array, request: Request, rng: np.random.Generator) -> Trajectory:
        found = self.tuning
        kernel = self._kernel(found.setting, np.array(found.sds), self._moved)
        assert kernel is not None
        # The steps that were tuned for, never more than the budget pays for.
        meter = Steps(min(found.steps, self._steps(kernel[1], request)))
        return run(target, start, proposal=kernel[0], rule=kernel[1], meter=meter, rng=rng)

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {**super()._numbers(), "batch": self.tuning.setting[1]}

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        approximate = (
            "Decisions were made on batches of the records: the law of the states is near the posterior's."
        )
        return (*super().own_assumptions, approximate)
