# SPDX-License-Identifier: Apache-2.0
"""Private quantiles on a public grid: the exponential mechanism with a public base measure.

A grid point t is published with probability proportional to base(t) exp(-(epsilon/(2 D)) |N(t) - tau n|),
N(t) the number of values <= t and n the number of values [McSherry & Talwar 2007].

Guarantee:
    epsilon-DP for values that are each a function of one record (and of public numbers), under ``neighbours``
    and for ``rows_per_person`` = m, with D = m for replace-one and D = m max(tau, 1 - tau) for add/remove.
    The number of records may be private.

*Proof.* Let a person's r <= m values include c that are <= t. Adding them moves N(t) - tau n by c - tau r, in
[-tau m, (1 - tau) m]: by at most m max(tau, 1 - tau). Replacing them by others moves it by the difference of
two such numbers, at most m. So each exponent moves by at most epsilon/2, and so does the logarithm of their
sum over the grid. []

The base measure says where to land if the data say nothing; without it a failing stage would choose among
grid points of any size with equal probability.

>>> import numpy as np
>>> values = np.random.default_rng(0).exponential(size=4000)
>>> float(quantile(values, 2.0 ** np.arange(-9, 9), tau=0.5, epsilon=1.0, rng=np.random.default_rng(1)))
0.5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from onedraw._validate import one_of, positive, whole
from onedraw.errors import InvalidInput
from onedraw.private import Withheld
from onedraw.types import AnyArray, Array, Neighbours

SIZES: Array = np.array([0.0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128])
MEDIAN_OF_NORMAL = 0.6744897501960817
RESIDUAL_STEPS = (-160, 16)
RESIDUAL_DECAY = 0.9**0.25
"""The grid of residual scales, in sixteenths of an octave from the scale of the response, and its base
measure: a tenth less for each quarter octave."""


class Noise(Protocol):
    """What a choice draws its noise from: a generator, or numbers that were drawn before."""

    def gumbel(self, *, size: int) -> Array: ...

    def random(self) -> float: ...


class Drawn(Withheld):
    """The noise of choices that are foreseen: after ``again`` the same numbers, for as many candidates."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._held, self._next = rng, list[Array](), 0

    def again(self) -> Drawn:
        self._next = 0
        return self

    def gumbel(self, *, size: int) -> Array:
        if self._next < len(self._held) and len(self._held[self._next]) != size:
            del self._held[self._next :]
        if self._next == len(self._held):
            self._held.append(self._rng.gumbel(size=size))
        self._next += 1
        return self._held[self._next - 1]

    def random(self) -> float:
        return self._rng.random()


def sensitivity(tau: float, neighbours: Neighbours, rows_per_person: int) -> float:
    """D: by how much one person moves N(t) - tau n."""
    one_of(("replace_one", "add_remove"), neighbours=neighbours)
    rows = whole(rows_per_person=rows_per_person)
    return rows * (1.0 if neighbours == "replace_one" else max(tau, 1.0 - tau))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The exponential mechanism for counts that should be ``tau`` of the number of values."""

    tau: float
    epsilon: float
    neighbours: Neighbours = "replace_one"
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        if not 0.0 < self.tau < 1.0:
            raise InvalidInput(f"Expected 0 < tau < 1, got tau={self.tau!r}.")
        sensitivity(self.tau, self.neighbours, self.rows_per_person)

    def log_weights(self, counts: AnyArray, num_values: int, log_base: Array) -> Array:
        """The logarithm of each candidate's probability, up to a constant. Private."""
        rate = 0.5 * self.epsilon / sensitivity(self.tau, self.neighbours, self.rows_per_person)
        return np.asarray(log_base - rate * np.abs(counts - self.tau * num_values))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Counted(Withheld):
    """All that a quantile needs of values that lie anywhere: N(t) for each t of its grid, and how many."""

    up_to: AnyArray
    num_values: int


def quantile(
    values: Array | Counted,
    grid: Array,
    *,
    tau: float,
    epsilon: float,
    rng: Noise,
    log_base: Array | None = None,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
) -> float:
    """A point of the increasing ``grid`` near the tau-quantile of the values."""
    choice = Choice(tau=tau, epsilon=epsilon, neighbours=neighbours, rows_per_person=rows_per_person)
    base = np.zeros(len(grid)) if log_base is None else log_base
    if not isinstance(values, Counted):
        values = Counted(up_to=counts_up_to(values, grid), num_values=len(values))
    return float(grid[drawn(choice.log_weights(values.up_to, values.num_values, base), rng)])


def counts_up_to(values: Array, grid: Array) -> AnyArray:
    """N(t): the number of values <= t for each t of an increasing grid, in one pass without sorting."""
    first_above = np.searchsorted(grid, values, side="left")
    return np.cumsum(np.bincount(first_above, minlength=len(grid) + 1)[:-1])


def drawn(log_weights: Array, rng: Noise) -> int:
    """An index with probability proportional to exp(log_weights): the largest after Gumbel noise."""
    return int(np.argmax(log_weights + rng.gumbel(size=len(log_weights))))


@dataclass(frozen=True)
class SizeCounts:
    """A kernel: N(t) of the responses of a block at each size."""

    def __call__(self, block: Any) -> tuple[AnyArray]:
        return (counts_up_to(block.response, SIZES),)


def size_of_counts(
    response: Array | Counted,
    *,
    epsilon: float,
    rng: Noise,
    tau: float,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
) -> int:
    """A size near the tau-quantile of counts; small ones are favoured: one too large is all noise."""
    return int(
        quantile(
            response,
            SIZES,
            tau=tau,
            epsilon=epsilon,
            rng=rng,
            log_base=-2.0 * np.log(np.maximum(SIZES, 1.0)),
            neighbours=neighbours,
            rows_per_person=rows_per_person,
        )
    )


def spread_grid(scale: float) -> Array:
    """Sizes of residuals whose median is looked for."""
    steps = np.arange(RESIDUAL_STEPS[0], RESIDUAL_STEPS[1] + 1)
    return np.asarray(MEDIAN_OF_NORMAL * scale * 2.0 ** (steps / 16.0))


def spread_of_residuals(
    residuals: Array | Counted,
    scale: float,
    *,
    epsilon: float,
    rng: Noise,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
) -> float:
    """A standard deviation (at the normal) of residuals, from the median of their sizes, below ``scale``."""
    steps = np.arange(RESIDUAL_STEPS[0], RESIDUAL_STEPS[1] + 1)
    found = quantile(
        residuals if isinstance(residuals, Counted) else np.abs(residuals),
        spread_grid(scale),
        tau=0.5,
        epsilon=epsilon,
        rng=rng,
        log_base=np.log(RESIDUAL_DECAY) * np.abs(steps),
        neighbours=neighbours,
        rows_per_person=rows_per_person,
    )
    return found / MEDIAN_OF_NORMAL
