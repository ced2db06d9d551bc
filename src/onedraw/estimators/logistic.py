# SPDX-License-Identifier: Apache-2.0
"""Private logistic regression, binary and multinomial, as a scikit-learn classifier.

>>> from sklearn.datasets import load_breast_cancer
>>> X, y = load_breast_cancer(return_X_y=True)
>>> model = LogisticRegression(epsilon=1.0, feature_bounds=[(0, 5000)] * 30, random_state=0).fit(X, y)
>>> model.guarantee_.epsilon
1.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin

from onedraw.estimators.classification import Classification
from onedraw.estimators.labels import class_family
from onedraw.estimators.regression import Regression
from onedraw.families import Bernoulli, Categorical
from onedraw.release import Release
from onedraw.types import AnyArray, Array
from onedraw.uncertainty import point_estimate


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(ClassifierMixin, Classification, Regression):
    """Logistic regression published with differential privacy.

    Two classes give the Bernoulli model, more the multinomial with one row of coefficients per class
    (summing to zero).

    Args:
        classes: the public set of classes; by default those seen in y, which the release then lists as an
            assumption.
        fit_intercept: whether to fit an intercept.

    The other parameters are those of every estimator: ``epsilon``, ``delta``, ``neighbours``,
    ``rows_per_person``, ``mechanism``, ``feature_bounds``, ``draws``, ``ledger``, ``dataset`` and
    ``random_state`` (see ``onedraw.estimators.base.PrivateEstimator``).

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        plan_: the ``Plan`` that it kept, made of public facts.
        coef_, intercept_: in original units; (1, d) and (1,) for two classes, (K, d) and (K,) for more.
        classes_: the classes, in the order of the coefficients.
    """

    kinds: ClassVar[tuple[str, ...]] = (Bernoulli.kind, Categorical.kind)

    def _model(self, features: tuple[str, ...], classes: tuple[Any, ...] | None) -> Any:
        assert classes is not None
        return self._described(class_family(len(classes)), features, classes=classes)

    def _learn(self, release: Release) -> None:
        estimate = point_estimate(release)
        self.coef_, self.intercept_ = estimate.coef[0], estimate.intercept[0]
        self.classes_ = np.array(release.model.classes)

    def decision_function(self, X: Any) -> Array:
        """The linear predictor: (n,) for two classes, (n, K) for more."""
        scores = self._linear_predictor(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities under the released parameters, (n, K)."""
        scores = self._linear_predictor(X)
        if len(self.classes_) == 2:
            positive = special.expit(scores[:, 0])
            return np.stack([1.0 - positive, positive], axis=1)
        return np.asarray(special.softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> AnyArray:
        """The most probable class of each row."""
        scores = self._linear_predictor(X)
        codes = (scores[:, 0] > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return self.classes_[codes]  # type: ignore[no-any-return]
