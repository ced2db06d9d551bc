# SPDX-License-Identifier: Apache-2.0
"""What is publicly known about a data set: source, licence, checksum, and the meaning of each column.

Bounds of a ``Number`` come from the documentation of the data or from what the quantity is (a percentage, an
age), in round numbers; none is the smallest or largest value in the file. They are meant to be published, and
a column may well have values beyond them.

>>> Number("age", 17, 90).unit(53.5)
0.5
>>> Interval("size", 0, 60).number("5-9")
7.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Number:
    """A numeric column with public bounds. ``missing`` maps codes of missing values to numbers."""

    name: str
    low: float
    high: float
    missing: Mapping[str, float] = field(default_factory=dict)

    def number(self, text: str) -> float:
        """The value of a cell."""
        return self.missing[text] if text in self.missing else float(text)

    def unit(self, value: float) -> float:
        """The value on [0, 1]; beyond it if the value is beyond the bounds."""
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Interval(Number):
    """Ordered classes such as 30-39, each read as the middle of its interval."""

    def number(self, text: str) -> float:
        """The middle of the interval."""
        low, _, high = text.partition("-")
        return 0.5 * (float(low) + float(high))


@dataclass(frozen=True)
class Categories:
    """Unordered classes, one column of zeros and ones each; of two, the second only. Others are all zeros."""

    name: str
    levels: tuple[str, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """The levels that have a column."""
        return self.levels[1:] if len(self.levels) == 2 else self.levels


@dataclass(frozen=True)
class Ignored:
    """A column that is not used."""

    name: str


Column = Number | Categories | Ignored


@dataclass(frozen=True, kw_only=True)
class OpenML:
    """The same table at OpenML. ``last`` takes only so many rows from its end; ``target`` recodes labels."""

    data_id: int
    columns: tuple[str, ...]
    last: int | None = None
    target: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A public data set.

    ``sha256`` is that of the published file; ``content`` that of the parsed table whatever the order of its
    rows, so that a download in another format is checked as well. ``columns`` are in the order of the file,
    and ``target`` is the name of one of them, turned into a number by ``response``.
    """

    name: str
    title: str
    task: Literal["classification", "regression"]
    file: str
    sha256: str
    content: str
    rows: int
    source: str
    licence: str
    columns: tuple[Column, ...]
    target: str
    response: Callable[[str], float]
    meaning: str
    separator: str | None = ","
    header: int = 0
    skip: tuple[str, ...] = ()
    openml: OpenML | None = None
