# SPDX-License-Identifier: Apache-2.0
"""Offsets in the tilted fit: neighbours that differ in them come to epsilon and no further; fits are right.

The density of the minimiser is written down from the change of variables, with SciPy's Poisson law for E
min(Y, cap) and its slope: only ridge and scale of the tilt come from the calibration.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import optimize, stats

from onedraw.records import FARTHEST, Records
from onedraw.tilted.calibration import calibrate
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.fit import tilted_fit
from onedraw.tilted.scores import TotalScore
from onedraw.tilted.solver import minimise
from onedraw.tilted.sums import Curvature, Slope, Sums, squared
from onedraw.tilted.weights import Rows, Weighing

EPSILON = 1.0
CAP, CUT = 3, 1.2
LOSS = CountCosh(cap=CAP, cut=CUT)
RELATIONS = pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])


def location(eta):
    """The root of the mean score of capped counts, from SciPy's distribution functions, by bisection."""
    values, law = np.arange(CAP + 1.0)[:, None], stats.poisson(np.exp(eta))
    mass = np.concatenate([law.pmf(values[:-1]), law.sf(CAP - 1.0)[None]])
    low, high = np.zeros_like(eta), np.full_like(eta, CAP)
    for _ in range(50):
        middle = 0.5 * (low + high)
        below = (mass * np.tanh((middle - values) / CUT)).sum(axis=0) < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def score_and_slope(count, eta):
    """What one record adds, and its derivative in eta by differences."""
    score = [CUT * np.tanh((location(eta + s) - min(count, CAP)) / CUT) for s in (-1e-4, 0.0, 1e-4)]
    return np.stack([score[1], (score[2] - score[0]) / 2e-4])


def calibrated(neighbours, dim=1):
    return calibrate(
        LOSS,
        epsilon=EPSILON,
        dim=dim,
        geometry="cube",
        neighbours=neighbours,
        solver_share=0.0,
    )


# -- the exact density of one parameter, an intercept: all records differ in count and offset alone

THETA = np.linspace(-25.0, 25.0, 6001)
OFFSETS = (-FARTHEST, -6.0, -2.0, 0.0, 1.0, 2.5, 6.0, FARTHEST)
COUNTS = (0.0, 1.0, 9.0)
CROWDS = (0, 1, 30, 1000)


def gradient_and_curvature(count, offset):
    """(2, theta): what one record adds."""
    return score_and_slope(count, THETA + offset)


def log_density(fit, sums):
    """(theta,) of records with these sums of gradients and curvatures (2, theta)."""
    s = fit.law.scale
    b = -sums[0] - fit.ridge * THETA
    return -np.abs(b) / s - np.log(2.0 * s) + np.log(fit.ridge + sums[1])


def worst_loss(fit, neighbours):
    """Over one record replaced or removed beside crowds of equal records, counts and offsets of all free."""
    worst, parts = 0.0, {one: gradient_and_curvature(*one) for one in product(COUNTS, OFFSETS)}
    for number, crowd in product(CROWDS, parts):
        logs = np.stack([log_density(fit, number * parts[crowd] + part) for part in parts.values()])
        others = logs if neighbours == "replace_one" else log_density(fit, number * parts[crowd])[None]
        worst = max(worst, (logs.max(axis=0) - others.min(axis=0)).max())
        worst = max(worst, (others.max(axis=0) - logs.min(axis=0)).max())
    return worst


def test_the_density_integrates_to_one():
    fit = calibrated("replace_one")
    sums = sum(gradient_and_curvature(*one) for one in [(0.0, -3.0), (2.0, 0.5), (9.0, 4.0)])
    assert np.trapezoid(np.exp(log_density(fit, sums)), THETA) == pytest.approx(1.0, abs=1e-4)


def test_one_parameter_added_with_its_offset_comes_to_epsilon_and_no_further():
    fit = calibrated("add_remove")
    assert 0.98 * EPSILON <= worst_loss(fit, "add_remove") <= EPSILON
    halved = replace(fit, law=replace(fit.law, scale=0.5 * fit.law.scale))
    assert worst_loss(halved, "add_remove") > 1.5 * EPSILON
    doubled = replace(fit, law=replace(fit.law, scale=2.0 * fit.law.scale))
    assert worst_loss(doubled, "add_remove") < 0.7 * EPSILON


def test_one_parameter_replaced_with_its_offset_comes_to_epsilon_and_no_further():
    """Unlike without offsets, one parameter is enough: two records of one row may have opposite scores."""
    fit = calibrated("replace_one")
    assert 0.98 * EPSILON <= worst_loss(fit, "replace_one") <= EPSILON
    assert worst_loss(replace(fit, ridge=0.25 * fit.ridge), "replace_one") > 1.05 * EPSILON
    halved = replace(fit, law=replace(fit.law, scale=0.5 * fit.law.scale))
    assert worst_loss(halved, "replace_one") > 1.5 * EPSILON


def test_released_minimisers_follow_the_density_with_offsets():
    """Kolmogorov-Smirnov, 500 fits: a false alarm once in 10,000 seeds. Offsets dropped would be seen."""
    loss = LOSS
    fit = calibrate(loss, epsilon=EPSILON, dim=1, geometry="cube")
    counts, offsets = np.array([0.0, 2.0, 9.0, 9.0, 9.0]), np.array([-3.0, 0.5, 4.0, -2.0, -2.0])
    rows = Rows(features=np.ones((5, 1)), weight=None, geometry="cube", offset=offsets)
    rng = np.random.default_rng(0)
    drawn = [tilted_fit(loss, rows, counts, fit, rng)[0, 0] for _ in range(500)]

    def cumulative(theta):
        scores = [score_and_slope(*one)[0] for one in zip(counts, theta + offsets[:, None], strict=True)]
        b = -np.sum(scores, axis=0) - fit.ridge * theta
        return stats.laplace(scale=fit.law.scale).sf(b)  # b(theta) falls

    assert stats.kstest(drawn, cumulative).pvalue > 1e-4
    plain = [tilted_fit(loss, replace(rows, offset=None), counts, fit, rng)[0, 0] for _ in range(500)]
    assert stats.kstest(plain, cumulative).pvalue < 1e-4


# -- sums, solver and accuracy


def some_rows(n=3000, seed=0, weight=None):
    rng = np.random.default_rng(seed)
    design = np.column_stack([rng.uniform(-1.0, 1.0, (n, 2)), np.ones(n)])
    offset = rng.uniform(-1.5, 1.5, n)
    counts = rng.poisson(np.exp(design @ [0.8, -0.4, 0.3] + offset)).astype(float)
    return Rows(features=design, weight=weight, geometry="cube", response=counts, offset=offset)


@pytest.mark.parametrize("dispersion", [None, 1.5])
def test_slope_and_curvature_are_taken_at_predictors_with_offsets(dispersion):
    """An offset is a further column of the design with coefficient 1, whose own slopes nobody looks at."""
    loss, theta = CountCosh(cap=5, cut=1.2, dispersion=dispersion), np.array([[0.3, -0.2, 0.1]])
    rows = some_rows(weight=np.random.default_rng(1).uniform(0.1, 1.0, 3000))
    wide = replace(rows, features=np.column_stack([rows.design, rows.offset]), offset=None)
    (curvature,), longer = rows.sum(Curvature(loss, theta)), np.append(theta, 1.0)[None]
    (more,), (larger,) = wide.sum(Slope(loss, longer)), wide.sum(Curvature(loss, longer))
    assert rows.sum(Slope(loss, theta))[0] == pytest.approx(more[:, :3])
    assert squared(curvature) == pytest.approx(squared(larger)[:3, :3])
    total = rows.sum(TotalScore(loss, theta))[0]
    assert total == pytest.approx(wide.sum(TotalScore(loss, longer))[0])
    part = rows.take(np.array([5, 7]))
    assert part.offset.tolist() == rows.offset[[5, 7]].tolist()


def test_rounding_is_within_its_bound_at_the_farthest_offsets():
    """Against the same sums in long doubles of exact predictors, of the same cubics."""
    loss, rng, n = CountCosh(cap=1, cut=0.5), np.random.default_rng(3), 4000
    design = np.column_stack([rng.uniform(-1.0, 1.0, n), np.ones(n)])
    counts = rng.integers(0, 2, n).astype(float)
    offset = np.where(rng.random(n) < 0.5, -FARTHEST, FARTHEST) + rng.uniform(-3.0, 3.0, n).clip(-2.0, 2.0)
    rows = Rows(features=design, weight=None, geometry="cube", response=counts, offset=offset)
    theta = np.array([[30.0, -np.sign(offset[0]) * 38.0]])
    exact = design.astype(np.longdouble) @ theta[0].astype(np.longdouble) + offset
    slope = loss.cut * np.tanh((_exactly(loss, exact) - counts) / np.longdouble(loss.cut))
    error = np.abs(rows.sum(Slope(loss, theta))[0][0] - (slope[:, None] * design).sum(axis=0))
    assert np.linalg.norm(error.astype(float)) <= Sums(loss=loss, table=rows).rounding(np.linalg.norm(theta))


def _exactly(loss, eta):
    """The location in long doubles."""
    table = loss._table
    cells = table.cubics.shape[1]
    place = np.clip((eta - np.longdouble(table.nodes[0])) / np.longdouble(table.step), 0, cells)
    cell = np.minimum(place.astype(int), cells - 1)
    c0, c1, c2, c3 = table.cubics.astype(np.longdouble)[:, cell]
    x = place - cell
    return c0 + x * (c1 + x * (c2 + x * c3))


def test_the_minimiser_is_that_of_scipy():
    """A large cap and cut are none: the non-private Poisson fit with an offset, by SciPy, a ridge of 2."""
    rows, rng = some_rows(), np.random.default_rng(0)
    sums = Sums(loss=CountCosh(cap=128, cut=1000.0), table=rows)
    found = minimise(sums, ridge=2.0, tilt=np.zeros((1, 3)), residual=1e-4, rng=rng)[0]

    def deviance(theta):
        eta = rows.design @ theta + rows.offset
        return np.exp(eta).sum() - rows.response @ eta + theta @ theta

    assert found == pytest.approx(optimize.minimize(deviance, np.zeros(3), tol=1e-12).x, abs=1e-5)


def test_the_minimiser_is_found_at_the_farthest_offsets():
    """Nothing that a record may bring keeps the solver from its residual."""
    rng, n = np.random.default_rng(4), 500
    offset = rng.choice([-FARTHEST, 0.0, FARTHEST], n)
    design = np.column_stack([rng.choice([-1.0, 1.0], n), np.ones(n)])
    for counts in (np.zeros(n), np.full(n, 9.0), rng.choice([0.0, 9.0], n)):
        rows = Rows(features=design, weight=None, geometry="cube", response=counts, offset=offset)
        sums = Sums(loss=LOSS, table=rows)
        theta = minimise(sums, ridge=9.0, tilt=np.array([[20.0, -3.0]]), residual=1e-5, rng=rng)
        slope = sums.gradient(theta) + 9.0 * theta + [[20.0, -3.0]]
        assert np.linalg.norm(slope) <= 1e-5


# -- records


def test_offsets_are_held_record_by_record_and_weigh_nothing():
    features, response = np.array([[0.5], [3.0]]), np.array([1.0, 2.0])
    records = Records(features=features, response=response, offset=np.array([1e9, -1e300]))
    assert records.offset.tolist() == [FARTHEST, -FARTHEST]
    assert records.take(np.array([1])).offset.tolist() == [-FARTHEST]
    weighing = Weighing(fit_intercept=True)
    plain = weighing(Records(features=features, response=response))
    assert weighing(records).weight.tolist() == plain.weight.tolist()
    assert plain.offset is None
    with pytest.raises(Exception, match="finite records"):
        Records(features=features, response=response, offset=np.array([0.0, np.nan]))
    with pytest.raises(Exception, match="offset for each record"):
        Records(features=features, response=response, offset=np.zeros(3))
