# SPDX-License-Identifier: Apache-2.0
"""Private logistic regression, binary and multinomial, as a scikit-learn classifier.

>>> import numpy as np
>>> from sklearn.datasets import load_breast_cancer
>>> X, y = load_breast_cancer(return_X_y=True)
>>> model = LogisticRegression(epsilon=1.0, feature_bounds=[(0, 5000)] * 30, random_state=0).fit(X, y)
>>> model.guarantee_.epsilon
1.0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateRegression
from onedraw.estimators.offered import DEFAULT
from onedraw.ledger import Ledger
from onedraw.model import RegressionModel
from onedraw.release import Release
from onedraw.types import AnyArray, Array


class LogisticRegression(ClassifierMixin, PrivateRegression):
    """Logistic regression published with differential privacy, as one draw from a beta-divergence posterior.

    Two classes give the Bernoulli model, more the multinomial with one row of coefficients per class
    (summing to zero).

    Args:
        epsilon: the privacy loss of the whole release; the only number you must choose.
        delta: probability with which epsilon may be exceeded; 0 is pure differential privacy.
        mechanism: "beta_divergence", which needs no bound on the data; or, for two classes, "gibbs",
            "lipschitz_gibbs", "output_perturbation" or "objective_perturbation", which do (see
            docs/mechanisms.md).
        feature_norm: public bound on the Euclidean length of a feature vector in working units, with the
            intercept's 1; longer ones are shrunk to it. For all mechanisms but the default.
        regularisation: of the mean loss, for output and objective perturbation; 0.01 by default.
        prior_box: bound on each coefficient in prior scales, for "gibbs".
        mechanism_options: finer settings of another mechanism, a dict, for example ``{"noise": "laplace"}``
            (see docs/mechanisms.md).
        beta: "auto" (the most accurate under a public reference), "paper" (weight 1), or a number > 1.
        weight: of the loss; by default it follows from epsilon and beta.
        neighbours: "replace_one" (n is public) or "add_remove".
        rows_per_person: how many rows one person may hold.
        prior_scale: standard deviation of the normal prior of each coefficient, in working units.
        fit_intercept: whether to fit an intercept (which has the same prior).
        classes: the public set of classes; by default those seen in y, which the release then lists as an
            assumption.
        feature_bounds: public ranges, one (low, high) per feature, one pair for all, or a dict by name. They
            map features to [-1, 1], which suits the prior; they are not clips, and values beyond them are
            allowed.
        engine: "auto", "exact" (rejection) or "grid" (enumerates a public grid; up to about 3 parameters).
        evidence: "searched", or "proved" for a sampler with no unproved step (a few parameters).
        draws: how many draws to release together; the estimate is their mean. "auto" chooses as many as give
            trustworthy intervals (``conf_int``), from public facts only; ``draws_choice_`` says why.
        ledger: an ``onedraw.Ledger`` that each fit is charged to, before anything is drawn; with ``dataset``.
        dataset: the name under which the ledger holds this data set's budget.
        random_state: None draws from the operating system's secure source. A seed is for tests: it voids the
            guarantee against whoever knows it, and marks the release.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        coef_, intercept_: in original units; (1, d) and (1,) for two classes, (K, d) and (K,) for more.
        classes_: the classes, in the order of the coefficients.
    """

    _kinds: ClassVar[tuple[str, ...]] = ("logistic", "multinomial")

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        mechanism: str = DEFAULT,
        feature_norm: float | None = None,
        regularisation: float | None = None,
        prior_box: float | None = None,
        mechanism_options: Mapping[str, Any] | None = None,
        beta: float | str = "auto",
        weight: float | None = None,
        neighbours: str = "replace_one",
        rows_per_person: int = 1,
        prior_scale: float = 3.0,
        fit_intercept: bool = True,
        classes: Any = None,
        feature_bounds: Any = None,
        engine: str = "auto",
        evidence: str = "searched",
        draws: int | str = 1,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            mechanism_options=mechanism_options,
            beta=beta,
            weight=weight,
            neighbours=neighbours,
            rows_per_person=rows_per_person,
            prior_scale=prior_scale,
            fit_intercept=fit_intercept,
            feature_bounds=feature_bounds,
            engine=engine,
            evidence=evidence,
            draws=draws,
            ledger=ledger,
            dataset=dataset,
            random_state=random_state,
        )
        self.classes = classes
        self.feature_norm = feature_norm
        self.regularisation = regularisation
        self.prior_box = prior_box

    def _outline(self) -> RegressionModel:
        if self.classes is None:  # no guarantee depends on how many there will be
            return super()._outline()
        return RegressionModel(features=(), **_facts(self._declared_classes()))

    def _read_response(self, y: AnyArray) -> tuple[dict[str, Any], Array, tuple[str, ...]]:
        try:
            check_classification_targets(y)
        except TypeError:  # bytes, or None among text
            raise InvalidInput(
                "Expected the labels in y to be all text, all numbers or all booleans, none of them missing. "
                "Recode them as text, or remove the rows without one."
            ) from None
        classes, assumptions = self._public_classes(y)
        return _facts(classes), _codes(classes, y), assumptions

    def _public_classes(self, y: AnyArray) -> tuple[AnyArray, tuple[str, ...]]:
        if self.classes is None and self.neighbours == "add_remove":
            raise InvalidInput(
                "Expected classes=[...] with neighbours='add_remove': classes read from the labels would "
                "tell whether the only person of a class is there. List the public set of classes."
            )
        if self.classes is None:
            classes = np.unique(y)
            if len(classes) < 2:
                raise InvalidInput(
                    "Expected at least two classes in y, got only one class. "
                    "Declare the public set of classes: classes=[...]."
                )
            return classes, ("The set of classes is public knowledge (it was read from the labels).",)
        return self._declared_classes(), ()

    def _declared_classes(self) -> AnyArray:
        listed = list(self.classes) if np.iterable(self.classes) and not isinstance(self.classes, str) else []
        kinds = {isinstance(label, str) for label in listed}
        if len(set(listed)) < 2 or len(set(listed)) < len(listed) or len(kinds) > 1:
            raise InvalidInput(
                "Expected classes to list two or more distinct labels, all of them text or all of them "
                f"numbers, got classes={self.classes!r}."
            )
        return np.unique(np.asarray(listed))

    def _publish(self, release: Release) -> None:
        estimate = release.estimate
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
        if len(self.classes_) == 2:
            codes = (scores[:, 0] > 0).astype(int)
        else:
            codes = scores.argmax(axis=1)
        return self.classes_[codes]  # type: ignore[no-any-return]


def _facts(classes: AnyArray) -> dict[str, Any]:
    """The kind of model that these classes make."""
    kind = "logistic" if len(classes) == 2 else "multinomial"
    return {"kind": kind, "classes": tuple(classes.tolist())}


def _codes(classes: AnyArray, y: AnyArray) -> Array:
    """The position of each label in the sorted classes. The error quotes the classes, never a label."""
    try:
        codes = np.searchsorted(classes, y)
        known = classes[np.minimum(codes, len(classes) - 1)] == y
    except TypeError:  # text and something else have no order
        codes, known = np.zeros(len(y), dtype=np.intp), np.zeros(len(y), dtype=bool)
    if not np.all(known):
        raise InvalidInput(
            f"Expected every label to be among the declared classes={classes.tolist()!r}, "
            "but y holds another. Declare it too, or remove those rows."
        )
    return codes.astype(np.float64)
