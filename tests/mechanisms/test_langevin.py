# SPDX-License-Identifier: Apache-2.0
"""Langevin draws: the proved distance against published and exact ones, the draws against quadrature."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import onedraw
from onedraw.families import Bernoulli
from onedraw.mechanisms import LipschitzGibbs, Shape
from onedraw.mechanisms._langevin import LangevinSampler, distance, schedule
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records

SLOPE = RegressionModel(family=Bernoulli(), features=("x",), fit_intercept=False)
TEN = Records(features=np.ones((10, 1)), response=(np.arange(10) < 7).astype(float))
SETTINGS = [(1.0, 1.94, 1, 0.0134), (1 / 9, 20.0, 3, 1e-4), (4.0, 400.0, 11, 1e-6)]


def published(curvature, smoothness, dim, error):
    """Step and steps of Dalalyan 2017, Corollary 1."""
    time = (4 * math.log(1 / error) + dim * math.log(smoothness / curvature)) / (2 * curvature)
    alpha = (1 + smoothness * dim * time / error**2) / 2
    step = error**2 * (2 * alpha - 1) / (smoothness**2 * time * dim * alpha)
    return step, math.ceil(time / step)


@pytest.mark.parametrize(("curvature", "smoothness", "dim", "error"), SETTINGS)
def test_the_distance_agrees_with_the_published_schedule(curvature, smoothness, dim, error):
    """Its first term is error/2 there; with the sharp rate, half of that or less. The second is error/2."""
    step, steps = published(curvature, smoothness, dim, error)
    facts = {"curvature": curvature, "smoothness": smoothness, "dim": dim}
    found = distance(step=step, steps=steps, **facts, offset=0.0)
    assert 0.49 * error <= found <= error
    plan = schedule(**facts, error=error)
    assert plan.error <= error
    assert steps / 20 < plan.steps < steps / 4


def test_the_golden_schedule():
    """By hand, for m = 1, M = 2, p = 2, h = 0.001, K = 4000 and a start at the minimiser.

    T = 4: (1/2) sqrt(2 - 1) e^-4 = 0.0091578; KL = 1 [0.008 + (1e-6/3)(1 + 16)/0.999] = 0.0080056724.
    """
    found = distance(step=0.001, steps=4000, curvature=1.0, smoothness=2.0, dim=2, offset=0.0)
    assert found == pytest.approx(0.00915782 + math.sqrt(0.0080056724 / 2), abs=1e-7)


@pytest.mark.parametrize("error", [0.2, 0.05, 0.01])
def test_a_normal_target_stays_within_the_distance(error):
    """Without records the chain is a first-order autoregression, whose law is normal and known."""
    plan = schedule(curvature=1.0, smoothness=1.0, dim=1, error=error)
    factor = (1 - plan.step) ** 2
    limit = 2 * plan.step / (1 - factor)
    variance = limit + (1.0 - limit) * factor**plan.steps
    grid = np.linspace(-12, 12, 48_001)
    gap = np.abs(stats.norm.pdf(grid, scale=math.sqrt(variance)) - stats.norm.pdf(grid))
    assert 0.5 * gap.sum() * (grid[1] - grid[0]) <= plan.error <= error


def test_a_longer_prior_a_farther_start_and_more_parameters_take_more_steps():
    base = {"curvature": 1.0, "smoothness": 2.0, "dim": 1, "error": 0.05}
    few = schedule(**base).steps
    for harder in ({"curvature": 0.5}, {"smoothness": 4.0}, {"dim": 2}, {"error": 0.025}):
        assert schedule(**{**base, **harder}).steps > 1.3 * few
    near = distance(step=1e-4, steps=1000, curvature=1.0, smoothness=2.0, dim=1, offset=0.0)
    assert distance(step=1e-4, steps=1000, curvature=1.0, smoothness=2.0, dim=1, offset=1.0) > near


def calibrated(num_records=10, draws=1, neighbours="replace_one", **options):
    settings = {"feature_norm": 1.0, "prior_scale": 1.0, "draw": "langevin", **options}
    request = Request(epsilon=1.0, delta=0.1, draws=draws, neighbours=neighbours)
    return LipschitzGibbs(**settings).calibrate(request, Shape(model=SLOPE, num_records=num_records))


@pytest.mark.statistical
def test_the_draws_have_the_moments_of_the_posterior():
    """2000 chains against quadrature: mean and variance within 5 standard errors and the proved distance.

    False alarm below 1e-6. Noise of sqrt(h) for sqrt(2 h), or a prior forgotten, moves them by 10 and more.
    """
    posterior = calibrated().posterior(TEN)
    values = (
        LangevinSampler(error=0.05, feature_norm=1.0)
        .sample(posterior, 2000, np.random.default_rng(0))
        .values[:, 0]
    )

    def moment(power, centre=0.0):
        def weighted(t):
            return (t - centre) ** power * math.exp(float(posterior.log_density(np.array([[t]]))[0]))

        return integrate.quad(weighted, -9, 9, epsabs=1e-11)[0]

    total = moment(0)
    mean = moment(1) / total
    variance = moment(2, mean) / total
    assert abs(values.mean() - mean) <= 5 * math.sqrt(variance / 2000) + 0.01
    assert abs(values.var() / variance - 1) <= 5 * math.sqrt(2 / 2000) + 0.02


def test_delta_pays_for_the_chain():
    """Half for the exact draw, by the Gaussian curve; half for (1 + e^epsilon) k times the distance."""
    for draws in (1, 3):
        mechanism = calibrated(num_records=1, draws=draws)
        mu = mechanism.gaussian
        exact = stats.norm.cdf(mu / 2 - 1 / mu) - math.e * stats.norm.cdf(-mu / 2 - 1 / mu)
        paid = exact + (1 + math.e) * draws * mechanism.sampler_error
        assert 0.0999 < paid <= 0.1
        assert mechanism.guarantee.delta == 0.1
    assert calibrated(draw="exact").sampler_error == 0.0


def test_a_release_says_how_it_was_drawn(released):
    mechanism = calibrated()
    release = released(mechanism, TEN, 0)
    assert (release.evidence.level, release.mechanism.options["draw"]) == ("accounted", "langevin")
    assert f"within {mechanism.sampler_error:.4g} of the posterior" in release.evidence.statement
    assert onedraw.Release.from_json(release.to_json()) == release
    assert not any("draw is exact" in line for line in release.assumptions)


def test_no_records_draw_from_the_prior(released):
    """|draw| of N(0, 1) exceeds 6 with probability 2e-9."""
    nobody = Records(features=np.zeros((0, 1)), response=np.zeros(0))
    assert abs(released(calibrated(num_records=0), nobody, 3).draws[0][0]) < 6


def test_what_cannot_be_run_or_proved_is_refused():
    """From public facts, so before any record is read."""
    with pytest.raises(onedraw.InvalidInput, match=r"steps here, more than 1e\+06.*draw='exact'"):
        calibrated(num_records=1000)
    with pytest.raises(onedraw.InvalidInput, match="draw='langevin' is private for neighbours='replace_one'"):
        calibrated(neighbours="add_remove")
    with pytest.raises(onedraw.InvalidInput, match="Expected draw to be one of 'exact', 'langevin'"):
        calibrated(draw="hmc")


def test_a_chain_planned_without_the_number_of_records_is_refused_before_the_charge(released, tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0, delta=0.2, delta_for_charges=0.1)
    many = Records(features=np.ones((1000, 1)), response=np.ones(1000))
    with pytest.raises(onedraw.InvalidInput, match="needs the number of records before it is charged for"):
        released(calibrated(num_records=None), many, ledger=ledger, dataset="patients")
    assert ledger.show("patients").spent == 0.0


def test_the_smoothness_is_that_of_the_most_curved_table():
    """All rows as long as allowed, in one direction, at zero: the curvature is w n X^2/4 and the prior's."""
    mechanism = LipschitzGibbs(feature_norm=2.0, draw="langevin", prior_scale=0.3)
    shape = Shape(model=SLOPE, num_records=10)
    mechanism = mechanism.calibrate(Request(epsilon=0.5, delta=0.3), shape)
    rows = Records(features=np.full((10, 1), 2.0), response=TEN.response)
    posterior = mechanism.posterior(rows)
    step = 1e-3
    heights = [posterior.log_density(np.array([[at]]))[0] for at in (-step, 0.0, step)]
    bend = -(heights[0] - 2.0 * heights[1] + heights[2]) / step**2
    assert bend > 1.01 * 0.3**-2  # the data bend it too
    expected = schedule(curvature=0.3**-2, smoothness=bend, dim=1, error=mechanism.sampler_error)
    planned = mechanism.drawn_by.planned(posterior)
    assert planned.steps == pytest.approx(expected.steps, rel=1e-3)
