# SPDX-License-Identifier: Apache-2.0
"""The summary of a release, by the mechanism that made it: from the file alone, at no further privacy cost.

Importing this module also lets a ``Release`` summarise itself (``Release.summary``): a release stands above
this layer and knows no statistics.

>>> sorted(METHODS)
['linear_noise_aware', 'one_posterior', 'tilted_fit']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from onedraw.advice import Set
from onedraw.errors import InvalidInput
from onedraw.model import RegressionModel
from onedraw.release import Release
from onedraw.release.release import READERS
from onedraw.uncertainty.credible import credible_intervals
from onedraw.uncertainty.from_curvature import curvature_intervals, ratio_of
from onedraw.uncertainty.from_draws import intervals
from onedraw.uncertainty.table import Intervals, check_level

METHODS: Mapping[str, Callable[[Release, float], Intervals]] = {
    "linear_noise_aware": credible_intervals,
    "one_posterior": intervals,
    "tilted_fit": curvature_intervals,
}
"""By the name of the mechanism."""


def summarise(release: Release, level: float = 0.95, *, exponentiate: bool = False) -> Intervals:
    """Estimates, standard errors, tests and intervals from a release alone, or why there are none.

    Args:
        release: as returned by a fit or read by ``Release.from_json``.
        level: nominal coverage of each interval.
        exponentiate: whether to give odds ratios or rate ratios in place of coefficients.
    """
    level = check_level(level)
    quantity = ratio_of(release) if exponentiate else None
    made = release.mechanism.name
    if release.model.form != "regression" or made not in METHODS:
        raise InvalidInput(
            f"A release of {made!r} has no intervals: it does not show how much of its spread is noise.",
            advice=[
                Set("draws", "auto", note=" with the mechanism one_posterior"),
                Set("mechanism", "linear_noise_aware", note=" for a linear model"),
            ],
        )
    model = release.model
    table = METHODS[made](release, level)
    found = replace(
        table,
        ranges=_ranges(model, table.names),
        title=model.describe(),
        guarantee=release.statement,
    )
    if quantity is None:
        return found
    ratios = found.exponentiated(quantity)
    exposed = "" if model.offset is None else ", at an exposure of 1"
    intercept = f"The intercept's entry is no ratio but {model.family.exponential_intercept}{exposed}."
    return replace(ratios, notes=(*ratios.notes, *([intercept] if model.fit_intercept else [])))


def _ranges(model: RegressionModel, names: tuple[str, ...]) -> tuple[tuple[float, float] | None, ...]:
    """The declared range of the feature behind each parameter; None for intercepts and a scale."""
    if model.feature_bounds is None:
        return ()
    outputs = len(model.classes or ()) if model.family.num_predictors > 1 else 1
    coefficients = model.parameter_names()[: outputs * model.num_features]
    declared = dict(zip(coefficients, model.feature_bounds * outputs, strict=True))
    return tuple(declared.get(name) for name in names)


READERS["summary"] = summarise
