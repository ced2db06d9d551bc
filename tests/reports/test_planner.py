# SPDX-License-Identifier: Apache-2.0
"""The page to plan with: its formula against simulated releases, its script against its formula."""

import re

import pytest
from click.testing import CliRunner

from onedraw import planning
from onedraw.cli.app import main
from onedraw.reports.planner import CURVATURE, EPSILONS, expected, planner_page, tilt_sd

PROBE = """
<script>addEventListener('load', () => {
  document.getElementById('columns').value = COLUMNS;
  document.getElementById('epsilon').value = Math.log10(EPSILON);
  document.getElementById('rows').value = Math.log10(ROWS);
  document.getElementById('rows').dispatchEvent(new Event('input'));
  document.body.dataset.wide = document.documentElement.scrollWidth;
});</script>"""


def test_the_curvature_is_that_of_a_normal_predictor():
    from scipy import integrate, special, stats

    found = integrate.quad(lambda t: stats.norm.pdf(t) * special.expit(t) * special.expit(-t), -12, 12)[0]
    assert found == pytest.approx(CURVATURE, abs=5e-5)


@pytest.mark.statistical
def test_expected_errors_are_those_of_simulated_releases():
    """60 tables of 4 parameters: the root mean square has a relative error of 6%; 25% off is 4 of them."""
    rows, columns, epsilon = 4000, 3, 1.0
    found = planning.plan(
        "logistic",
        rows=rows,
        features=columns,
        epsilons=[epsilon],
        repeats=60,
        seed=0,
        feature_bounds=(-1, 1),
    )
    slope = expected(rows=rows, columns=columns, epsilon=epsilon)
    intercept = 1.0 / (rows * CURVATURE)
    plain = ((columns * slope.plain**2 + intercept) / (columns + 1)) ** 0.5
    noise = (tilt_sd(columns, epsilon) * intercept) ** 2
    private = ((columns * slope.error**2 + intercept + noise) / (columns + 1)) ** 0.5
    assert found.rows[0].non_private == pytest.approx(plain, rel=0.25)
    assert found.rows[0].private == pytest.approx(private, rel=0.25)


def test_the_command_writes_the_page_and_refuses_what_it_is_not_for(tmp_path, monkeypatch, well_formed):
    monkeypatch.chdir(tmp_path)
    plan = [
        "plan",
        "--rows",
        "500",
        "--features",
        "2",
        "--repeats",
        "1",
        "--epsilons",
        "1",
        "--html",
        "plan.html",
    ]
    run = CliRunner().invoke(main, [*plan, "--model", "logistic"])
    assert run.exit_code == 0, run.output
    assert "Page: plan.html" in run.output
    text = (tmp_path / "plan.html").read_text("utf-8")
    assert well_formed(text).addresses == []
    assert "script-src &#x27;sha256-" in text
    with pytest.raises(SystemExit) as stopped:
        main([*plan, "--model", "linear", "--force"])
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    ("rows", "columns", "epsilon", "width"), [(25_000, 7, 0.32, 1100), (1_000, 1, 4.0, 500)]
)
def test_moving_the_sliders_shows_the_numbers_of_the_formula(browse, rows, columns, epsilon, width):
    probe = PROBE.replace("COLUMNS", str(columns)).replace("EPSILON", str(epsilon)).replace("ROWS", str(rows))
    dom = browse(planner_page(rows=10_000, columns=5), width, probe=probe)
    shown = dict(re.findall(r'<dd id="(\w+)">([^<]*)</dd>', dom))
    found = expected(rows=rows, columns=columns, epsilon=epsilon)
    assert float(shown["error"]) == pytest.approx(found.error, rel=0.01)
    assert float(shown["plain"]) == pytest.approx(found.plain, rel=0.01)
    assert float(shown["widening"]) == pytest.approx(found.widening, abs=0.011)
    assert int(re.search(r'data-wide="(\d+)"', dom)[1]) <= width
    assert dom.count("<circle") == 1
    assert len(EPSILONS) - 1 >= dom.count('stroke="#0f6b8f" stroke-width="2.5"') > 5


def test_the_policy_of_the_page_lets_its_own_script_run(browse):
    assert "A true odds ratio of 2" in browse(planner_page(rows=10_000, columns=5))


@pytest.mark.parametrize(
    ("rows", "said"),
    [(100, "mostly noise"), (1_000, "Intervals come from about 2,400 rows on"), (10_000, "odds ratio of 2")],
)
def test_the_page_promises_no_interval_that_the_default_does_not_give(browse, rows, said):
    assert said in browse(planner_page(rows=rows, columns=5, epsilon=0.8 if rows == 100 else 1.0))
