# SPDX-License-Identifier: Apache-2.0
"""Private linear regression with unknown residual scale, as a scikit-learn regressor.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, size=(2000, 1)); y = 2.0 * X[:, 0] + rng.normal(scale=0.5, size=2000)
>>> model = LinearRegression(epsilon=2.0, random_state=0).fit(X, y)
>>> bool(abs(model.coef_[0] - 2.0) < 0.5), bool(model.scale_ >= 0.1)
(True, True)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from onedraw._validate import one_of
from onedraw.estimators.discreet import numbers
from onedraw.estimators.regression import Regression
from onedraw.families import Gaussian, families_of
from onedraw.release import Release
from onedraw.types import AnyArray, Array
from onedraw.uncertainty import point_estimate

ERRORS = {str(family.errors): family for family in families_of(Gaussian.kind)}
"""The families of a continuous response, by the law of its errors."""


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(RegressorMixin, Regression):
    """Linear regression published with differential privacy.

    Neither features nor response need bounds. Units matter for accuracy: declare ``target_bounds`` (a
    plausible public range) if y is far from order one.

    Args:
        errors: the law of the errors: "normal", "student_t" (four degrees of freedom, for a few far-out
            responses) or "laplace" (the median).
        target_bounds: a public plausible range of y, which centres and rescales it. Not a clip.
        fit_intercept: whether to fit an intercept.

    The other parameters are those of every estimator, as listed for ``LogisticRegression``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        plan_: the ``Plan`` that it kept, made of public facts.
        coef_, intercept_: in original units.
        scale_: the residual scale in original units, if the mechanism releases one.
    """

    errors: str = field(
        default="normal", metadata={"help": "The law of the errors.", "choices": tuple(ERRORS)}
    )
    target_bounds: Any = None

    kinds: ClassVar[tuple[str, ...]] = (Gaussian.kind,)

    def _model(self, features: tuple[str, ...], classes: tuple[Any, ...] | None) -> Any:
        family = ERRORS[one_of(ERRORS, errors=self.errors)]()
        return self._described(family, features, target_bounds=self._target_bounds())

    def _coded(self, y: AnyArray, model: Any) -> Array:
        return numbers(y)

    def _learn(self, release: Release) -> None:
        estimate = point_estimate(release)
        self.coef_, self.intercept_ = estimate.coef[0, 0], float(estimate.intercept[0, 0])
        self.__dict__.pop("scale_", None)  # of an earlier fit with another mechanism
        if estimate.scale is not None:
            self.scale_ = float(estimate.scale[0])

    def predict(self, X: Any) -> Array:
        """The mean response under the released parameters, (n,)."""
        return self._linear_predictor(X)[:, 0]
