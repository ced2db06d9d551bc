# SPDX-License-Identifier: Apache-2.0
"""What the regressions share: an intercept, coefficients in original units, intervals from the release."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateEstimator
from onedraw.families import Family
from onedraw.model import Bounds, RegressionModel
from onedraw.types import Array
from onedraw.uncertainty import Intervals, summarise


@dataclass(kw_only=True, eq=False, repr=False)
class Regression(PrivateEstimator):
    """Base of the estimators with one coefficient per feature and class.

    Args:
        fit_intercept: whether to fit an intercept.
    """

    fit_intercept: bool = field(default=True, metadata={"help": "Whether to fit an intercept."})

    def _described(
        self,
        family: Family,
        features: tuple[str, ...],
        *,
        classes: tuple[Any, ...] | None = None,
        target_bounds: Bounds | None = None,
    ) -> RegressionModel:
        """The public description of a regression with this family."""
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidInput(
                f"Expected fit_intercept to be True or False, got fit_intercept={self.fit_intercept!r}."
            )
        return RegressionModel(
            family=family,
            features=features,
            fit_intercept=bool(self.fit_intercept),
            classes=classes,
            feature_bounds=self._bounds(features),
            target_bounds=target_bounds,
        )

    # -- uncertainty, from the release alone

    def summary(self, level: float = 0.95) -> Intervals:
        """Coefficients, standard errors and intervals in original units; ``str()`` of it is an aligned table.

        See ``onedraw.uncertainty`` for what is assumed, and which releases have intervals.
        """
        check_is_fitted(self, "release_")
        choice = getattr(getattr(getattr(self, "plan_", None), "mechanism", None), "draws_choice", None)
        if choice is not None and not choice.trusted:
            raise InvalidInput(f"This release has no intervals. {choice.explanation}")
        return summarise(self.release_, level)

    def conf_int(self, level: float = 0.95, *, as_frame: bool = False) -> Any:
        """(p, 2): low and high of each parameter, in the order of ``summary()``; ``as_frame`` for pandas."""
        found = self.summary(level)
        return found.to_frame()[["low", "high"]] if as_frame else found.array()

    @property
    def standard_errors_(self) -> Array:
        """(p,), in the order of ``summary()``."""
        return np.array(self.summary().standard_error)

    # -- prediction

    def _linear_predictor(self, X: Any) -> Array:
        """X @ coef' + intercept in original units, (n, outputs)."""
        features = self._read_new(X)
        estimate = self.release_.estimate
        return np.asarray(features @ estimate.coef[0].T + estimate.intercept[0])
