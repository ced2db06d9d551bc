# SPDX-License-Identifier: Apache-2.0
"""The columns of categories of a release, as the inference describes them; and those that it cannot.

The indicators of one column exclude one another, so with the intercept they nearly determine the reference:
with K equally common categories the smallest eigenvalue of the moments of rows of indicators is 0.13 at K =
4, 0.063 at 5, 0.0125 at 8, and it falls with the share of the reference. A prior of correlations holds that
for unlikely, and noise that is larger than the eigenvalue leaves it to the prior: intervals of releases of
such rows held the truth in 0.84 of 100 cases with K = 5 and in 0.64 of 160 with 8. So columns of
``FEWEST_LEVELS`` categories and more are described by cells (``inference.cells``), those with most of them
first, as far as was measured. The others are features like any others up to ``MOST_LEVELS`` categories, and
refused above; so is what has not been measured with more: families beyond ``STUDIED``, robust errors, and
products with indicators. Where rows have an entry for every category (``tilted.one_hot``: bounds are
declared, one predictor, no robust errors), noise hides nothing of the kind, and more was measured; ``apart``
says so, of the release that is read or, by default, of one that would be made.

All of it is public and stands in a release: the names of its features, their bounds, and its units.

Edge cases:
    Only declared categories are seen. Indicators that were made beforehand are features like any others.
    Without an intercept no column is described by cells, as nothing says what its indicators sum to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from onedraw.columns import indicators
from onedraw.families import Bernoulli, Gaussian, Poisson
from onedraw.inference.cells import Indicators
from onedraw.tilted.one_hot import one_hot_of
from onedraw.types import Array

AGAINST, UNIT = " against ", (0.0, 1.0)
"""Between the names of two groups in the name of the feature that tells them apart, and its range."""
STUDIED: tuple[str, ...] = (Bernoulli.name, Gaussian.name, Poisson.name)
"""Families whose intervals with categories described by cells were measured (docs/uncertainty.md), without
exposures."""
STUDIED_INDICATORS = STUDIED[:2]
"""The same for rows of indicators."""
LABEL = re.compile(r"^((?!bs\().+)\[([^\[\]]*)\]$", re.DOTALL)
"""A factor of a formula with its category, ``town[T.b]`` beside an intercept or ``town[b]`` without one; the
parts of a spline, ``bs(age, df=4)[1]``, are none."""
FEWEST_LEVELS, MOST_DESCRIBED, MOST_CELLS = 3, 20, 32
"""Categories of a column that is described by cells, and combinations of them: what was measured."""
MOST_INDICATORS = 12
"""The same for rows of indicators."""
MOST_LEVELS = 4
"""Categories of a column up to which intervals were seen to cover where it is not described by cells."""


def has_two_groups(model: Any) -> bool:
    """Whether the one feature says which of two groups a record is of, as ``onedraw.compare`` names it."""
    only = model.features[0] if model.num_features == 1 and model.fit_intercept else ""
    return AGAINST in only and model.feature_bounds == (UNIT,)


def stands_apart(model: Any) -> bool:
    """Whether rows of a fit with intervals would have an entry for every category."""
    return model.family.num_predictors == 1 and one_hot_of(model) is not None


def described(model: Any, *, apart: bool | None = None) -> dict[str, tuple[int, ...]]:
    """The columns that are described by cells, with the places of their indicators."""
    if has_two_groups(model):
        return {model.features[0]: (0,)}
    apart = stands_apart(model) if apart is None else apart
    found, cells, most = {}, 1, _most(apart)
    if not model.fit_intercept or not _is_studied(model, apart):
        return {}
    for name, places in sorted(indicators(model.features).items(), key=lambda each: -len(each[1])):
        levels = len(places) + 1
        if FEWEST_LEVELS <= levels <= most and cells * levels <= MOST_CELLS:
            found[name], cells = places, cells * levels
    return found


def _most(apart: bool) -> int:
    return MOST_DESCRIBED if apart else MOST_INDICATORS


def _is_studied(model: Any, apart: bool) -> bool:
    return model.family.name in (STUDIED if apart else STUDIED_INDICATORS) and model.offset is None


def categories_of(
    model: Any, units: Array, *, apart: bool | None = None
) -> tuple[tuple[tuple[int, ...], Indicators], ...]:
    """Those columns as ``inference.Layout`` has them; ``units`` (features,) are of rows without bounds."""
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
        for places in described(model, apart=apart).values()
    )


def most_levels(model: Any) -> int:
    """Of the column with the most categories; 2 where there are none."""
    return max((len(places) for places in indicators(model.features).values()), default=1) + 1


def too_many_levels(model: Any, *, robust: bool = False, apart: bool | None = None) -> str:
    """Why categories keep a fit from having intervals (or robust errors); empty if they do not."""
    apart = stands_apart(model) if apart is None else apart
    found, kept = indicators(model.features), described(model, apart=apart)
    levels = {name: len(places) + 1 for name, places in found.items()} | _without_reference(model.features)
    many = {name: count for name, count in levels.items() if count > MOST_LEVELS}
    if not many:
        return _of_products(model.features)
    name = max(many, key=lambda each: (each not in kept, many[each]))
    said = f"Column {name!r} has {many[name]} categories: with more than {MOST_LEVELS} of them "
    if robust:
        return said + "robust errors have not been studied."
    if not _is_studied(model, apart):
        return said + (
            "the noise of a released curvature hides how nearly their indicators determine one another, and "
            "intervals would be too short."
        )
    if not model.fit_intercept or name not in found:
        return said + "intervals need an intercept, which their indicators sum to."
    if name not in kept:
        return said + (
            f"intervals were studied up to {_most(apart)}, and up to {MOST_CELLS} combinations of those of "
            "several columns."
        )
    return _of_products(model.features)


def _without_reference(features: Iterable[str]) -> dict[str, int]:
    """The numbers of categories of columns that formulas without an intercept give an indicator for each."""
    labels = [LABEL.match(name) for name in features if ":" not in name]
    return dict(Counter(found[1] for found in labels if found and not found[2].startswith("T.")))


def _of_products(features: Iterable[str]) -> str:
    """Why products with the indicators of one column, as formulas have them, have no intervals."""
    names = (":".join(LABEL.sub(r"\1[]", part) for part in name.split(":")) for name in features)
    groups = Counter(name for name in names if ":" in name)
    if all(count < MOST_LEVELS or "[]" not in name for name, count in groups.items()):
        return ""
    return (
        f"The formula multiplies a column with more than {MOST_LEVELS} categories by others, for which "
        "intervals have not been studied."
    )
