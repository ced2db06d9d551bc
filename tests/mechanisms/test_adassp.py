# SPDX-License-Identifier: Apache-2.0
"""AdaSSP: sensitivities by brute force and on pairs that attain them, noise, and the exact composition."""

import numpy as np
import pytest
from scipy import stats

from onedraw.families import Gaussian
from onedraw.mechanisms import AdaSSP, Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records

NEIGHBOURS = ["replace_one", "add_remove"]


def statistics(design, response):
    moments = design.T @ design
    smallest = np.linalg.eigvalsh(moments)[:1]
    return smallest, moments[np.triu_indices(len(moments))], design.T @ response


def moves(common, one, other):
    """L2 distances of the three statistics between two data sets [(x, y), ...]."""
    pairs = []
    for records in ([*common, *one], [*common, *other]):
        width = len([*common, *one][0][0])
        design = np.array([x for x, _ in records], dtype=float).reshape(-1, width)
        pairs.append(statistics(design, np.array([y for _, y in records], dtype=float)))
    return np.array([np.linalg.norm(a - b) for a, b in zip(*pairs, strict=True)])


def linear(*features, **facts):
    return RegressionModel(family=Gaussian(), features=features, **facts)


def build(neighbours, rows=1, model=None, epsilon=1.0):
    request = Request(epsilon=epsilon, delta=1e-6, neighbours=neighbours, rows_per_person=rows)
    mechanism = AdaSSP(feature_norm=2.0, response_bound=3.0)
    return mechanism.calibrate(request, Shape(model=model or linear("x", fit_intercept=False)))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("rows", [1, 3])
def test_no_neighbours_move_further_than_the_sensitivities(neighbours, rows):
    rng = np.random.default_rng(0)
    limit = np.array(build(neighbours, rows).sensitivities())
    for _ in range(400):
        p = int(rng.integers(1, 4))

        def record(p=p):
            x = rng.choice([rng.normal(size=p), np.eye(p)[rng.integers(p)]])
            return 2.0 * x / np.linalg.norm(x), rng.choice([-3.0, 3.0])

        common = [record() for _ in range(int(rng.integers(0, 6)))]
        other = [record() for _ in range(rows)] if neighbours == "replace_one" else []
        assert (moves(common, [record() for _ in range(rows)], other) <= limit + 1e-9).all()


@pytest.mark.parametrize(
    ("neighbours", "one", "other", "index"),
    [
        ("replace_one", [((2.0,), 3.0)], [((0.0,), 0.0)], 0),
        ("replace_one", [((2.0, 0.0), 3.0)], [((0.0, 2.0), 3.0)], 1),
        ("replace_one", [((2.0,), 3.0)], [((2.0,), -3.0)], 2),
        ("add_remove", [((2.0,), 3.0)], [], 0),
        ("add_remove", [((2.0,), 3.0)], [], 1),
        ("add_remove", [((2.0,), 3.0)], [], 2),
    ],
)
def test_each_sensitivity_is_attained(neighbours, one, other, index):
    """So a factor dropped from any of them breaks the guarantee."""
    assert moves([], one, other)[index] == pytest.approx(build(neighbours).sensitivities()[index])


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_three_releases_compose_to_delta(neighbours):
    """Three Gaussian mechanisms are one with the root of the sum of squares: its exact delta is the one asked
    for, and half the noise on any one of them exceeds it."""
    epsilon, delta = 1.0, 1e-6
    mechanism = build(neighbours)

    def exact(ratios):
        a = np.sqrt(np.sum(np.square(ratios)))
        return stats.norm.cdf(-epsilon / a + a / 2) - np.exp(epsilon) * stats.norm.cdf(-epsilon / a - a / 2)

    ratios = np.array(mechanism.sensitivities()) / mechanism.noise_scales()
    assert exact(ratios) == pytest.approx(delta, rel=1e-4)
    for i in range(3):
        assert exact(np.where(np.arange(3) == i, 2 * ratios, ratios)) > 10 * delta


@pytest.mark.statistical
def test_the_release_carries_the_noise_of_the_products(released):
    """All features 0: X'y is noise alone, over a ridge that is noise too, so its sign is a fair coin and its
    size is bounded by both; 400 seeds, six standard errors."""
    mechanism = build("add_remove")
    data = Records(features=np.zeros((5, 1)), response=np.full(5, 3.0))
    values = np.array([released(mechanism, data, seed).draws[0][0] for seed in range(400)])
    assert abs((values > 0).mean() - 0.5) < 6 * 0.025
    scale = mechanism.noise_scales()
    ridge = scale[1] * np.sqrt(np.log(2 / 0.05))
    assert np.median(np.abs(values)) == pytest.approx(0.6745 * scale[2] / ridge, rel=0.35)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_a_large_epsilon_recovers_least_squares(neighbours, released):
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(3000, 2))
    y = np.clip(x @ [0.7, -0.2] + 0.3 + 0.1 * rng.normal(size=3000), -3, 3)
    mechanism = build(neighbours, model=linear("a", "b"), epsilon=1e6)
    release = released(mechanism, Records(features=x, response=y), 0)
    expected = np.linalg.lstsq(np.column_stack([x, np.ones(3000)]), y, rcond=None)[0]
    np.testing.assert_allclose(release.draws[0], expected, atol=1e-4)


def test_the_ridge_vanishes_where_the_data_are_informative():
    mechanism = build("replace_one")
    assert mechanism.ridge(1e9, 3) == 0.0
    assert mechanism.ridge(0.0, 3) > 0.0


@pytest.mark.statistical
def test_each_statistic_carries_its_noise(monkeypatch):
    """No records: the three statistics are noise alone. Kolmogorov-Smirnov at level 1e-4 with fixed seeds."""
    mechanism = build("replace_one", model=linear("a", "b", fit_intercept=False))
    smallest, moments, ridge, true_eigh = [], [], 1e12, np.linalg.eigh
    monkeypatch.setattr(AdaSSP, "ridge", lambda self, noisy, dim: smallest.append(noisy) or ridge)
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: moments.append(matrix) or true_eigh(matrix))
    data = Records(features=np.zeros((0, 2)), response=np.zeros(0))
    products = []
    for seed in range(1500):
        values, _ = mechanism._values(data, np.random.default_rng(seed))
        products.append(values[0] * ridge)
    moments, products = np.array(moments), np.array(products)
    columns = [np.array(smallest)], [moments[:, 0, 0], moments[:, 0, 1]], [products[:, 0], products[:, 1]]
    for scale, noises in zip(mechanism.noise_scales(), columns, strict=True):
        for noise in noises:
            assert stats.kstest(noise / scale, "norm").pvalue > 1e-4
