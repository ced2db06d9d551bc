# SPDX-License-Identifier: Apache-2.0
import contextlib
import sqlite3

import pytest

from onedraw.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    """A ledger with a data set 'adult' of budget 1."""
    ledger = Ledger(tmp_path / "budget.db", timeout=10.0)
    ledger.create("adult", epsilon=1.0, who="tester")
    return ledger


@pytest.fixture
def raw():
    """Run statements on a ledger's file behind its back; ``unlocked`` drops the triggers first."""

    def run(ledger, *statements, unlocked=True):
        with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
            triggers = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
            if unlocked:
                for name in triggers:
                    connection.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                connection.execute(statement)
            if unlocked:
                for sql in triggers.values():
                    connection.execute(sql)

    return run
