# SPDX-License-Identifier: Apache-2.0
"""Pictures and the page say what the numbers say."""

import json

import pytest

from onedraw.reports.canvas import FORMATS, as_bytes
from onedraw.research.experiments import EXPERIMENTS, VERSIONS, run
from onedraw.research.experiments.spec import View
from onedraw.research.experiments.table import from_csv
from onedraw.research.reports.figures import draw_view
from onedraw.research.reports.reproduction import publish, write_page

pytest.importorskip("matplotlib")

ROWS = [
    {
        "method": method,
        "epsilon": epsilon,
        "n": n,
        "error": error + epsilon,
        "error_se": 0.1,
        "twin_error": 0.0,
    }
    for method, error in (("beta-paper", 1.0), ("chaudhuri-fixed-published", 9.0))
    for epsilon in (1.0, 2.0)
    for n in (10, 100)
]
VIEW = View(name="error", title="Error", x="n", y="error", x_label="n", y_label="error", across="epsilon")


def lines(axis):
    return {line.get_label(): line.get_ydata().tolist() for line in axis.get_lines()}


def test_a_panel_has_the_numbers_of_its_rows():
    first, second = draw_view(VIEW, ROWS).axes
    assert [axis.get_title() for axis in (first, second)] == ["epsilon = 1", "epsilon = 2"]
    assert lines(second)["β-divergence, w = 1  [ε]"] == [3.0, 3.0]


def test_the_legend_states_the_true_guarantee():
    figure = draw_view(VIEW, ROWS, note="A note.")
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert "Chaudhuri, λ = 1/9  [not private at ε; pε holds, p coefficients]" in texts
    assert "A note." in figure.get_suptitle()


def test_what_lies_above_the_ceiling_is_cut_off_and_the_rest_shown():
    figure = draw_view(View(**{**vars(VIEW), "ceiling": 5.0}), ROWS)
    low, high = figure.axes[0].get_ylim()
    assert low < 2.0 < high == 5.0


def test_twins_are_drawn_dashed():
    figure = draw_view(View(**{**vars(VIEW), "twin": "twin_error", "down": "method"}), ROWS)
    assert len(figure.axes) == 4
    assert [line.get_linestyle() for line in figure.axes[0].get_lines()] == ["-", "--"]


@pytest.mark.parametrize("form", FORMATS)
def test_equal_numbers_give_equal_files(form, monkeypatch):
    """Also on another day: Matplotlib would take the date from this variable."""
    files = []
    for day in ("0", "86400000"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", day)
        files.append(as_bytes(draw_view(VIEW, ROWS, note="A note."), form))
    assert files[0] == files[1]
    assert b"1970" not in files[0]


def test_the_legend_has_the_range_of_true_epsilons():
    rows = [
        {**row, "method": "dp-sgd-published", "true_epsilon": 3.0 * row["epsilon"] + (row["n"] == 10)}
        for row in ROWS[:4]
    ]
    (legend,) = draw_view(VIEW, rows).legends
    assert legend.get_texts()[0].get_text() == "DP-SGD  [true ε 3 to 7, δ 1e-5]"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduction")
    for name in ("gaussian-calibration", "requirements"):
        for version in VERSIONS:
            publish(run(EXPERIMENTS[name], version=version, size="smoke", folder=folder / "cells"), folder)
    write_page(folder, folder.parent / "page.md")
    return folder


def test_an_experiment_leaves_numbers_pictures_and_verdicts(published):
    stem = published / "gaussian-calibration.as-published"
    rows, about = from_csv((published / f"{stem.name}.csv").read_text())
    assert rows[0]["true"] == pytest.approx(13.88, abs=1e-3)
    assert about["seed"] == 2023
    assert (published / f"{stem.name}.epsilon.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (published / f"{stem.name}.epsilon.svg").read_text()
    (claim,) = json.loads((published / f"{stem.name}.json").read_text())["claims"]
    assert (claim["verdict"], claim["right"], claim["cases"]) == ("Does not hold", 0, 4)


def test_the_page_has_both_versions_of_every_claim(published):
    text = (published.parent / "page.md").read_text()
    claim = "The Gaussian regressions have the epsilon that they are plotted at."
    row = f"| 6 (calibration) | {claim} | holds (2 of 2) | does not hold (0 of 4) |"
    assert row in text
    assert f"({published.name}/gaussian-calibration.corrected.epsilon.png)" in text
    assert "0.2 is 13.88" in text
    assert "| one_posterior |" in text
