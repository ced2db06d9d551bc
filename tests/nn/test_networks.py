# SPDX-License-Identifier: Apache-2.0
"""The network's density against plain NumPy, its gradient against differences, its losses within bounds."""

import copy
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from onedraw.errors import InvalidInput
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
from onedraw.model import NetworkModel
from onedraw.nn import likelihood
from onedraw.nn.networks import NetworkPosterior
from onedraw.priors import Prior, ScalePrior
from onedraw.records import Records

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(30, 3))
RESPONSES = {
    "two classes": RNG.integers(0, 2, 30).astype(float),
    "three classes": RNG.integers(0, 3, 30).astype(float),
    "regression": RNG.normal(size=30),
}
SHAPES = [((), "relu"), ((4,), "relu"), ((5, 3), "tanh")]


def posterior(kind, hidden, activation, beta=1.7):
    family, classes = {
        "two classes": (Bernoulli(), (0, 1)),
        "three classes": (Categorical(num_classes=3), (0, 1, 2)),
        "regression": (Gaussian(scale_floor=0.3), None),
    }[kind]
    model = NetworkModel(
        family=family,
        features=("a", "b", "c"),
        hidden_layer_sizes=hidden,
        activation=activation,
        classes=classes,
    )
    return NetworkPosterior(
        model=model,
        beta=beta,
        weight=0.8,
        prior=Prior(scale=1.5, noise=ScalePrior(floor=0.3) if model.has_scale else None),
        records=Records(features=X, response=RESPONSES[kind]),
    )


def reference(target, theta):
    """The log density from first principles: loops over layers and records, scipy.stats, no shared code."""
    sizes = [3, *target.model.hidden_layer_sizes, target.model.family.num_predictors]
    beta, b, at, value = target.beta, target.beta - 1.0, 0, 0.0
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        w = theta[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        layers.append((w, theta[at : at + outputs]))
        at += outputs
    value += stats.norm.logpdf(theta[:at], scale=1.5).sum()
    if target.prior.noise is not None:
        sigma = 0.3 + np.exp(theta[-1])
        # inverse-gamma(1, 1) of sigma^2, as a law of sigma, as a law of u
        value += stats.invgamma.logpdf(sigma**2, 1.0) + np.log(2 * sigma) + theta[-1]
    for x, y in zip(target.records.features, target.records.response, strict=True):
        for i, (w, bias) in enumerate(layers):
            x = np.array([sum(x[k] * w[k, j] for k in range(len(x))) + bias[j] for j in range(w.shape[1])])
            if i < len(layers) - 1:
                x = np.where(x > 0, x, 0) if target.model.activation == "relu" else np.tanh(x)
        if target.prior.noise is not None:
            f = stats.norm.pdf(y, x[0], sigma)
            integral = (2 * np.pi * sigma**2) ** (-b / 2) / np.sqrt(beta)
        elif len(x) == 1:
            p = special.expit(x[0])
            f, integral = (p if y == 1 else 1 - p), p**beta + (1 - p) ** beta
        else:
            helmert = np.array([[-1 / 2**0.5, -1 / 6**0.5], [1 / 2**0.5, -1 / 6**0.5], [0.0, 2 / 6**0.5]])
            p = special.softmax(helmert @ x)
            f, integral = p[int(y)], (p**beta).sum()
        value -= target.weight * (-(f**b) / b + integral / beta)
    return value


@pytest.mark.parametrize(("hidden", "activation"), SHAPES)
@pytest.mark.parametrize("kind", RESPONSES)
def test_the_density_is_that_of_a_plain_reference(kind, hidden, activation):
    target = posterior(kind, hidden, activation)
    thetas = np.random.default_rng(1).normal(size=(4, target.dim))
    with jax.enable_x64(True):
        density = jax.jit(lambda theta: target.density(theta, target.data))
        found = np.array([float(density(theta)) for theta in thetas])
    expected = np.array([reference(target, theta) for theta in thetas])
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("num", [0, 1, 999, 1001, 2005])
def test_blocks_of_records_add_up_and_their_padding_counts_for_nothing(num):
    rng = np.random.default_rng(6)
    features = rng.uniform(-1, 1, size=(num, 3))
    for kind in RESPONSES:
        response = rng.integers(0, 2, num).astype(float)
        records = Records(features=features, response=response)
        target = replace(posterior(kind, (2,), "relu"), records=records)
        thetas = rng.normal(size=(2, target.dim))
        with jax.enable_x64(True):
            density = jax.jit(jax.value_and_grad(lambda theta, t=target: t.density(theta, t.data)))
            found = [density(theta) for theta in thetas]
            step = 1e-6 * np.eye(target.dim)[1]
            slope = (density(thetas[0] + step)[0] - density(thetas[0] - step)[0]) / 2e-6
        expected = [reference(target, theta) for theta in thetas]
        assert float(found[1][0] - found[0][0]) == pytest.approx(expected[1] - expected[0], rel=1e-10)
        assert float(found[0][1][1]) == pytest.approx(float(slope), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", RESPONSES)
def test_a_network_that_overflows_leaves_every_loss_within_its_certificate(kind):
    """Outputs of +-inf and of no number: the loss of a record stays finite, so the density is never cut."""
    target = posterior(kind, (2,), "relu")
    bounds = BetaDivergence(target.model.family).loss_bounds(target.beta)
    with jax.enable_x64(True):
        data = target.data
        block = jax.tree.map(lambda leaf: leaf[0], data["blocks"])
        for signs in itertools.product((1e200, -1e200), repeat=3):
            theta = np.ones(target.dim)
            theta[: target.model.layers.size] = np.resize(signs, target.model.layers.size)
            total = float(target.density.block_loss(theta, block, data))
            assert 30 * bounds.lower - 1e-9 <= total <= 30 * bounds.upper + 1e-9


@pytest.mark.parametrize("kind", RESPONSES)
def test_the_gradient_is_that_of_differences(kind):
    target = posterior(kind, (4,), "tanh")
    theta, step = np.random.default_rng(2).normal(size=target.dim), 1e-5
    with jax.enable_x64(True):
        density = jax.jit(lambda t: target.density(t, target.data))
        gradient = np.asarray(jax.grad(density)(theta))
        differences = [
            float(density(theta + step * e) - density(theta - step * e)) / (2 * step)
            for e in np.eye(target.dim)
        ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-7)


def test_the_jacobian_makes_the_prior_a_law_of_the_scale():
    """Without records the density of u integrates, as a law of the scale, to the truncated inverse-gamma."""
    target = posterior("regression", (), "relu")
    empty = replace(target, records=Records(features=np.zeros((0, 3)), response=np.zeros(0)))
    u = np.linspace(-25.0, 9.0, 20_001)
    with jax.enable_x64(True):
        at = np.column_stack([np.zeros((len(u), target.dim - 1)), u])
        log_density = np.asarray(jax.jit(jax.vmap(lambda t: empty.density(t, empty.data)))(at))
    mass = np.exp(log_density - log_density.max())
    below = np.cumsum(mass) / mass.sum()
    for sigma in (0.4, 0.7, 1.5, 4.0):
        law = stats.invgamma(1.0)
        exact = (law.cdf(sigma**2) - law.cdf(0.09)) / law.sf(0.09)
        assert np.interp(np.log(sigma - 0.3), u, below) == pytest.approx(exact, abs=2e-3)


# -- the losses in JAX


FAMILIES = {
    "bernoulli": Bernoulli(),
    "gaussian": Gaussian(scale_floor=0.2),
    "laplace": Laplace(scale_floor=0.2),
    "student_t": StudentT(df=3.0, scale_floor=0.2),
    "poisson": Poisson(),
}


def cases(family, rng, size=2000):
    """Responses, predictors and scales: ordinary ones, far-out ones, and scales below the floor."""
    eta = np.concatenate([rng.normal(scale=3.0, size=size), [-800.0, 800.0, 0.0]])
    scale = 0.05 + rng.exponential(size=size + 3) if family.has_scale else None
    y = rng.integers(0, 2, size + 3).astype(float)
    if family.name == "poisson":
        y = rng.poisson(3.0, size + 3).astype(float)
    elif family.has_scale:
        y = eta + rng.standard_t(2, size=size + 3)
        y[:5] = [1e8, -1e8, 1e200, eta[3], eta[4]]
    return y, eta, scale


@pytest.mark.parametrize("beta", [1.0 + 1e-7, 1.03, 1.5, 2.0, 6.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_losses_equal_those_of_the_families_and_stay_within_their_certificate(name, beta):
    family, loss = FAMILIES[name], likelihood.LOSSES[name]
    y, eta, scale = cases(family, np.random.default_rng(3))
    with jax.enable_x64(True):
        facts = loss.facts(family, beta)
        found = np.asarray(jax.jit(loss.beta_loss)(y, loss.eta(eta[None], facts), scale, beta, facts))
    with np.errstate(over="ignore"):
        expected = family.beta_loss(y, eta, beta, scale)
    np.testing.assert_allclose(found, expected, rtol=2e-9, atol=2e-9)
    bounds = BetaDivergence(family).loss_bounds(beta)
    assert found.min() >= bounds.lower - 1e-9
    assert found.max() <= bounds.upper + 1e-9


@pytest.mark.parametrize("name", FAMILIES)
def test_log_losses_are_minus_the_log_densities_up_to_a_constant(name):
    family, loss = FAMILIES[name], likelihood.LOSSES[name]
    y, eta, scale = (None if part is None else part[5:-3] for part in cases(family, np.random.default_rng(3)))
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(loss.log_loss)(y, eta, scale, loss.facts(family, 2.0)))
    exact = -family.log_density(y, eta, scale)
    np.testing.assert_allclose(found - found[0], exact - exact[0], rtol=1e-9, atol=1e-9)


def test_every_family_in_the_table_is_compared_with_its_own():
    assert set(likelihood.LOSSES) == {*FAMILIES, "categorical"}


@pytest.mark.parametrize("beta", [1.5, 3.0])
def test_the_categorical_losses_equal_those_of_the_family(beta):
    family, loss = Categorical(num_classes=4), likelihood.LOSSES["categorical"]
    eta = np.random.default_rng(4).normal(scale=4.0, size=(3, 200))
    y = np.random.default_rng(5).integers(0, 4, 200).astype(float)
    with jax.enable_x64(True):
        facts = loss.facts(family, beta)
        logits = loss.eta(eta, facts)
        found = np.asarray(loss.beta_loss(y, logits, None, beta, facts))
        logarithm = np.asarray(loss.log_loss(y, logits, None, facts))
    np.testing.assert_allclose(found, family.beta_loss(y, eta, beta), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(logarithm, -family.log_density(y, eta), rtol=1e-10, atol=1e-12)


def test_a_family_without_a_loss_in_jax_is_refused_by_name():
    with pytest.raises(InvalidInput, match=r"The negative_binomial family has no loss in JAX"):
        likelihood.known_loss(NegativeBinomial(dispersion=1.0))


def test_a_posterior_shows_none_of_its_records():
    target = posterior("regression", (), "relu")
    assert str(target) == repr(target) == f"{target}" == "NetworkPosterior(...)"
    for careless in (pickle.dumps, copy.copy, copy.deepcopy, list, lambda box: box == box):
        with pytest.raises(TypeError, match="NetworkPosterior holds private data"):
            careless(target)


def test_a_declared_bound_holds_even_if_the_density_exceeds_it():
    beta, bound = 1.8, np.log(2.0)
    log_f = np.array([-np.inf, -1.0, 0.0, 5.0])
    integral = np.array([0.0, 0.5, 3.0, np.inf])
    with jax.enable_x64(True):
        found = np.asarray(likelihood.declared_loss(log_f[:, None], integral, beta, bound))
    width = 2.0 ** (beta - 1.0) * (1 / (beta - 1.0) + 1 / beta)
    assert np.ptp(found) <= width * (1 + 1e-12)
    assert np.ptp(found) > 0.5 * width
