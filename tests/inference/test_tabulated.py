# SPDX-License-Identifier: Apache-2.0
"""Tabulated normal means of capped counts, against SciPy's quadrature and closed forms."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from onedraw.inference import CountVariance, CountWeight, ModelScore
from onedraw.inference.components import solved
from onedraw.inference.rows import Rows
from onedraw.tilted.capped_counts import CappedCounts

COUNTS = [(1, None), (2, None), (5, None), (30, None), (1, 0.5), (8, 3.0)]


def exact_means(function, centre, spread):
    """E f He_k(x)/s^k, k = 0 to 4: the means of the derivatives of f [Stein's identity, k times]."""

    def integrand(x):
        density = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
        return function(np.array(centre + spread * x)) * density * special.eval_hermitenorm(np.arange(5), x)

    found, error = integrate.quad_vec(integrand, -9.0, 9.0, epsabs=1e-9)
    assert error < 1e-7
    return found / spread ** np.arange(5)


@pytest.mark.parametrize(("cap", "size"), COUNTS)
@pytest.mark.parametrize(
    ("above", "spread"), [(-3.3, 0.777), (-0.7, 2.3), (0.4, 0.3), (1.1, 1.31), (-9.0, 9.9)]
)
def test_means_of_counts_agree_with_quadrature(cap, size, above, spread):
    """To 1e-5 of the largest v where they make estimates and intervals, up to the second derivative; to 1e-3
    the third and fourth, which only guide the sampler. A unit is the width of the steepest part."""
    loss, centre = CappedCounts(cap=cap, dispersion=size), np.log(cap) + above
    unit = max(cap**-0.5, 0.1) ** -np.arange(5)
    largest = loss.mean_slope(np.linspace(-5.0, 10.0, 500)).max()
    for kind, function in ((CountWeight, loss.mean_slope), (CountVariance, loss.variance)):
        got = kind(cap=cap, dispersion=size).normal_means(np.array([centre]), np.array([spread**2]))[:, 0]
        error = np.abs(got[1:] - exact_means(function, centre, spread)) / (largest * unit)
        assert error[:3].max() < 1e-5
        assert error.max() < 1e-3
    got = CountWeight(cap=cap, dispersion=size).normal_means(np.array([centre]), np.array([spread**2]))[0, 0]
    assert got == pytest.approx(exact_means(loss.mean, centre, spread)[0], abs=1e-5 * cap)


@pytest.mark.parametrize("cap", [1, 3, 30])
def test_without_spread_they_are_the_derivatives_of_the_weight(cap):
    """v^(k) = v - g Q_k(mu) for Poisson counts, g = mu^(cap+1) e^-mu/(cap-1)!, Q_0 = 0, and
    Q_(k+1) = 1 + (cap + 1 - mu) Q_k + mu Q_k'."""
    eta = np.linspace(-4.0, np.log(cap) + 1.0, 41)
    mu, unit = np.exp(eta), max(cap**-0.5, 0.1)
    density = np.exp((cap + 1) * eta - mu - special.gammaln(cap))
    weight = CappedCounts(cap=cap).mean_slope(eta)
    got = CountWeight(cap=cap).normal_means(eta, np.zeros_like(eta))
    part = np.polynomial.Polynomial([0.0])
    for k in range(5):
        error = np.abs(got[k + 1] - weight + density * part(mu)).max() / weight.max()
        assert error < (1e-4 if k < 3 else 1e-3) * unit**-k
        slope = np.polynomial.Polynomial([0.0, 1.0]) * part.deriv()
        part = 1.0 + np.polynomial.Polynomial([cap + 1.0, -1.0]) * part + slope


@pytest.mark.parametrize(("cap", "size"), [(1, None), (2, None), (6, None), (20, None), (5, 2.0)])
def test_standard_errors_are_those_of_the_exact_weight(cap, size):
    """Within 1e-3 of themselves, and estimates within 1e-3 of a standard error."""

    class Exact:
        """By 601 equal steps, which are exact to rounding for a normal law of a smooth function."""

        def __init__(self, function):
            self.function = function

        def normal_means(self, centre, variance):
            x = np.linspace(-9.0, 9.0, 601)
            mass, spread = stats.norm.pdf(x) / stats.norm.pdf(x).sum(), np.sqrt(variance)
            eta = centre[:, None] + spread[:, None] * x
            hermite = np.polynomial.hermite_e.hermevander(x, 4) * mass[:, None]
            means = (self.function(eta) @ hermite).T / spread ** np.arange(5)[:, None]
            return np.concatenate([loss.mean(eta)[None] @ mass, means])

    loss, rng = CappedCounts(cap=cap, dispersion=size), np.random.default_rng(cap)
    batch = 40
    theta = np.tile([0.5 * np.log(cap) - 0.3, 0.6, -0.5], (batch, 1))
    factor = np.tril(rng.normal(0.0, 0.2, (batch, 3, 3))) + np.diag([1.0, 0.7, 0.6])
    factor[:, 0] = [1.0, 0.0, 0.0]
    rows = Rows.of_moments(factor @ factor.transpose(0, 2, 1), intercept=True)
    count, shift = rng.uniform(800.0, 1200.0, batch), rng.normal(0.0, 20.0, (batch, 3))
    found = []
    for weight, variance in (
        (CountWeight(cap=cap, dispersion=size), CountVariance(cap=cap, dispersion=size)),
        (Exact(loss.mean_slope), Exact(loss.variance)),
    ):
        truth = solved(weight, rows, count, theta, shift)
        score = ModelScore(variance=variance).covariances(truth, rng)
        covariance = truth.inverse @ score @ truth.inverse
        found.append((truth.point, np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))))
    (point, error), (exact_point, exact_error) = found
    assert np.abs(error / exact_error - 1.0).max() < 1e-3
    assert (np.abs(point - exact_point) / exact_error).max() < 1e-3


@pytest.mark.parametrize("cap", [1, 4, 50])
def test_the_curvature_is_positive_wherever_parameters_are(cap):
    """A tilt that no parameters explain leads far; there the curvature is small, but no negative one."""
    centre, spread = (
        a.ravel() for a in np.meshgrid(np.linspace(-20.0, 20.0, 201), np.linspace(0.0, 12.0, 61))
    )
    for weight in (CountWeight(cap=cap), CountVariance(cap=cap)):
        means = weight.normal_means(centre, spread**2)
        mass, first, second = means[1], spread * means[2], means[1] + spread**2 * means[3]
        assert mass.min() > 0.0
        assert (mass * second - first**2 > 0.0).all()


def test_a_diverging_proposal_has_finite_means():
    got = CountWeight(cap=2).normal_means(
        np.array([np.nan, np.inf, -np.inf]), np.array([np.inf, np.nan, 1e300])
    )
    assert np.isfinite(got).all()
