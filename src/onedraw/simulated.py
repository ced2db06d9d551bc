# SPDX-License-Identifier: Apache-2.0
"""Made-up tables, from public facts alone: numbers, categories, rare levels, correlated columns, exposures.

Columns follow a Gaussian copula with one correlation between all of them. A number is uniform on [-1, 1], and
the indicator of a category is 0 or 1. Where the real columns are declared, so are the made-up ones, and the
estimator gets them as it gets the real ones: a declaration, and a table of columns. Then the mechanism is the
one that the real table meets.

>>> import numpy as np
>>> design = Design(levels=(0, 3), declared=True, rare_share=0.05)
>>> features = design.draw(10_000, np.random.default_rng(0))
>>> features.shape, features[:, 1:].mean(axis=0).round(2)
((10000, 3), array([0.05, 0.05]))
>>> [*design.table(features)], design.columns.columns["x1"].categories
(['x0', 'x1'], ('0', '1', '2'))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from onedraw._validate import probability
from onedraw.columns import Columns, Encoding, indicators
from onedraw.errors import InvalidInput
from onedraw.model import Bounds
from onedraw.types import AnyArray, Array

EXPOSURE = "exposure"
NUMBER = (-1.0, 1.0)
"""What a simulated number fills."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """The columns of a table, by their numbers of categories (0 for a number), and how they hang together."""

    levels: tuple[int, ...]
    declared: bool = False
    """Whether ranges and categories are declared to the estimator, which otherwise gets plain features."""
    titles: tuple[str, ...] = ()
    """The names of declared columns, which messages about a fit quote; without them they are made up."""
    exposures: Bounds | None = None
    """The range of a column of exposures, where there is one."""
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
    def like(cls, features: Sequence[str], bounds: Sequence[Bounds] | None, **more: Any) -> Design:
        """The design of a model by the names of its features and their declared bounds, if there are any.

        Neighbouring features that are named as indicators of one column, and have no other bounds than 0 and
        1, are its categories; everything else counts as a number.
        """
        held = {
            places[0]: (name, len(places))
            for name, places in indicators(features, bounds).items()
            if places == tuple(range(places[0], places[-1] + 1))
        }
        within = {first + step for first, (_, count) in held.items() for step in range(1, count)}
        found = [
            held.get(place, (features[place], 0)) for place in range(len(features)) if place not in within
        ]
        # What no declaration could have as the name of a column is replaced.
        titles = tuple(
            f"x{i}" if ("=" in title if count else indicators([title])) else title
            for i, (title, count) in enumerate(found)
        )
        if len({*titles, EXPOSURE}) <= len(titles):
            titles = ()
        levels = tuple(count + 1 if count else 0 for _, count in found)
        return cls(levels=levels, declared=bounds is not None, titles=titles, **more)

    @classmethod
    def of(cls, columns: Columns, **more: Any) -> Design:
        """The design of a declaration that names its columns."""
        names = [*(columns.use or columns.columns)]
        if not names:
            raise InvalidInput(
                "The column specification names no column. List them in use, or describe them."
            )
        exposure = () if columns.exposure is None else (columns.exposure,)
        known = [*dict.fromkeys([*names, *columns.ignore, *exposure])]
        target = columns.target.name
        encoding = Encoding.of(columns, known if target is None else [*known, target])
        return cls.like(encoding.features, encoding.feature_bounds, **more)

    @property
    def num_features(self) -> int:
        return len(self.is_indicator)

    @property
    def is_indicator(self) -> AnyArray:
        """(features,)."""
        return np.array(self._of_features([count > 0 for count in self.levels]), dtype=bool)

    @property
    def sizes(self) -> Array:
        """Standard deviations (features,) of coefficients that give the predictor about one of 1.

        Every column has its share of the variance, as if all were independent and categories as frequent as
        one another. A number has variance 1/3; the coefficients of K categories, the first of them 0, differ
        with (1 - 1/K)^2 times their variance.
        """
        spread = [1.0 - 1.0 / count if count else np.sqrt(1.0 / 3.0) for count in self.levels]
        return np.asarray(1.0 / (np.sqrt(len(self.levels)) * np.array(self._of_features(spread))))

    def _of_features(self, values: Sequence[Any]) -> list[Any]:
        """What holds for each column, for each of its features."""
        pairs = zip(values, self.levels, strict=True)
        return [value for value, count in pairs for _ in range(max(1, count - 1))]

    # -- what the estimator gets

    @property
    def columns(self) -> Columns | None:
        """The declaration of the simulated columns; None where nothing is declared."""
        if not self.declared and self.exposures is None:
            return None
        facts: dict[str, Any] = {} if self.exposures is None else {EXPOSURE: self.exposures}
        if self.declared:
            for name, count in zip(self._names, self.levels, strict=True):
                facts[name] = [str(level) for level in range(count)] if count else NUMBER
        return Columns(facts, exposure=None if self.exposures is None else EXPOSURE)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all columns."""
        return self._names if self.exposures is None else (*self._names, EXPOSURE)

    @property
    def _names(self) -> tuple[str, ...]:
        """Of the columns of features; where nothing is declared, indicators are columns of numbers."""
        if self.declared and self.titles:
            return self.titles
        return tuple(f"x{i}" for i in range(len(self.levels) if self.declared else self.num_features))

    def table(self, features: Array, exposure: Array | None = None) -> Any:
        """The table that the estimator gets: columns by name where they are declared."""
        if self.columns is None:
            return features
        levels = self.levels if self.declared else (0,) * self.num_features
        found, place = {}, 0
        for name, count in zip(self._names, levels, strict=True):
            block = features[:, place : place + max(1, count - 1)]
            found[name] = block @ np.arange(1, count) if count else block[:, 0]
            place += block.shape[1]
        return found if exposure is None else {**found, EXPOSURE: exposure}

    # -- drawing

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        """Features (rows, features): numbers in [-1, 1], indicators of 0 or 1."""
        if not any(self.levels) and not self.correlation:
            return rng.uniform(*NUMBER, (rows, len(self.levels)))
        common = np.sqrt(self.correlation) * rng.standard_normal(rows)
        blocks = []
        for count in self.levels:
            place = special.ndtr(common + np.sqrt(1.0 - self.correlation) * rng.standard_normal(rows))
            if not count:
                blocks.append((2.0 * place - 1.0)[:, None])
                continue
            level = np.searchsorted(np.cumsum(self.shares(count))[:-1], place, side="right")
            blocks.append((level[:, None] == np.arange(1, count)).astype(np.float64))
        return np.concatenate([np.empty((rows, 0)), *blocks], axis=1)

    def shares(self, count: int) -> Array:
        """How frequent the categories of a column are, the first being the reference."""
        if self.rare_share is None:
            return np.full(count, 1.0 / count)
        return np.array([1.0 - (count - 1) * self.rare_share, *[self.rare_share] * (count - 1)])
