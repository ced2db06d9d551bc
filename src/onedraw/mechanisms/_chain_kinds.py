# SPDX-License-Identifier: Apache-2.0
"""Two kinds of private chains: steps that a filter admits by their length, and a number of steps fixed
before.

A mechanism of the first kind has a rule of its own for walks whose price goes by the length of a step; one of
the second has a kernel whose noise is set for the number of steps."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw.chains.accounting import Filter, Sensitivity, Steps
from onedraw.chains.engine import Proposal, Rule, Trajectory, run
from onedraw.chains.proposals import RandomWalk
from onedraw.chains.tuning import Candidate
from onedraw.mechanisms._chain import ChainMechanism
from onedraw.privacy.request import Request
from onedraw.types import Array

Setting = tuple[float, ...]
"""What a chain is tuned by."""
SPARE = 1.5
"""The filter stops a chain; this many times the expected steps are never reached."""
FEATURE_NORM = {
    "feature_norm": "a gradient of the loss is as long as the feature vector is, and the noise must "
    "cover the longest one that may occur.",
}
"""Why mechanisms that follow gradients need a bound."""


def walk(sds: Array, length: float) -> RandomWalk:
    """A random walk whose steps are about ``length`` standard deviations long."""
    return RandomWalk(scales=length / np.sqrt(len(sds)) * sds)


@dataclass(frozen=True, kw_only=True)
class FilteredChain(ChainMechanism):
    """A random walk with steps of bounded range, for as long as a privacy filter admits them.

    A setting begins with the length of a step; what more there is belongs to the rule.
    """

    lengths: ClassVar[tuple[float, ...]] = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
    """Steps to choose from, in standard deviations of the reference times 1/sqrt(p)."""
    longest_chain: ClassVar[float] = math.inf
    """Steps beyond which no chain is planned by itself: each of a few records takes time of its own."""

    @abstractmethod
    def _rule(self, moved: Sensitivity, setting: Setting) -> Rule:
        """How a step is decided."""

    def _reference_rule(self, moved: Sensitivity, setting: Setting, request: Request) -> Rule:
        """The same where there are no records but a reference."""
        return self._rule(moved, setting)

    @property
    def _offered(self) -> Sequence[Setting]:
        """What to choose from."""
        return [(length,) for length in self.lengths]

    def _walk(self, sds: Array, moved: Sensitivity, setting: Setting) -> RandomWalk:
        """The proposal."""
        return walk(sds, setting[0])

    def _passes(self, moved: Sensitivity, setting: Setting, proposal: RandomWalk) -> float:
        """Passes over the records in a step."""
        return 1.0

    def _price(self, moved: Sensitivity, setting: Setting, request: Request) -> Callable[[Array], Array]:
        """The range of a step by its length."""
        return moved

    def _filter(self, moved: Sensitivity, setting: Setting, request: Request) -> Filter:
        price = self._price(moved, setting, request)
        return Filter.planned(epsilon=request.epsilon, delta=request.delta, sensitivity=price)

    def _candidates(self, sds: Array, moved: Sensitivity, request: Request) -> Sequence[Candidate]:
        return [self._candidate(sds, moved, setting, request) for setting in self._offered]

    def _candidate(self, sds: Array, moved: Sensitivity, setting: Setting, request: Request) -> Candidate:
        budget, proposal = self._filter(moved, setting, request), self._walk(sds, moved, setting)
        most = self.longest_chain if self.steps is None else math.inf
        return Candidate(
            proposal=proposal,
            rule=self._reference_rule(moved, setting, request),
            sds=sds,
            allowed=lambda lengths: min(budget.expected_steps(lengths), most),
            passes=self._passes(moved, setting, proposal),
            setting=setting,
        )

    def _proposal(self) -> RandomWalk:
        found = self.tuning
        return self._walk(np.array(found.sds), self._moved, found.setting)

    def _run(self, target: Any, start: Array, request: Request, rng: np.random.Generator) -> Trajectory:
        moved, proposal, setting = self._moved, self._proposal(), self.tuning.setting
        within = int(self.most_passes / self._passes(moved, setting, proposal))
        most = self.steps or max(1, min(within, int(SPARE * self.tuning.steps) + 1))
        meter = self._filter(moved, setting, request).fresh(most, len(start))
        rule = self._rule(moved, setting)
        return run(target, start, proposal=proposal, rule=rule, meter=meter, rng=rng)


@dataclass(frozen=True, kw_only=True)
class CountedChain(ChainMechanism):
    """Steps of equal price, whose noise is set for their number; the search chooses a setting and a
    number."""

    settings: ClassVar[tuple[tuple[float, ...], ...]] = ((),)
    counts: ClassVar[tuple[int, ...]]

    @property
    def passes(self) -> float:
        """Passes over the records in a step."""
        return 1.0

    @abstractmethod
    def _kernel(
        self, setting: tuple[float, ...], sds: Array, moved: Sensitivity, request: Request, steps: int
    ) -> tuple[Proposal, Rule]:
        """What is proposed and how it is decided, so that so many steps keep the request."""

    def _candidates(self, sds: Array, moved: Sensitivity, request: Request) -> Sequence[Candidate]:
        most = max(1, int(self.most_passes / self.passes))
        counts = [min(count, most) for count in self.counts] if self.steps is None else [self.steps]
        found = []
        for setting in self.settings:
            for count in counts:
                proposal, rule = self._kernel(setting, sds, moved, request, count)
                found.append(
                    Candidate(
                        proposal=proposal,
                        rule=rule,
                        sds=sds,
                        allowed=lambda lengths, count=count: float(count),  # type: ignore[misc]
                        passes=self.passes,
                        setting=setting,
                    )
                )
        return found

    def _run(self, target: Any, start: Array, request: Request, rng: np.random.Generator) -> Trajectory:
        found = self.tuning
        proposal, rule = self._kernel(found.setting, np.array(found.sds), self._moved, request, found.steps)
        return run(target, start, proposal=proposal, rule=rule, meter=Steps(found.steps), rng=rng)
