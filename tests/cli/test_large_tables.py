# SPDX-License-Identifier: Apache-2.0
"""The command on tables that it reads as typed columns: Parquet, folders of it, large text files."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from onedraw.cli import main as command
from onedraw.cli import table
from onedraw.ledger import Ledger
from onedraw.tables import base

pq = pytest.importorskip("pyarrow.parquet")
"""Without pyarrow there is nothing to read."""

N = 4000


@pytest.fixture
def patients(tmp_path):
    """The same patients as a CSV file, a Parquet file and a folder, and a declaration of their columns."""
    rng = np.random.default_rng(0)
    age, smoker = rng.uniform(20, 90, N), rng.choice(["no", "yes"], N)
    died = (rng.random(N) < 1 / (1 + np.exp(-(age - 55) / 15 - (smoker == "yes")))).astype(int)
    frame = pd.DataFrame({"age": age, "smoker": smoker, "visits": rng.integers(0, 9, N), "died": died})
    frame.to_csv(tmp_path / "patients.csv", index=False)
    frame.to_parquet(tmp_path / "patients.parquet", row_group_size=500)
    (tmp_path / "folder").mkdir()
    for i in range(3):
        frame[i * 1500 : (i + 1) * 1500].to_parquet(tmp_path / "folder" / f"part{i}.parquet")
    (tmp_path / "columns.toml").write_text(
        "[columns.age]\nbounds = [20, 90]\n[columns.smoker]\ncategories = ['no', 'yes']\n"
        "[columns.visits]\nbounds = [0, 10]\n[target]\nclasses = [0, 1]\n"
    )
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


def fitted(folder, data, *options):
    out = folder / f"{len(list(folder.iterdir()))}.json"
    columns = ("--columns", folder / "columns.toml")
    shared = ("--target", "died", "--model", "logistic", "--epsilon", 1, "--seed", 3, "--out", out)
    result = run("fit", folder / data, *shared, *columns, *options)
    assert result.exit_code == 0, result.output
    return json.loads(out.read_text())["draws"]


def test_csv_parquet_and_a_folder_give_one_release(patients, monkeypatch):
    expected = fitted(patients, "patients.csv")
    assert fitted(patients, "patients.parquet") == expected
    np.testing.assert_allclose(fitted(patients, "folder"), expected, atol=1e-9)
    monkeypatch.setattr(table, "LARGE", 0)
    np.testing.assert_allclose(fitted(patients, "patients.csv"), expected, atol=1e-9)


def test_little_memory_changes_nothing(patients, monkeypatch):
    monkeypatch.setattr(base, "LOOK", 1024)
    expected = fitted(patients, "patients.parquet")
    np.testing.assert_allclose(fitted(patients, "patients.parquet", "--memory", "10kB"), expected, atol=1e-9)


def test_a_size_that_is_none_is_refused(patients):
    result = run("fit", patients / "patients.parquet", "--target", "died", "--model", "logistic",
                 "--epsilon", 1, "--out", patients / "x.json", "--memory", "much")  # fmt: skip
    assert result.exit_code != 0
    assert "500MB" in result.output


def test_a_large_text_file_that_is_damaged_is_refused_without_a_quote(patients, monkeypatch):
    monkeypatch.setattr(table, "LARGE", 0)
    path = patients / "patients.csv"
    path.write_text(path.read_text() + "secretage,no,1,0\n")
    result = run("fit", path, "--target", "died", "--model", "logistic", "--epsilon", 1, "--columns",
                 patients / "columns.toml", "--out", patients / "x.json")  # fmt: skip
    assert result.exit_code != 0
    assert "secretage" not in result.output


SPOILT = {
    "a text": b"zebra,no,1,0",
    "a category": b"50,zebra,1,0",
    "a class": b"50,no,1,zebra",
    "nothing": b",no,1,0",
    "no text": b"50,zebra\xff,1,0",
    "no number": b"\xff,no,1,0",
    "a field too many": b"50,no,1,0,zebra",
    "an open quote": b'50,"no,1,0',
}


@pytest.mark.parametrize("place", [1, -1])
@pytest.mark.parametrize("case", SPOILT)
def test_no_value_of_a_large_text_file_is_told_of_before_the_charge(case, place, patients, monkeypatch):
    """Types were guessed from the first rows, and rows counted with them: what failed then cost nothing."""
    monkeypatch.setattr(table, "LARGE", 0)
    path, budget = patients / "patients.csv", Ledger(str(patients / "budget.db"))
    budget.create("patients", epsilon=9.0)
    lines = path.read_bytes().splitlines()
    lines[place] = SPOILT[case]
    path.write_bytes(b"\n".join(lines) + b"\n")
    result = run("fit", path, "--target", "died", "--model", "logistic", "--epsilon", 1, "--columns",
                 patients / "columns.toml", "--ledger", budget.path, "--dataset", "patients", "--out",
                 patients / "x.json")  # fmt: skip
    assert result.exit_code in (2, 5)
    assert "The charge stands" in result.stderr
    assert "zebra" not in result.output
    assert budget.show("patients").spent == 1.0


def test_rules_hold_in_a_large_text_file_too(patients, monkeypatch):
    """A text in a column of numbers counts as what is declared, not as damage."""
    monkeypatch.setattr(table, "LARGE", 0)
    declared, path = patients / "columns.toml", patients / "patients.csv"
    declared.write_text(declared.read_text().replace("bounds = [20, 90]", "bounds = [20, 90]\nunknown = 55"))
    lines = path.read_text().splitlines()
    fits = []
    for value in ("55", "zebra", ""):
        path.write_text("\n".join([*lines[:-1], f"{value},no,1,0"]) + "\n")
        fits.append(fitted(patients, "patients.csv"))
    assert fits[0] == fits[1] == fits[2]


def test_predictions_of_parquet_are_written_as_parquet(patients):
    out = patients / "release.json"
    run("fit", patients / "patients.parquet", "--target", "died", "--model", "logistic", "--epsilon", 1,
        "--seed", 3, "--out", out, "--columns", patients / "columns.toml")  # fmt: skip
    scores = patients / "scores.parquet"
    assert run("predict", out, patients / "folder", "--out", scores).exit_code == 0
    text = run("predict", out, patients / "patients.csv", "--out", patients / "scores.csv")
    assert text.exit_code == 0
    found, expected = pd.read_parquet(scores), pd.read_csv(patients / "scores.csv")
    assert list(found.columns) == list(expected.columns)
    np.testing.assert_allclose(found["probability of 1"], expected["probability of 1"], rtol=1e-9)
    assert run("predict", out, patients / "folder", "--out", scores).exit_code != 0  # it exists
