# SPDX-License-Identifier: Apache-2.0
"""The solver: its minimiser against SciPy, and its certificate against exact arithmetic."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import optimize, special

from onedraw.errors import SamplingError
from onedraw.tables import base
from onedraw.tilted import solver
from onedraw.tilted.calibration import calibrate
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.losses import LogCosh, Logistic
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.sums import LONG, UNIT, Curvature, Slope, Sums, squared
from onedraw.tilted.weights import Rows, ball_rows


def over(loss, design, response, weight=None):
    rows = Rows(features=design, response=response, weight=weight, geometry="cube")
    return Sums(loss=loss, table=rows)


def problem(loss, n=300, p=4, seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    z = rng.uniform(-1, 1, (n, p))
    z[:, -1] = 1.0
    y = {
        Logistic: rng.integers(2, size=n),
        LogCosh: rng.standard_t(2, size=n) * 3.0,
        CountCosh: rng.poisson(1.5, size=n),
        Softmax: rng.integers(3, size=n),
    }[type(loss)].astype(float)
    weight = rng.uniform(0.2, 1.0, n) if weighted else None
    return over(loss, z, y, weight), rng.normal(size=(loss.num_predictors, p)) * 5.0


LOSSES = [
    Logistic(),
    LogCosh(cut=1.5),
    CountCosh(cap=3, cut=1.0),
    CountCosh(cap=3, cut=1.0, dispersion=1.0),
    Softmax(classes=3),
]


def solved(sums, tilt, ridge=2.0, residual=1e-8):
    return solver.minimise(sums, ridge=ridge, tilt=tilt, residual=residual, rng=np.random.default_rng(0))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_the_minimiser_is_that_of_a_root_finder(loss, weighted):
    sums, tilt = problem(loss, weighted=weighted)

    def gradient(theta):
        theta = theta.reshape(sums.shape)
        eta = sums.table.design @ theta.T
        slope = loss.slope(sums.table.response, eta if loss.num_predictors > 1 else eta[:, 0])
        slope = slope.reshape(-1, loss.num_predictors) * (
            1.0 if sums.table.weight is None else sums.table.weight[:, None]
        )
        return (slope.T @ sums.table.design + 2.0 * theta + tilt).ravel()

    found = optimize.root(gradient, np.zeros(tilt.size), tol=1e-12)
    assert solved(sums, tilt).ravel() == pytest.approx(found.x, abs=1e-7)


def test_the_logistic_minimiser_is_that_of_a_general_optimiser():
    sums, tilt = problem(Logistic(), weighted=False)

    def value(theta):
        margin = (2 * sums.table.response - 1) * (sums.table.design @ theta)
        return -special.log_expit(margin).sum() + theta @ theta + tilt[0] @ theta

    found = optimize.minimize(value, np.zeros(4), method="BFGS", options={"gtol": 1e-7})
    assert solved(sums, tilt)[0] == pytest.approx(found.x, abs=1e-5)


def exact_gradient(sums, theta, ridge, tilt):
    """The gradient of a logistic objective with 40 digits."""
    with mpmath.workdps(40):
        t = [mpmath.mpf(v) for v in theta[0].tolist()]
        total = [ridge * a + mpmath.mpf(b) for a, b in zip(t, tilt[0].tolist(), strict=True)]
        weight = [1.0] * sums.num_records if sums.table.weight is None else sums.table.weight.tolist()
        for z, y, w in zip(sums.table.design.tolist(), sums.table.response.tolist(), weight, strict=True):
            eta = mpmath.fsum(mpmath.mpf(a) * b for a, b in zip(z, t, strict=True))
            slope = (1 / (1 + mpmath.exp(-eta)) - y) * mpmath.mpf(w)
            total = [s + slope * mpmath.mpf(v) for s, v in zip(total, z, strict=True)]
        return float(mpmath.sqrt(mpmath.fsum(v * v for v in total)))


@pytest.mark.parametrize("seed", range(3))
def test_the_residual_is_certified(seed):
    sums, tilt = problem(Logistic(), n=400, seed=seed)
    for residual in (1e-4, 1e-9):
        theta = solved(sums, tilt, residual=residual)
        assert exact_gradient(sums, theta, 2.0, tilt) <= residual


@pytest.mark.parametrize("seed", range(3))
def test_a_point_is_certified_by_the_gradient_it_has_and_by_no_other(seed):
    """Points around the minimiser whose exact gradient is 0.9 and 1.1 times the residual."""
    sums, tilt = problem(Logistic(), n=400, seed=seed)
    best, residual = solved(sums, tilt, residual=1e-10), 1e-4
    objective = solver._Objective(sums=sums, ridge=2.0, tilt=tilt, residual=residual)
    way = np.random.default_rng(seed).normal(size=best.shape)
    per_length = exact_gradient(sums, best + 1e-6 * way, 2.0, tilt) / 1e-6
    for share, certified in ((0.9, True), (1.1, False)):
        point = best + share * residual / per_length * way
        size = float(np.linalg.norm(objective.slope(point)))
        assert size == pytest.approx(share * residual, rel=1e-2)
        assert objective.certified(point, size, precise=objective.precise) is certified


def test_the_rounding_bound_covers_the_error_of_the_gradient_and_is_of_use():
    sums, _ = problem(Logistic(), n=500)
    zero = np.zeros((1, 4))
    for scale in (0.1, 10.0, 1e4):
        theta = scale * np.random.default_rng(3).normal(size=(1, 4))
        computed = sums.gradient(theta)
        error = exact_gradient(sums, theta, 0.0, -computed)
        bound = sums.rounding(float(np.linalg.norm(theta)))
        assert error <= bound <= 1e-6
    assert sums.rounding(0.0) >= exact_gradient(sums, zero, 0.0, -sums.gradient(zero))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_large_table_goes_through_subsamples_and_ends_at_the_same_point(loss, monkeypatch):
    sums, tilt = problem(loss, n=20_000, p=3)
    through = solved(sums, tilt, residual=1e-6)
    monkeypatch.setattr(solver, "SMALLEST_SAMPLE", 10**9)
    assert through == pytest.approx(solved(sums, tilt, residual=1e-6), abs=1e-6)


def counted(monkeypatch, num_records):
    """The kernels of all passes over tables of that many records, as they are made."""
    passes, plain = [], Rows.sum

    def noted(self, kernel):
        if len(self) == num_records:
            passes.append(type(kernel).__name__)
        return plain(self, kernel)

    monkeypatch.setattr(Rows, "sum", noted)
    return passes


def test_few_passes_over_all_records_are_needed(monkeypatch):
    sums, tilt = problem(Logistic(), n=40_000, p=6, weighted=False)
    passes = counted(monkeypatch, 40_000)
    solved(sums, tilt, residual=1e-6)
    assert set(passes) == {"Slope"}
    assert len(passes) <= 8


def test_of_many_columns_the_curvature_of_all_records_is_taken_once(monkeypatch):
    """A sample of 5,000 is enough to come near, and not for the curvature of 60 parameters."""
    sums, tilt = problem(Logistic(), n=40_000, p=60, weighted=False)
    passes = counted(monkeypatch, 40_000)
    solved(sums, tilt, residual=1e-6)
    assert passes.count("Curvature") == 1
    assert passes.count("Slope") == len(passes) - 1 <= 8


class Elsewhere:
    """Rows that are read anew in each pass, of which a look is in memory."""

    in_memory = False

    def __init__(self, rows):
        self.rows, self.shape = rows, rows.shape

    def sum(self, kernel):
        return self.rows.sum(kernel)

    def look(self, rng):
        return self.rows.look(rng)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_with_more_records_than_a_look_three_passes_do(loss, monkeypatch):
    """A look of a third of the records; the curvature is that of the moved point."""
    sums, tilt = problem(loss, n=60_000, p=3)
    direct = solved(sums, tilt, residual=1e-6)
    monkeypatch.setattr(base, "LOOK", 20_000)
    moved = np.full(tilt.shape, 1e-3)
    passes, elsewhere = counted(monkeypatch, 60_000), replace(sums, table=Elsewhere(sums.table))
    options = {"ridge": 2.0, "tilt": tilt, "residual": 1e-6, "moved": moved}
    found = solver.solve(elsewhere, **options, rng=np.random.default_rng(0), also=(Curvature,))
    assert passes == ["Together"] * 3
    assert found.theta - moved == pytest.approx(direct, abs=1e-9)
    assert squared(found.taken[0][0]) == pytest.approx(
        sums.gradient_and_curvature(direct + moved)[1], rel=1e-7
    )


def test_a_look_that_misleads_costs_passes_and_nothing_else(monkeypatch):
    """All records of one class but a few, of which the look may see none."""
    rng = np.random.default_rng(1)
    z = np.column_stack([rng.uniform(-1, 1, 20_000), np.ones(20_000)])
    y = np.zeros(20_000)
    y[:3] = 1.0
    sums, tilt = over(Logistic(), z, y), np.array([[3.0, -1.0]])
    direct = solved(sums, tilt, ridge=0.01, residual=1e-6)
    monkeypatch.setattr(base, "LOOK", 2000)
    elsewhere = replace(sums, table=Elsewhere(sums.table))
    assert solved(elsewhere, tilt, ridge=0.01, residual=1e-6) == pytest.approx(direct, abs=1e-3)


def hard_cases():
    n, rng = 2000, np.random.default_rng(4)
    z = np.column_stack([rng.uniform(-1, 1, n), np.ones(n)])
    far = np.where(np.arange(n) < 900, 256.0, -256.0)
    return {
        "separable": (Logistic(), z, (z[:, 0] > 0).astype(float)),
        "all of one class": (Logistic(), z, np.ones(n)),
        "all rows zero": (Logistic(), np.zeros((n, 2)), np.ones(n)),
        "one direction": (Logistic(), z[:, [1, 1]], rng.integers(2, size=n).astype(float)),
        "tiny feature": (Logistic(), z * np.array([1e-9, 1.0]), (z[:, 0] > 0).astype(float)),
        "all responses far": (LogCosh(cut=1.0), z, np.full(n, 256.0)),
        "two far groups": (LogCosh(cut=1.0), z, far),
        "far groups by feature": (LogCosh(cut=1.0), z, 256.0 * np.sign(z[:, 0])),
        "constant response": (LogCosh(cut=1e-6), z, np.zeros(n)),
        "all counts at the cap": (CountCosh(cap=5, cut=1.2), z, np.full(n, 1e6)),
        "all counts zero": (CountCosh(cap=5, cut=1.2), z, np.zeros(n)),
        "one class of three": (Softmax(classes=3), z, np.zeros(n)),
        "no records": (Logistic(), z[:0], np.zeros(0)),
        "one record": (LogCosh(cut=2.0), z[:1], np.array([1.0])),
    }


@pytest.mark.parametrize("ridge", [0.3, 40.0, 1e6])
@pytest.mark.parametrize("case", hard_cases())
def test_the_solver_converges_whatever_the_data(case, ridge):
    loss, z, y = hard_cases()[case]
    sums = over(loss, z, y)
    tilt = np.full((loss.num_predictors, 2), 3.0) * loss.score_bound
    theta = solved(sums, tilt, ridge=ridge, residual=1e-6 * loss.score_bound)
    slope = sums.gradient(theta) + ridge * theta + tilt
    assert np.linalg.norm(slope) <= 1e-6 * loss.score_bound


def test_without_records_the_minimiser_is_the_tilt_over_the_ridge():
    sums = over(Logistic(), np.zeros((0, 2)), np.zeros(0))
    assert solved(sums, np.array([[3.0, -1.0]]), ridge=2.0)[0] == pytest.approx([-1.5, 0.5])


@pytest.mark.parametrize("n", [0, 300, 40_000])
def test_without_features_the_intercept_is_that_of_the_share(n):
    y = (np.arange(n) < 0.3 * n).astype(float)
    rows = Rows(features=np.zeros((n, 0)), weight=None, geometry="cube", intercept=True, response=y)
    found = solved(Sums(loss=Logistic(), table=rows), np.zeros((1, 1)), ridge=1e-6, residual=1e-5)
    assert special.expit(found[0, 0]) == pytest.approx(0.3 if n else 0.5, abs=1e-6)


def test_a_residual_below_rounding_is_refused():
    sums, tilt = problem(Logistic())
    with pytest.raises(SamplingError, match="residual"):
        solved(sums, tilt, residual=1e-30)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_curvature_is_the_derivative_of_the_gradient(loss):
    sums, tilt = problem(loss)
    theta = tilt / 10.0
    _, curvature = sums.gradient_and_curvature(theta)
    for j, step in enumerate(np.eye(tilt.size)):
        change = sums.gradient(theta + 1e-5 * step.reshape(tilt.shape)) - sums.gradient(
            theta - 1e-5 * step.reshape(tilt.shape)
        )
        assert change.ravel() / 2e-5 == pytest.approx(curvature[j], abs=1e-5)
    quick = sums.gradient_and_curvature(theta, quick=True)[1]
    assert quick == pytest.approx(curvature, rel=1e-4, abs=1e-3)


def test_sums_do_not_depend_on_blocks_or_chunks(monkeypatch):
    sums, tilt = problem(Logistic(), n=1001)
    whole = sums.gradient(tilt)
    monkeypatch.setattr("onedraw.tilted.sums.BLOCK_CELLS", 1)
    assert sums.gradient(tilt) == pytest.approx(whole, rel=1e-13)
    assert math.isclose(sums.subsamples([100], np.random.default_rng(0))[0].factor, 10.01)


@pytest.mark.parametrize("loss", [Logistic(), LogCosh(cut=1.5)])
def test_rounding_leaves_room_for_wide_tables_and_long_parameters(loss):
    """30 long at 400 entries and 100,000 records; else a fit would be charged for and refused."""
    fit = calibrate(loss, epsilon=1.0, dim=400, geometry="ball")
    one = over(loss, np.zeros((1, 400)), np.zeros(1))
    assert 100_000 * one.rounding(30.0 * loss.score_bound) <= 0.9 * fit.residual


def test_the_rounding_bound_covers_rows_of_many_entries():
    """Against sums in extended precision; entries of very different sizes."""
    rng = np.random.default_rng(0)
    z, y = rng.uniform(-1, 1, (200, 150)), rng.integers(2, size=200).astype(float)
    sums = over(Logistic(), z, y)
    theta = rng.normal(size=(1, 150)) * 10.0 ** rng.uniform(-3, 1, 150)
    with mpmath.workdps(40):
        eta = [mpmath.fdot(row.tolist(), theta[0].tolist()) for row in z]
        slope = [1 / (1 + mpmath.exp(-e)) - t for e, t in zip(eta, y.tolist(), strict=True)]
        exact = np.array([float(mpmath.fdot(slope, column.tolist())) for column in z.T])
    error = np.linalg.norm(sums.gradient(theta)[0] - exact)
    assert error <= sums.rounding(float(np.linalg.norm(theta)))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_features_in_units_of_their_own_give_the_sums_of_the_rows_themselves(loss):
    """The gradient to its bound, against sums in extended precision; and the curvature, also quickly."""
    rng = np.random.default_rng(0)
    units = np.array([1e-3, 1.7, 3e6])
    x, n, q = rng.uniform(-1, 1, (900, 3)) * units, 900, loss.num_predictors
    y = rng.integers(2, size=n).astype(float)
    rows = replace(ball_rows(x, units=units), response=y, weight=rng.uniform(0.2, 1.0, n))
    plain = over(loss, rows.design, y, rows.weight)
    found, theta = Sums(loss=loss, table=rows), rng.normal(size=(q, 4))
    (exact,) = rows.sum(Slope(loss, theta, precise=loss.extends))
    assert found.shape == plain.shape == (q, 4)
    bound = found.rounding(float(np.linalg.norm(theta)))
    assert np.linalg.norm(np.asarray(exact - found.gradient(theta), dtype=float)) <= bound
    assert np.linalg.norm(plain.gradient(theta) - found.gradient(theta)) <= 2.0 * bound
    (quick,) = rows.sum(Slope(loss, theta, quick=True))
    assert quick == pytest.approx(found.gradient(theta), abs=1e-9)
    for fast, precision in ((False, 1e-12), (True, 1e-5)):
        slope, curvature = found.gradient_and_curvature(theta, quick=fast)
        assert slope == pytest.approx(found.gradient(theta), abs=1e-9)
        expected = plain.gradient_and_curvature(theta)[1]
        assert np.abs(curvature - expected).max() <= precision * np.abs(expected).max()


@pytest.mark.skipif(LONG >= UNIT, reason="long doubles are doubles on this platform")
@pytest.mark.parametrize("loss", [Logistic(), LogCosh(cut=1.5)], ids=str)
def test_long_doubles_keep_their_own_rounding_bound(loss):
    """Against 40 digits; the bound is a thousandth of that of doubles, and an error of doubles breaks it."""
    rng = np.random.default_rng(0)
    z, y = rng.uniform(-1, 1, (300, 12)), rng.integers(2, size=300).astype(float)
    sums, theta = over(loss, z, y), rng.normal(size=(1, 12))
    with mpmath.workdps(40):
        eta = [mpmath.fdot(row.tolist(), theta[0].tolist()) for row in z]
        if isinstance(loss, Logistic):
            slope = [1 / (1 + mpmath.exp(-e)) - t for e, t in zip(eta, y.tolist(), strict=True)]
        else:
            slope = [loss.cut * mpmath.tanh((e - t) / loss.cut) for e, t in zip(eta, y.tolist(), strict=True)]
        exact = [mpmath.fdot(slope, column.tolist()) for column in z.T]
        (found,) = sums.table.sum(Slope(loss, theta, precise=True))
        error = mpmath.norm([mpmath.mpf(f"{f:.25g}") - e for f, e in zip(found[0], exact, strict=True)])
        plain = mpmath.norm(
            [mpmath.mpf(float(f)) - e for f, e in zip(sums.gradient(theta)[0], exact, strict=True)]
        )
    bound = sums.rounding(float(np.linalg.norm(theta)), precise=True)
    assert error <= bound < 1e-3 * sums.rounding(float(np.linalg.norm(theta)))
    assert plain > bound / 30


def test_ten_columns_of_a_hundred_million_records_can_be_certified():
    """The residual does not grow with the number of records, so the rounding bound must leave it room."""
    if LONG >= UNIT:
        pytest.skip("long doubles are doubles on this platform")
    fit = calibrate(Logistic(), epsilon=1.0, dim=11, geometry="cube")
    one = over(Logistic(), np.zeros((1, 11)), np.zeros(1))
    assert 1e9 * one.rounding(10.0, precise=True) <= 0.5 * fit.residual < 1e8 * one.rounding(10.0)
