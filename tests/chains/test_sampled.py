# SPDX-License-Identifier: Apache-2.0
"""Chains that look at a part of the records in a step: what their decisions are, cost, and leave alone."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import special, stats

import onedraw
from onedraw.chains import BatchBarker, RandomWalk, Sensitivity, Steps, Thinned, run
from onedraw.chains.engine import Comparison, Move
from onedraw.chains.minibatch import (
    MASSES,
    ORDERS,
    PLACES,
    batch_divergence,
    sampled_divergence,
    steps_allowed,
)
from onedraw.families import Bernoulli
from onedraw.mechanisms import FastMH, MinibatchBarker, PrivateBarker, Shape
from onedraw.model import RegressionModel
from onedraw.priors import Prior
from onedraw.privacy import Request
from onedraw.records import Records

PLANE = RegressionModel(family=Bernoulli(), features=("a", "b"))
ASKED = Request(epsilon=1.0, delta=1e-6)
J = np.arange(2.0, ORDERS[-1] + 1.0)


class Flat:
    """Records whose log ratios are given, under a flat prior."""

    weight, prior = 1.0, Prior(scale=1e9)

    def __init__(self, ratios):
        self.ratios, self.num_records = np.asarray(ratios, dtype=float), len(ratios)

    def record_losses(self, thetas, rows):
        return np.stack([-self.ratios[rows], np.zeros(len(rows))])


def decisions(rule, ratios, count, rng, chunk=2000):
    """The share of moves of length 1 that are made, of ``count``."""
    made = 0
    for _ in range(count // chunk):
        states = np.zeros((chunk, 1))
        move = Move(states=states, length=np.ones(chunk))
        comparison = Comparison(
            target=Flat(ratios), states=states, move=move, current=lambda: np.zeros(chunk)
        )
        made += rule.accepts(comparison, rng).sum()
    return made / (count // chunk * chunk)


# -- batches


def renyi(order, one, two):
    """Of N(mean, variance) from another, by quadrature."""
    x = np.linspace(-40, 40, 40_001)
    logs = [stats.norm.logpdf(x, mean, math.sqrt(variance)) for mean, variance in (one, two)]
    total = special.logsumexp(order * logs[0] + (1 - order) * logs[1]) + math.log(x[1] - x[0])
    return total / (order - 1)


@pytest.mark.parametrize("clip", [0.2, 1.0])
@pytest.mark.parametrize("order", [2, 6])
def test_the_divergence_of_a_batch_is_never_exceeded_and_nearly_reached(clip, order):
    """One of m ratios replaced, adversarial and random batches; halved or doubled this fails."""
    m, n = 60, 600
    limit = clip * math.sqrt(m) / n
    bound = float(batch_divergence(np.array([float(order)]), batch=m, part=m / n, clip=clip)[0])
    rng, largest = np.random.default_rng(0), 0.0
    others = [np.full(m - 1, limit), np.tile([limit, -limit], m)[: m - 1], np.zeros(m - 1)]
    others += [limit * rng.uniform(-1, 1, m - 1) for _ in range(3)]
    for other in others:
        for one, two in ((limit, -limit), (limit, 0.0), (-limit, limit)):
            laws = []
            for ratio in (one, two):
                ratios = np.append(other, ratio)
                laws.append((n * ratios.mean(), 2.0 - (1 - m / n) * n**2 * ratios.var() / m))
            assert 2.0 - clip**2 <= laws[0][1] <= 2.0
            found = renyi(order, *laws)
            assert found <= bound * (1 + 1e-9)
            largest = max(largest, found)
    assert largest > 0.6 * bound


def test_the_published_bound_has_its_value_and_is_looser():
    """Heikkila et al. 2019: 0.4686983 for batches of 100 at order 2."""

    def published(order, m):
        left = m - 5 * order
        return 5 / (2 * m) + math.log(2 * m / left) / (2 * (order - 1)) + 2 * order / left

    assert published(2, 100) == pytest.approx(0.4686983, abs=5e-8)
    for m in (100, 1000):
        for order in (2.0, 5.0, 15.0):
            ours = batch_divergence(np.array([order]), batch=m, part=0.01, clip=1.0)[0]
            assert 2 * order / m < ours < published(order, m)


def test_sampling_is_accounted_by_the_theorem():
    """Summed term by term for a Gaussian mechanism; dp-accounting, which has a better bound for Gaussians
    from order 3 on, agrees at order 2 and is never above."""
    sigma, q = 4.0, 0.05
    ours = dict(zip(ORDERS.tolist(), sampled_divergence(J / (2 * sigma**2), q), strict=True))

    def e(j):
        return j / (2 * sigma**2)

    for order in (2, 3, 7, 20):
        total = 1 + q**2 * math.comb(order, 2) * min(4 * math.expm1(e(2)), 2 * math.exp(e(2)))
        total += sum(2 * q**j * math.comb(order, j) * math.exp((j - 1) * e(j)) for j in range(3, order + 1))
        assert ours[order] == pytest.approx(math.log(total) / (order - 1), rel=1e-9)
    accounting = pytest.importorskip("dp_accounting")
    orders = [2.0, 3.0, 7.0, 20.0]
    relation = accounting.NeighboringRelation.REPLACE_ONE
    accountant = accounting.rdp.RdpAccountant(orders=orders, neighboring_relation=relation)
    event = accounting.SampledWithoutReplacementDpEvent(1000, 50, accounting.GaussianDpEvent(sigma))
    theirs = accountant.compose(event)._rdp
    assert ours[2] == pytest.approx(theirs[0], rel=1e-6)
    assert all(ours[int(order)] >= their * (1 - 1e-9) for order, their in zip(orders, theirs, strict=True))


@pytest.mark.parametrize("order", [2, 4, 8])
def test_sampling_never_costs_more_than_is_charged(order):
    """Mixtures with and without the replaced record, by quadrature. The theorem is loose: by 4 to 6 here, and
    by more with larger shares and orders."""
    m, n = 60, 6000
    whole = batch_divergence(J, batch=m, part=m / n, clip=1.0)
    bound = float(sampled_divergence(whole, m / n)[list(ORDERS).index(order)])
    shift, x = 2 / math.sqrt(m), np.linspace(-12, 12, 20_001)
    worst = 0.0
    for base in (-shift / 2, 0.0, shift / 2):
        laws = []
        for at in (-shift / 2, shift / 2):
            law = (1 - m / n) * stats.norm.pdf(x, base, 1) + m / n * stats.norm.pdf(x, at, 1)
            laws.append(np.log(law))
        total = special.logsumexp(order * laws[0] + (1 - order) * laws[1]) + math.log(x[1] - x[0])
        worst = max(worst, total / (order - 1))
    assert worst <= bound <= 6 * worst


def test_the_steps_that_are_allowed_keep_the_budget_and_use_it():
    plan = {"batch": 200, "part": 0.02, "clip": 0.5}
    steps = steps_allowed(epsilon=1.0, delta=1e-6, **plan)
    spent = sampled_divergence(batch_divergence(J, batch=200, part=0.02, clip=0.5), 0.02)

    def epsilon(count):
        conversion = np.log1p(-1 / ORDERS) - (math.log(1e-6) + np.log(ORDERS)) / (ORDERS - 1)
        return float((count * spent + conversion).min())

    assert 0.995 < epsilon(steps) <= 1.0 < epsilon(steps + 2)
    assert steps_allowed(epsilon=1e-3, delta=1e-6, **plan) == 0


def test_the_correction_makes_normal_noise_logistic():
    x = np.linspace(-20, 20, 4001)
    mass = MASSES / MASSES.sum()
    both = 0.5 * (special.ndtr((x[:, None] - PLACES) / math.sqrt(2)))
    both += 0.5 * special.ndtr((x[:, None] + PLACES) / math.sqrt(2))
    assert np.abs(both @ mass - special.expit(x)).max() < 1e-3


@pytest.mark.statistical
@pytest.mark.parametrize("batch", [100, 400])
def test_a_batch_decides_like_barkers_rule(batch):
    """4,000 decisions at four log ratios, 5 standard errors and a hundredth: false alarm 4e-6 at most.
    Without taking the variance of the batch out, or with half of the noise, this fails."""
    rng = np.random.default_rng(0)
    limit = math.sqrt(batch) / 400
    for u in (-2.0, -0.5, 0.0, 1.5):
        ratios = 0.6 * limit * rng.choice([-1.0, 1.0], 400)
        ratios += u / 400 - ratios.mean()
        p = special.expit(u)
        share = decisions(BatchBarker(batch=batch, clip=1.0), ratios, 4000, rng)
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / 4000) + 0.01


@pytest.mark.statistical
def test_the_noise_of_a_batch_has_the_size_that_is_charged_for():
    """A whole batch of equal ratios: the share is known. 6,000 decisions, 5 standard errors: false alarm
    1e-6; with noise N(0, 1) it is 0.80 for 0.73."""
    rng = np.random.default_rng(1)
    mass = MASSES / MASSES.sum()
    p = 0.5 * sum(
        m * (special.ndtr((1 - v) / 2**0.5) + special.ndtr((1 + v) / 2**0.5))
        for m, v in zip(mass, PLACES, strict=True)
    )
    share = decisions(BatchBarker(batch=400, clip=1.0), np.full(400, 1 / 400), 6000, rng)
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / 6000)


# -- thinned records


def test_the_log_odds_of_a_thinned_step_keep_to_their_interval_and_use_it():
    """By summation over the counts of one record, at many places and ratios: replaced, width (2 + x) b;
    removed, (1 + x) b. Halved or doubled this fails."""
    counts = np.arange(0, 400)
    for b, x in ((0.02, 0.2), (0.3, 0.2), (0.5, 1.0)):
        least, widest, removed = b / x, 0.0, 0.0
        for a in (-30.0, -3.0, -0.5, 0.0, 0.5, 3.0, 30.0):
            odds = []
            for f in np.linspace(0.0, b, 9):
                mass = stats.poisson.pmf(counts, least + f)
                u = a + counts * math.log((least + b - f) / (least + f))
                accepted, rejected = mass @ special.expit(u), mass @ special.expit(-u)
                odds.append(math.log(accepted) - math.log(rejected))
            widest = max(widest, max(odds) - min(odds))
            removed = max(removed, max(abs(odd - a) for odd in odds))
        assert 0.7 * (2 + x) * b < widest <= (2 + x) * b * (1 + 1e-6)
        assert 0.9 * (1 + x) * b < removed <= (1 + x) * b * (1 + 1e-6)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_thinned_step_is_charged_its_width(relation, rows):
    request = Request(epsilon=1.0, delta=1e-5, neighbours=relation, rows_per_person=rows)
    mechanism = FastMH(feature_norm=2.0, overhead=0.3, weight=0.01).calibrate(request, Shape(model=PLANE))
    charged = mechanism._filter(mechanism._moved, mechanism._request()).sensitivity
    assert charged.multiple == pytest.approx(rows * ((2.0 if relation == "replace_one" else 1.0) + 0.3))
    assert mechanism._rule(mechanism._moved).per_record.multiple == 1.0


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [1, 2])
def test_thinned_records_keep_the_posterior_exactly(dim, exact_draws):
    """2,000 chains from exact draws, 8 steps with strong thinning: false alarm 1e-6 each. With the kept
    records weighted once each, or the reverse probabilities left out, this fails."""
    posterior, start, reference = exact_draws(dim)
    start = start[:2000]
    rule = Thinned(per_record=Sensitivity(multiple=1.0, weight=1.0, width=2.0), overhead=2.0)
    walk = RandomWalk(scales=np.full(dim, 2.0))
    rng = np.random.default_rng(1)
    chain = run(posterior, start, proposal=walk, rule=rule, meter=Steps(8), rng=rng)
    end = chain.states[-1]
    assert (end != start).any(axis=1).mean() > 0.7
    for j in range(dim):
        assert stats.ks_2samp(end[:, j], reference[:, j]).pvalue > 1e-6


@pytest.mark.statistical
def test_a_thinned_decision_is_in_balance():
    """Acceptance of a move over that of its reverse is e^u, for strong thinning; 12,000 decisions each."""
    rng = np.random.default_rng(3)
    ratios = np.array([0.9, -0.4, 0.5, -0.2])
    rule = Thinned(per_record=Sensitivity(multiple=1.0, weight=1.0, width=1.0), overhead=3.0)
    forward, back = (decisions(rule, sign * ratios, 12_000, rng) for sign in (1.0, -1.0))
    error = math.sqrt((1 - forward) / (forward * 12_000) + (1 - back) / (back * 12_000))
    assert abs(math.log(forward / back) - ratios.sum()) < 5 * error


def test_the_walk_never_goes_beyond_its_longest_step():
    free, short = (RandomWalk(scales=np.array([1.0, 3.0]), longest=most) for most in (math.inf, 0.7))
    moves = [w.propose(None, np.zeros((500, 2)), np.random.default_rng(0)) for w in (free, short)]
    assert moves[1].length.max() <= 0.7 * (1 + 1e-12)
    cosines = (moves[0].states * moves[1].states).sum(axis=1) / (moves[0].length * moves[1].length)
    np.testing.assert_allclose(cosines, 1.0)


# -- the mechanisms


def test_moves_of_a_batch_chain_never_need_the_clip():
    shape = Shape(model=PLANE, num_records=5000)
    for norm in (3**0.5, None):
        mechanism = MinibatchBarker(feature_norm=norm).calibrate(ASKED, shape)
        walk, rule = mechanism._kernel(
            mechanism.tuning.setting, np.array(mechanism.tuning.sds), mechanism._moved
        )
        bound = dataclasses.replace(mechanism._moved, multiple=1.0)(np.array([min(walk.longest, 1e9)]))[0]
        assert bound <= rule.clip * math.sqrt(rule.batch) / 5000 * (1 + 1e-8)
        assert rule.clip <= 1.0


def test_a_batch_chain_makes_the_steps_that_the_budget_pays_for():
    mechanism = MinibatchBarker(feature_norm=3**0.5, first_stage=0.0, batch=50)
    mechanism = mechanism.calibrate(ASKED, Shape(model=PLANE, num_records=1000))
    rng = np.random.default_rng(0)
    records = Records(features=rng.uniform(-1, 1, (1000, 2)), response=rng.integers(0, 2, 1000).astype(float))
    chain = mechanism._run(mechanism.target(records), np.zeros((1, 3)), ASKED, rng)
    rule = mechanism._kernel(mechanism.tuning.setting, np.array(mechanism.tuning.sds), mechanism._moved)[1]
    allowed = steps_allowed(epsilon=1.0, delta=1e-6, batch=50, part=0.05, clip=rule.clip)
    assert int(chain.steps[0]) == min(mechanism.tuning.steps, allowed)


def test_the_number_of_records_must_be_the_one_accounted_for():
    with pytest.raises(onedraw.CalibrationError, match="needs the number of records"):
        MinibatchBarker().calibrate(ASKED, Shape(model=PLANE))
    mechanism = MinibatchBarker(num_records=50).calibrate(ASKED, Shape(model=PLANE))
    with pytest.raises(onedraw.InvalidInput, match=r"the 50 records .* got 49"):
        mechanism.check_records(Records(features=np.zeros((49, 2)), response=np.zeros(49)))


def test_thinning_is_refused_where_it_gains_nothing_and_saves_work_where_it_does():
    shape = Shape(model=PLANE, num_records=10_000)
    with pytest.raises(onedraw.CalibrationError, match=r"12 times as many .* gives no gain"):
        FastMH(weight=1.0, beta=2.0).calibrate(Request(epsilon=50.0), shape)
    fast, full = (kind(feature_norm=3**0.5).calibrate(ASKED, shape) for kind in (FastMH, PrivateBarker))
    assert fast.work * fast.tuning.steps < 0.5 * full.tuning.steps
    assert fast.tuning.weight > 0.5 * full.tuning.weight


def test_what_is_looked_at_does_not_depend_on_the_data():
    """The same numbers of records are read, whatever they are."""
    mechanism = FastMH(feature_norm=3**0.5, first_stage=0.0).calibrate(
        ASKED, Shape(model=PLANE, num_records=300)
    )
    looked = set()
    for y in (0.0, 1.0):
        target = mechanism.target(Records(features=np.full((300, 2), 0.5 - y), response=np.full(300, y)))
        counts = [np.random.default_rng([7, step]) for step in range(4)]
        rule = mechanism._rule(mechanism._moved)
        for rng in counts:
            states = np.zeros((1, 3))
            move = Move(states=states + 0.3, length=np.array([0.3 * 3**0.5]))
            rule.accepts(
                Comparison(target=target, states=states, move=move, current=lambda: np.zeros(1)), rng
            )
        looked.add(target.passes[0])
    assert len(looked) == 1


@pytest.mark.statistical
def test_the_plan_tells_the_effective_number_of_states():
    """On records of the reference: the variance of the mean of the kept states over 40 chains is within a
    factor of 2.5 of the plan's."""
    n = 3000
    mechanism = FastMH(feature_norm=3**0.5, first_stage=0.0, most_passes=100)
    mechanism = mechanism.calibrate(Request(epsilon=4.0, delta=1e-6), Shape(model=PLANE, num_records=n))
    rng = np.random.default_rng(0)
    records = Records(features=rng.uniform(-1, 1, (n, 2)), response=rng.integers(0, 2, n).astype(float))
    target = mechanism.target(records)
    mode, covariance = np.zeros(3), np.eye(3)
    for _ in range(20):
        _, gradient, hessian = target.local_quadratic(mode)
        mode, covariance = mode + np.linalg.solve(hessian, gradient), np.linalg.inv(hessian)
    start = rng.multivariate_normal(mode, covariance, size=40)
    chain = mechanism._run(target, start, mechanism._request(), rng)
    kept = chain.states[len(chain.states) // 4 :]
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    effective = 1.0 / np.square((kept.mean(axis=0) - mode) @ white.T).mean()
    assert 0.4 < effective / mechanism.tuning.effective < 2.5
    assert "independent states" in mechanism.outlook
