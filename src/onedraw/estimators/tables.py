# SPDX-License-Identifier: Apache-2.0
"""Tables as people have them: what an estimator with declared ``columns`` asks of its table.

>>> table_names({"age": [61, 47], "smoker": ["yes", "no"]}), num_rows({"age": [61, 47]})
(('age', 'smoker'), 2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from onedraw.advice import Caution, CheckData, Declare, LeaveOut, Set
from onedraw.columns import DROP, Columns, Encoding, encode_response
from onedraw.columns.names import no_such_column
from onedraw.errors import InvalidInput
from onedraw.estimators.discreet import inconsistent
from onedraw.publishing import Plan, silent
from onedraw.types import AnyArray, Array


@dataclass(frozen=True, kw_only=True)
class Header:
    """What is public about a table that nobody has read: the names of its columns, maybe its size.

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


def table_names(X: Any) -> tuple[str, ...]:
    """The names of the columns: of a pandas or polars frame, an Arrow table, a mapping or a header."""
    if isinstance(X, Header):
        return X.features
    names = X.keys() if isinstance(X, Mapping) else getattr(X, "column_names", getattr(X, "columns", None))
    if names is None:
        raise InvalidInput(
            "Expected a table with named columns (a frame, an Arrow table, a dict of columns), "
            f"as columns are declared, got {type(X).__name__}."
        )
    return tuple(str(name) for name in names)


def num_rows(X: Any) -> int | None:
    """The number of rows, which the plan takes only where it is public; None for a header without it."""
    if isinstance(X, Header):
        return X.num_records
    shape = getattr(X, "shape", None)
    if shape is None and isinstance(X, Mapping):  # a sparse matrix may be a mapping too, and has a shape
        return max((len(column) for column in X.values()), default=0)
    if not shape and not hasattr(X, "__len__"):  # what only turns into an array when asked
        shape = np.asarray(X).shape
    if shape:
        return int(shape[0])
    return len(X) if hasattr(X, "__len__") else None


def check_declared(estimator: Any, columns: Columns) -> None:
    """Refuse declared columns that contradict other options, or that the guarantee has no room for."""
    if not isinstance(columns, Columns):
        raise InvalidInput(f"Expected columns to be an onedraw.Columns, got {type(columns).__name__}.")
    target, names = columns.target, {part.name for part in fields(estimator)}
    for option, value in {"feature_bounds": columns.columns or None, **target.facts}.items():
        if value is not None and getattr(estimator, option, None) is not None:
            raise InvalidInput(f"Both {option} and columns were given.", advice=LeaveOut(option))
        if value is not None and option not in names:
            raise InvalidInput(
                f"{type(estimator).__name__} has no use for {option}, which the target declares.",
                advice=LeaveOut(option),
            )
    if getattr(estimator, "exposure_bounds", None) is not None:
        raise InvalidInput(
            "Both exposure_bounds and columns were given; a column of exposures is declared by "
            "Columns(exposure=...).",
            advice=LeaveOut("exposure_bounds"),
        )
    if estimator._encoding().offset is not None and "exposure_bounds" not in names:
        raise InvalidInput(
            f"{type(estimator).__name__} has no use for an exposure or offset, which the columns name; the "
            "regressions of counts have."
        )
    drops = estimator._encoding().drops or DROP in target.rules
    if drops and estimator._request().num_records_is_public:
        raise InvalidInput(
            "The rule 'drop' leaves rows out, so neighbours of one size would become tables of different "
            "sizes, and the number of rows would not be public.",
            advice=Set("neighbours", "add_remove"),
        )


def encoded(
    columns: Columns, encoding: Any, X: Any, y: Any, model: Any
) -> tuple[Array, AnyArray, Array | None]:
    """Features, response and offset column, if there is one, by the declared rules, of the rows that stay.

    y is None if X holds it.
    """
    target = columns.target
    values = X[target.name] if y is None else y
    counts = model.classes is None and not model.family.in_support(np.array([0.5])).all()
    with silent():
        features, keep = encoding.encode(X)
        response, stays = encode_response(
            values, target, encoding.reader, target.name or "y", classes=model.classes, counts=counts
        )
        offset, counted = encoding.encode_offset(X)
    if len(keep) != len(stays):
        raise inconsistent()
    keep &= stays if counted is None else stays & counted
    if keep.all():
        return features, response, offset
    return features[keep], response[keep], None if offset is None else offset[keep]


def check_target(columns: Columns, X: Any) -> None:
    """Refuse a table without the response that the columns name, before anything is charged."""
    names = table_names(X)
    if columns.target.name not in names:
        raise no_such_column(str(columns.target.name), names)


def cautions_of(estimator: Any, plan: Plan, names: tuple[str, ...]) -> tuple[Caution, ...]:
    """What to know before the charge about the columns with these ``names`` and their units: public facts.

    Where bounds of some columns are declared, those of the others count as -1 and 1. And a value that no rule
    foresees is met after the charge; of columns about which nothing is said, that is likely.
    """
    if estimator.columns is None:
        return plan.mechanism.cautions
    encoding, found = estimator.columns.encoder(names), list(plan.mechanism.cautions)
    sources = [source for source in encoding.sources if source.column.categories is None]
    unbounded = [source.name for source in sources if source.column.bounds is None]
    if unbounded and encoding.feature_bounds is not None:
        facts = (
            f"Other columns have declared bounds, {listed(unbounded)} not, so values between -1 and 1 are "
            "expected there; coefficients of larger ones will be mostly noise."
        )
        found.append(Caution(facts, Declare("bounds", column=unbounded[0], note=", and so on")))
    open_ones = [source.name for source in sources if source.name in unbounded and not source.column.is_total]
    if open_ones and estimator.ledger is not None:
        facts = (
            f"Nothing is declared about {listed(open_ones)}: if there is a text or a missing value among "
            "them, the fit is charged and then refused."
        )
        found.append(Caution(facts, CheckData("Look for such rows first")))
    return tuple(found)


def listed(names: Sequence[str], most: int = 6) -> str:
    """Some names, for a sentence.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def encoded_new(encoding: Encoding, X: Any) -> Array:
    """Rows to predict, by the same rules."""
    names = table_names(X)
    for source in encoding.sources:
        if source.name not in names:
            raise no_such_column(source.name, names)
    features, keep = encoding.encode(X)
    if not keep.all():
        raise InvalidInput("Some row is left out by the rule 'drop' and has no prediction. Remove it first.")
    return features
