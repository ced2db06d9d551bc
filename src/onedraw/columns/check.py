# SPDX-License-Identifier: Apache-2.0
"""NOT PRIVATE: which rows of a table a fit would refuse, or read by a rule. For the holder of the data.

>>> from onedraw.columns import Column, Columns
>>> columns = Columns({"age": Column(bounds=(18, 100)), "smoker": ["no", "yes"]})
>>> for finding in check(columns, {"age": [61, None, "old"], "smoker": ["no", "yes", "si"]}):
...     print(finding.column, "|", finding.what, "|", finding.rows, "|", finding.counts_as)
age | missing | (1,) | None
age | not a finite number | (2,) | None
smoker | not a declared category | (2,) | None
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.columns.declaration import Columns
from onedraw.columns.encoding import Encoding, possible_counts
from onedraw.columns.values import Reading

NOT_A_NUMBER, NOT_A_CLASS = "not a finite number", "not a declared class"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Values of one column that the declaration does not foresee. Private.

    ``rows`` count from 0. ``counts_as`` is what a declared rule makes of them; without one they are refused.
    """

    column: str
    what: str
    rows: tuple[int, ...]
    counts_as: Any = None

    @property
    def refused(self) -> bool:
        """Whether a fit would fail by them."""
        return self.counts_as is None


def check(
    columns: Columns, table: Any, *, classes: tuple[Any, ...] | None = None, counts: bool = False
) -> list[Finding]:
    """All values of the table that the declaration does not foresee. Private.

    Args:
        columns: the declaration; its target is looked at if it is named.
        table: columns by name, as for a fit.
        classes: those of the response, where the declaration does not have them.
        counts: whether the response can only be a count.
    """
    names = table.keys() if hasattr(table, "keys") else getattr(table, "column_names", table.columns)
    encoding = Encoding.of(columns, (str(name) for name in names))
    found: list[Finding] = []
    for source in encoding.all_sources:
        what = NOT_A_NUMBER if source.column.categories is None else "not a declared category"
        reading = source.read(table[source.name], encoding.reader)
        found += _findings(source.name, reading, source.column.rules, what)
    if encoding.offset is not None:  # its reading is the last
        low = encoding.offset.offset.bounds[0]
        rows = tuple(np.flatnonzero(reading.values < low).tolist())
        if rows:
            found.append(Finding(column=source.name, what="below its range", rows=rows, counts_as=low))
    target = columns.target
    if target.name is not None:
        labels = target.classes if classes is None else classes
        if labels is not None:
            reading, what = encoding.reader.positions(table[target.name], labels), NOT_A_CLASS
        else:
            reading, what = encoding.reader.numbers(table[target.name]), NOT_A_NUMBER
            if counts:
                reading, what = possible_counts(reading), "not a count"
        found += _findings(target.name, reading, target.rules, what)
    return found


def _findings(name: str, reading: Reading, rules: tuple[Any, Any], what: str) -> Iterator[Finding]:
    for label, where, rule in zip(("missing", what), (reading.missing, reading.unknown), rules, strict=True):
        if where.any():
            rows = tuple(np.flatnonzero(where).tolist())
            yield Finding(column=name, what=label, rows=rows, counts_as=rule)
