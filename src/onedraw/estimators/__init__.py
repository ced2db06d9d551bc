# SPDX-License-Identifier: Apache-2.0
"""Scikit-learn estimators: adapters of ``onedraw.publishing``."""

from onedraw.estimators.counts import NegativeBinomialRegressor, PoissonRegressor
from onedraw.estimators.linear import LinearRegression
from onedraw.estimators.logistic import LogisticRegression
from onedraw.estimators.networks import MLPClassifier, MLPRegressor
from onedraw.estimators.programs import PrivateModel
from onedraw.estimators.rebuild import from_release
from onedraw.estimators.tables import Header

__all__ = [
    "Header",
    "LinearRegression",
    "LogisticRegression",
    "MLPClassifier",
    "MLPRegressor",
    "NegativeBinomialRegressor",
    "PoissonRegressor",
    "PrivateModel",
    "from_release",
]
