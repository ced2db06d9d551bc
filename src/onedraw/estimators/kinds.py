# SPDX-License-Identifier: Apache-2.0
"""Which estimator fits which kind of model: one line each, for rebuilding, the command and the planner."""

from __future__ import annotations

from typing import Any

from onedraw.estimators.base import PrivateEstimator
from onedraw.estimators.counts import NegativeBinomialRegressor, PoissonRegressor
from onedraw.estimators.linear import LinearRegression
from onedraw.estimators.logistic import LogisticRegression
from onedraw.estimators.networks import MLPClassifier, MLPRegressor
from onedraw.model import NetworkModel

ESTIMATORS: dict[str, type[PrivateEstimator]] = {
    name: kind
    for kind in (
        LogisticRegression,
        LinearRegression,
        PoissonRegressor,
        NegativeBinomialRegressor,
        MLPClassifier,
        MLPRegressor,
    )
    for name in kind.kinds
}
"""By the name of the model on the command line."""


def estimator_of(model: Any) -> type[PrivateEstimator] | None:
    """The estimator of a released model; None for models that only their author has."""
    if model.form == NetworkModel.form:
        return MLPRegressor if model.classes is None else MLPClassifier
    return ESTIMATORS.get(model.kind)
