# SPDX-License-Identifier: Apache-2.0
"""Exposures of counts, as they are declared, given to a fit, and given for a prediction.

An exposure is a column that ``Columns(exposure=...)`` names, the ``offset(...)`` of a formula, or an array
beside X whose range is declared by ``exposure_bounds``: ``fit(X, y, exposure=years)``. In each case its range
is public, so the plan knows that there is one, and every number is a possible exposure.

>>> times(np.array([2.0, 0.5]), [3.0, 4.0])
array([6., 2.])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onedraw.advice import LeaveOut, Set
from onedraw.errors import InvalidInput
from onedraw.estimators.bounds import check_bounds
from onedraw.estimators.discreet import inconsistent, numbers
from onedraw.estimators.tables import num_rows
from onedraw.model import Offset
from onedraw.types import Array

NAME = "exposure"
"""Of an exposure that is no column of a table."""


def declared_offset(estimator: Any) -> Offset | None:
    """What is public about the exposure of a model of counts; None if it has none."""
    if estimator.columns is not None:
        found = estimator._encoding().offset
        return None if found is None else found.offset
    if estimator.exposure_bounds is None:
        return None
    return Offset(name=NAME, bounds=check_bounds(estimator.exposure_bounds, "exposure_bounds"))


def check_given(estimator: Any, model: Any, exposure: Any, num_records: int | None) -> None:
    """Refuse, before a charge, an exposure that nothing is declared about, and one that is missing."""
    offset = getattr(model, "offset", None)
    if exposure is None:
        if offset is not None and estimator.columns is None:
            raise InvalidInput(
                "exposure_bounds says that every count has an exposure, and none was given.",
                advice=[Set("exposure", note=" in fit(X, y, exposure=...)"), LeaveOut("exposure_bounds")],
            )
        return
    if estimator.columns is not None:
        raise InvalidInput(
            "Where columns are declared, the exposure is one of them: name it in Columns(exposure=...), or "
            "as offset(...) of a formula.",
            advice=LeaveOut("exposure"),
        )
    if offset is None:
        raise InvalidInput(
            "An exposure needs its public range, positive: it says what an impossible exposure counts as.",
            advice=Set("exposure_bounds", (0.1, 10.0), note=", say"),
        )
    if num_records is not None and num_rows(exposure) != num_records:
        raise inconsistent()


def read_exposure(exposure: Any, num_records: int) -> Array:
    """An exposure for each record, as floats; errors quote none of them."""
    found = numbers(exposure, "exposure")
    if found.shape != (num_records,):
        raise inconsistent()
    return found


def times(rates: Array, exposure: Any) -> Array:
    """Rates (n, ...) times the exposures of new rows: one for each, or one for all."""
    found = np.asarray(exposure, dtype=np.float64)
    if found.shape not in ((), (len(rates),)) or not np.isfinite(found).all() or (found < 0.0).any():
        raise InvalidInput(
            f"Expected one exposure from 0 on, or one for each of {len(rates)} rows, got others. Exposures "
            "of new rows are in the units of those of the fit."
        )
    return np.asarray(rates * found.reshape(found.shape + (1,) * (rates.ndim - 1) * found.ndim))
