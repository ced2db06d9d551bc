# SPDX-License-Identifier: Apache-2.0
"""A new user's evening with the command, mistakes made on purpose: what is said to each, and what it costs.

The steps are those of issue "the product around it", items 1 to 9, on one made-up table as people have them:
semicolons, a question mark for a missing value, a category that nobody declared, a count below zero.
"""

import signal
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import onedraw
from onedraw.cli import main

COLUMNS = """
missing = ["?"]
ignore = ["id"]

[target]
classes = ["alive", "dead"]

[columns.age]
bounds = [18, 100]

[columns.smoker]
categories = ["no", "yes"]
"""
RULES = (
    COLUMNS.replace("[target]\n", '[target]\nunknown = "alive"\n')
    .replace("[columns.age]\n", '[columns.age]\nmissing = "middle"\n')
    .replace('"yes"]', '"yes"]\nunknown = "no"')
)


def told(*words, code=0):
    """What the command says, on both channels: errors and cautions after the rest."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def table(n=900):
    rng = np.random.default_rng(3)
    age, smoker = rng.integers(18, 95, n).astype(object), rng.choice(["no", "yes"], n).astype(object)
    died = np.where(rng.random(n) < 0.1 + 0.006 * age.astype(float), "dead", "alive")
    age[4], smoker[7] = "?", "sometimes"
    rows = [f"{i};{age[i]}; {smoker[i]};{died[i]}" for i in range(n)]
    return "\n".join(["id;age;smoker;status", *rows]) + "\n"


@pytest.fixture(autouse=True)
def _stay(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # and back at the end


def test_an_evening_with_the_command(tmp_path):
    (tmp_path / "people.csv").write_text(table())
    (tmp_path / "columns.toml").write_text(COLUMNS)
    (tmp_path / "rules.toml").write_text(RULES)
    fit = ("fit", "people.csv", "--model", "logistic", "--epsilon", "1")
    pays = ("--ledger", "b.db", "--dataset", "people", "--target", "status", "--out", "r.json")
    told("ledger", "create", "b.db", "people", "--epsilon", "3")

    # The semicolons are seen; a misspelt target and data set are answered with those that exist.
    said = told(*fit, "--target", "statsu", "--out", "r.json", code=2)
    assert "It has 4: 'id', 'age', 'smoker', 'status'. Did you mean 'status'?" in said
    said = told(*fit, *pays, "--columns", "columns.toml", "--dataset", "patients", code=2)
    assert "it has: 'people'" in said
    assert "two budgets for the same people add up" in said

    # A dry run costs nothing and says what could be refused after the charge.
    said = told(*fit, *pays, "--columns", "columns.toml", "--dry-run")
    assert "A ledger would be charged epsilon 1" in said
    assert "No rule says what unforeseen values of age, smoker, status count as" in said
    assert "nothing was charged, no row was read" in said

    # Who fits all the same is charged, told so, and told how to find the rows.
    said = told(*fit, *pays, "--columns", "columns.toml", code=2)
    assert "Column 'age' has missing values" in said
    assert "onedraw check DATA" in said
    assert "The charge stands" in said
    assert "1 of them without a release" in told("ledger", "show", "b.db")
    assert "no release" in told("ledger", "history", "b.db")
    said = told("check", "people.csv", "--target", "status", "--columns", "columns.toml", code=2)
    assert said.startswith("PRIVATE OUTPUT")
    lines = [line.split() for line in said.splitlines()]
    assert ["age", "missing", "1", "refused", "6"] in lines  # the line of the question mark
    assert ["smoker", "not", "a", "declared", "category", "1", "refused", "9"] in lines

    # With a rule for every value nothing is refused.
    assert "counts as 59.0" in told("check", "people.csv", "--columns", "rules.toml", "--target", "status")
    said = told(*fit, *pays, "--columns", "rules.toml")
    assert "2 of epsilon 3 spent" in said
    assert onedraw.Release.from_json(tmp_path / "r.json").model.features == ("age", "smoker=yes (vs no)")

    # Promises of nothing and releases of nothing say so first.
    said = told(*fit[:-1], "1e9", *pays[4:], "--force", "--columns", "rules.toml")
    assert "epsilon = 1e+09 promises next to nothing" in said
    (tmp_path / "people.csv").write_text("\n".join(table().splitlines()[:3]) + "\n")
    said = told(*fit, *pays[4:], "--force", "--columns", "rules.toml")
    assert said.startswith("MOSTLY NOISE")
    assert told("show", "r.json").startswith("MOSTLY NOISE")


SLOW = """
import sys, time
from onedraw.mechanisms import TiltedFit
from onedraw.cli import main
def forever(*_):
    print("computing", flush=True)
    time.sleep(60)
TiltedFit._computed = forever
main(sys.argv[1:])
"""


def test_who_ends_a_fit_is_told_that_the_charge_stands(tmp_path):
    (tmp_path / "people.csv").write_text(table())
    (tmp_path / "rules.toml").write_text(RULES)
    told("ledger", "create", "b.db", "people", "--epsilon", "3")
    words = "fit people.csv --target status --model logistic --epsilon 1 --columns rules.toml --out r.json"
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        running = subprocess.Popen(
            [sys.executable, "-c", SLOW, *words.split(), "--ledger", "b.db", "--dataset", "people"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert running.stdout.readline() == "computing\n"
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
        assert running.returncode == code
        assert "Stopped. The charge stands" in said
    assert "2 of them without a release" in told("ledger", "show", "b.db")
    assert not (tmp_path / "r.json").exists()
