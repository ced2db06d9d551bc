# SPDX-License-Identifier: Apache-2.0
"""What verification finds, and what it cannot find."""

import contextlib
import json
import shutil
import sqlite3

import pytest

from onedraw.errors import LedgerError
from onedraw.ledger import Ledger, chain
from onedraw.privacy import Guarantee


@pytest.fixture
def used(ledger):
    """Rows 1 ledger, 2 create, 3 to 6 charges."""
    for epsilon in (0.1, 0.2, 0.3, 0.1):
        ledger.charge("adult", Guarantee(epsilon=epsilon))
    return ledger


def rehash(connection, *, meta=True):
    """What somebody does who knows the format: all hashes anew, and the head."""
    rows, previous = chain.read(connection), chain.ORIGIN
    for number, row in enumerate(rows, start=1):
        connection.execute("UPDATE history SET number = ? WHERE number = ?", (number, row.number))
        previous = chain.seal(previous, number, row.time, row.kind, row.dataset, row.content)
        connection.execute("UPDATE history SET hash = ? WHERE number = ?", (previous, number))
    if meta:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'head_number'", (str(len(rows)),))
        connection.execute("UPDATE meta SET value = ? WHERE key = 'head_hash'", (previous,))


def forge(ledger, change, **options):
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        triggers = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        for name in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        change(connection)
        rehash(connection, **options)
        for sql in triggers.values():
            connection.execute(sql)


def test_an_untouched_history_is_sound(used):
    found = used.verify()
    assert found.ok
    assert found.rows == 6
    assert str(found).startswith("sound: 6 rows, 0 receipts compared")


TAMPERING = {
    "epsilon edited": ["UPDATE history SET content = replace(content, '0.2', '0.1') WHERE number = 4"],
    "space added": ["UPDATE history SET content = content || ' ' WHERE number = 4"],
    "time edited": ["UPDATE history SET time = '2020' WHERE number = 4"],
    "moved to another data set": ["UPDATE history SET dataset = 'other' WHERE number = 4"],
    "hash edited": ["UPDATE history SET hash = 'x' WHERE number = 4"],
    "text replaced by bytes": ["UPDATE history SET content = x'00' WHERE number = 4"],
    "row deleted": ["DELETE FROM history WHERE number = 4"],
    "row deleted, gap closed": [
        "DELETE FROM history WHERE number = 4",
        "UPDATE history SET number = 4 WHERE number = 5",
        "UPDATE history SET number = 5 WHERE number = 6",
    ],
    "rows swapped": [
        "UPDATE history SET number = 99 WHERE number = 4",
        "UPDATE history SET number = 4 WHERE number = 5",
        "UPDATE history SET number = 5 WHERE number = 99",
    ],
    "row inserted": [
        "UPDATE history SET number = 7 WHERE number = 6",
        "INSERT INTO history SELECT 6, time, kind, dataset, content, 'x' FROM history WHERE number = 4",
    ],
    "row appended": [
        "INSERT INTO history SELECT 7, time, kind, dataset, content, 'x' FROM history WHERE number = 4"
    ],
    "last row deleted": ["DELETE FROM history WHERE number = 6"],
    "first row deleted": ["DELETE FROM history WHERE number = 1"],
    "all deleted": ["DELETE FROM history"],
    "head moved": ["UPDATE meta SET value = '5' WHERE key = 'head_number'"],
    "head lost": ["DELETE FROM meta WHERE key = 'head_hash'"],
    "head garbled": ["UPDATE meta SET value = 'five' WHERE key = 'head_number'"],
    "last row deleted and count moved": [
        "DELETE FROM history WHERE number = 6",
        "UPDATE meta SET value = '5' WHERE key = 'head_number'",
    ],
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_is_found_and_stops_all_charges(used, raw, how):
    raw(used, *TAMPERING[how])
    found = used.verify()
    assert not found.ok
    assert str(found).startswith("ALTERED")
    for ask in (
        lambda: used.charge("adult", Guarantee(epsilon=0.1)),
        lambda: used.show("adult"),
        used.datasets,
    ):
        with pytest.raises(LedgerError, match=r"was altered: .*No receipt was given.*verify"):
            ask()


def test_a_charge_that_is_moved_to_another_registered_name_is_found(used, raw):
    """The seal covers the name; otherwise the first budget would be whole again, and nothing to be seen."""
    used.create("survey", epsilon=1.0)
    receipt = used.charge("adult", Guarantee(epsilon=0.3))
    raw(used, "UPDATE history SET dataset = 'survey' WHERE number = 8")
    found = used.verify()
    assert found.problems == ("row 8 or its place was changed",)
    assert not used.verify([receipt]).ok
    for name in ("adult", "survey"):
        with pytest.raises(LedgerError, match="row 8 or its place was changed"):
            used.charge(name, Guarantee(epsilon=0.1))


PARTS = {"number": 9, "time": "2020-01-01", "kind": "create", "dataset": "survey", "content": "{}"}


@pytest.mark.parametrize("part", PARTS)
def test_the_seal_covers_every_part_of_a_row(part):
    row = {"number": 3, "time": "2026-01-01", "kind": "charge", "dataset": "adult", "content": '{"a":1}'}
    sealed = chain.seal(chain.ORIGIN, **row)
    assert sealed != chain.seal(chain.ORIGIN, **{**row, part: PARTS[part]})
    assert sealed != chain.seal("1" * 64, **row)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE history SET time = '2020'",
        "DELETE FROM history",
        "DELETE FROM history WHERE number = 6",
        "INSERT OR REPLACE INTO history SELECT 4, time, kind, '', '{}', 'x' FROM history WHERE number = 4",
        "INSERT INTO history SELECT 9, time, kind, dataset, content, 'x' FROM history WHERE number = 4",
        "UPDATE meta SET value = 'x' WHERE key = 'fingerprint_key'",
        "UPDATE meta SET key = 'x' WHERE key = 'head_hash'",
        "INSERT OR REPLACE INTO meta VALUES ('fingerprint_key', 'x')",
        "DELETE FROM meta",
    ],
)
def test_the_file_itself_refuses_to_be_edited(used, raw, statement):
    with pytest.raises(sqlite3.IntegrityError, match="ledger"):
        raw(used, statement, unlocked=False)
    assert used.verify().ok


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER history_loses_no_row",
        "CREATE TABLE other (x)",
        "CREATE TRIGGER quiet AFTER INSERT ON history BEGIN DELETE FROM history; END",
        "ALTER TABLE history ADD COLUMN note TEXT",
    ],
)
def test_altered_tables_and_triggers_are_found(used, raw, statement):
    raw(used, statement, unlocked=False)
    found = used.verify()
    assert any("is not as onedraw made it" in problem for problem in found.problems)
    with pytest.raises(LedgerError, match="is not as onedraw made it"):
        used.charge("adult", Guarantee(epsilon=0.1))


# -- what needs receipts


def test_an_old_copy_is_found_with_a_receipt_only(used, tmp_path):
    shutil.copy(used.path, tmp_path / "old.db")
    receipt = used.charge("adult", Guarantee(epsilon=0.1))
    shutil.copy(tmp_path / "old.db", used.path)
    assert used.verify().ok
    found = used.verify([receipt])
    assert found.problems == (f"the charge of receipt {receipt.hash[:16]} on 'adult' is missing",)


def test_a_rewritten_history_is_found_with_a_receipt_only(used):
    receipt = used.charge("adult", Guarantee(epsilon=0.1))
    forge(used, lambda connection: connection.execute("DELETE FROM history WHERE number = 4"))
    assert used.verify().ok
    assert not used.verify([receipt]).ok
    replacement = used.charge("adult", Guarantee(epsilon=0.1))  # in the place of the one that is missing
    assert used.verify([replacement]).ok
    assert used.verify([receipt]).problems == (
        f"the charge of receipt {receipt.hash[:16]} on 'adult' is missing",
    )


def test_receipts_that_were_edited_or_are_foreign_are_found(used, tmp_path):
    receipt = used.charge("adult", Guarantee(epsilon=0.1)).to_dict()
    for edited in ({"epsilon": "0.01"}, {"date": "2020-01-01"}, {"dataset": "other"}, {"delta": "0.1"}):
        assert used.verify([{**receipt, **edited}]).problems == (
            f"receipt {receipt['hash'][:16]} was edited",
        )
    other = Ledger(tmp_path / "other.db")
    other.create("adult", epsilon=1.0)
    foreign = other.charge("adult", Guarantee(epsilon=0.1))
    assert "is of another ledger" in used.verify([foreign]).problems[0]
    with pytest.raises(LedgerError, match="This is not a receipt"):
        used.verify([{"ledger": "x"}])


# -- hashes in order, content not


def edit(number, **changes):
    def change(connection):
        (text,) = connection.execute("SELECT content FROM history WHERE number = ?", (number,)).fetchone()
        content = {**json.loads(text), **changes}
        connection.execute(
            "UPDATE history SET content = ? WHERE number = ?", (chain.canonical(content), number)
        )

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (edit(2, epsilon="0.5"), "the charges of dataset 'adult' exceed its budget"),
        (edit(4, cost={"pure": "1/100", "rho": None, "delta": "0"}), "row 4 charges another cost"),
        (edit(4, cost={"pure": "-1", "rho": None, "delta": "0"}), "row 4 cannot be read"),
        (edit(4, cost=None), "row 4 cannot be read"),
        (edit(4, epsilon="0"), "row 4 holds no guarantee"),
        (edit(4, neighbours="add_remove"), "row 4 charges for other neighbours"),
        (edit(4, rows_per_person=0), "row 4 holds no guarantee"),
        (edit(2, epsilon="-1"), "row 2 cannot be read"),
        (lambda c: c.execute("UPDATE history SET kind = 'gift' WHERE number = 4"), "unknown kind 'gift'"),
        (lambda c: c.execute("UPDATE history SET kind = 'create' WHERE number = 4"), "row 4 cannot be read"),
        (lambda c: c.execute("UPDATE history SET content = '[]' WHERE number = 4"), "row 4 cannot be read"),
    ],
)
def test_a_careless_forger_is_found_by_the_sums(used, change, problem):
    forge(used, change)
    assert any(problem in found for found in used.verify().problems)
    with pytest.raises(LedgerError, match="was altered"):
        used.charge("adult", Guarantee(epsilon=0.001))
