# SPDX-License-Identifier: Apache-2.0
"""What all private estimators share: the options of a release, ``plan``, ``fit``, and what is left of it.

An estimator is an adapter of ``onedraw.publishing``: it stores its options, describes its model from them and
from what is public about the table, and hands a way to read the records to ``publish``. It keeps the plan,
the release and what scikit-learn asks for, and nothing else computed from the data, so pickling or printing
it leaks nothing more.

Estimators are dataclasses: the fields are the constructor's parameters, in one place for all. The command
takes its options from them, with the "help" and "choices" of their metadata.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from onedraw.errors import InvalidInput
from onedraw.estimators.bounds import each_bounds
from onedraw.estimators.discreet import unquoted
from onedraw.ledger import Ledger
from onedraw.mechanisms import Mechanism, Shape
from onedraw.model import Bounds
from onedraw.privacy import Guarantee, Request
from onedraw.privacy.guarantee import NEIGHBOURS
from onedraw.private import Private
from onedraw.publishing import Plan, make_plan, publish, silent
from onedraw.records import Records, held
from onedraw.registry import AUTO, choose
from onedraw.release import Release
from onedraw.types import AnyArray, Array


@dataclass(frozen=True, kw_only=True)
class Header:
    """What is public about a table that nobody has read: the names of its features, maybe its size.

    For ``estimator.plan``, in place of the table.

    >>> Header(features=("age", "pressure")).shape
    (0, 2)
    """

    features: tuple[str, ...]
    num_records: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """As of a table; no rows where their number is not known."""
        return self.num_records or 0, len(self.features)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):
    """Base of the estimators.

    Args:
        epsilon: the privacy loss of the whole release; the only number you must choose.
        delta: probability with which epsilon may be exceeded; 0 is pure differential privacy.
        neighbours: "replace_one" (the number of rows is public) or "add_remove".
        rows_per_person: how many rows one person may hold.
        mechanism: how the model is made private: "auto", a name (see docs/mechanisms.md), or an object of
            ``onedraw.mechanisms`` with options of its own, such as ``OnePosterior(beta=2.5)``.
        feature_bounds: public ranges, one (low, high) per feature, one pair for all, or a dict by name. They
            map features to [-1, 1]; they are not clips, and values beyond them are allowed.
        draws: how many draws to release together; the estimate is their mean. "auto" chooses as many as give
            trustworthy intervals, from public facts only; ``plan_.reason`` says why.
        ledger: an ``onedraw.Ledger`` that each fit is charged to, before anything is drawn; with ``dataset``.
        dataset: the name under which the ledger holds this data set's budget.
        random_state: None draws from the operating system's secure source. A seed is for tests: it voids the
            guarantee against whoever knows it, and marks the release.
    """

    epsilon: float | None = field(
        default=None, metadata={"help": "The privacy loss of the whole release, for example 1."}
    )
    delta: float = field(
        default=0.0,
        metadata={"help": "Of (epsilon, delta)-DP, far below 1/rows."},
    )
    neighbours: str = field(
        default="replace_one",
        metadata={
            "help": "Whether a person's data are replaced (the number of rows is public), or come and go.",
            "choices": NEIGHBOURS,
        },
    )
    rows_per_person: int = field(default=1, metadata={"help": "Rows that one person may hold."})
    mechanism: str | Mechanism = field(
        default=AUTO, metadata={"help": "How the model is made private; docs/mechanisms.md lists the names."}
    )
    feature_bounds: Any = None
    draws: int | str = field(
        default=1,
        metadata={"help": "Draws released together; auto: as many as give trustworthy intervals."},
    )
    ledger: Ledger | None = field(
        default=None, metadata={"help": "The budget ledger to charge; with --dataset."}
    )
    dataset: str | None = field(default=None, metadata={"help": "The data set's name in the ledger."})
    random_state: Any = field(
        default=None, metadata={"help": "For tests only: whoever knows the seed can undo the privacy."}
    )

    kinds: ClassVar[tuple[str, ...]]
    """The names of the models that it fits, on the command line and in a release."""
    form: ClassVar[str] = "regression"
    """The form of these models."""

    # -- what an estimator says

    @abstractmethod
    def _model(self, features: tuple[str, ...], classes: tuple[Any, ...] | None) -> Any:
        """The public description of the model."""

    @abstractmethod
    def _coded(self, y: AnyArray, model: Any) -> Array:
        """The response in the coding of the model's family; errors quote no value."""

    @abstractmethod
    def _learn(self, release: Release) -> None:
        """Set the learned attributes from the release, and from nothing else."""

    def _classes(self, y: Any) -> tuple[tuple[Any, ...] | None, tuple[str, ...]]:
        """The public classes, if the model has any, and what they rest on; ``y`` is None before a fit."""
        return None, ()

    # -- planning and fitting

    def plan(self, X: Any) -> Plan:
        """What a fit to a table like X would release, promise and be charged; reads names and sizes only.

        X may be any table with the features in question, or a ``Header``. Its number of rows counts where it
        is public.
        """
        plan: Plan = clone(self)._plan(X, None)
        return plan

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Any:
        """Publish a model of (X, y) and keep only the release.

        ``sample_weight`` is refused: a weight multiplies one person's influence, which the guarantee fixes.
        It is not a named parameter either, so that scikit-learn's meta-estimators do not pass it on.

        Edge cases:
            No rows at all is an error where the number of rows is public (``replace_one`` with one row per
            person). Elsewhere an error would tell an empty table from one with a single person, so the
            release is made of no data.
        """
        if unsupported.pop("sample_weight", None) is not None:
            raise InvalidInput(
                "sample_weight is not supported: a weight would multiply one person's influence on the "
                "release beyond what epsilon allows. Leave it out; for several rows of one person set "
                "rows_per_person."
            )
        if unsupported:
            raise TypeError(
                f"fit() takes X and y only, got {sorted(unsupported)}. Set options in the constructor."
            )
        if y is None:
            raise InvalidInput(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )
        plan = self._plan(X, y)
        return self._publish(plan, lambda: self._read(X, y, plan.model))

    def fit_planned(self, plan: Plan, read: Callable[[], tuple[Any, Any]]) -> Any:
        """Publish what ``plan`` says, of a table that nobody has read yet, and keep only the release.

        ``read`` returns the features, (n, d) in the order of the plan, and the response. It is called once,
        and only after a ledger was found to pay: ``estimator.plan(Header(features=...))`` needs no table.
        """
        self._see(Header(features=plan.model.features), None)

        def records() -> Private[Records]:
            found = read()
            with silent():  # about names, which the array of a table does not repeat
                return self._read(*found, plan.model)

        return self._publish(plan, records)

    def _publish(self, plan: Plan, read: Callable[[], Private[Records]]) -> Any:
        self.release_ = publish(
            plan, read, ledger=self.ledger, dataset=self.dataset, random_state=self.random_state
        )
        self.plan_ = plan
        self._learn(self.release_)
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """What the release promises; ``str()`` of it is one plain sentence."""
        check_is_fitted(self, "release_")
        return self.release_.guarantee

    def _request(self) -> Request:
        return Request(
            epsilon=self.epsilon,  # type: ignore[arg-type]  # None is refused there, with advice
            delta=self.delta,
            neighbours=self.neighbours,  # type: ignore[arg-type]
            rows_per_person=self.rows_per_person,
            draws=self.draws,
        )

    def _plan(self, X: Any, y: Any) -> Plan:
        """The plan for a table with these features; labels are read only where classes are not declared."""
        self._request()  # an option that cannot be is refused before anything is looked at
        with unquoted("X"):
            self._see(X, y)
        classes, assumptions = self._classes(y)
        return self._plan_of(classes, num_rows(X), assumptions)

    def _plan_of(
        self, classes: tuple[Any, ...] | None, num_records: int | None, assumptions: tuple[str, ...] = ()
    ) -> Plan:
        request = self._request()
        shape = Shape(model=self._model(self._feature_names(), classes), num_records=num_records)
        mechanism, reason = choose(self.mechanism, request, shape)
        return make_plan(request, mechanism, shape, assumptions=assumptions, reason=reason)

    # -- reading

    def _see(self, X: Any, y: Any) -> None:
        """Take names and number of the features, and nothing else."""
        if isinstance(X, Header):
            self.n_features_in_, self.feature_names_in_ = len(X.features), np.array(X.features, dtype=object)
            return
        self.__dict__.pop("n_features_in_", None)
        given = {} if y is None else {"y": y}
        validate_data(self, X, **given, skip_check_array=True)
        if not hasattr(self, "n_features_in_"):  # no table: let scikit-learn say what is wrong with it
            validate_data(self, X, dtype=np.float64)

    def _read(self, X: Any, y: Any, model: Any) -> Private[Records]:
        """The records in working units, in a box."""
        fewest = 1 if self._request().num_records_is_public else 0
        with unquoted("X and y"), np.errstate(all="ignore"):  # the sum of extreme records would warn
            features, target = validate_data(
                self, X, y, reset=False, dtype=np.float64, order="C", ensure_min_samples=fewest
            )
        with silent():
            response = self._coded(target, model)
            # Held before they are checked: in working units a finite number may overflow.
            features, response = held(model.scale_features(features)), held(model.scale_response(response))
            return Private(Records(features=features, response=response))

    def _feature_names(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{i}" for i in range(self.n_features_in_)]
        return tuple(str(name) for name in names)

    def _bounds(self, features: tuple[str, ...]) -> tuple[Bounds, ...] | None:
        return None if self.feature_bounds is None else each_bounds(self.feature_bounds, features)

    def _read_new(self, X: Any) -> Array:
        """Rows to predict, with the features of the fit, as floats."""
        check_is_fitted(self, "release_")
        with unquoted("X"):
            return validate_data(self, X, dtype=np.float64, reset=False)  # type: ignore[no-any-return]


def num_rows(X: Any) -> int | None:
    """The number of rows, which the plan takes only where it is public; None for a header without rows."""
    shape = getattr(X, "shape", None)
    if not shape and not hasattr(X, "__len__"):  # what only turns into an array when asked
        shape = np.asarray(X).shape
    return (int(shape[0]) if shape else len(X)) or None
