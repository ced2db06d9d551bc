# SPDX-License-Identifier: Apache-2.0
"""Barker's rule is what it says, leaves the posterior alone, and costs what is charged for it."""

import dataclasses

import numpy as np
import pytest
from scipy import special, stats

import onedraw
from onedraw.audit import neighbours_of
from onedraw.audit.chain_steps import one_step_laws
from onedraw.chains import Barker, DiagonalNormal, Filter, RandomWalk, Sensitivity, Steps, run
from onedraw.chains.tuning import kept_states
from onedraw.families import Bernoulli
from onedraw.mechanisms import PrivateBarker, Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.privacy.composition import bounded_range_delta
from onedraw.records import Records

MODEL = RegressionModel(family=Bernoulli(), features=("a",), fit_intercept=False)


@dataclasses.dataclass
class Fixed:
    """What a rule looks at: log ratios, and lengths of moves."""

    log_ratio: np.ndarray

    @property
    def move(self):
        return self

    @property
    def length(self):
        return np.ones(len(self.log_ratio))


@pytest.mark.statistical
def test_the_rule_is_logistic_in_the_log_ratio():
    """100,000 decisions at each of seven ratios, 5 standard errors: false alarm 4e-6. min(1, e^u) fails."""
    rng = np.random.default_rng(0)
    for u in (-4.0, -1.0, -0.2, 0.0, 0.3, 1.0, 4.0):
        share = Barker().accepts(Fixed(np.full(100_000, u)), rng).mean()
        p = special.expit(u)
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / 100_000)


def test_a_decision_has_bounded_range():
    """Both log probabilities move by at most Delta, together by exactly |u - u'|."""
    u, moved = np.meshgrid(np.linspace(-8, 8, 81), np.linspace(-2, 2, 41))
    accepted = special.log_expit(u + moved) - special.log_expit(u)
    rejected = special.log_expit(-u - moved) - special.log_expit(-u)
    assert (np.abs(accepted) <= np.abs(moved) + 1e-12).all()
    assert (np.abs(rejected) <= np.abs(moved) + 1e-12).all()
    np.testing.assert_allclose(accepted - rejected, moved, atol=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [1, 2])
def test_the_posterior_is_invariant(dim, exact_draws):
    """4,000 chains from exact draws, 25 steps, against 40,000 other exact draws: false alarm 1e-6 each."""
    posterior, start, reference = exact_draws(dim)
    walk = RandomWalk(scales=np.full(dim, 2.0))
    chain = run(posterior, start, proposal=walk, rule=Barker(), meter=Steps(25), rng=np.random.default_rng(1))
    end = chain.states[-1]
    assert (end != start).any(axis=1).mean() > 0.9
    for j in range(dim):
        assert stats.ks_2samp(end[:, j], reference[:, j]).pvalue > 1e-6
    assert stats.ks_2samp(end.prod(axis=1), reference.prod(axis=1)).pvalue > 1e-6


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_the_sensitivity_is_never_exceeded_and_nearly_reached(relation):
    """Pairs of records along the step: |u - u'| comes within 10% of Delta; halved or doubled this fails."""
    mechanism = PrivateBarker(feature_norm=2.0, beta=2.0, weight=0.3)
    mechanism = mechanism.calibrate(Request(epsilon=1.0, delta=1e-5, neighbours=relation), Shape(model=MODEL))
    moved, largest = mechanism._moved, 0.0
    rng = np.random.default_rng(0)
    for _ in range(400):
        state, step = rng.normal(size=(1, 1)) * 2, rng.normal(size=(1, 1)) * rng.choice([0.01, 0.3, 5.0])
        features = rng.choice([-9.0, 9.0, 0.1], size=(2, 1))
        response = rng.integers(0, 2, 2).astype(float)
        people = [slice(0, 1), slice(1, 2) if relation == "replace_one" else slice(0, 0)]
        targets = [
            mechanism.target(Records(features=features[rows], response=response[rows])) for rows in people
        ]
        ratios = [float(t.log_density(state + step)[0] - t.log_density(state)[0]) for t in targets]
        bound = float(moved(np.linalg.norm(step, axis=1))[0])
        assert abs(ratios[0] - ratios[1]) <= bound * (1 + 1e-9)
        largest = max(largest, abs(ratios[0] - ratios[1]) / bound)
    assert largest > 0.9


@pytest.mark.parametrize("rows", [1, 3])
def test_a_person_with_more_rows_counts_as_often(rows):
    request = Request(epsilon=1.0, delta=1e-5, rows_per_person=rows)
    mechanism = PrivateBarker(feature_norm=2.0, beta=2.0, weight=0.1).calibrate(request, Shape(model=MODEL))
    assert mechanism._moved.multiple == 2.0 * rows


@pytest.mark.parametrize(
    ("epsilon", "delta", "width"), [(1.0, 1e-6, 0.02), (0.5, 1e-5, 0.01), (5.0, 1e-6, 0.1)]
)
def test_the_filter_admits_as_many_steps_as_are_private_and_hardly_fewer(epsilon, delta, width):
    """Against the exact curve of equal two-point losses. With Delta^2/16 for Delta^2/8 the admitted steps
    break delta; with Delta^2/4 they are half as many as could be."""
    meter = Filter.planned(
        epsilon=epsilon, delta=delta, sensitivity=Sensitivity(multiple=1.0, weight=width, width=1.0)
    ).fresh(100_000)
    admitted = 0
    while meter.admits(np.ones(1))[0]:
        admitted += 1
    assert bounded_range_delta(width, draws=admitted, epsilon=epsilon) <= delta
    assert bounded_range_delta(width, draws=int(1.3 * admitted), epsilon=epsilon) > delta
    assert not meter.admits(np.zeros(1))[0]  # stopped for good


def test_the_filter_counts_lengths_and_keeps_to_epsilon_without_delta():
    moved = Sensitivity(multiple=2.0, weight=0.5, width=1.0, slope=0.1)
    meter = Filter.planned(epsilon=1.0, delta=0.0, sensitivity=moved).fresh(100, chains=2)
    assert [meter.admits(np.array([4.0, 100.0])).tolist() for _ in range(3)] == [
        [True, False],
        [True, False],
        [False, False],
    ]
    np.testing.assert_allclose(moved(np.array([0.0, 2.0, 1e9])), [0.0, 0.2, 1.0], rtol=1e-8)


@pytest.mark.parametrize("loud", [False, True])
def test_one_step_by_enumeration_keeps_its_epsilon_and_uses_it(loud):
    """A crowd of 40 holds the start far from likely; a doubled weight breaks the claim."""
    mechanism = PrivateBarker(steps=1, first_stage=0.0, start=(3.0,), beta=2.0)
    mechanism = mechanism.calibrate(Request(epsilon=1.0), Shape(model=MODEL))
    if loud:
        tuned = dataclasses.replace(mechanism.tuning, weight=2.0 * mechanism.tuning.weight)
        mechanism = dataclasses.replace(mechanism, tuned=tuned)
    found = max(
        one_step_laws(
            mechanism, neighbours_of([([50.0], side)] * crowd, ([50.0], 1.0), ([50.0], 0.0))
        ).epsilon()
        for crowd in (0, 2, 40)
        for side in (0.0, 1.0)
    )
    assert 1.8 < found < 2.0 if loud else 0.9 < found <= 1.0


def test_what_decides_the_number_of_steps_is_not_the_data():
    mechanism = PrivateBarker(feature_norm=1.0).calibrate(
        Request(epsilon=1.0, delta=1e-5), Shape(model=MODEL, num_records=50)
    )
    rng = np.random.default_rng(0)
    lengths = set()
    for y in (0.0, 1.0):
        target = mechanism.target(Records(features=rng.normal(size=(50, 1)), response=np.full(50, y)))
        chain = mechanism._run(target, np.zeros((1, 1)), mechanism._request(), np.random.default_rng(5))
        lengths.add(int(chain.steps[0]))
    assert len(lengths) == 1


@pytest.mark.statistical
def test_the_plan_tells_the_effective_number_of_states():
    """On the reference itself: the variance of the mean of the kept states, over 2,000 chains."""
    shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=20_000)
    mechanism = PrivateBarker(feature_norm=3**0.5, most_passes=600)
    mechanism = mechanism.calibrate(Request(epsilon=2.0, delta=1e-6), shape)
    sds = np.array(mechanism.tuning.sds)
    rng = np.random.default_rng(0)
    start = sds * rng.normal(size=(2000, 3))
    chain = mechanism._run(DiagonalNormal(sds), start, mechanism._request(), rng)
    kept = chain.states[len(chain.states) // 4 :]
    effective = 1.0 / np.square(kept.mean(axis=0) / sds).mean()
    assert 0.6 < effective / mechanism.tuning.effective < 1.6
    assert f"{mechanism.tuning.effective:.3g} independent states" in mechanism.outlook


def test_the_first_stage_is_paid_from_the_same_epsilon():
    request = Request(epsilon=1.0, delta=1e-5)
    staged, plain, started = (
        PrivateBarker(feature_norm=1.0, **options).calibrate(request, Shape(model=MODEL))
        for options in ({"first_stage": 0.25}, {"first_stage": 0.0}, {"start": (0.5,)})
    )
    assert staged._request().epsilon == 0.75
    assert plain._request().epsilon == started._request().epsilon == 1.0
    assert staged.guarantee == plain.guarantee == request.guarantee()
    records = Records(features=np.ones((3, 1)), response=np.ones(3))
    rng = np.random.default_rng(0)
    assert plain._started(records, rng).tolist() == [0.0]
    assert started._started(records, rng).tolist() == [0.5]
    assert staged._started(records, rng)[0] not in (0.0, 0.5)


def test_options_that_cannot_be_are_refused():
    request = Request(epsilon=1.0)
    for options, message in (
        ({"first_stage": 1.0}, "first_stage, a share"),
        ({"start": (1.0, 2.0)}, "1 coefficients and intercepts of the model, got 2"),
        ({"weight": 1e6}, "can make 0 steps"),
    ):
        with pytest.raises(onedraw.InvalidInput, match=message):
            PrivateBarker(**options).calibrate(request, Shape(model=MODEL))


def test_released_states_are_spread_over_the_chain_behind_the_burn_in():
    assert kept_states(100, 1).tolist() == [100]
    assert kept_states(100, 3).tolist() == [50, 75, 100]
    assert len(set(kept_states(8, 6).tolist())) == 6
