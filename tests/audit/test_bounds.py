# SPDX-License-Identifier: Apache-2.0
"""The bounds cover: with mechanisms of known epsilon, with nothing to find, and against other arithmetic."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import onedraw
from onedraw.audit import (
    Counts,
    bayesian,
    best_threshold,
    clopper_pearson,
    gaussian,
    held_out_counts,
    one_run,
)
from onedraw.audit.bounds import gaussian_separation, one_run_p_value

REPETITIONS = 400


def counts(false_positives, negatives, false_negatives, positives):
    return Counts(
        false_positives=false_positives,
        negatives=negatives,
        false_negatives=false_negatives,
        positives=positives,
    )


def randomised_response(epsilon, runs, rng):
    """Outputs 0/1 for the secrets 0 and 1; the epsilon is exact and the pair is the worst one."""
    truthful = 1 / (1 + math.exp(-epsilon))
    return ((rng.random(runs) < p).astype(float) for p in (1 - truthful, truthful))


# -- coverage


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("method", "epsilon"),
    [*((clopper_pearson, e) for e in (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)), (bayesian, 2.0)],
)
def test_coverage_is_at_least_95_percent_on_randomised_response(method, epsilon):
    """400 audits of 1,000 runs (100 of the slow Bayesian bound, which promises less and is held to the same).

    If a bound fails with probability 5%, the most that is allowed, this many failures or more have
    probability at most 0.1%.
    """
    rng = np.random.default_rng(1)
    audits = 100 if method is bayesian else REPETITIONS
    failures = 0
    for _ in range(audits):
        negatives, positives = randomised_response(epsilon, 500, rng)
        failures += method(Counts.of(negatives, positives, 0.5)).epsilon > epsilon
    assert failures <= stats.binom.ppf(0.999, audits, 0.05)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_coverage_survives_choosing_the_threshold_on_other_runs(epsilon):
    """Laplace noise of scale 1/epsilon; 400 audits; false alarm 0.1% as above."""
    rng = np.random.default_rng(2)
    failures = 0
    for _ in range(REPETITIONS):
        negatives, positives = rng.laplace(size=(2, 400))
        _, found = held_out_counts(negatives, positives + epsilon)
        failures += clopper_pearson(found).epsilon > epsilon
    assert failures <= stats.binom.ppf(0.999, REPETITIONS, 0.05)


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["laplace", "randomised response"])
def test_the_chosen_threshold_is_not_a_lucky_one(law):
    """Epsilon 1, 2,000 runs on each data set, 200 audits: all show 0.5 at least, and 0.8 on average.

    At the best fixed threshold the runs that judge show 0.83 with a standard error of 0.06, so less than 0.5
    has probability 2e-8 there. The winner at the plain level is below 0.5 in 5% to 10% of such audits.
    """
    rng = np.random.default_rng(11)
    bounds = []
    for _ in range(200):
        if law == "laplace":
            negatives, positives = rng.laplace(size=2000), rng.laplace(1.0, size=2000)
        else:  # told apart by a noisy score, so that there are many thresholds
            answers = randomised_response(1.0, 2000, rng)
            negatives, positives = (answer + rng.normal(0.0, 0.2, 2000) for answer in answers)
        bounds.append(clopper_pearson(held_out_counts(negatives, positives)[1]).epsilon)
    assert min(bounds) > 0.5
    assert np.mean(bounds) > 0.8
    assert np.mean(np.array(bounds) > 1.0) < 0.05


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.5])
def test_a_weak_signal_still_finds_a_threshold_in_its_middle(shift):
    """Where every strict bound is 0, the first of many zeros, an extreme threshold, would show nothing."""
    rng = np.random.default_rng(12)
    negatives, positives = rng.laplace(size=100), rng.laplace(shift, size=100)
    threshold = best_threshold(negatives, positives)
    assert 0.05 < (negatives > threshold).mean() < 0.95


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.0), (1.0, 1e-4)])
def test_coverage_of_the_bound_from_one_run(epsilon, delta):
    """m independent canaries through randomised response: the worst case of the theorem at delta = 0."""
    rng = np.random.default_rng(4)
    right = rng.binomial(200, 1 / (1 + math.exp(-epsilon)), size=REPETITIONS)
    values = {
        v: one_run(correct=v, guesses=200, canaries=400, delta=delta).epsilon for v in set(right.tolist())
    }
    failures = sum(values[v] > epsilon for v in right.tolist())
    assert failures <= stats.binom.ppf(0.999, REPETITIONS, 0.05)


@pytest.mark.statistical
def test_coverage_of_the_gaussian_bound():
    """N(0, 1) against N(1, 1): mu = 1, epsilon at delta 1e-5 by the exact curve. False alarm 0.1%."""
    rng = np.random.default_rng(5)
    truth = epsilon_of_gaussian(1.0, 1e-5)
    failures = 0
    for _ in range(REPETITIONS):
        a, b = rng.binomial(500, stats.norm.sf(0.5), 2)
        failures += gaussian(counts(a, 500, b, 500), delta=1e-5).epsilon > truth
    assert failures <= stats.binom.ppf(0.999, REPETITIONS, 0.05)


def epsilon_of_gaussian(mu, delta):
    """By integrating the hockey stick, not by the closed form."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        cut = middle / mu + mu / 2
        excess = integrate.quad(
            lambda x, e=middle: stats.norm.pdf(x, mu) - math.exp(e) * stats.norm.pdf(x), cut, cut + 12
        )[0]
        low, high = (middle, high) if excess > delta else (low, middle)
    return low


def test_the_bound_of_a_mechanism_that_reveals_nothing_is_zero_or_nearly():
    for errors in (480, 500, 520):
        assert clopper_pearson(counts(errors, 1000, 1000 - errors, 1000)).epsilon == 0.0
    assert clopper_pearson(counts(5000, 10_000, 4900, 10_000)).epsilon < 0.02


# -- values


def test_each_rate_has_its_own_denominator():
    """500 runs on either side without errors give log(500/3.69) = 4.906; over all 1,000 it would be 5.6."""
    bound = clopper_pearson(counts(0, 500, 0, 500))
    assert bound.epsilon == pytest.approx(4.906, abs=5e-4)
    assert bound.largest == bound.epsilon
    assert clopper_pearson(counts(0, 5000, 0, 5000)).epsilon == pytest.approx(7.212, abs=5e-4)


def test_half_errors_show_no_leak_where_the_published_formula_showed_log_three():
    assert clopper_pearson(counts(5000, 10_000, 5000, 10_000)).epsilon == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize(
    "numbers", [(3, 100, 40, 200), (40, 200, 3, 100), (0, 50, 49, 50), (10, 400, 30, 300)]
)
def test_limits_are_those_of_scipy(numbers, delta):
    fp, n, fn, p = numbers
    a, b = (stats.binomtest(k, m).proportion_ci(0.95, method="exact").high for k, m in ((fp, n), (fn, p)))
    expected = max(0.0, math.log(max(1 - delta - b, 1e-300) / a), math.log(max(1 - delta - a, 1e-300) / b))
    assert clopper_pearson(counts(*numbers), delta=delta).epsilon == pytest.approx(expected, abs=1e-9)


def test_both_directions_count():
    one, other = clopper_pearson(counts(0, 1000, 500, 1000)), clopper_pearson(counts(500, 1000, 0, 1000))
    assert one.epsilon == pytest.approx(other.epsilon)
    assert one.epsilon > 4.5


@pytest.mark.parametrize("numbers", [(100, 500, 120, 500), (3, 200, 150, 300), (0, 100, 50, 100)])
def test_the_bayesian_quantile_agrees_with_sampling_its_posterior(numbers):
    """A million draws: the standard error of a 2.5% quantile is about 0.002."""
    fp, n, fn, p = numbers
    rng = np.random.default_rng(0)
    a, b = rng.beta(fp + 0.5, n - fp + 0.5, 10**6), rng.beta(fn + 0.5, p - fn + 0.5, 10**6)
    implied = [np.quantile(np.log((1 - one) / other), 0.025) for one, other in ((a, b), (b, a))]
    assert bayesian(counts(*numbers)).epsilon == pytest.approx(max(0.0, *implied), abs=0.01)


def test_the_gaussian_separation_is_that_of_the_limits():
    a = stats.binomtest(100, 1000).proportion_ci(0.95, method="exact").high
    expected = stats.norm.isf(a) - stats.norm.ppf(a)
    assert gaussian_separation(counts(100, 1000, 100, 1000)) == pytest.approx(expected)
    assert gaussian_separation(counts(600, 1000, 600, 1000)) == 0.0


@pytest.mark.parametrize(("v", "r", "epsilon"), [(0, 5, 0.3), (7, 10, 0.0), (60, 80, 1.0), (80, 80, 2.0)])
def test_the_p_value_of_one_run_is_a_binomial_tail(v, r, epsilon):
    q = 1 / (1 + math.exp(-epsilon))
    tail = stats.binom.sf(v - 1, r, q)
    assert one_run_p_value(v, r, 100, epsilon, 0.0) == pytest.approx(tail)
    extra = (
        max((stats.binom.cdf(v - 1, r, q) - stats.binom.cdf(v - i - 1, r, q)) / i for i in range(1, v + 1))
        if v
        else 0
    )
    assert one_run_p_value(v, r, 100, epsilon, 1e-4) == pytest.approx(min(1, tail + 200 * 1e-4 * extra))


def test_more_confidence_and_more_delta_show_less():
    c = counts(20, 500, 30, 500)
    for method in (clopper_pearson, bayesian):
        assert method(c, confidence=0.99).epsilon < method(c).epsilon
        assert method(c, delta=0.05).epsilon < method(c).epsilon


# -- requests that make no sense


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((6, 5, 0, 5), "false_positives <= negatives"),
        ((0, 0, 0, 5), "negatives to be a whole number >= 1"),
        ((0, 5, -1, 5), "false_negatives to be a whole number >= 0"),
    ],
)
def test_impossible_counts_are_refused(numbers, message):
    with pytest.raises(onedraw.InvalidInput, match=message):
        counts(*numbers)


def test_bad_requests_are_refused():
    c = counts(1, 5, 1, 5)
    for options, message in [
        ({"confidence": 0.3}, "0.5 <= confidence < 1"),
        ({"confidence": 1.0}, r"confidence in \[0, 1\)"),
        ({"delta": -0.1}, "delta in"),
    ]:
        with pytest.raises(onedraw.InvalidInput, match=message):
            clopper_pearson(c, **options)
    with pytest.raises(onedraw.InvalidInput, match="no epsilon at delta=0"):
        gaussian(c, delta=0.0)
    with pytest.raises(onedraw.InvalidInput, match="correct <= guesses <= canaries"):
        one_run(correct=5, guesses=4, canaries=10)
    with pytest.raises(onedraw.InvalidInput, match="NaN"):
        Counts.of(np.array([np.nan]), np.array([1.0]), 0.0)
    with pytest.raises(onedraw.InvalidInput, match="one a run"):
        best_threshold(np.zeros((2, 2)), np.zeros(2))
    with pytest.raises(onedraw.InvalidInput, match="at least 2 runs"):
        held_out_counts(np.zeros(1), np.zeros(5))


# -- another auditor


@pytest.mark.jax
def test_jax_privacy_agrees_on_the_same_scores():
    auditing = pytest.importorskip("jax_privacy.auditing")
    rng = np.random.default_rng(7)
    negatives, positives = rng.normal(size=400), rng.normal(1.0, size=500)
    auditor = auditing.CanaryScoreAuditor(positives, negatives)
    for threshold in (-0.5, 0.5, 1.7):
        for delta in (0.0, 1e-2):
            theirs = auditor.epsilon_clopper_pearson(
                0.05, delta, one_sided=False, threshold_strategy=auditing.Explicit(threshold)
            )
            ours = clopper_pearson(Counts.of(negatives, positives, threshold), delta=delta).epsilon
            assert ours == pytest.approx(theirs, abs=1e-6)
    for m, r, v, epsilon, delta in [
        (100, 50, 40, 0.7, 0.0),
        (1000, 300, 250, 1.1, 1e-5),
        (10, 10, 3, 0.1, 0.1),
    ]:
        assert one_run_p_value(v, r, m, epsilon, delta) == pytest.approx(
            auditing._one_run_p_value(m, r, v, epsilon, delta)
        )


def test_the_runs_that_choose_a_threshold_are_not_counted_again():
    rng = np.random.default_rng(8)
    negatives, positives = rng.normal(size=101), rng.normal(1.0, size=61)
    threshold, found = held_out_counts(negatives, positives)
    assert threshold == best_threshold(negatives[:33], positives[:20])
    assert found == Counts.of(negatives[33:], positives[20:], threshold)
    negatives[33:] += 1.0  # what comes later does not move the threshold
    assert held_out_counts(negatives, positives)[0] == threshold
