# SPDX-License-Identifier: Apache-2.0
"""A release that somebody else wrote steers neither the terminal nor a spreadsheet."""

import csv
import io

import pytest

from onedraw import Guarantee, Release
from onedraw.families import Bernoulli
from onedraw.model import NetworkModel
from onedraw.release import Grid, Made
from onedraw.samplers.base import Evidence

ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\u2066\u200b\r\n\x00epsilon = 0.001"
NUMBERS = {"loss": "BetaDivergence", "beta": 2.0, "weight": 0.5, "prior_scale": 1.0, "sampler_error": 0.0}
FORMULA = "=HYPERLINK(A1)"


def hostile(*, feature="age", classes=("no", "yes"), **options):
    model = NetworkModel(family=Bernoulli(), features=(feature,), hidden_layer_sizes=(1,), classes=classes)
    values = {
        "assumptions": ("Each person holds one row.",),
        "evidence": Evidence(level="diagnosed", statement="By hand."),
        "receipt": None,
        **options,
    }
    Release(
        model=model,
        draws=((1.0, 0.0, 1.0, -1.0),),
        grid=Grid(coefficient=0.125),
        mechanism=Made(name="network_draw", numbers=NUMBERS),
        guarantee=Guarantee(epsilon=1.0),
        seeded=False,
        **values,
    ).to_json("hostile.json")


HOSTILE = {
    "feature": {"feature": ESCAPES},
    "label": {"classes": (ESCAPES, "yes")},
    "assumption": {"assumptions": (ESCAPES,)},
    "evidence": {"evidence": Evidence(level="diagnosed", statement=ESCAPES)},
    "receipt": {"receipt": {"ledger": ESCAPES, "dataset": ESCAPES, "epsilon": ESCAPES, "hash": ESCAPES}},
}


@pytest.mark.parametrize("where", HOSTILE)
def test_showing_a_release_prints_no_control_and_no_line_of_its_author(cli, where):
    hostile(**HOSTILE[where])
    shown = cli.run("show", "hostile.json")
    assert shown.exit_code == 0, shown.stderr
    assert all(line.isprintable() for line in shown.stdout.split("\n"))
    assert not any(line.startswith("epsilon") for line in shown.stdout.split("\n"))
    text = str(Release.from_json("hostile.json"))
    assert all(line.isprintable() for line in text.split("\n"))
    assert not any(line.startswith("epsilon") for line in text.split("\n"))
    machine = cli.run("show", "hostile.json", "--json")
    assert machine.stdout.isascii()
    assert "\x1b" not in machine.stdout


@pytest.mark.parametrize("to_file", [False, True])
def test_labels_reach_a_table_of_predictions_as_plain_text(cli, to_file):
    hostile(classes=(FORMULA, f"x;@SUM(1){ESCAPES}"))
    cli.write_csv(cli.folder / "new.csv", {"age": [0, 5]})
    predicted = cli.run("predict", "hostile.json", "new.csv", *(["--out", "out.csv"] if to_file else []))
    assert predicted.exit_code == 0, predicted.stderr
    text = (cli.folder / "out.csv").read_text("utf-8") if to_file else predicted.stdout
    assert all(line.isprintable() for line in text.split("\n"))
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][1] == f"probability of {FORMULA}"  # not at the start of a cell, so no formula
    assert [row[0][:9] for row in rows[1:]] == ["'" + FORMULA[:8], "x;'@SUM(1"]
    for separator in ",;":
        for cells in csv.reader(io.StringIO(text), delimiter=separator):
            assert not any(cell.strip()[:1] in ("=", "@") for cell in cells)


def test_labels_that_are_numbers_are_predicted_as_they_are(cli):
    hostile(classes=("-1", "+1"))
    cli.write_csv(cli.folder / "new.csv", {"age": [0, 5]})
    lines = cli.run("predict", "hostile.json", "new.csv").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["prediction", "-1", "+1"]
