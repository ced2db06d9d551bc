# SPDX-License-Identifier: Apache-2.0
"""The optimal attack: right densities, the success that quadrature predicts, and valid bounds from it."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import integrate

import onedraw
from onedraw.audit import (
    Attack,
    Counts,
    Finding,
    NoiseDensity,
    clopper_pearson,
    membership_attack,
    neighbours_of,
    output_laws,
    paper_pair,
)
from onedraw.audit.attack import log_ratio
from onedraw.audit.densities import output_density
from onedraw.audit.report import claimed_trade_off, measured_trade_off
from onedraw.families import Bernoulli, Gaussian
from onedraw.mechanisms import AdaSSP, LipschitzGibbs, OnePosterior, OutputPerturbation, Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.samplers import RejectionSampler

SLOPE = RegressionModel(family=Bernoulli(), features=("x",), fit_intercept=False)
LOGISTIC = RegressionModel(family=Bernoulli(), features=("x",))
ROUNDS = 10_000
FOUR_ERRORS = 4 * 0.5 / math.sqrt(ROUNDS)
"""Four standard errors of a success rate: exceeded with probability 6e-5."""


def calibrated(mechanism, model=SLOPE, **request):
    return mechanism.calibrate(Request(**{"epsilon": 1.0, **request}), Shape(model=model))


def one_posterior(model=SLOPE, *, beta="auto", **request):
    return calibrated(OnePosterior(beta=beta, sampler=RejectionSampler()), model, **request)


@pytest.mark.statistical
@pytest.mark.parametrize("model", [SLOPE, LOGISTIC], ids=["slope", "intercept"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0, 7.0, 10.0, 20.0])
def test_the_papers_attack_succeeds_as_often_as_quadrature_predicts(epsilon, model):
    """False alarm 6e-5 for each of twelve."""
    mechanism = one_posterior(model, epsilon=epsilon, beta="paper")
    found = membership_attack(mechanism, paper_pair(), rounds=ROUNDS, random_state=3)
    exact = output_laws(mechanism, paper_pair())
    assert found.rounds == ROUNDS
    assert found.success_rate == pytest.approx(exact.success_rate, abs=FOUR_ERRORS)
    assert clopper_pearson(found.counts()).epsilon <= epsilon / 2  # all that this pair can show


@pytest.mark.statistical
def test_the_score_is_the_log_ratio_also_where_normalisers_differ():
    """An asymmetric pair; the Monte Carlo normaliser of 20,000 draws has a standard error of 0.004."""
    pair = neighbours_of([([3.0], 0.0)] * 3, ([3.0], 1.0), ([3.0], 0.0))
    mechanism = one_posterior(epsilon=2.0)
    posteriors = [mechanism.posterior(data) for data in (pair.first, pair.second)]
    reference = RejectionSampler().sample(posteriors[0], 20_000, np.random.default_rng(0)).values
    laws = output_laws(mechanism, pair)
    score = log_ratio(*posteriors, reference)
    np.testing.assert_allclose(score(laws.nodes), -laws.loss, atol=0.02)
    assert np.abs(laws.loss).max() > 1.2  # more than the half that a symmetric pair shows


@pytest.mark.statistical
def test_a_posterior_with_a_delta_is_attacked_too():
    mechanism = calibrated(LipschitzGibbs(feature_norm=1.0), epsilon=2.0, delta=1e-5)
    pair = neighbours_of([], ([1.0], 1.0), ([1.0], 0.0))
    found = membership_attack(mechanism, pair, rounds=ROUNDS, random_state=4)
    assert found.success_rate == pytest.approx(output_laws(mechanism, pair).success_rate, abs=FOUR_ERRORS)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["spherical", "laplace"])
def test_output_perturbation_is_attacked_by_its_noise(noise):
    """In one dimension both laws are Laplace: the best guess is right 1 - exp(-gap/(2 scale))/2 of the time.

    2,000 rounds; false alarm 6e-5.
    """
    uncalibrated = OutputPerturbation(feature_norm=1.0, regularisation=0.1, noise=noise)
    mechanism = calibrated(uncalibrated, epsilon=10.0)
    found = membership_attack(mechanism, paper_pair(), rounds=2000, random_state=5)
    first, second = (output_density(mechanism, data) for data in (paper_pair().first, paper_pair().second))
    assert first.location == pytest.approx(-second.location, rel=1e-6)
    gap = abs(float(first.location[0] - second.location[0]))
    expected = 1 - 0.5 * math.exp(-0.5 * gap / first.scale)
    assert found.success_rate == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(2000))
    assert clopper_pearson(found.counts()).epsilon < 10.0


@pytest.mark.parametrize("noise", ["spherical", "laplace"])
def test_noise_densities_integrate_to_one(noise):
    density = NoiseDensity(location=np.array([0.5, -1.0]), scale=0.4, noise=noise)
    total = integrate.dblquad(
        lambda y, x: math.exp(density.log_density(np.array([[x, y]]))[0]), -7, 8, -8.5, 6.5, epsabs=1e-4
    )[0]
    assert total == pytest.approx(1.0, abs=2e-3)


@pytest.mark.statistical
def test_a_doubled_weight_is_caught_by_the_attack():
    """Claimed 1, true 4 (the weight is four times too large): the bound is above 1 by far."""
    claim = one_posterior(epsilon=1.0)
    broken = dataclasses.replace(
        claim, calibration=dataclasses.replace(claim.calibration, weight=4.0 * claim.calibration.weight)
    )
    pair = neighbours_of([([50.0], 0.0)] * 3, ([50.0], 1.0), ([50.0], 0.0))
    attack = membership_attack(broken, pair, rounds=20_000, random_state=6)
    attack = dataclasses.replace(attack, threshold=None)
    finding = Finding(name="broken", claimed=claim.guarantee, attack=attack)
    assert finding.verdict == "contradicted"
    sound = membership_attack(claim, pair, rounds=20_000, random_state=6)
    assert not Finding(name="sound", claimed=claim.guarantee, attack=sound).contradicted


def test_a_mechanism_without_a_density_is_pointed_to_the_black_box():
    model = RegressionModel(family=Gaussian(), features=("x",))
    mechanism = calibrated(AdaSSP(feature_norm=1.0, response_bound=1.0), model, delta=1e-5)
    with pytest.raises(onedraw.InvalidInput, match="AdaSSP is not known here: use black_box_audit"):
        membership_attack(mechanism, paper_pair())
    with pytest.raises(onedraw.InvalidInput, match="rounds to be a whole number >= 2"):
        membership_attack(one_posterior(), paper_pair(), rounds=1)


def test_a_seed_repeats_an_attack():
    one, two = (
        membership_attack(one_posterior(), paper_pair(), rounds=100, random_state=9) for _ in range(2)
    )
    np.testing.assert_array_equal(one.negatives, two.negatives)


# -- findings and their report


def test_a_finding_needs_evidence_and_never_says_private():
    with pytest.raises(onedraw.InvalidInput, match="an attack, exact laws, or both"):
        Finding(name="x", claimed=onedraw.Guarantee(epsilon=1.0))
    exact = output_laws(one_posterior(), paper_pair())
    finding = Finding(name="x", claimed=onedraw.Guarantee(epsilon=0.4), laws=exact)
    assert (finding.verdict, finding.largest) == ("contradicted", pytest.approx(0.5))
    assert Finding(name="x", claimed=onedraw.Guarantee(epsilon=0.6), laws=exact).verdict == "not contradicted"
    with pytest.raises(onedraw.InvalidInput, match="no attack"):
        _ = finding.lower_bound
    assert finding.to_dict()["success_rate"] is None


def test_the_measured_trade_off_stays_above_the_claimed_one_for_a_sound_mechanism():
    """Randomised response of epsilon 1, exactly in proportion."""
    truthful = 1 / (1 + math.exp(-1.0))
    share = round(10_000 * truthful)
    scores = np.repeat([0.0, 1.0], [share, 10_000 - share])
    finding = Finding(
        name="rr",
        claimed=onedraw.Guarantee(epsilon=1.0),
        attack=Attack(negatives=scores, positives=1 - scores),
    )
    false_positive, false_negative = measured_trade_off(finding)
    least = claimed_trade_off(1.0, 0.0, false_positive)
    assert (false_negative >= least - 1e-3).all()
    assert np.abs(false_negative - least).max() < 1e-3  # and reaches it: the corners are the worst case
    assert claimed_trade_off(1.0, 0.1, np.array([0.0, 0.95])).tolist() == pytest.approx([0.9, 0.0])


def test_the_picture_shows_what_was_found():
    pytest.importorskip("matplotlib")
    from onedraw.audit import table
    from onedraw.reports.audit import draw_audit
    from onedraw.reports.canvas import as_bytes

    mechanism = one_posterior()
    attack = membership_attack(mechanism, paper_pair(), rounds=500, random_state=0)
    findings = [
        Finding(
            name=name,
            claimed=mechanism.guarantee,
            attack=attack,
            laws=output_laws(mechanism, paper_pair()) if name == "a" else None,
        )
        for name in "ab"
    ]
    one, three = draw_audit(findings), draw_audit(findings, accuracy=[0.5, 0.7])
    assert (len(one.axes), len(three.axes)) == (1, 3)
    assert len(as_bytes(three, "png")) > len(as_bytes(one, "png")) > 10_000
    measured = [
        line.get_xydata() for line in three.axes[2].get_lines() if line.get_label().startswith("a, ε = ")
    ]
    rates = np.column_stack(measured_trade_off(findings[0]))
    np.testing.assert_array_equal(measured[0], rates)
    assert three.axes[0].get_lines()[0].get_xydata().tolist() == [[0.5, attack.success_rate]]
    assert len(table(findings).splitlines()) == 3


def test_counts_from_fixed_thresholds():
    attack = Attack(negatives=np.array([0.0, 1.0, 2.0]), positives=np.array([1.0, 3.0]), threshold=1.0)
    assert attack.counts() == Counts(false_positives=1, negatives=3, false_negatives=1, positives=2)
