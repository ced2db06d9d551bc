# SPDX-License-Identifier: Apache-2.0
"""Objective perturbation against its exact one-dimensional density, by change of variables.

In one dimension b has density proportional to exp(-|b|/scale) and theta solves b = -sum of gradients -
R theta, so log p(theta) = -|b(theta)|/scale + log |db/dtheta| + a constant that neighbours share.
"""

import numpy as np
import pytest
from scipy import optimize, special, stats

import onedraw
from onedraw.families import Bernoulli
from onedraw.mechanisms import ObjectivePerturbation, Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records

SLOPE = Shape(model=RegressionModel(family=Bernoulli(), features=("x",), fit_intercept=False))


def log_density(theta, records, ridge, scale):
    b, jacobian = -ridge * theta, ridge + 0.0 * theta
    for x, y in records:
        sign = 2 * y - 1
        b = b + sign * x * special.expit(-sign * x * theta)
        jacobian = jacobian + x * x * special.expit(x * theta) * special.expit(-x * theta)
    return -np.abs(b) / scale + np.log(jacobian)


def privacy_loss(one, other, ridge, scale):
    theta = np.concatenate([-np.geomspace(1e-4, 300, 400)[::-1], [0.0], np.geomspace(1e-4, 300, 400)])
    return float(
        np.abs(log_density(theta, one, ridge, scale) - log_density(theta, other, ridge, scale)).max()
    )


def build(norm, epsilon, regularisation, **options):
    mechanism = ObjectivePerturbation(feature_norm=norm, regularisation=regularisation, **options)
    return mechanism.calibrate(Request(epsilon=epsilon), SLOPE)


@pytest.mark.parametrize("norm", [0.3, 1.0, 12.0])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_neighbours_stay_within_epsilon(norm, epsilon):
    values = [(x * norm, y) for x in (-1.0, -0.4, 0.0, 0.4, 1.0) for y in (0, 1)]
    worst = 0.0
    for regularisation in (1e-3, 1.0, 100.0):
        for count in (0, 1, 6):
            common = [(norm, 1)] * count
            mechanism = build(norm, epsilon, regularisation)
            ridge, scale = mechanism.ridge(count + 1), mechanism.noise_scale(count + 1)
            for one in values:
                for other in values:
                    worst = max(worst, privacy_loss([*common, one], [*common, other], ridge, scale))
    assert worst <= mechanism.tilt_epsilon + 1e-9
    assert worst >= 0.4 * epsilon


def test_halved_noise_breaks_the_guarantee():
    """Two dimensions, where gradients of neighbours can be almost opposite: at a theta where all records are
    in the linear part of their loss and b points along the second axis, two thirds of epsilon are used up."""
    mechanism = build(1.0, 1.0, 1e-3)
    theta = np.array([100.0, -30.0])
    common = np.repeat([[0.1, 0.995]], 1000, axis=0)  # rows are y x, with y = +1 or -1

    def pieces(signed):
        rows = np.vstack([common, signed])
        slope = special.expit(-rows @ theta)
        b = slope @ rows - mechanism.ridge(len(rows)) * theta
        hessian = (rows * (slope * (1 - slope))[:, None]).T @ rows + mechanism.ridge(len(rows)) * np.eye(2)
        return np.linalg.norm(b), np.linalg.slogdet(hessian)[1]

    (norm_one, log_one), (norm_other, log_other) = (pieces([[-0.43, sign * 0.9]]) for sign in (1, -1))
    scale = mechanism.noise_scale(1001)
    loss = abs((norm_one - norm_other) / scale) + abs(log_one - log_other)
    assert 0.65 <= loss <= mechanism.tilt_epsilon
    assert abs((norm_one - norm_other) / (scale / 2)) > 1.3


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_tilt_and_curvature_are_both_paid_for(epsilon):
    """One pair that uses both: 7/8 of e1, and 5/4 of it if the determinant were free.

    The first record is undecided (slope 1/2, full curvature), the other is badly predicted (slope 1, none)
    and points the other way; a crowd without curvature holds b along their common line.
    """
    mechanism = build(1.0, epsilon, 1e-12)
    crowd, far, tilt = 1e7, 1e4, 0.01
    line, across = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    opposite = -np.cos(tilt) * line + np.sin(tilt) * across  # rows are y x, with y = +1 or -1
    theta, ridge = -far * across, mechanism.ridge(int(crowd) + 1)

    def pieces(row):
        slopes = special.expit(-np.array([opposite @ theta, row @ theta]))
        b = crowd * slopes[0] * opposite + slopes[1] * row - ridge * theta
        bends = np.array([crowd, 1.0]) * slopes * (1.0 - slopes)
        hessian = ridge * np.eye(2) + bends[0] * np.outer(opposite, opposite) + bends[1] * np.outer(row, row)
        return np.linalg.norm(b), np.linalg.slogdet(hessian)[1]

    (norm_one, log_one), (norm_other, log_other) = pieces(line), pieces(opposite)
    loss = (norm_other - norm_one) / mechanism.noise_scale(int(crowd) + 1) + log_one - log_other
    assert 0.87 * mechanism.tilt_epsilon <= loss <= mechanism.tilt_epsilon


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_curvature_term_needs_the_square_of_the_norm(epsilon):
    """n = 1, lambda = 1, X = 12: the rule with X in place of X^2 exceeds epsilon on x = 12 against x = 0."""
    norm, regularisation = 12.0, 1.0

    def published_rule(curvature):
        left = epsilon - 2 * np.log1p(curvature / regularisation)
        if left > 0:
            return regularisation, 2 * norm / left
        return curvature / np.expm1(epsilon / 4), 4 * norm / epsilon

    wrong, right = published_rule(norm / 4), published_rule(norm**2 / 4)
    mechanism = build(norm, epsilon, regularisation)
    ours = mechanism.ridge(1), mechanism.noise_scale(1)
    pair = [(norm, 1)], [(0.0, 1)]
    assert privacy_loss(*pair, *wrong) > 1.15 * epsilon
    assert privacy_loss(*pair, *right) <= epsilon
    assert privacy_loss(*pair, *ours) <= epsilon


def test_the_determinants_of_neighbours_obey_the_bound_in_several_dimensions():
    rng = np.random.default_rng(0)
    for _ in range(300):
        p, ridge = int(rng.integers(1, 6)), float(rng.choice([0.1, 1.0, 30.0]))
        common = rng.normal(size=(int(rng.integers(0, 6)), p))
        base = ridge * np.eye(p) + common.T @ common
        logs = []
        for _ in range(2):
            x = rng.normal(size=(1, p))
            x *= rng.choice([0.0, 1.0, 3.0]) / np.linalg.norm(x, axis=1, keepdims=True)
            logs.append(np.linalg.slogdet(base + 0.25 * x.T @ x)[1])
        assert abs(logs[0] - logs[1]) <= np.log1p(0.25 * 9.0 / ridge) + 1e-12


def test_the_minimiser_inverts_the_change_of_variables():
    mechanism = build(1.0, 1.0, 0.05)
    rng = np.random.default_rng(1)
    design = rng.uniform(-1, 1, size=(30, 1))
    response = rng.integers(0, 2, size=30).astype(float)
    for tilt in (-4.0, 0.0, 2.5):
        theta = mechanism.minimiser(design, response, np.array([tilt]))[0]
        slope = (response - special.expit(design[:, 0] * theta)) @ design[:, 0]
        assert slope - mechanism.ridge(30) * theta == pytest.approx(tilt, abs=2e-5)


def test_the_solver_share_pays_for_the_tolerance():
    """Computed minimisers of one exact one are at most 2r apart, r = tolerance X/R by strong convexity."""
    mechanism = build(2.0, 1.5, 0.05)
    radius = mechanism.tolerance * 2.0 / mechanism.ridge(50)
    spent = 2 * radius / mechanism.solver_noise_scale(50)
    assert spent + mechanism.tilt_epsilon == pytest.approx(1.5)
    halved = build(2.0, 1.5, 0.05, tolerance=mechanism.tolerance / 2)
    assert 2 * radius / halved.solver_noise_scale(50) + mechanism.tilt_epsilon > 1.5 * 1.009


@pytest.mark.statistical
def test_the_release_carries_the_noise_of_the_tilt(released):
    """All features 0: theta is -b/R plus the solver's noise, a thousandth of it; in one dimension b is
    Laplace. Kolmogorov-Smirnov at level 1e-4 with fixed seeds."""
    mechanism = build(1.0, 1.0, 0.05)
    data = Records(features=np.zeros((20, 1)), response=np.ones(20))
    values = [released(mechanism, data, seed).draws[0][0] for seed in range(1500)]
    law = stats.laplace(0, mechanism.noise_scale(20) / mechanism.ridge(20))
    assert stats.kstest(values, law.cdf).pvalue > 1e-4


@pytest.mark.statistical
def test_the_release_carries_the_noise_of_the_solver(released, monkeypatch):
    """With the minimiser held at 0, the release is that noise. Kolmogorov-Smirnov at level 1e-4."""
    monkeypatch.setattr(ObjectivePerturbation, "minimiser", lambda self, design, response, tilt: np.zeros(1))
    mechanism = build(1.0, 1.0, 0.05)
    data = Records(features=np.zeros((20, 1)), response=np.ones(20))
    values = [released(mechanism, data, seed).draws[0][0] for seed in range(1500)]
    assert stats.kstest(values, stats.laplace(0, mechanism.solver_noise_scale(20)).cdf).pvalue > 1e-4


def test_a_large_epsilon_recovers_the_estimate(released):
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(2000, 1))
    y = (rng.random(2000) < special.expit(2 * x[:, 0])).astype(float)
    mechanism = build(1.0, 1e5, 1e-3)
    release = released(mechanism, Records(features=x, response=y), 0)
    fit = optimize.minimize_scalar(
        lambda t: np.logaddexp(0, -(2 * y - 1) * x[:, 0] * t).mean() + 0.5e-3 * t * t
    ).x
    assert release.draws[0][0] == pytest.approx(fit, abs=1e-3)


def test_options_are_checked():
    with pytest.raises(onedraw.InvalidInput, match="0 < solver_share < 1"):
        ObjectivePerturbation(feature_norm=1.0, solver_share=1.0).calibrate(Request(epsilon=1.0), SLOPE)
