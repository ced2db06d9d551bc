# SPDX-License-Identifier: Apache-2.0
"""From a table to numbers, by public rules only; and again from the names in a release.

A column with categories becomes one indicator for each category but the first, the reference. An indicator
is named ``smoker=yes (vs no)``, so the release itself tells how to encode new rows, and which categories
there are.

Messages name columns, never a value and never a line: they may end up in a log.

>>> encoding = Encoding.from_features(("age", "smoker=yes (vs no)"))
>>> [(source.name, source.categories) for source in encoding.sources]
[('age', None), ('smoker', ('no', 'yes'))]
>>> encode(encoding, Table(columns={"age": ["61", "47"], "smoker": ["yes", "no"]}, num_rows=2))
array([[61.,  1.],
       [47.,  0.]])
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.cli.columns import VERSUS, Column, Specification
from onedraw.cli.table import Table
from onedraw.errors import InvalidInput
from onedraw.model import Bounds
from onedraw.types import Array

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""How CSV files write a missing value, in lower case; a declared category of that name comes first."""
IDENTITY = (-1.0, 1.0)
"""The bounds that leave a feature as it is."""
INDICATOR = re.compile(rf"^([^=]+)=(.+?){re.escape(VERSUS)}(.+)\)$", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Source:
    """One column of the table, and how it becomes features."""

    name: str
    categories: tuple[str, ...] | None = None
    bounds: Bounds | None = None
    missing: float | str | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features it gives."""
        if self.categories is None:
            return (self.name,)
        reference, *others = self.categories
        return tuple(f"{self.name}={label}{VERSUS}{reference})" for label in others)


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """All sources in order."""

    sources: tuple[Source, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for source in self.sources for name in source.features)

    @property
    def feature_bounds(self) -> list[Bounds] | None:
        """One pair per feature; None if nothing is known about any of them."""
        if all(source.bounds is None and source.categories is None for source in self.sources):
            return None
        return [
            (0.0, 1.0) if source.categories is not None else source.bounds or IDENTITY
            for source in self.sources
            for _ in source.features
        ]

    @classmethod
    def from_specification(cls, spec: Specification, names: tuple[str, ...], target: str) -> Encoding:
        """For a table with these columns: those in use, or else all but the target and the ignored."""
        declared = {"use": spec.use or (), "ignore": spec.ignore, "columns": tuple(spec.columns)}
        for key, listed in declared.items():
            for name in listed:
                if name == target:
                    raise InvalidInput(
                        f"The column specification names the target {name!r} in {key}. "
                        "Describe it in [target]."
                    )
                if name not in names:
                    raise InvalidInput(
                        f"The column specification names {name!r} in {key}, "
                        "which the table does not have. Check the spelling."
                    )
        used = spec.use
        if used is None:
            used = tuple(name for name in names if name not in (target, *spec.ignore))
        unused = [name for name in spec.columns if name not in used]
        if unused:
            raise InvalidInput(
                f"The column specification describes {unused[0]!r}, which is not used. "
                "Add it to use, or take its description out."
            )
        if not used:
            raise InvalidInput("No column is left as a feature. Check use and ignore in the specification.")
        sources = []
        for name in used:
            facts = spec.columns.get(name, Column())
            if facts.categories is None and INDICATOR.match(name):
                raise InvalidInput(f"Column {name!r} is named like an indicator of a category. Rename it.")
            sources.append(
                Source(name=name, categories=facts.categories, bounds=facts.bounds, missing=facts.missing)
            )
        return cls(sources=tuple(sources))

    @classmethod
    def from_features(cls, features: tuple[str, ...], spec: Specification | None = None) -> Encoding:
        """As a release's feature names say; ``spec`` adds the rules for missing values."""
        columns: Mapping[str, Column] = {} if spec is None else spec.columns
        found: dict[str, list[str] | None] = {}
        for feature in features:
            match = INDICATOR.match(feature)
            if match is None:
                found[feature] = None
                continue
            name, label, reference = match.groups()
            labels = found.setdefault(name, [reference])
            if labels is not None:
                labels.append(label)
        sources = []
        for name, labels in found.items():
            categories = None if labels is None else tuple(labels)
            missing = columns.get(name, Column()).missing
            if missing is not None and (categories is None) == isinstance(missing, str):
                raise InvalidInput(f"The rule for missing values of {name!r} does not fit the release.")
            if categories is not None and missing is not None and missing not in categories:
                raise InvalidInput(f"The rule for missing values of {name!r} is no category of the release.")
            sources.append(Source(name=name, categories=categories, missing=missing))
        encoding = cls(sources=tuple(sources))
        if encoding.features != features:
            raise InvalidInput(
                "The feature names of the release cannot be read as columns. "
                "Use onedraw.estimators.from_release in Python."
            )
        return encoding


def encode(encoding: Encoding, table: Table) -> Array:
    """The design matrix, (n, features)."""
    blocks = [_encode_source(source, table.column(source.name)) for source in encoding.sources]
    return np.concatenate([np.empty((table.num_rows, 0)), *blocks], axis=1)


def _encode_source(source: Source, values: list[Any]) -> Array:
    if source.categories is None:
        return read_numbers(values, source.name, source.missing)[:, None]
    codes = read_labels(values, source.categories, source.name, source.missing)
    indicators: Array = np.eye(len(source.categories))[codes]
    return indicators[:, 1:]


def read_numbers(values: list[Any], name: str, missing: Any = None) -> Array:
    """A column as finite numbers."""
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        if _is_missing(value):
            if missing is None:
                raise _missing(name, f"missing = a number under [columns.{name}]")
            value = missing
        try:
            if isinstance(value, str) and "_" in value:
                raise ValueError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise InvalidInput(
                f"Column {name!r} holds something that is not a finite number. "
                "Correct it, or declare its categories in the column specification."
            )
        numbers[i] = number
    return numbers


def read_labels(
    values: list[Any], categories: tuple[str, ...], name: str, missing: Any = None
) -> np.ndarray[Any, np.dtype[np.intp]]:
    """A column as positions in its categories, compared as text."""
    positions = {label: i for i, label in enumerate(categories)}
    codes = np.empty(len(values), dtype=np.intp)
    for i, value in enumerate(values):
        code = positions.get(_text(value))
        if code is None and _is_missing(value):
            if missing is None:
                raise _missing(name, f"missing = a category under [columns.{name}]")
            code = positions[missing]
        if code is None:
            raise InvalidInput(
                f"Column {name!r} holds a category that is not declared. "
                "Declare every category in the column specification, from a code book and not from the data."
            )
        codes[i] = code
    return codes


def read_classes(values: list[Any], classes: tuple[Any, ...], name: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The response as declared classes; numeric ones are compared as numbers, 1.0 being 1."""
    if isinstance(classes[0], str):
        keys: dict[Any, int] = {label: i for i, label in enumerate(classes)}
        found = [None if _is_missing(v) and _text(v) not in keys else keys.get(_text(v), -1) for v in values]
    else:
        keys = {float(label): i for i, label in enumerate(classes)}
        found = [None if _is_missing(value) else keys.get(_number(value), -1) for value in values]
    if None in found:
        raise _missing(name, None)
    if -1 in found:
        raise InvalidInput(
            f"The target column {name!r} holds a label that is not among the classes {list(classes)!r}. "
            "Declare them: classes = [...] under [target] of the column specification."
        )
    return np.array(classes)[np.array(found, dtype=np.intp)]


def read_response(values: list[Any], name: str) -> Array:
    """The response as numbers, none of them missing."""
    if any(_is_missing(value) for value in values):
        raise _missing(name, None)
    return read_numbers(values, name)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


def _is_missing(value: Any) -> bool:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return isinstance(value, str) and value.strip().lower() in MISSING


def _missing(name: str, rule: str | None) -> InvalidInput:
    remedy = (
        "Remove those rows by a rule that does not look at other rows."
        if rule is None
        else f"Fill them in by a public rule: {rule} of the column specification."
    )
    return InvalidInput(f"Column {name!r} has missing values. {remedy}")
