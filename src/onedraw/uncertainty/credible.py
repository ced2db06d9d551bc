# SPDX-License-Identifier: Apache-2.0
"""Intervals of a release that already is a whole posterior, its noise included: quantiles of the draws.

Right for the noise-aware mechanisms only. Draws of a beta-divergence posterior have a weight that
``intervals`` undoes; draws that take noisy statistics at their word are too narrow.

Guarantee:
    A function of the release: it costs no privacy.
"""

from __future__ import annotations

import numpy as np

from onedraw.release import Release
from onedraw.uncertainty.table import Intervals, check_level


def credible_intervals(release: Release, level: float = 0.95) -> Intervals:
    """Central intervals of the fitted parameters in original units, with the draws' spread as error."""
    level = check_level(level)
    draws = release.parameters.flat()
    names = np.array(release.model.parameter_names(), dtype=object)
    if not release.model.fit_intercept:  # 0 by definition
        fitted = np.arange(len(names)) < release.model.num_features
        draws, names = draws[:, fitted], names[fitted]
    low, high = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    return Intervals(
        names=tuple(names.tolist()),
        estimate=tuple(draws.mean(axis=0).tolist()),
        standard_error=tuple(draws.std(axis=0, ddof=1).tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        level=level,
        notes=(f"From {len(draws)} draws of a posterior that knows of the noise, if the model holds.",),
    )
