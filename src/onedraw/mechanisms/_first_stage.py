# SPDX-License-Identifier: Apache-2.0
"""A first look at the records for mechanisms that need a place to start from: the tilted fit, with its price.

Guarantee:
    epsilon-DP for the epsilon given [``onedraw.mechanisms.tilted_fit``]. What follows is private given its
    result, so the epsilons add [sequential composition], and one charge covers both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from onedraw.mechanisms._bounds import bounded_design
from onedraw.mechanisms.base import Shape
from onedraw.mechanisms.tilted_fit import TiltedFit
from onedraw.privacy.guarantee import Guarantee
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.types import Array

REACH = 3.0
"""Prior scales: a start beyond them, as of separated classes, would take long to come back from."""


def has_first_stage(model: Any) -> bool:
    """Whether there is a tilted fit for the model."""
    return bool(TiltedFit.requirements.fits(model) and model.num_location > 0)


def first_stage(
    model: Any,
    records: Records,
    guarantee: Guarantee,
    *,
    epsilon: float,
    norm: float | None,
    prior_scale: float,
    rng: np.random.Generator,
) -> tuple[Array, float, float]:
    """Location parameters, a residual scale (1 if there is none), and the spread of the tilt behind them.

    ``norm`` is what feature vectors are held to, if anything.
    """
    fitted = replace(model, has_scale=False)
    if norm is not None:  # rows that were held to a length meet no category by name
        fitted = replace(fitted, features=tuple(f"x{place}" for place in range(model.num_features)))
    stage = TiltedFit(inference=False).calibrate(
        Request(epsilon=epsilon, neighbours=guarantee.neighbours, rows_per_person=guarantee.rows_per_person),
        Shape(model=fitted),
    )
    features = records.features
    if norm is not None:
        held = bounded_design(features, fit_intercept=model.fit_intercept, feature_norm=norm)
        features = held[:, : model.num_features]
    found = stage._computed(Records(features=features, response=records.response), rng)
    location = np.array(found.draws[0][: model.num_location])
    scale = found.draws[0][-1] if model.has_scale else 1.0
    limit = REACH * prior_scale
    return np.clip(location, -limit, limit), scale, float(found.statistics["tilt_sd"].array()[0])
