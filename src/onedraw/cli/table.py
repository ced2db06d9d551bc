# SPDX-License-Identifier: Apache-2.0
"""Read a table from a CSV, TSV or Parquet file: names and columns, values as they stand there.

No message quotes a value. The names of the columns are not quoted either: in a file without a first line of
names they would be somebody's record.

>>> import os, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "patients.csv")
...     _ = Path(path).write_text("age,smoker\\n61,yes\\n47,no\\n")
...     table = read_table(path)
>>> table.columns["smoker"], table.num_rows
(['yes', 'no'], 2)
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onedraw.errors import InvalidInput, MissingExtra

SUFFIXES = {".csv": ",", ".tsv": "\t"}
_SAVE = "Save the table as CSV in UTF-8, its first line holding the column names."


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns by name, all of one length; values are text (CSV) or whatever Parquet holds."""

    columns: dict[str, list[Any]]
    num_rows: int

    def column(self, name: str) -> list[Any]:
        """The column of that name, which the caller knows from elsewhere and the error may quote."""
        if name not in self.columns:
            raise InvalidInput(
                f"The table has no column {name!r}. Check the spelling; the first line must hold the names."
            )
        return self.columns[name]


def read_header(path: str) -> tuple[str, ...]:
    """The names of the columns, and nothing of the rows."""
    if _is_parquet(path):
        return tuple(_parquet(path, "ParquetFile").schema_arrow.names)
    with _csv(path) as rows:
        names = next(rows, [])
    if not names:
        raise InvalidInput(f"The file {path!r} is empty, or its first line is. {_SAVE}")
    _check_names(names, path)
    return tuple(names)


def count_rows(path: str) -> int | None:
    """The number of rows, for where it is public; None if the file cannot be read: reading it says why."""
    try:
        if _is_parquet(path):
            return int(_parquet(path, "ParquetFile").metadata.num_rows)
        with _csv(path) as rows:
            names = next(rows, [])
            return sum(1 for record in rows if record or len(names) == 1)
    except InvalidInput:
        return None


def read_table(path: str) -> Table:
    """The whole file."""
    if _is_parquet(path):
        content = _parquet(path, "read_table")
        names = [str(name) for name in content.column_names]
        _check_names(names, path)
        columns = {name: content.column(i).to_pylist() for i, name in enumerate(names)}
        return Table(columns=columns, num_rows=int(content.num_rows))
    with _csv(path) as found:
        rows = list(found)
    if not any(rows):
        raise InvalidInput(f"The file {path!r} is empty. {_SAVE}")
    names, *records = rows
    # An empty line says nothing, unless there is only one column: then it is a missing value.
    records = [record or [""] for record in records if record or len(names) == 1]
    if any(len(record) != len(names) for record in records):
        raise InvalidInput(
            f"Some line of {path!r} has more or fewer fields than the first. Quote fields that hold a comma."
        )
    _check_names(names, path)
    columns = {name: [record[i] for record in records] for i, name in enumerate(names)}
    return Table(columns=columns, num_rows=len(records))


@contextlib.contextmanager
def _csv(path: str) -> Iterator[Iterator[list[str]]]:
    """The rows of a text file; whatever goes wrong with it is said without quoting it."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInput(f"Expected a file that ends in .csv, .tsv or .parquet, got {path!r}. Rename it.")
    try:
        # A byte order mark is not part of the first name.
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield csv.reader(file, delimiter=SUFFIXES[suffix], strict=True)
    except OSError as error:
        raise InvalidInput(f"Cannot read {path!r} ({error.strerror}). Check the path.") from None
    except (UnicodeError, csv.Error):  # not UTF-8, a null byte, an open quote; the message could quote it
        raise InvalidInput(f"The file {path!r} is not a CSV file in UTF-8. {_SAVE}") from None


def _check_names(names: list[str], path: str) -> None:
    if len(set(names)) < len(names) or not all(names):
        raise InvalidInput(f"Two columns of {path!r} have the same name, or one has none. {_SAVE}")


def _is_parquet(path: str) -> bool:
    return Path(path).suffix.lower() in (".parquet", ".pq")


def _parquet(path: str, what: str) -> Any:
    """What pyarrow makes of the file: ``read_table`` all of it, ``ParquetFile`` only its description."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("Reading Parquet", "all") from error
    try:
        return getattr(pyarrow.parquet, what)(path)
    except OSError as error:
        reason = error.strerror or ("damaged" if Path(path).is_file() else "no such file")
        raise InvalidInput(f"Cannot read {path!r} ({reason}). Check the path.") from None
    except pyarrow.ArrowException:
        raise InvalidInput(f"The file {path!r} is not a Parquet file.") from None
