# SPDX-License-Identifier: Apache-2.0
"""Recognise the same rows under another name, without keeping the rows.

Each row is turned into 128 bits by HMAC-SHA-256 under a key that only the ledger file holds, and the 64
smallest are kept. Rows in another order give the same sketch, and of two tables that share a fraction of
their distinct rows, the sketches share about that fraction.

Edge cases:
    A column added, dropped, moved, or rescaled makes all rows new: this finds mistakes, not evasion. Tables
    with few distinct rows may look alike by chance. An empty table has an empty sketch, which resembles
    nothing.

The sketch is not private: with the key, whoever has a row can test whether it is in the table.

>>> a = sketch(b"key", table_rows([[1, 2.5], [3, 4.0]], ["yes", "no"]))
>>> b = sketch(b"key", table_rows([[3.0, 4], [1.0, 2.5]], ["no", "yes"]))
>>> a == b, resemblance(a, sketch(b"another key", table_rows([[1, 2.5], [3, 4.0]], ["yes", "no"])))
(True, 0.0)
"""

from __future__ import annotations

import heapq
import hmac
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from numbers import Real
from typing import Any

from onedraw.errors import InvalidInput
from onedraw.tables import arrow

SIZE = 64
ALIKE = 0.5
"""From this share of rows in common, two tables are taken for the same data."""


def table_rows(X: Any, y: Any = None) -> Iterator[tuple[Any, ...]]:
    """Rows of a table, each with its response at the end: lists, an array, a data frame.

    An Arrow dataset or a lazy frame is read piece by piece, with all of its columns.
    """
    if y is None and arrow.is_arrow(X):
        for piece in arrow.ArrowSource.of(X, arrow.names_of(X)).pieces():
            yield from zip(*(column.to_pylist() for column in piece.columns), strict=True)
        return
    rows = _plain(X)
    if y is None:
        yield from (_row(row) for row in rows)
        return
    responses = _plain(y)
    if len(rows) != len(responses):
        raise InvalidInput(f"Expected X and y of one length, got {len(rows)} and {len(responses)} rows.")
    for row, response in zip(rows, responses, strict=True):
        yield (*_row(row), *_row(response))


def sketch(key: bytes, rows: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    """The 64 smallest keyed hashes of distinct rows, sorted."""
    smallest: set[bytes] = set()
    largest = b""
    for row in rows:
        digest = hmac.digest(key, b"".join(map(_bytes, row)), "sha256")[:16]
        if len(smallest) < SIZE or (digest < largest and digest not in smallest):
            smallest.add(digest)
            if len(smallest) > SIZE:
                smallest.remove(largest)
            largest = max(smallest)
    return tuple(digest.hex() for digest in sorted(smallest))


def resemblance(left: Sequence[str], right: Sequence[str]) -> float:
    """The estimated share of distinct rows that two tables have in common (Jaccard), from their sketches."""
    union = heapq.nsmallest(SIZE, {*left, *right})
    if not union:
        return 0.0
    return len(set(left).intersection(right, union)) / len(union)


def _plain(table: Any) -> list[Any]:
    """As nested lists of Python values, whatever library it comes from."""
    for method in ("to_numpy", "toarray", "tolist"):
        if hasattr(table, method):
            table = getattr(table, method)()
    return list(table)


def _row(row: Any) -> tuple[Any, ...]:
    return (row,) if isinstance(row, str | bytes) or not hasattr(row, "__iter__") else tuple(row)


def _bytes(value: Any) -> bytes:
    """A text for each value, none of which begins another: 1, 1.0 and True are the same number."""
    if isinstance(value, int) and abs(value) > 2**53:
        value = str(value)  # more digits than a float has: an identity number, perhaps
    if isinstance(value, Real):
        number = float(value)
        return b"n" + (b"nan....." if math.isnan(number) else struct.pack(">d", number + 0.0))
    if value is None:
        return b"0"
    if isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, str | bytes):
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        return b"s%d:" % len(data) + data
    raise InvalidInput(
        f"Expected numbers, texts, dates or None in the table, got a value of type {type(value).__name__}. "
        "Convert the column, or leave the fingerprint out."
    )
