# SPDX-License-Identifier: Apache-2.0
"""A look that stands in for all records: right at its centre, nearly right around it, and never trusted."""

import numpy as np
import pytest

from onedraw.families import Bernoulli
from onedraw.losses import BetaDivergence
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.samplers import ascent, few_scans, fitting
from onedraw.samplers.ascent import to_the_top
from onedraw.samplers.corrected import Corrected
from onedraw.samplers.few_scans import fitted_in_few_scans, is_worth_it
from onedraw.samplers.modes import find_modes
from onedraw.tables import base


def posterior(n=40_000, d=2):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * x.sum(axis=1)))).astype(float)
    loss = BetaDivergence(Bernoulli())
    return Posterior(loss=loss, beta=1.5, weight=0.2, prior=Prior(scale=3.0), features=x, response=y)


@pytest.fixture
def small_look(monkeypatch):
    monkeypatch.setattr(base, "LOOK", 4096)


def corrected_at(centre, whole, rng):
    look = whole.subsample(base.LOOK, rng)
    return Corrected.at(look, centre, whole.local_quadratic(centre), whole.num_records / base.LOOK)


def test_at_its_centre_a_corrected_look_is_the_posterior_and_near_it_nearly(small_look):
    whole, centre = posterior(), np.array([2.0, 2.1, 0.1])
    near = corrected_at(centre, whole, np.random.default_rng(1))
    for found, expected in zip(near.local_quadratic(centre), whole.local_quadratic(centre), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
    deviations = np.linalg.inv(np.linalg.cholesky(whole.local_quadratic(centre)[2])).T
    around = centre + np.random.default_rng(2).standard_normal((50, 3)) @ deviations.T
    plain = near.value_gap + Posterior.log_density(near, around)
    true = whole.log_density(around)
    assert np.abs(near.log_density(around) - true).max() < 0.05
    assert np.abs(plain - true).max() > 1.0  # what the correction is worth


def test_gradient_and_curvature_of_a_corrected_look_are_those_of_its_values(small_look):
    near = corrected_at(np.array([2.0, 2.1, 0.1]), posterior(), np.random.default_rng(1))
    point, h = np.array([2.05, 2.0, 0.12]), 1e-4
    _, gradient, bend = near.local_quadratic(point)
    steps = h * np.eye(3)
    up, down = near.log_density_and_gradient(point + steps), near.log_density_and_gradient(point - steps)
    np.testing.assert_allclose((up[0] - down[0]) / (2 * h), gradient, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(-(up[1] - down[1]) / (2 * h), bend, rtol=1e-4, atol=1e-1)
    far = near.centre + np.array([[300.0, -200.0, 50.0], [3000.0, -2000.0, 500.0]])
    assert np.ptp(near._correction(far)[0]) < 1e-6 * abs(near._correction(far)[0][0]) + 1e-6


def test_the_bound_is_the_largest_ratio_and_takes_three_scans(small_look, monkeypatch):
    """Beside ascents over all records from many starts; the margin of the sampler is 0.05."""
    whole, rng = posterior(), np.random.default_rng(3)
    scans, plain = [], Posterior.sum_over_blocks

    def counted(self, *args):
        scans.append(self.num_records == 40_000)
        return plain(self, *args)

    monkeypatch.setattr(Posterior, "sum_over_blocks", counted)
    assert is_worth_it(whole)
    (mode,), fit = fitted_in_few_scans(whole, rng)
    assert sum(scans) == 3
    gain = whole.local_quadratic(mode.location)[1]
    assert gain @ np.linalg.solve(mode.precision, gain) < 1e-2
    thetas = fit.envelope.sample(rng, 400)
    ratio = whole.log_density(thetas) - fit.envelope.log_density(thetas)
    starts = thetas[np.argsort(ratio)[-5:]]
    highest = max(to_the_top(whole, fit.envelope, start, mode)[0] for start in starts)
    assert highest - 0.02 < fit.bound < highest + 0.1
    assert ratio.max() < fit.bound + 0.05


def test_climbs_with_a_curvature_of_few_records_end_at_true_tops(monkeypatch):
    """As high as climbs over all records from the same starts, with far fewer curvatures of all records."""
    monkeypatch.setattr(ascent, "MANY_PARAMETERS", 8)
    whole, rng = posterior(n=12_000, d=8), np.random.default_rng(3)
    mode = find_modes(whole, rng)[0]
    envelope = fitting.laplace_mixture(whole, [mode])
    starts = mode.location + 3.0 * (envelope.sample(rng, 4) - mode.location)
    curvatures, plain = [], Posterior.local_quadratic

    def counted(self, *args):
        curvatures.append(self.num_records == 12_000)
        return plain(self, *args)

    monkeypatch.setattr(Posterior, "local_quadratic", counted)
    highest = max(to_the_top(whole, envelope, start, mode)[0] for start in starts)
    all_of_them = sum(curvatures)
    tops = ascent.all_to_the_top(whole, envelope, starts, mode, rng)
    assert sum(curvatures) - all_of_them < 0.7 * all_of_them
    assert max(value for value, _ in tops) == pytest.approx(highest, abs=5e-3)
    for value, top in tops:
        assert value == pytest.approx(
            float((whole.log_density(top[None]) - envelope.log_density(top[None]))[0]), abs=1e-6
        )


def test_several_modes_and_few_records_are_left_to_the_ordinary_search(small_look, monkeypatch):
    monkeypatch.setattr(few_scans, "sampled_modes", lambda posterior, rng: np.zeros((2, posterior.dim)))
    assert fitted_in_few_scans(posterior(), np.random.default_rng(0)) is None
    assert not is_worth_it(posterior(n=6000))


def test_a_correction_that_misleads_is_not_believed(small_look, monkeypatch):
    """A slope that is wrong by many standard deviations puts the mode elsewhere: it is seen, and refused."""
    whole, plain = posterior(), Corrected.at.__func__

    def wrong(cls, look, centre, quadratic, looks):
        value, gradient, hessian = quadratic
        return plain(cls, look, centre, (value, gradient + 20.0 * np.sqrt(np.diag(hessian)), hessian), looks)

    monkeypatch.setattr(Corrected, "at", classmethod(wrong))
    assert few_scans.fitted_in_few_scans(whole, np.random.default_rng(0)) is None
