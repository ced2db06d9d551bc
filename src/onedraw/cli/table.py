# SPDX-License-Identifier: Apache-2.0
"""Read a table from a CSV, TSV, Excel or Parquet file: names and columns, values as they stand there.

No message quotes a value.

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
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onedraw._extras import optional
from onedraw.cli.sheet import first_sheet
from onedraw.columns import Columns
from onedraw.columns.names import no_such_column
from onedraw.errors import InvalidInput, MissingExtra
from onedraw.tables import arrow

LARGE = 1 << 25
"""Bytes of a text file from which on it is read as typed columns, which takes a tenth of the time."""
SUFFIXES = {".csv": ",", ".tsv": "\t"}
MISSING = ("", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "None", "none")
"""What stands for a missing value in a text file of typed columns."""
PLAIN = Columns()
"""Where nothing is said about how a file is written."""
REPLACED = "\N{REPLACEMENT CHARACTER}"
_SAVE = "Save the table as CSV in UTF-8, its first line holding the column names."


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns by name, all of one length; values are text (CSV) or whatever Parquet holds."""

    columns: dict[str, list[Any]]
    num_rows: int

    def column(self, name: str) -> list[Any]:
        """The column of that name, which the caller knows from elsewhere and the error may quote."""
        if name not in self.columns:
            raise no_such_column(name, self.columns)
        return self.columns[name]


def odd_lines(path: str, form: Columns = PLAIN) -> list[int]:
    """PRIVATE: the numbers of the lines with more or fewer fields than the first; for the holder only."""
    if _is_parquet(path):
        return []
    with _csv(path, form) as rows:
        width = len(next(rows, []))
        return [number for number, row in enumerate(rows, start=2) if row and len(row) != width]


def open_table(path: str, form: Columns = PLAIN, *, guess: bool = False) -> Any:
    """The file as a dataset whose typed columns are read piece by piece; None if it is a small text file.

    That is for Parquet files, folders of them, and text files from ``LARGE`` on that are written plainly. Of
    these only the names are looked at: the type of a column follows from what is declared, as one that was
    guessed from the first rows, and a failure to read them so, would tell of them before a charge. ``guess``
    is for tables that are not private.
    """
    if Path(path).is_dir() or _is_parquet(path):
        return arrow.open_files(path, format="parquet")
    plain = form.decimal == "." and form.encoding == "utf-8" and path.lower().endswith((".csv", ".tsv"))
    if not plain or not Path(path).is_file() or Path(path).stat().st_size < LARGE:
        return None
    text, types = (optional(name, "Large text files", "arrow") for name in ("pyarrow.csv", "pyarrow"))
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        separator = form.separator or separator_of(file.readline(), SUFFIXES[Path(path).suffix.lower()])
    parsed = text.ParseOptions(delimiter=separator, newlines_in_values=True)
    schema = types.schema([(name, _csv_type(form, name)) for name in read_header(path, form)])
    if guess:
        guessed = arrow.open_files(path, format=_datasets().CsvFileFormat(parse_options=parsed)).schema
        # A column that begins with whole numbers may go on with others.
        kinds = [types.float64() if types.types.is_integer(f.type) else f.type for f in guessed]
        schema = types.schema(zip(guessed.names, kinds, strict=True))
    converted = text.ConvertOptions(column_types=schema, null_values=[*MISSING, *form.missing])
    form_of_file = _datasets().CsvFileFormat(parse_options=parsed, convert_options=converted)
    return arrow.open_files(path, format=form_of_file, schema=schema)


def _csv_type(form: Columns, name: str) -> Any:
    """Numbers, unless categories, classes or a rule for what is no number ask for text."""
    types = optional("pyarrow", "Large text files", "arrow")
    target = name == form.target.name
    declared = form.target if target else form.columns.get(name)
    if declared is None:
        return types.float64()
    labels = declared.classes if target else declared.categories
    return types.float64() if labels is None and declared.rules == (None, None) else types.string()


def _datasets() -> Any:
    return optional("pyarrow.dataset", "Reading Parquet", "arrow")


def read_header(path: str, form: Columns = PLAIN) -> tuple[str, ...]:
    """The names of the columns, and nothing of the rows."""
    if Path(path).is_dir():
        return tuple(open_table(path).schema.names)
    if _is_parquet(path):
        return tuple(_parquet(path, "ParquetFile").schema_arrow.names)
    with _csv(path, form, lenient=True) as rows:
        names = next(rows, [])
    if not names:
        raise InvalidInput(f"The file {path!r} is empty, or its first line is. {_SAVE}")
    if any(REPLACED in name for name in names):
        raise _no_text(path, form)
    _check_names(names, path)
    return tuple(names)


def count_rows(path: str, form: Columns = PLAIN) -> int | None:
    """The number of rows, for where it is public; None if the file cannot be read: reading it says why."""
    try:
        if Path(path).is_dir():
            return arrow.count_rows(open_table(path))
        if _is_parquet(path):
            return int(_parquet(path, "ParquetFile").metadata.num_rows)
        with _csv(path, form, lenient=True) as rows:
            names = next(rows, [])
            return sum(1 for record in rows if record or len(names) == 1)
    except InvalidInput:
        return None


def read_table(path: str, form: Columns = PLAIN) -> Table:
    """The whole file."""
    if _is_parquet(path):
        content = _parquet(path, "read_table")
        names = [str(name) for name in content.column_names]
        _check_names(names, path)
        columns = {name: content.column(i).to_pylist() for i, name in enumerate(names)}
        return Table(columns=columns, num_rows=int(content.num_rows))
    with _csv(path, form) as found:
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
def _csv(path: str, form: Columns, *, lenient: bool = False) -> Iterator[Iterator[list[str]]]:
    """The rows of a text file; whatever goes wrong with it is said without quoting it.

    With ``lenient`` as little as possible goes wrong: names are read, and rows counted, before a charge, and
    that a byte of some row is not text, or a quote of it open, would be told for nothing.
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = suffixes[-1:] == [".gz"]
    suffix = (suffixes[:-1] if packed else suffixes)[-1:]
    workbook = suffixes[-1:] in ([".xlsx"], [".xlsm"])
    if form.separator is None and not workbook and (not suffix or suffix[0] not in SUFFIXES):
        raise InvalidInput(
            "Expected a file that ends in .csv, .tsv (or .csv.gz, .tsv.gz), .xlsx or .parquet, or a text "
            f"file whose separator the column file declares (separator = ','), got {path!r}. {_SAVE}"
        )
    encoding = "utf-8-sig" if form.encoding == "utf-8" else form.encoding  # a mark is not part of a name
    try:
        if workbook:
            with first_sheet(path) as rows:
                yield rows
            return
        errors = "replace" if lenient else "strict"
        with (gzip.open if packed else open)(
            path, "rt", encoding=encoding, errors=errors, newline=""
        ) as file:
            first = file.readline()
            file.seek(0)
            separator = form.separator or separator_of(first, SUFFIXES[suffix[0]])
            yield csv.reader(file, delimiter=separator, strict=not lenient)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "damaged"
        raise InvalidInput(f"Cannot read {path!r} ({reason}). Check the path.") from None
    except (
        UnicodeError,
        csv.Error,
    ):  # another encoding, a null byte, an open quote; the message could quote it
        raise _no_text(path, form) from None


def _no_text(path: str, form: Columns) -> InvalidInput:
    return InvalidInput(f"The file {path!r} is not a CSV file in {form.encoding.upper()}. {_SAVE}")


def separator_of(first: str, usual: str) -> str:
    """What separates the names in a first line: a semicolon or a tab, if the usual separator is not in it.

    >>> separator_of('"fixed acidity";"pH"', ","), separator_of("age,sex;", ","), separator_of("age", ",")
    (';', ',', ',')
    """
    return next((mark for mark in (usual, ";", "\t") if mark in first), usual)


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
