# SPDX-License-Identifier: Apache-2.0
"""How a release was made, and further released numbers beside its draws.

``Made`` names the mechanism, with its options and the numbers that calibration solved for: all of it public
before any record was read. A ``Statistic`` is a list of private numbers that the mechanism released with the
draws, such as a noisy curvature; like the draws they lie on a public grid, and no other can be made.

>>> Made(name="one_posterior", options={"beta": "auto"}, numbers={"beta": 2.0}).numbers["beta"]
2.0
>>> Statistic.rounded([0.1, 0.2], unit=1.0).step == 2.0**-40
True
>>> Statistic(values=(0.1,), step=0.25)
Traceback (most recent call last):
onedraw.errors.InvalidInput: A statistic lies off its public grid, so it may not leave. Round it first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.release.grid import Grid, coefficient_step
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Made:
    """The mechanism behind a release: its registered name, its options, and what calibration solved for."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidInput("Expected the name of a mechanism to be text.")
        for values in (self.options, self.numbers):
            if not all(isinstance(key, str) and is_plain(value) for key, value in values.items()):
                raise InvalidInput("Expected the options and numbers of a mechanism to be plain values.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"name": self.name, "options": _listed(self.options), "numbers": _listed(self.numbers)}

    @classmethod
    def from_dict(cls, values: Any) -> Made:
        """The inverse of ``to_dict``."""
        return cls(name=values["name"], options=dict(values["options"]), numbers=dict(values["numbers"]))


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """Released numbers, multiples of a public ``step``."""

    values: tuple[float, ...]
    step: float

    def __post_init__(self) -> None:
        if not Grid(coefficient=self.step).holds(np.array([self.values], dtype=np.float64)):
            raise InvalidInput("A statistic lies off its public grid, so it may not leave. Round it first.")

    @classmethod
    def rounded(cls, values: Sequence[float] | Array, *, unit: float) -> Statistic:
        """The values moved to multiples of 2^-40 of a public unit."""
        grid = Grid(coefficient=coefficient_step(unit))
        rounded = grid.round(np.asarray(values, dtype=np.float64).reshape(1, -1))
        return cls(values=tuple(rounded[0].tolist()), step=grid.coefficient)

    def array(self) -> Array:
        """(m,)"""
        return np.array(self.values)


def is_plain(value: Any) -> bool:
    """Whether a value can be written to a release file."""
    if isinstance(value, tuple | list):
        return all(is_plain(part) for part in value)
    return value is None or isinstance(value, str | bool | int | float)


def _listed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
