# SPDX-License-Identifier: Apache-2.0
"""Normal means, the curvature of normal rows and its gradient, against quadrature and finite differences."""

from functools import partial

import numpy as np
import pytest
from scipy import integrate, special, stats

from onedraw.inference.curvature import row_law
from onedraw.inference.moments import MomentSpace
from onedraw.inference.noisy import CurvatureDensity, NoisyCurvature
from onedraw.inference.rows import Rows
from onedraw.inference.space import RowSpace
from onedraw.inference.weight import (
    ConstantWeight,
    ExponentialWeight,
    LogisticVariance,
    LogisticWeight,
    kolmogorov_rule,
)

WEIGHTS = [
    LogisticWeight(),
    LogisticWeight(brier=0.5),
    LogisticVariance(brier=0.5),
    ExponentialWeight(),
    ConstantWeight(level=2.0),
]


@pytest.mark.parametrize(("centre", "variance"), [(0.0, 0.5), (-2.0, 1.5), (1.0, 6.0), (4.0, 0.01)])
def test_the_logistic_normal_means_agree_with_quadrature(centre, variance):
    def mean_of(function):
        law = stats.norm(centre, np.sqrt(variance))
        lower, upper = law.ppf([1e-14, 1 - 1e-14])
        return integrate.quad(lambda x: function(x) * law.pdf(x), lower, upper, epsabs=1e-12, limit=200)[0]

    def spread(x):
        return special.expit(x) * special.expit(-x)

    places = np.array([centre]), np.array([variance])
    means = LogisticWeight().normal_means(*places)[:, 0]
    assert means[0] == pytest.approx(mean_of(special.expit), abs=2e-6)
    assert means[1] == pytest.approx(mean_of(spread), abs=1e-5)

    def weighted(x, c, power):
        return spread(x) * (1 + 2 * c * spread(x)) ** power

    for c in (0.2, 0.5):  # the mean and the variance of (pi - y)(1 + 2 c pi (1 - pi)), pi the truth
        weight = LogisticWeight(brier=c).normal_means(*places)[1, 0]
        assert weight == pytest.approx(mean_of(partial(weighted, c=c, power=1)), abs=1e-5)
        square = LogisticVariance(brier=c).normal_means(*places)[1, 0]
        assert square == pytest.approx(mean_of(partial(weighted, c=c, power=2)), abs=1e-5)


@pytest.mark.parametrize("weight", WEIGHTS, ids=lambda w: type(w).__name__)
def test_normal_means_obey_the_heat_equation(weight):
    a, q, h = np.array([0.7]), np.array([1.3]), 1e-4
    here = weight.normal_means(a, q)[:, 0]
    by_centre = (weight.normal_means(a + h, q) - weight.normal_means(a - h, q))[:, 0] / (2 * h)
    by_variance = (weight.normal_means(a, q + h) - weight.normal_means(a, q - h))[:, 0] / (2 * h)
    np.testing.assert_allclose(by_centre[:-1], here[1:], atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(by_variance[:-2], 0.5 * here[2:], atol=1e-6, rtol=1e-6)


def test_the_rule_of_kolmogorov_has_the_moments_of_its_law():
    points, weights = kolmogorov_rule(8)
    assert weights @ points**2 == pytest.approx(np.pi**2 / 12, rel=1e-6)  # variance of a logistic is pi^2/3
    assert weights @ points == pytest.approx(np.sqrt(np.pi / 2) * np.log(2), rel=1e-6)


def test_the_curvature_and_the_score_are_those_of_normal_rows():
    """Against a product rule of 60 x 60 Gauss-Hermite points for two features with means."""
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    masses = masses / masses.sum()
    mean, factor = np.array([0.4, -0.3]), np.array([[0.8, 0.0], [0.5, 0.6]])
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    mass = np.outer(masses, masses).ravel()
    rows = np.column_stack([np.ones(len(grid)), grid @ factor.T + mean])
    theta = np.array([-0.5, 0.9, 0.7])
    prob = special.expit(rows @ theta)
    moments = (rows * mass[:, None]).T @ rows
    law = row_law(LogisticWeight(), Rows.of_moments(moments[None], intercept=True), theta[None])
    np.testing.assert_allclose(law.score[0], rows.T @ (mass * prob), atol=1e-5)
    expected = (rows * (mass * prob * (1 - prob))[:, None]).T @ rows
    np.testing.assert_allclose(law.curvature[0], expected, atol=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weight", WEIGHTS, ids=lambda w: type(w).__name__)
@pytest.mark.parametrize("dim", [1, 2, 4])
def test_the_gradient_of_the_density_agrees_with_differences(dim, weight, intercept, differs_as_it_says):
    rng = np.random.default_rng(dim)
    space = RowSpace(plain=MomentSpace(dim=dim, intercept=intercept, count_sd=0.2))
    raw = rng.normal(size=(3, dim, dim))
    density = CurvatureDensity(
        space=space,
        weight=weight,
        theta=0.5 * rng.normal(size=(3, dim)),
        count=np.full(3, 1000.0),
        noisy=NoisyCurvature(
            matrix=60 * (raw + raw.transpose(0, 2, 1)) + 300 * np.eye(dim),
            diagonal_sd=np.full(3, 200.0),
            offdiagonal_sd=np.full(3, 300.0),
        ),
    )
    differs_as_it_says(density, 0.4 * rng.normal(size=(3, space.size)))


def test_a_column_that_hardly_varies_has_a_gradient_too(differs_as_it_says):
    """Logarithms of variances about the one below which nothing is told apart, and far below it."""
    space = RowSpace(plain=MomentSpace(dim=3, intercept=True, count_sd=0.2))
    density = CurvatureDensity(
        space=space,
        weight=LogisticWeight(),
        theta=np.array([[0.3, 2.0, -1.0]] * 3),
        count=np.full(3, 1e9),
        noisy=NoisyCurvature(
            matrix=np.tile(2e8 * np.eye(3), (3, 1, 1)),
            diagonal_sd=np.full(3, 1e8),
            offdiagonal_sd=np.full(3, 1e8),
        ),
    )
    free = np.tile(0.2 * np.random.default_rng(0).normal(size=space.size), (3, 1))
    free[:, space.plain.scales] = [[-17.0, -19.0], [-18.4, 0.0], [-40.0, -80.0]]
    assert np.linalg.eigvalsh(space.read(free).rows.covariance[:, 1:, 1:]).min() > 0.0
    differs_as_it_says(density, free)
