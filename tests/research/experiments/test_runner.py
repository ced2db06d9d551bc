# SPDX-License-Identifier: Apache-2.0
"""The runner: resumable after a kill, the same table with any number of workers, nothing computed twice."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest

from onedraw.errors import InvalidInput, MissingExtra
from onedraw.research.experiments import EXPERIMENTS, VERSIONS, Experiment, run
from onedraw.research.experiments.runner import read_finished
from onedraw.research.experiments.spec import Verdict, stream
from onedraw.research.experiments.table import from_csv, summarise

sys.path.insert(0, str(Path(__file__).parent))
import killed_run

sys.path.pop(0)

SCRIPT = Path(killed_run.__file__)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_a_killed_run_goes_on_without_losing_or_repeating_a_cell(tmp_path):
    """The process is killed with SIGKILL while cells are under way; each cell notes that it was computed."""
    notes = tmp_path / "computed"
    process = subprocess.Popen([sys.executable, str(SCRIPT), str(tmp_path)], start_new_session=True)
    try:
        cells = tmp_path / "killed.jsonl"
        deadline = time.monotonic() + 60.0
        while len(lines(cells)) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finished = {json.loads(line)["rows"][0]["number"] for line in lines(cells)}
    assert 4 <= len(finished) < killed_run.CELLS
    before = lines(notes)
    results = run(killed_run.experiment(tmp_path), folder=tmp_path, size="smoke", jobs=1)
    again = [int(number) for number in lines(notes)[len(before) :]]
    assert sorted(again) == sorted(set(range(killed_run.CELLS)) - finished)  # only what had not ended
    assert [row["number"] for row in results.rows] == list(range(killed_run.CELLS))
    run(killed_run.experiment(tmp_path), folder=tmp_path, size="smoke")
    assert len(lines(notes)) == len(before) + len(again)


def test_a_line_cut_short_is_dropped_and_computed_again(tmp_path):
    experiment = EXPERIMENTS["gaussian-calibration"]
    whole = run(experiment, size="smoke", folder=tmp_path)
    path = tmp_path / "gaussian-calibration.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    assert len(read_finished(path)) == 1
    assert run(experiment, size="smoke", folder=tmp_path).rows == whole.rows
    assert len([json.loads(line) for line in lines(path)]) == 2  # the new line is not glued to the old piece


def test_a_run_whose_time_is_up_reports_whole_repetitions_and_goes_on(tmp_path):
    """Four repetitions of two cells in the order of the grid; time is up while a cell is computed."""
    computed = []

    def slow(cell):
        computed.append((cell["repetition"], cell["n"]))
        time.sleep(0.02)
        return [{"score": float(cell["n"])}]

    def cells(version):
        return [{"n": n, "repetition": i} for n in (1, 2) for i in range(4)]

    experiment = Experiment(
        name="timed",
        figures="none",
        title="Timed",
        sizes={"smoke": {}},
        cells=cells,
        run=slow,
        by=("n",),
        values=("score",),
    )
    with pytest.raises(InvalidInput, match="after 1 of 8 cells"):
        run(experiment, size="smoke", folder=tmp_path, minutes=1e-6)
    part = run(experiment, size="smoke", folder=tmp_path, minutes=1e-6)
    assert computed == [(0, 1), (0, 2)]
    assert (part.cells, [row["n"] for row in part.rows]) == (2, [1, 2])
    run(experiment, size="smoke", folder=tmp_path, minutes=1e-6)
    whole = run(experiment, size="smoke", folder=tmp_path)
    assert (whole.cells, len(computed)) == (8, 8)
    assert [(row["n"], row["repetition"]) for row in whole.rows] == [(n, i) for n in (1, 2) for i in range(4)]


def test_any_number_of_workers_and_any_backend_give_the_same_table(tmp_path):
    experiment = EXPERIMENTS["dimensions"]
    one = run(experiment, size="smoke", folder=tmp_path / "one", jobs=1)
    with joblib.parallel_config(backend="threading"):
        two = run(experiment, size="smoke", folder=tmp_path / "two", jobs=3)
    assert one.rows == two.rows
    tables = [(tmp_path / name / "dimensions.corrected.csv").read_text() for name in ("one", "two")]
    assert tables[0] == tables[1]


def test_worker_processes_compute_the_same(tmp_path):
    experiment = EXPERIMENTS["gaussian-calibration"]
    one = run(experiment, size="smoke", folder=tmp_path / "one")
    assert run(experiment, size="smoke", folder=tmp_path / "two", jobs=2).rows == one.rows


def test_the_table_says_where_it_comes_from(tmp_path):
    results = run(EXPERIMENTS["gaussian-calibration"], size="smoke", folder=tmp_path, version="as-published")
    rows, about = from_csv((tmp_path / "gaussian-calibration.as-published.csv").read_text())
    assert len(rows) == 4
    assert about["spec"] == results.experiment.fingerprint("as-published", "smoke")
    assert about["seed"] == 2023
    assert {"onedraw", "numpy", "python"} <= set(about["versions"])


def test_progress_is_told_from_the_first_cell_to_the_last(tmp_path):
    told = []
    for _ in range(2):
        run(
            EXPERIMENTS["gaussian-calibration"],
            size="smoke",
            folder=tmp_path,
            progress=lambda done, total: told.append((done, total)),
        )
    assert told == [(0, 2), (1, 2), (2, 2), (2, 2)]


@pytest.mark.parametrize("wrong", [{"version": "published"}, {"size": "large"}, {"jobs": 0}])
def test_a_wrong_option_is_refused_before_anything_is_written(wrong, tmp_path):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        run(EXPERIMENTS["update"], folder=tmp_path / "none", **wrong)
    assert not (tmp_path / "none").exists()


def test_a_missing_data_set_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEDRAW_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"has no 'column_2C\.dat'"):
        run(EXPERIMENTS["logistic-uci"], size="smoke", folder=tmp_path)
    assert not lines(tmp_path / "logistic-uci.jsonl")


def test_a_missing_extra_is_refused_before_anything_is_computed(tmp_path):
    experiment = replace(EXPERIMENTS["update"], extra="a-package-that-nobody-has")
    with pytest.raises(MissingExtra, match="The experiment update needs"):
        run(experiment, size="smoke", folder=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_every_experiment_has_both_sizes_and_distinct_cells():
    for experiment in EXPERIMENTS.values():
        for version in VERSIONS:
            for size in ("paper", "smoke"):
                cells = [json.dumps(cell, sort_keys=True) for cell in experiment.listed(version, size)]
                assert len(set(cells)) == len(cells) > 0
            assert experiment.notes[version]
        assert experiment.claims


def test_a_change_of_any_cell_changes_the_fingerprint():
    update = EXPERIMENTS["update"]
    prints = {update.fingerprint(version, size) for version in VERSIONS for size in ("paper", "smoke")}
    assert len(prints) == 4


def test_streams_are_independent_of_each_other():
    numbers = np.array([stream("a", i).standard_normal(50) for i in range(40)])
    correlation = np.corrcoef(numbers) - np.eye(40)
    assert np.abs(correlation).max() < 0.6  # of 780 pairs; 0.6 is more than four standard errors


def test_a_summary_ignores_what_is_missing():
    rows = [{"n": 1, "x": 2.0}, {"n": 1, "x": float("nan")}, {"n": 1, "x": 4.0}]
    (summary,) = summarise(rows, by=("n",), values=("x",))
    assert (summary["x"], summary["x_se"], summary["count"]) == (3.0, 1.0, 3)


@pytest.mark.parametrize(
    ("right", "cases", "word"),
    [(3, 3, "Holds"), (1, 3, "Holds in part"), (0, 3, "Does not hold"), (0, 0, "Undecided")],
)
def test_a_verdict_is_a_word(right, cases, word):
    assert Verdict(right, cases, "").word == word
