# SPDX-License-Identifier: Apache-2.0
"""Gibbs one-posterior sampling against exact posteriors of adversarial neighbours on a grid.

On a finite set of parameters the theorem holds as it stands, so grid masses give exact privacy losses.
"""

import numpy as np
import pytest

import onedraw
from onedraw.mechanisms import GibbsPosterior, Records
from onedraw.model import RegressionModel
from onedraw.priors import Prior

BOX = 3.0
LINE = np.linspace(-BOX, BOX, 61)[:, None]


def build(**options):
    return GibbsPosterior(feature_norm=2.0, num_parameters=1, prior=Prior(scale=1.0, box=BOX)).calibrate(
        **options
    )


def privacy_loss(mechanism, common, one, other, weight_factor=1.0):
    """Largest |log ratio| between the grid posteriors of common + one and common + other."""
    masses = []
    for records in ([*common, *one], [*common, *other]):
        table = np.array(records, dtype=float).reshape(-1, 2)
        data = Records(features=table[:, :1], response=table[:, 1])
        value = mechanism.posterior(data, fit_intercept=False).log_density(LINE)
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
    mechanism = GibbsPosterior(feature_norm=2.0, num_parameters=4, prior=Prior(scale=0.5, box=BOX))
    corner = np.full(4, 0.5 * BOX)
    x = 2.0 * corner / np.linalg.norm(corner)
    assert x @ corner == pytest.approx(mechanism.loss.predictor_bound)


def test_what_bounds_the_likelihood_must_be_declared():
    with pytest.raises(onedraw.InvalidInput, match=r"truncated to a box.*unbounded unless the parameters"):
        GibbsPosterior(feature_norm=1.0, num_parameters=2, prior=Prior()).calibrate(epsilon=1.0)
    with pytest.raises(onedraw.InvalidInput, match=r"needs num_parameters.*Count the intercept"):
        GibbsPosterior(feature_norm=1.0).calibrate(epsilon=1.0)
    data = Records(features=np.zeros((3, 2)), response=np.zeros(3))
    with pytest.raises(onedraw.InvalidInput, match="num_parameters=1, got one of 3"):
        build(epsilon=1.0).release(data, model=RegressionModel(kind="logistic", features=("a", "b")))


def test_draws_stay_in_the_box_and_use_the_clipped_data():
    mechanism = build(epsilon=50.0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 1)) * 100
    data = Records(features=x, response=(x[:, 0] > 0).astype(float))
    model = RegressionModel(kind="logistic", features=("x",), fit_intercept=False)
    values = [mechanism.release(data, model=model, random_state=seed).draws[0][0] for seed in range(10)]
    assert np.abs(values).max() <= BOX
    assert np.abs(mechanism.posterior(data, fit_intercept=False).features).max() <= 2.0
