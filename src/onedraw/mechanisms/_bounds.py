# SPDX-License-Identifier: Apache-2.0
"""Records held within declared bounds, and the sentences that tell a reader so.

Guarantee:
    ``bounded_design`` returns rows of Euclidean length at most ``feature_norm``, whatever it is given
    (the target is 1e-12 lower, which covers the rounding of the lengths).

>>> import numpy as np
>>> bounded_design(np.array([[3.0], [0.0]]), fit_intercept=False, feature_norm=2.0).round(6)
array([[2.], [0.]])
"""

from __future__ import annotations

import numpy as np

from onedraw.types import Array

SHRINK = 1.0 - 1e-12
"""Rows are clipped to this fraction of the declared norm, so that rounding cannot carry them beyond it."""


def bounded_design(features: Array, *, fit_intercept: bool, feature_norm: float) -> Array:
    """The design matrix (n, p), ones in its last column, with rows shrunk to ``feature_norm`` if longer."""
    design = np.concatenate([features, np.ones((len(features), int(fit_intercept)))], axis=1)
    if design.shape[1] == 0:
        return design
    # Divided by the largest entry first: the square of a large feature would overflow.
    largest = np.abs(design).max(axis=1, keepdims=True)
    unit = np.where(largest > 0.0, largest, 1.0)
    with np.errstate(over="ignore", under="ignore"):  # a bound far above a small feature: no shrinking
        length = np.maximum(np.sqrt(np.square(design / unit).sum(axis=1, keepdims=True)), 1.0)
        room = feature_norm * SHRINK / unit / length
        return np.where(room < 1.0, (design / unit) * (feature_norm * SHRINK / length), design)


def clipping_note(feature_norm: float) -> str:
    """The sentence that tells a reader about clipped features."""
    return (
        f"Feature vectors (with the intercept's 1) longer than feature_norm={feature_norm:g} in working "
        "units were shrunk to that length."
    )


def response_note(response_bound: float) -> str:
    """The sentence that tells a reader about clipped responses."""
    return f"Responses beyond response_bound={response_bound:g} in working units were moved to it."
