# SPDX-License-Identifier: Apache-2.0
"""A Barker chain that looks at a random few of the records in a step, with the posterior as its law exactly.

The sampling is that of DP-fast-MH [Zhang & Zhang 2023]; acceptance and accounting are not, as the published
ones are not private (``onedraw.chains.thinned`` says what is wrong and proves what is done instead).

Guarantee:
    (epsilon, delta)-DP, or epsilon-DP at delta = 0, for the whole chain and the first stage together. A step
    of length d, with b = w min(W, G d) and x = ``overhead``, has bounded range Delta = m (2 + x) b under
    replace-one and m (1 + x) b under add/remove, m rows a person, so it is Delta-DP and Delta^2/8
    zero-concentrated DP; a privacy filter makes no step that the budget does not pay for.

What it gains is work, not privacy: a step looks at about n b (1 + 1/x) of n records, where ``PrivateBarker``,
whose steps cost 2 b and b, looks at all. Where that is not less than a full pass, at both ends of the move,
the mechanism refuses: with a loss that is bounded and nothing else, a weight of order 1 has no gain at all.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=100_000)
>>> mechanism = FastMH(feature_norm=3**0.5).calibrate(Request(epsilon=1.0, delta=1e-6), shape)
>>> mechanism.tuning.effective >= 5.0, mechanism.work < 0.2
(True, True)
>>> FastMH(weight=1.0, beta=2.0).calibrate(Request(epsilon=50.0), shape)
Traceback (most recent call last):
onedraw.errors.CalibrationError: FastMH would look at 12 times as many records in a step as PrivateBarker, ...
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive
from onedraw.advice import Set
from onedraw.chains.accounting import Sensitivity
from onedraw.chains.proposals import RandomWalk
from onedraw.chains.thinned import Thinned, ThinnedReference
from onedraw.chains.tuning import reference_spread, reference_squared_slope
from onedraw.errors import CalibrationError
from onedraw.mechanisms._chain_kinds import FilteredChain, Setting
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.request import Request


@dataclass(frozen=True, kw_only=True)
class FastMH(FilteredChain):
    """States of a Barker chain on thinned records; see the module docstring.

    ``overhead`` is x: a smaller one costs less privacy and looks at more records.
    """

    name: ClassVar[str] = "fast_mh"
    requirements: ClassVar[Requirements] = Requirements(
        delta="optional",
        draws="several",
        prefer="PrivateBarker's chain with a small part of its passes: bounded features, large n",
    )
    what: ClassVar[str] = "Each step of the chain was decided by Barker's rule on a random few of the records"
    lengths = (0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
    longest_chain = 4000

    overhead: float = 0.2

    def _check_options(self) -> None:
        super()._check_options()
        positive(overhead=self.overhead)

    def _rule(self, moved: Sensitivity, setting: Setting) -> Thinned:
        return Thinned(per_record=replace(moved, multiple=1.0), overhead=self.overhead)

    def _reference_rule(self, moved: Sensitivity, setting: Setting, request: Request) -> ThinnedReference:
        assert self.chosen_beta is not None
        slope = reference_squared_slope(self.model.family, self.chosen_beta)
        return ThinnedReference(
            rule=self._rule(moved, setting),
            count=self._guess(request),
            squared_slopes=slope * reference_spread(**self._parameters),
        )

    def _price(self, moved: Sensitivity, setting: Setting, request: Request) -> Sensitivity:
        return replace(moved, multiple=moved.multiple + self.overhead * request.rows_per_person)

    def _passes(self, moved: Sensitivity, setting: Setting, proposal: RandomWalk) -> float:
        """Both ends of a move are looked at, for a part of the records."""
        length = np.array([np.linalg.norm(proposal.scales)])
        return float(2.0 * self._rule(moved, setting).rate(length)[0])

    @property
    def work(self) -> float:
        """That of a step, in passes over the records."""
        return self._passes(self._moved, self.tuning.setting, self._proposal())

    def _solve(self: Any, request: Request) -> Any:
        solved = super()._solve(request)
        if solved.work >= 1.0:
            raise CalibrationError(
                f"FastMH would look at {solved.work:.2g} times as many records in a step as "
                "PrivateBarker, which has the same law at a lower price: at weight "
                f"{solved.tuning.weight:.3g} the bound on the log ratio of a record gives no gain.",
                advice=[
                    Set("mechanism", "private_barker"),
                    Set("feature_norm", of="FastMH", note=", which makes short steps cheap"),
                ],
                requested=request.epsilon,
            )
        return solved
