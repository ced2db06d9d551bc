# SPDX-License-Identifier: Apache-2.0
"""Intervals of a release, by the mechanism that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onedraw.advice import Set
from onedraw.errors import InvalidInput
from onedraw.release import Release
from onedraw.uncertainty.credible import credible_intervals
from onedraw.uncertainty.from_curvature import curvature_intervals
from onedraw.uncertainty.from_draws import intervals
from onedraw.uncertainty.table import Intervals

METHODS: Mapping[str, Callable[[Release, float], Intervals]] = {
    "linear_noise_aware": credible_intervals,
    "one_posterior": intervals,
    "tilted_fit": curvature_intervals,
}
"""By the name of the mechanism."""


def summarise(release: Release, level: float = 0.95) -> Intervals:
    """Estimates, standard errors and intervals from a release alone, or why there are none."""
    made = release.mechanism.name
    if made not in METHODS:
        raise InvalidInput(
            f"A release of {made!r} has no intervals: it does not show how much of its spread is noise.",
            advice=[
                Set("draws", "auto", note=" with the mechanism one_posterior"),
                Set("mechanism", "linear_noise_aware", note=" for a linear model"),
            ],
        )
    return METHODS[made](release, level)
