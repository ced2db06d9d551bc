# SPDX-License-Identifier: Apache-2.0
"""One engine for all private Markov chains: a proposal, an acceptance rule and a meter.

A step proposes a point, asks the meter whether the budget still pays for looking at the records at that
point, and lets the rule decide. What a proposal does with randomness of its own is public; the rule (and, for
gradients, the proposal) is where records are looked at, and each such look is a private release. So the
states of a chain are computed from releases alone, and the *whole* chain is as private as they are together:
several of its states may be published at no further cost.

Guarantee:
    The engine adds no look at the records to those of the proposal and the rule, and makes no step that the
    meter has not admitted. The guarantee of a chain is the composition of its looks, proved where they are
    made (``rules``, ``proposals``) and added up by the meter (``accounting``).

Chains are run as rows of one array, (m, p): m chains of one posterior cost hardly more than one.

>>> import numpy as np
>>> from onedraw.chains.accounting import Steps
>>> from onedraw.chains.proposals import RandomWalk
>>> from onedraw.chains.rules import Barker
>>> target = DiagonalNormal(np.array([2.0]))
>>> chain = run(
...     target,
...     np.zeros((2000, 1)),
...     proposal=RandomWalk(scales=np.array([4.0])),
...     rule=Barker(),
...     meter=Steps(60),
...     rng=np.random.default_rng(0),
... )
>>> bool(abs(chain.states[-1].std() - 2.0) < 0.15), int(chain.steps[0])
(True, 60)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from onedraw.private import Withheld
from onedraw.types import AnyArray, Array


class Target(Protocol):
    """A log density, up to a constant, with its gradient; a ``Posterior`` is one."""

    def log_density(self, thetas: Array) -> Array: ...

    def log_density_and_gradient(self, thetas: Array) -> tuple[Array, Array]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Move(Withheld):
    """Proposed states (m, p), their distances (m,) from the current ones, and what the law of the proposal
    adds to the log ratio of the target."""

    states: Array
    length: Array
    log_correction: Array | float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Withheld):
    """Current and proposed states, and the log ratio of the target that a full pass over the records
    gives."""

    target: Any
    states: Array
    move: Move
    current: Callable[[], Array]

    @cached_property
    def proposed(self) -> Array:
        """The log density (m,) at the proposed states."""
        return np.asarray(self.target.log_density(self.move.states))

    @cached_property
    def log_ratio(self) -> Array:
        """u (m,): log target(proposed) - log target(current), and the correction of the proposal."""
        return np.asarray(self.proposed - self.current() + self.move.log_correction)

    def log_prior_ratio(self, chain: int) -> float:
        """What prior and proposal of one chain's move add to its log ratio: no look at the records."""
        correction = np.broadcast_to(self.move.log_correction, self.move.length.shape)[chain]
        after, before = self.target.prior.log_density(self._ends(chain))
        return float(after - before + correction)

    def record_log_ratios(self, chain: int, rows: AnyArray) -> Array:
        """What each of some records adds to the log ratio of one chain's move."""
        after, before = self.target.record_losses(self._ends(chain), rows)
        return np.asarray(self.target.weight * (before - after))

    def _ends(self, chain: int) -> Array:
        return np.stack([self.move.states[chain], self.states[chain]])

    @property
    def looked(self) -> bool:
        """Whether the rule has made a full pass."""
        return "proposed" in self.__dict__


class Proposal(Protocol):
    """Where to go next."""

    def propose(self, target: Any, states: Array, rng: np.random.Generator) -> Move: ...


class Rule(Protocol):
    """Whether to go there."""

    def accepts(self, comparison: Comparison, rng: np.random.Generator) -> AnyArray:
        """Which of the moves (m,) are made."""


class Meter(Protocol):
    """What the budget pays for. A meter belongs to one run, and counts."""

    @property
    def most_steps(self) -> int: ...

    def admits(self, length: Array) -> AnyArray:
        """Which chains (m,) may make a step of that length, which is charged to those that may."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Trajectory(Withheld):
    """All states (t + 1, m, p) of m chains, the start first, and how many steps (m,) each was allowed."""

    states: Array
    steps: AnyArray


def run(
    target: Any,
    start: Array,
    *,
    proposal: Proposal,
    rule: Rule,
    meter: Meter,
    rng: np.random.Generator,
) -> Trajectory:
    """Chains from the rows of ``start`` (m, p), until the meter stops the last of them."""
    states = np.array(start, dtype=np.float64)
    visited = [states]
    steps = np.zeros(len(states), dtype=np.int64)
    heights: Array | None = None
    for _ in range(meter.most_steps):
        move = proposal.propose(target, states, rng)
        allowed = meter.admits(move.length)
        if not allowed.any():
            break

        def current(known: Array | None = heights, at: Array = states) -> Array:
            return np.asarray(target.log_density(at)) if known is None else known

        comparison = Comparison(target=target, states=states, move=move, current=current)
        moved = allowed & rule.accepts(comparison, rng)
        states = np.where(moved[:, None], move.states, states)
        if comparison.looked:  # a full pass serves the next step too
            heights = np.where(moved, comparison.proposed, current())
        visited.append(states)
        steps += allowed
    return Trajectory(states=np.array(visited), steps=steps)


@dataclass(frozen=True, eq=False)
class DiagonalNormal:
    """N(0, diag(sds^2)): what chains are tuned on, as large posteriors look like it."""

    sds: Array

    def log_density(self, thetas: Array) -> Array:
        """Up to a constant."""
        return np.asarray(-0.5 * np.square(thetas / self.sds).sum(axis=1))

    def log_density_and_gradient(self, thetas: Array) -> tuple[Array, Array]:
        """The same, and its gradient (m, p)."""
        return self.log_density(thetas), np.asarray(-thetas / np.square(self.sds))

    def sampled_gradient(self, thetas: Array, rate: float, rng: np.random.Generator) -> Array:
        """The gradient: there are no records to sample."""
        return self.log_density_and_gradient(thetas)[1]
