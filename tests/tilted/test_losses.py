# SPDX-License-Identifier: Apache-2.0
"""Losses: their slopes and curvatures against independent formulas, and their joint bounds by brute force."""

import math

import mpmath
import numpy as np
import pytest
from scipy import optimize, special, stats

from onedraw.errors import InvalidInput
from onedraw.families.categorical import contrast_basis
from onedraw.tilted.capped_counts import CappedCounts
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.losses import STEEPEST, LogCosh, Logistic, LogisticShares
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.sums import LIBRARY, LONG, UNIT

ETA = np.linspace(-6.0, 5.0, 45)
MANY = CountCosh(cap=40, cut=4.0)
COUNTS = [
    CountCosh(cap=1, cut=0.5),
    CountCosh(cap=4, cut=1.1),
    MANY,
    CountCosh(cap=5, cut=1.5, dispersion=0.7),
]
SCALAR = [Logistic(), Logistic(brier=0.2), Logistic(brier=0.5), LogCosh(cut=1.3), *COUNTS]


@pytest.mark.parametrize("brier", [0.0, 0.2, 0.5])
def test_the_logistic_slope_is_that_of_the_log_likelihood_and_brier_s_score(brier):
    for y in (0.0, 1.0):
        step = 1e-6
        etas = [ETA + sign * step for sign in (1, -1)]
        value = [
            -special.log_expit((2 * y - 1) * eta) + brier * (special.expit(eta) - y) ** 2 for eta in etas
        ]
        expected = (value[0] - value[1]) / (2 * step)
        assert Logistic(brier=brier).slope(np.full_like(ETA, y), ETA) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("brier", [0.0, 0.2, 0.5])
def test_the_logistic_score_vanishes_on_average_at_the_true_probability(brier):
    chance, loss = special.expit(ETA), Logistic(brier=brier)
    mean = chance * loss.slope(np.ones_like(ETA), ETA) + (1 - chance) * loss.slope(np.zeros_like(ETA), ETA)
    assert mean == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("brier", [-0.1, 1e-50, 0.51, math.nan])
def test_more_of_brier_s_score_than_leaves_the_loss_convex_is_refused(brier):
    with pytest.raises(InvalidInput, match="brier <= 0"):
        Logistic(brier=brier)


def test_the_log_cosh_slope_is_that_of_log_cosh():
    loss, step, y = LogCosh(cut=1.3), 1e-6, 0.4
    value = [loss.cut**2 * np.log(np.cosh((y - ETA - s * step) / loss.cut)) for s in (1, -1)]
    expected = (value[0] - value[1]) / (2 * step)
    assert loss.slope(np.full_like(ETA, y), ETA) == pytest.approx(expected, abs=1e-8)


def law_of(counts, eta):
    """SciPy's law of the counts before they are capped."""
    mu, size = np.exp(eta), counts.dispersion
    return stats.poisson(mu) if size is None else stats.nbinom(size, size / (size + mu))


@pytest.mark.parametrize("loss", COUNTS, ids=str)
def test_capped_counts_have_the_probabilities_and_moments_of_scipy(loss):
    counts, values = CappedCounts(cap=loss.cap, dispersion=loss.dispersion), np.arange(loss.cap + 1.0)
    law, step = law_of(loss, ETA[:, None]), 1e-5
    expected = np.column_stack([law.pmf(values[:-1]), law.sf(loss.cap - 1.0)])
    probability, change = counts.probabilities(ETA)
    assert probability == pytest.approx(expected, abs=1e-12)
    assert counts.mean(ETA) == pytest.approx(expected @ values, abs=1e-9)
    assert counts.variance(ETA) == pytest.approx(expected @ values**2 - (expected @ values) ** 2, abs=1e-8)
    ahead, behind = (counts.probabilities(ETA + sign * step)[0] for sign in (1, -1))
    assert change == pytest.approx((ahead - behind) / (2 * step), abs=1e-8)
    assert counts.mean_slope(ETA) == pytest.approx(change @ values, abs=1e-9)


@pytest.mark.parametrize("loss", COUNTS, ids=str)
def test_the_score_of_counts_vanishes_on_average_at_the_truth(loss):
    """By summation with SciPy's law; the mean of its square and of the curvature too."""
    for eta in np.linspace(-5.0, math.log(loss.cap) + 1.0, 13):
        values = np.arange(loss.cap + 1.0)
        mass = np.append(law_of(loss, eta).pmf(values[:-1]), law_of(loss, eta).sf(loss.cap - 1.0))
        at = np.full(len(values), eta)
        slope, curvature = loss.slope_and_curvature(values, at)
        spread = math.sqrt(mass @ slope**2)
        assert mass @ slope == pytest.approx(0.0, abs=1e-5 * spread + 1e-9)
        assert loss.variance(at[:1])[0] == pytest.approx(spread**2, rel=1e-4, abs=1e-9)
        expected = loss.mean_slope(at[:1])[0]
        assert expected == pytest.approx(mass @ curvature, rel=2e-3, abs=1e-9)
        found = loss.information.slope_and_curvature(values, at)[1]
        assert found == pytest.approx(expected, abs=1e-3 * loss.information.curvature_bound)
        step = 1e-3
        rise = loss.mean(at[:1] + step) - loss.mean(at[:1] - step)
        assert rise[0] / (2 * step) == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("loss", COUNTS, ids=str)
def test_what_is_released_of_counts_is_within_its_bound_and_below_the_curvature_s(loss):
    eta = np.linspace(-20.0, 20.0, 20_001)
    found = loss.information.slope_and_curvature(np.zeros_like(eta), eta)[1]
    assert found.max() <= loss.information.curvature_bound <= 1.002 * found.max()
    assert loss.information.trace_bound == loss.information.curvature_bound < loss.curvature_bound
    assert (loss.slope_and_curvature(np.zeros_like(eta), eta)[0][1:] - 1e-12 <= loss.cut).all()


def test_the_variance_of_a_poisson_score_is_at_most_its_mean_curvature():
    """What intervals with exposures assume."""
    eta = np.linspace(-8.0, 4.0, 241)
    for cap, cut in ((1, 0.5), (3, 0.6), (6, 1.5), (20, 2.0), (20, 9.0)):
        loss = CountCosh(cap=cap, cut=cut)
        assert (loss.variance(eta) <= loss.mean_slope(eta) * (1.0 + 1e-9)).all()


@pytest.mark.parametrize("dispersion", [None, 1e-3, 0.1, 3.0])
@pytest.mark.parametrize(("cap", "cut"), [(1, 1.5), (9, 3.37), (31, 0.5)])
def test_curvatures_of_counts_are_within_their_bounds_between_nodes_and_beyond(cap, cut, dispersion):
    """They were negative by rounding at the last node of the first of these: then the root of a weight was no
    number."""
    loss = CountCosh(cap=cap, cut=cut, dispersion=dispersion)
    nodes = loss._table.nodes
    ends = np.array([-np.inf, -1e308, 1e308, np.inf])
    within = (nodes[:-1, None] + np.diff(nodes)[:, None] * np.linspace(0.0, 1.0, 11)).ravel()
    eta = np.concatenate([ends, within, np.nextafter(nodes, -np.inf), np.nextafter(nodes, np.inf)])
    for y in (0.0, 1.0, float(cap), 1e300):
        slope, curvature = loss.slope_and_curvature(np.full_like(eta, y), eta)
        assert (curvature >= 0.0).all()
        assert (curvature <= (1.0 - (slope / cut) ** 2) * loss.curvature_bound * (1.0 + 1e-9)).all()


@pytest.mark.parametrize("options", [{"cap": 0}, {"cut": 0.0}, {"cut": math.inf}, {"dispersion": -1.0}])
def test_impossible_losses_of_counts_are_refused(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        CountCosh(**{"cap": 3, "cut": 1.0, **options})


@pytest.mark.parametrize("loss", SCALAR, ids=str)
def test_curvature_is_the_derivative_of_the_slope_and_stays_within_its_bound(loss):
    y, step = np.full_like(ETA, 1.0), 1e-5 if loss not in COUNTS else 1e-7
    expected = (loss.slope(y, ETA + step) - loss.slope(y, ETA - step)) / (2 * step)
    slope, curvature = loss.slope_and_curvature(y, ETA)
    assert curvature == pytest.approx(expected, abs=1e-7 * loss.score_bound)
    assert slope == pytest.approx(loss.slope(y, ETA))
    assert (curvature >= 0.0).all()
    places = np.linspace(-30, 30, 20_001)
    responses = range(loss.cap + 1) if loss in COUNTS else [1]
    wide = max(loss.slope_and_curvature(np.full(20_001, float(y)), places)[1].max() for y in responses)
    # Where the location is steepest none of few counts may lie: of zeros and ones both are half of one away.
    most = 1.002 if loss not in COUNTS else 1.2 if loss.cap > 1 else 1.8
    assert wide <= loss.curvature_bound <= most * wide


BRIER = pytest.mark.parametrize("brier", [0.0, 0.5])


@BRIER
@pytest.mark.parametrize("classes", [3, 5])
def test_the_softmax_slope_and_curvature_are_those_of_both_scores(classes, brier):
    loss, rng = Softmax(classes=classes, brier=brier), np.random.default_rng(0)
    eta, y = rng.normal(size=(7, classes - 1)) * 2.0, rng.integers(classes, size=7).astype(float)

    def value(eta):
        logits, one = eta @ contrast_basis(classes).T, np.eye(classes)[y.astype(int)]
        score = ((special.softmax(logits, axis=1) - one) ** 2).sum(axis=1)
        return special.logsumexp(logits, axis=1) - (logits * one).sum(axis=1) + 0.5 * brier * score

    slope, curvature = loss.slope_and_curvature(y, eta)
    assert loss.slope(y, eta) == pytest.approx(slope)
    for j in range(classes - 1):
        step = 1e-5 * np.eye(classes - 1)[j]
        assert (value(eta + step) - value(eta - step)) / 2e-5 == pytest.approx(slope[:, j], abs=1e-8)
        change = (loss.slope(y, eta + step) - loss.slope(y, eta - step)) / 2e-5
        assert change == pytest.approx(curvature[:, j], abs=1e-8)


def test_slopes_stay_finite_and_bounded_at_any_predictor():
    far = np.array([-1e300, -1e3, 0.0, 1e3, 1e300])
    for loss in SCALAR:
        for y in (0.0, 1.0):
            slope, curvature = loss.slope_and_curvature(np.full(5, y), far)
            assert (np.abs(slope) <= loss.score_bound).all()
            assert np.isfinite(curvature).all()
    for brier in (0.0, 0.5):
        loss = Softmax(classes=3, brier=brier)
        slope, _ = loss.slope_and_curvature(np.zeros(5), np.column_stack([far, -far]) / 2)
        assert (np.linalg.norm(slope, axis=1) <= math.sqrt(2.0) * (1 + 1e-12)).all()


@pytest.mark.parametrize("u", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("loss", SCALAR, ids=str)
def test_the_joint_bound_is_the_supremum_over_one_record(loss, u, ratio):
    """That of counts knows neither that they are whole nor where they end: of few it is not the least."""
    k = ratio * u
    eta = np.concatenate([np.linspace(-25.0, 25.0, 40_001), [-500.0, 500.0]])
    found, scale = -math.inf, loss.cut if isinstance(loss, LogCosh) else 1.0
    for y in range(loss.cap + 1) if loss in COUNTS else (0.0, 1.0, 1e9):
        if isinstance(loss, Logistic) and y > 1:
            continue
        slope, curvature = loss.slope_and_curvature(np.full_like(eta, y), eta * scale)
        found = max(found, (np.abs(slope) / loss.score_bound * u + np.log1p(k * curvature)).max())
    most = 1.2 if loss in COUNTS and loss is not MANY else 1.002
    assert found * (1.0 - 1e-12) <= loss.joint_loss(u, k) <= found * most


@pytest.mark.parametrize("brier", [0.0, 0.2, 0.5])
def test_a_share_is_so_much_of_a_record_of_each_class(brier):
    shares, classes = LogisticShares(brier=brier), Logistic(brier=brier)
    ones = np.ones_like(ETA)
    for y in (0.0, 0.3, 0.5, 0.97, 1.0):
        slope, curvature = shares.slope_and_curvature(y * ones, ETA)
        parts = [classes.slope_and_curvature(one * ones, ETA) for one in (0.0, 1.0)]
        assert slope == pytest.approx((1 - y) * parts[0][0] + y * parts[1][0], abs=1e-14)
        assert curvature == pytest.approx((1 - y) * parts[0][1] + y * parts[1][1], abs=1e-14)
        assert shares.slope(y * ones, ETA) == pytest.approx(slope, abs=1e-15)
        assert (curvature >= 0.0).all()


@pytest.mark.parametrize("u", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("brier", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0, 10.0, 20.0, 80.0])
def test_the_joint_bound_of_shares_is_the_supremum_over_all_of_them(brier, u, ratio):
    loss, k = LogisticShares(brier=brier), ratio * u
    eta = np.concatenate([np.linspace(-12.0, 12.0, 2001), [-500.0, 500.0]])
    found = []
    for y in np.linspace(0.0, 1.0, 101):
        slope, curvature = loss.slope_and_curvature(np.full_like(eta, y), eta)
        found.append((np.abs(slope) * u + np.log1p(k * curvature)).max())
    assert max(found) * (1.0 - 1e-12) <= loss.joint_loss(u, k)
    if 2.0 * brier * k <= STEEPEST * u:  # then classes are the worst
        assert loss.joint_loss(u, k) <= 1.002 * max(found[0], found[-1])
    else:
        assert loss.joint_loss(u, k) <= 1.001 * (u + math.log1p(k * loss.curvature_bound))


def hessian(pi, brier):
    """In classes (n, K, K), of records of class 0: the Jacobian of (I + c V)(pi - e) by the product rule."""
    eye, gap = np.eye(pi.shape[1]), pi - np.eye(pi.shape[1])[0]
    v = pi[:, :, None] * (eye - pi[:, None, :])
    # V r = pi r - pi (pi.r), so its change with pi alone, along the columns of V, is
    dot = (pi * gap).sum(axis=1)[:, None, None]
    change = gap[:, :, None] * v - pi[:, :, None] * (gap[:, None, :] @ v) - dot * v
    return v + brier * (change + v @ v)


@pytest.mark.parametrize(("u", "k"), [(0.45, 0.8), (0.42, 0.26), (2.0, 30.0)])
@BRIER
@pytest.mark.parametrize("classes", [3, 4, 6])
def test_the_softmax_joint_bound_is_the_supremum_over_all_probabilities(classes, brier, u, k):
    rng = np.random.default_rng(0)

    def determinant(pi):
        return np.linalg.slogdet(np.eye(classes) + k * hessian(pi, brier))[1]

    def value(pi):
        own = pi[:, 0] * (1.0 + (pi**2).sum(axis=1) - 2.0 * pi[:, 0])
        return (1.0 - pi[:, 0] + brier * own) * u + determinant(pi)

    pi, loss = rng.dirichlet(np.full(classes, 0.7), size=20_000), Softmax(classes=classes, brier=brier)
    tried = value(pi)
    best = [
        -optimize.minimize(
            lambda logits: -value(special.softmax(logits)[None])[0], np.log(pi[i]), method="Nelder-Mead"
        ).fun
        for i in np.argsort(tried)[-5:]
    ]
    assert max(tried.max(), *best) * (1 - 1e-12) <= loss.joint_loss(u, k) <= max(best) * 1.0001
    assert determinant(pi).max() <= loss.determinant_bound(k) + 1e-12


@BRIER
@pytest.mark.parametrize("classes", [3, 4, 6])
def test_the_softmax_curvature_is_convex_and_within_its_bounds(classes, brier):
    """The largest eigenvalue is that of two classes alone, so that no other bound would do."""
    rng, loss = np.random.default_rng(1), Softmax(classes=classes, brier=brier)
    pi = np.concatenate([rng.dirichlet(np.full(classes, a), size=10_000) for a in (0.1, 0.5, 2.0, 30.0)])
    two = np.zeros((2001, classes))
    two[:, 0] = np.linspace(0.0, 1.0, 2001)
    two[:, 1] = 1.0 - two[:, 0]
    alike = np.full((2001, classes), 1.0 / (classes - 1))
    alike *= 1.0 - two[:, :1]
    alike[:, 0] = two[:, 0]
    curvature = hessian(np.concatenate([pi, two, alike]), brier)
    values = np.linalg.eigvalsh(0.5 * (curvature + curvature.transpose(0, 2, 1)))
    assert values.min() >= -1e-12
    assert values.max() <= loss.curvature_bound <= values.max() * (1 + 1e-6)
    traces = values.sum(axis=1)
    assert traces.max() <= loss.trace_bound <= traces.max() * (1 + 1e-6)


def test_the_released_curvature_of_classes_is_the_information_whatever_the_class():
    rng, loss = np.random.default_rng(2), Softmax(classes=4, brier=0.5)
    eta = rng.normal(size=(6, 3))
    basis, pi = contrast_basis(4), special.softmax(eta @ contrast_basis(4).T, axis=1)
    expected = basis.T @ (pi[:, :, None] * (np.eye(4) - pi[:, None, :])) @ basis
    for y in range(4):
        assert loss.information.slope_and_curvature(np.full(6, float(y)), eta)[1] == pytest.approx(expected)
    mean = sum(
        pi[:, y, None, None] * loss.slope_and_curvature(np.full(6, float(y)), eta)[1] for y in range(4)
    )
    assert mean == pytest.approx(expected + 0.5 * expected @ expected)
    for k in range(6):
        assert loss.steepness(eta[k]) == pytest.approx(np.trace(mean[k]) / np.trace(expected[k]))


@pytest.mark.parametrize("brier", [-0.1, 0.51, 1e-9])
def test_a_share_of_briers_score_that_is_not_convex_is_refused(brier):
    with pytest.raises(InvalidInput, match="brier"):
        Softmax(classes=3, brier=brier)


def test_the_curvature_of_logistic_and_log_cosh_is_free_up_to_the_stated_ratio_and_not_beyond():
    assert Logistic().joint_loss(0.5, 0.5) == 0.5 < Logistic().joint_loss(0.5, 0.51)
    mixed = Logistic(brier=0.5)
    assert mixed.joint_loss(0.5, 0.25) == 0.5 < mixed.joint_loss(0.5, 0.26)
    assert LogCosh(cut=2.0).joint_loss(0.5, 0.25) == 0.5 < LogCosh(cut=2.0).joint_loss(0.5, 0.26)
    free = 0.25 / MANY.curvature_bound
    assert MANY.joint_loss(0.5, free) == 0.5 < MANY.joint_loss(0.5, 1.04 * free)


@pytest.mark.parametrize("loss", [Logistic(), LogCosh(cut=1.5)], ids=str)
@pytest.mark.parametrize("kind", [np.float64, np.longdouble])
def test_slopes_are_as_accurate_as_they_say(loss, kind):
    """Against 40 digits, at predictors of all sizes; the certificate of the solver rests on it."""
    rng = np.random.default_rng(0)
    eta = np.concatenate([rng.normal(0.0, 3.0, 1000), 10.0 ** rng.uniform(-18.0, 2.0, 300)])
    found = loss.slope(np.zeros(len(eta), dtype=kind), eta.astype(kind)) / kind(loss.score_bound)
    share = 1.0 if kind is np.float64 else LIBRARY * LONG / UNIT
    with mpmath.workdps(40):
        for value, e in zip(found, eta, strict=True):
            at = mpmath.mpf(float(e))
            exact = 1 / (1 + mpmath.exp(-at)) if isinstance(loss, Logistic) else mpmath.tanh(at / loss.cut)
            digits = mpmath.mpf(np.format_float_scientific(value, precision=30, unique=False))
            assert abs(digits - exact) <= share * loss.accuracy
