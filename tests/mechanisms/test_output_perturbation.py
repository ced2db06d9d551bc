# SPDX-License-Identifier: Apache-2.0
"""Output perturbation against brute-force sensitivities: estimates come from an independent optimiser.

The log density ratio of the release at its worst point is |theta - theta'|/scale in the noise's own norm, so
distances between estimates of neighbours are privacy losses, exactly.
"""

import numpy as np
import pytest
from scipy import optimize, special, stats

import onedraw
from onedraw.families import Bernoulli
from onedraw.mechanisms import OutputPerturbation, Shape
from onedraw.mechanisms._bounds import bounded_design
from onedraw.mechanisms._logistic import gradient, minimise
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records
from onedraw.tilted.laws import BallLaw

SLOPE = Shape(model=RegressionModel(family=Bernoulli(), features=("x",), fit_intercept=False))


def build(epsilon=1.0, **options):
    return OutputPerturbation(**options).calibrate(Request(epsilon=epsilon), SLOPE)


def reference_fit(design, response, regularisation):
    sign = 2 * response - 1

    def value(theta):
        return -special.log_expit(sign * (design @ theta)).mean() + 0.5 * regularisation * theta @ theta

    def slope(theta):
        return (
            -design.T @ (sign * special.expit(-sign * (design @ theta))) / len(sign) + regularisation * theta
        )

    found = optimize.minimize(
        value, np.zeros(design.shape[1]), jac=slope, method="BFGS", options={"gtol": 1e-9}
    )
    return found.x


def privacy_loss(mechanism, one, other):
    """Exact sup of |log density ratio| for the exact minimisers of two data sets (design, response)."""
    gap = reference_fit(*one, mechanism.regularisation) - reference_fit(*other, mechanism.regularisation)
    order = 2 if mechanism.noise == "spherical" else 1
    scale = mechanism.noise_scale(num_records=len(one[1]), dim=len(gap))
    return float(np.linalg.norm(gap, order)) / scale


def anchored_pair(p, n):
    """Copies of (e1, 1), and a last record with response 0 at (1, 1, ..., 1) or (1, -1, ..., -1)."""
    design = np.zeros((n, p))
    design[:, 0] = 1.0
    response = np.ones(n)
    response[-1] = 0.0
    one, other = design.copy(), design.copy()
    one[-1, 1:], other[-1, 1:] = 1.0, -1.0
    return (one, response), (other, response)


@pytest.mark.parametrize("p", [2, 5, 10])
def test_the_anchored_pair_needs_the_corrected_laplace_scale(p):
    """It moves the estimate by almost 2(p - 1)/(n lambda) in L1: within the scale 2p/(n lambda epsilon),
    which it nearly uses up, and p - 1 times beyond the scale 2/(n lambda epsilon)."""
    n, regularisation, epsilon = 200_000, 1e-4, 1.0
    mechanism = build(epsilon, feature_norm=p**0.5, regularisation=regularisation, noise="laplace")
    scale = mechanism.noise_scale(num_records=n, dim=p)
    assert scale == pytest.approx(2 * p / (n * regularisation * epsilon), rel=2e-3)
    one, other = anchored_pair(p, n)
    gap = np.abs(mechanism.estimate(*one) - mechanism.estimate(*other)).sum()
    assert 0.97 * (p - 1) / p * epsilon <= gap / scale <= epsilon
    uncorrected = 2 / (n * regularisation * epsilon)
    assert gap / uncorrected >= 0.95 * (p - 1) * epsilon


def test_the_anchored_pair_nearly_uses_up_the_spherical_noise():
    """0.9 epsilon, so noise halved, or a sensitivity that lost its factor 2, breaks the guarantee."""
    n, p = 200_000, 10
    mechanism = build(feature_norm=p**0.5, regularisation=1e-4)
    one, other = anchored_pair(p, n)
    gap = float(np.linalg.norm(mechanism.estimate(*one) - mechanism.estimate(*other)))
    assert 0.9 <= gap / mechanism.noise_scale(num_records=n, dim=p) <= 1.0


@pytest.mark.parametrize("noise", ["spherical", "laplace"])
def test_adversarial_neighbours_stay_within_epsilon(noise):
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(150):
        p, n = int(rng.integers(1, 5)), int(rng.integers(1, 8))
        norm, regularisation = float(rng.choice([0.5, 1.0, 8.0])), float(rng.choice([1e-2, 0.3, 5.0]))
        mechanism = build(0.7, feature_norm=norm, regularisation=regularisation, noise=noise)
        design = rng.choice([-1.0, 0.0, 1.0], size=(n, p)) * rng.choice([1.0, 100.0])
        response = rng.integers(0, 2, size=n).astype(float)
        changed, flipped = design.copy(), response.copy()
        changed[0] = rng.choice([-1.0, 0.0, 1.0], size=p)
        flipped[0] = rng.integers(0, 2)
        pair = [
            (bounded_design(x, fit_intercept=False, feature_norm=norm), y)
            for x, y in ((design, response), (changed, flipped))
        ]
        worst = max(worst, privacy_loss(mechanism, *pair))
    assert 0.2 < worst <= 0.7


def test_a_sloppy_solver_stays_within_the_noise_that_covers_it():
    """At tolerance 1 half of the sensitivity belongs to the solver: any two points that it may return for one
    data set are within it, and without that share they are not covered by what is left."""
    mechanism = build(feature_norm=1.0, regularisation=0.1, tolerance=1.0)
    exact = build(feature_norm=1.0, regularisation=0.1, tolerance=1e-9)
    n = 5
    ignoring_the_residual = exact.sensitivity(num_records=n)
    assert mechanism.sensitivity(num_records=n) == pytest.approx(2 * ignoring_the_residual)
    # Strong convexity with equality: a gradient of norm t is reached t/lambda from the optimum where the
    # data are flat (all features 0), so neighbours' computed estimates may be this far apart:
    reach = 2 * mechanism.tolerance * 1.0 / n / mechanism.regularisation
    design, response = np.zeros((n, 1)), np.ones(n)
    for shift in (-1, 1):
        point = np.array([shift * reach / 2])
        slope = gradient(design, 2 * response - 1, point, n * mechanism.regularisation, np.zeros(1))
        assert np.linalg.norm(slope) <= mechanism.tolerance * (1 + 1e-12)
    assert reach + ignoring_the_residual <= mechanism.sensitivity(num_records=n) * (1 + 1e-8)


def test_the_solver_meets_its_residual_and_agrees_with_another():
    rng = np.random.default_rng(1)
    for n, p, ridge in ((1, 1, 1e-6), (50, 3, 1e-4), (2000, 6, 5.0)):
        design = bounded_design(rng.normal(size=(n, p)), fit_intercept=False, feature_norm=1.0)
        sign = rng.choice([-1.0, 1.0], size=n)
        tilt = rng.normal(size=p) * ridge
        theta = minimise(design, sign, ridge=ridge, tilt=tilt, feature_norm=1.0, residual=1e-8)
        exact = -design.T @ (sign * special.expit(-sign * (design @ theta))) + ridge * theta + tilt
        assert np.linalg.norm(exact) <= 1e-8
    design, response = design, (sign > 0).astype(float)
    mechanism = build(feature_norm=1.0, regularisation=0.01, tolerance=1e-6)
    np.testing.assert_allclose(
        mechanism.estimate(design, response), reference_fit(design, response, 0.01), atol=1e-5
    )


def test_a_residual_that_cannot_be_certified_is_an_error():
    design, sign = np.ones((10, 1)), np.ones(10)
    with pytest.raises(onedraw.SamplingError, match=r"nothing was released. Use more regularisation"):
        minimise(design, sign, ridge=1.0, tilt=np.zeros(1), feature_norm=1.0, residual=1e-18)


@pytest.mark.statistical
def test_the_noise_has_its_radial_law():
    """Kolmogorov-Smirnov at level 1e-4 with a fixed seed."""
    rng = np.random.default_rng(2)
    draws = np.array([BallLaw(dim=3, scale=0.5).sample(rng) for _ in range(4000)])
    assert stats.kstest(np.linalg.norm(draws, axis=1), stats.gamma(3, scale=0.5).cdf).pvalue > 1e-4
    assert stats.kstest(draws[:, 0] / np.linalg.norm(draws, axis=1), stats.uniform(-1, 2).cdf).pvalue > 1e-4


@pytest.mark.parametrize("noise", ["spherical", "laplace"])
def test_the_release_carries_that_noise(noise, released):
    """Mean absolute deviation from the estimate, within 15 % (almost six standard errors)."""
    rng = np.random.default_rng(3)
    data = Records(
        features=rng.uniform(-1, 1, size=(40, 1)), response=rng.integers(0, 2, size=40).astype(float)
    )
    mechanism = build(2.0, feature_norm=1.0, regularisation=0.1, noise=noise)
    estimate = reference_fit(data.features, data.response, 0.1)
    gaps = [released(mechanism, data, seed).draws[0][0] - estimate[0] for seed in range(1500)]
    # In one dimension both laws are Laplace, whose mean absolute value is the scale: 2/(40 * 0.1 * 2).
    assert np.abs(gaps).mean() == pytest.approx(0.25, rel=0.15)


def test_n_must_be_public_and_positive(released):
    mechanism = OutputPerturbation(feature_norm=1.0)
    with pytest.raises(onedraw.InvalidInput, match="number of records, which must be public"):
        mechanism.calibrate(Request(epsilon=1.0, neighbours="add_remove"), SLOPE)
    empty = Records(features=np.zeros((0, 1)), response=np.zeros(0))
    with pytest.raises(onedraw.InvalidInput, match="at least one record"):
        released(mechanism.calibrate(Request(epsilon=1.0), SLOPE), empty)
    with pytest.raises(onedraw.InvalidInput, match="arbitrarily far"):
        build(feature_norm=1.0, regularisation=0.0)
