# SPDX-License-Identifier: Apache-2.0
"""Chains with Gaussian noise: penalty, leapfrog and Langevin steps keep their target and their price."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import special, stats

from onedraw.chains import (
    Always,
    DiagonalNormal,
    Langevin,
    NoisyLeapfrog,
    Penalty,
    RandomWalk,
    Sensitivity,
    Steps,
    run,
)
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli
from onedraw.mechanisms import PenaltyChain, PrivateHMC, PrivateSGLD, Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.privacy.gaussian import gaussian_delta, gaussian_parameter
from onedraw.privacy.subsampled import Sampling, spent_epsilon
from onedraw.records import Records

PLANE = RegressionModel(family=Bernoulli(), features=("a", "b"))
ASKED = Request(epsilon=1.0, delta=1e-6)
KINDS = (PenaltyChain, PrivateHMC, PrivateSGLD)


def calibrated(kind, request=ASKED, n=20_000, **options):
    return kind(feature_norm=3**0.5, first_stage=0.0, **options).calibrate(
        request, Shape(model=PLANE, num_records=n)
    )


class Counting(DiagonalNormal):
    """A flat or normal target that counts the looks at its gradient."""

    looks = 0

    def log_density_and_gradient(self, thetas):
        self.__class__.looks += 1
        return super().log_density_and_gradient(thetas)


class Ratios:
    """What a rule looks at: equal log ratios of moves of length 1."""

    def __init__(self, u, count):
        self.log_ratio, self.length, self.move = np.full(count, u), np.ones(count), self


def still(end, start, reference):
    """Whether chains from exact draws still have their law: the smallest of the p-values."""
    assert (end != start).any(axis=1).mean() > 0.5
    columns = [*range(end.shape[1])]
    values = [stats.ks_2samp(end[:, j], reference[:, j]).pvalue for j in columns]
    return min(values)


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [1, 2])
def test_the_penalty_keeps_the_posterior(dim, exact_draws):
    """4,000 chains, 25 steps with noise of standard deviation 1.5: false alarm 2e-6. Without the penalty the
    target is heated, and this fails."""
    posterior, start, reference = exact_draws(dim)
    rule = Penalty(sensitivity=Sensitivity(multiple=1.0, weight=1.0, width=1.5), mu=1.0)
    walk = RandomWalk(scales=np.full(dim, 2.0))
    rng = np.random.default_rng(1)
    chain = run(posterior, start, proposal=walk, rule=rule, meter=Steps(25), rng=rng)
    assert still(chain.states[-1], start, reference) > 1e-6


@pytest.mark.statistical
def test_the_noise_of_the_penalty_has_its_size():
    """Acceptance at four ratios against its closed form, 5 standard errors: false alarm 3e-6. Half the noise,
    uniform noise or none fail."""
    sd, count = 2.0, 100_000
    rule = Penalty(sensitivity=Sensitivity(multiple=1.0, weight=1.0, width=1.0), mu=1.0 / sd)
    rng = np.random.default_rng(0)
    for u in (-2.0, 0.0, 1.0, 3.0):
        m = u - 0.5 * sd**2
        p = special.ndtr(m / sd) + math.exp(m + 0.5 * sd**2) * special.ndtr(-sd - m / sd)
        share = rule.accepts(Ratios(u, count), rng).mean()
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / count)


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [1, 2])
def test_noisy_trajectories_keep_the_posterior(dim, exact_draws):
    """4,000 chains, 12 trajectories with strong noise: false alarm 2e-6."""
    posterior, start, reference = exact_draws(dim)
    proposal = NoisyLeapfrog(scales=np.full(dim, 1.5), step=0.6, count=3, noise=0.6)
    rule = Penalty(sensitivity=Sensitivity(multiple=1.0, weight=1.0, width=1.0), mu=1.0)
    rng = np.random.default_rng(2)
    chain = run(posterior, start, proposal=proposal, rule=rule, meter=Steps(12), rng=rng)
    assert still(chain.states[-1], start, reference) > 1e-6


@pytest.mark.statistical
def test_every_gradient_has_fresh_noise_of_the_size_charged_for():
    """On a flat target the end of a trajectory of 3 steps has variance 9 + noise^2 (9/4 + 4 + 1): within 5
    standard errors. Noise that is used again, or halved, fails."""
    proposal = NoisyLeapfrog(scales=np.ones(1), step=1.0, count=3, noise=2.0)
    flat = DiagonalNormal(np.array([1e12]))
    move = proposal.propose(flat, np.zeros((40_000, 1)), np.random.default_rng(0))
    expected = 9.0 + 4.0 * 7.25
    assert abs(move.states.var() / expected - 1.0) < 5 * math.sqrt(2 / 40_000)


@pytest.mark.parametrize("leapfrog", [1, 4])
def test_all_gradients_of_a_trajectory_are_paid_for(leapfrog):
    """Counted by the target: L + 1. What they and the ratios cost is all of the budget, and no more."""
    mechanism = calibrated(PrivateHMC, leapfrog=leapfrog)
    Counting.looks = 0
    chain = mechanism._run(
        Counting(np.array(mechanism.tuning.sds)), np.zeros((1, 3)), ASKED, np.random.default_rng(0)
    )
    steps = int(chain.steps[0])
    gradient, ratio = mechanism._parts(ASKED, steps)
    total = math.sqrt(Counting.looks * gradient**2 + steps * ratio**2)
    assert Counting.looks == steps * (leapfrog + 1)
    assert total == pytest.approx(gaussian_parameter(1.0, 1e-6), rel=1e-9)
    assert 0.99e-6 < gaussian_delta(total * (1 - 1e-9), 1.0) <= 1e-6


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_the_gradient_bound_is_never_exceeded_and_nearly_reached(relation):
    """One record changed, along one axis: halved or doubled this fails."""
    request = Request(epsilon=1.0, delta=1e-6, neighbours=relation)
    mechanism = calibrated(PrivateSGLD, request, n=None, weight=0.3, beta=2.0)
    bound, largest = mechanism._moved.gradient, 0.0
    rng = np.random.default_rng(0)
    for _ in range(300):
        theta = rng.normal(size=(1, 3)) * 0.7
        features = 9.0 * rng.choice([-1.0, 1.0], size=(2, 2))
        response = rng.integers(0, 2, 2).astype(float)
        if rng.random() < 0.5:
            features[1], response[1] = features[0], 1.0 - response[0]
        people = [slice(0, 1), slice(1, 2) if relation == "replace_one" else slice(0, 0)]
        slopes = [
            mechanism.target(
                Records(features=features[rows], response=response[rows])
            ).log_density_and_gradient(theta)[1]
            for rows in people
        ]
        moved = float(np.linalg.norm(slopes[0] - slopes[1]))
        assert moved <= bound * (1 + 1e-9)
        largest = max(largest, moved / bound)
    assert largest > 0.9


@pytest.mark.statistical
def test_langevin_steps_have_the_right_stationary_law():
    """Variances s^2/(1 - h/4) for normals of scale s, to 5 standard errors (13%): a drift of h has half."""
    rng = np.random.default_rng(0)
    step, chains = 0.05, 3000
    chain = run(
        DiagonalNormal(np.array([1.0, 3.0])),
        rng.normal(size=(chains, 2)) * [1.0, 3.0],
        proposal=Langevin(step=step, scales=np.array([1.0, 3.0])),
        rule=Always(),
        meter=Steps(300),
        rng=rng,
    )
    end = chain.states[-1]
    expected = np.array([1.0, 9.0]) / (1 - step / 4)
    np.testing.assert_allclose(end.var(axis=0), expected, rtol=5 * math.sqrt(2 / chains))
    assert (np.abs(end.mean(axis=0)) < 5 * np.sqrt(expected / chains)).all()


def test_the_noise_of_langevin_steps_is_what_the_accountant_asks_for(monkeypatch):
    """Against the privacy-loss distributions of dp-accounting, within 1% of epsilon: no more, no less."""
    pytest.importorskip("dp_accounting")
    monkeypatch.setattr("onedraw.mechanisms.private_sgld.LARGEST", 1e9)
    mechanism = calibrated(PrivateSGLD, steps=400, weight=1.0)
    sds, steps = np.array(mechanism.tuning.sds), mechanism.tuning.steps
    step = mechanism._step(sds, mechanism._moved, ASKED, steps)
    # In units of the scales. Replace-one moves a sum of vectors of this length by twice one of them.
    per_record = 0.5 * step * sds.max() * mechanism._moved.gradient / 2.0
    multiplier = math.sqrt(step) / per_record
    plan = Sampling(rate=1.0, steps=steps)
    spent = spent_epsilon(multiplier, 1e-6, plan, "replace_one", interval=1e-3)
    assert 0.99 < spent < 1.01


# -- Langevin steps that take a part of the records


def test_the_sampled_gradient_is_that_of_the_records_taken(exact_draws):
    """At rate 1 it is the gradient; else its mean is, to 5 standard errors, and its variance that of Poisson
    sampling: each record's slope squared times (1 - q)/q, to a fifth."""
    posterior, start, _ = exact_draws(2)
    theta, rng = start[:1], np.random.default_rng(0)
    exact = posterior.log_density_and_gradient(theta)[1]
    np.testing.assert_allclose(posterior.sampled_gradient(theta, 1.0, rng), exact)
    found = posterior.sampled_gradient(np.repeat(theta, 4000, axis=0), 0.3, rng)
    alone = [
        dataclasses.replace(
            posterior, features=posterior.features[i : i + 1], response=posterior.response[i : i + 1]
        )
        for i in range(posterior.num_records)
    ]
    slopes = [one.log_density_and_gradient(theta)[1] - one.prior.gradient(theta) for one in alone]
    variance = np.square(np.concatenate(slopes)).sum(axis=0) * 0.7 / 0.3
    assert (np.abs(found.mean(axis=0) - exact[0]) < 5 * np.sqrt(variance / 4000)).all()
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.2)


@pytest.mark.statistical
def test_sampled_langevin_steps_keep_the_posterior_as_steps_become_short(exact_draws):
    """1,000 chains from exact draws for 40 steps of h = 0.1 on half of the records: false alarm 1e-6. A drift
    of h for h/2, or records that are not counted 1/q times, fail."""
    posterior, start, reference = exact_draws(1)
    proposal = Langevin(step=0.1, scales=np.array([1.0]), rate=0.5)
    rng = np.random.default_rng(3)
    chain = run(posterior, start[:1000], proposal=proposal, rule=Always(), meter=Steps(40), rng=rng)
    assert still(chain.states[-1], start[:1000], reference) > 1e-6


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 2])
def test_sampled_langevin_steps_spend_what_dp_accounting_says(relation, rows, monkeypatch):
    """The noise multiplier of the steps that are made, for both relations: half or twice of it fail."""
    pytest.importorskip("dp_accounting")
    monkeypatch.setattr("onedraw.mechanisms.private_sgld.LARGEST", 1e9)
    request = Request(epsilon=1.0, delta=1e-6, neighbours=relation, rows_per_person=rows)
    mechanism = calibrated(PrivateSGLD, request, steps=300, weight=1.0, sampling_rate=0.1, num_records=20_000)
    sds, moved = np.array(mechanism.tuning.sds), mechanism._moved
    proposal, _ = mechanism._kernel((), sds, moved, request, 300)
    assert proposal.rate == 0.1
    # In units of the scales: what one record that is taken adds to a step, and the noise.
    per_record = 0.5 * proposal.step * sds.max() * (moved.weight * moved.slope / 0.1)
    plan = Sampling(rate=0.1, steps=300, rows_per_person=rows)
    spent = spent_epsilon(math.sqrt(proposal.step) / per_record, 1e-6, plan, relation, interval=1e-3)
    assert 0.98 < spent < 1.005


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_one_sampled_step_has_the_delta_that_is_claimed(relation, monkeypatch):
    """One record against its opposite, or none, at a place where their slopes are largest: the two laws are
    mixtures of two normals, and the hockey-stick divergence, by quadrature, comes near delta and not above.
    Replace-one is not two of add/remove: its pair has both records."""
    pytest.importorskip("dp_accounting")
    monkeypatch.setattr("onedraw.mechanisms.private_sgld.LARGEST", 1e9)
    model = RegressionModel(family=Bernoulli(), features=("a", "b"), fit_intercept=False)
    q, s = 0.3, 0.01
    options = {"weight": 0.5, "beta": 2.0, "sampling_rate": q, "num_records": 1, "steps": 1}
    mechanism = PrivateSGLD(feature_norm=1.0, start=(0.0, math.log(2.0) / s), **options).calibrate(
        Request(epsilon=1.0, delta=1e-3, neighbours=relation), Shape(model=model)
    )
    start = np.array([mechanism.start])
    proposal, _ = mechanism._kernel(
        (), np.array(mechanism.tuning.sds), mechanism._moved, mechanism._request(), 1
    )
    scale = proposal.scales[0] * math.sqrt(proposal.step)
    x, laws = np.linspace(-60, 60, 400_001), []
    for side in (1.0, -1.0) if relation == "replace_one" else (1.0, 0.0):
        features = np.array([[side * math.sqrt(1 - s**2), -s]])
        target = mechanism.target(Records(features=features, response=np.ones(1)))
        drift = target.log_density_and_gradient(start)[1][0, 0] / q
        mean = abs(side) * 0.5 * proposal.step * proposal.scales[0] ** 2 * drift / scale
        laws.append((1 - q) * stats.norm.pdf(x) + q * stats.norm.pdf(x, mean))
    found = [np.maximum(one - math.e * two, 0).sum() * (x[1] - x[0]) for one, two in (laws, laws[::-1])]
    assert 0.9e-3 < max(found) <= 1e-3 * (1 + 1e-6)


def test_a_sampling_rate_is_a_probability():
    with pytest.raises(InvalidInput, match=r"sampling_rate=1\.5"):
        calibrated(PrivateSGLD, sampling_rate=1.5)
    full, one = calibrated(PrivateSGLD), calibrated(PrivateSGLD, sampling_rate=1.0)
    assert full.tuning == one.tuning


def test_sampling_keeps_the_weight_with_a_part_of_the_passes():
    pytest.importorskip("dp_accounting")
    full, some = calibrated(PrivateSGLD), calibrated(PrivateSGLD, sampling_rate=0.1)
    assert some.tuning.weight > 0.9 * full.tuning.weight
    assert some.tuning.effective > 5.0
    step = some._kernel((), np.array(some.tuning.sds), some._moved, ASKED, some.tuning.steps)[0].step
    assert step < 0.2


@pytest.mark.parametrize("steps", [10, 500])
def test_the_penalty_spends_the_gaussian_curve(steps):
    rule = calibrated(PenaltyChain)._rule(Sensitivity(multiple=2.0, weight=0.1, width=1.0), ASKED, steps)
    total = rule.mu * math.sqrt(steps)
    assert 0.99e-6 < gaussian_delta(total, 1.0) <= 1e-6
    np.testing.assert_allclose(rule.sd(np.ones(1)), 0.2 / rule.mu)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_tells_the_effective_number_of_states(kind):
    """On the reference itself: the variance of the mean of the kept states, over 1,000 chains."""
    mechanism = calibrated(kind, Request(epsilon=2.0, delta=1e-6), most_passes=400)
    sds = np.array(mechanism.tuning.sds)
    rng = np.random.default_rng(0)
    start = sds * rng.normal(size=(1000, 3))
    chain = mechanism._run(DiagonalNormal(sds), start, mechanism._request(), rng)
    kept = chain.states[len(chain.states) // 4 :]
    effective = 1.0 / np.square(kept.mean(axis=0) / sds).mean()
    assert 0.5 < effective / mechanism.tuning.effective < 2.0
