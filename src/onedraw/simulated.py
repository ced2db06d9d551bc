# SPDX-License-Identifier: Apache-2.0
"""Features of made-up tables, from public facts alone: numbers, categories, rare levels, correlated columns.

Columns follow a Gaussian copula with one correlation between all of them. In working units a number is
uniform on [-1, 1], and the indicator of a category is -1 or 1.

>>> import numpy as np
>>> design = Design(levels=(0, 3), rare_share=0.05)
>>> features = design.draw(10_000, np.random.default_rng(0))
>>> features.shape, (features[:, 1:] > 0).mean(axis=0).round(2)
((10000, 3), array([0.05, 0.05]))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from onedraw._validate import probability
from onedraw.columns import Columns, Encoding
from onedraw.errors import InvalidInput
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Design:
    """The columns of a table, by their numbers of categories (0 for a number), and how they hang together."""

    levels: tuple[int, ...]
    correlation: float = 0.0
    rare_share: float | None = None
    """The share of people in each category but the first; by default all are as frequent."""

    def __post_init__(self) -> None:
        probability(correlation=self.correlation)
        most = max((count for count in self.levels if count), default=0)
        if self.rare_share is not None and not 0.0 < self.rare_share * max(1, most - 1) < 1.0:
            raise InvalidInput(
                f"Expected the share of a rare category to leave room for others, got {self.rare_share:g} "
                f"where a column has {most} categories."
            )

    @classmethod
    def of(
        cls, columns: Columns, *, correlation: float = 0.0, rare_share: float | None = None
    ) -> tuple[Design, tuple[str, ...]]:
        """The design of a declaration that names its columns, and the names of its features."""
        names = [*(columns.use or columns.columns)]
        if not names:
            raise InvalidInput(
                "The column specification names no column. List them in use, or describe them."
            )
        exposure = () if columns.exposure is None else (columns.exposure,)
        known = [*dict.fromkeys([*names, *columns.ignore, *exposure])]
        target = columns.target.name
        encoding = Encoding.of(columns, known if target is None else [*known, target])
        levels = tuple(len(source.column.categories or ()) for source in encoding.sources)
        return cls(levels=levels, correlation=correlation, rare_share=rare_share), encoding.features

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        """Features in working units, (rows, features)."""
        if not any(self.levels) and not self.correlation:
            return rng.uniform(-1.0, 1.0, (rows, len(self.levels)))
        common = np.sqrt(self.correlation) * rng.standard_normal(rows)
        blocks = []
        for count in self.levels:
            place = special.ndtr(common + np.sqrt(1.0 - self.correlation) * rng.standard_normal(rows))
            if not count:
                blocks.append((2.0 * place - 1.0)[:, None])
                continue
            level = np.searchsorted(np.cumsum(self.shares(count))[:-1], place, side="right")
            blocks.append(np.where(level[:, None] == np.arange(1, count), 1.0, -1.0))
        return np.concatenate([np.empty((rows, 0)), *blocks], axis=1)

    def shares(self, count: int) -> Array:
        """How frequent the categories of a column are, the first being the reference."""
        if self.rare_share is None:
            return np.full(count, 1.0 / count)
        return np.array([1.0 - (count - 1) * self.rare_share, *[self.rare_share] * (count - 1)])
