# SPDX-License-Identifier: Apache-2.0
"""The ledger file: one SQLite database, opened for one transaction at a time.

Guarantee:
    What a transaction wrote before ``transaction`` returned survives a crash of the program, of the operating
    system, and a loss of power, if the disk keeps what it says it has kept. What it wrote before an error is
    undone.

*Why a rollback journal and not a write-ahead log.* The ledger is one file when nobody writes to it, so a
copy of it is whole; a copied database without its ``-wal`` file would silently lack the latest charges. And
there is no shared memory, so processes on several machines can use it over a network file system that has
working locks. Charges are few and small: the speed of the log is not needed.

*Why synchronous=EXTRA and not FULL.* With a rollback journal a transaction is committed when the journal is
deleted. FULL does not wait for that deletion to reach the disk: after a power failure the journal may be
back, and the charge rolled back, although its release has left. EXTRA also flushes the folder.
(``fullfsync`` does on macOS what fsync does elsewhere.)

Edge cases:
    A file that is no ledger, read-only, locked, on a full disk, or written by a newer version raises
    ``LedgerError`` and is not changed. So does a damaged one, as far as SQLite's ``integrity_check`` and the
    length of the file show damage: every transaction begins with both, which takes a twentieth of the time of
    reading the history. Bytes that no table or index uses may change unseen. An older version is brought up
    to date first, in one transaction.

>>> import os, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with transaction(os.path.join(folder, "budget.db"), create=True) as connection:
...         connection.execute("PRAGMA synchronous").fetchone()
(3,)
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from onedraw.advice import AskLedger, Do
from onedraw.errors import LedgerError
from onedraw.ledger import chain

APPLICATION_ID = 0x6F6E6431
"""The bytes "ond1" in the header of the file, by which it is known for a ledger."""

VERSION = 1
"""Version of the tables, kept in the header of the file."""

SCHEMA = (
    """CREATE TABLE meta (
        key TEXT NOT NULL PRIMARY KEY,
        value TEXT NOT NULL
    )""",
    """CREATE TABLE history (
        number INTEGER NOT NULL PRIMARY KEY,
        time TEXT NOT NULL,
        kind TEXT NOT NULL,
        dataset TEXT NOT NULL,
        content TEXT NOT NULL,
        hash TEXT NOT NULL UNIQUE
    )""",
    # INSERT OR REPLACE deletes without asking the DELETE trigger, so the numbers are checked as well.
    """CREATE TRIGGER history_grows_at_its_end BEFORE INSERT ON history
    WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM history)
    BEGIN SELECT RAISE(ABORT, 'the history of a ledger only grows at its end'); END""",
    """CREATE TRIGGER history_keeps_its_rows BEFORE UPDATE ON history
    BEGIN SELECT RAISE(ABORT, 'the history of a ledger is never edited'); END""",
    """CREATE TRIGGER history_loses_no_row BEFORE DELETE ON history
    BEGIN SELECT RAISE(ABORT, 'the history of a ledger is never deleted'); END""",
    """CREATE TRIGGER meta_keeps_its_keys BEFORE INSERT ON meta
    WHEN EXISTS (SELECT 1 FROM meta WHERE key = NEW.key)
    BEGIN SELECT RAISE(ABORT, 'this value of a ledger is set once'); END""",
    """CREATE TRIGGER meta_moves_its_head_only BEFORE UPDATE ON meta
    WHEN OLD.key NOT IN ('head_number', 'head_hash') OR NEW.key IS NOT OLD.key
    BEGIN SELECT RAISE(ABORT, 'this value of a ledger is set once'); END""",
    """CREATE TRIGGER meta_loses_no_row BEFORE DELETE ON meta
    BEGIN SELECT RAISE(ABORT, 'the values of a ledger are never deleted'); END""",
)

Migration = Callable[[sqlite3.Connection], None]
MIGRATIONS: dict[int, Migration] = {}
"""From each older version, the step to the next. A step may add tables, columns and triggers, so that the
result has the text of ``SCHEMA``; it never rewrites history."""

NO_RECEIPT = "No receipt was given, so nothing may be released."
"""How every refusal ends."""

_REASONS = {
    "locked": "stayed locked by another program for {timeout:g} s. Try again later, or wait longer for it.",
    "readonly": "is read-only. Make the file and its folder writable.",
    "disk is full": "could not grow: the disk is full. Free some space.",
    "disk I/O error": "could not be written or read (disk I/O error). Check the disk, its space and quota.",
    "unable to open": "cannot be opened. Its folder must exist and be writable, and it must be a file.",
    "not a database": "is not a ledger, or it is damaged. Choose another path, or restore a copy.",
    "malformed": "is damaged. Restore a copy, and verify it against the receipts of all releases.",
}


@contextlib.contextmanager
def transaction(
    path: str, *, write: bool = True, create: bool = False, check: bool = True, timeout: float = 30.0
) -> Iterator[sqlite3.Connection]:
    """A connection inside one transaction: committed when the block ends, undone if it raises.

    ``write`` takes the only write lock at once (BEGIN IMMEDIATE), so what the block reads is still true
    when it writes. ``create`` makes the file if there is none. ``check=False`` opens a file with damaged
    pages or altered tables.
    """
    if not create and not os.path.exists(path):
        raise LedgerError(
            f"There is no ledger at {path!r}. {NO_RECEIPT}",
            advice=[Do("check the path"), AskLedger("register a data set", path, "create", "NAME")],
        )
    try:
        with contextlib.closing(_connect(path, create=create, timeout=timeout)) as connection:
            _begin(connection, path, write=write or create, create=create, check=check)
            if check:
                _refuse_altered(connection, path)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                raise
    except sqlite3.Error as error:
        raise _explain(error, path, timeout) from error


def altered_schema(connection: sqlite3.Connection) -> list[str]:
    """Names of the tables and triggers that are missing, foreign, or not as this version makes them."""
    expected, found = _expected_schema(), _objects(connection)
    return sorted(name for name in {**expected, **found} if expected.get(name) != found.get(name))


def damage(connection: sqlite3.Connection, path: str) -> list[str]:
    """What is wrong with the pages of the file. To be asked before anything is written."""
    problems = [str(line) for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    length = os.path.getsize(path)
    if length != pages * size:  # SQLite reads a page that is cut short as if zeros followed
        problems.append(f"the file has {length} bytes in place of {pages * size}")
    return problems


def _connect(path: str, *, create: bool, timeout: float) -> sqlite3.Connection:
    mode = "rwc" if create else "rw"  # SQLite falls back to reading where it may not write
    uri = f"{Path(path).as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _begin(connection: sqlite3.Connection, path: str, *, write: bool, create: bool, check: bool) -> None:
    if write:
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode != "delete":
            raise LedgerError(f"The ledger {path!r} could not be set to a rollback journal. {NO_RECEIPT}")
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    application, version = _header(connection)
    if application == version == 0 and not _objects(connection):
        if not create:
            raise LedgerError(f"The file {path!r} is empty: no data set was registered in it. {NO_RECEIPT}")
        _initialise(connection, path)
        return
    if application != APPLICATION_ID:
        raise LedgerError(
            f"The file {path!r} is a database, but not a ledger. It was not changed; choose another path."
        )
    if version > VERSION:
        raise LedgerError(
            f"The ledger {path!r} has version {version}, newer than the {VERSION} known here. "
            f"Install a newer onedraw. {NO_RECEIPT}"
        )
    found = damage(connection, path) if check or version < VERSION else []
    if found:
        raise LedgerError(
            f"The ledger {path!r} is damaged ({found[0]}). Restore a copy, and verify it against the "
            f"receipts of all releases. {NO_RECEIPT}"
        )
    if version < VERSION:
        if not write:
            connection.execute("ROLLBACK")
            _begin(connection, path, write=True, create=False, check=check)
            return
        _migrate(connection, path, version)


def _refuse_altered(connection: sqlite3.Connection, path: str) -> None:
    altered = altered_schema(connection)
    if altered:
        raise LedgerError(
            f"The ledger {path!r} was altered: {', '.join(altered)} is not as onedraw made it. "
            f"Restore a copy, and verify it against the receipts of all releases. {NO_RECEIPT}"
        )


def _header(connection: sqlite3.Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _objects(connection: sqlite3.Connection) -> dict[str, str]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {str(name): str(sql) for name, sql in rows}


def _expected_schema() -> dict[str, str]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        for statement in SCHEMA:
            model.execute(statement)
        return _objects(model)


def _initialise(connection: sqlite3.Connection, path: str) -> None:
    # The file is still empty here. Its journal takes over its permissions.
    with contextlib.suppress(OSError):
        os.chmod(path, 0o600)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in SCHEMA:
        connection.execute(statement)
    values = {
        "head_number": "0",
        "head_hash": chain.ORIGIN,
        "fingerprint_key": secrets.token_hex(32),
    }
    connection.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
    chain.append(connection, kind="ledger", content={"id": uuid.uuid4().hex})


def _migrate(connection: sqlite3.Connection, path: str, version: int) -> None:
    for step in range(version, VERSION):
        if step not in MIGRATIONS:
            raise LedgerError(
                f"The ledger {path!r} has version {version}, which cannot be brought to version {VERSION}. "
                f"Use the version that wrote it. {NO_RECEIPT}"
            )
        MIGRATIONS[step](connection)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    chain.append(connection, kind="migrate", content={"from": version, "to": VERSION})


def _explain(error: sqlite3.Error, path: str, timeout: float) -> LedgerError:
    message = str(error)
    for symptom, reason in _REASONS.items():
        if symptom in message:
            return LedgerError(f"The ledger {path!r} {reason.format(timeout=timeout)} {NO_RECEIPT}")
    return LedgerError(f"The ledger {path!r} cannot be used: {message}. {NO_RECEIPT}")
