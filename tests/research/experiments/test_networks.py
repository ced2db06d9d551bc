# SPDX-License-Identifier: Apache-2.0
"""The network experiments: true guarantees, data, starting points and claims against independent answers."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from onedraw.records import Records
from onedraw.research.datasets import Prepared
from onedraw.research.experiments import EXPERIMENTS, VERSIONS
from onedraw.research.experiments.gaussian_calibration import published_beta, true_epsilon
from onedraw.research.experiments.network_chain import OneChain, near_mode, shared_shapes
from onedraw.research.experiments.network_claims import (
    CLASSIFICATION_CLAIMS,
    DIMENSIONS_CLAIMS,
    REGRESSION_CLAIMS,
    UCI_CLASSIFICATION_CLAIMS,
)
from onedraw.research.experiments.network_methods import (
    NETWORK_METHODS,
    NETWORKS_COMPARED,
    _mechanism,
    published_multiplier,
)
from onedraw.research.experiments.network_trial import network
from onedraw.research.experiments.simulate import simulate_network
from onedraw.research.experiments.uci import chosen_rows, working_response

# -- guarantees


@pytest.mark.parametrize(("nominal", "true"), [(0.2, 13.880), (1.0, 7.691), (5.0, 10.042)])
def test_the_published_draw_is_labelled_with_its_true_epsilon(nominal, true):
    method = NETWORK_METHODS["beta-published"]
    assert method.true_epsilon("regression", epsilon=nominal, n=1000, d=2) == pytest.approx(true, abs=1e-3)
    assert f"true epsilon {true:.3g}" in method.guarantee("regression", epsilon=nominal, n=1000, d=2)


def test_the_published_draw_has_the_published_beta_and_weight_one():
    b = published_beta(1.0, 1.0)
    calibrated = _mechanism("regression", 2, true_epsilon(b), 1.0 + b).calibrated
    assert (calibrated.beta, calibrated.weight) == (1.0 + b, pytest.approx(1.0, rel=1e-9))


@pytest.mark.jax
def test_the_true_epsilon_of_published_dp_sgd_is_that_of_the_gaussian_mechanism_for_full_batches():
    """With 50 records every batch is all of them: mu = 2 sqrt(15)/z, whose curve is in closed form."""
    pytest.importorskip("dp_accounting")
    mu = 2.0 * math.sqrt(15) / published_multiplier(0.2, 2)

    def excess(epsilon):
        upper = stats.norm.cdf(0.5 * mu - epsilon / mu)
        return upper - math.exp(epsilon) * stats.norm.cdf(-0.5 * mu - epsilon / mu) - 1e-5

    found = NETWORK_METHODS["dp-sgd-published"].true_epsilon("regression", epsilon=0.2, n=50, d=2)
    assert found == pytest.approx(optimize.brentq(excess, 0.0, 50.0), rel=0.01)


@pytest.mark.jax
def test_published_dp_sgd_falls_short_for_few_records_and_not_for_many():
    """The published rate, features over batch, knows nothing of n; the true one falls with it."""
    pytest.importorskip("dp_accounting")
    method = NETWORK_METHODS["dp-sgd-published"]
    few, many = (method.true_epsilon("regression", epsilon=1.0, n=n, d=8) for n in (100, 20_000))
    assert many < 1.0 < 5.0 < few


def test_only_published_methods_are_in_the_published_version_and_none_in_the_other():
    for (task, version), names in NETWORKS_COMPARED.items():
        wrong = [name for name in names if name.endswith("-published")]
        assert bool(wrong) == (version == "as-published"), task
        assert any(name.startswith("dp-sgd") for name in names)


# -- data


def test_simulated_regressions_are_networks_with_noise():
    """5,000 residuals: a standard deviation is known within 4 standard errors of 1%."""
    data = simulate_network("regression", n=2000, d=3, repetition=0, seed=1)
    weights, biases = data.truth[:30].reshape(3, 10), data.truth[30:40]
    last, last_bias = data.truth[40:50], data.truth[50]

    def predicted(features):
        return np.maximum(features @ weights + biases, 0.0) @ last + last_bias

    scales = [
        np.std(response - predicted(features))
        for features, response in ((data.features, data.response), (data.test_features, data.test_response))
    ]
    assert scales[0] == pytest.approx(scales[1], rel=0.08)
    again = simulate_network("regression", n=2000, d=3, repetition=0, seed=1)
    assert (again.response == data.response).all()


def test_the_log_variance_of_residuals_is_standard_normal():
    """The mean of 60 of them, four standard errors."""
    found = []
    for repetition in range(60):
        data = simulate_network("regression", n=1, d=1, repetition=repetition, seed=1)
        hidden = np.maximum(data.test_features * data.truth[:10] + data.truth[10:20], 0.0)
        predicted = hidden @ data.truth[20:30] + data.truth[30]
        found.append(math.log(np.var(data.test_response - predicted)))
    assert np.mean(found) == pytest.approx(0.0, abs=4.0 / math.sqrt(60))
    assert np.std(found) == pytest.approx(1.0, abs=0.4)


def test_simulated_labels_have_the_probabilities_of_the_network():
    """The share of ones against the mean probability, 5,000 test rows, four standard errors."""
    data = simulate_network("classification", n=50, d=2, repetition=3, seed=1)
    weights, biases, last = data.truth[:20].reshape(2, 10), data.truth[20:30], data.truth[30:40]
    outputs = np.maximum(data.test_features @ weights + biases, 0.0) @ last + data.truth[40]
    p = special.expit(outputs)
    slack = 4.0 * math.sqrt((p * (1 - p)).sum()) / len(p)
    assert data.test_response.mean() == pytest.approx(p.mean(), abs=slack)


def test_every_simulated_classification_has_both_classes():
    for d in (2, 32):
        for repetition in range(10):
            data = simulate_network("classification", n=50, d=d, repetition=repetition, seed=2023)
            assert 0.05 < data.test_response.mean() < 0.95


@pytest.mark.parametrize(("scaling", "response"), [("public", [0.0, 25.0, 50.0]), ("extremes", [3, 5, 7])])
def test_responses_are_mapped_to_minus_one_and_one(scaling, response):
    response = np.array(response, dtype=float)
    data = Prepared(
        features=np.zeros((3, 1)),
        response=response,
        test_features=np.zeros((3, 1)),
        test_response=response[::-1],
        names=("a",),
    )
    training, test = working_response(data, "boston", scaling)
    assert training.tolist() == [-1.0, 0.0, 1.0]
    assert test.tolist() == [1.0, 0.0, -1.0]
    assert sorted(chosen_rows(data, "boston", 3, 0, 1)) == [0, 1, 2]


def test_the_largest_part_of_a_small_data_set_is_all_its_training_rows():
    for version in VERSIONS:
        cells = EXPERIMENTS["network-classification-uci"].listed(version, "paper")
        assert {cell["n"] for cell in cells if cell["data"] == "vertebral"} == {10, 20, 50, 100, 200, 279}


# -- chains


@pytest.mark.jax
def test_a_chain_starts_where_the_density_is_high_and_flat():
    pytest.importorskip("blackjax")
    data = simulate_network("classification", n=40, d=1, repetition=0, seed=1)
    mechanism = _mechanism("classification", 1, 5.0, "paper")
    posterior = mechanism.posterior(Records(features=data.features, response=data.response))
    rng = np.random.default_rng(0)
    start, model = near_mode(posterior, shared_shapes(posterior), rng), network("classification", 1)
    beta, weight = mechanism.calibrated.beta, mechanism.calibrated.weight
    sign = 2.0 * data.response - 1.0

    def log_density(theta):
        hidden = np.maximum(data.features @ theta[:10].reshape(1, 10) + theta[10:20], 0.0)
        p = special.expit(sign * (hidden @ theta[20:30] + theta[30]))
        losses = (p**beta + (1 - p) ** beta) / beta - p ** (beta - 1) / (beta - 1)
        return -weight * losses.sum() - 0.5 * theta @ theta

    assert len(start) == model.dim == 31
    from_prior = max(log_density(theta) for theta in rng.standard_normal((200, 31)))
    nearby = max(log_density(start + 0.05 * step) for step in rng.standard_normal((200, 31)))
    assert log_density(start) > max(from_prior, nearby)


@pytest.mark.jax
@pytest.mark.parametrize(
    ("num", "blocks", "size"), [(1, 1, 128), (128, 1, 128), (129, 2, 512), (1000, 2, 512)]
)
def test_tables_of_many_sizes_share_their_shapes_and_keep_their_density(num, blocks, size):
    jax = pytest.importorskip("jax")
    data = simulate_network("regression", n=num, d=2, repetition=0, seed=1)
    mechanism = _mechanism("regression", 2, 5.0, "auto")
    posterior = mechanism.posterior(Records(features=data.features, response=data.response))
    theta = np.random.default_rng(2).standard_normal((2, posterior.dim))
    with jax.enable_x64(True):
        shared = shared_shapes(posterior)
        found = np.array([float(posterior.density(row, shared)) for row in theta])
    assert shared["blocks"]["features"].shape == (blocks, 2, size)
    np.testing.assert_allclose(found, posterior.log_density(theta), rtol=1e-12)


@pytest.mark.jax
def test_a_chain_in_single_precision_draws_from_the_density():
    """Without records that is the prior, N(0, 1): 50 states of 31 coordinates, drawn nearly independently.

    Mean and mean square of 1,550 normals, within four standard errors of a quarter as many.
    """
    pytest.importorskip("blackjax")
    mechanism = _mechanism("classification", 1, 5.0, "paper")
    posterior = mechanism.posterior(Records(features=np.zeros((0, 1)), response=np.zeros(0)))
    states = OneChain(warmup=100).states(posterior, np.random.default_rng(0))
    assert (states.shape, states.dtype) == ((50, 31), np.float32)
    assert states.mean() == pytest.approx(0.0, abs=4.0 / math.sqrt(388))
    assert np.square(states).mean() == pytest.approx(1.0, abs=4.0 * math.sqrt(2.0 / 388))


# -- claims


def rows(by, **scores):
    """Three repetitions of each method around its score, a little apart."""
    return [
        {**by, "method": name.replace("_", "-"), "repetition": i, column: value + 0.01 * i}
        for name, (column, value) in scores.items()
        for i in range(3)
    ]


def words(claims, table):
    return [claim.check(table).word for claim in claims]


def regression(n, draw, sgd, **more):
    by = {"epsilon": 5.0, "n": n, **more}
    return rows(by, beta_auto=("log_rmse", draw), dp_sgd=("log_rmse", sgd))


def test_regression_claims_look_at_both_ends_of_n():
    table = [*regression(50, 1.0, 0.5), *regression(200, 9.0, 0.0), *regression(1000, 0.1, 0.4)]
    of_the_paper = REGRESSION_CLAIMS[:2]
    assert words(of_the_paper, table) == ["Holds", "Holds"]
    assert words(of_the_paper, [*table[-6:], *regression(2000, 1.0, 0.5)]) == ["Does not hold"] * 2
    uci = [{**row, "data": name} for name in ("boston", "wine") for row in table]
    assert [claim.check(uci).cases for claim in REGRESSION_CLAIMS] == [2, 2, 0]


def classification(epsilon, paper, sgd, **more):
    by = {"epsilon": epsilon, "n": 100, **more}
    return rows(by, beta_paper=("auc", paper), beta_auto=("auc", paper), dp_sgd=("auc", sgd))


def test_classification_claims_leave_the_smallest_epsilon_out():
    table = [*classification(0.2, 0.5, 0.9), *classification(1.0, 0.8, 0.7)]
    assert words(CLASSIFICATION_CLAIMS, table) == ["Holds", "Holds", "Undecided"]


def test_similar_means_within_two_hundredths():
    near, far = classification(0.5, 0.71, 0.7, data="bank"), classification(0.5, 0.8, 0.7, data="adult")
    large = [row for name in ("bank", "adult") for row in classification(5.0, 0.9, 0.8, data=name)]
    verdicts = [claim.check([*near, *far, *large]) for claim in UCI_CLASSIFICATION_CLAIMS]
    assert [(found.right, found.cases) for found in verdicts[:2]] == [(1, 2), (2, 2)]
    assert "bank n 100: +0.010; adult n 100: +0.100" in verdicts[0].numbers
    less = [row for name in ("bank", "adult") for row in classification(0.2, 0.5, 0.5, data=name)]
    assert UCI_CLASSIFICATION_CLAIMS[0].check([*less, *large]).cases == 0  # the statement is about 0.5


def test_a_lead_that_grows_with_d_is_told_from_one_that_shrinks():
    table = []
    for d, lead in ((2, 0.1), (32, 0.5)):
        by = {"epsilon": 5.0, "d": d, "task": "regression"}
        table += rows(by, beta_auto=("log_rmse", 1.0 - lead), dp_sgd=("log_rmse", 1.0))
        by["task"] = "classification"
        table += rows(by, beta_paper=("auc", 1.0 - lead), dp_sgd=("auc", 0.45))
    assert words(DIMENSIONS_CLAIMS, table) == ["Holds", "Holds", "Holds in part"]
