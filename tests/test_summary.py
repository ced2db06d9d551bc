# SPDX-License-Identifier: Apache-2.0
"""What people see of inference: the table in every form, the forest plot, the same numbers everywhere."""

import dataclasses
import html
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import special, stats

import onedraw
from onedraw import InvalidInput, Release
from onedraw.mechanisms import TiltedFit
from onedraw.reports.forest_svg import forest_svg
from onedraw.uncertainty import Intervals
from onedraw.uncertainty.forest import Forest, Range

BOUNDS = {"age": (20.0, 80.0), "smoker": (0.0, 1.0)}


def records(n=4000, seed=0):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.uniform(20, 80, n), "smoker": rng.integers(0, 2, n).astype(float)})
    return table, -0.5 + 0.02 * (table["age"] - 50) + 0.7 * table["smoker"], rng


@pytest.fixture(scope="module")
def fitted():
    X, eta, rng = records()
    y = np.where(rng.random(len(X)) < special.expit(eta), "b", "a")
    return onedraw.LogisticRegression(
        epsilon=2.0,
        mechanism=TiltedFit(inference=True),
        feature_bounds=BOUNDS,
        classes=["a", "b"],
        random_state=0,
    ).fit(X, y)


@pytest.fixture(scope="module")
def found(fitted):
    return fitted.summary()


@pytest.fixture(scope="module")
def several_draws():
    """Poisson, linear and multinomial releases with intervals, by name."""
    X, eta, rng = records(2000)
    y = 1.5 + 0.5 * (eta + rng.normal(scale=0.8, size=len(X)))
    counts = rng.poisson(np.exp(eta))
    classes = rng.integers(0, 3, len(X))
    options = {"epsilon": 20.0, "draws": 8, "feature_bounds": BOUNDS, "random_state": 0}
    return {
        "linear": onedraw.LinearRegression(**options).fit(X, y),
        "poisson": onedraw.PoissonRegressor(**options).fit(X, counts),
        "multinomial": onedraw.LogisticRegression(**options, classes=[0, 1, 2]).fit(X, classes),
    }


def by_hand(**changes):
    values = {
        "names": ("age", "(intercept)"),
        "estimate": (0.5, -12.25),
        "standard_error": (0.1, 1.5),
        "low": (0.3, -15.0),
        "high": (0.7, -9.0),
        "level": 0.95,
        "notes": ("By hand.",),
        "p_value": (1e-9, 0.04),
        "guarantee": "Nothing is promised.",
        **changes,
    }
    return Intervals(**values)


# -- the same numbers, whoever holds the file


def test_file_estimator_and_release_give_the_same_summary(fitted, tmp_path):
    fitted.release_.to_json(tmp_path / "release.json")
    published = Release.from_json(tmp_path / "release.json")
    expected = fitted.summary(0.8, exponentiate=True)
    assert published.summary(0.8, exponentiate=True) == expected
    assert expected.level == 0.8


@pytest.mark.parametrize("kind", ["linear", "poisson", "multinomial"])
def test_the_command_prints_the_lines_of_summary(several_draws, kind, tmp_path, monkeypatch):
    from click.testing import CliRunner

    from onedraw.cli.app import main

    monkeypatch.chdir(tmp_path)
    model = several_draws[kind]
    model.release_.to_json("release.json")
    title, *table = [line for line in str(model.summary()).splitlines() if not line.startswith("Guarantee")]
    printed = CliRunner().invoke(main, ["show", "release.json"]).output
    assert "\n".join(table) in printed
    assert title in printed
    if kind == "linear":  # one number for the residual scale, the one that explains the draws
        assert sum(line.startswith("(scale)") for line in printed.splitlines()) == 1


# -- numbers


def test_z_is_the_normal_deviate_of_p_with_the_sign_of_the_effect():
    found = by_hand(estimate=(0.5, -12.25), p_value=(0.05, 0.01))
    assert found.z == pytest.approx((1.959964, -2.575829), abs=1e-6)
    assert by_hand(p_value=(0.0, None)).z[0] == pytest.approx(37.0, abs=0.5)
    assert by_hand(p_value=(0.0, None)).z[1] is None
    assert by_hand(p_value=None).z is None
    ratios = by_hand(p_value=(0.05, 0.01)).exponentiated("odds ratio")
    assert ratios.z == pytest.approx((1.959964, -2.575829), abs=1e-6)


def test_p_values_of_draws_are_below_five_percent_exactly_where_the_interval_excludes_zero(several_draws):
    for model in several_draws.values():
        found = model.summary()
        excludes = [low > 0.0 or high < 0.0 for low, high in found.array()]
        tested = [(p < 0.05, out) for p, out in zip(found.p_value, excludes, strict=True) if p is not None]
        assert all(small == out for small, out in tested)
        k = model.release_.guarantee.draws
        half = (found.high[0] - found.low[0]) / 2.0
        centre = (found.high[0] + found.low[0]) / 2.0
        t = centre / (half / stats.t.ppf(0.975, k - 1))
        assert found.p_value[0] == pytest.approx(2.0 * stats.t.sf(abs(t), k - 1), rel=1e-9, abs=1e-300)
    assert several_draws["linear"].summary().p_value[-1] is None  # a scale is never zero


def test_odds_ratios_are_the_exponentials(fitted, found):
    plain, ratios = found, fitted.summary(exponentiate=True)
    assert ratios.estimate == pytest.approx(np.exp(plain.estimate))
    np.testing.assert_allclose(ratios.array(), np.exp(plain.array()))
    assert ratios.standard_error == plain.standard_error
    assert ratios.p_value == plain.p_value
    assert ratios.z == plain.z
    header = str(ratios).splitlines()[1]
    assert header.split()[:6] == ["odds", "ratio", "std.", "error", "of", "log"]


def test_rate_ratios_where_counts_were_fitted(several_draws):
    assert several_draws["poisson"].summary(exponentiate=True).quantity == "rate ratio"


def test_odds_ratios_of_three_classes_say_what_they_are_against(several_draws):
    found = several_draws["multinomial"].summary(exponentiate=True)
    assert found.quantity == "odds ratio"
    assert "against the geometric mean of all classes" in found.notes[-1]


def test_exponentials_without_a_meaning_are_refused(several_draws):
    with pytest.raises(InvalidInput, match="coefficients of a linear model are no logarithms"):
        several_draws["linear"].summary(exponentiate=True)


# -- forms


def test_numbers_stand_under_one_another_by_their_points():
    lines = str(by_hand()).splitlines()
    places = [[m.start() for m in re.finditer(r"\d\.\d", line)] for line in lines[1:3]]
    assert places[0] == places[1]
    assert lines[3:] == ["By hand.", "Guarantee: Nothing is promised."]


def test_names_of_a_hostile_release_stay_names():
    name = '<script>alert("x")</script>\x1b[2J\nx_1 & 50% \\input{y} $z$'
    found = by_hand(names=(name, "ok"), title=name)
    assert "\x1b" not in str(found)
    assert len(str(found).splitlines()) == len(str(by_hand(title="t")).splitlines())
    for text in (found.to_html(), forest_svg(found.forest())):
        assert "<script" not in text
        assert html.escape('<script>alert("x")') in text
        assert "\x1b" not in text
    latex = found.to_latex()
    assert r"\textbackslash{}input\{y\}" in latex
    assert r"x\_1 \& 50\%" in latex
    assert "$z$" not in latex


class Cells(HTMLParser):
    """The texts of the cells of a table, row by row; fails on tags that do not close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


def test_html_holds_the_same_cells_and_is_well_formed():
    found = by_hand(p_value=(1e-9, None))
    header, rows = found.rows()
    cells = [[c.strip("\u2007").replace("\u2212", "-") for c in row] for row in Cells(found.to_html()).rows]
    assert cells == [list(header), *map(list, rows)]
    assert found._repr_html_() == found.to_html()


def test_latex_has_a_row_for_each_parameter():
    lines = by_hand().to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrr}"
    assert sum(line.startswith(("age", "(intercept)")) for line in lines) == 2
    assert "$-$12.25" in by_hand().to_latex()


def test_the_frame_has_numbers_in_every_column():
    pytest.importorskip("pandas")
    frame = by_hand(p_value=(0.03, None)).to_frame()
    assert list(frame.columns) == ["estimate", "standard error", "z", "p", "low", "high"]
    assert frame.loc["age", "p"] == 0.03
    assert np.isnan(frame.loc["(intercept)", "p"])
    assert all(kind == np.float64 for kind in frame.dtypes)


def test_releases_guarantees_and_plans_show_themselves_in_notebooks(fitted):
    for shown in (fitted.release_, fitted.guarantee_, fitted.plan_):
        text = shown._repr_html_()
        Cells(text)
        assert html.escape(str(fitted.guarantee_)) in text
    hostile = dataclasses.replace(fitted.release_, assumptions=("<img src=x>",))
    assert "<img" not in hostile._repr_html_()
    assert "&lt;img src=x&gt;" in hostile._repr_html_()


# -- the forest plot as data


def test_the_forest_leaves_intercepts_out_and_keeps_the_order():
    forest = by_hand().forest()
    assert forest.names == ("age",)
    assert forest.private == (Range(estimate=0.5, low=0.3, high=0.7),)
    assert by_hand().forest(names=["(intercept)", "age"]).names == ("(intercept)", "age")
    with pytest.raises(InvalidInput, match=r"names among \['age', '\(intercept\)'\], got \['Age'\]"):
        by_hand().forest(names=["Age"])


def test_effects_are_drawn_over_declared_ranges_or_chosen_steps(found):
    over = found.forest()
    assert over.names == ("age, 20 to 80", "smoker, 0 to 1")
    assert over.private[0].estimate == pytest.approx(60.0 * found.estimate[0])
    assert "over the declared range" in over.label
    tens = found.forest(per={"age": 10})
    assert tens.names == ("age, +10", "smoker")
    assert tens.private[0].high == pytest.approx(10.0 * found.high[0])
    ratios = found.exponentiated("odds ratio").forest(per={"age": 10})
    assert ratios.private[0].low == pytest.approx(np.exp(10.0 * found.low[0]))
    with pytest.raises(InvalidInput, match="a change other than 0"):
        found.forest(per={"age": 0.0})


def test_references_are_numbers_triples_or_another_table():
    beside = by_hand().forest(reference={"age": (0.4, 0.2, 0.6)}, per={"age": 2.0}).reference
    assert beside == (Range(estimate=0.8, low=0.4, high=1.2),)
    assert by_hand().forest(reference={"age": 0.4}).reference == (Range(estimate=0.4),)
    assert by_hand().forest(reference=by_hand()).reference == by_hand().forest().private
    assert by_hand().forest(reference={}).reference == (None,)
    with pytest.raises(InvalidInput, match=r"a number or \(estimate, low, high\), got str"):
        by_hand().forest(reference={"age": "much"})


@pytest.mark.parametrize("ends", [(-3.0, 5.0), (0.01, 0.02), (1e-7, 3e-7), (-4e6, 9e6), (100.0, 101.0)])
@pytest.mark.parametrize("ratio", [False, True])
def test_every_axis_has_two_to_eight_round_ticks_within_its_ends(ends, ratio):
    low, high = (abs(e) or 1.0 for e in ends) if ratio else ends
    low, high = min(low, high), max(low, high)
    forest = Forest(
        names=("x",),
        private=(Range(estimate=(low * high) ** 0.5 if ratio else (low + high) / 2, low=low, high=high),),
        no_effect=1.0 if ratio else 0.0,
    )
    first, last = forest.limits()
    assert 2 <= len(forest.ticks()) <= 8
    assert all(first <= tick <= last for tick in forest.ticks())
    assert 0.0 < forest.place(low) < forest.place(high) < 1.0
    assert 0.0 < forest.place(forest.no_effect) < 1.0


def test_an_interval_without_an_end_is_drawn_to_the_edge():
    forest = Forest(names=("x",), private=(Range(estimate=1.0, low=0.5, high=np.inf),))
    assert forest.place(np.inf) == 1.0
    assert "nan" not in forest_svg(forest)


def test_the_plot_draws_the_data_of_the_forest(found):
    pytest.importorskip("matplotlib")
    ratios = found.exponentiated("odds ratio")
    axes = ratios.plot(reference={"age": np.exp([0.02, 0.01, 0.03]), "smoker": 2.0})
    forest = ratios.forest()
    private = next(line for line in axes.lines if line.get_label() == "private")
    assert tuple(private.get_xdata()) == pytest.approx([r.estimate for r in forest.private])
    bars = [s for c in axes.collections for s in c.get_segments()]
    ends = sorted(tuple(bar[:, 0]) for bar in bars)
    expected = [(r.low, r.high) for r in forest.private] + [tuple(np.exp([0.6, 1.8]))]
    np.testing.assert_allclose(ends, sorted(expected))
    assert axes.get_xscale() == "log"
    assert [t.get_text() for t in axes.get_yticklabels()] == list(forest.names)
    assert found.plot(ax=axes) is axes
    assert axes.get_xscale() == "linear"


def test_an_estimator_draws_its_summary(several_draws):
    pytest.importorskip("matplotlib")
    model = several_draws["poisson"]
    drawn = next(
        line
        for line in model.plot(0.5, exponentiate=True, per={"age": 5}).lines
        if len(line.get_xdata()) == 2 and line.get_marker() == "o"
    )
    expected = model.summary(0.5, exponentiate=True).forest(per={"age": 5})
    assert tuple(drawn.get_xdata()) == pytest.approx([r.estimate for r in expected.private])
