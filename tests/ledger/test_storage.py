# SPDX-License-Identifier: Apache-2.0
"""The file: its settings, its versions, and all the ways in which it can fail."""

import contextlib
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from onedraw.errors import LedgerError
from onedraw.ledger import Ledger, chain, storage
from onedraw.privacy import Guarantee

SMALL = Guarantee(epsilon=0.125)
NO_RECEIPT = "No receipt was given, so nothing may be released"


def refused(ledger, message):
    """Charging and reading fail with this message, and the file stays as it is."""
    before = Path(ledger.path).read_bytes()
    with pytest.raises(LedgerError, match=message) as caught:
        ledger.charge("adult", SMALL)
    assert NO_RECEIPT in str(caught.value) or "was not changed" in str(caught.value)
    assert Path(ledger.path).read_bytes() == before


# -- settings


def test_commits_are_durable_and_the_ledger_is_one_file(ledger):
    with storage.transaction(ledger.path) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)
        assert connection.in_transaction
    ledger.charge("adult", SMALL)
    assert [path.name for path in Path(ledger.path).parent.iterdir()] == ["budget.db"]


def test_a_file_set_to_a_write_ahead_log_is_set_back(ledger, raw):
    raw(ledger, "PRAGMA journal_mode = WAL", unlocked=False)
    ledger.charge("adult", SMALL)
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
def test_only_the_owner_can_read_the_file(ledger):
    assert stat.S_IMODE(os.stat(ledger.path).st_mode) == 0o600


def test_a_relay_of_threads_spends_exactly_the_budget(ledger):
    receipts, refusals = [], []

    def spend():
        try:
            while True:
                receipts.append(ledger.charge("adult", SMALL))
        except LedgerError as error:
            refusals.append(error)

    threads = [threading.Thread(target=spend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(receipts), len(refusals)) == (8, 6)
    assert ledger.verify(receipts).ok


# -- failures


def test_a_missing_file_is_not_made_by_a_charge(tmp_path):
    ledger = Ledger(tmp_path / "none.db")
    for ask in (lambda: ledger.charge("adult", SMALL), ledger.datasets, ledger.verify):
        with pytest.raises(LedgerError, match="There is no ledger at"):
            ask()
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(LedgerError, match="Its folder must exist"):
        Ledger(tmp_path / "none" / "budget.db").create("adult", epsilon=1.0)


def test_a_folder_is_not_a_ledger(tmp_path):
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path).create("adult", epsilon=1.0)


def test_an_empty_file_becomes_a_ledger_only_by_creating(tmp_path):
    ledger = Ledger(tmp_path / "empty.db")
    Path(ledger.path).touch()
    refused(ledger, "is empty: no data set was registered")
    ledger.create("adult", epsilon=1.0)
    ledger.charge("adult", SMALL)


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    ledger = Ledger(tmp_path / "notes.txt")
    Path(ledger.path).write_text("Dear diary, " * 100)
    refused(ledger, "is not a ledger, or it is damaged")
    with pytest.raises(LedgerError, match="is not a ledger"):
        ledger.create("adult", epsilon=1.0)
    assert Path(ledger.path).read_text().startswith("Dear diary")


def test_a_foreign_database_is_left_alone(tmp_path):
    ledger = Ledger(tmp_path / "shop.db")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("CREATE TABLE history (number)")
    refused(ledger, "is a database, but not a ledger. It was not changed")
    with pytest.raises(LedgerError, match="is a database, but not a ledger"):
        ledger.create("adult", epsilon=1.0)


def test_a_damaged_file_is_refused(ledger):
    for _ in range(6):
        ledger.charge("adult", SMALL)
    content = Path(ledger.path).read_bytes()
    page = 4096
    assert len(content) > 3 * page
    for damaged in (content[:-page], content[: 2 * page], content[:page] + b"\xff" * (len(content) - page)):
        Path(ledger.path).write_bytes(damaged)
        refused(ledger, "is damaged|was altered|cannot be used|or it is damaged")


def corrupted(content, rng):
    """A ledger's bytes after an accident: a page or its index garbled, bytes flipped, an end cut off."""
    damaged, page = bytearray(content), 4096
    start = page * rng.randrange(len(content) // page)
    what = rng.randrange(7)
    if what == 0:
        return damaged[: -rng.choice([1, 7, 512, page - 1, page, 2 * page])]
    if what == 1:
        damaged[start : start + page] = rng.randbytes(page)
    elif what == 2:
        damaged[start : start + page] = bytes(page)
    elif what == 3:  # another page in its place
        other = page * rng.randrange(len(content) // page)
        damaged[start : start + page] = content[other : other + page]
    elif what == 4:  # an old half of the page
        middle = start + rng.randrange(0, page, 512)
        damaged[middle : middle + 512] = rng.choice([bytes(512), b"\xff" * 512, rng.randbytes(512)])
    elif what == 5:
        damaged += rng.randbytes(rng.choice([1, 512, page]))
    else:
        for _ in range(rng.randrange(1, 9)):
            damaged[start + rng.randrange(page)] ^= 1 << rng.randrange(8)
    return damaged


@pytest.mark.parametrize("seed", range(6))
def test_a_ledger_that_verification_calls_damaged_takes_no_charge(tmp_path, seed):
    """60 accidents each. What is charged in spite of one is charged to a ledger that is found sound."""
    ledger, rng = Ledger(tmp_path / "budget.db"), random.Random(seed)
    ledger.create("adult", epsilon=1.0)
    ledger.create("survey", epsilon=1.0)
    for _ in range(12):
        ledger.charge("adult", Guarantee(epsilon=0.03125))
    content, found = Path(ledger.path).read_bytes(), {True: 0, False: 0}
    for _ in range(60):
        Path(ledger.path).write_bytes(corrupted(content, rng))
        try:
            sound = ledger.verify().ok
        except LedgerError:
            sound = False
        found[sound] += 1
        try:
            ledger.charge("adult", SMALL)
        except LedgerError:
            continue
        assert sound
        assert ledger.verify().ok
        assert ledger.show("adult").charges == 13
        assert ledger.show("adult").remaining == 0.5
    assert found[False] > 30


def test_a_cut_of_one_byte_is_found_before_a_charge(ledger):
    path = Path(ledger.path)
    path.write_bytes(path.read_bytes()[:-1])
    assert any("bytes in place of" in problem for problem in ledger.verify().problems)
    refused(ledger, "is damaged")


@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_byte_never_gives_budget_back(ledger, seed):
    """Wherever a byte flips, the ledger reads as before, or refuses."""
    for _ in range(6):
        ledger.charge("adult", SMALL)
    content = bytearray(Path(ledger.path).read_bytes())
    for position in range(seed * 37, len(content), 997):
        changed = content.copy()
        changed[position] ^= 1 << (position % 8)
        Path(ledger.path).write_bytes(changed)
        with contextlib.suppress(LedgerError):
            assert ledger.show("adult").remaining == 0.25


def as_somebody_else(code, path):
    """Run the code on the path as a user without special rights."""
    drop = "import os, sys\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
    head = "from onedraw.ledger import Ledger\nfrom onedraw.privacy import Guarantee\n"
    return subprocess.run([sys.executable, "-c", head + drop + code, path], capture_output=True, text=True)


SHOW_AND_CHARGE = (
    "print(Ledger(sys.argv[1]).show('adult').remaining)\n"
    "Ledger(sys.argv[1]).charge('adult', Guarantee(epsilon=0.125))"
)


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "message"),
    [
        (0o444, 0o777, "is read-only"),
        (0o666, 0o555, "cannot be opened|is read-only"),
        (0o000, 0o777, "cannot be opened"),
    ],
)
def test_a_file_without_permission_is_refused(ledger, file_mode, folder_mode, message):
    # The folders above tmp_path belong to one user only, so use one that anybody may enter.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "budget.db")
        shutil.copy(ledger.path, path)
        before = Path(path).read_bytes()
        os.chmod(path, file_mode)
        os.chmod(folder, folder_mode)
        done = as_somebody_else(SHOW_AND_CHARGE, path)
        assert done.returncode != 0
        assert "LedgerError" in done.stderr
        assert NO_RECEIPT in done.stderr
        assert any(text in done.stderr for text in message.split("|")), done.stderr
        assert done.stdout.strip() == ("1.0" if file_mode else "")
        os.chmod(folder, 0o755)
        os.chmod(path, 0o644)
        assert Path(path).read_bytes() == before


def test_a_full_disk_is_refused(ledger, monkeypatch):
    connect = storage._connect

    def cramped(*args, **options):
        connection = connect(*args, **options)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(storage, "_connect", cramped)
    charged = 0
    with pytest.raises(LedgerError, match="could not grow: the disk is full") as caught:  # noqa: PT012
        while True:
            ledger.charge("adult", Guarantee(epsilon=0.001))
            charged += 1
    assert NO_RECEIPT in str(caught.value)
    monkeypatch.undo()
    assert ledger.show("adult").charges == charged
    assert ledger.verify().ok


def test_a_quota_is_refused(ledger):
    pytest.importorskip("resource")
    code = (
        "import resource, signal, sys, os\n"
        "from onedraw.ledger import Ledger; from onedraw.privacy import Guarantee\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "size = os.path.getsize(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\n"
        "for _ in range(100): print(Ledger(sys.argv[1]).charge('adult', Guarantee(epsilon=0.001)).hash)"
    )
    done = subprocess.run([sys.executable, "-c", code, ledger.path], capture_output=True, text=True)
    assert "LedgerError" in done.stderr
    assert NO_RECEIPT in done.stderr
    assert ledger.show("adult").charges == len(done.stdout.split())
    assert ledger.verify().ok
    ledger.charge("adult", SMALL)


def test_a_half_written_file_is_rolled_back(ledger, tmp_path):
    """What a power failure during a commit leaves: new pages in the file, old ones in its journal."""
    ledger.charge("adult", SMALL)
    half = tmp_path / "half"
    half.mkdir()
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # pages leave for the disk before the commit
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(100):
            chain.append(connection, kind="charge", dataset="adult", content={"cost": "x" * 1000})
        for path in tmp_path.glob("budget.db*"):
            shutil.copy(path, half)
        connection.execute("ROLLBACK")
    assert sorted(path.name for path in half.iterdir()) == ["budget.db", "budget.db-journal"]
    assert (half / "budget.db").stat().st_size > Path(ledger.path).stat().st_size
    copy = Ledger(half / "budget.db")
    assert copy.show("adult").charges == 1
    assert copy.verify().ok
    assert (half / "budget.db").read_bytes() == Path(ledger.path).read_bytes()


def test_a_locked_ledger_is_waited_for_and_then_refused(ledger):
    hurried = Ledger(ledger.path, timeout=0.2)
    with storage.transaction(ledger.path), pytest.raises(LedgerError, match=r"locked by .* for 0\.2 s"):
        hurried.charge("adult", SMALL)
    assert ledger.show("adult").charges == 0
    hurried.charge("adult", SMALL)


def test_a_reader_that_does_not_leave_stops_the_commit(ledger):
    """The write lock is free, so the charge begins; it cannot commit, and is undone."""
    hurried = Ledger(ledger.path, timeout=0.2)
    with storage.transaction(ledger.path, write=False) as reader:
        reader.execute("SELECT * FROM history").fetchone()
        with pytest.raises(LedgerError, match="stayed locked"):
            hurried.charge("adult", SMALL)
    assert ledger.show("adult").charges == 0
    assert ledger.verify().ok


# -- versions


def test_a_newer_version_is_refused(ledger, raw):
    raw(ledger, f"PRAGMA user_version = {storage.VERSION + 1}", unlocked=False)
    refused(ledger, "has version 2, newer than the 1 known here. Install a newer onedraw")


NOTES = "CREATE TABLE notes (number INTEGER NOT NULL PRIMARY KEY, text TEXT NOT NULL)"


@pytest.fixture
def next_version(monkeypatch):
    """A version 2 that adds a table, and the step to it."""
    steps = {1: lambda connection: connection.execute(NOTES)}
    monkeypatch.setattr(storage, "VERSION", 2)
    monkeypatch.setattr(storage, "SCHEMA", (*storage.SCHEMA, NOTES))
    monkeypatch.setattr(storage, "MIGRATIONS", steps)
    return steps


@pytest.mark.parametrize("first", ["show", "charge"])
def test_an_older_version_is_brought_up_to_date(ledger, next_version, first):
    ledger.show("adult") if first == "show" else ledger.charge("adult", SMALL)
    with storage.transaction(ledger.path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
    kinds = [entry.kind for entry in ledger.history()]
    assert kinds[:3] == ["ledger", "create", "migrate"]
    assert kinds.count("migrate") == 1
    assert ledger.verify().ok


def test_receipts_outlive_a_migration(ledger, request):
    receipt = ledger.charge("adult", SMALL)
    request.getfixturevalue("next_version")
    assert ledger.show("adult").remaining == 0.875
    assert ledger.verify([receipt]).ok


def test_a_migration_that_fails_changes_nothing(ledger, next_version):
    def broken(connection):
        connection.execute(NOTES)
        raise RuntimeError("half way")

    next_version[1] = broken
    before = Path(ledger.path).read_bytes()
    with pytest.raises(RuntimeError, match="half way"):
        ledger.charge("adult", SMALL)
    assert Path(ledger.path).read_bytes() == before


def test_a_version_without_a_step_is_refused(ledger, next_version):
    next_version.clear()
    refused(ledger, "has version 1, which cannot be brought to version 2")


def test_a_step_that_makes_other_tables_is_refused(ledger, next_version):
    next_version[1] = lambda connection: connection.execute("CREATE TABLE other (x)")
    refused(ledger, "notes, other is not as onedraw made it")


def test_every_version_below_this_one_has_a_step():
    assert set(storage.MIGRATIONS) == set(range(1, storage.VERSION))


def test_the_history_starts_with_the_identity_of_the_ledger(ledger):
    with storage.transaction(ledger.path, write=False) as connection:
        first = chain.read(connection)[0]
    assert first.kind == "ledger"
    assert first.values["id"] == ledger.verify().ledger
