# SPDX-License-Identifier: Apache-2.0
"""Cells of declared categories: all combinations of the categories of one or several columns.

A column with K categories stands in a row as K - 1 indicators, each with one number where the category is met
and another where it is not (``Indicators``). A cell therefore determines all of them, and a record is in one
cell. What varies from cell to cell is written in orthonormal contrasts, in which no category is singled out:
log shares have a main effect of every column and an interaction of every pair, means a main effect.

>>> cells = Cells.of((Indicators.of_range(3), Indicators.of_range(2)))
>>> cells.values.astype(int).tolist()            # the reference is -1 in all indicators of its column
[[-1, -1, -1], [-1, -1, 1], [1, -1, -1], [1, -1, 1], [-1, 1, -1], [-1, 1, 1]]
>>> cells.effects.shape, cells.pairs.shape
((6, 3), (6, 2))
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families.categorical import contrast_basis
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Indicators:
    """How one column of categories stands in a row, its reference left out.

    off, on: the numbers of the indicator of each other category, where it is not met and where it is.
    """

    off: tuple[float, ...]
    on: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.off) != len(self.on) or not self.off:
            raise InvalidInput(
                f"Expected as many numbers on as off, at least one, got {len(self.on)} and {len(self.off)}."
            )

    @classmethod
    def of_range(cls, levels: int) -> Indicators:
        """Indicators of 0 and 1 with their declared range, which working rows have as -1 and 1."""
        return cls(off=(-1.0,) * (levels - 1), on=(1.0,) * (levels - 1))

    @property
    def levels(self) -> int:
        return len(self.off) + 1

    @property
    def values(self) -> Array:
        """The numbers (K, K - 1) of each category, the reference first."""
        out = np.tile(self.off, (self.levels, 1))
        np.fill_diagonal(out[1:], self.on)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """All combinations of the categories of some columns; one cell if there is no column."""

    values: Array  # (C, indicators)
    effects: Array  # (C, sum of K - 1): contrasts of every column
    pairs: Array  # (C, ...): products of contrasts of every pair of columns

    @classmethod
    def of(cls, columns: tuple[Indicators, ...]) -> Cells:
        return _cells(columns)

    def __len__(self) -> int:
        return len(self.values)


@lru_cache(maxsize=16)
def _cells(columns: tuple[Indicators, ...]) -> Cells:
    where = np.array(list(itertools.product(*(range(c.levels) for c in columns))), dtype=np.intp)
    count = len(where)

    def joined(parts: list[Array]) -> Array:
        return np.concatenate([np.zeros((count, 0)), *parts], axis=1)

    places = [where[:, k] for k in range(len(columns))]
    effects = [contrast_basis(c.levels)[place] for c, place in zip(columns, places, strict=True)]
    products = [
        (one[:, :, None] * other[:, None, :]).reshape(count, -1)
        for one, other in itertools.combinations(effects, 2)
    ]
    return Cells(
        values=joined([c.values[place] for c, place in zip(columns, places, strict=True)]),
        effects=joined(effects),
        pairs=joined(products),
    )
