# SPDX-License-Identifier: Apache-2.0
"""Noisy gradients: the accountant against integrals, noise and clip as measured, fits at large epsilon."""

import dataclasses
import inspect
import json
import math

import numpy as np
import pytest
from scipy import optimize, special, stats
from sklearn.linear_model import LogisticRegression

from onedraw import Release
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.families import Bernoulli, Categorical, Gaussian
from onedraw.mechanisms import Mechanism, OnePosterior, Shape
from onedraw.model import NetworkModel
from onedraw.nn import DPSGD, DPVI, BetaSGD, NetworkDraw, ProgramDraw
from onedraw.nn.beta_sgd import slope_bound
from onedraw.nn.objectives import NetworkLoss, PointObjective
from onedraw.nn.training import Run, poisson_batch, train
from onedraw.privacy import Request
from onedraw.privacy.guarantee import NEIGHBOURS
from onedraw.privacy.subsampled import Sampling, noise_multiplier, spent_epsilon
from onedraw.private import Private
from onedraw.publishing import make_plan, publish
from onedraw.records import Records

jax = pytest.importorskip("jax")
pytest.importorskip("jax_privacy")
pytestmark = pytest.mark.jax

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(1000, 2))
ODDS = 3.0 * X[:, 0] - 1.0
BINARY = Records(features=X, response=(RNG.random(1000) < special.expit(ODDS)).astype(float))


def network(features=("a", "b"), hidden=(), classes=2, **options):
    """A network for so many classes, or for a regression with a floor of 0.1."""
    family = {0: Gaussian(scale_floor=0.1), 2: Bernoulli(), 3: Categorical(num_classes=3)}[classes]
    labels = tuple(range(classes)) if classes else None
    return NetworkModel(
        family=family, features=features, hidden_layer_sizes=hidden, classes=labels, **options
    )


TWO, THREE, LINE = network(), network(classes=3), network(classes=0)
TANH = network(hidden=(2,), activation="tanh")


def planned(mechanism, model, records=None, *, epsilon=1.0, delta=1e-5, **terms):
    """The plan of a release from so many records, or from a number that is not known."""
    request = Request(epsilon=epsilon, delta=delta, **terms)
    return make_plan(request, mechanism, Shape(model=model, num_records=records))


def calibrated(mechanism, model, records=None, **terms):
    return planned(mechanism, model, records, **terms).mechanism


def released(mechanism, records, model, *, seed=0, **terms):
    plan = planned(mechanism, model, len(records), **terms)
    return publish(plan, lambda: Private(records), random_state=seed)


def gaussian_delta(mu, epsilon):
    """The curve of N(0, 1) against N(mu, 1) [Balle & Wang 2018]."""
    return stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


def hockey_stick(weights, means, other_weights, other_means, sigma, epsilon):
    """The integral of (P - e^epsilon Q)_+ for two mixtures of N(mean, sigma^2), by a fine sum."""
    t = np.linspace(-12 * sigma - 3, 12 * sigma + 3, 100_001)
    p = sum(w * stats.norm.pdf(t, mean, sigma) for w, mean in zip(weights, means, strict=True))
    q = sum(w * stats.norm.pdf(t, mean, sigma) for w, mean in zip(other_weights, other_means, strict=True))
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum() * (t[1] - t[0]))


# -- the accountant


@pytest.mark.parametrize(("neighbours", "moved"), [("add_remove", 1.0), ("replace_one", 2.0)])
@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (16, 1), (4, 3)])
def test_full_batches_are_the_gaussian_mechanism(neighbours, moved, steps, rows):
    """mu = c m sqrt(T)/z: the exact z, at most 0.3% more."""
    mu = optimize.brentq(lambda mu: gaussian_delta(mu, 1.0) - 1e-5, 0.01, 5.0, xtol=1e-12)
    exact = moved * rows * math.sqrt(steps) / mu
    found = noise_multiplier(1.0, 1e-5, Sampling(rate=1.0, steps=steps, rows_per_person=rows), neighbours)
    assert exact <= found <= 1.003 * exact


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(("rate", "sigma", "delta"), [(0.1, 1.0, 1e-3), (0.5, 0.7, 1e-5), (0.02, 2.0, 1e-4)])
def test_one_sampled_step_matches_the_integral(neighbours, rate, sigma, delta):
    epsilon = spent_epsilon(sigma, delta, Sampling(rate=rate, steps=1), neighbours)
    mixture = (1 - rate, rate)
    if neighbours == "replace_one":
        exact = hockey_stick(mixture, (0, 1), mixture, (0, -1), sigma, epsilon)
    else:
        ways = [(mixture, (0, 1), (1,), (0,)), ((1,), (0,), mixture, (0, 1))]
        exact = max(hockey_stick(*way, sigma, epsilon) for way in ways)
    assert 0.98 * delta <= exact <= delta * (1 + 1e-6)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_thirty_sampled_steps_match_simulation(neighbours):
    """E_P (1 - e^(epsilon - L))_+ over 400,000 simulated sums L of 30 privacy losses, P the costlier order.

    The accountant may lie 1% above the truth and 5 standard errors away: false alarm below 1e-6.
    """
    rate, sigma, delta, rng = 0.2, 1.5, 1e-2, np.random.default_rng(1)
    epsilon = spent_epsilon(sigma, delta, Sampling(rate=rate, steps=30), neighbours)
    loss = np.zeros(400_000)
    for _ in range(30):
        draw = sigma * rng.standard_normal(len(loss)) + (rng.random(len(loss)) < rate)
        ratio = np.exp((draw - 0.5) / sigma**2)  # N(1) over N(0)
        loss += np.log1p(rate * (ratio - 1))
        if neighbours == "replace_one":
            loss -= np.log1p(rate * (np.exp(-1 / sigma**2) / ratio - 1))
    excess = np.maximum(-np.expm1(epsilon - loss), 0.0)
    error = 5 * excess.std() / math.sqrt(len(loss))
    assert 0.98 * delta - error <= excess.mean() <= delta + error


def test_a_published_value_is_not_exceeded():
    """Abadi et al. 2016: q = 0.01, sigma = 4, 10^4 steps are (1.26, 1e-5)-private by moments.

    Their bound is reproduced (moments of whole orders), and ours lies between it and the central limit.
    """
    q, sigma, steps = 0.01, 4.0, 10_000
    published = math.inf
    for order in range(2, 64):
        k = np.arange(order + 1)
        terms = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
        terms += k * math.log(q) + (order - k) * math.log1p(-q) + k * (k - 1) / (2 * sigma**2)
        moments = steps * special.logsumexp(terms) / (order - 1)
        published = min(published, moments - math.log(1e-5) / (order - 1))
    assert published == pytest.approx(1.26, abs=0.005)
    mu = q * math.sqrt(steps * math.expm1(1 / sigma**2))
    limit = optimize.brentq(lambda epsilon: gaussian_delta(mu, epsilon) - 1e-5, 0.01, 5.0)
    spent = spent_epsilon(sigma, 1e-5, Sampling(rate=q, steps=steps), "add_remove", interval=2e-4)
    assert 0.99 * limit <= spent <= published


def test_replacement_pair_dominates_every_other_pair_of_records():
    """Random gradients within the clip, and a grid of epsilons: none beats +1 against -1."""
    rng, rate, sigma = np.random.default_rng(2), 0.3, 0.8
    mixture = (1 - rate, rate)
    for epsilon in (-0.5, 0.0, 0.2, 0.6):
        worst = hockey_stick(mixture, (0, 1), mixture, (0, -1), sigma, epsilon)
        for one, other in rng.uniform(-1, 1, size=(5, 2)):
            assert hockey_stick(mixture, (0, one), mixture, (0, other), sigma, epsilon) <= worst


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(("sigma", "delta"), [(3.0, 1e-3), (0.1, 0.3)], ids=["much noise", "little noise"])
def test_several_rows_of_a_person_are_covered(neighbours, sigma, delta):
    """Two rows come alone or together, with their gradients aligned: the exact mixture spends less.

    A third of the epsilon would not do with much noise. With little, what counts is whether the person is
    there at all: with probability 0.36 and not 0.2, so no epsilon = 0 at delta = 0.3.
    """
    weights = stats.binom.pmf([0, 1, 2], 2, 0.2)
    other = (weights, (0, -1, -2)) if neighbours == "replace_one" else ((1,), (0,))
    epsilon = spent_epsilon(sigma, delta, Sampling(rate=0.2, steps=1, rows_per_person=2), neighbours)
    assert hockey_stick(weights, (0, 1, 2), *other, sigma, epsilon) <= delta
    less = epsilon / 3 if sigma > 1 else 0.0
    assert hockey_stick(weights, (0, 1, 2), *other, sigma, less) > delta


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(("epsilon", "rate", "steps"), [(0.2, 0.1, 140), (5.0, 0.05, 380), (30.0, 1.0, 44)])
def test_calibrated_noise_spends_what_was_promised(neighbours, epsilon, rate, steps):
    sampling = Sampling(rate=rate, steps=steps)
    found = noise_multiplier(epsilon, 1e-5, sampling, neighbours)
    assert 0.99 * epsilon <= spent_epsilon(found, 1e-5, sampling, neighbours) <= 1.001 * epsilon


# -- batches, noise and clip


def test_every_record_joins_a_batch_independently():
    """20,000 batches of 12 records at rate 0.3: shares within 5 sd, and so the covariance of each pair.

    78 comparisons at 5 sd: false alarm below 1e-4.
    """
    rng, rate, batches = np.random.default_rng(3), 0.3, 20_000
    joined = np.zeros((batches, 12))
    for row in joined:
        row[poisson_batch(rng, 12, rate)] = 1.0
    spread = rate * (1 - rate)
    assert np.abs(joined.mean(axis=0) - rate).max() <= 5 * math.sqrt(spread / batches)
    covariance = np.cov(joined.T)[np.triu_indices(12, 1)]
    assert np.abs(covariance).max() <= 5 * spread / math.sqrt(batches)
    assert len(poisson_batch(rng, 0, rate)) == 0


def test_noise_has_the_calibrated_standard_deviation():
    """No records, one step of plain SGD: minus the noise over the batch size, in 4,001 coordinates.

    The empirical sd is within 5 of its standard errors (5.6%) and a KS test does not reject at 1e-6.
    """
    model = network(tuple(f"x{i}" for i in range(4000)))
    mechanism = DPSGD(num_records=50, batch_size=50, epochs=1, optimiser="sgd", learning_rate=0.5, clip=3.0)
    nobody = Records(features=np.zeros((0, 4000)), response=np.zeros(0))
    values = np.array(released(mechanism, nobody, model, seed=4).draws[0])
    mu = optimize.brentq(lambda mu: gaussian_delta(mu, 1.0) - 1e-5, 0.01, 5.0)
    expected = 0.5 * (2 * 3.0 / mu) / 50  # replace-one: a record moves the sum by at most 2 * clip
    assert abs(values.std() / expected - 1) <= 5 / math.sqrt(2 * 4001) + 0.003
    assert stats.kstest(values / expected, "norm").pvalue > 1e-6


def noiseless(clip, records):
    sampling = Sampling(rate=1.0, steps=1)
    return Run(sampling=sampling, clip=clip, noise=0.0, expected=records, optimiser="sgd", learning_rate=1.0)


def moved(model, data, run, beta=None):
    """How far one noiseless step of SGD from 0 goes, (p,)."""
    objective = PointObjective(loss=NetworkLoss.of(model, beta))
    return -train(objective, np.zeros(model.dim), data, run, np.random.default_rng(0)) * run.expected


def test_every_step_draws_a_new_batch_at_the_accounted_rate_and_new_noise():
    """How far 200 runs of 9 tiny steps go is the sum of 9 batch sizes, and of 9 noises.

    Each record pulls the bias by 1/2, as the steps are too small to change that; the other weight sees noise
    alone. Means within 5 standard errors, standard deviations within 5 of theirs (25%): false alarm 1e-5.
    """
    records, rate, steps, runs, noise, learning_rate = 300, 0.3, 9, 200, 2.0, 1e-9
    data = Records(features=np.zeros((records, 1)), response=np.zeros(records))
    objective = PointObjective(loss=NetworkLoss.of(network(("a",)), None))
    rng = np.random.default_rng(5)
    run = Run(
        sampling=Sampling(rate=rate, steps=steps),
        clip=1.0,
        noise=noise,
        expected=rate * records,
        optimiser="sgd",
        learning_rate=learning_rate,
    )
    ends = np.array([train(objective, np.zeros(2), data, run, rng) for _ in range(runs)])
    noises, pulls = -ends.T * run.expected / learning_rate
    taken, joined = steps * rate * records, steps * records * rate * (1 - rate)
    spread = math.sqrt(joined / 4 + steps * noise**2)
    assert abs(pulls.mean() - taken / 2) <= 5 * spread / math.sqrt(runs)
    assert abs(pulls.std() / spread - 1) <= 5 / math.sqrt(2 * runs)
    assert abs(noises.std() / (math.sqrt(steps) * noise) - 1) <= 5 / math.sqrt(2 * runs)


def test_sum_of_gradients_is_the_clipped_one_by_hand_in_pieces_too():
    """50 records where 12 are declared: five pieces, the last of them padded, and none is lost."""
    data = Records(features=3 * X[:50], response=BINARY.response[:50])
    design = np.column_stack([data.features, np.ones(50)])
    gradients = (0.5 - data.response)[:, None] * design
    lengths = np.linalg.norm(gradients, axis=1)
    assert 5 < (lengths > 1.0).sum() < 45
    by_hand = (gradients * np.minimum(1.0, 1.0 / lengths)[:, None]).sum(axis=0)
    run = noiseless(1.0, 12)
    assert run.physical == 12
    np.testing.assert_allclose(moved(TWO, data, run), by_hand, rtol=2e-6)


def test_a_clipped_gradient_does_not_grow_with_its_record():
    def of(length):
        return moved(TWO, Records(features=np.array([[length, 0.0]]), response=np.ones(1)), noiseless(1.0, 1))

    near, far = of(1e6), of(1e12)
    np.testing.assert_allclose(near, far, atol=2e-6)
    assert 0.999 < np.linalg.norm(far) <= 1.0


@pytest.mark.parametrize("model", [TWO, THREE, LINE], ids=["two classes", "three classes", "regression"])
def test_no_record_moves_a_sum_beyond_the_clip_whatever_its_numbers(model):
    for size in (0.0, 1.0, 1e5, 1e15, 1e300):
        record = Records(features=np.full((1, 2), -size), response=np.array([1.0]))
        step = moved(model, record, noiseless(0.5, 1))
        assert np.isfinite(step).all()
        assert np.linalg.norm(step) <= 0.5


def test_one_full_batch_step_is_exactly_as_private_as_promised():
    """Worst neighbours: the same long feature vector with either label. Quadrature of the density ratio.

    The two releases are N(c, s^2) and N(-c, s^2) along that vector; delta(epsilon) must be the one asked for.
    Half the noise, or a sensitivity of C in the place of 2C, would leave several times as much.
    """
    mechanism = DPSGD(batch_size=4, epochs=1, clip=1.0, optimiser="sgd")
    run = calibrated(mechanism, TWO, 4, delta=1e-3).run
    steps = []
    for label in (0.0, 1.0):
        features, response = np.vstack([X[:3], [[1e6, 0.0]]]), np.array([0.0, 1.0, 1.0, label])
        steps.append(moved(TWO, Records(features=features, response=response), noiseless(1.0, 4)))
    distance = np.linalg.norm(steps[1] - steps[0]) / run.noise
    exact = hockey_stick((1,), (0,), (1,), (distance,), 1.0, 1.0)
    assert 0.98e-3 <= exact <= 1e-3
    assert hockey_stick((1,), (0,), (1,), (2 * distance,), 1.0, 1.0) > 10e-3


# -- the mechanism


def test_paper_preset_is_the_printed_schedule_with_the_right_sampling_rate():
    """14 + floor(epsilon) epochs of batches of 100: rate 100/n, whatever the number of features."""
    for n, rate, steps in [(1000, 0.1, 15 * 10), (50, 1.0, 15), (150, 100 / 150, 15 * 2)]:
        for options, public in (({}, n), ({"num_records": n}, None), ({"num_records": n}, 77)):
            mechanism = calibrated(DPSGD(preset="paper", **options), TWO, public, epsilon=1.9)
            assert (mechanism.sampling.rate, mechanism.sampling.steps) == (rate, steps)
    assert (mechanism.run.learning_rate, mechanism.run.clip, mechanism.optimiser) == (1e-2, 1.0, "adam")


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("rows", [1, 3])
def test_guarantee_is_asked_for_and_stated_under_every_relation(neighbours, rows):
    terms = {"epsilon": 2.0, "neighbours": neighbours, "rows_per_person": rows}
    mechanism = calibrated(DPSGD(num_records=400, epochs=2), TWO, 1000, **terms)
    release = released(DPSGD(num_records=400, epochs=2), BINARY, TWO, **terms)
    assert release.guarantee == mechanism.guarantee
    assert (release.guarantee.epsilon, release.guarantee.delta) == (2.0, 1e-5)
    public = neighbours == "replace_one" and rows == 1
    assert release.num_records == (1000 if public else None)
    assert any("num_records=400 was declared" in line for line in release.assumptions) == (not public)
    spent = spent_epsilon(mechanism.noise_multiplier, 1e-5, mechanism.sampling, neighbours)
    assert mechanism.sampling.rows_per_person == rows
    assert 0.99 * 2 <= spent <= 1.001 * 2


@pytest.mark.parametrize(
    ("neighbours", "rows"), [("add_remove", 1), ("add_remove", 2), ("replace_one", 2)], ids=str
)
def test_a_private_number_of_records_never_sets_the_schedule(neighbours, rows):
    """The plan does not know it, so without a declared number there is none; with one, n changes nothing."""
    terms = {"neighbours": neighbours, "rows_per_person": rows}
    with pytest.raises(InvalidInput, match=r"DPSGD needs num_records: .*fixed before the data are seen"):
        planned(DPSGD(), TWO, 1000, **terms)
    descriptions = [calibrated(DPSGD(num_records=250, epochs=1), TWO, n, **terms).made for n in (10, 1000)]
    assert descriptions[0] == descriptions[1]


def test_release_holds_the_last_parameters_and_public_numbers_only():
    release = released(DPSGD(num_records=100, epochs=1), BINARY, TWO)
    mirrored = Records(features=-X, response=1 - BINARY.response)
    other = released(DPSGD(num_records=100, epochs=1), mirrored, TWO, seed=1)
    kept, kept_other = json.loads(release.to_json()), json.loads(other.to_json())
    assert kept["draws"] != kept_other["draws"]
    for content in (kept, kept_other):
        for field in ("draws", "parameters", "digest"):
            del content[field]
    assert kept == kept_other
    assert release.evidence.level == "accounted"
    assert Release.from_json(release.to_json()) == release


def test_seed_repeats_a_release_and_its_absence_does_not():
    mechanism = DPSGD(num_records=100, epochs=1)
    first, second, free, other = (released(mechanism, BINARY, TWO, seed=seed) for seed in (3, 3, None, None))
    assert first == second
    assert free.draws != other.draws
    assert (first.seeded, free.seeded) == (True, False)


def test_residual_scale_stays_above_its_floor():
    """A response without residuals pulls the scale down to the floor and not below."""
    exact = Records(features=X, response=X[:, 0].copy())
    mechanism = DPSGD(epochs=30, learning_rate=0.1, clip=5.0)
    release = released(mechanism, exact, LINE, epsilon=500.0)
    assert 0.1 <= release.draws[0][-1] < 0.2
    raised = released(dataclasses.replace(mechanism, noise_floor=0.4), exact, LINE, epsilon=500.0)
    assert raised.model.scale_floor == 0.4
    assert 0.4 <= raised.draws[0][-1] < 0.5


def test_extreme_records_still_give_a_finite_release():
    """Nothing that a record holds may suppress a release, which anyone could observe."""
    hostile = Records(features=np.array([[1e300, -1e300], [0.0, 1e-300]]), response=np.array([1e300, -1e300]))
    release = released(DPSGD(optimiser="sgd", learning_rate=1e6, clip=1e3), hostile, LINE)
    assert np.isfinite(release.draws).all()


# -- utility


def test_large_epsilon_recovers_logistic_regression():
    """Noise and the last steps' jitter leave less than 0.15; the standard errors are about as large."""
    mechanism = DPSGD(epochs=80, batch_size=250, learning_rate=0.05, clip=3.0)
    release = released(mechanism, BINARY, TWO, epsilon=1000.0)
    exact = LogisticRegression(C=np.inf, tol=1e-8).fit(X, BINARY.response)
    np.testing.assert_allclose(release.draws[0], [*exact.coef_[0], *exact.intercept_], atol=0.15)


def test_large_epsilon_recovers_three_classes():
    codes = np.digitize(X[:, 0] + 0.5 * RNG.standard_normal(1000), [-0.4, 0.4]).astype(float)
    mechanism = DPSGD(epochs=300, batch_size=1000, learning_rate=0.05, clip=4.0)
    release = released(mechanism, Records(features=X, response=codes), THREE, epsilon=1000.0)
    outputs = THREE.outputs(np.array(release.draws), X)[0] @ THREE.family.contrasts.T
    exact = LogisticRegression(C=np.inf, tol=1e-8).fit(X, codes).predict_proba(X)
    np.testing.assert_allclose(special.softmax(outputs, axis=1), exact, atol=0.02)


def test_large_epsilon_recovers_least_squares_and_the_residual_scale():
    y = 0.5 * X[:, 0] - 0.2 * X[:, 1] + 0.1 + 0.3 * RNG.standard_normal(1000)
    mechanism = DPSGD(epochs=300, batch_size=1000, learning_rate=0.03, clip=20.0)
    release = released(mechanism, Records(features=X, response=y), LINE, epsilon=1000.0)
    design = np.column_stack([X, np.ones(1000)])
    coefficients, squares, *_ = np.linalg.lstsq(design, y, rcond=None)
    np.testing.assert_allclose(release.draws[0][:3], coefficients, atol=0.02)
    assert abs(release.draws[0][3] - math.sqrt(squares[0] / 1000)) < 0.01


# -- what is refused


@pytest.mark.parametrize(
    ("options", "promise", "message"),
    [
        ({"num_records": None}, {}, "DPSGD needs num_records: .*fixed before the data are seen"),
        ({"num_records": 0.5}, {}, "Expected num_records to be a whole number"),
        ({"preset": "papre"}, {}, "Did you mean 'paper'"),
        ({"optimiser": "adamw"}, {}, "Expected optimiser to be one of 'adam', 'sgd'"),
        ({"epochs": 0}, {}, "Expected epochs to be a whole number >= 1"),
        ({"clip": -1.0}, {}, "Expected clip > 0"),
        ({"beta": 1.0}, {}, "Expected beta > 1"),
        ({}, {"delta": 0.0}, "no guarantee at delta=0"),
        ({}, {"delta": 1e-12}, "resolves no smaller probability"),
    ],
)
def test_impossible_requests_are_refused_before_data(options, promise, message):
    with pytest.raises(InvalidInput, match=message):
        planned(DPSGD(**{"num_records": 100, **options}), TWO, **promise)


def test_records_of_another_model_than_the_planned_one_are_refused():
    plan = planned(DPSGD(num_records=100, epochs=1), network(("a",)), 1000)
    with pytest.raises(InvalidInput, match="records with the 1 features of the model, got 2"):
        publish(plan, lambda: Private(BINARY))
    for name in ("guarantee", "run", "model"):
        with pytest.raises(CalibrationError, match="call calibrate"):
            getattr(DPSGD(), name)


def test_mechanisms_by_noisy_gradients_share_bases_and_not_each_other():
    kinds = (DPSGD, BetaSGD, DPVI, NetworkDraw, ProgramDraw, OnePosterior)
    for kind in kinds:
        assert not any(issubclass(kind, other) for other in kinds if other is not kind)
        assert all(inspect.isabstract(base) for base in kind.__mro__[1:] if issubclass(base, Mechanism))


# -- without clipping


def test_slope_bound_matches_the_table():
    """Of the logistic beta-divergence loss; 8/27 at beta = 2 in closed form (p = 1/3)."""
    table = {1.05: 0.82437, 1.2: 0.61928, 1.33: 0.52751, 1.5: 0.44541, 2.0: 8 / 27, 3.0: 0.14815}
    for beta, value in table.items():
        assert slope_bound(beta) == pytest.approx(value, abs=6e-6)
    assert 8 / 27 <= slope_bound(2.0) <= 8 / 27 * (1 + 1e-8)


@pytest.mark.parametrize("beta", [1.1, 3.0])
@pytest.mark.parametrize("model", [TWO, TANH], ids=["linear", "tanh"])
def test_gradient_bound_holds_and_is_attained(model, beta):
    """20,000 random records and networks within the bounds, then ascent from the best: within 1%."""
    norm, weight_norm, rng = 2.0, 1.5, np.random.default_rng(5)
    mechanism = BetaSGD(beta=beta, feature_norm=norm, weight_norm=weight_norm if model is TANH else None)
    bound = calibrated(mechanism, model, 10).gradient_norm
    loss, jnp, p = NetworkLoss.of(model, beta), jax.numpy, model.dim

    def length(free):
        """Of the gradient at a network and record within the bounds, from unbounded numbers."""
        theta, x = free[:p], free[p:]
        if model is TANH:
            v = theta[-3:-1]
            theta = theta.at[-3:-1].set(weight_norm * v / jnp.sqrt(jnp.square(v).sum() + 1e-3))
        x = math.sqrt(norm**2 - 1) * x / jnp.sqrt(jnp.square(x).sum() + 1e-3)
        return jnp.linalg.norm(jax.grad(loss)(theta, x, 1.0))

    with jax.enable_x64(True):
        many = jax.jit(jax.vmap(length))
        starts = rng.standard_normal((20_000, p + 2)) * rng.choice([0.3, 1.0, 5.0, 30.0], size=(20_000, 1))
        found = np.asarray(many(starts))
        slope = jax.jit(jax.value_and_grad(lambda free: -length(free)))
        best = found.max()
        for start in starts[np.argsort(found)[-3:]]:
            climbed = optimize.minimize(lambda at: [np.asarray(v) for v in slope(at)], start, jac=True)
            best = max(best, -climbed.fun)
    assert 0.99 * bound <= best <= bound


def test_weights_of_the_last_layer_are_held_and_features_shrunk():
    """Features a hundred times too long give the release of features shrunk by hand, and a note."""
    mechanism = BetaSGD(feature_norm=1.2, weight_norm=0.7, epochs=5, learning_rate=0.3)
    long = Records(features=100 * X, response=BINARY.response)
    release = released(mechanism, long, TANH, epsilon=50.0)
    room = math.sqrt(1.2**2 - 1) * (1 - 1e-12)
    by_hand = room * X / np.linalg.norm(X, axis=1, keepdims=True)
    shrunk = Records(features=by_hand, response=BINARY.response)
    same = released(mechanism, shrunk, TANH, epsilon=50.0)
    np.testing.assert_allclose(release.draws, same.draws, atol=1e-6)
    assert np.linalg.norm(release.draws[0][-3:-1]) <= 0.7 * (1 + 1e-9)
    assert any("longer than feature_norm=1.2" in line for line in release.assumptions)


def test_unclipped_gradients_recover_the_beta_divergence_fit():
    """The minimiser by SciPy; the jitter of the last steps is below 0.15."""
    mechanism = BetaSGD(beta=1.5, feature_norm=2.0, epochs=80, batch_size=250, learning_rate=0.05)
    release = released(mechanism, BINARY, TWO, epsilon=1000.0)
    design, sign = np.column_stack([X, np.ones(1000)]), 2 * BINARY.response - 1

    def loss(theta):
        f = special.expit(sign * (design @ theta))
        return np.mean((f**1.5 + (1 - f) ** 1.5) / 1.5 - f**0.5 / 0.5)

    np.testing.assert_allclose(release.draws[0], optimize.minimize(loss, np.zeros(3)).x, atol=0.15)


@pytest.mark.parametrize(
    ("options", "model", "message"),
    [
        ({"feature_norm": None}, TWO, "BetaSGD needs feature_norm: .*network_draw"),
        ({"feature_norm": 1.0}, TWO, "Expected feature_norm > 1"),
        ({"beta": None}, TWO, "Expected beta > 1.*DPSGD fits by the log loss"),
        ({"weight_norm": 1.0}, TWO, "no use for weight_norm"),
        ({}, TANH, "needs weight_norm: .*first layer"),
        ({}, THREE, "two classes.*got 3 classes"),
        ({}, LINE, "two classes.*got a regression"),
        ({"weight_norm": 1.0}, network(hidden=(2,)), "tanh units.*activation='relu'"),
        ({"weight_norm": 1.0}, network(hidden=(2, 2), activation="tanh"), "no hidden layer, or one"),
    ],
)
def test_unproved_bounds_are_refused(options, model, message):
    with pytest.raises(InvalidInput, match=message):
        planned(BetaSGD(**{"feature_norm": 2.0, **options}), model, 100)


def test_a_proved_bound_has_no_clip():
    with pytest.raises(TypeError, match="clip"):
        BetaSGD(feature_norm=2.0, clip=1.0)
