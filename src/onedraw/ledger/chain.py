# SPDX-License-Identifier: Apache-2.0
"""The history of a ledger: rows that are only ever added, each sealed by a hash of all before it.

Guarantee:
    hash_n = SHA-256(hash_(n-1) + canonical JSON of row n), and the hash of the last row is kept apart with
    its number. A row that is edited, deleted, moved or inserted, and a tail that is cut off, contradict
    these. Whoever can write to the file can also compute all hashes anew: that is found with receipts kept
    elsewhere only.

Each row holds 128 random bits, so the hash in a published receipt says nothing about the row, not even to
somebody who guesses what it says.

A row is dated and has no time of day, not even in the file: two charges in a row would tell how long the
first fit ran, which depends on the data.

Edge cases:
    An empty history is sound. Numbers start at 1 and have no gaps.

>>> first = seal(ORIGIN, 1, "2026-01-01", "ledger", "", "{}")
>>> first == seal(ORIGIN, 1, "2026-01-01", "ledger", "", "{ }")
False
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

ORIGIN = "0" * 64
"""The hash before the first row."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the history. ``time`` is a date; ``content`` is JSON text, hashed as it stands."""

    number: int
    time: str
    kind: str
    dataset: str
    content: str
    hash: str

    @property
    def date(self) -> str:
        """The day in UTC; rows of early versions hold more, which nobody is told."""
        return self.time[:10]

    @property
    def values(self) -> dict[str, Any]:
        """The content, read."""
        values: dict[str, Any] = json.loads(self.content)
        return values


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: one text for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def seal(previous: str, number: int, time: str, kind: str, dataset: str, content: str) -> str:
    """The hash of a row that follows ``previous``."""
    row = {"number": number, "time": time, "kind": kind, "dataset": dataset, "content": content}
    return hashlib.sha256((previous + canonical(row)).encode()).hexdigest()


def append(
    connection: sqlite3.Connection, *, kind: str, content: Mapping[str, object], dataset: str = ""
) -> Row:
    """Add a row inside the caller's transaction."""
    last, previous = head(connection)
    time = datetime.now(timezone.utc).date().isoformat()
    text = canonical({**content, "nonce": secrets.token_hex(16)})
    number = last + 1
    row = Row(
        number=number,
        time=time,
        kind=kind,
        dataset=dataset,
        content=text,
        hash=seal(previous, number, time, kind, dataset, text),
    )
    connection.execute(
        "INSERT INTO history (number, time, kind, dataset, content, hash) VALUES (?, ?, ?, ?, ?, ?)",
        (row.number, row.time, row.kind, row.dataset, row.content, row.hash),
    )
    for key, value in (("head_number", str(row.number)), ("head_hash", row.hash)):
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
    return row


def head(connection: sqlite3.Connection) -> tuple[int, str]:
    """Number and hash of the last row, as kept apart from it."""
    values = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('head_number', 'head_hash')"))
    try:
        return int(values["head_number"]), str(values["head_hash"])
    except (KeyError, ValueError):
        return -1, ""  # fits no history


def read(connection: sqlite3.Connection) -> list[Row]:
    """All rows, in the order of their numbers."""
    rows = connection.execute(
        "SELECT number, time, kind, dataset, content, hash FROM history ORDER BY number"
    )
    return [
        Row(number=number, time=time, kind=kind, dataset=dataset, content=content, hash=sealed)
        for number, time, kind, dataset, content, sealed in rows
    ]


def contradictions(rows: Sequence[Row], head_number: int, head_hash: str) -> Iterator[str]:
    """What in the history cannot be as it was written; nothing if it is sound."""
    previous, expected = ORIGIN, 1
    for row in rows:
        if row.number != expected:
            yield f"row {row.number} stands where row {expected} should"
        elif not all(isinstance(v, str) for v in (row.time, row.kind, row.dataset, row.content, row.hash)):
            yield f"row {row.number} holds what was never written"
        elif row.hash != seal(previous, row.number, row.time, row.kind, row.dataset, row.content):
            yield f"row {row.number} or its place was changed"
        previous, expected = str(row.hash), row.number + 1
    last = rows[-1].number if rows else 0
    if last < head_number:
        yield f"the end was cut off after row {last} of {head_number}"
    elif (head_number, head_hash) != (last, previous):
        yield f"the end (row {last}) is not the one recorded (row {head_number})"
