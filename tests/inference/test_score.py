# SPDX-License-Identifier: Apache-2.0
"""Covariances of the score and weights of capped counts, against closed forms, sums and quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats

from onedraw.families.categorical import contrast_basis
from onedraw.inference import (
    ConstantWeight,
    CountVariance,
    CountWeight,
    DispersedScore,
    Layout,
    LogisticWeight,
    ModelScore,
    RobustScore,
)
from onedraw.inference.components import Solved
from onedraw.inference.curvature import row_law
from onedraw.inference.rows import Rows
from onedraw.inference.score import positive_laplace
from onedraw.inference.weight import SeveralCounts
from onedraw.tilted.softmax_loss import Softmax

COUNTS = [(1, None), (3, None), (12, None), (4, 0.7), (8, 3.0)]


def law_of(eta, size):
    mean = np.exp(eta)
    return stats.poisson(mean) if size is None else stats.nbinom(size, size / (size + mean))


def capped(eta, cap, size):
    """Mean and variance of min(Y, cap), by a sum over its values."""
    low = law_of(np.asarray(eta)[..., None], size).pmf(np.arange(cap))
    mean = low @ np.arange(cap) + cap * (1 - low.sum(-1))
    return mean, low @ np.arange(cap) ** 2 + cap**2 * (1 - low.sum(-1)) - mean**2


@pytest.mark.parametrize(("cap", "size"), COUNTS)
@pytest.mark.parametrize(("centre", "variance"), [(0.2, 0.3), (-2.0, 1.0), (1.5, 0.01)])
def test_normal_means_of_capped_counts_agree_with_quadrature(cap, size, centre, variance):
    normal = stats.norm(centre, np.sqrt(variance))

    def mean_of(part):
        ends = normal.ppf([1e-12, 1 - 1e-12])
        return integrate.quad(lambda e: capped(e, cap, size)[part] * normal.pdf(e), *ends, epsabs=1e-9)[0]

    arguments = np.array([centre]), np.array([variance])
    means = CountWeight(cap=cap, dispersion=size).normal_means(*arguments)[:, 0]
    assert means[0] == pytest.approx(mean_of(0), abs=1e-4)
    spread = CountVariance(cap=cap, dispersion=size).normal_means(*arguments)[:, 0]
    assert spread[1] == pytest.approx(mean_of(1), rel=1e-3, abs=1e-5)
    # The weight is the slope of the mean, and all six are derivatives of one another.
    step = 0.01
    ahead = CountWeight(cap=cap, dispersion=size).normal_means(arguments[0] + step, arguments[1])[:, 0]
    behind = CountWeight(cap=cap, dispersion=size).normal_means(arguments[0] - step, arguments[1])[:, 0]
    np.testing.assert_allclose((ahead - behind)[:-1] / (2 * step), means[1:], rtol=3e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("cap", "size", "centre", "variance"), [(5, None, 0.0, 3.6), (40, None, 1.0, 1.0), (8, 0.7, 0.5, 2.0)]
)
def test_derivatives_of_normal_means_are_right_where_predictors_spread_far(cap, size, centre, variance):
    """By Stein's identity on a fine grid: E v'(eta) = E v (eta - a)/q, E v'' = E v ((eta - a)^2/q - 1)/q."""
    x = np.linspace(-8.0, 8.0, 1601)
    mass = stats.norm.pdf(x) / stats.norm.pdf(x).sum()
    eta, step = centre + np.sqrt(variance) * x, 1e-4
    variances = capped(eta, cap, size)[1]
    slopes = (capped(eta + step, cap, size)[0] - capped(eta - step, cap, size)[0]) / 2e-4
    arguments = np.array([centre]), np.array([variance])
    for kind, values in ((CountWeight, slopes), (CountVariance, variances)):
        means = kind(cap=cap, dispersion=size).normal_means(*arguments)[:, 0]
        polynomials = np.stack([np.ones_like(x), x, x**2 - 1.0])
        expected = polynomials @ (mass * values) / np.sqrt(variance) ** np.arange(3)
        np.testing.assert_allclose(means[1:4], expected, atol=0.03 * expected[0])


def test_every_release_of_a_batch_has_its_own_weight():
    weights = (CountWeight(cap=3), CountWeight(cap=1), CountWeight(cap=5, dispersion=2.0), CountWeight(cap=3))
    centre, variance = np.linspace(-1.0, 1.0, 12), np.linspace(0.0, 2.0, 12)
    got = SeveralCounts(weights).normal_means(centre, variance)
    for k, weight in enumerate(weights):
        mine = slice(3 * k, 3 * k + 3)
        np.testing.assert_allclose(got[:, mine], weight.normal_means(centre[mine], variance[mine]))


@pytest.mark.parametrize("cap", [1, 2, 5, 20])
def test_a_capped_poisson_count_varies_no_more_than_its_curvature_says(cap):
    """Var min(Y, cap) <= Cov(min(Y, cap), Y) = d E min(Y, cap)/d eta; equal where the cap is 1."""
    for eta in np.linspace(-4.0, 4.0, 33):
        step = 1e-5
        slope = (capped(eta + step, cap, None)[0] - capped(eta - step, cap, None)[0]) / (2 * step)
        assert capped(eta, cap, None)[1] <= slope + 1e-7
    # The negative binomial has no such bound, so its own variance is taken.
    slope = (capped(2.0 + 1e-5, 20, 0.5)[0] - capped(2.0 - 1e-5, 20, 0.5)[0]) / 2e-5
    assert capped(2.0, 20, 0.5)[1] > 2.0 * slope


@pytest.mark.parametrize("centre", [-3.0, 0.0, 1.0, 50.0])
def test_a_positive_total_has_the_law_of_a_positive_laplace_variable(centre):
    """Against the distribution function of SciPy's Laplace law."""
    probability = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9])
    law = stats.laplace(centre, 2.0)
    got = positive_laplace(centre, 2.0, probability)
    assert (got > 0).all()
    np.testing.assert_allclose(1 - law.sf(got) / law.sf(0.0), probability, rtol=1e-6, atol=1e-9)


MOMENTS = np.array([[1.0, 0.2], [0.2, 0.5]])


def rows(weight, theta=(0.3, -0.8), batch=1280):
    point = np.tile(theta, (batch, 1))
    law = row_law(weight, Rows.of_moments(np.tile(MOMENTS, (batch, 1, 1)), intercept=True), point)
    return law, Solved(point=point, law=law, count=np.full(batch, 700.0))


def test_the_score_of_two_classes_varies_as_the_curvature_says():
    law, truth = rows(LogisticWeight())
    got = ModelScore().covariances(truth, np.random.default_rng(0))
    np.testing.assert_allclose(got, 700.0 * law.curvature)


def test_the_score_of_a_linear_fit_varies_by_its_released_total():
    law, truth = rows(ConstantWeight())
    got = DispersedScore(total=300.0, noise=1e-9, unit=4.0).covariances(truth, np.random.default_rng(0))
    np.testing.assert_allclose(got, 1200.0 * law.rows.moments)
    rough = DispersedScore(total=300.0, noise=50.0, unit=4.0)
    spread = rough.covariances(truth, np.random.default_rng(0))[:, 0, 0].std()
    assert spread == pytest.approx(4.0 * np.sqrt(2.0) * 50.0, rel=0.2)  # 1,280 draws: 5% each


@pytest.mark.parametrize("intercept", [0, 1])
def test_a_robust_score_varies_as_its_own_matrix_says(intercept):
    matrix = 900.0 * np.array([[0.4, 0.1], [0.1, 0.2]])
    placed = matrix if intercept == 0 else matrix[::-1, ::-1]
    law, truth = rows(ConstantWeight())
    layout = Layout(intercept=intercept)
    score = RobustScore(matrix=placed, diagonal_sd=0.1, offdiagonal_sd=0.1, unit=9.0, layout=layout)
    got = score.covariances(truth, np.random.default_rng(0))
    assert got.shape == law.rows.moments.shape
    np.testing.assert_allclose(got.mean(0), 9.0 * matrix, rtol=0.02)


@pytest.mark.parametrize("intercept", [1, None])
def test_a_robust_score_of_classes_varies_as_its_own_matrix_says(intercept):
    """Three predictors of two columns, one after another in the release and in what is inferred."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((6, 30))
    matrix = 50.0 * root @ root.T
    columns = [intercept, 1 - intercept] if intercept is not None else [0, 1]
    placed = [2 * k + j for k in range(3) for j in columns]
    released = np.empty((6, 6))
    released[np.ix_(placed, placed)] = matrix
    _, truth = rows(ConstantWeight())
    score = RobustScore(
        matrix=released,
        diagonal_sd=0.1,
        offdiagonal_sd=0.1,
        unit=2.0,
        layout=Layout(intercept=intercept),
        predictors=3,
    )
    got = score.covariances(truth, np.random.default_rng(0))
    assert got.shape == (1280, 6, 6)
    # Noise is taken as 1% of the smallest entry of the diagonal at least.
    np.testing.assert_allclose(got.mean(0), 2.0 * matrix, rtol=0.02, atol=0.01 * matrix.diagonal().max())


def test_the_slope_of_classes_under_a_wrong_model_is_off_by_no_more_than_its_probabilities():
    """Relative to the information I, by at most 2 c max|d| = max|d|: what ``score`` says of H."""
    rng, classes = np.random.default_rng(3), 4
    loss, basis = Softmax(classes=classes, brier=0.5), contrast_basis(classes)
    pi = rng.dirichlet(np.full(classes, 0.5), 2000)
    other = rng.dirichlet(np.full(classes, 0.5), 2000)
    pi[0], other[0] = [0.9997, 1e-4, 1e-4, 1e-4], [0.7997, 0.2001, 1e-4, 1e-4]  # the worst that is known
    eta = np.log(np.maximum(pi, 1e-12)) @ basis
    each = [loss.slope_and_curvature(np.full(2000, float(y)), eta)[1] for y in range(classes)]
    mean = sum(other[:, y, None, None] * each[y] for y in range(classes))
    model = sum(pi[:, y, None, None] * each[y] for y in range(classes))
    information = loss.information.slope_and_curvature(np.zeros(2000), eta)[1]
    np.testing.assert_allclose(model, information + 0.5 * information @ information, atol=1e-7)
    ratio = np.linalg.eigvals(np.linalg.solve(information + 1e-9 * np.eye(3), mean - model)).real
    share = np.abs(ratio).max(1) / np.abs(other - pi).max(1)
    assert 0.99 < share.max() <= 1.0 + 1e-4
