# SPDX-License-Identifier: Apache-2.0
"""Pieces of tables that pyarrow reads: Parquet files and folders of them, CSV files, tables in memory.

A piece is a ``pyarrow.RecordBatch`` of some columns. No message quotes a value: what pyarrow says about a
value that cannot be read is dropped, with the error that says it.

>>> import pyarrow as pa
>>> source = ArrowSource.of(pa.table({"age": [61, 47], "died": [1, 0]}), ("age", "died"))
>>> source.num_records, [piece.num_rows for piece in source.pieces()]
(2, [2])
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from onedraw._extras import optional
from onedraw.errors import InvalidInput, TableError
from onedraw.private import Withheld

PIECE = 1 << 16
"""Rows of a piece: eleven columns of doubles are 6 MB."""
CUT_SHORT = "The table could not be read to its end, so nothing is released: a file is damaged or incomplete."


def is_arrow(table: Any) -> bool:
    """Whether a table is one that this module reads where it lies: an Arrow dataset or a lazy frame."""
    kind = type(table)
    module = kind.__module__.partition(".")[0]
    return (module == "pyarrow" and hasattr(table, "schema") and not hasattr(table, "num_columns")) or (
        module == "polars" and kind.__name__ == "LazyFrame"
    )


def names_of(table: Any) -> tuple[str, ...]:
    """The names of the columns."""
    if hasattr(table, "collect_schema"):
        return tuple(table.collect_schema().names())
    return tuple(table.schema.names)


def in_arrow(table: Any) -> Any:
    """A frame in memory as an Arrow table, without a copy where that can be."""
    return optional("pyarrow", "Reading Arrow tables", "arrow").table(table)


def count_rows(table: Any) -> int:
    """The number of rows, which Parquet files and tables in memory know."""
    with _unquoted():
        if hasattr(table, "get_fragments"):
            return sum(int(fragment.count_rows()) for fragment in table.get_fragments())
        if hasattr(table, "collect_schema"):
            polars = optional("polars", "Reading a lazy frame", "all")
            return int(table.select(polars.len()).collect().item())
        return int(table.num_rows)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ArrowSource(Withheld):
    """Some ``columns`` of a dataset, of an Arrow table or of a polars lazy frame."""

    table: Any
    columns: tuple[str, ...]
    num_records: int
    files: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Each file with what it was known by when it was first seen."""

    @classmethod
    def of(cls, table: Any, columns: tuple[str, ...]) -> ArrowSource:
        """The source, once its rows are counted; Parquet files know their number."""
        files = _files(table)
        if hasattr(table, "get_fragments"):
            with _unquoted():
                _check_types(table, columns)
        return cls(table=table, columns=columns, num_records=count_rows(table), files=files)

    def pieces(self) -> Iterator[Any]:
        """Batches of at most ``PIECE`` rows, file by file."""
        if _files(self.table) != self.files:
            raise TableError(
                "A file of the table was replaced or written to between two passes, so nothing is released. "
                "Fit again once it is at rest."
            )
        with _unquoted():
            for batch in self._batches():
                for first in range(0, batch.num_rows, PIECE):
                    yield batch.slice(first, PIECE)

    def _batches(self) -> Iterator[Any]:
        names = list(self.columns)
        if hasattr(self.table, "get_fragments"):
            for fragment in self.table.get_fragments():
                # One thread and no more than one batch ahead: the order is fixed, and memory bounded.
                yield from fragment.to_batches(
                    schema=self.table.schema,
                    columns=names,
                    batch_size=PIECE,
                    batch_readahead=1,
                    use_threads=False,
                    **_scan_options(fragment),
                )
        elif hasattr(self.table, "collect_schema"):
            for frame in self.table.select(names).collect_batches(chunk_size=PIECE, maintain_order=True):
                yield from frame.to_arrow().to_batches(max_chunksize=PIECE)
        else:
            yield from self.table.select(names).to_batches(max_chunksize=PIECE)


def _scan_options(fragment: Any) -> dict[str, Any]:
    """Local Parquet files are read as they are needed: buffers for whole row groups help on networks only."""
    kind, place = fragment.format.default_extname, fragment.filesystem.type_name
    if kind != "parquet" or place != "local":
        return {}
    dataset = optional("pyarrow.dataset", "Reading Parquet", "arrow")
    options = dataset.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    return {"fragment_scan_options": options}


def open_files(path: str, **options: Any) -> Any:
    """A file or a folder as a dataset; ``options`` say its format."""
    dataset = optional("pyarrow.dataset", "Reading Parquet", "arrow")
    try:
        with _unquoted():
            return dataset.dataset(path, **options)
    except TableError:
        raise InvalidInput(f"Cannot read {path!r}: it is damaged, or not what its name says.") from None


def _check_types(dataset: Any, columns: tuple[str, ...]) -> None:
    """Refuse files that differ in the type of a column: a cast could change what is counted."""
    for fragment in dataset.get_fragments():
        schema = fragment.physical_schema
        for name in columns:
            place = schema.get_field_index(name)
            if place < 0 or schema.field(place).type != dataset.schema.field(name).type:
                raise InvalidInput(
                    f"The column {name!r} has not the same type in all files. Write them with one schema."
                )


def _files(table: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Local files by what tells one from another without reading it."""
    found = []
    for path in getattr(table, "files", ()):
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            found.append((path, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)))
    return tuple(found)


@contextlib.contextmanager
def _unquoted() -> Iterator[None]:
    """Errors of pyarrow without what they quote."""
    arrow = optional("pyarrow", "Reading Arrow tables", "arrow")
    try:
        yield
    except (arrow.ArrowException, OSError):
        raise TableError(CUT_SHORT) from None
