# SPDX-License-Identifier: Apache-2.0
"""The columns of categories of a release, as the inference describes them; and those that it cannot.

The indicators of one column exclude one another, so with the intercept they nearly determine the reference:
with K equally common categories the smallest eigenvalue of the moments of working rows is 0.13 at K = 4,
0.063 at 5, 0.0125 at 8, and it falls with the share of the reference. A prior of correlations holds that for
unlikely, and noise that is larger than the eigenvalue leaves it to the prior: intervals held the truth in 0.84
of 100 cases with K = 5 and in 0.64 of 160 with 8. So columns of ``FEWEST_LEVELS`` categories and more are
described by cells (``inference.cells``), those with most categories first, up to ``MOST_CELLS`` cells. The
others are features like any others up to ``MOST_LEVELS`` categories, and refused above.

All of it is public and stands in a release: the names of its features, their bounds, and its units.

Edge cases:
    Only declared categories are seen. Indicators that were made beforehand are features like any others.
    Without an intercept no column is described by cells, as nothing says what its indicators sum to.
"""

from __future__ import annotations

from typing import Any

from onedraw.columns import indicators
from onedraw.inference.cells import Indicators
from onedraw.types import Array

FEWEST_LEVELS = 3
MOST_CELLS = 200
MOST_LEVELS = 4
"""Categories of a column up to which intervals were seen to cover where it is not described by cells."""


def described(model: Any) -> dict[str, tuple[int, ...]]:
    """The columns that are described by cells, with the places of their indicators."""
    found, cells = {}, 1
    if not model.fit_intercept:
        return {}
    for name, places in sorted(indicators(model.features).items(), key=lambda each: -len(each[1])):
        levels = len(places) + 1
        if levels >= FEWEST_LEVELS and cells * levels <= MOST_CELLS:
            found[name], cells = places, cells * levels
    return found


def categories_of(model: Any, units: Array) -> tuple[tuple[tuple[int, ...], Indicators], ...]:
    """Those columns as ``inference.Layout`` has them; ``units`` (features,) are those of rows without bounds.

    >>> import numpy as np
    >>> from onedraw.families import Bernoulli
    >>> from onedraw.model import RegressionModel
    >>> model = RegressionModel(
    ...     family=Bernoulli(), features=("a=2 (vs 1)", "a=3 (vs 1)"), feature_bounds=((0.0, 1.0),) * 2)
    >>> categories_of(model, np.ones(2))
    (((0, 1), Indicators(off=(-1.0, -1.0), on=(1.0, 1.0))),)
    """
    bounds = model.feature_bounds

    def at(place: int, value: float) -> float:
        if bounds is None:
            return float(value * units[place])
        low, high = bounds[place]
        return float((2.0 * value - low - high) / (high - low))

    return tuple(
        (
            places,
            Indicators(off=tuple(at(p, 0.0) for p in places), on=tuple(at(p, 1.0) for p in places)),
        )
        for places in described(model).values()
    )


def too_many_levels(model: Any) -> str:
    """Why a column keeps a fit from having intervals; empty if none does."""
    kept = described(model)
    rest = {name: len(p) + 1 for name, p in indicators(model.features).items() if name not in kept}
    levels = max(rest.values(), default=0)
    if levels <= MOST_LEVELS:
        return ""
    name = max(rest, key=lambda each: rest[each])
    if not model.fit_intercept:
        return (
            f"Column {name!r} has {levels} categories: with more than {MOST_LEVELS} intervals need an "
            "intercept, which their indicators sum to."
        )
    return (
        f"Column {name!r} has {levels} categories: with those of the other columns they make more than the "
        f"{MOST_CELLS} combinations for which intervals can be computed."
    )
