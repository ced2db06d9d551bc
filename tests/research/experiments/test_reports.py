# SPDX-License-Identifier: Apache-2.0
"""Pictures and the page say what the numbers say."""

import json

import pytest

from onedraw.reports.canvas import FORMATS, as_bytes
from onedraw.research.experiments import EXPERIMENTS, VERSIONS, run
from onedraw.research.experiments.spec import View
from onedraw.research.experiments.table import from_csv
from onedraw.research.reports.figures import draw_view
from onedraw.research.reports.page import _chains, write_page
from onedraw.research.reports.reproduction import publish, redraw

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


def test_no_legend_is_cut_at_the_edge_of_its_picture():
    """Guarantees stand at the end of a line, so what would be cut is what matters most."""
    for view in (VIEW, View(**{**vars(VIEW), "across": None})):
        figure = draw_view(view, [{**row, "epsilon": 1.0} for row in ROWS])
        figure.canvas.draw()
        (legend,) = figure.legends
        assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_a_picture_may_say_what_methods_guarantee_in_it():
    view = View(**{**vars(VIEW), "promises": {"chaudhuri-fixed-published": "ε, for one coefficient"}})
    (legend,) = draw_view(view, ROWS).legends
    assert "Chaudhuri, λ = 1/9  [ε, for one coefficient]" in [text.get_text() for text in legend.get_texts()]


def test_figures_have_the_numbers_of_the_paper():
    """In the order of its LaTeX source; the table of requirements is its table 1."""
    found = {figure for e in EXPERIMENTS.values() for figure in e.figures.split(", ") if figure.isdigit()}
    assert found == {str(number) for number in range(1, 12)}
    for name, figures in {
        "update": "1",
        "logistic-uci": "2, 6, 7, 8",
        "network-regression": "3",
        "attacks": "4, 11",
        "influence": "5",
        "network-classification-uci": "9",
        "network-dimensions": "10",
        "requirements": "table 1",
    }.items():
        assert EXPERIMENTS[name].figures == figures
        for view in EXPERIMENTS[name].views:
            assert view.title.removeprefix("Figure ").split(":")[0].split(",")[0] in figures.split(", ")


def test_a_page_of_a_smoke_run_says_so_first_and_judges_no_claim(published):
    text = (published.parent / "page.md").read_text()
    assert text.startswith("> **This page comes from a smoke run**")
    claim = "The Gaussian regressions have the epsilon that they are plotted at."
    assert f"| 3 (calibration) | {claim} | not judged | not judged |" in text


def as_at_full_size(folder, published):
    """The same reports, as if they came from a run at full size."""
    for path in published.glob("*.json"):
        report = json.loads(path.read_text())
        (folder / path.name).write_text(json.dumps({**report, "size": "paper"}))
        (folder / f"{path.stem}.csv").write_text((published / f"{path.stem}.csv").read_text())


def test_pictures_are_drawn_again_from_the_numbers_in_the_folder(published, tmp_path):
    as_at_full_size(tmp_path, published)
    report = redraw(EXPERIMENTS["gaussian-calibration"], "corrected", tmp_path)
    (picture,) = report["pictures"]
    assert (tmp_path / picture["file"]).read_bytes() == (published / picture["file"]).read_bytes()
    assert redraw(EXPERIMENTS["update"], "corrected", tmp_path) is None


def test_the_page_tells_how_long_chains_are():
    """Older reports do not say; theirs were of 250."""
    reports = {"network-regression": {"corrected": {"warmup": 500}, "as-published": {}}}
    told = _chains(reports)
    assert "250 (network-regression (as-published)) or 500 (network-regression (corrected)) warm-up" in told


def test_the_page_has_both_versions_of_every_claim(published, tmp_path):
    as_at_full_size(tmp_path, published)
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert text.startswith("> **This page comes from 4 runs at full size**, 2 of them with fewer or other")
    assert "gaussian-calibration (corrected: 2 of 5), gaussian-calibration (as-published: 4 of 10)" in text
    assert "Chains of networks start" not in text  # no network is in the folder
    claim = "The Gaussian regressions have the epsilon that they are plotted at."
    row = f"| 3 (calibration) | {claim} | holds (2 of 2) | does not hold (0 of 4) |"
    assert row in text
    assert "(./gaussian-calibration.corrected.epsilon.png)" in text
    assert "0.2 is 13.88" in text
    assert "| one_posterior |" in text
    assert "| abalone | `abalone.data` |" in text


def test_the_page_lists_what_the_numbers_lack_of_the_grids_of_the_paper(published, tmp_path):
    """Read off the numbers themselves: an epsilon that is there is not listed, whatever the specification."""
    as_at_full_size(tmp_path, published)
    report = json.loads((tmp_path / "gaussian-calibration.corrected.json").read_text())
    named = {**report, "experiment": "network-regression", "figures": "3", "pictures": [], "claims": []}
    (tmp_path / "network-regression.corrected.json").write_text(json.dumps(named))
    lines = [f"{n},{epsilon}" for n in (50, 100, 1000) for epsilon in (0.2, 0.3, 0.5, 1, 2, 5)]
    (tmp_path / "network-regression.corrected.csv").write_text("\n".join(["# {}", "n,epsilon", *lines]))
    write_page(tmp_path, tmp_path / "page.md")
    assert "| 3 | `network-regression`, corrected | n 200, 500 |" in (tmp_path / "page.md").read_text()
