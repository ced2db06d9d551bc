# SPDX-License-Identifier: Apache-2.0
"""Where a chain may go next.

*The random walk* looks at no record. *Noisy leapfrog steps* [Raisa, Koskela & Honkela 2021] and *Langevin
steps* [Wang, Fienberg & Smola 2015] follow the gradient of the log posterior, seen through Gaussian noise.

Guarantee:
    Let D bound how far, in Euclidean distance, one person can move the gradient (c m w G of ``accounting``).

    A gradient with N(0, (D/mu)^2 I) noise is mu-GDP, and a trajectory of L leapfrog steps looks at L + 1 of
    them, each with fresh noise: sqrt(L + 1) mu. *Invariance.* With noises xi_0, ..., xi_L added to the
    gradients, the map (theta, p, xi_0..xi_L) -> (theta*, -p*, xi_L..xi_0) is an involution that preserves
    volume, as each half kick and drift is a shear, and the law of the noises is invariant under the reversal
    of their order because they are independent of the position and of one law. So a rule with detailed
    balance in u = log ratio of posterior x momentum density leaves the posterior invariant. Noise that is
    used again, or a gradient carried over from the trajectory before, breaks this. []

    A Langevin step theta + (h/2) A^2 gradient + A N(0, h I), A a public diagonal matrix, is a Gaussian
    mechanism: divided by A, its mean moves by at most (h/2) max(A) D, so it is mu-GDP with mu = sqrt(h)
    max(A) D/2. The drift h/2 with noise variance h is what has the posterior as its limit for small h; a
    drift of h with noise h, as in two published codes, has its square.

    A Langevin step that takes every record with probability q, counted 1/q times, is a Poisson-subsampled
    Gaussian mechanism: divided by A, it adds up vectors of length at most C = (h/2) max(A) w G/q, one of each
    record taken, with noise of standard deviation sqrt(h), z = 2 q/(sqrt(h) max(A) w G) times C
    [``onedraw.privacy.subsampled``]. Its gradient is unbiased, so the limit for small h is the same.

>>> move = RandomWalk(scales=np.array([1.0, 2.0])).propose(None, np.zeros((3, 2)), np.random.default_rng(0))
>>> move.states.shape, move.length.shape
((3, 2), (3,))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.chains.engine import Move
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomWalk:
    """A normal step of standard deviations ``scales`` (p,): symmetric, and no look at any record.

    Steps longer than ``longest`` are shrunk to that length, which leaves them symmetric.
    """

    scales: Array
    longest: float = math.inf

    def propose(self, target: Any, states: Array, rng: np.random.Generator) -> Move:
        """Independent steps from each state."""
        step = self.scales * rng.standard_normal(states.shape)
        step /= np.maximum(1.0, np.linalg.norm(step, axis=1, keepdims=True) / self.longest)
        proposed = states + step
        return Move(states=proposed, length=np.linalg.norm(proposed - states, axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyLeapfrog:
    """``count`` leapfrog steps of size ``step`` in units of ``scales`` (p,), with gradient noise
    ``noise``."""

    scales: Array
    step: float
    count: int
    noise: float

    def propose(self, target: Any, states: Array, rng: np.random.Generator) -> Move:
        """A trajectory from each state, with a new momentum."""
        momentum = rng.standard_normal(states.shape)
        start = 0.5 * np.square(momentum).sum(axis=1)
        position = states
        for move in range(self.count + 1):
            size = 0.5 * self.step if move in (0, self.count) else self.step
            momentum = momentum + size * self.scales * self._gradient(target, position, rng)
            if move < self.count:
                position = position + self.step * self.scales * momentum
        return Move(
            states=position,
            length=np.linalg.norm(position - states, axis=1),
            log_correction=start - 0.5 * np.square(momentum).sum(axis=1),
        )

    def _gradient(self, target: Any, position: Array, rng: np.random.Generator) -> Array:
        """One look at the records, with noise of its own."""
        gradient = target.log_density_and_gradient(position)[1]
        return np.asarray(gradient + self.noise * rng.standard_normal(position.shape))


@dataclass(frozen=True, kw_only=True, eq=False)
class Langevin:
    """A step of size h = ``step`` along the gradient with noise of variance h, in units of ``scales`` (p,).

    The gradient is that of all records, or of those that a step takes with probability ``rate``, counted
    1/``rate`` times."""

    step: float
    scales: Array
    rate: float = 1.0

    def propose(self, target: Any, states: Array, rng: np.random.Generator) -> Move:
        """One look at the records from each state."""
        if self.rate < 1.0:
            gradient = target.sampled_gradient(states, self.rate, rng)
        else:
            gradient = target.log_density_and_gradient(states)[1]
        noise = math.sqrt(self.step) * rng.standard_normal(states.shape)
        proposed = states + self.scales * (0.5 * self.step * self.scales * gradient + noise)
        return Move(states=proposed, length=np.linalg.norm(proposed - states, axis=1))
