# SPDX-License-Identifier: Apache-2.0
"""Barker's rule on batches of the records: what its decisions are, and what they cost."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

import onedraw
from onedraw.chains import BatchBarker, RandomWalk, Sensitivity, Steps, run
from onedraw.chains.minibatch import BatchPrice, corrected
from onedraw.families import Bernoulli
from onedraw.mechanisms import MinibatchBarker, PrivateBarker, Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records

PLANE = RegressionModel(family=Bernoulli(), features=("a", "b"))
ASKED = Request(epsilon=1.0, delta=1e-6)
ONE = np.ones(1)


def price_of(b, m, n):
    return BatchPrice(per_record=Sensitivity(multiple=1.0, weight=b, width=1.0), batch=m, count=n)


def log_odds(t, variance):
    """Written down once more."""
    v, bend = np.minimum(0.5, variance), np.tanh(t / 2)
    return t + v * bend / 2 + v**2 * bend * (1 - bend**2) / 4


def probabilities(ratios, m, prior):
    """Of a move and of none, summed over all batches."""
    n = len(ratios)
    batches = np.array(list(itertools.combinations(ratios, m)))
    u = log_odds(prior + n * batches.mean(axis=1), (1 - m / n) * n**2 * batches.var(axis=1) / m)
    return special.expit(u).mean(), special.expit(-u).mean()


# -- privacy


@pytest.mark.parametrize(
    ("m", "n", "part"), [(3, 7, 0.2), (3, 7, 1.5), (1, 8, 0.3), (5, 5, 0.4), (4, 9, 0.05)]
)
def test_the_range_of_a_step_is_never_exceeded_and_nearly_reached(m, n, part):
    """One of n ratios replaced, adversarial and random others, log odds by enumeration of all batches. The
    bound has room for variances that are large where they move most, which no data have: half of it is
    exceeded everywhere, and twice the small ones would not be reached."""
    b = part * math.sqrt(m) / n
    bound = float(price_of(b, m, n)(ONE)[0])
    rng, largest = np.random.default_rng(0), 0.0
    others = [np.full(n - 1, b), np.full(n - 1, -b), np.tile([b, -b], n)[: n - 1], np.zeros(n - 1)]
    others += [b * rng.uniform(-1, 1, n - 1) for _ in range(3)]
    for other, prior in itertools.product(others, (-30.0, -8.0, -2.0, 0.0, 1.0, 8.0, 30.0)):
        found = []
        for ratio in (b, 0.3 * b, -b):
            move, stay = probabilities(np.append(other, ratio), m, prior)
            found.append(math.log(move) - math.log(stay))
        assert max(found) - min(found) <= bound * (1 + 1e-9)
        largest = max(largest, max(found) - min(found))
    assert largest > (0.85 if part < 0.35 else 0.55) * bound


def test_mixtures_of_odds_are_no_farther_apart_than_their_terms():
    """The inequalities of the proof, at random: two averages of odds at most eta apart, and three mixed."""
    rng = np.random.default_rng(1)

    def odds(p):
        return np.log(p) - np.log1p(-p)

    largest = 0.0
    for _ in range(2000):
        eta, q, size = rng.uniform(0.01, 3), rng.uniform(0.01, 1), rng.integers(1, 4)
        low = rng.normal(scale=4, size=size)
        weights = rng.dirichlet(np.ones(size))
        terms = low + eta * rng.choice([0.0, rng.random(), 1.0], size=(3, size))
        p0, p1, p2 = special.expit(terms) @ weights
        assert abs(odds(p1) - odds(p2)) <= eta * (1 + 1e-9)
        apart = abs(odds((1 - q) * p0 + q * p1) - odds((1 - q) * p0 + q * p2))
        bound = math.log1p(q * math.expm1(eta))
        assert apart <= bound * (1 + 1e-9)
        largest = max(largest, apart / bound)
    assert largest > 0.95


def test_the_published_bound_has_its_value_and_a_decision_tells_less():
    """Heikkila et al. 2019: 0.4686983 for batches of 100 at order 2 and b = sqrt(m)/n, before sampling. The
    divergences of a decision, over all places, are by quadrature nowhere above range^2 order/8."""

    def published(order, m):
        left = m - 5 * order
        return 5 / (2 * m) + math.log(2 * m / left) / (2 * (order - 1)) + 2 * order / left

    assert published(2, 100) == pytest.approx(0.4686983, abs=5e-8)
    for m, order in itertools.product((100, 1000), (2, 5, 15)):
        n = 10**6
        eta = float(price_of(math.sqrt(m) / n, m, n).of_a_batch(ONE)[0])
        one, two = special.expit(np.linspace(-8, 8, 2001) + eta), special.expit(np.linspace(-8, 8, 2001))
        sums = one**order * two ** (1 - order) + (1 - one) ** order * (1 - two) ** (1 - order)
        ours = float(np.log(sums).max() / (order - 1))
        assert 0.8 * order * eta**2 / 8 < ours <= order * eta**2 / 8
        assert (5 if order > 2 else 15) * ours < published(order, m)


def test_small_steps_cost_what_they_cost_on_all_records():
    """2 b, for every batch; one of all records costs that whatever b is."""
    for m in (50, 500, 5000):
        assert price_of(1e-6, m, 5000)(ONE)[0] == pytest.approx(2e-6, rel=0.03)
    assert price_of(0.3, 40, 40)(ONE)[0] == pytest.approx(0.6)
    assert price_of(1e3, 5, 1000)(ONE)[0] > 1e5


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_chain_makes_the_steps_that_the_budget_pays_for(delta):
    """Lengths and their prices are added up here, from the walk and the formula."""
    request = Request(epsilon=1.0, delta=delta)
    mechanism = MinibatchBarker(feature_norm=3**0.5, first_stage=0.0, batch=50, steps=500, weight=0.02)
    mechanism = mechanism.calibrate(request, Shape(model=PLANE, num_records=1000))
    rng = np.random.default_rng(0)
    records = Records(features=rng.uniform(-1, 1, (1000, 2)), response=rng.integers(0, 2, 1000).astype(float))
    chain = mechanism._run(mechanism.target(records), np.zeros((1, 3)), request, rng)
    meter, moved = mechanism._filter(mechanism._moved, mechanism.tuning.setting, request), mechanism._moved
    lengths = np.linspace(0.01, 2.0, 9)
    b = 0.02 * np.minimum(moved.width, moved.slope * lengths)
    for length, bound in zip(lengths, b, strict=True):
        assert meter.sensitivity(length[None])[0] == pytest.approx(
            price_of(bound, 50, 1000)(ONE)[0], rel=1e-6
        )
    made = int(chain.steps[0])
    assert 0 < made < 500
    assert 0.5 < made / meter.expected_steps(np.full(1, np.linalg.norm(mechanism._proposal().scales))) < 2.0


# -- the target


def test_the_correction_makes_normal_noise_disappear():
    """By quadrature: the average probability under a normal log ratio is Barker's, to 0.0007 at the largest
    variance; without the correction it is off by 0.02."""
    at, mass = np.polynomial.hermite_e.hermegauss(80)
    mass /= mass.sum()
    for v, most in ((0.05, 1e-5), (0.25, 1.2e-4), (0.5, 7e-4)):
        worst = plain = 0.0
        for u in np.linspace(-10, 10, 81):
            t = u + math.sqrt(v) * at
            average = special.expit([corrected(float(x), v) for x in t]) @ mass
            worst = max(worst, abs(average - special.expit(u)))
            plain = max(plain, abs(special.expit(t) @ mass - special.expit(u)))
        assert worst < most < 0.1 * plain


@pytest.mark.statistical
@pytest.mark.parametrize("batch", [100, 400])
def test_a_batch_decides_like_barkers_rule(batch, decisions):
    """4,000 decisions at four log ratios, 5 standard errors and a three hundredth: false alarm 4e-6 at most.
    With batches of another size than that of the sum, or ratios counted twice, this fails."""
    rng = np.random.default_rng(0)
    for u in (-2.0, -0.5, 0.0, 1.5):
        ratios = 0.6 * math.sqrt(batch) / 400 * rng.choice([-1.0, 1.0], 400)
        ratios += u / 400 - ratios.mean()
        p = special.expit(u)
        bound = Sensitivity(multiple=1.0, weight=1.0, width=1.0)
        share = decisions(BatchBarker(per_record=bound, batch=batch), ratios, 4000, rng)
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / 4000) + 0.003


@pytest.mark.statistical
def test_a_decision_has_the_enumerated_probability(decisions):
    """12,000 decisions on 7 ratios with strong noise, 5 standard errors: false alarm 6e-7 each."""
    ratios = np.array([0.9, -0.4, 0.5, -0.2, 0.1, 0.3, -0.9])
    rule = BatchBarker(per_record=Sensitivity(multiple=1.0, weight=1.0, width=1.0), batch=3)
    for sign in (1.0, -1.0):
        p = probabilities(sign * ratios, 3, 0.0)[0]
        share = decisions(rule, sign * ratios, 12_000, np.random.default_rng(2))
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / 12_000)


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [1, 2])
def test_batches_keep_the_posterior_nearly(dim, exact_draws):
    """2,000 chains from exact draws, 8 steps on half of the records, with moves short enough for the rule:
    false alarm 1e-6 each."""
    posterior, start, reference = exact_draws(dim)
    start = start[:2000]
    rule = BatchBarker(per_record=Sensitivity(multiple=1.0, weight=1.0, width=2.0), batch=6)
    walk, rng = RandomWalk(scales=np.full(dim, 1.0)), np.random.default_rng(1)
    end = run(posterior, start, proposal=walk, rule=rule, meter=Steps(8), rng=rng).states[-1]
    assert (end != start).any(axis=1).mean() > 0.7
    for j in range(dim):
        assert stats.ks_2samp(end[:, j], reference[:, j]).pvalue > 1e-6


# -- the mechanism


def test_batches_are_large_enough_for_their_noise_on_the_reference():
    """With records like the reference, the variance of a batch's log ratio is one that is corrected for."""
    n = 5000
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (n, 2))
    records = Records(
        features=features, response=(rng.random(n) < special.expit(features[:, 0])).astype(float)
    )
    mechanism = MinibatchBarker(feature_norm=3**0.5).calibrate(ASKED, Shape(model=PLANE, num_records=n))
    m, target = int(mechanism.tuning.setting[1]), mechanism.target(records)
    variances = []
    for _ in range(100):
        ends = np.stack([np.zeros(3), mechanism._proposal().scales * rng.standard_normal(3)])
        losses = target.record_losses(ends, np.arange(n))
        variances.append((1 - m / n) * n**2 * (target.weight * (losses[1] - losses[0])).var() / m)
    assert m <= n / 2
    assert np.mean(variances) < 0.6


def test_a_chain_on_batches_has_nearly_the_weight_of_one_on_all_records():
    """Where it had 0.0045 for 0.125 by the theorem on sampling that it was accounted by before."""
    shape = Shape(model=PLANE, num_records=10_000)
    some, full = (
        kind(feature_norm=3**0.5).calibrate(ASKED, shape) for kind in (MinibatchBarker, PrivateBarker)
    )
    assert some.tuning.weight > 0.6 * full.tuning.weight
    pure = MinibatchBarker(feature_norm=3**0.5).calibrate(Request(epsilon=1.0), shape)
    assert pure.guarantee.delta == 0.0


def test_the_number_of_records_must_be_the_one_accounted_for():
    with pytest.raises(onedraw.CalibrationError, match="needs the number of records"):
        MinibatchBarker().calibrate(ASKED, Shape(model=PLANE))
    mechanism = MinibatchBarker(num_records=50).calibrate(ASKED, Shape(model=PLANE))
    with pytest.raises(onedraw.InvalidInput, match=r"the 50 records .* got 49"):
        mechanism.check_records(Records(features=np.zeros((49, 2)), response=np.zeros(49)))
    with pytest.raises(onedraw.CalibrationError, match="smaller weight"):
        MinibatchBarker(weight=1.0, batch=2).calibrate(ASKED, Shape(model=PLANE, num_records=10_000))
