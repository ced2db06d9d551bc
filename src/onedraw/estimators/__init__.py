# SPDX-License-Identifier: Apache-2.0
"""scikit-learn estimators: the thin front of the package."""

from onedraw.estimators.linear import LinearRegression
from onedraw.estimators.logistic import LogisticRegression
from onedraw.estimators.poisson import PoissonRegressor
from onedraw.estimators.rebuild import from_release

__all__ = ["LinearRegression", "LogisticRegression", "PoissonRegressor", "from_release"]
