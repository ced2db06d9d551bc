# SPDX-License-Identifier: Apache-2.0
"""Hamiltonian Monte Carlo for many densities at once, with many chains each, in plain NumPy.

Releases (and chains) are one batch: the density is called once per leapfrog step for all of them. Each
release has its own step size (dual averaging of the mean acceptance of its chains [Hoffman & Gelman 2014])
and its own diagonal metric, from the draws of all its chains in the first half of the warm-up. The number of
leapfrog steps is random, so no chain resonates. Everything follows from the generator: one seed, the same
draws.

>>> import numpy as np
>>> def normal(x):
...     return -0.5 * (x * x).sum(1), -x
>>> out = sample(normal, np.zeros((1, 8, 2)), np.ones((1, 2)), Schedule(), np.random.default_rng(0))
>>> out.draws.shape, bool(abs(out.draws.std() - 1.0) < 0.1)
((1, 40, 8, 2), True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onedraw.types import Array

Density = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Lengths of the two halves of the warm-up and of the run, and the leapfrog steps of a proposal."""

    first: int = 40
    second: int = 30
    kept: int = 40
    steps: tuple[int, int] = (6, 14)
    acceptance: float = 0.8


@dataclass(frozen=True, kw_only=True)
class Chains:
    """Draws (releases, kept, chains, size) and the mean acceptance of the kept part (releases,)."""

    draws: Array
    acceptance: Array

    def r_hat(self) -> Array:
        """The potential scale reduction of every coordinate (releases, size) [Gelman & Rubin 1992]."""
        within = self.draws.var(axis=1, ddof=1).mean(axis=1)
        between = self.draws.mean(axis=1).var(axis=1, ddof=1)
        kept = self.draws.shape[1]
        return np.asarray(np.sqrt((kept - 1.0) / kept + between / np.maximum(within, 1e-300)))


class _StepSizes:
    """Dual averaging, one step size per release."""

    def __init__(self, releases: int, start: float, target: float) -> None:
        self.target = target
        self.centre = np.full(releases, np.log(10.0 * start))
        self.log_step = np.full(releases, np.log(start))
        self.average, self.error, self.count = self.log_step.copy(), np.zeros(releases), 0

    def update(self, acceptance: Array) -> None:
        self.count += 1
        share = 1.0 / (self.count + 10.0)
        self.error = (1.0 - share) * self.error + share * (self.target - acceptance)
        self.log_step = self.centre - np.sqrt(self.count) / 0.05 * self.error
        weight = self.count**-0.75
        self.average = weight * self.log_step + (1.0 - weight) * self.average


def sample(
    density: Density, start: Array, variance: Array, schedule: Schedule, rng: np.random.Generator
) -> Chains:
    """Chains from ``start`` (releases, chains, size) with first guesses ``variance`` (releases, size).

    ``density`` maps (releases * chains, size), release by release, to log densities and gradients.
    """
    releases, chains, size = start.shape
    state = _State(density, start)
    sizes = _StepSizes(releases, 0.3 / size**0.25, schedule.acceptance)
    seen = []
    for i in range(schedule.first):
        sizes.update(state.move(np.exp(sizes.log_step), variance, schedule.steps, rng))
        if i >= schedule.first // 2:
            seen.append(state.place.copy())
    stacked = np.stack(seen, axis=1).reshape(releases, -1, size)
    draws_seen = stacked.shape[1]
    variance = (draws_seen * stacked.var(axis=1) + 5.0 * variance) / (draws_seen + 5.0)
    sizes = _StepSizes(releases, 0.5 / size**0.25, schedule.acceptance)
    for _ in range(schedule.second):
        sizes.update(state.move(np.exp(sizes.log_step), variance, schedule.steps, rng))
    kept, accepted = np.empty((releases, schedule.kept, chains, size)), np.zeros(releases)
    for i in range(schedule.kept):
        accepted += state.move(np.exp(sizes.average), variance, schedule.steps, rng)
        kept[:, i] = state.place
    return Chains(draws=kept, acceptance=accepted / schedule.kept)


class _State:
    """The chains' places with their log densities and gradients."""

    def __init__(self, density: Density, start: Array) -> None:
        self.density, self.place = density, start
        self.value, self.gradient = self._at(start)

    def _at(self, place: Array) -> tuple[Array, Array]:
        releases, chains, size = place.shape
        with np.errstate(all="ignore"):  # a diverging proposal overflows, and is rejected
            value, gradient = self.density(place.reshape(-1, size))
        return value.reshape(releases, chains), gradient.reshape(place.shape)

    def move(self, step: Array, variance: Array, steps: tuple[int, int], rng: np.random.Generator) -> Array:
        """One proposal for every chain; the mean acceptance probability of each release."""
        spread = np.sqrt(variance)[:, None, :]
        size = step[:, None, None] * spread
        momentum = rng.standard_normal(self.place.shape)
        energy = self.value - 0.5 * (momentum**2).sum(2)
        place, gradient = self.place, self.gradient
        with np.errstate(all="ignore"):
            momentum = momentum + 0.5 * size * gradient
            count = int(rng.integers(steps[0], steps[1] + 1))
            for i in range(count):
                place = place + size * momentum
                value, gradient = self._at(place)
                momentum = momentum + (0.5 if i == count - 1 else 1.0) * size * gradient
            change = value - 0.5 * (momentum**2).sum(2) - energy
        change = np.where(np.isfinite(change), change, -np.inf)
        probability = np.exp(np.minimum(change, 0.0))
        accept = rng.random(probability.shape) < probability
        self.place = np.where(accept[:, :, None], place, self.place)
        self.gradient = np.where(accept[:, :, None], gradient, self.gradient)
        self.value = np.where(accept, value, self.value)
        return np.asarray(probability.mean(1))
