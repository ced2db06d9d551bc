"""The log posterior against a plain loop over records, its derivatives against differences, its prior
against quadrature.

False alarms: the KS tests of prior draws are held against 1e-4 / 12 each. Seeds are fixed.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import onedraw.design as design_module
from onedraw.errors import InvalidInput, NonFiniteDensity
from onedraw.families import (
    Bernoulli,
    Categorical,
    Family,
    Gaussian,
    Laplace,
    LocationScale,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from onedraw.losses import BetaDivergence, Gibbs
from onedraw.posterior import Posterior
from onedraw.priors import Prior, ScalePrior

FAMILIES: list[Family] = [
    Bernoulli(),
    Categorical(num_classes=3),
    Gaussian(scale_floor=0.2),
    Poisson(),
    NegativeBinomial(dispersion=1.7),
    StudentT(df=3.0, scale_floor=0.2),
    Laplace(scale_floor=0.2),
]
NOISE = ScalePrior(floor=0.2, shape=1.5, rate=0.8)

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def _responses(family: Family, n: int, rng: np.random.Generator) -> Any:
    if isinstance(family, Bernoulli):
        return rng.integers(0, 2, size=n).astype(float)
    if isinstance(family, Categorical):
        return rng.integers(0, 3, size=n).astype(float)
    if isinstance(family, LocationScale):
        return rng.normal(size=n)
    return rng.poisson(2.0, size=n).astype(float)


def _make(
    family: Family, *, n: int = 12, d: int = 2, fit_intercept: bool = True, beta: float = 1.7, **options: Any
) -> Posterior:
    rng = np.random.default_rng(7)
    noise = NOISE if isinstance(family, LocationScale) else None
    return Posterior(
        loss=options.pop("loss", BetaDivergence(family)),
        beta=beta,
        weight=options.pop("weight", 0.6),
        prior=options.pop("prior", Prior(scale=1.5, noise=noise)),
        features=options.pop("features", rng.normal(size=(n, d))),
        response=_responses(family, n, rng),
        fit_intercept=fit_intercept,
    )


def _thetas(posterior: Posterior, m: int = 5, seed: int = 3) -> Any:
    return 0.7 * np.random.default_rng(seed).normal(size=(m, posterior.dim))


# -- the reference: one record and one parameter at a time, written from the definitions


def _reference(posterior: Posterior, theta: Any) -> float:
    family, beta = posterior.loss.family, posterior.beta
    b, d = beta - 1.0, posterior.features.shape[1]
    q = 2 if isinstance(family, Categorical) else 1
    has_scale = isinstance(family, LocationScale)
    location = theta[:-1] if has_scale else theta
    value = sum(float(stats.norm.logpdf(t, 0.0, posterior.prior.scale)) for t in location)
    scale = 0.0
    if has_scale:
        # scale^2 ~ inverse-gamma(1.5, 0.8) above floor^2; |d scale^2/d u| = 2 scale exp(u).
        u = float(theta[-1])
        scale = 0.2 + math.exp(u)
        law = stats.invgamma(1.5, scale=0.8)
        value += float(law.logpdf(scale**2) - law.logsf(0.2**2)) + math.log(2.0 * scale) + u
    for x, y in zip(posterior.features, posterior.response, strict=True):
        eta = []
        for j in range(q):
            total = sum(float(x[i] * location[j * d + i]) for i in range(d))
            eta.append(total + (float(location[q * d + j]) if posterior.fit_intercept else 0.0))
        value -= posterior.weight * _loss(family, float(y), eta, beta, b, scale)
    return value


def _loss(family: Family, y: float, eta: list[float], beta: float, b: float, scale: float) -> float:
    """(1 - f^b)/b - (1 - I)/beta."""
    if isinstance(family, LocationScale):
        law = {
            "gaussian": stats.norm(eta[0], scale),
            "student_t": stats.t(3.0, eta[0], scale),
            "laplace": stats.laplace(eta[0], scale),
        }[family.name]
        f = float(law.pdf(y))
        reach = [eta[0] - 40.0 * scale, eta[0], eta[0] + 40.0 * scale]
        parts = [
            integrate.quad(lambda u: law.pdf(u) ** beta, *ends, epsabs=1e-14)
            for ends in itertools.pairwise(reach)
        ]
        tails = sum(
            integrate.quad(lambda u: law.pdf(u) ** beta, *ends)[0]
            for ends in ((-np.inf, reach[0]), (reach[-1], np.inf))
        )
        integral = sum(part[0] for part in parts) + tails
    else:
        if isinstance(family, Bernoulli):
            one = 1.0 / (1.0 + math.exp(-eta[0]))
            masses = [1.0 - one, one]
        elif isinstance(family, Categorical):
            basis = [[-1 / 2**0.5, -1 / 6**0.5], [1 / 2**0.5, -1 / 6**0.5], [0.0, 2 / 6**0.5]]
            powers = [math.exp(row[0] * eta[0] + row[1] * eta[1]) for row in basis]
            masses = [p / sum(powers) for p in powers]
        elif isinstance(family, Poisson):
            masses = list(stats.poisson.pmf(np.arange(400), math.exp(eta[0])))
        else:
            masses = list(stats.nbinom.pmf(np.arange(3000), 1.7, 1.7 / (1.7 + math.exp(eta[0]))))
        f = float(masses[int(y)])
        integral = float(sum(mass**beta for mass in masses))
    return (1.0 - f**b) / b - (1.0 - integral) / beta


@every_family
@with_and_without_intercept
@pytest.mark.parametrize("beta", [1.04, 1.7, 2.5])
def test_log_density_matches_a_plain_loop(family: Family, fit_intercept: bool, beta: float) -> None:
    n = 3 if isinstance(family, LocationScale) else 8  # the reference integrates numerically
    posterior = _make(family, n=n, fit_intercept=fit_intercept, beta=beta)
    thetas = _thetas(posterior, m=3)
    expected = [_reference(posterior, theta) for theta in thetas]
    np.testing.assert_allclose(posterior.log_density(thetas), expected, rtol=1e-10, atol=1e-10)


@every_family
@with_and_without_intercept
@pytest.mark.parametrize("loss", [BetaDivergence, Gibbs])
def test_gradient_and_hessian_match_differences(family: Family, fit_intercept: bool, loss: Any) -> None:
    posterior = _make(family, fit_intercept=fit_intercept, loss=loss(family))
    for theta in _thetas(posterior, m=3):
        value, gradient = posterior.log_density_and_gradient(theta[None, :])
        height, slope, precision = posterior.local_quadratic(theta)
        steps = 1e-5 * np.eye(posterior.dim)
        ahead, behind = posterior.log_density(theta + steps), posterior.log_density(theta - steps)
        np.testing.assert_allclose(gradient[0], (ahead - behind) / 2e-5, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(slope, gradient[0], rtol=1e-10, atol=1e-12)
        assert height == pytest.approx(float(value[0]), abs=1e-10)
        assert float(value[0]) == pytest.approx(float(posterior.log_density(theta[None, :])[0]), abs=1e-10)
        np.testing.assert_allclose(precision, precision.T, rtol=1e-12, atol=1e-12)
        rises = (
            posterior.log_density_and_gradient(theta + steps)[1]
            - posterior.log_density_and_gradient(theta - steps)[1]
        )
        rises /= 2e-5
        if family.has_kinks:  # curvatures in the predictors are those of the expected loss instead
            size = posterior.dim - 1
            rises[:size, :size] = -precision[:size, :size]
            assert np.linalg.eigvalsh(precision[:size, :size]).min() > 0.0
        np.testing.assert_allclose(-precision, rises, rtol=1e-5, atol=1e-5)


@every_family
def test_a_smoothed_quadratic_averages_over_the_predictor(family: Family) -> None:
    # Smoothing of no width changes nothing; in a quadratic loss it would change the value only.
    posterior = _make(family)
    theta = _thetas(posterior, m=1)[0]
    plain = posterior.local_quadratic(theta)
    smooth = posterior.local_quadratic(theta, smoothing=1e-18 * np.eye(posterior.dim))
    if family.has_kinks:  # there the curvature comes from slopes on both sides, which no kink is between
        size = posterior.dim - 1
        plain[2][:size, :size] = smooth[2][:size, :size]
    for a, b in zip(plain, smooth, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


def test_smoothing_over_kinks_gives_the_average_curvature() -> None:
    """Against Stein's lemma on the quantiles of a normal law, of which the posterior uses three nodes."""
    width, y = 0.3, np.random.default_rng(0).laplace(0.0, 0.5, size=20_000)
    made = _make(Laplace(scale_floor=0.2), n=len(y), d=0)
    posterior = dataclasses.replace(made, response=y, prior=Prior(scale=1e3, noise=NOISE))
    theta = np.array([0.0, math.log(0.3)])  # a scale of 0.5
    precision = posterior.local_quadratic(theta, smoothing=np.diag([width**2, 1e-12]))[2]
    shifts = width * stats.norm.ppf((np.arange(400) + 0.5) / 400)
    slopes = posterior.log_density_and_gradient(theta + shifts[:, None] * [1.0, 0.0])[1][:, 0]
    assert precision[0, 0] == pytest.approx(-np.mean(slopes * shifts) / width**2, rel=0.2)


@with_and_without_intercept
@pytest.mark.parametrize("family", [Bernoulli(), Categorical(num_classes=3)], ids=lambda f: f.name)
def test_smoothing_gives_the_average_gradient_over_a_normal_law(family: Family, fit_intercept: bool) -> None:
    posterior = _make(family, fit_intercept=fit_intercept)
    theta = _thetas(posterior, m=1)[0]
    mixing = np.random.default_rng(5).normal(size=(posterior.dim, posterior.dim))
    covariance = 0.02 * mixing @ mixing.T / posterior.dim + 0.01 * np.eye(posterior.dim)
    plain, smooth = posterior.local_quadratic(theta)[1], posterior.local_quadratic(theta, covariance)[1]
    steps = np.random.default_rng(6).multivariate_normal(np.zeros(posterior.dim), covariance, size=20_000)
    # Pairs of opposite steps cancel the linear part, so the mean is exact to about 1% of the change.
    ahead, behind = (posterior.log_density_and_gradient(theta + s * steps)[1].mean(axis=0) for s in (1, -1))
    change = 0.5 * (ahead + behind) - plain
    np.testing.assert_allclose(smooth - plain, change, atol=0.08 * np.abs(change).max())


# -- batches, blocks and threads


@every_family
def test_a_batch_is_evaluated_as_one_by_one(family: Family) -> None:
    posterior = _make(family, n=50)
    thetas = _thetas(posterior, m=9)
    values, gradients = posterior.log_density_and_gradient(thetas)
    for i, theta in enumerate(thetas):
        value, gradient = posterior.log_density_and_gradient(theta[None, :])
        assert float(value[0]) == pytest.approx(float(values[i]), rel=1e-12)
        np.testing.assert_allclose(gradient[0], gradients[i], rtol=1e-10, atol=1e-12)
        assert float(posterior.log_density(theta[None, :])[0]) == pytest.approx(float(values[i]), rel=1e-12)


@every_family
def test_blocks_and_threads_do_not_change_the_result(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = _make(family, n=5000)
    thetas = _thetas(posterior, m=40)
    whole = posterior.log_density_and_gradient(thetas)
    quadratic = posterior.local_quadratic(thetas[0])
    monkeypatch.setattr(design_module, "PARALLEL_CELLS", 1)
    monkeypatch.setattr(design_module, "BLOCK_CELLS", 1 << 12)
    for a, b in zip(whole, posterior.log_density_and_gradient(thetas), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-8)
    for a, b in zip(quadratic, posterior.local_quadratic(thetas[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-8)


def test_large_data_take_the_parallel_path_and_agree_with_it() -> None:
    n, m = 60_000, 20
    assert n * m >= design_module.PARALLEL_CELLS
    posterior = _make(Bernoulli(), n=n)
    thetas = _thetas(posterior, m=m)
    together = posterior.log_density(thetas)
    np.testing.assert_array_equal(together, posterior.log_density(thetas))
    one_by_one = np.concatenate([posterior.log_density(theta[None, :]) for theta in thetas])
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12)


@every_family
def test_without_records_the_posterior_is_the_prior(family: Family) -> None:
    posterior = _make(family, n=0)
    thetas = _thetas(posterior)
    np.testing.assert_array_equal(posterior.log_density(thetas), posterior.prior.log_density(thetas))
    np.testing.assert_array_equal(
        posterior.log_density_and_gradient(thetas)[1], posterior.prior.gradient(thetas)
    )
    _, _, precision = posterior.local_quadratic(thetas[0])
    np.testing.assert_allclose(np.diag(precision), posterior.prior.negative_hessian_diagonal(thetas[0]))


def test_without_features_the_intercept_remains() -> None:
    posterior = _make(Bernoulli(), d=0)
    assert posterior.dim == 1
    assert np.isfinite(posterior.log_density(np.array([[0.3]]))).all()


# -- values that are not numbers


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_log_density_that_is_not_finite_is_an_error(bad: float) -> None:
    posterior = _make(Bernoulli(), features=np.full((12, 2), bad))
    thetas = np.array([[1.0, -1.0, 0.0]])
    for evaluate in (
        posterior.log_density,
        posterior.log_density_and_gradient,
        lambda t: posterior.local_quadratic(t[0]),
    ):
        with np.errstate(all="ignore"), pytest.raises(NonFiniteDensity, match="nothing is released"):
            evaluate(thetas)


def test_extreme_but_finite_records_give_a_finite_density() -> None:
    for family in FAMILIES:
        posterior = _make(family, features=1e8 * np.random.default_rng(0).normal(size=(12, 2)))
        assert np.isfinite(posterior.log_density(_thetas(posterior))).all()


# -- subsampling


def test_a_subsample_weighs_as_much_as_the_whole() -> None:
    posterior = _make(Bernoulli(), n=1003)
    part = posterior.subsample(100, np.random.default_rng(0))
    assert part.num_records == 100
    assert part.weight * part.num_records == pytest.approx(posterior.weight * posterior.num_records)
    where = {row.tobytes(): i for i, row in enumerate(posterior.features)}
    chosen = [where[row.tobytes()] for row in part.features]
    assert len(set(chosen)) == 100
    assert max(chosen) >= 1000  # a stride of 10 would never reach the last records
    np.testing.assert_array_equal(part.response, posterior.response[chosen])
    assert posterior.subsample(600, np.random.default_rng(0)) is posterior
    assert posterior.passes[0] == 0.0


# -- the prior

SCALE_PRIORS = [
    ScalePrior(floor=0.1),
    ScalePrior(floor=0.1, ceiling=2.0),
    ScalePrior(floor=2.0, ceiling=2.5, shape=3.0, rate=0.5),
    ScalePrior(floor=1e-3, ceiling=0.05, shape=1.0, rate=1.0),  # far in a tail of the inverse gamma law
    ScalePrior(floor=50.0),
]


@pytest.mark.parametrize("noise", SCALE_PRIORS, ids=repr)
def test_the_scale_prior_integrates_to_one_in_both_coordinates(noise: ScalePrior) -> None:
    top = min(noise.ceiling, 1e6 * noise.floor)
    edges = noise.floor + np.append(0.0, np.geomspace(1e-9, 1.0, 40)) * (top - noise.floor)
    coordinates = np.append(math.log(1e-14 * noise.floor), np.log(edges[1:] - noise.floor) - 1e-12)
    for log_density, ends in ((noise.log_density_of_scale, edges), (noise.log_density, coordinates)):
        total = sum(
            integrate.quad(lambda t, g=log_density: float(np.exp(g(np.array(t)))), a, b)[0]
            for a, b in itertools.pairwise(ends)
        )
        assert total == pytest.approx(1.0, abs=1e-6)


def test_the_scale_prior_stays_a_density_far_out() -> None:
    noise = ScalePrior(floor=0.1)
    u = np.array([10.0, 200.0, 299.0, 400.0, 1e4, -50.0, -1e4])
    value = noise.log_density(u)
    np.testing.assert_allclose(value[:5], value[0] - 2.0 * (u[:5] - 10.0), rtol=1e-6)  # falls as exp(-2 u)
    np.testing.assert_allclose(np.diff(value[5:]), np.diff(u[5:]), rtol=1e-9)  # and as exp(u) on the left
    assert all(np.isfinite(part).all() for part in noise.derivatives(u))


@pytest.mark.parametrize("noise", SCALE_PRIORS, ids=repr)
def test_the_scale_prior_draws_from_its_density(noise: ScalePrior) -> None:
    scales = noise.scale(noise.sample(np.random.default_rng(5), 20_000))
    law = stats.invgamma(noise.shape, scale=noise.rate)
    assert (scales >= noise.floor).all()
    assert (scales <= noise.ceiling * (1.0 + 1e-12)).all()
    below, above = law.cdf(noise.floor**2), law.cdf(min(noise.ceiling, 1e150) ** 2)
    assert stats.kstest((law.cdf(scales**2) - below) / (above - below), "uniform").pvalue > 1e-4 / 12


def test_the_scale_prior_vanishes_outside_its_range() -> None:
    noise = ScalePrior(floor=0.5, ceiling=2.0)
    assert np.isneginf(noise.log_density_of_scale(np.array([-1.0, 0.0, 0.49, 2.01]))).all()
    assert np.isneginf(noise.log_density(np.array([math.log(1.6)]))).all()
    assert np.isfinite(noise.log_density(np.array([math.log(1.4)]))).all()


def test_scale_coordinates_go_there_and_back() -> None:
    noise = ScalePrior(floor=0.5)
    for scale in (0.5001, 1.0, 100.0):
        assert float(noise.scale(np.array(noise.coordinate(scale)))) == pytest.approx(scale, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"floor": 0.0}, "floor"),
        ({"floor": 1.0, "ceiling": 1.0}, "ceiling=1 and floor=1"),
        ({"floor": 1e-6, "ceiling": 1e-3}, "put none there"),
        ({"floor": 0.1, "rate": -1.0}, "rate"),
    ],
)
def test_impossible_scale_priors_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ScalePrior(**options)


@pytest.mark.parametrize("box", [None, 0.7, 6.0])
def test_the_coefficient_prior_integrates_to_one_and_draws_from_its_density(box: float | None) -> None:
    prior = Prior(scale=2.5, box=box)
    edge = 2.5 * (12.0 if box is None else box)
    total = integrate.quad(
        lambda t: float(np.exp(prior.log_density(np.array([[t]]))[0])), -edge, edge, epsabs=1e-12
    )[0]
    assert total == pytest.approx(1.0, abs=1e-9)
    draws = prior.sample(np.random.default_rng(6), 20_000, 2)
    assert np.isfinite(prior.log_density(draws)).all()
    law = stats.norm(0.0, 2.5) if box is None else stats.truncnorm(-box, box, scale=2.5)
    for column in draws.T:
        assert stats.kstest(column, law.cdf).pvalue > 1e-4 / 12
    assert abs(np.corrcoef(draws.T)[0, 1]) < 4.5 / math.sqrt(20_000)


def test_the_coefficient_prior_vanishes_outside_its_box() -> None:
    prior = Prior(scale=2.0, box=1.5)
    assert np.isfinite(prior.log_density(np.array([[3.0, -3.0]]))).all()
    assert np.isneginf(prior.log_density(np.array([[3.0001, 0.0], [0.0, -3.0001]]))).all()
