# SPDX-License-Identifier: Apache-2.0
"""Gibbs one-posterior sampling against exact posteriors of adversarial neighbours on a grid.

On a finite set of parameters the theorem holds as it stands, so grid masses give exact privacy losses.
"""

import numpy as np
import pytest

import onedraw
from onedraw.families import Bernoulli
from onedraw.mechanisms import GibbsPosterior, Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records

BOX = 3.0
LINE = np.linspace(-BOX, BOX, 61)[:, None]


def slopes(count):
    """A model of that many slopes and no intercept."""
    names = tuple(f"x{i}" for i in range(count))
    return Shape(model=RegressionModel(family=Bernoulli(), features=names, fit_intercept=False))


def build(count=1, scale=1.0, **request):
    mechanism = GibbsPosterior(feature_norm=2.0, prior_scale=scale, prior_box=BOX)
    return mechanism.calibrate(Request(**request), slopes(count))


def privacy_loss(mechanism, common, one, other, weight_factor=1.0):
    """Largest |log ratio| between the grid posteriors of common + one and common + other."""
    masses = []
    for records in ([*common, *one], [*common, *other]):
        table = np.array(records, dtype=float).reshape(-1, 2)
        data = Records(features=table[:, :1], response=table[:, 1])
        value = mechanism.posterior(data).log_density(LINE)
        prior = mechanism.prior.log_density(LINE)
        value = prior + weight_factor * (value - prior)
        masses.append(value - np.logaddexp.reduce(value))
    return float(np.abs(masses[0] - masses[1]).max())


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 3])
def test_random_neighbours_stay_within_epsilon(neighbours, rows):
    rng = np.random.default_rng(0)

    def record():
        return rng.choice([-2.0, 2.0, 1.0, 1e6]), rng.integers(0, 2)

    for epsilon in (0.3, 4.0):
        mechanism = build(epsilon=epsilon, neighbours=neighbours, rows_per_person=rows)
        for _ in range(30):
            common = [record()] * int(rng.choice([0, 5, 300]))
            other = [record() for _ in range(rows)] if neighbours == "replace_one" else []
            assert privacy_loss(mechanism, common, [record()] * rows, other) <= epsilon + 1e-9


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_designed_pair_comes_near_epsilon(neighbours, rows):
    """At least 0.9 epsilon, so a weight twice too large breaks the guarantee."""
    mechanism = build(epsilon=1.0, neighbours=neighbours, rows_per_person=rows)
    pair = [(2.0, 1)] * 100_000, [(2.0, 0)] * rows, [(2.0, 1)] * (rows * (neighbours == "replace_one"))
    assert 0.9 <= privacy_loss(mechanism, *pair) <= 1.0 + 1e-9
    assert privacy_loss(mechanism, *pair, weight_factor=2.0) >= 1.8


def test_the_weight_is_that_of_the_certificate_and_exceeds_the_published_one():
    bound = 2.0 * BOX
    mechanism = build(epsilon=1.0)
    assert mechanism.weight == pytest.approx(1.0 / (2.0 * bound))
    published = 1.0 / (4.0 * np.log1p(np.exp(bound)))
    assert mechanism.weight > 2.0 * published


def test_the_bound_covers_the_corner_of_the_box():
    """The longest parameter vector and a feature along it: the predictor reaches the bound, not beyond."""
    mechanism = build(count=4, scale=0.5, epsilon=1.0)
    corner = np.full(4, 0.5 * BOX)
    x = 2.0 * corner / np.linalg.norm(corner)
    assert x @ corner == pytest.approx(mechanism.loss.predictor_bound)


def test_the_intercept_counts_among_the_parameters():
    """Its 1 is part of the clipped vector, and its coefficient of the box: the weight is that of p + 1."""
    with_intercept = RegressionModel(family=Bernoulli(), features=("a",))
    mechanism = GibbsPosterior(feature_norm=2.0, prior_scale=1.0, prior_box=BOX)
    mechanism = mechanism.calibrate(Request(epsilon=1.0), Shape(model=with_intercept))
    assert mechanism.weight == pytest.approx(build(count=2, epsilon=1.0).weight)
    data = Records(features=np.array([[30.0]]), response=np.ones(1))
    np.testing.assert_allclose(np.linalg.norm(mechanism.posterior(data).features, axis=1), 2.0)


def test_several_draws_split_epsilon():
    """The joint loss of k independent draws is k times that of one."""
    mechanism = build(epsilon=1.0, draws=4)
    reached = privacy_loss(mechanism, [(2.0, 1)] * 100_000, [(2.0, 0)], [(2.0, 1)])
    assert 0.9 <= 4 * reached <= 1.0 + 1e-9


def test_the_box_must_be_a_box():
    with pytest.raises(onedraw.InvalidInput, match="Expected prior_box > 0 and finite, got prior_box=inf"):
        GibbsPosterior(feature_norm=1.0, prior_box=np.inf).calibrate(Request(epsilon=1.0), slopes(1))


def test_draws_stay_in_the_box_and_use_the_clipped_data(released):
    mechanism = build(epsilon=50.0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 1)) * 100
    data = Records(features=x, response=(x[:, 0] > 0).astype(float))
    values = [released(mechanism, data, seed).draws[0][0] for seed in range(10)]
    assert np.abs(values).max() <= BOX
    assert np.abs(mechanism.posterior(data).features).max() <= 2.0
