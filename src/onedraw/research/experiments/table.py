# SPDX-License-Identifier: Apache-2.0
"""Tables of plain rows: averages with standard errors, and CSV with a comment line that says where from.

>>> rows = [{"n": 10, "error": 1.0}, {"n": 10, "error": 3.0}, {"n": 20, "error": 1.0}]
>>> summarise(rows, by=("n",), values=("error",))[0]
{'n': 10, 'error': 2.0, 'error_se': 1.0, 'count': 2}
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onedraw.research.experiments.spec import Row, Value


def summarise(rows: Sequence[Row], *, by: Sequence[str], values: Sequence[str]) -> list[Row]:
    """Means over the rows that agree in ``by``, in order of appearance; NaN does not count."""
    groups: dict[tuple[Value, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    found = []
    for key, members in groups.items():
        summary: Row = dict(zip(by, key, strict=True))
        for value in values:
            numbers = np.array([row[value] for row in members], dtype=float)
            numbers = numbers[np.isfinite(numbers)]
            summary[value] = float(numbers.mean()) if len(numbers) else math.nan
            spread = float(numbers.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else math.nan
            summary[f"{value}_se"] = spread
        summary["count"] = len(members)
        found.append(summary)
    return found


def select(rows: Sequence[Row], **wanted: Value) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def one(rows: Sequence[Row], column: str, **wanted: Value) -> float:
    """The number in that column of the only row with these values; NaN if there is none."""
    found = select(rows, **wanted)
    return float(found[0][column]) if found else math.nan


def distinct(rows: Sequence[Row], column: str) -> list[Value]:
    """The values of a column, in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows))


def largest(rows: Sequence[Row], column: str) -> float:
    """The largest number in a column."""
    return max(float(row[column]) for row in rows)


def at_largest_n(rows: Sequence[Row]) -> list[Row]:
    """The rows with the largest n of their data set."""
    most = {name: largest(select(rows, data=name), "n") for name in distinct(rows, "data")}
    return [row for row in rows if row["n"] == most[row["data"]]]


def to_csv(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """Text of a CSV file whose first line is a comment, ``# {...}``, with the origin of the numbers."""
    text = io.StringIO()
    text.write(f"# {json.dumps(about, sort_keys=True)}\n")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _text(value: Value) -> Value:
    return f"{value:.6g}" if isinstance(value, float) else value


def from_csv(text: str) -> tuple[list[Row], dict[str, Any]]:
    """What ``to_csv`` wrote; cells that read as numbers are numbers.

    >>> from_csv(to_csv([{"a": 1, "b": "x"}], {"seed": 3}))
    ([{'a': 1.0, 'b': 'x'}], {'seed': 3})
    """
    comment, _, body = text.partition("\n")
    about: dict[str, Any] = json.loads(comment.removeprefix("# "))
    return [{k: _value(v) for k, v in row.items()} for row in csv.DictReader(io.StringIO(body))], about


def _value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text
