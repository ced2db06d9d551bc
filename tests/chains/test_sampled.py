# SPDX-License-Identifier: Apache-2.0
"""Barker's rule on thinned records: what its decisions are, cost, and leave alone."""

import math

import numpy as np
import pytest
from scipy import special, stats

import onedraw
from onedraw.chains import RandomWalk, Sensitivity, Steps, Thinned, run
from onedraw.chains.engine import Comparison, Move
from onedraw.families import Bernoulli
from onedraw.mechanisms import FastMH, PrivateBarker, Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records

PLANE = RegressionModel(family=Bernoulli(), features=("a", "b"))
ASKED = Request(epsilon=1.0, delta=1e-6)


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
    charged = mechanism._filter(mechanism._moved, mechanism.tuning.setting, mechanism._request()).sensitivity
    assert charged.multiple == pytest.approx(rows * ((2.0 if relation == "replace_one" else 1.0) + 0.3))
    assert mechanism._rule(mechanism._moved, mechanism.tuning.setting).per_record.multiple == 1.0


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
def test_a_thinned_decision_is_in_balance(decisions):
    """Acceptance of a move over that of its reverse is e^u, for strong thinning; 12,000 decisions each."""
    rng = np.random.default_rng(3)
    ratios = np.array([0.9, -0.4, 0.5, -0.2])
    rule = Thinned(per_record=Sensitivity(multiple=1.0, weight=1.0, width=1.0), overhead=3.0)
    forward, back = (decisions(rule, sign * ratios, 12_000, rng) for sign in (1.0, -1.0))
    error = math.sqrt((1 - forward) / (forward * 12_000) + (1 - back) / (back * 12_000))
    assert abs(math.log(forward / back) - ratios.sum()) < 5 * error


# -- the mechanisms


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
        rule = mechanism._rule(mechanism._moved, mechanism.tuning.setting)
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
