# SPDX-License-Identifier: Apache-2.0
"""Many processes, and processes that die."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from onedraw.errors import BudgetExceeded
from onedraw.ledger import Ledger, chain
from onedraw.privacy import Guarantee
from onedraw.release import Release

HERE = Path(__file__).resolve().parent
STAGES = {  # of release_in_stages.py, and the charges that must be on record after a kill there
    "before the charge": 0,
    "inside the transaction": 0,
    "before the commit": 0,
    "after the commit": 1,
    "while sampling": 1,
    "before writing": 1,
    "while writing": 1,
    "after writing": 1,
}


@contextlib.contextmanager
def running(*arguments):
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_32_processes_at_once_spend_exactly_the_budget(ledger):
    """64 charges fit; 32 processes try until each is refused."""
    script = [sys.executable, HERE / "charge_together.py", ledger.path, "32", "0.015625"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    receipts = [receipt for answer in answers for receipt in answer["receipts"]]
    assert len(answers) == 32
    assert len(receipts) == len({r["hash"] for r in receipts}) == 64
    assert {answer["remaining"] for answer in answers} == {0.0}
    account = ledger.show("adult")
    assert (account.charges, account.spent, account.remaining) == (64, 1.0, 0.0)
    assert ledger.verify(receipts).ok


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """For each stage the folder of a ledger and of a release that was killed there."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    folder = tmp_path_factory.mktemp("killed")
    for number in range(len(STAGES)):
        (folder / str(number)).mkdir()
        Ledger(folder / str(number) / "budget.db").create("adult", epsilon=1.0)
    script = [sys.executable, HERE / "release_in_stages.py", folder]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return {stage: folder / str(number) for number, stage in enumerate(STAGES)}


@pytest.mark.parametrize("stage", STAGES)
def test_a_kill_loses_no_charge_and_leaves_no_release_without_one(killed, stage):
    folder = killed[stage]
    ledger = Ledger(folder / "budget.db", timeout=10.0)
    account = ledger.show("adult")
    assert account.charges == STAGES[stage]
    releases = [Release.from_json(path) for path in folder.glob("*.json")]
    assert len(releases) == (stage == "after writing")
    assert len(releases) <= account.charges
    assert ledger.verify([release.receipt for release in releases]).ok
    ledger.charge("adult", Guarantee(epsilon=account.remaining))  # and the ledger goes on
    assert [path.name for path in folder.glob("budget.db*")] == ["budget.db"]


@pytest.mark.parametrize("lines", [1, 12])
def test_a_kill_among_charges_loses_none_that_was_receipted(ledger, lines):
    code = (
        "import sys; from onedraw.ledger import Ledger; from onedraw.privacy import Guarantee\n"
        "while True: print(Ledger(sys.argv[1]).charge('adult', Guarantee(epsilon=0.001)).hash, flush=True)"
    )
    with running("-c", code, ledger.path) as process:
        seen = [process.stdout.readline().strip() for _ in range(lines)]
        process.kill()
        seen += process.stdout.read().split()
    recorded = [entry.hash for entry in ledger.history("adult") if entry.kind == "charge"]
    assert recorded[: len(seen)] == seen
    assert len(recorded) <= len(seen) + 1
    assert ledger.verify().ok


def test_an_exception_inside_the_transaction_undoes_it(ledger, monkeypatch):
    before = Path(ledger.path).read_bytes()

    def interrupted(*args, **options):
        original(*args, **options)
        raise KeyboardInterrupt

    original = chain.append
    monkeypatch.setattr(chain, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.charge("adult", Guarantee(epsilon=0.5))
    monkeypatch.undo()
    assert Path(ledger.path).read_bytes() == before
    ledger.charge("adult", Guarantee(epsilon=1.0))
    with pytest.raises(BudgetExceeded):
        ledger.charge("adult", Guarantee(epsilon=0.5))
