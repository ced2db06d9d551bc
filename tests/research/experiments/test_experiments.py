# SPDX-License-Identifier: Apache-2.0
"""Every experiment at smoke size in both versions, and its numbers against independent answers."""

import importlib.util
import math
import os

import numpy as np
import pytest
from scipy import optimize, stats

from onedraw.audit import Counts
from onedraw.research.experiments import EXPERIMENTS, VERSIONS, run
from onedraw.research.experiments.attacks import attack, lower_bound, published_bound
from onedraw.research.experiments.gaussian_calibration import published_beta, true_epsilon
from onedraw.research.experiments.illustrations import run_influence
from onedraw.research.experiments.measures import auc, log_rmse, signs
from onedraw.research.experiments.spec import stream
from onedraw.research.experiments.table import one, select
from onedraw.research.experiments.theory import TRUTH, kolmogorov_distance, run_consistency, sandwich


def runnable(name):
    marks = []
    if name.endswith("-uci"):
        marks += [
            pytest.mark.data,
            pytest.mark.skipif("ONEDRAW_DATA" not in os.environ, reason="needs ONEDRAW_DATA"),
        ]
    if name.startswith("network-"):
        missing = importlib.util.find_spec("jax_privacy") is None
        marks += [pytest.mark.jax, pytest.mark.skipif(missing, reason="needs the jax extra")]
    return pytest.param(name, marks=marks)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Results of an experiment and version at smoke size, computed once."""
    folder = tmp_path_factory.mktemp("cells")
    return lambda name, version: run(EXPERIMENTS[name], version=version, size="smoke", folder=folder)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [runnable(name) for name in EXPERIMENTS])
def test_it_runs_and_every_claim_gets_a_sentence(smoke, name, version):
    results = smoke(name, version)
    for _, verdict in results.verdicts:
        assert verdict.numbers.endswith(".")
        assert 0 <= verdict.right <= verdict.right + verdict.ties <= verdict.cases
    for view in results.experiment.views:
        shown = select(results.summary, **view.where)
        assert shown
        assert all({view.x, view.y, view.curve} <= set(row) for row in shown)


# -- measures


def test_measures_agree_with_their_definitions():
    truth = np.array([1.0, -1.0, 0.0])
    estimates = np.array([[1.0, 1.0, 0.0], [2.0, -2.0, 1.0]])
    assert log_rmse(estimates, truth).tolist() == pytest.approx([0.5 * math.log(4 / 3), 0.0])
    assert signs(estimates, truth).tolist() == [0.5, 1.0]
    scores, response = np.array([[0.0, 1.0, 7.0], [0.0, 2.0, -6.0]]), np.array([0.0, 1.0, 1.0])
    assert auc(scores, response).tolist() == [1.0, 0.5]  # of two pairs: both right; one right
    assert np.isnan(auc(scores, np.ones(3))).all()


# -- figure 1, figure 2 and the Gaussian calibration


@pytest.mark.parametrize(
    ("variance", "nominal", "b", "true"),
    [(1, 0.2, 1.84135, 13.880), (1, 1, 0.88600, 7.691), (1, 5, 0.30283, 10.042), (9, 1, 0.59822, 7.650)],
)
def test_the_published_gaussian_calibration_misses_its_epsilon(variance, nominal, b, true):
    assert published_beta(nominal, variance) == pytest.approx(b, abs=1e-5)
    assert true_epsilon(published_beta(nominal, variance)) == pytest.approx(true, abs=1e-3)


def test_no_beta_reaches_a_small_epsilon_at_weight_one():
    found = optimize.minimize_scalar(true_epsilon, bounds=(0.1, 3.0), method="bounded")
    assert found.fun == pytest.approx(7.522, abs=1e-3)


def test_the_update_of_gibbs_is_the_logistic_function_of_the_weighted_predictor(smoke):
    rows = select(smoke("update", "as-published").rows, panel="classification")
    for update, weight in (("Bayes", 1.0), ("Gibbs", 0.09)):
        for row in select(rows, update=update):
            assert row["value"] == pytest.approx(1.0 / (1.0 + math.exp(-weight * row["x"])))
    b = 0.33
    for row in select(rows, update="beta"):
        p = 1.0 / (1.0 + math.exp(-row["x"]))
        assert row["value"] == pytest.approx(1.0 / (1.0 + math.exp(((1 - p) ** b - p**b) / b)))


def test_influence_of_the_log_loss_agrees_with_the_normal_posterior():
    """Far from the prior and with many records, the posterior is normal: the mean shifts by y/n, and so on.

    Independent answer: importance weights on draws of the conjugate-like posterior of (mean, variance).
    """
    cell = {"version": "corrected", "beta": 1.0, "grid": 81, "distances": 2, "records": 1000, "seed": 2023}
    (near, far) = (row["influence"] for row in run_influence(cell))
    records = stream("influence", 2023).standard_normal(1000)
    rng = np.random.default_rng(0)
    # Prior N(0, 9) is flat here; sigma^2 is inverse gamma: draws of the normal-inverse-gamma posterior.
    rate = 1.0 + 0.5 * ((records - records.mean()) ** 2).sum()
    variance = stats.invgamma.rvs(1.0 + 999 / 2, scale=rate, size=40_000, random_state=rng)
    mean = records.mean() + np.sqrt(variance / 1000) * rng.standard_normal(40_000)
    for distance, influence in ((0.0, near), (10.0, far)):
        log_weight = stats.norm.logpdf(mean.mean() + distance, mean, np.sqrt(variance))
        weight = np.exp(log_weight - log_weight.max())
        overlap = np.sqrt(weight).mean() / np.sqrt(weight.mean())
        assert influence == pytest.approx(math.acos(overlap), abs=0.02)


def test_a_beta_divergence_bounds_the_influence(smoke):
    rows = smoke("influence", "corrected").rows
    log_loss, robust = (max(r["influence"] for r in select(rows, beta=b)) for b in (1.0, 1.5))
    assert robust < 0.05 < 0.9 < log_loss


# -- figure 9


@pytest.mark.parametrize(
    ("error", "published", "correct"), [(0.5, 1.053, 0.0), (1 / (1 + math.e), 1.804, 0.937)]
)
def test_bounds_of_randomised_response_are_as_tabulated(error, published, correct):
    """At 10,000 rounds, with errors at their expected numbers; the tabulated values are averages of runs."""
    wrong = round(5000 * error)
    counts = Counts(false_positives=wrong, negatives=5000, false_negatives=wrong, positives=5000)
    assert published_bound(counts) == pytest.approx(published, abs=0.01)
    assert lower_bound(counts, 0.0) == pytest.approx(correct, abs=0.01)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "optimal", "published"), [(7.0, 0.778, 0.718), (10.0, 0.796, 0.735), (20.0, 0.816, 0.789)]
)
def test_success_rates_are_those_of_quadrature(epsilon, optimal, published):
    """20,000 rounds, fixed seed; 0.011 is more than 3.5 standard errors."""
    for wrong, expected in ((False, optimal), (True, published)):
        found = attack("beta-paper", epsilon, 20_000, np.random.default_rng(4), published=wrong)
        assert found.success_rate == pytest.approx(expected, abs=0.011)


@pytest.mark.statistical
def test_the_attack_on_noise_is_that_of_two_laplace_laws():
    """Success is 1 - exp(-distance/(2 scale))/2 for two Laplace laws; 20,000 rounds, four standard errors."""

    def score(theta, sign, penalty):
        value = math.log1p(math.exp(-sign * theta)) + math.log(2)  # the record (0, 0) adds a constant
        return value / 2 + penalty * theta**2 / 2

    for name, penalty in (("chaudhuri-fixed-published", 1 / 9), ("chaudhuri-vanishing", 1 / 18)):
        found = attack(name, 2.0, 20_000, np.random.default_rng(1), published=True)
        ends = [optimize.minimize_scalar(score, args=(sign, penalty)).x for sign in (1.0, -1.0)]
        scale = 2.0 / (2 * penalty * 2.0)
        expected = 1.0 - 0.5 * math.exp(-abs(ends[0] - ends[1]) / (2 * scale))
        assert found.success_rate == pytest.approx(expected, abs=4 * 0.5 / 20_000**0.5)


# -- figure 10


def test_requirements_come_from_the_declarations(smoke):
    rows = smoke("requirements", "corrected").rows
    listed = {row["mechanism"]: row for row in rows}
    assert listed["one_posterior"]["declared_bounds"] == "none"
    assert listed["lipschitz_gibbs"]["delta"] == "> 0"
    assert listed["output_perturbation"]["neighbours"] == "replace_one"


# -- theory


def test_the_sandwich_of_beta_two_is_that_of_numerical_derivatives():
    """At beta = 2 the loss is a square; derivatives by central differences on the same design."""
    rng = np.random.default_rng(0)
    weight = 0.5
    found = sandwich(2.0, weight, np.random.default_rng(0))
    features = rng.standard_normal((400_000, 2))[:20_000]
    design = np.column_stack([features, np.ones(len(features))])

    def loss(theta, y):
        p = 1.0 / (1.0 + np.exp(-design @ theta))
        f = p if y else 1.0 - p
        return -f + 0.5 * (p**2 + (1 - p) ** 2)

    p = 1.0 / (1.0 + np.exp(-design @ TRUTH))
    step, eye = 1e-4, np.eye(3)
    outer, hessian = np.zeros((3, 3)), np.zeros((3, 3))
    for y, share in ((1, p), (0, 1 - p)):
        slopes = np.array([(loss(TRUTH + step * e, y) - loss(TRUTH - step * e, y)) / (2 * step) for e in eye])
        outer += (slopes * share) @ slopes.T / len(p)
        for i in range(3):
            for j in range(3):
                corner = sum(
                    a * b * loss(TRUTH + step * (a * eye[i] + b * eye[j]), y)
                    for a in (1, -1)
                    for b in (1, -1)
                )
                hessian[i, j] += np.mean(share * corner) / (4 * step**2)
    inverse = np.linalg.inv(hessian)
    assert np.allclose(found, inverse @ outer @ inverse + inverse / weight, rtol=0.06, atol=0.6)


@pytest.mark.statistical
def test_draws_have_the_variance_and_the_law_of_the_theory(smoke):
    """120 standardised numbers: mean square 1 within four standard errors, and a 0.1% Kolmogorov limit."""
    row = smoke("asymptotics", "corrected").rows[0]
    assert abs(row["variance_ratio"] - 1.0) < 4.0 * math.sqrt(2.0 / row["numbers"])
    assert row["kolmogorov"] < 1.95 / math.sqrt(row["numbers"])


@pytest.mark.statistical
def test_the_error_falls_like_the_root_of_n(smoke):
    """Sixteen times the records: a quarter of the error. Over seeds the ratio varied by about a tenth."""
    summary = smoke("consistency", "corrected").summary
    for beta in (1.5, 3.0):
        first, last = (one(summary, "log_rmse", beta=beta, n=n) for n in (400, 6400))
        assert first - last == pytest.approx(math.log(4.0), abs=0.4)


def test_a_cell_gives_the_same_numbers_again():
    cell = {"beta": 2.0, "n": 300, "repetition": 0, "draws": 2, "seed": 1}
    assert run_consistency(cell) == run_consistency(cell)
    assert run_consistency(cell) != run_consistency({**cell, "seed": 2})


def test_the_kolmogorov_distance_is_scipy_s():
    values = np.random.default_rng(0).standard_normal(200)
    assert kolmogorov_distance(values) == pytest.approx(stats.kstest(values, "norm").statistic)
