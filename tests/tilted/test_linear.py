# SPDX-License-Identifier: Apache-2.0
"""The staged linear fit finds any location and scale, and spends exactly its epsilon."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from onedraw.errors import InvalidInput
from onedraw.tilted import linear
from onedraw.tilted import terms as terms_module
from onedraw.tilted.linear import (
    CUTS,
    EFFICIENCY,
    FAR,
    REACH,
    Shares,
    linear_fit,
    planned_cut,
    working_response,
)
from onedraw.tilted.terms import Terms
from onedraw.tilted.weights import Rows, ball_rows, cube_rows


def line(n, location, slope, noise, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 1))
    y = location + slope * x[:, 0] + noise * rng.standard_normal(n)
    return replace(cube_rows(x, bounds=np.array([[-1.0, 1.0]])), response=y), y, rng


@pytest.mark.parametrize(
    ("location", "slope", "noise"),
    [(200.0, 40.0, 10.0), (0.0, 1e-4, 1e-5), (-3e7, 1e4, 2e3), (5.0, 0.0, 1e-3)],
)
def test_any_location_and_scale_of_the_response_is_found(location, slope, noise):
    rows, y, rng = line(10_000, location, slope, noise, seed=0)
    fit = linear_fit(rows, "cube", Terms(epsilon=2.0, num_records=len(y)), rng)
    assert fit.theta == pytest.approx([slope, location], abs=0.2 * noise)
    assert fit.scale == pytest.approx(noise, rel=0.25)


@pytest.mark.statistical
def test_the_fit_does_not_fail_at_n_epsilon_300():
    """Of 60 runs none is off by more than 60 (the mean of the response alone would be off by 23)."""
    errors = []
    for seed in range(60):
        rows, _, rng = line(1000, 200.0, 40.0, 10.0, seed=1000 + seed)
        errors.append(
            np.abs(
                linear_fit(rows, "cube", Terms(epsilon=0.3, num_records=1000), rng).theta - [40.0, 200.0]
            ).max()
        )
    assert np.median(errors) < 4.0
    assert np.mean(np.array(errors) > 60.0) <= 0.05


def test_rows_without_bounds_and_outliers_do_not_upset_it():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((10_000, 2))
    y = 3.0 + x @ [1.0, -2.0] + rng.standard_normal(10_000)
    y[:100] = 1e300
    x[100:200] *= 1e5
    fit = linear_fit(
        replace(ball_rows(x, units=np.full(2, 1.5)), response=y), "ball", Terms(epsilon=3.0), rng
    )
    assert fit.theta / [1.5, 1.5, 1.0] == pytest.approx([1.0, -2.0, 3.0], abs=0.2)


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("records", [None, 300, 1_000_000])
def test_the_stages_spend_epsilon_and_delta_once(neighbours, records, monkeypatch):
    spent = {"epsilon": 0.0, "delta": 0.0}

    def watched(module, name):
        plain = getattr(module, name)

        def call(*args, **options):
            assert options["neighbours"] == neighbours
            assert options["rows_per_person"] == 2
            spent["epsilon"] += options["epsilon"]
            spent["delta"] += options.get("delta", 0.0)
            return plain(*args, **options)

        monkeypatch.setattr(module, name, call)

    watched(linear, "window_of_half")
    watched(linear, "spread_of_residuals")
    watched(terms_module, "calibrate")
    rows, _, rng = line(300, 0.0, 1.0, 1.0, seed=0)
    terms = Terms(epsilon=1.5, delta=1e-6, neighbours=neighbours, rows_per_person=2, num_records=records)
    linear_fit(rows, "cube", terms, rng)
    assert spent["epsilon"] == pytest.approx(1.5, rel=1e-12)
    assert spent["delta"] == pytest.approx(1e-6, rel=1e-12)


@pytest.mark.parametrize(
    "y", [np.zeros(0), np.array([4.0]), np.full(200, -7.0), np.repeat([1e300, -1e300], 50)]
)
def test_any_response_gives_a_finite_fit(y):
    rng = np.random.default_rng(0)
    rows = cube_rows(rng.uniform(-1, 1, (len(y), 2)), bounds=np.tile([-1.0, 1.0], (2, 1)))
    rows = replace(rows, response=y)
    fit = linear_fit(rows, "cube", Terms(epsilon=1.0, num_records=len(y)), rng)
    assert np.isfinite(fit.theta).all()
    assert fit.scale > 0.0


def test_the_working_response_is_cut_and_a_function_of_its_own_record():
    rows = cube_rows(np.array([[0.5], [0.5]]), bounds=np.array([[-1.0, 1.0]]))
    left = working_response(rows, np.array([1e300, 3.0]), np.array([2.0, 1.0]), cut=0.1)
    assert left == pytest.approx([FAR * 0.1, 1.0])


@pytest.mark.parametrize("information", [1.0, 300.0, 1e4, 1e9])
@pytest.mark.parametrize("dim", [1, 6, 100])
def test_most_of_epsilon_is_left_for_the_last_fit_however_many_records_there_are(information, dim):
    shares = Shares.planned(information, dim)
    assert shares.window + shares.first + shares.spread + shares.second == pytest.approx(1.0)
    assert shares.second >= 0.45
    assert information < 1e9 or shares.second > 0.95


def test_shares_leave_something_for_the_last_fit():
    with pytest.raises(InvalidInput, match="add up to 1"):
        Shares(window=0.5, first=0.4, spread=0.1)


def test_the_table_of_cuts_is_that_of_log_cosh_at_the_normal_law():
    for cut, efficiency, reach in zip(CUTS, EFFICIENCY, REACH, strict=True):
        square = stats.norm.expect(lambda r, cut=cut: (cut * np.tanh(r / cut)) ** 2)
        curvature = stats.norm.expect(lambda r, cut=cut: 1.0 - np.tanh(r / cut) ** 2)
        assert curvature**2 / square == pytest.approx(efficiency, abs=6e-4)
        assert cut / curvature == pytest.approx(reach, abs=6e-3)


def test_the_cut_grows_as_the_noise_falls():
    found = [planned_cut(noise) for noise in (10.0, 0.05, 0.01, 1e-3, 1e-9)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0.75, 3.0)


def test_without_an_intercept_the_fit_goes_through_zero():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (20_000, 1))
    y = 2.0 * x[:, 0] + 0.5 * rng.standard_normal(20_000)
    rows = cube_rows(x, bounds=np.array([[-1.0, 1.0]]), fit_intercept=False)
    rows = replace(rows, response=y)
    assert linear_fit(rows, "cube", Terms(epsilon=2.0), rng, intercept=False).theta == pytest.approx(
        [2.0], abs=0.05
    )


@pytest.mark.parametrize("size", [2, 8, 11, 31])
def test_the_working_response_of_a_record_does_not_depend_on_the_other_records(size):
    """Bit for bit: near 1e15 the last bit of a response is a tenth of a cut of 1."""
    rng = np.random.default_rng(0)
    design, y, centre = rng.uniform(-1, 1, (203, size)), rng.normal(size=203), 1e6 * rng.normal(size=size)
    found = working_response(Rows(features=design, weight=None, geometry="cube"), y, centre, 1e12)
    for first, last in [(0, 200), (0, 201), (1, 203), (2, 203), (7, 8)]:
        part = Rows(features=design[first:last].copy(), weight=None, geometry="cube")
        assert (working_response(part, y[first:last], centre, 1e12) == found[first:last]).all()
