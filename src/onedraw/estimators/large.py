# SPDX-License-Identifier: Apache-2.0
"""Tables that are read where they lie: Arrow datasets and tables, polars lazy frames, Dask data frames.

``estimator.fit(table, target="died")`` takes them: pieces of the table become records one after another, on
the workers of a cluster if it is a Dask table, by the declared ``columns`` of the estimator or, without
them, all columns as numbers. What the mechanism then asks for are sums and one random look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw.advice import Declare, Do, Set
from onedraw.columns import DROP, Columns
from onedraw.columns.names import no_such_column
from onedraw.errors import InvalidInput
from onedraw.estimators.tables import Header, encoded
from onedraw.publishing import silent
from onedraw.records import Records, held
from onedraw.tables import arrow, base
from onedraw.tables.cluster import Cluster
from onedraw.tables.stream import Stream, joined

COPIES = 3
"""Of the records in memory at most, while a fit is made."""


def is_large(X: Any) -> bool:
    """Whether a table is read where it lies, whatever its size."""
    return arrow.is_arrow(X) or is_dask(X)


def is_dask(X: Any) -> bool:
    """Whether a table lies on a cluster: a Dask frame, series or array."""
    return type(X).__module__.partition(".")[0].startswith("dask") and hasattr(X, "to_delayed")


def on_cluster(X: Any, y: Any) -> tuple[Any, str]:
    """Features and a response that lie on a cluster, as one Dask data frame and the name of its response."""
    frames = optional("dask.dataframe", "Reading from a cluster", "dask")
    if not is_dask(y):
        raise InvalidInput(
            f"Expected a response that lies on the cluster as its features do, got {type(y).__name__}.",
            advice=Do("give a Dask array or series, or a frame that holds both with target="),
        )
    if not hasattr(X, "columns"):
        X = frames.from_dask_array(X.rechunk({1: -1}), columns=[f"x{i}" for i in range(X.shape[1])])
    if not hasattr(y, "name") or not hasattr(y, "to_frame"):
        y = frames.from_dask_array(y, columns="response")
    name = str(y.name or "response")
    if name in map(str, X.columns):
        raise InvalidInput(
            f"Expected a response that is no feature, got {name!r} as both. Rename one of them."
        )
    return X.assign(**{name: y}), name


@dataclass(frozen=True, kw_only=True)
class Place:
    """A table that nobody has read, and what is said about its columns."""

    table: Any
    columns: Columns
    names: tuple[str, ...]

    @classmethod
    def of(cls, X: Any, target: str | None, columns: Columns | None) -> Place:
        """``columns`` with the target that ``fit`` names; it must be a column of the table."""
        columns = Columns() if columns is None else columns
        declared = columns.target.name
        if target is not None and declared not in (None, target):
            raise InvalidInput(f"The columns declare the target {declared!r}, got target={target!r}.")
        name = declared if target is None else target
        if name is None:
            raise InvalidInput(
                f"Expected the name of the response, as {type(X).__name__} holds it with the features.",
                advice=Set("target", note=" in fit(table, target=...)"),
            )
        on_workers = is_dask(X) and hasattr(X, "columns")
        if not (arrow.is_arrow(X) or on_workers or hasattr(X, "__arrow_c_stream__")):
            raise InvalidInput(
                "Expected a table with named columns (a frame, an Arrow table or dataset, a Dask frame) with "
                f"target={name!r}, got {type(X).__name__}."
            )
        if not (arrow.is_arrow(X) or on_workers):
            X = arrow.in_arrow(X)
        names = tuple(map(str, X.columns)) if on_workers else arrow.names_of(X)
        if name not in names:
            raise no_such_column(name, names)
        return cls(table=X, columns=replace(columns, target=replace(columns.target, name=name)), names=names)

    def header(self, *, public: bool, counted: int | None = None) -> Header:
        """Names of all columns but the target and, if it is public, the number of rows."""
        features = tuple(name for name in self.names if name != self.columns.target.name)
        if not public:
            return Header(features=features)
        if counted is None:
            counted = len(self.table) if is_dask(self.table) else arrow.count_rows(self.table)
        return Header(features=features, num_records=counted)

    def encoding(self) -> Any:
        """How rows become features; a declaration that needs them all in memory is refused."""
        encoding = self.columns.encoder(self.names)
        if encoding.drops or DROP in self.columns.target.rules:
            raise InvalidInput(
                "The rule 'drop' needs the table in memory: how many rows stay is not known beforehand.",
                advice=Declare("missing", note=" with a value instead"),
            )
        return encoding

    def is_streamed(self, plan: Any, memory: int) -> bool:
        """Whether the records may stay where they lie, as far as public facts tell."""
        if plan.num_records is None:
            return not memory
        return plan.num_records > base.LOOK and _size(plan.num_records, plan.model) > memory

    def read(self, kind: type, encoding: Any, model: Any, memory: int = 0) -> Any:
        """The table of records in working units; one block of them, if that takes ``memory`` at most."""
        used = (*(source.name for source in encoding.all_sources), str(self.columns.target.name))
        reading = Reading(columns=self.columns, encoding=encoding, model=model, kind=kind)
        offset = None if encoding.offset is None else np.empty(0)
        empty = Records(features=np.empty((0, model.num_features)), response=np.empty(0), offset=offset)
        if is_dask(self.table):
            return Cluster.of(self.table[list(used)].to_delayed(), reading, empty)
        source = arrow.ArrowSource.of(self.table, used)
        if _size(source.num_records, model) <= memory:
            return joined([empty, *map(reading, source.pieces())])
        return Stream(source=source, read=reading, empty=empty)


def _size(num_records: int, model: Any) -> int:
    """Bytes that the records of a model take in memory."""
    return int(COPIES * 8 * num_records * (model.num_features + 1))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """From a piece of the table to records in working units: a map of each row by itself."""

    columns: Columns
    encoding: Any
    model: Any
    kind: type
    """The estimator, which knows the coding of its response."""

    def __call__(self, piece: Any) -> Records:
        found = encoded(self.columns, self.encoding, piece, None, self.model)
        return in_working_units(self.kind(), *found, self.model)


def in_working_units(estimator: Any, features: Any, target: Any, exposure: Any, model: Any) -> Records:
    """Records of features, a response and maybe an exposure (or offset) as they stand in the table."""
    with silent():
        response = estimator._coded(target, model)
        # Held before they are checked: in working units a finite number may overflow.
        features, response = held(model.scale_features(features)), held(model.scale_response(response))
        offset = None if exposure is None else model.scale_offset(exposure)
        return Records(features=features, response=response, offset=offset, known=True)
