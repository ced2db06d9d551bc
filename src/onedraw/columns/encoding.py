# SPDX-License-Identifier: Apache-2.0
"""From the columns of a table to numbers, by public rules only; and again from the names in a release.

A column with categories becomes one indicator for each category but the first, the reference. An indicator
is named ``smoker=yes (vs no)``, so the release itself tells how to encode new rows, and which categories
there are.

Guarantee:
    Each row is encoded by itself (``onedraw.columns.values``), so blocks of a table may be encoded one after
    another, and two tables that differ in one record are encoded to tables that differ in at most that one.
    With the rule "drop" a record may be encoded to nothing, so neighbours of one size may become neighbours
    of different sizes: ``check_drop`` refuses it where the number of rows is public.

Messages name columns, never a value and never a line: they may end up in a log.

>>> encoding = Encoding.from_features(("age", "smoker=yes (vs no)"))
>>> [(source.name, source.column.categories) for source in encoding.sources]
[('age', None), ('smoker', ('no', 'yes'))]
>>> encoding.encode({"age": ["61", "47"], "smoker": ["yes", "no"]})[0]
array([[61.,  1.],
       [47.,  0.]])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onedraw.advice import Declare, Set
from onedraw.columns.declaration import Columns
from onedraw.columns.facts import DROP, NEAREST, VERSUS, Column, Target
from onedraw.columns.names import no_such_column
from onedraw.columns.values import Reader, Reading
from onedraw.errors import InvalidInput
from onedraw.model import Bounds, Offset
from onedraw.types import AnyArray, Array

IDENTITY = (-1.0, 1.0)
"""The bounds that leave a feature as it is."""
TERM = re.compile(r"^([^:]+)\[T\.[^:]+\]$", re.DOTALL)
"""The name that a formula gives an indicator, ``town[T.b]``; ``town[T.b]:age`` is a product."""
INDICATOR = re.compile(rf"^([^=]+)=(.+?){re.escape(VERSUS)}(.+)\)$", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Source:
    """One column of the table, and how it becomes features."""

    name: str
    column: Column = field(default_factory=Column)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features it gives."""
        if self.column.categories is None:
            return (self.name,)
        reference, *others = self.column.categories
        return tuple(f"{self.name}={label}{VERSUS}{reference})" for label in others)

    def read(self, values: Any, reader: Reader) -> Reading:
        """Numbers, or positions among the categories; nothing is put in the place of any value yet."""
        if self.column.categories is None:
            return reader.numbers(values)
        return reader.positions(values, self.column.categories)

    def fill(self, reading: Reading) -> tuple[AnyArray, AnyArray]:
        """The values with those of the rules, and which rows stay."""
        categories = self.column.categories
        filled, keep = reading.values.copy(), np.ones(len(reading.values), dtype=bool)
        for rule, where in zip(self.column.rules, (reading.missing, reading.unknown), strict=True):
            if rule == DROP and DROP not in (categories or ()):
                keep &= ~where
                filled[where] = 0
            elif rule is not None:
                filled[where] = rule if categories is None else categories.index(str(rule))
        return filled, keep

    def refuse(self, reading: Reading) -> None:
        """Complain of values that no rule is declared for."""
        missing, unknown = self.column.rules
        if missing is None and reading.missing.any():
            raise InvalidInput(
                f"Column {self.name!r} has missing values, and no public rule says what they count as.",
                advice=Declare("missing", column=self.name),
            )
        if unknown is None and reading.unknown.any():
            numeric = self.column.categories is None
            found = "something that is not a finite number" if numeric else "a category that is not declared"
            raise InvalidInput(
                f"Column {self.name!r} holds {found}.",
                advice=[
                    Declare("categories", column=self.name, note=", from a code book and not from the data"),
                    Declare("unknown", column=self.name, note=", which such values then count as"),
                ],
            )


@dataclass(frozen=True, kw_only=True)
class OffsetSource:
    """The column of an exposure or offset, and what is public about it."""

    source: Source
    offset: Offset

    @classmethod
    def of(cls, columns: Columns, name: str, *, is_log: bool = False) -> OffsetSource:
        """Of a declared column; its range is needed, and says what an impossible exposure counts as."""
        source = Source(name=name, column=columns.columns.get(name, Column()))
        if source.column.bounds is None:
            what = "offset" if is_log else "exposure"
            raise InvalidInput(
                f"The {what} {name!r} needs a declared {'' if is_log else 'positive '}range.",
                advice=Declare("bounds", column=name),
            )
        return cls(source=source, offset=Offset(name=name, bounds=source.column.bounds, is_log=is_log))


@dataclass(frozen=True, kw_only=True, eq=False)
class Sources:
    """The columns of a table that are read, and how their values are written."""

    sources: tuple[Source, ...]
    offset: OffsetSource | None = None
    """Of the exposure or offset, which is no feature."""
    reader: Reader = field(default_factory=Reader)

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """Those of features, and that of the offset."""
        return self.sources if self.offset is None else (*self.sources, self.offset.source)

    @property
    def without_rules(self) -> tuple[str, ...]:
        """The columns of which some value could be refused."""
        return tuple(source.name for source in self.all_sources if not source.column.is_total)

    @property
    def drops(self) -> bool:
        """Whether some rule leaves rows out."""
        return any(DROP in source.column.rules for source in self.all_sources)

    def encode_offset(self, table: Mapping[str, Any]) -> tuple[Array, AnyArray] | tuple[None, None]:
        """The values of the offset's column (n,), and which rows stay, (n,); None where there is none."""
        if self.offset is None:
            return None, None
        source = self.offset.source
        reading = source.read(table[source.name], self.reader)
        source.refuse(reading)
        return source.fill(reading)


@dataclass(frozen=True, kw_only=True)
class Encoding(Sources):
    """All sources in order: numbers as they are, and indicators of categories."""

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for source in self.sources for name in source.features)

    @property
    def feature_bounds(self) -> list[Bounds] | None:
        """One pair per feature; None if nothing is known about any of them."""
        columns = [source.column for source in self.sources]
        if all(column.bounds is None and column.categories is None for column in columns):
            return None
        return [
            (0.0, 1.0) if source.column.categories is not None else source.column.bounds or IDENTITY
            for source in self.sources
            for _ in source.features
        ]

    def encode(self, table: Mapping[str, Any]) -> tuple[Array, AnyArray]:
        """The design matrix (n, features) of some rows, and which of them stay, (n,).

        A value that no rule is declared for is refused.
        """
        columns = [(source, source.read(table[source.name], self.reader)) for source in self.sources]
        rows = len(columns[0][1].values) if columns else 0
        design, keep = np.empty((rows, len(self.features))), np.ones(rows, dtype=bool)
        place = 0
        for source, reading in columns:
            source.refuse(reading)
            values, stays = source.fill(reading)
            keep &= stays
            if source.column.categories is None:
                design[:, place] = values
            else:
                for code in range(1, len(source.column.categories)):
                    design[:, place + code - 1] = values == code
            place += len(source.features)
        return design, keep

    @classmethod
    def of(cls, columns: Columns, names: Iterable[str]) -> Encoding:
        """For a table with these columns: those in use, or else all but the target and the ignored."""
        names, target = tuple(names), columns.target.name
        declared = {"use": columns.use or (), "ignore": columns.ignore, "columns": tuple(columns.columns)}
        exposure = columns.exposure
        if exposure is not None:
            declared["exposure"] = (exposure,)
            for key in ("use", "ignore"):
                if exposure in declared[key]:
                    raise InvalidInput(
                        f"The column specification names {exposure!r} as exposure and in {key}. "
                        "An exposure is no feature: keep one of them."
                    )
        for key, listed in declared.items():
            for name in listed:
                if name == target:
                    raise InvalidInput(
                        f"The column specification names the target {name!r} in {key}. "
                        "Describe it in [target]."
                    )
                if name not in names:
                    told = f"The column specification names {name!r} in {key}, which the table does not have."
                    raise no_such_column(name, names, told=told)
        used = columns.use
        if used is None:
            used = tuple(name for name in names if name not in (target, exposure, *columns.ignore))
        unused = [name for name in columns.columns if name not in (*used, exposure)]
        if unused:
            raise InvalidInput(
                f"The column specification describes {unused[0]!r}, which is not used. "
                "Add it to use, or take its description out."
            )
        if not used:
            raise InvalidInput("No column is left as a feature. Check use and ignore in the specification.")
        sources = tuple(Source(name=name, column=columns.columns.get(name, Column())) for name in used)
        for source in sources:
            if source.column.categories is None and INDICATOR.match(source.name):
                raise InvalidInput(
                    f"Column {source.name!r} is named like an indicator of a category. Rename it."
                )
        offset = None if exposure is None else OffsetSource.of(columns, exposure)
        return cls(sources=sources, offset=offset, reader=columns.reader)

    @classmethod
    def from_features(cls, features: tuple[str, ...], columns: Columns | None = None) -> Encoding:
        """As a release's feature names say; ``columns`` adds the rules for values that are not foreseen."""
        given = Columns() if columns is None else columns
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
        sources = tuple(
            Source(name=name, column=_with_rules(name, labels, given.columns.get(name, Column())))
            for name, labels in found.items()
        )
        encoding = cls(sources=sources, reader=given.reader)
        if encoding.features != features:
            raise InvalidInput(
                "The feature names of the release cannot be read as columns. "
                "Use onedraw.estimators.from_release in Python."
            )
        return encoding


def indicators(
    features: Iterable[str], bounds: Sequence[tuple[float, float]] | None = None
) -> dict[str, tuple[int, ...]]:
    """By the names of features, where the indicators of each column of categories stand among them.

    Where bounds are declared, those of an indicator are 0 and 1; columns with others are left out.

    >>> indicators(["age", "sex=m (vs f)", "smoker=yes (vs no)", "smoker=former (vs no)"])
    {'sex': (1,), 'smoker': (2, 3)}
    >>> indicators(["town[T.b]", "town[T.c]", "age", "town[T.b]:age"])
    {'town': (0, 1)}
    """
    found: dict[str, list[int]] = {}
    for place, feature in enumerate(features):
        match = INDICATOR.match(feature) or TERM.match(feature)
        if match is not None:
            found.setdefault(match[1], []).append(place)
    return {
        name: tuple(places)
        for name, places in found.items()
        if bounds is None or all(tuple(bounds[place]) == (0.0, 1.0) for place in places)
    }


def _with_rules(name: str, labels: list[str] | None, declared: Column) -> Column:
    """A column of a release, with the rules of a declaration that must fit it."""
    categories = None if labels is None else tuple(labels)
    for rule in (declared.missing, declared.unknown):
        if rule is None or rule == DROP:
            continue
        if (categories is None) == isinstance(rule, str):
            raise InvalidInput(f"The rule for missing values of {name!r} does not fit the release.")
        if categories is not None and rule not in categories:
            raise InvalidInput(f"The rule for missing values of {name!r} is no category of the release.")
    return Column(categories=categories, missing=declared.missing, unknown=declared.unknown)


# -- the response


def encode_response(
    values: Any, target: Target, reader: Reader, name: str, *, classes: Any = None, counts: bool = False
) -> tuple[AnyArray, AnyArray]:
    """The response as declared classes, or as numbers, and which rows stay.

    ``counts``: whether only whole numbers from 0 on are possible.
    """
    if classes is not None:
        classes = tuple(classes)
        reading = reader.positions(values, classes)
    else:
        reading = reader.numbers(values)
        if counts:
            reading = possible_counts(reading)
    rules = target.rules
    filled, keep = reading.values.copy(), np.ones(len(reading.values), dtype=bool)
    for rule, where in zip(rules, (reading.missing, reading.unknown), strict=True):
        if rule is None:
            if where.any():
                raise _refused_response(name, classes, where is reading.missing, counts)
        elif rule == DROP and rule not in (classes or ()):
            keep &= ~where
            filled[where] = 0
        elif rule == NEAREST and classes is None:
            filled[where] = np.maximum(np.rint(np.nan_to_num(reading.values[where], nan=0.0)), 0.0)
        else:
            filled[where] = (
                rule if classes is None else [reader.key(c) for c in classes].index(reader.key(rule))
            )
    return (filled if classes is None else np.array(classes)[filled.astype(np.intp)]), keep


def possible_counts(reading: Reading) -> Reading:
    """The reading with negative and fractional numbers among the unknown; they keep their values."""
    with np.errstate(invalid="ignore"):
        impossible = (reading.values < 0.0) | (reading.values != np.rint(reading.values))
    return Reading(
        values=reading.values,
        missing=reading.missing,
        unknown=(impossible | reading.unknown) & ~reading.missing,
    )


def _refused_response(name: str, classes: Any, missing: bool, counts: bool) -> InvalidInput:
    """No message quotes a value."""
    if missing:
        return InvalidInput(
            f"The target {name!r} has missing values, and no public rule says what they count as.",
            advice=Declare("missing"),
        )
    if classes is not None:
        facts = f"The target {name!r} holds a label that is not among the classes {list(classes)!r}."
        return InvalidInput(facts, advice=[Set("classes"), Declare("unknown", classes[0], note=", say")])
    if counts:
        facts = f"Expected a response of counts, but the target {name!r} holds other values."
        return InvalidInput(facts, advice=Declare("unknown", NEAREST))
    facts = f"The target {name!r} holds something that is not a finite number."
    return InvalidInput(facts, advice=Declare("unknown", note=", which such values then count as"))
