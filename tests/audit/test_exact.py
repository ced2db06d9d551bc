# SPDX-License-Identifier: Apache-2.0
"""The exact audit: tight where the proof says it is, never above the claim, and not fooled by broken ones."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import onedraw
from onedraw.audit import Laws, Pair, neighbours_of, output_laws, paper_pair, worst_pair
from onedraw.families import (
    Bernoulli,
    Categorical,
    Gaussian,
    Laplace,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from onedraw.losses import BetaDivergence
from onedraw.mechanisms import GibbsPosterior, LipschitzGibbs, OnePosterior, Shape
from onedraw.model import RegressionModel
from onedraw.priors import Prior, ScalePrior
from onedraw.privacy import Request
from onedraw.records import Records

SLOPE = RegressionModel(family=Bernoulli(), features=("x",), fit_intercept=False)
LOGISTIC = RegressionModel(family=Bernoulli(), features=("x",))
RELATIONS = ("replace_one", "add_remove")


def calibrated(mechanism, model=SLOPE, **request):
    return mechanism.calibrate(Request(**{"epsilon": 1.0, **request}), Shape(model=model))


def one_posterior(model=SLOPE, *, beta="auto", noise_floor=None, **request):
    return calibrated(OnePosterior(beta=beta, noise_floor=noise_floor), model, **request)


def number(family, **facts):
    """The model of a single number, with a scale where the family has one."""
    return RegressionModel(family=family, features=(), **facts)


@dataclasses.dataclass(frozen=True)
class Broken:
    """A posterior draw with the guarantee of another."""

    claim: object
    change: object

    @property
    def guarantee(self):
        return self.claim.guarantee

    @property
    def model(self):
        return self.claim.model

    def posterior(self, records):
        return self.change(self.claim.posterior(records))


# -- tight, and never above


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_tight_example_comes_within_one_percent(relation, epsilon):
    """Two parameter values, prior mass 1e-6 on one of them: nodes where a normal prior has those masses."""
    mechanism = one_posterior(epsilon=epsilon, neighbours=relation)
    rare = 3.0 * math.sqrt(1.0 + 2.0 * math.log(1e6))
    nodes = np.array([[-3.0], [rare]])
    other = ([1e6], 0.0) if relation == "replace_one" else None
    laws = output_laws(mechanism, neighbours_of([], ([1e6], 1.0), other), nodes=nodes)
    assert 0.99 * epsilon <= laws.epsilon() <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_search_comes_within_one_percent_under_the_default_prior(relation, epsilon):
    audit = worst_pair(one_posterior(epsilon=epsilon, neighbours=relation), random_state=0)
    assert 0.99 * epsilon <= audit.epsilon <= epsilon * (1 + 1e-9)
    assert not audit.contradicted


THREE = number(Categorical(num_classes=3), classes=("a", "b", "c"))
CASES = {
    "logistic with intercept": (OnePosterior(), LOGISTIC, {}, 0.98),
    "logistic, paper's beta": (OnePosterior(beta="paper"), SLOPE, {}, 0.98),
    "gaussian": (OnePosterior(), number(Gaussian()), {}, 0.5),
    "student t": (OnePosterior(), number(StudentT()), {}, 0.5),
    "laplace": (OnePosterior(), number(Laplace()), {}, 0.45),
    "poisson": (OnePosterior(), number(Poisson()), {}, 0.5),
    "negative binomial": (OnePosterior(), number(NegativeBinomial(dispersion=1.0)), {}, 0.45),
    "three classes": (OnePosterior(), THREE, {}, 0.9),
    "gibbs": (GibbsPosterior(feature_norm=1.5), SLOPE, {}, 0.7),
    "lipschitz": (LipschitzGibbs(feature_norm=1.5), SLOPE, {"delta": 1e-5}, 0.4),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_no_posterior_draw_exceeds_its_claim_and_the_search_is_not_idle(name, relation):
    mechanism, model, request, least = CASES[name]
    audit = worst_pair(calibrated(mechanism, model, neighbours=relation, **request), tries=25, random_state=1)
    assert least <= audit.epsilon <= 1.0 + 1e-9


def test_the_published_pair_shows_half_of_epsilon():
    for epsilon, half, success in [
        (0.2, 0.1, 0.510),
        (2.0, 1.0, 0.656),
        (7.0, 3.5, 0.778),
        (20.0, 9.8, 0.816),
    ]:
        laws = output_laws(one_posterior(epsilon=epsilon, beta="paper"), paper_pair())
        assert laws.epsilon() == pytest.approx(half, rel=0.01)
        assert laws.success_rate == pytest.approx(success, abs=1e-3)


# -- broken mechanisms


def test_a_doubled_weight_is_flagged():
    broken = Broken(one_posterior(), lambda p: dataclasses.replace(p, weight=2.0 * p.weight))
    audit = worst_pair(broken, tries=50, random_state=0)
    assert audit.contradicted
    assert audit.epsilon == pytest.approx(2.0, rel=0.02)


def test_the_calibration_by_the_prior_variance_is_flagged():
    """b solves 2/(b (2 pi v)^(b/2)) = 1 with v = 1, not with the floor 0.1^2: the true epsilon is 7.69."""
    b = optimize.brentq(lambda b: 2 / (b * (2 * math.pi) ** (b / 2)) - 1.0, 0.1, 5.0)
    assert b == pytest.approx(0.886, abs=1e-3)
    claim = one_posterior(number(Gaussian()))
    broken = Broken(claim, lambda p: dataclasses.replace(p, beta=1.0 + b, weight=1.0))
    audit = worst_pair(broken, tries=30, random_state=0)
    assert audit.contradicted
    assert 3.0 < audit.epsilon < 7.7


def test_an_ignored_floor_is_flagged():
    """Calibrated for a residual scale of at least 1, drawn from a prior that goes down to 0.05."""
    claim = one_posterior(number(Gaussian()), noise_floor=1.0)
    low = ScalePrior(floor=0.05)
    ignored = BetaDivergence(Gaussian(scale_floor=0.05))
    broken = Broken(claim, lambda p: dataclasses.replace(p, prior=Prior(noise=low), loss=ignored))
    assert not worst_pair(claim, tries=20, random_state=0).contradicted
    assert worst_pair(broken, tries=20, random_state=0).contradicted


@pytest.mark.parametrize("family", [StudentT(), Laplace(), NegativeBinomial(dispersion=1.0)])
def test_a_doubled_weight_is_flagged_in_other_families_too(family):
    claim = one_posterior(number(family), neighbours="add_remove")
    broken = Broken(claim, lambda p: dataclasses.replace(p, weight=2.0 * p.weight))
    assert worst_pair(broken, tries=25, random_state=1).contradicted


# -- arithmetic


def test_laws_agree_with_adaptive_quadrature():
    """Normaliser and total variation by SciPy's own quadrature of a loss written out here."""
    mechanism = one_posterior(epsilon=2.0, beta=2.0)
    weight = mechanism.posterior(paper_pair().first).weight

    def density(theta, x):
        p = special.expit(x * theta)
        loss = -p + 0.5 * (p**2 + (1 - p) ** 2)  # beta = 2, y = 1, up to a constant
        return math.exp(-0.5 * (theta / 3) ** 2 - weight * loss)

    totals = [integrate.quad(density, -40, 40, args=(x,), points=[0])[0] for x in (1.0, -1.0)]
    gap = integrate.quad(
        lambda t: abs(density(t, 1.0) / totals[0] - density(t, -1.0) / totals[1]), -40, 40, points=[0]
    )[0]
    laws = output_laws(mechanism, paper_pair())
    assert laws.success_rate == pytest.approx(0.5 + gap / 4, abs=1e-5)


@pytest.mark.parametrize(
    ("family", "law"), [(StudentT(df=4.0), stats.t(4.0)), (Laplace(), stats.laplace())], ids=["t", "laplace"]
)
def test_laws_of_a_location_and_scale_agree_with_a_plain_grid(family, law):
    """The odds of a location above 0 by evenly spaced points, from SciPy's density and a loss written out."""
    mechanism = one_posterior(number(family), beta=1.5)
    weight, noise = mechanism.calibrated.weight, mechanism.prior.noise
    pair = neighbours_of([([], 0.5)] * 4, ([], 0.5), ([], -3.0))
    integral = integrate.quad(lambda z: law.pdf(z) ** 1.5, -np.inf, np.inf)[0]
    location = np.linspace(-15.0, 15.0, 1501)[:, None]
    u = np.linspace(-12.0, 6.0, 451)
    scale = noise.floor + np.exp(u)
    log_prior = u - (2 * noise.shape + 1) * np.log(scale) - noise.rate / scale**2 - 0.5 * (location / 3) ** 2
    laws = output_laws(mechanism, pair)
    for records, log_mass in ((pair.first, laws.log_first), (pair.second, laws.log_second)):
        heights = [(law.pdf((y - location) / scale) / scale) ** 0.5 for y in records.response]
        loss = sum(-2.0 * height + integral * scale**-0.5 / 1.5 for height in heights)
        mass = np.exp(log_prior - weight * loss).sum(axis=1)
        known = (mass * np.heaviside(location[:, 0], 0.5)).sum() / mass.sum()
        ours = np.exp(log_mass) @ np.heaviside(laws.nodes[:, 0], 0.5)
        assert ours == pytest.approx(known, abs=1e-3)
    assert laws.success_rate > 0.51  # the two data sets are not one


def test_laws_of_counts_agree_with_adaptive_quadrature():
    """The odds of a mean above 1, by SciPy, from a loss written out here."""
    mechanism = one_posterior(number(NegativeBinomial(dispersion=1.0)), beta=1.5)
    weight, counts = mechanism.calibrated.weight, np.arange(4000)
    pair = neighbours_of([([], 3.0)] * 4, ([], 3.0), ([], 0.0))

    def density(eta, records):
        mass = stats.nbinom(1, 1.0 / (1.0 + math.exp(eta))).pmf
        integral = (mass(counts) ** 1.5).sum()
        losses = -2.0 * mass(records.response) ** 0.5 + integral / 1.5
        return math.exp(-0.5 * (eta / 3) ** 2 - weight * losses.sum())

    laws = output_laws(mechanism, pair)
    for records, log_mass in ((pair.first, laws.log_first), (pair.second, laws.log_second)):
        below, above = (integrate.quad(density, *ends, args=(records,))[0] for ends in ((-30, 0), (0, 6)))
        shares = np.exp(log_mass) * (laws.nodes[:, 0] < 6.0)
        ours = shares @ np.heaviside(laws.nodes[:, 0], 0.5) / shares.sum()
        assert ours == pytest.approx(above / (below + above), abs=1e-3)


def test_the_curve_of_two_gaussians_is_the_known_one():
    x = np.linspace(-12, 13, 20_001)[:, None]
    logs = [-0.5 * np.square(x[:, 0] - mean) for mean in (0.0, 1.0)]
    first, second = (log - special.logsumexp(log) for log in logs)
    laws = Laws(nodes=x, log_first=first, log_second=second)
    for epsilon in (0.0, 1.0, 3.0):
        known = special.ndtr(-epsilon + 0.5) - math.exp(epsilon) * special.ndtr(-epsilon - 0.5)
        assert laws.delta(epsilon) == pytest.approx(known, rel=1e-3)
    assert laws.delta(laws.epsilon(1e-3)) == pytest.approx(1e-3, rel=1e-6)
    false_positive, false_negative = laws.trade_off()
    np.testing.assert_allclose(
        np.interp([0.1, 0.5], false_positive, false_negative),
        special.ndtr(special.ndtri([0.9, 0.5]) - 1.0),
        atol=1e-3,
    )


# -- refusals


def test_more_than_two_parameters_are_refused():
    model = RegressionModel(family=Bernoulli(), features=("a", "b"))
    pair = neighbours_of([], ([0.0, 1.0], 1.0), ([0.0, 1.0], 0.0))
    with pytest.raises(onedraw.InvalidInput, match="at most 2 parameters, got 3"):
        output_laws(one_posterior(model), pair)
    with pytest.raises(onedraw.InvalidInput, match="one draw and one row a person"):
        worst_pair(one_posterior(rows_per_person=2))


@pytest.mark.parametrize(
    ("relation", "first", "second", "message"),
    [
        ("replace_one", [0, 1], [0, 1], "got 0 to replace"),
        ("replace_one", [0, 1], [2, 3], "got 2 to replace"),
        ("replace_one", [0, 1], [0], "as many records .* got 2 and 1"),
        ("add_remove", [0, 1], [0, 2], "got 2 to add or remove"),
        ("swap", [0], [1], "neighbours"),
    ],
)
def test_data_sets_that_are_no_neighbours_are_refused(relation, first, second, message):
    first, second = (
        Records(features=np.zeros((len(v), 0)), response=np.array(v, float)) for v in (first, second)
    )
    with pytest.raises(onedraw.InvalidInput, match=message):
        Pair(first=first, second=second, neighbours=relation)
