# SPDX-License-Identifier: Apache-2.0
"""Models with stages on tables that are read piece by piece: the same releases, in few passes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from onedraw.estimators import LinearRegression, NegativeBinomialRegressor, PoissonRegressor
from onedraw.mechanisms import AdaSSP, LinearSSP, TiltedFit
from onedraw.records import Records
from onedraw.tables import arrow, base
from onedraw.tables.foresight import _Otherwise
from onedraw.tables.stream import Stream
from onedraw.tilted import windows
from onedraw.tilted.windows import EdgeCounts, Filled, filled_windows, half_of, points_of, window_of_half

pa = pytest.importorskip("pyarrow")
BOUNDS = {"dose": (-1.0, 1.0), "age": (-1.0, 1.0)}
PLAIN, ROBUST = TiltedFit(inference=True), TiltedFit(inference="robust")
ALIGNED = TiltedFit(inference=True, align=True)


def columns(kind, n=6000):
    rng = np.random.default_rng(5)
    x = rng.uniform(-1.0, 1.0, (n, 2))
    mean = 0.4 + x @ [0.5, -0.3]
    y = 200.0 + 40.0 * mean + 10.0 * rng.standard_normal(n) if kind is LinearRegression else None
    return {"dose": x[:, 0], "age": x[:, 1], "y": rng.poisson(np.exp(mean)) if y is None else y}


@pytest.fixture
def scans(monkeypatch):
    """How often the streams were read."""
    counted, plain = [], Stream._blocks
    monkeypatch.setattr(Stream, "_blocks", lambda self: counted.append(1) or plain(self))
    return counted


@pytest.fixture
def anew(monkeypatch):
    """Choices that the look did not foresee: each begins a stage anew."""
    counted, plain = [], _Otherwise.__init__
    monkeypatch.setattr(_Otherwise, "__init__", lambda self, *given: counted.append(1) or plain(self, *given))
    return counted


CASES = [
    # Check; three of the first fit, whose first also counts sizes of features and responses, and whose last
    # also takes residuals and begins the second; two more of that, the last with what intervals need.
    (LinearRegression, {"mechanism": PLAIN, "feature_bounds": BOUNDS}, 1 + 3 + 2),
    (LinearRegression, {"mechanism": ROBUST, "feature_bounds": BOUNDS}, 1 + 3 + 2),
    (LinearRegression, {"mechanism": TiltedFit(inference=False)}, 1 + 3 + 2),
    # One more for each round of an alignment; of the first, where units are found in it.
    (LinearRegression, {"mechanism": ALIGNED, "feature_bounds": BOUNDS}, 1 + 2 + 3 + 2),
    (PoissonRegressor, {"mechanism": ALIGNED}, 1 + 2 + 3),
    # Check; three of the fit, whose first also counts what units and cap need.
    (PoissonRegressor, {"mechanism": PLAIN, "feature_bounds": BOUNDS}, 1 + 3),
    (PoissonRegressor, {"mechanism": PLAIN}, 1 + 3),
    (NegativeBinomialRegressor, {"mechanism": PLAIN, "feature_bounds": BOUNDS, "dispersion": 2.0}, 1 + 3),
]


@pytest.mark.parametrize(("kind", "options", "passes"), CASES)
def test_a_seed_gives_the_release_of_memory_in_few_passes(kind, options, passes, small_look, scans, anew):
    table = columns(kind)
    made = {"epsilon": 2.0, "random_state": 3, **options}
    found = kind(**made).fit(pa.table(table), target="y").release_
    assert len(scans) == passes + len(anew)
    assert len(anew) <= 1  # of three choices, each from a third of 6,000 records
    frame = pd.DataFrame(table)
    expected = kind(**made).fit(frame[["dose", "age"]], frame["y"]).release_
    np.testing.assert_allclose(found.draws, expected.draws, rtol=1e-9, atol=1e-9)
    assert found.statistics.keys() == expected.statistics.keys()
    for name, statistic in found.statistics.items():
        np.testing.assert_allclose(statistic.array(), expected.statistics[name].array(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mechanism", [AdaSSP, LinearSSP])
def test_exact_moments_are_the_same_to_the_bit_in_two_passes(mechanism, small_look, scans, monkeypatch):
    """One that checks, one that adds up whole numbers: no order of summation changes them."""
    monkeypatch.setattr(arrow, "PIECE", 1000)
    table = columns(LinearRegression)
    delta = 1e-6 if mechanism is AdaSSP else 0.0
    made = {"epsilon": 2.0, "delta": delta, "random_state": 3, "target_bounds": (100.0, 300.0)}
    made |= {"mechanism": mechanism(feature_norm=2.0, response_bound=100.0), "feature_bounds": BOUNDS}
    found = LinearRegression(**made).fit(pa.table(table), target="y").release_
    assert len(scans) == 2
    frame = pd.DataFrame(table)
    assert found.draws == LinearRegression(**made).fit(frame[["dose", "age"]], frame["y"]).release_.draws


# -- what a window needs of values that lie anywhere


def records(values):
    return Records(features=np.empty((len(values), 0)), response=np.asarray(values, dtype=float))


VALUES = {
    "normal": lambda rng: 7.0 + 3.0 * rng.standard_normal(4000),
    "tied": lambda rng: rng.poisson(0.7, 4000).astype(float),
    "equal": lambda rng: np.full(4000, -2.5),
    "far": lambda rng: np.concatenate([rng.standard_cauchy(3998), [1e300, -1e300]]),
}


@pytest.mark.parametrize("name", VALUES)
def test_windows_of_a_look_are_counted_over_all_records(name, monkeypatch):
    """Listed are all that hold more than a few values, with the counts of a search in the sorted values."""
    values = VALUES[name](np.random.default_rng(0))
    monkeypatch.setattr(base, "LOOK", 1000)
    table = records(values)
    found = half_of(table, points_of(table.look(np.random.default_rng(1)).response))
    assert isinstance(found, Filled)
    wanted = filled_windows(np.sort(values))
    for place in range(len(windows.SCALES)):
        known = {m: (b, a) for m, b, a in zip(*found.of_scale(place), strict=True)}
        for middle, b, a in zip(*wanted.of_scale(place), strict=True):
            assert known.get(middle, (b, a)) == (b, a)
            assert middle in known or len(values) - b - a <= windows.FEW * len(values)


class MisleadingLook(Records):
    """Records whose look shows none of the values that most of them have."""

    def look(self, rng):
        return self.take(np.flatnonzero(self.response > 1e6)[:50])


def test_a_look_that_misleads_costs_passes_and_nothing_else(monkeypatch):
    values = np.append(np.random.default_rng(0).normal(50.0, 2.0, 3000), np.linspace(2e6, 3e6, 60))
    plain = records(values)
    table = MisleadingLook(features=plain.features, response=plain.response)
    found = half_of(table, points_of(table.look(np.random.default_rng(1)).response))
    wanted = filled_windows(np.sort(values))
    for place in range(len(windows.SCALES)):
        listed = set(found.of_scale(place)[0])
        for middle, below, above in zip(*wanted.of_scale(place), strict=True):
            assert middle in listed or len(values) - below - above <= windows.FEW * len(values)
    chosen = window_of_half(found, epsilon=1.0, rng=np.random.default_rng(2))
    assert chosen.location == pytest.approx(50.0, abs=2.0)


def test_counts_below_edges_add_up_over_blocks():
    values = np.random.default_rng(0).normal(size=500)
    kernel, block = EdgeCounts(np.array([-0.5, 0.0, 1.0])), records(values)
    whole = block.sum(kernel)[0]
    parts = kernel(block.take(slice(0, 77)))[0] + kernel(block.take(slice(77, 500)))[0]
    np.testing.assert_array_equal(parts, whole)
    np.testing.assert_array_equal(whole, [(values < edge).sum() for edge in kernel.edges])
    assert replace(kernel, points=kernel.points).points is kernel.points  # nothing but the points is sent


def test_points_in_a_gap_lie_between_its_ends_down_to_neighbouring_floats():
    points = np.array([-1.0, np.nextafter(-1.0, 0.0), 0.0, 5e-324, 1e300])
    for gap in range(len(points) + 1):
        ends = np.concatenate([[-np.inf], points, [np.inf]])[gap : gap + 2]
        found = windows._between(points, gap)
        assert (found >= ends[0]).all()
        assert (found <= ends[1]).all()
        if gap not in (1, 3):
            assert ((found > ends[0]) & (found < ends[1])).sum() >= 62
