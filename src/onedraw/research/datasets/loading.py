# SPDX-License-Identifier: Apache-2.0
"""Read a data set from a folder or, failing that, from OpenML; either way its content is checked.

The folder is ``data_home``, or else the environment variable ``ONEDRAW_DATA``; it holds the files under the
names by which they are published. A file with another checksum is refused, and so is a download whose
content, in whatever order, is not that of the published file.

>>> load("iris")
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected name to be one of 'abalone', ...
"""

from __future__ import annotations

import hashlib
import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw._validate import one_of
from onedraw.errors import InvalidInput
from onedraw.research.datasets.records import Categories, DataSet, Ignored
from onedraw.research.datasets.registry import DATASETS
from onedraw.types import Array

VARIABLE = "ONEDRAW_DATA"
DIGITS = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A parsed data set: raw features (n, d) by ``names``, and the response (n,)."""

    data: DataSet
    features: Array
    response: Array
    names: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    """Public ranges of the features, (0, 1) for those made of categories."""


def load(name: str, *, data_home: str | os.PathLike[str] | None = None) -> Table:
    """The data set, from ``data_home``, from ``$ONEDRAW_DATA``, or downloaded."""
    data = DATASETS[one_of(DATASETS, name=name)]
    home = data_home or os.environ.get(VARIABLE)
    if home is not None:
        return parse(data, read_rows(data, Path(home)))
    if data.openml is None:
        raise InvalidInput(
            f"The data set {name!r} is not at hand, and OpenML has no copy of it that could be checked. "
            f"{_by_hand(data)}"
        )
    try:
        rows = download(data)
    except OSError as error:
        raise InvalidInput(
            f"The data set {name!r} could not be downloaded from OpenML ({type(error).__name__}). Connect to "
            f"the network and try again, or: {_by_hand(data)}"
        ) from None
    return checked(parse(data, rows))


def _by_hand(data: DataSet) -> str:
    return (
        f"Put the file {data.file!r} from {data.source} into a folder, and name the folder by data_home=... "
        f"or by the environment variable {VARIABLE}."
    )


def read_rows(data: DataSet, home: Path) -> list[list[str]]:
    """The cells of the published file, whose checksum must be right."""
    path = home / data.file
    if not path.is_file():
        other = "" if data.openml is None else f" Or unset {VARIABLE}, to have it downloaded from OpenML."
        raise InvalidInput(f"The folder {str(home)!r} has no {data.file!r}. {_by_hand(data)}{other}")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != data.sha256:
        raise InvalidInput(
            f"The file {str(path)!r} is not the published {data.name!r}: its SHA-256 is {found}, expected "
            f"{data.sha256}. {_by_hand(data)}"
        )
    lines = content.decode("utf-8").splitlines()[data.header :]
    kept = [line for line in lines if line.strip() and not line.startswith(data.skip or ("\0",))]
    return [[cell.strip() for cell in line.split(data.separator)] for line in kept]


def download(data: DataSet) -> list[list[str]]:
    """The cells of OpenML's copy, as strings in the order of the published file's columns."""
    assert data.openml is not None
    optional("pandas", "A download from OpenML", "all")
    fetch = importlib.import_module("sklearn.datasets").fetch_openml
    frame: Any = fetch(data_id=data.openml.data_id, as_frame=True, parser="auto").frame
    chosen = frame[list(data.openml.columns)]
    if data.openml.last is not None:
        chosen = chosen.tail(data.openml.last)
    place = [column.name for column in data.columns].index(data.target)
    rows = [[str(cell) for cell in row] for row in chosen.itertuples(index=False)]
    for row in rows:
        row[place] = data.openml.target.get(row[place], row[place])
    return rows


def parse(data: DataSet, rows: list[list[str]]) -> Table:
    """Cells to numbers: one column for each number, one for each shown category."""
    if len(rows) != data.rows or any(len(row) != len(data.columns) for row in rows):
        raise InvalidInput(
            f"Expected {data.rows} rows of {len(data.columns)} cells in {data.name!r}, got {len(rows)} rows. "
            f"{_by_hand(data)}"
        )
    columns: list[list[float]] = []
    names: list[str] = []
    bounds: list[tuple[float, float]] = []
    response: list[float] = []
    for place, column in enumerate(data.columns):
        cells = [row[place] for row in rows]
        if column.name == data.target:
            response = [data.response(cell) for cell in cells]
        elif isinstance(column, Categories):
            for level in column.shown:
                columns.append([float(cell == level) for cell in cells])
                names.append(f"{column.name}={level}")
                bounds.append((0.0, 1.0))
        elif not isinstance(column, Ignored):
            columns.append([column.number(cell) for cell in cells])
            names.append(column.name)
            bounds.append((float(column.low), float(column.high)))
    return Table(
        data=data,
        features=np.array(columns).T.copy(),
        response=np.array(response),
        names=tuple(names),
        bounds=tuple(bounds),
    )


def content_checksum(table: Table) -> str:
    """Of the sorted rows at six significant digits: the same for every faithful copy of the data."""
    rows = np.column_stack([table.features, table.response])
    lines = sorted(" ".join(f"{value + 0.0:.{DIGITS}g}" for value in row) for row in rows.tolist())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def checked(table: Table) -> Table:
    """The table, if its content is that of the published file."""
    if content_checksum(table) != table.data.content:
        raise InvalidInput(
            f"OpenML's copy of {table.data.name!r} is not the published table (its content differs). "
            f"{_by_hand(table.data)}"
        )
    return table
