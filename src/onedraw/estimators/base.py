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

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from onedraw._progress import showing
from onedraw._random import generator
from onedraw.cautions import of_mechanism
from onedraw.columns import Columns
from onedraw.errors import InvalidInput, NoiseWarning, UnitsWarning
from onedraw.estimators.bounds import check_bounds, each_bounds
from onedraw.estimators.discreet import inconsistent, unquoted
from onedraw.estimators.exposure import NAME, check_given, read_exposure
from onedraw.estimators.large import Place, in_working_units, is_dask, is_large, on_cluster
from onedraw.estimators.tables import (
    Header,
    cautions_of,
    check_declared,
    check_target,
    encoded,
    encoded_new,
    num_rows,
    table_names,
)
from onedraw.ledger import Ledger
from onedraw.mechanisms import Mechanism, Shape
from onedraw.model import Bounds
from onedraw.privacy import Guarantee, Request
from onedraw.privacy.guarantee import NEIGHBOURS
from onedraw.private import Private
from onedraw.publishing import Plan, checked_records, make_plan, publish, silent
from onedraw.records import Records
from onedraw.registry import AUTO, choose
from onedraw.release import Release
from onedraw.types import AnyArray, Array


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
        columns: an ``onedraw.Columns`` in place of ``feature_bounds``, ``classes`` and ``target_bounds``: X
            is then a table as it stands, and the rules say what categories and missing values count as.
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
    columns: Columns | None = None
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

    def fit(self, X: Any, y: Any = None, **unsupported: Any) -> Any:
        """Publish a model of (X, y) and keep only the release.

        A large table is read where it lies, with the response in it: ``fit(table, target="died")`` of a
        ``pyarrow.dataset.Dataset``, an Arrow table, a polars lazy frame or a Dask data frame. Dask arrays and
        series may be given as X and y.

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
        target, exposure = (unsupported.pop(name, None) for name in ("target", NAME))
        if exposure is not None and not hasattr(self, "exposure_bounds"):
            unsupported[NAME] = exposure
        if unsupported:
            raise TypeError(
                f"fit() takes X and y only, got {sorted(unsupported)}. Set options in the constructor."
            )
        if y is not None and target is None and is_dask(X):
            (X, target), y = on_cluster(X, y), None
        if y is None and (target is not None or is_large(X)):
            if exposure is not None:
                raise InvalidInput("The exposure of a table is one of its columns: Columns(exposure=...).")
            return self.fit_table(X, target)
        if y is None and not (isinstance(self.columns, Columns) and self.columns.target.name):
            raise InvalidInput(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )
        if y is None and self.columns is not None:
            check_target(self.columns, X)
        plan = self._plan(X, y)
        check_given(self, plan.model, exposure, plan.num_records)
        self._warn(plan, X)
        return self._publish(plan, lambda: self._read(X, y, plan.model, exposure))

    def fit_table(
        self, table: Any, target: str | None = None, *, memory: int = 0, num_records: int | None = None
    ) -> Any:
        """Publish a model of a table that holds the response, read where it lies: see ``fit``.

        Records that take no more than ``memory`` bytes are read once and kept in memory. ``num_records`` is
        their number where it is public and counted already, and saves a pass over text files.
        """
        request = self._request()
        place = Place.of(table, target, self.columns)
        header = place.header(public=request.num_records_is_public, counted=num_records)
        encoding = place.encoding()
        if self.columns is None:
            header = Header(features=encoding.features, num_records=header.num_records)
        plan = self._plan(header, None)
        if place.is_streamed(plan, memory):  # by public facts, so before the charge
            plan.mechanism.check_place()
        self._warn(plan, header)
        return self._publish(plan, lambda: Private(place.read(type(self), encoding, plan.model, memory)))

    def _warn(self, plan: Plan, X: Any) -> None:
        """Warn before the charge about units that nobody declared, and where zero would come closer."""
        for caution in cautions_of(self, plan, () if self.columns is None else table_names(X)):
            warnings.warn(caution.in_python(), UnitsWarning, stacklevel=3)
        if (noise := of_mechanism(plan.mechanism)) and plan.model.form == "regression":
            warnings.warn(noise, NoiseWarning, stacklevel=3)

    def check(self, X: Any, y: Any = None, exposure: Any = None) -> None:
        """Read the table as a fit would, and raise what a fit would refuse; nothing is charged or released.

        For the data's holder: whether there is an error depends on the data. With declared ``columns``,
        ``onedraw.columns.check`` lists all such rows.
        """
        probe = clone(self)
        plan = probe._plan(X, y)
        check_given(probe, plan.model, exposure, plan.num_records)
        checked_records(plan, probe._read(X, y, plan.model, exposure), generator(None)[0])

    def fit_planned(
        self, plan: Plan, read: Callable[[], tuple[Any, Any]], *, header: Header | None = None
    ) -> Any:
        """Publish what ``plan`` says, of a table that nobody has read yet, and keep only the release.

        ``read`` returns the features, (n, d) in the order of the plan, and the response; or, where columns
        are declared, the table of which ``header`` has the names, and None. It is called once, and only after
        a ledger was found to pay: ``estimator.plan(Header(features=...))`` needs no table.
        """
        self._see(Header(features=plan.model.features) if header is None else header, None)

        def records() -> Private[Records]:
            found = read()
            with silent():  # about names, which the array of a table does not repeat
                return self._read(*found, plan.model)

        return self._publish(plan, records)

    def _publish(self, plan: Plan, read: Callable[[], Private[Any]]) -> Any:
        with showing():
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
        if self.columns is not None:
            check_declared(self, self.columns)
        flat = len(getattr(X, "shape", ()) or (0, 0)) == 2  # of any other X scikit-learn says what is wrong
        public = self._request().num_records_is_public
        if flat and public and y is not None and num_rows(y) != num_rows(X):
            raise inconsistent()
        classes, assumptions = self._classes(y)
        return self._plan_of(classes, num_rows(X), assumptions)

    def _plan_of(
        self, classes: tuple[Any, ...] | None, num_records: int | None, assumptions: tuple[str, ...] = ()
    ) -> Plan:
        request = self._request()
        if num_records == 0 and request.num_records_is_public:
            raise InvalidInput("The table has no rows, so there is nothing to fit.")
        shape = Shape(model=self._model(self._feature_names(), classes), num_records=num_records or None)
        mechanism, reason = choose(self.mechanism, request, shape)
        return make_plan(request, mechanism, shape, assumptions=assumptions, reason=reason)

    # -- reading

    def _see(self, X: Any, y: Any) -> None:
        """Take names and number of the features, and nothing else."""
        if self.columns is not None:
            X = Header(features=table_names(X))
        if isinstance(X, Header):
            self.n_features_in_, self.feature_names_in_ = len(X.features), np.array(X.features, dtype=object)
            return
        self.__dict__.pop("n_features_in_", None)
        given = {} if y is None else {"y": y}
        validate_data(self, X, **given, skip_check_array=True)
        if not hasattr(self, "n_features_in_"):  # no table: let scikit-learn say what is wrong with it
            validate_data(self, X, dtype=np.float64)

    def _read(self, X: Any, y: Any, model: Any, exposure: Any = None) -> Private[Records]:
        """The records in working units, in a box."""
        if self.columns is not None:
            return self._boxed(*encoded(self.columns, self._encoding(), X, y, model), model)
        fewest = int(self._request().num_records_is_public)
        with unquoted("X and y", X), np.errstate(all="ignore"):  # the sum of extreme records would warn
            features, target = validate_data(
                self, X, y, reset=False, dtype=np.float64, order="C", ensure_min_samples=fewest
            )
        given = None if exposure is None else read_exposure(exposure, len(target))
        return self._boxed(features, target, given, model)

    def _boxed(
        self, features: Array, target: AnyArray, exposure: Array | None, model: Any
    ) -> Private[Records]:
        return Private(in_working_units(self, features, target, exposure, model))

    def _encoding(self) -> Any:
        """How the table that was seen becomes features, where columns are declared."""
        assert self.columns is not None
        return self.columns.encoder(tuple(str(name) for name in self.feature_names_in_))

    def _feature_names(self) -> tuple[str, ...]:
        if self.columns is not None:
            return tuple(self._encoding().features)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{i}" for i in range(self.n_features_in_)]
        return tuple(str(name) for name in names)

    def _bounds(self, features: tuple[str, ...]) -> tuple[Bounds, ...] | None:
        if self.columns is not None:
            known = self._encoding().feature_bounds
            return None if known is None else tuple(known)
        return None if self.feature_bounds is None else each_bounds(self.feature_bounds, features)

    def _target_bounds(self) -> Bounds | None:
        bounds = self._declared("target_bounds")
        return None if bounds is None else check_bounds(bounds, "target_bounds")

    def _declared(self, option: str) -> Any:
        """What is declared about the response, by an option of its own or by the columns."""
        found = getattr(self, option, None)
        return found if found is not None or self.columns is None else self.columns.target.facts[option]

    def _read_new(self, X: Any) -> Array:
        """Rows to predict, with the features of the fit, as floats."""
        check_is_fitted(self, "release_")
        if self.columns is not None:
            return encoded_new(self._encoding(), X)
        with unquoted("X"):
            return validate_data(self, X, dtype=np.float64, reset=False)  # type: ignore[no-any-return]
