# SPDX-License-Identifier: Apache-2.0
"""DP variational inference: its gradients, its noise and its optimum, each against an independent answer."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from onedraw import Release
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Gaussian
from onedraw.mechanisms import Shape
from onedraw.model import NetworkModel
from onedraw.nn import DPSGD, DPVI
from onedraw.nn.training import Run, train
from onedraw.privacy import Request
from onedraw.privacy.guarantee import NEIGHBOURS
from onedraw.privacy.subsampled import Sampling
from onedraw.private import Private
from onedraw.publishing import make_plan, publish
from onedraw.records import Records

jax = pytest.importorskip("jax")
pytest.importorskip("jax_privacy")
pytestmark = pytest.mark.jax


def classifier(*features):
    return NetworkModel(family=Bernoulli(), features=features, hidden_layer_sizes=(), classes=(0, 1))


def regression(*hidden):
    family = Gaussian(scale_floor=0.2)
    return NetworkModel(family=family, features=("a",), hidden_layer_sizes=hidden)


COIN, TWO, LINE, NETWORK = classifier(), classifier("a", "b"), regression(), regression(3)
X = np.random.default_rng(0).uniform(-1, 1, size=(60, 2))
LABELS = (X[:, 0] > 0).astype(float)


def planned(mechanism, model, records=None, *, epsilon=1.0, delta=1e-5, **terms):
    """The plan of a release from so many records, or from a number that is not known.

    The mechanism has the floor of the model, which otherwise would be that of its own default.
    """
    floor = {} if model.scale_floor is None else {"noise_floor": model.scale_floor}
    request, shape = Request(epsilon=epsilon, delta=delta, **terms), Shape(model=model, num_records=records)
    return make_plan(request, replace(mechanism, **floor), shape)


def calibrated(mechanism, model, records=None, **terms):
    return planned(mechanism, model, records, **terms).mechanism


def released(mechanism, records, model, **terms):
    plan = planned(mechanism, model, len(records), **terms)
    return publish(plan, lambda: Private(records), random_state=0)


def step(mechanism, data, *, clip=1.0, expected=1.0, seed=0):
    """One noiseless full-batch step of plain SGD with learning rate 1: (how (m, r) moved, its xi)."""
    run = Run(
        sampling=Sampling(rate=1.0, steps=1),
        clip=clip,
        noise=0.0,
        expected=expected,
        optimiser="sgd",
        learning_rate=1.0,
    )
    start = mechanism.initial(np.random.default_rng(1))
    xi = np.random.default_rng(seed).standard_normal(mechanism.model.dim)
    return start - train(mechanism.objective(), start, data, run, np.random.default_rng(seed)), start, xi


def test_gradient_of_a_record_is_the_reparameterised_one():
    """In (m, r), by hand for the logistic beta-divergence loss: w l'(m + s xi) (x, xi x ds/dr), plus KL."""
    mechanism = calibrated(DPVI(beta=2.0, weight=0.7, prior_scale=1.3), TWO, 40)
    data = Records(features=X[:1], response=np.ones(1))
    found, start, xi = step(mechanism, data, clip=1e6)
    nothing, *_ = step(mechanism, Records(features=np.zeros((0, 2)), response=np.zeros(0)), clip=1e6)
    mean, r = start[:3], start[3:]
    sd, design = np.logaddexp(0, r), np.append(X[0], 1.0)
    p = special.expit(design @ (mean + sd * xi))
    slope = -0.7 * 2 * p * (1 - p) ** 2 * design
    by_hand = np.concatenate([slope, slope * xi * special.expit(r)])
    np.testing.assert_allclose(found - nothing, by_hand, rtol=1e-6)
    # KL(N(m, s^2) || N(0, 1.3^2)) = sum of log(1.3/s) + (m^2 + s^2)/(2 1.3^2) - 1/2, over 40 records
    divergence = np.concatenate([mean / 1.3**2, (sd / 1.3**2 - 1 / sd) * special.expit(r)]) / 40
    np.testing.assert_allclose(nothing, divergence, rtol=1e-9)


def test_divergence_of_the_scale_coordinate_matches_quadrature():
    """The mean over xi of the public loss, between two q that differ in u alone, by SciPy's densities.

    Gauss-Hermite averages over xi; log pi(u) from inverse-gamma(1, 1) of the squared scale.
    """
    objective = calibrated(DPVI(), LINE, 1).objective()
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def ours(mean, sd):
        parameters = np.array([0.3, -0.2, mean, 0.0, 0.0, math.log(math.expm1(sd))])
        values = [float(objective.public_loss(parameters, np.array([0.0, 0.0, xi]))) for xi in nodes]
        return weights @ values

    def exact(mean, sd):
        def integrand(u):
            scale = 0.2 + math.exp(u)
            prior = stats.invgamma.logpdf(scale**2, 1.0) + math.log(2 * scale) + u
            return stats.norm.pdf(u, mean, sd) * (stats.norm.logpdf(u, mean, sd) - prior)

        return integrate.quad(integrand, mean - 12 * sd, mean + 12 * sd)[0]

    with jax.enable_x64(True):
        change = ours(-0.5, 0.4) - ours(0.2, 0.1)
    assert change == pytest.approx(exact(-0.5, 0.4) - exact(0.2, 0.1), abs=1e-6)


@pytest.mark.parametrize("model", [TWO, NETWORK], ids=["two classes", "regression network"])
def test_no_record_moves_the_sum_beyond_twice_the_clip(model):
    """Replacing a record by its opposite at the same xi: 2C at most, nearly that where records are long."""
    mechanism = calibrated(DPVI(beta=None), model, 40)
    moves = []
    for size in (1e-3, 1.0, 1e4, 1e12):
        there, back = (
            step(
                mechanism,
                Records(features=np.full((1, model.num_features), size), response=np.array([label])),
                clip=0.5,
                seed=3,
            )[0]
            for label in (0.0, 1.0)
        )
        moves.append(np.linalg.norm(there - back))
    assert max(moves) <= 1.0
    if model is TWO:
        assert max(moves) >= 0.99


def test_records_of_a_step_share_their_xi():
    """So two equal records, unclipped, move the parameters exactly twice as far as one."""
    mechanism = calibrated(DPVI(), TWO, 40)
    nothing, one, two = (
        step(mechanism, Records(features=X[:1].repeat(k, axis=0), response=np.ones(k)), clip=1e6)[0]
        for k in (0, 1, 2)
    )
    np.testing.assert_allclose(two - nothing, 2 * (one - nothing), rtol=1e-9)


def test_noise_reaches_means_and_deviations_with_the_calibrated_size():
    """No records, one step of SGD: the KL gradient and the noise, in 2,001 coordinates of m and of r each.

    Empirical sd within 5 of its standard errors (8%): false alarm below 1e-6.
    """
    options = {"batch_size": 20, "epochs": 1, "optimiser": "sgd", "learning_rate": 1.0, "clip": 2.0}
    mechanism = calibrated(DPVI(**options), classifier(*(f"x{i}" for i in range(2000))), 20)
    nobody = Records(features=np.zeros((0, 2000)), response=np.zeros(0))
    last = train(
        mechanism.objective(), mechanism.initial(np.random.default_rng(0)), nobody, mechanism.run,
        np.random.default_rng(5),
    )  # fmt: skip

    def curve(mu):
        return stats.norm.cdf(mu / 2 - 1 / mu) - math.e * stats.norm.cdf(-mu / 2 - 1 / mu) - 1e-5

    expected = 2 * 2.0 / optimize.brentq(curve, 0.01, 5.0) / 20
    for half in (last[:2001], last[2001:]):
        assert abs(half.std() / expected - 1) <= 5 / math.sqrt(2 * 2001) + 0.003


@pytest.mark.parametrize("beta", [None, 1.5])
def test_large_epsilon_recovers_the_optimal_approximation(beta):
    """A coin with 60 tosses: the best N(m, s^2) by Gauss-Hermite quadrature and SciPy's minimiser.

    Means agree within a fifth of its sd, deviations within a quarter: what the jitter of the steps leaves.
    """
    tosses = np.concatenate([np.ones(45), np.zeros(15)])
    nodes, weights = np.polynomial.hermite_e.hermegauss(50)
    weights = weights / weights.sum()

    def loss(y, theta):
        p = special.expit((2 * y - 1) * theta)
        return (
            -np.log(p) if beta is None else (p**beta + (1 - p) ** beta) / beta - p ** (beta - 1) / (beta - 1)
        )

    def bound(at):
        mean, sd = at[0], math.exp(at[1])
        theta = mean + sd * nodes
        expected = weights @ (45 * loss(1.0, theta) + 15 * loss(0.0, theta))
        return expected + 0.5 * (mean**2 + sd**2) / 4.0 - math.log(sd)

    mean, log_sd = optimize.minimize(bound, [0.0, -1.0]).x
    mechanism = DPVI(beta=beta, prior_scale=2.0, draws=4000, epochs=1500, learning_rate=5e-3, clip=5.0)
    coin = Records(features=np.zeros((60, 0)), response=tosses)
    release = released(mechanism, coin, COIN, epsilon=5000.0)
    draws = np.array(release.draws)[:, 0]
    sd = math.exp(log_sd)
    assert abs(draws.mean() - mean) <= 0.2 * sd
    assert abs(draws.std() / sd - 1) <= 0.25


def test_more_draws_cost_nothing_and_are_released_together():
    data = Records(features=X, response=LABELS)
    few, many = (calibrated(DPVI(epochs=2, draws=draws), TWO, 60) for draws in (1, 50))
    assert few.noise_multiplier == many.noise_multiplier
    release = released(DPVI(epochs=2, draws=50), data, TWO)
    assert len(release.draws) == release.guarantee.draws == 50
    assert (release.guarantee.epsilon, release.guarantee.bounded_range) == (1.0, None)
    assert release.evidence.level == "accounted"
    assert Release.from_json(release.to_json()) == release
    assert release == released(DPVI(epochs=2, draws=50), data, TWO)
    sgd = calibrated(DPSGD(epochs=2), TWO, 60)
    assert sgd.noise_multiplier == many.noise_multiplier  # the same steps, the same accountant


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_residual_scales_of_all_draws_are_above_the_floor(neighbours):
    data = Records(features=X[:, :1], response=np.sin(3 * X[:, 0]))
    mechanism = DPVI(num_records=60, epochs=3, draws=200)
    release = released(mechanism, data, NETWORK, neighbours=neighbours)
    assert min(draw[-1] for draw in release.draws) >= 0.2
    assert np.isfinite(release.draws).all()
    assert release.num_records == (60 if neighbours == "replace_one" else None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_records": None}, "DPVI needs num_records"),
        ({"draws": 0}, "Expected draws to be a whole number"),
        ({"weight": 0.0}, "Expected weight > 0"),
        ({"prior_scale": -1.0}, "Expected prior_scale > 0"),
        ({"beta": 0.5}, "Expected beta > 1"),
    ],
)
def test_impossible_requests_are_refused_before_data(options, message):
    with pytest.raises(InvalidInput, match=message):
        planned(DPVI(**{"num_records": 60, **options}), TWO)


def test_the_number_of_draws_is_an_option_of_the_mechanism():
    with pytest.raises(InvalidInput, match=r"DPVI makes one release, got draws=5.*DPVI\(draws=...\)"):
        planned(DPVI(), TWO, 60, draws=5)
