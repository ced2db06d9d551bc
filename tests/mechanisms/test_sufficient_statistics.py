# SPDX-License-Identifier: Apache-2.0
"""Noisy sufficient statistics: sensitivities by brute force, the noise, coverage of both posteriors."""

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from onedraw.families import Bernoulli, Gaussian
from onedraw.mechanisms import (
    BetaBernoulliNoiseAware,
    BetaBernoulliSSP,
    LinearNoiseAware,
    LinearSSP,
    Shape,
)
from onedraw.mechanisms.noise_aware import _Chain
from onedraw.mechanisms.sufficient_statistics import NoisyMoments
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records

INTERCEPT = RegressionModel(family=Bernoulli(), features=())
SLOPE = RegressionModel(family=Gaussian(), features=("x",), fit_intercept=False)


def build(mechanism, model, **request):
    return mechanism.calibrate(Request(**request), Shape(model=model))


def upper_and_products(x, y):
    return np.concatenate([np.outer(x, x)[np.triu_indices(len(x))], x * y])


@pytest.mark.parametrize("p", [1, 2, 5])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_no_record_moves_the_moments_further_than_the_sensitivity(neighbours, p):
    """And some record moves them nearly that far: halved noise breaks the guarantee, doubled is waste."""
    rng = np.random.default_rng(0)
    mechanism = build(
        LinearSSP(feature_norm=2.0, response_bound=3.0), SLOPE, epsilon=1.0, neighbours=neighbours
    )

    def moved(flat):
        rows = []
        for x, y in ((flat[:p], flat[2 * p]), (flat[p : 2 * p], flat[2 * p + 1])):
            rows.append(upper_and_products(x / max(1.0, np.linalg.norm(x)), np.clip(y, -1.0, 1.0)))
        return -np.abs(rows[0] - rows[1] if neighbours == "replace_one" else rows[0]).sum()

    worst = 0.0
    for trial in range(12):
        start = rng.choice([-1.0, 0.0, 1.0], size=2 * p + 2) if trial % 2 else rng.normal(size=2 * p + 2)
        start[2 * p :] = rng.choice([-1.0, 1.0], size=2)
        worst = max(worst, -optimize.minimize(moved, start, method="Powell").fun)
    assert 0.95 * mechanism.sensitivity(p) <= worst <= mechanism.sensitivity(p) + 1e-9


@pytest.mark.parametrize(("neighbours", "rows"), [("replace_one", 1), ("replace_one", 3), ("add_remove", 2)])
def test_no_person_moves_the_counts_further_than_the_noise_covers(neighbours, rows):
    """By enumeration of what two persons may hold; some pair uses up epsilon, so halved noise breaks it."""
    mechanism = build(BetaBernoulliSSP(), INTERCEPT, epsilon=0.5, neighbours=neighbours, rows_per_person=rows)
    held = [(i, j) for i in range(rows + 1) for j in range(rows + 1 - i)]
    if (neighbours, rows) == ("replace_one", 1):  # n is public: one count is released, of persons with a row
        moves = [abs(one - other) for one in (0, 1) for other in (0, 1)]
    elif neighbours == "replace_one":
        moves = [abs(i - k) + abs(j - m) for i, j in held for k, m in held]
    else:
        moves = [i + j for i, j in held]
    assert max(moves) / mechanism.noise_scale == pytest.approx(0.5)


def follows_discrete_laplace(seen, centre, scale):
    """Kolmogorov-Smirnov at level 1e-4, of the whole numbers spread evenly over the unit around each."""
    ends = np.arange(-60 * scale, 60 * scale + 1).round() + 0.5
    law = stats.dlaplace(1 / scale).cdf(ends - 0.5)
    spread = np.asarray(seen) - centre + np.random.default_rng(0).uniform(-0.5, 0.5, len(seen))
    return stats.kstest(spread, lambda x: np.interp(x, ends, law)).pvalue > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [BetaBernoulliSSP, BetaBernoulliNoiseAware])
def test_the_release_uses_that_noise(kind, released, monkeypatch):
    """The noisy counts of 2000 releases against the discrete Laplace law, at level 1e-4."""
    seen = []
    monkeypatch.setattr(
        kind, "_draw_posterior", lambda self, ones, n, rng: seen.append(ones) or np.zeros((self.draws, 1))
    )
    mechanism = build(kind(draws=1), INTERCEPT, epsilon=0.5)
    data = Records(features=np.zeros((50, 0)), response=(np.arange(50) < 20).astype(float))
    for seed in range(2000):
        released(mechanism, data, seed)
    assert follows_discrete_laplace(seen, 20, 1 / 0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [LinearSSP, LinearNoiseAware])
def test_the_moments_carry_that_noise(kind, released, monkeypatch):
    """No records: noise alone, of the stated scale. Kolmogorov-Smirnov at level 1e-4 with fixed seeds."""
    seen = []

    def record(self, noisy, rng):
        seen.append([noisy.moments[0, 0], noisy.moments[0, 1], noisy.products[1]])
        return np.zeros((self.draws, 2))

    monkeypatch.setattr(kind, "_draw_posterior", record)
    model = RegressionModel(family=Gaussian(), features=("a", "b"), fit_intercept=False)
    mechanism = build(kind(feature_norm=2.0, response_bound=3.0, draws=1), model, epsilon=0.5)
    data = Records(features=np.zeros((0, 2)), response=np.zeros(0))
    for seed in range(1500):
        released(mechanism, data, seed)
    c = np.linspace(0.0, 1.0, 100_001)  # the sine of two rows and the length of their products, by the proof
    scale = (np.sqrt(5.0 * (1.0 - c**2)) + 2.0 * np.sqrt(1.0 + c)).max() / 0.5
    for noise in np.array(seen).T:
        assert stats.kstest(noise, stats.laplace(0, scale).cdf).pvalue > 1e-4


@pytest.mark.statistical
def test_the_noise_aware_posterior_covers_and_the_naive_one_does_not(released):
    """Probabilities from the prior, n = 20, epsilon = 0.5: 80 % intervals of the noise-aware posterior cover
    in 80 % of 600 data sets (within 4.5 standard errors of 1.6 %), those of the naive one in far fewer."""
    rng = np.random.default_rng(1)
    covered = {BetaBernoulliSSP: 0, BetaBernoulliNoiseAware: 0}
    for trial in range(600):
        p = rng.random()
        data = Records(features=np.zeros((20, 0)), response=(rng.random(20) < p).astype(float))
        for kind in covered:
            mechanism = build(kind(draws=400), INTERCEPT, epsilon=0.5)
            draws = np.array(released(mechanism, data, trial).draws)
            low, high = np.quantile(special.expit(draws), [0.1, 0.9])
            covered[kind] += bool(low <= p <= high)
    assert abs(covered[BetaBernoulliNoiseAware] / 600 - 0.8) < 0.075
    assert covered[BetaBernoulliSSP] / 600 < 0.65


@pytest.mark.statistical
def test_the_noise_aware_regression_covers_and_the_naive_one_does_not(released):
    """Slopes from the prior, n = 50: 80 % intervals over 40 data sets, noise-aware within 3.5 standard errors
    of 6.3 %, naive below one half."""
    rng = np.random.default_rng(2)
    covered = {LinearSSP: 0, LinearNoiseAware: 0}
    options = {"feature_norm": 1.0, "response_bound": 2.0, "residual_scale": 0.2, "prior_scale": 0.3}
    for trial in range(40):
        slope = 0.3 * rng.normal()
        x = rng.uniform(-1, 1, size=(50, 1))
        data = Records(features=x, response=slope * x[:, 0] + 0.2 * rng.normal(size=50))
        for kind in covered:
            extra = {"warm_up": 150, "thin": 2} if kind is LinearNoiseAware else {}
            mechanism = build(kind(**options, draws=150, **extra), SLOPE, epsilon=3.0)
            draws = np.array(released(mechanism, data, trial).draws)
            low, high = np.quantile(draws, [0.1, 0.9])
            covered[kind] += bool(low <= slope <= high)
    assert abs(covered[LinearNoiseAware] / 40 - 0.8) < 0.22
    assert covered[LinearSSP] / 40 < 0.5


@pytest.mark.statistical
def test_the_chain_draws_from_its_posterior():
    """One dimension: the mean and spread of the slope against a sum over a grid of all three unknowns.

    4000 correlated draws; a fixed seed, tolerances of a tenth."""
    noisy_moment, noisy_product, noise, residual, prior = 8.0, 3.0, 2.0, 0.5, 1.0
    noisy = NoisyMoments(
        moments=np.array([[noisy_moment]]),
        products=np.array([noisy_product]),
        noise_scale=noise,
        residual=residual,
        prior=prior,
    )
    chain = _Chain(noisy, np.random.default_rng(3))
    draws = []
    for sweep in range(4300):
        chain.sweep(tune=sweep < 300 and sweep % 20 == 19)
        if sweep >= 300:
            draws.append(chain.theta[0])
    theta = np.linspace(-4, 4, 161)[:, None, None]
    moment = np.linspace(0.05, 40, 400)[None, :, None]
    error = np.linspace(-30, 30, 301)[None, None, :]  # the noise on the product
    log_joint = (
        -0.5 * (theta / prior) ** 2
        - np.abs(noisy_moment - moment) / noise
        - np.abs(error) / noise
        - 0.5 * np.log(moment)
        - 0.5 * (noisy_product - error - moment * theta) ** 2 / (residual**2 * moment)
    )
    mass = np.exp(log_joint).sum(axis=(1, 2))
    mass /= mass.sum()
    mean = float(mass @ theta[:, 0, 0])
    spread = float(np.sqrt(mass @ (theta[:, 0, 0] - mean) ** 2))
    assert np.mean(draws) == pytest.approx(mean, abs=0.1 * spread)
    assert np.std(draws) == pytest.approx(spread, rel=0.1)


@pytest.mark.statistical
def test_the_noise_aware_posterior_is_exact():
    """The mean against direct summation and quadrature, within five standard errors."""
    mechanism = build(BetaBernoulliNoiseAware(draws=40_000, prior=(2.0, 1.0)), INTERCEPT, epsilon=0.5)
    draws = special.expit(mechanism._draw_posterior(6.3, 10, np.random.default_rng(4))[:, 0])

    def joint(p):
        likelihood = sum(stats.binom.pmf(s, 10, p) * np.exp(-0.5 * abs(6.3 - s)) for s in range(11))
        return likelihood * stats.beta.pdf(p, 2.0, 1.0)

    total = integrate.quad(joint, 0, 1)[0]
    mean = integrate.quad(lambda p: p * joint(p), 0, 1)[0] / total
    assert draws.mean() == pytest.approx(mean, abs=5 * draws.std() / 200)


@pytest.mark.parametrize("kind", [BetaBernoulliSSP, BetaBernoulliNoiseAware])
def test_a_large_epsilon_recovers_the_conjugate_posterior(kind, released):
    data = Records(features=np.zeros((100, 0)), response=(np.arange(100) < 30).astype(float))
    mechanism = build(kind(draws=4000), INTERCEPT, epsilon=1e4)
    draws = special.expit(np.array(released(mechanism, data, 0).draws)[:, 0])
    exact = stats.beta(31, 71)
    assert draws.mean() == pytest.approx(exact.mean(), abs=5 * exact.std() / 63)
    assert draws.std() == pytest.approx(exact.std(), rel=0.08)


@pytest.mark.parametrize("kind", [LinearSSP, LinearNoiseAware])
def test_a_large_epsilon_recovers_the_regression(kind, released):
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, size=(500, 1))
    y = 0.8 * x[:, 0] + 0.2 * rng.normal(size=500)
    mechanism = kind(feature_norm=1.0, response_bound=2.0, residual_scale=0.2, prior_scale=1.0, draws=400)
    data = Records(features=x, response=y)
    draws = np.array(released(build(mechanism, SLOPE, epsilon=1e4), data, 0).draws)
    precision = (x**2).sum() / 0.2**2 + 1.0
    assert draws.mean() == pytest.approx((x[:, 0] @ y) / 0.2**2 / precision, abs=0.3 / precision**0.5)
    assert draws.std() == pytest.approx(precision**-0.5, rel=0.25)


@pytest.mark.statistical
@pytest.mark.parametrize("request_", [{"neighbours": "add_remove"}, {"rows_per_person": 3}])
def test_where_n_is_private_both_counts_carry_noise(request_, released, monkeypatch):
    """The counts of 1500 releases against the discrete Laplace law, at level 1e-4 each.

    A person adds up to m rows to one of them, or moves 2m in replacing another: scale m/eps or 2m/eps.
    """
    seen = []

    def record(self, rng, ones, zeros, num):
        seen.append((ones, zeros))
        return np.zeros((num, 1))

    monkeypatch.setattr(BetaBernoulliSSP, "_logits", record)
    mechanism = build(BetaBernoulliSSP(draws=1), INTERCEPT, epsilon=0.5, **request_)
    data = Records(features=np.zeros((5000, 0)), response=(np.arange(5000) < 2000).astype(float))
    for seed in range(1500):
        released(mechanism, data, seed)
    ones, zeros = np.array(seen).T
    scale = (1 if request_ == {"neighbours": "add_remove"} else 6) / 0.5
    assert follows_discrete_laplace(ones, 2000, scale)
    assert follows_discrete_laplace(zeros, 3000, scale)
    assert abs(np.corrcoef(ones, zeros)[0, 1]) < 5 / 1500**0.5
