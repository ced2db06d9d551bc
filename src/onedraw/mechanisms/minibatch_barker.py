# SPDX-License-Identifier: Apache-2.0
"""A Barker chain that looks at a batch of the records in a step [Heikkila, Jalko, Dikmen & Honkela 2019].

The noise of the batch takes the place of a part of Barker's own randomness, and sampling the batch makes a
step cheaper in privacy and in work: a chain of thousands of steps may take a few passes over the records.

Guarantee:
    (epsilon, delta)-DP, or epsilon-DP at delta = 0, for the whole chain and the first stage together, for
    neighbours of equal, public number of records. A step has bounded range Delta, which follows from the
    sizes of batch and table and from the bound w min(W, G d) on the log ratio of a record in a step of length
    d, and which for small steps is what a step on all records costs [proof: ``onedraw.chains.minibatch``]; it
    is Delta-DP and Delta^2/8 zero-concentrated DP, and a privacy filter makes no step that the budget does
    not pay for.

    Its target is the posterior only approximately (the mean of a batch is not quite normal); its privacy does
    not rest on that. Lengths of steps and batches are chosen so that on the public reference the log ratio of
    a batch has a variance that the rule corrects for.

Where only the loss is bounded, W and not G d counts, and a step costs the same however short it is: declare
``feature_norm`` or a range of the features.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=100_000)
>>> mechanism = MinibatchBarker(feature_norm=3**0.5).calibrate(Request(epsilon=1.0, delta=1e-6), shape)
>>> mechanism.tuning.effective >= 5.0, 0.5 < mechanism.tuning.weight <= 1.0
(True, True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import whole
from onedraw.advice import Set
from onedraw.chains.accounting import Sensitivity
from onedraw.chains.minibatch import LARGEST_VARIANCE, BatchBarker, BatchPrice
from onedraw.chains.proposals import RandomWalk
from onedraw.chains.rules import Barker
from onedraw.chains.tuning import Candidate, reference_spread, reference_squared_slope
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.mechanisms._chain_kinds import FilteredChain, Setting, walk
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.request import Request
from onedraw.types import Array

BATCHES = (50, 200, 800, 3200, 12_800)


@dataclass(frozen=True, kw_only=True)
class MinibatchBarker(FilteredChain):
    """States of a Barker chain on batches of ``batch`` records; see the module docstring."""

    name: ClassVar[str] = "minibatch_barker"
    requirements: ClassVar[Requirements] = Requirements(
        delta="optional",
        draws="several",
        count="the share of the records that a batch holds follows from their number.",
        prefer="large n and few passes over the records; its law is the posterior only approximately",
    )
    what: ClassVar[str] = "Each step of the chain was decided by Barker's rule on a random batch of records"
    lengths = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.4)
    longest_chain = 4000

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

    @property
    def _offered(self) -> Sequence[Setting]:
        if self.batch is not None:
            batches = [min(self.batch, self.count)]
        else:  # more than half of the records would be a full pass at both ends of the move
            batches = [batch for batch in BATCHES if batch <= self.count / 2] or [max(1, self.count // 2)]
        return [(length, float(batch)) for length in self.lengths for batch in batches]

    def _price(self, moved: Sensitivity, setting: Setting, request: Request) -> BatchPrice:
        per_record = replace(moved, multiple=1.0)
        return BatchPrice(per_record=per_record, batch=int(setting[1]), count=self.count)

    def _candidate(self, sds: Array, moved: Sensitivity, setting: Setting, request: Request) -> Candidate:
        """No step is planned where the batch is so small that its noise would heat the target."""
        found = super()._candidate(sds, moved, setting, request)
        assert self.chosen_beta is not None
        slope = reference_squared_slope(self.model.family, self.chosen_beta)
        squares = np.square(walk(sds, setting[0]).scales) @ reference_spread(**self._parameters)
        variance = (self.count * moved.weight) ** 2 / setting[1] * slope * float(squares)
        if setting[1] < self.count and variance > LARGEST_VARIANCE:
            return replace(found, allowed=lambda lengths: 0.0)
        return found

    def _rule(self, moved: Sensitivity, setting: Setting) -> BatchBarker:
        return BatchBarker(per_record=replace(moved, multiple=1.0), batch=int(setting[1]))

    def _reference_rule(self, moved: Sensitivity, setting: Setting, request: Request) -> Barker:
        """A batch decides as all records do, up to what the target is approximate by."""
        return Barker()

    def _passes(self, moved: Sensitivity, setting: Setting, proposal: RandomWalk) -> float:
        """In a step: the batch at both points."""
        return 2.0 * setting[1] / self.count

    @property
    def planned_passes(self) -> float:
        """Passes over the records in the whole chain."""
        return self.tuning.steps * self._passes(self._moved, self.tuning.setting, self._proposal())

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {**super()._numbers(), "batch": self.tuning.setting[1]}

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        approximate = (
            "Decisions were made on batches of the records: the law of the states is near the posterior's."
        )
        return (*super().own_assumptions, approximate)
