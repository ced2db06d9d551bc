# SPDX-License-Identifier: Apache-2.0
"""Tilted fits in place of networks: public units, and fits that approach their non-private twins."""

import numpy as np
import pytest

from onedraw.research.experiments.measures import auc, log_rmse
from onedraw.research.experiments.network_methods import NETWORK_METHODS
from onedraw.research.experiments.network_tilted import number_of_units, random_layer, try_linear, try_random
from onedraw.research.experiments.network_trial import Trial
from onedraw.research.experiments.simulate import simulate_network


def trial(task, n, epsilon):
    data = simulate_network(task, n=n, d=2, repetition=1, seed=5)
    return data, Trial(
        task=task,
        features=data.features,
        response=data.response,
        test_features=data.test_features,
        epsilon=epsilon,
        releases=3,
        warmup=0,
    )


def test_units_are_public_and_more_of_them_leave_the_first_as_they_are():
    few, many = random_layer(3, 5), random_layer(3, 40)
    assert (few[0] == many[0][:, :5]).all()
    assert (few[1] == many[1][:5]).all()
    assert (few[0][:, :3] == np.eye(3)).all()
    assert (few[1][:3] == 0.0).all()
    # 37 x 3 weights of scale 2/sqrt(3) = 1.155: their root mean square is within four standard errors of 7%.
    assert np.sqrt(np.square(many[0][:, 3:]).mean()) == pytest.approx(2 / 3**0.5, rel=0.28)


@pytest.mark.parametrize(
    ("n", "epsilon", "d", "units"), [(100, 1.0, 2, 3), (10_000, 1.0, 2, 30), (10, 0.1, 8, 8)]
)
def test_the_number_of_units_follows_from_public_facts(n, epsilon, d, units):
    assert number_of_units(n, epsilon, d) == units


@pytest.mark.parametrize("try_on", [try_linear, try_random])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_with_a_large_epsilon_a_tilted_fit_scores_like_its_twin(task, try_on):
    data, given = trial(task, 2000, 500.0)
    found = try_on(given, np.random.default_rng(0))
    score = auc if task == "classification" else log_rmse
    assert found.releases.shape == (3, len(data.test_response))
    scores, twin = score(found.releases, data.test_response), score(found.twin[None, :], data.test_response)
    np.testing.assert_allclose(scores, twin[0], atol=0.02)


def test_their_guarantee_is_pure_and_the_nominal_one():
    for name in ("tilted-linear", "tilted-random"):
        assert NETWORK_METHODS[name].guarantee("regression", epsilon=0.5, n=100, d=2) == "epsilon 0.5"
