# SPDX-License-Identifier: Apache-2.0
"""``onedraw reproduce``: a list, an experiment with its files, errors that name the remedy."""

import json

import pytest
from click.testing import CliRunner

from onedraw.cli import main
from onedraw.research.experiments import EXPERIMENTS


@pytest.fixture
def reproduce(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(main, ["reproduce", *args])


def test_the_list_names_every_experiment(reproduce):
    result = reproduce("--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == list(EXPERIMENTS)
    assert [entry["name"] for entry in json.loads(reproduce("--list", "--json").stdout)] == list(EXPERIMENTS)


def test_an_experiment_writes_its_files_and_says_whether_the_claim_holds(reproduce, tmp_path):
    result = reproduce(
        "gaussian-calibration", "--size", "smoke", "--version", "both", "--out", "out", "--page", "page.md"
    )
    assert result.exit_code == 0, result.stderr
    assert "Holds (2 of 2)" in result.stdout
    assert "Does not hold (0 of 4)" in result.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    for version in ("corrected", "as-published"):
        stem = f"gaussian-calibration.{version}"
        assert {f"{stem}.csv", f"{stem}.json", f"{stem}.epsilon.png", f"{stem}.epsilon.svg"} <= names
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("> **This page comes from a smoke run**")
    assert "does not hold (0 of 4)" not in page  # a smoke run judges nothing


def test_pictures_and_page_are_written_again_without_computing(reproduce, tmp_path):
    where = ("gaussian-calibration", "--out", "out", "--page", "page.md")
    assert reproduce(*where, "--size", "smoke").exit_code == 0
    cells = tmp_path / "out" / "cells" / "gaussian-calibration.jsonl"
    cells.unlink()
    picture = tmp_path / "out" / "gaussian-calibration.corrected.epsilon.png"
    before = picture.read_bytes()
    picture.unlink()
    assert reproduce(*where, "--redraw").exit_code == 0
    assert picture.read_bytes() == before
    assert not cells.exists()


def test_the_answer_can_be_had_as_json(reproduce):
    result = reproduce("requirements", "--size", "smoke", "--json")
    (report,) = json.loads(result.stdout)
    assert report["claims"][0]["verdict"] == "Holds"


def test_an_unknown_name_is_refused_with_the_nearest(reproduce):
    result = reproduce("influense")
    assert result.exit_code == 2
    assert "Did you mean 'influence'" in result.stderr
    assert "onedraw reproduce --list" in reproduce().stderr


def test_a_missing_data_set_is_an_error_in_two_lines(reproduce, tmp_path, monkeypatch):
    monkeypatch.setenv("ONEDRAW_DATA", str(tmp_path))
    result = reproduce("logistic-uci", "--size", "smoke")
    assert result.exit_code == 2
    assert "ONEDRAW_DATA" in result.stderr
    assert "Traceback" not in result.stderr
