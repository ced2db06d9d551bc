# SPDX-License-Identifier: Apache-2.0
"""How far one person can move a log ratio, and how much of a budget that takes.

With u = log prior ratio - w [L(theta') - L(theta)] the statistic of a step, L the sum of losses, d the
distance of theta' from theta, and m rows a person, neighbours differ in u by at most

    Delta(d) = c m w min(W, G d),        c = 2 under replace-one, 1 under add/remove,

where W is the width of the loss (S or R of ``onedraw.families.certificate``) and G a bound on the length of
its gradient, infinite where none is declared.

*Proof.* Replacing z by z' changes u by w {[l(z', theta) - l(z, theta)] - [l(z', theta') - l(z, theta')]}.
Each bracket is at most S in size; grouped by record instead, each difference l(z, theta) - l(z, theta') is
at most R, and at most G d by the mean value theorem. Removing z leaves one such difference, at most w min(R,
G d). A person with fewer rows than the one replaced leaves unmatched rows, which cost no more than matched
ones. []

Guarantee:
    ``Filter`` admits steps of bounded range Delta_t for as long as, with a = ``order`` and C = ``limit``,

        sum Delta_t <= epsilon    or    sum min(Delta_t, a Delta_t^2/8) <= C.

    Whatever decides the lengths of the steps, all together are (epsilon, delta)-DP: the rule, and its proof,
    are those of the ledger (``onedraw.ledger.accounting``), and Delta^2/8 is the zero-concentrated DP of a
    bounded range (``onedraw.privacy.composition``). A step that would break both sums is not made.

>>> moved = Sensitivity(multiple=2.0, weight=0.05, width=1.0)
>>> meter = Filter.planned(epsilon=1.0, delta=1e-6, sensitivity=moved).fresh(1000)
>>> sum(bool(meter.admits(np.ones(1))[0]) for _ in range(1000))      # steps of range 0.1: 10 without delta
19
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from onedraw.ledger.accounting import Budget, float_at_most
from onedraw.types import AnyArray, Array

ROUNDING = 1e-9
"""Lengths and limits are taken against the chain by this relative amount, far above rounding."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Delta(d) of the module docstring; ``multiple`` is c m."""

    multiple: float
    weight: float
    width: float
    slope: float = math.inf

    def __call__(self, length: Array) -> Array:
        """How far a person can move the log ratio of a step of that length."""
        by_length = np.inf if math.isinf(self.slope) else self.slope * (1.0 + ROUNDING) * length
        return np.asarray(self.multiple * self.weight * np.minimum(self.width, by_length) + 0.0 * length)

    @property
    def gradient(self) -> float:
        """How far, in Euclidean distance, a person can move the weighted sum of gradients."""
        return self.multiple * self.weight * self.slope


@dataclass(kw_only=True)
class Filter:
    """A privacy filter over steps of bounded range; ``fresh`` starts a new count."""

    epsilon: float
    order: float
    limit: float
    sensitivity: Callable[[Array], Array]
    """The range of steps by their lengths (m,)."""
    most_steps: int = 1
    pure: Array = field(default_factory=lambda: np.zeros(1))
    renyi: Array = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def planned(cls, *, epsilon: float, delta: float, sensitivity: Callable[[Array], Array]) -> Filter:
        """The filter of a budget, its order fixed in advance."""
        budget = Budget.plan(epsilon=epsilon, delta=delta)
        limit = 0.0 if budget.limit is None else float_at_most(budget.limit)
        return cls(
            epsilon=epsilon * (1.0 - ROUNDING),
            order=budget.order or math.inf,
            limit=limit * (1.0 - ROUNDING),
            sensitivity=sensitivity,
        )

    def fresh(self, most_steps: int, chains: int = 1) -> Filter:
        """The same budget, of which nothing is spent, for each of so many chains."""
        return replace(self, most_steps=most_steps, pure=np.zeros(chains), renyi=np.zeros(chains))

    def admits(self, length: Array) -> AnyArray:
        """Which chains may make a step of that length; those pay for it, and others have stopped for good."""
        loss = self.sensitivity(length)
        pure, renyi = self.pure + loss, self.renyi + self._renyi(loss)
        allowed = (pure <= self.epsilon) | (renyi <= self.limit)
        self.pure = np.where(allowed, pure, np.inf)
        self.renyi = np.where(allowed, renyi, np.inf)
        return np.asarray(allowed)

    def expected_steps(self, length: Array) -> float:
        """About how many steps of such lengths (m,) the budget pays for."""
        loss = self.sensitivity(length)
        by_range = self.epsilon / max(float(loss.mean()), 1e-300)
        return max(by_range, self.limit / max(float(self._renyi(loss).mean()), 1e-300))

    def _renyi(self, loss: Array) -> Array:
        if math.isinf(self.order):
            return np.full(np.shape(loss), np.inf)
        return np.asarray(np.minimum(loss, self.order * np.square(loss) / 8.0))


@dataclass(frozen=True)
class Steps:
    """A number of steps that cost the same each, whatever their length: their noise is scaled to it."""

    most_steps: int

    def admits(self, length: Array) -> AnyArray:
        """All of them; the engine makes no more than ``most_steps``."""
        return np.ones(np.shape(length), dtype=bool)
