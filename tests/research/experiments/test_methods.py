# SPDX-License-Identifier: Apache-2.0
"""The compared methods draw from the laws that their labels state; published errors are what they were."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from onedraw.audit.releasing import releases
from onedraw.records import Records
from onedraw.research.experiments.methods import (
    COMPARED,
    DELTA,
    METHODS,
    PENALTIES,
    beta_mechanism,
    chaudhuri_mechanism,
    gibbs_weight,
    published_noise_scale,
    spherical_noise,
)
from onedraw.research.experiments.simulate import simulate

DATA = simulate(n=60, d=2, repetition=1, seed=3)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_draws_and_has_a_twin(name):
    fits = METHODS[name].fit(
        DATA.features, DATA.response, epsilon=2.0, num_draws=5, rng=np.random.default_rng(0)
    )
    assert fits.draws.shape == (5, 3)
    assert fits.twin.shape == (3,)
    assert np.ptp(fits.draws, axis=0).min() > 0.0


def penalised(penalty):
    """The minimiser of the mean logistic loss plus penalty/2 |theta|^2, by SciPy."""
    design = np.column_stack([DATA.features, np.ones(len(DATA.response))])
    sign = 2.0 * DATA.response - 1.0

    def objective(theta):
        return np.logaddexp(0.0, -sign * (design @ theta)).mean() + 0.5 * penalty * theta @ theta

    return optimize.minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-10}).x


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("chaudhuri-vanishing", 1 / (9 * 60)),
        ("chaudhuri-fixed", 1 / 9),
        ("chaudhuri-code", 1 / (9 * 60**0.5)),
    ],
)
@pytest.mark.parametrize("suffix", ["", "-published"])
def test_the_twin_of_output_perturbation_is_the_regularised_estimate(name, penalty, suffix):
    assert PENALTIES[name](60) == pytest.approx(penalty)
    fits = METHODS[name + suffix].fit(
        DATA.features, DATA.response, epsilon=1.0, num_draws=1, rng=np.random.default_rng(0)
    )
    # The mechanism's solver stops at a thousandth of the sensitivity 2 sqrt(3)/(n penalty).
    assert np.allclose(fits.twin, penalised(penalty), atol=1e-3 * 2 * 3**0.5 / (60 * penalty))


def test_published_noise_is_smaller_than_the_proved_one():
    """Per coordinate 2/(n lambda epsilon), where p coefficients on [-1, 1] need 2p/(n lambda epsilon)."""
    assert published_noise_scale(100, 0.1, 0.5) == pytest.approx(0.4)
    rng = np.random.default_rng(0)
    fixed = METHODS["chaudhuri-fixed-published"].fit(
        DATA.features, DATA.response, epsilon=1.0, num_draws=20_000, rng=rng
    )
    noise = fixed.draws - fixed.twin
    # A Laplace law has mean absolute value equal to its scale; 20,000 x 3 values, 1% is 2.4 standard errors.
    assert np.abs(noise).mean() == pytest.approx(published_noise_scale(60, 1 / 9, 1.0), rel=0.02)


@pytest.mark.statistical
def test_corrected_noise_has_the_proved_scale():
    """The radius is Gamma(p, 2 sqrt(p)/(n lambda epsilon)) and a thousandth; 2% is five standard errors."""
    fixed = METHODS["chaudhuri-fixed"].fit(
        DATA.features, DATA.response, epsilon=0.5, num_draws=20_000, rng=np.random.default_rng(0)
    )
    radii = np.linalg.norm(fixed.draws - fixed.twin, axis=1)
    assert radii.mean() == pytest.approx(1.001 * 3 * 2 * 3**0.5 / (60 * (1 / 9) * 0.5), rel=0.02)


@pytest.mark.statistical
def test_noise_drawn_in_bulk_has_the_law_of_the_mechanism():
    """Two-sample Kolmogorov-Smirnov tests of radius and one coordinate, fixed seed, 0.1% each."""
    mechanism = chaudhuri_mechanism(1.0, 0.1, 3)
    data = Records(features=DATA.features, response=DATA.response)
    released = releases(mechanism, data, 400, np.random.default_rng(0))
    design = np.column_stack([DATA.features, np.ones(60)])
    ours = mechanism.estimate(design, DATA.response) + spherical_noise(
        4000, 3, mechanism.noise_scale(num_records=60, dim=3), np.random.default_rng(1)
    )
    centre = mechanism.estimate(design, DATA.response)
    radii = [np.linalg.norm(sample - centre, axis=1) for sample in (released, ours)]
    assert stats.ks_2samp(*radii).pvalue > 1e-3
    assert stats.ks_2samp(released[:, 0], ours[:, 0]).pvalue > 1e-3


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["beta-paper", "minami"])
def test_draws_have_the_mean_of_their_posterior(name):
    """One feature, no coefficient but slope and intercept: means by quadrature; four standard errors."""
    x = np.linspace(0.0, 1.0, 30)[:, None]
    y = (np.arange(30) >= 12).astype(float)
    method, epsilon = METHODS[name], 4.0
    draws = method.fit(x, y, epsilon=epsilon, num_draws=2000, rng=np.random.default_rng(2)).draws
    grid = np.linspace(-15.0, 15.0, 301)
    slope, intercept = (axis.ravel() for axis in np.meshgrid(grid, grid, indexing="ij"))
    margin = (2.0 * y[:, None] - 1.0) * (x * slope + intercept)
    p = special.expit(margin)
    if name == "minami":
        loss, weight = -np.log(p), gibbs_weight(epsilon, 2, "corrected")
    else:
        b = 2.0 / epsilon
        loss, weight = -(p**b) / b + (p ** (1 + b) + (1 - p) ** (1 + b)) / (1 + b), 1.0
    log_mass = -weight * loss.sum(axis=0) - (slope**2 + intercept**2) / 18.0
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    for values, column in zip((slope, intercept), draws.T, strict=True):
        assert abs(column.mean() - values @ mass) < 4.0 * column.std() / math.sqrt(2000)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_the_exact_gibbs_weight_has_exactly_its_delta_and_the_published_one_less(epsilon):
    """a-GDP at a = 2 w L s: delta by integrating the two normal densities that it compares to."""

    def delta(weight):
        a = 2.0 * weight * math.sqrt(3.0) * 3.0

        def excess(z):
            return max(0.0, stats.norm.pdf(z, a) - math.exp(epsilon) * stats.norm.pdf(z))

        start = epsilon / a + a / 2
        return integrate.quad(excess, start, start + 12.0, epsabs=1e-12)[0]

    assert delta(gibbs_weight(epsilon, 3, "corrected")) == pytest.approx(DELTA, rel=1e-3)
    assert delta(gibbs_weight(epsilon, 3, "as-published")) < DELTA


def test_true_guarantees_are_stated():
    def said(name, epsilon, dim):
        return METHODS[name].guarantee(epsilon=epsilon, dim=dim)

    assert said("chaudhuri-fixed", 1.0, 11) == "epsilon 1"
    assert said("chaudhuri-fixed-published", 1.0, 11).startswith("not private at epsilon 1, proved at 11")
    assert said("chaudhuri-fixed-published", 1.0, 1) == "epsilon 1"
    assert "not proved" in said("chaudhuri-fixed-published", 1.0, 2)
    assert said("minami-published", 7.0, 3) == "epsilon 7, delta 1e-05"
    assert "true delta 0.0012" in said("minami-published", 20.0, 3)
    assert said("minami", 20.0, 3) == "epsilon 20, delta 1e-05"


def test_the_corrected_version_compares_nothing_with_published_errors():
    assert not [name for name in COMPARED["corrected"] if name.endswith("-published")]
    assert "beta-paper" in COMPARED["corrected"]
    assert "beta-paper" in COMPARED["as-published"]


def test_weight_one_has_the_paper_s_beta():
    for epsilon in (0.2, 1.0, 6.0):
        found = beta_mechanism(epsilon, "paper").calibrated
        assert (found.weight, found.beta) == (1.0, pytest.approx(1.0 + 2.0 / epsilon))


def test_simulated_data_are_as_described():
    data = simulate(n=50_000, d=3, repetition=0, seed=1)
    assert data.features.min() >= 0.0
    assert data.features.max() <= 1.0
    assert np.allclose(data.features.mean(axis=0), 0.5, atol=0.005)
    assert np.allclose(data.features.std(axis=0), 0.125, atol=0.005)
    assert data.truth[-1] == pytest.approx(-0.5 * data.truth[:-1].sum())
    probability = special.expit(data.features @ data.truth[:-1] + data.truth[-1])
    # Five standard errors of a mean of 50,000 residuals with variance at most 1/4.
    assert abs(np.mean(data.response - probability)) < 5 * 0.5 / 50_000**0.5
