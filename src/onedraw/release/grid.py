# SPDX-License-Identifier: Apache-2.0
"""The public grid of released numbers: their last bits say nothing about how they were computed.

A double carries 52 bits, and the last of them can betray how a number was computed. Released numbers are
therefore rounded to multiples of a public step: 2^-40 of the prior scale (rounded to a power of two) for
coefficients, 2^-40 of the floor for a residual scale (rounded up, so that it never falls below its floor).
That is a millionth of a standard error even at n = 1e10, so it costs no accuracy, and it drops the 12 or more
lowest bits of every number up to the prior scale, and one bit less for each doubling above it.

Edge cases:
    A number that is infinite or NaN lies on no grid. A negative zero is rounded to a positive one.

>>> spacing = coefficient_step(3.0)
>>> spacing == 2.0 ** -38
True
>>> import numpy as np
>>> grid = Grid(coefficient=spacing)
>>> grid.holds(np.array([[1 / 3]])), grid.holds(grid.round(np.array([[1 / 3]])))
(False, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.types import Array

GRID_BITS = 40


def coefficient_step(prior_scale: float) -> float:
    """The public spacing of released coefficients, a power of two."""
    return _power_of_two(prior_scale)


def scale_step(scale_floor: float) -> float:
    """The public spacing of released residual scales, a power of two."""
    return _power_of_two(scale_floor)


def _power_of_two(unit: float) -> float:
    exponent = round(math.log2(unit)) - GRID_BITS
    return math.ldexp(1.0, max(exponent, -1022))  # never so small that it underflows


def _check_step(**named: float) -> None:
    ((name, step),) = named.items()
    if not isinstance(step, float) or not 0.0 < step < math.inf or math.frexp(step)[0] != 0.5:
        raise InvalidInput(f"Expected {name} to be a power of two, got {name}={step!r}.")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The public grid that released numbers lie on, in working units."""

    coefficient: float
    scale: float | None = None

    def __post_init__(self) -> None:
        _check_step(coefficient=self.coefficient)
        if self.scale is not None:
            _check_step(scale=self.scale)

    def round(self, draws: Array) -> Array:
        """Draws (k, p) moved to the grid; the last column is the scale if the grid has one for it."""
        rounded = np.rint(draws / self.coefficient) * self.coefficient + 0.0  # no negative zero
        if self.scale is not None:
            rounded[:, -1] = np.ceil(draws[:, -1] / self.scale) * self.scale
        return rounded

    def holds(self, draws: Array) -> bool:
        """Whether every number of draws (k, p) lies on the grid."""
        if not np.isfinite(draws).all():
            return False
        steps = np.full(draws.shape[1], self.coefficient)
        if self.scale is not None:
            steps[-1:] = self.scale
        return bool((np.remainder(draws, steps) == 0.0).all())
