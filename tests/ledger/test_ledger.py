# SPDX-License-Identifier: Apache-2.0
"""What a ledger does for those who use it."""

import contextlib
import copy
import dataclasses
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator, clone

from onedraw.errors import BudgetExceeded, InvalidInput, LedgerError, OnedrawError, UnknownDataset
from onedraw.ledger import Ledger, Receipt, chain
from onedraw.ledger.books import entry_of, receipt_of
from onedraw.privacy import Guarantee, calibrate


def snapshot(ledger):
    return Path(ledger.path).read_bytes()


# -- a value


class Holder(BaseEstimator):
    def __init__(self, ledger=None):
        self.ledger = ledger


COPIES = {
    "pickle": lambda ledger: pickle.loads(pickle.dumps(ledger)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "clone": lambda ledger: clone(Holder(ledger)).ledger,
    "made anew": lambda ledger: Ledger(ledger.path, timeout=3.0),
    "relative path": lambda ledger: Ledger(os.path.relpath(ledger.path)),
    "path object": lambda ledger: Ledger(Path(ledger.path)),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_equal_and_spends_the_same_budget(ledger, how):
    other = COPIES[how](ledger)
    assert other == ledger
    assert hash(other) == hash(ledger)
    other.charge("adult", Guarantee(epsilon=0.75))
    assert ledger.show("adult").remaining == 0.25
    with pytest.raises(BudgetExceeded):
        ledger.charge("adult", Guarantee(epsilon=0.5))


def test_another_process_spends_the_same_budget(ledger):
    code = (
        "import pickle, sys; from onedraw.privacy import Guarantee\n"
        "ledger = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "print(ledger.charge('adult', Guarantee(epsilon=0.75)).hash)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, pickle.dumps(ledger).hex()], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ledger.history("adult")[-1].hash
    assert ledger.show("adult").remaining == 0.25


def test_a_ledger_cannot_be_changed(ledger):
    with pytest.raises(AttributeError):
        ledger.path = "elsewhere"
    assert ledger != Ledger(ledger.path + "2")
    assert repr(ledger) == f"Ledger(path={ledger.path!r})"


def test_a_relative_path_is_fixed_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("budget.db")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    ledger.create("adult", epsilon=1.0)
    assert (tmp_path / "budget.db").is_file()


@pytest.mark.parametrize("path", ["", ":memory:", "file:x?mode=memory", "a\0b", b"bytes"])
def test_a_path_that_is_no_file_is_refused(path):
    with pytest.raises(InvalidInput, match="Expected path to name a file"):
        Ledger(path)


def test_a_ledger_with_an_odd_name_works(tmp_path):
    ledger = Ledger(tmp_path / "bu d%20get #1?x=ü.db")
    ledger.create("adult", epsilon=1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["bu d%20get #1?x=ü.db"]


# -- creating


def test_a_budget_is_created_once(ledger):
    before = snapshot(ledger)
    for name in ("adult", "Adult", "ADULT"):
        with pytest.raises(LedgerError, match=r"cannot be created: 'adult' exists, with epsilon=1\."):
            ledger.create(name, epsilon=5.0)
    assert snapshot(ledger) == before


def test_the_same_budget_may_be_asked_for_again(ledger):
    ledger.charge("adult", Guarantee(epsilon=0.25))
    assert ledger.create("adult", epsilon=1.0, exist_ok=True, who="other") == ledger.show("adult")
    for change in ({"epsilon": 2.0}, {"delta": 1e-6}, {"rows_per_person": 2}, {"neighbours": "add_remove"}):
        with pytest.raises(LedgerError, match="cannot be created"):
            ledger.create("adult", **{"epsilon": 1.0, "exist_ok": True, **change})


def test_two_spellings_of_one_accent_are_one_name(ledger):
    ledger.create("caf\u00e9", epsilon=1.0)
    assert ledger.show("cafe\u0301").dataset == "caf\u00e9"


@pytest.mark.parametrize("name", ["", " adult", "a\nb", "x" * 501, None, 3, "\ud800"])
def test_names_that_mislead_are_refused(tmp_path, name):
    ledger = Ledger(tmp_path / "new.db")
    with pytest.raises(InvalidInput, match="Expected dataset to be a"):
        ledger.create(name, epsilon=1.0)
    assert not Path(ledger.path).exists()


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"epsilon": 0.0}, "Expected epsilon > 0"),
        ({"epsilon": float("inf")}, "Expected epsilon > 0 and finite"),
        ({"epsilon": 1.0, "delta": 1.0}, "Expected delta in"),
        ({"epsilon": 1.0, "neighbours": "replace"}, "Did you mean 'replace_one'"),
        ({"epsilon": 1.0, "rows_per_person": 0}, "Expected rows_per_person"),
        ({"epsilon": 1.0, "delta_for_charges": 0.1}, "Expected delta_for_charges <= delta"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(tmp_path, terms, message):
    with pytest.raises(InvalidInput, match=message):
        Ledger(tmp_path / "new.db").create("adult", **terms)
    assert not list(tmp_path.iterdir())


# -- charging


def test_a_receipt_names_the_charge(ledger):
    receipt = ledger.charge("adult", Guarantee(epsilon=0.3), mechanism="logistic", who="ada")
    entry = ledger.history("adult")[-1]
    assert (receipt.hash, receipt.date) == (entry.hash, entry.date)
    assert (entry.kind, entry.who, entry.mechanism) == ("charge", "ada", "logistic")
    assert (entry.epsilon, entry.delta, entry.draws) == (0.3, 0.0, 1)
    assert all(isinstance(value, str) for value in receipt.to_dict().values())
    assert Receipt.from_dict(receipt.to_dict()) == receipt
    assert ledger.verify([receipt, receipt.to_dict()]).ok


def test_ten_tenths_fit_and_not_one_more(ledger):
    for _ in range(10):
        ledger.charge("adult", Guarantee(epsilon=0.1))
    assert (ledger.show("adult").spent, ledger.show("adult").remaining) == (1.0, 0.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge("adult", Guarantee(epsilon=1e-15))


def test_charge_beyond_budget_is_refused(ledger):
    ledger.charge("adult", Guarantee(epsilon=0.9))
    before = snapshot(ledger)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge("adult", Guarantee(epsilon=0.3))
    assert str(caught.value) == (
        "Cannot spend epsilon=0.3 on dataset 'adult': 0.1 of 1 remains. "
        f"See: Ledger({ledger.path!r}).show('adult')."
    )
    assert (caught.value.requested, caught.value.remaining, caught.value.dataset) == (0.3, 0.1, "adult")
    assert snapshot(ledger) == before


def test_a_dry_run_raises_what_the_charge_would_and_changes_nothing(ledger):
    ledger.charge("adult", Guarantee(epsilon=0.8))
    before = snapshot(ledger)
    ledger.check_affordable("adult", Guarantee(epsilon=0.2))
    for guarantee in (
        Guarantee(epsilon=0.3),
        Guarantee(epsilon=0.1, neighbours="add_remove"),
        Guarantee(epsilon=0.1, delta=1e-6),
        0.1,
    ):
        with pytest.raises(OnedrawError) as dry:
            ledger.check_affordable("adult", guarantee)
        with pytest.raises(type(dry.value)) as charged:
            ledger.charge("adult", guarantee)
        assert str(dry.value) == str(charged.value)
    with pytest.raises(UnknownDataset):
        ledger.check_affordable("adlut", Guarantee(epsilon=0.1))
    assert snapshot(ledger) == before


def test_a_refusal_shows_the_digits_that_matter(ledger):
    with pytest.raises(BudgetExceeded, match=r"epsilon=1\.0000000001 on dataset 'adult': 1\.0 of 1 remains"):
        ledger.charge("adult", Guarantee(epsilon=1.0000000001))


def test_errors_survive_the_way_back_from_a_worker(ledger):
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge("adult", Guarantee(epsilon=3.0))
    back = pickle.loads(pickle.dumps(caught.value))
    assert (str(back), back.requested, back.remaining, back.dataset) == (str(caught.value), 3.0, 1.0, "adult")


@pytest.mark.parametrize(
    ("guarantee", "message"),
    [
        (Guarantee(epsilon=0.1, neighbours="add_remove"), "Relations are never mixed. Set neigh"),
        (Guarantee(epsilon=0.1, rows_per_person=2), "declares rows_per_person=3, the charge covers 2"),
        (Guarantee(epsilon=0.1, delta=1e-9, rows_per_person=3), "budget with delta=0, the charge has"),
    ],
)
def test_a_charge_on_other_terms_is_refused(ledger, guarantee, message):
    ledger.create("visits", epsilon=1.0, rows_per_person=3)
    before = snapshot(ledger)
    with pytest.raises(LedgerError, match=message):
        ledger.charge("visits", guarantee)
    assert snapshot(ledger) == before


def test_a_charge_may_cover_more_rows_than_declared(ledger):
    ledger.create("visits", epsilon=1.0, rows_per_person=3)
    assert ledger.charge("visits", Guarantee(epsilon=0.1, rows_per_person=5)).epsilon == 0.1


def test_an_unknown_name_gets_a_suggestion(ledger):
    with pytest.raises(
        UnknownDataset, match=r"no dataset 'adlut'; it has: 'adult'. Did you mean 'adu"
    ) as caught:
        ledger.charge("adlut", Guarantee(epsilon=0.1))
    assert caught.value.dataset == "adlut"
    for ask in (ledger.show, ledger.history, lambda name: ledger.fingerprint(name, [[1]])):
        with pytest.raises(UnknownDataset, match=r"Register it, .*: Ledger\(.*\)\.create\('zzz', epsilon="):
            ask("zzz")


@pytest.mark.parametrize("guarantee", [0.5, None, {"epsilon": 0.1}])
def test_only_a_guarantee_can_be_charged(ledger, guarantee):
    with pytest.raises(InvalidInput, match="Expected guarantee to be a Guarantee"):
        ledger.charge("adult", guarantee)


def test_data_sets_have_budgets_of_their_own(ledger):
    ledger.create("survey", epsilon=0.5)
    ledger.charge("adult", Guarantee(epsilon=1.0))
    ledger.charge("survey", Guarantee(epsilon=0.25))
    found = [(account.dataset, account.spent, account.remaining) for account in ledger.datasets()]
    assert found == [("adult", 1.0, 0.0), ("survey", 0.25, 0.25)]


def test_small_draws_cost_less_where_there_is_a_delta(ledger):
    ledger.create("wide", epsilon=1.0, delta=1e-6)
    guarantee = calibrate("bernoulli", epsilon=0.05).guarantee
    for _ in range(25):
        ledger.charge("wide", guarantee)
    account = ledger.show("wide")
    assert account.composition == "renyi"
    assert account.spent < 0.6 < 25 * 0.05
    assert account.spent_delta == 1e-6
    with pytest.raises(BudgetExceeded, match="of 1 remains for one draw"):
        ledger.charge("wide", Guarantee(epsilon=0.9))
    ledger.charge("wide", Guarantee(epsilon=account.remaining, bounded_range=account.remaining))


def test_half_of_what_remains_for_a_draw_is_allowed_for_another_fit(ledger):
    ledger.create("wide", epsilon=1.0, delta=1e-6)
    for _ in range(25):
        ledger.charge("wide", calibrate("bernoulli", epsilon=0.05).guarantee)
    account = ledger.show("wide")
    assert "for one more draw, at least half of it for another fit of delta 0" in str(account)
    with pytest.raises(BudgetExceeded, match="no draw takes more of a budget with a delta: half of it"):
        ledger.charge("wide", Guarantee(epsilon=account.remaining))
    ledger.charge("wide", Guarantee(epsilon=0.5 * account.remaining * (1.0 - 1e-12)))


def test_a_foreign_delta_needs_a_part_set_aside(ledger):
    ledger.create("none", epsilon=1.0, delta=1e-6)
    ledger.create("some", epsilon=1.0, delta=1e-6, delta_for_charges=5e-7)
    foreign = Guarantee(epsilon=0.1, delta=5e-7)
    with pytest.raises(BudgetExceeded, match=r"delta=5e-07 on dataset 'none': 0 of the") as caught:
        ledger.charge("none", foreign)
    assert caught.value.quantity == "delta"
    ledger.charge("some", foreign)
    with pytest.raises(BudgetExceeded, match="0 of the delta_for_charges=5e-07 remains"):
        ledger.charge("some", foreign)


@pytest.mark.parametrize("draws", [1, 16, 512])
def test_draws_with_the_whole_epsilon_and_delta_of_a_budget_are_told_what_fits(tmp_path, draws):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.create("adult", epsilon=1.0, delta=1e-6)
    whole, less = (
        calibrate("bernoulli", epsilon=epsilon, delta=1e-6, draws=draws).guarantee for epsilon in (1.0, 0.9)
    )
    with pytest.raises(BudgetExceeded, match=r"counted by their ranges.*fit with a smaller epsilon"):
        ledger.charge("adult", whole)
    ledger.charge("adult", less)


def test_every_error_of_a_ledger_has_one_base():
    assert issubclass(LedgerError, OnedrawError)
    assert issubclass(BudgetExceeded, LedgerError)
    assert issubclass(UnknownDataset, LedgerError)


# -- reading


def test_tables_read_well(ledger):
    ledger.charge("adult", Guarantee(epsilon=0.25), mechanism="logistic", who="ada")
    assert str(ledger.show("adult")).splitlines()[:4] == [
        "dataset          adult",
        "budget           epsilon 1, delta 0",
        "spent            epsilon 0.25, delta 0 (pure composition, charges: 1)",
        "remaining        epsilon 0.75 for one more release",
    ]
    header, *lines = str(ledger.history()).splitlines()
    assert header.split()[:5] == ["number", "date", "kind", "dataset", "epsilon"]
    assert [line.split()[2] for line in lines] == ["ledger", "create", "charge"]
    assert len(ledger.history("adult")) == 2
    assert pickle.loads(pickle.dumps(ledger.history())) == ledger.history()
    assert str(ledger.datasets()).count("\n") == 1


def test_a_user_without_a_name_can_charge(ledger, monkeypatch):
    def nameless():
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", nameless)
    ledger.charge("adult", Guarantee(epsilon=0.1))
    assert ledger.history("adult")[-1].who == "unknown"


def test_receipts_of_equal_charges_differ_and_tell_nothing(ledger):
    """Neither how long the first fit ran nor what others charged meanwhile: only their hashes differ."""
    ledger.create("survey", epsilon=1.0)
    one = ledger.charge("adult", Guarantee(epsilon=0.1), who="turing").to_dict()
    for name in ("adult", "survey"):
        ledger.charge(name, Guarantee(epsilon=0.2), who="lovelace")
    time.sleep(0.05)
    two = ledger.charge("adult", Guarantee(epsilon=0.1), who="turing").to_dict()
    assert {key for key in one if one[key] != two[key]} == {"hash"}
    assert set(one) == {"ledger", "dataset", "date", "epsilon", "delta", "hash"}
    assert "turing" not in str(one)


def test_no_time_of_day_is_written_or_told(ledger):
    """Not in receipts, accounts, the history or the file; what early versions wrote stays in the file."""
    day = re.compile(r"\d{4}-\d\d-\d\d")
    receipt = ledger.charge("adult", Guarantee(epsilon=0.1))
    told = [receipt.date, ledger.show("adult").created, *(entry.date for entry in ledger.history())]
    assert all(day.fullmatch(text) for text in told)
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        rows = chain.read(connection)
    assert all(day.fullmatch(row.time) for row in rows)
    early = dataclasses.replace(rows[-1], time="2026-01-02T03:04:05.678901+00:00")
    assert receipt_of("b1", early).date == entry_of(early).date == "2026-01-02"
    assert "03:04" not in str(receipt_of("b1", early)) + str(entry_of(early))


def test_text_of_others_does_not_steer_the_terminal(ledger):
    ledger.charge("adult", Guarantee(epsilon=0.1), mechanism="a\x1b[2J\nb", who="\u202ex")
    assert all(line.isprintable() for line in str(ledger.history()).split("\n"))
    assert len(str(ledger.history()).split("\n")) == 4
    receipt = {"dataset": "a", "date": "x", "epsilon": "1", "delta": "0", "hash": "\x1b", "ledger": "\x1b\n"}
    assert all(line.isprintable() for line in str(ledger.verify([receipt])).split("\n"))
