# SPDX-License-Identifier: Apache-2.0
"""Where the intercept, the plain columns and the indicators of categories stand in the rows of a release.

>>> layout = Layout(intercept=3, categories=(((0, 2), Indicators.of_range(3)),))
>>> layout.order(4).tolist()                   # the intercept, the plain column, then the indicators
[3, 1, 0, 2]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.inference.cells import Indicators
from onedraw.inference.moments import MomentSpace
from onedraw.inference.space import RowSpace
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Public facts about the columns of the rows.

    intercept: its position in a row, None without one.
    categories: of each column of categories the positions of its indicators, and their numbers. They sum to
        the intercept, so there must be one.
    """

    intercept: int | None = 0
    categories: tuple[tuple[tuple[int, ...], Indicators], ...] = ()

    def check(self, size: int) -> None:
        """Complain of positions that rows of this size do not have."""
        if self.intercept is not None and not 0 <= self.intercept < size:
            raise InvalidInput(
                f"Expected intercept to be None or a position < {size}, got {self.intercept!r}."
            )
        places = [place for each, _ in self.categories for place in each]
        taken = [*places, *([] if self.intercept is None else [self.intercept])]
        fits = all(len(each) == indicators.levels - 1 for each, indicators in self.categories)
        if not fits or len(set(taken)) < len(taken) or not all(0 <= place < size for place in places):
            raise InvalidInput(
                f"Expected categories to have positions of their own < {size}, one for each indicator, got "
                f"{[each for each, _ in self.categories]!r}."
            )
        if places and self.intercept is None:
            raise InvalidInput("Expected an intercept beside categories, which sum to it, got none.")

    def order(self, size: int, *, predictors: int = 1) -> Array:
        """The positions in a row of this size: the intercept, plain columns, indicators by column.

        Parameters of several predictors stand one predictor after another, each in this order.
        """
        last = [place for each, _ in self.categories for place in each]
        first = [] if self.intercept is None else [self.intercept]
        row = np.array([*first, *(j for j in range(size) if j not in {*first, *last}), *last])
        return np.asarray(size * np.arange(predictors)[:, None] + row).ravel()

    def space(self, size: int, *, count_sd: float) -> RowSpace:
        """The laws of rows of this size, in that order."""
        indicators = tuple(each for _, each in self.categories)
        dim = size - sum(each.levels - 1 for each in indicators)
        plain = MomentSpace(dim=dim, intercept=self.intercept is not None, count_sd=count_sd)
        return RowSpace(plain=plain, categories=indicators)
