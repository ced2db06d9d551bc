# SPDX-License-Identifier: Apache-2.0
"""Calibrations against numbers worked out by hand or by another program."""

import math

import numpy as np
import pytest
from scipy import stats

from onedraw.errors import InvalidInput
from onedraw.tilted.calibration import calibrate
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.laws import BallLaw, CubeLaw, GaussianLaw
from onedraw.tilted.losses import LogCosh, Logistic
from onedraw.tilted.softmax_loss import Softmax


def pure(loss, epsilon=1.0, dim=6, **options):
    options.setdefault("geometry", "cube")
    return calibrate(loss, epsilon=epsilon, dim=dim, solver_share=0.0, **options)


@pytest.mark.parametrize(
    ("loss", "options", "scale", "ridge"),
    [
        (Logistic(), {}, 2.0, 12.0),
        (Logistic(), {"neighbours": "add_remove"}, 1.0, 6.0),
        (Logistic(), {"rows_per_person": 3}, 6.0, 36.0),
        (Logistic(), {"geometry": "ball"}, 2.0 * math.sqrt(6.0), 12.0),
        (LogCosh(cut=2.5), {}, 5.0, 24.0),
        (LogCosh(cut=2.5), {"neighbours": "add_remove"}, 2.5, 12.0),
    ],
)
def test_where_curvature_is_free_scale_and_ridge_are_whole_multiples(loss, options, scale, ridge):
    fit = pure(loss, **options)
    assert (fit.law.scale, fit.ridge) == (pytest.approx(scale, rel=1e-8), pytest.approx(ridge, rel=1e-8))
    assert fit.law.scale >= scale
    assert fit.ridge >= ridge


@pytest.mark.parametrize(
    ("epsilon", "neighbours", "times"),
    [
        (0.3, "replace_one", 2.1157),
        (1.0, "replace_one", 2.098038),
        (3.0, "replace_one", 2.0670),
        (0.3, "add_remove", 1.1083),
        (1.0, "add_remove", 1.0810),
        (3.0, "add_remove", 1.0454),
    ],
)
def test_a_price_buys_half_the_ridge(epsilon, neighbours, times):
    free = 2.0 if neighbours == "replace_one" else 1.0
    fit = pure(Logistic(), epsilon, neighbours=neighbours, price=1.0 - free / times)
    # The ratio k/u is 2 at these prices: R = p/(2 u), u = 1/scale.
    assert fit.ridge == pytest.approx(6.0 * fit.law.scale / 2.0, rel=5e-4)


@pytest.mark.parametrize(("cap", "cut"), [(1, 0.5), (6, 1.5), (24, 3.0)])
def test_counts_are_calibrated_as_log_cosh_of_a_location(cap, cut):
    """The steepest location, of a table made here by bisection and differences, is all that is new."""
    values, eta = np.arange(cap + 1.0), np.linspace(-6.0, math.log(cap) + 3.0, 4001)
    mass = stats.poisson.pmf(values[:, None], np.exp(eta))
    mass[-1] = stats.poisson.sf(cap - 1.0, np.exp(eta))
    low, high = np.zeros_like(eta), np.full_like(eta, cap)
    for _ in range(50):
        middle = 0.5 * (low + high)
        below = (mass * np.tanh((middle - values[:, None]) / cut)).sum(axis=0) < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    steepest = np.diff(low).max() / (eta[1] - eta[0])
    fit, plain = pure(CountCosh(cap=cap, cut=cut), dim=3), pure(LogCosh(cut=cut), dim=3)
    assert fit.law == plain.law
    assert fit.ridge == pytest.approx(steepest * plain.ridge, rel=2e-3)


@pytest.mark.parametrize(
    ("epsilon", "scale", "ridge"), [(0.3, 7.4074, 49.25), (1.0, 2.2222, 14.26), (3.0, 0.7407, 4.287)]
)
def test_softmax_has_its_golden_numbers(epsilon, scale, ridge):
    fit = pure(Softmax(classes=3), epsilon, dim=3)
    assert (fit.law.scale, fit.ridge) == (pytest.approx(scale, rel=1e-4), pytest.approx(ridge, rel=1e-3))


def test_a_loss_whose_curvature_is_not_free_needs_a_price():
    for price in (0.0, 1e-9):
        with pytest.raises(InvalidInput, match="price >= 1e-06"):
            pure(Softmax(classes=3), price=price)
    assert pure(Softmax(classes=3, brier=0.5), price=1e-6).ridge > 0.0


def test_the_solvers_noise_is_its_residual_over_ridge_and_share():
    fit = calibrate(LogCosh(cut=3.0), epsilon=2.0, dim=4, geometry="cube", solver_share=0.01, residual=1e-5)
    assert fit.residual == pytest.approx(3e-5)
    assert isinstance(fit.solver_noise, BallLaw)
    assert fit.solver_noise.scale == pytest.approx(2 * 3e-5 / (fit.ridge * 0.01 * 2.0), rel=1e-8)
    # The rest of epsilon pays for the tilt.
    assert fit.law.scale == pytest.approx(2 * 3.0 / (0.99 * 2.0), rel=1e-8)


@pytest.mark.parametrize(("epsilon", "cube", "ball"), [(0.3, 43, 15), (1.0, 51, 17), (3.0, 62, 21)])
def test_the_gaussian_tilt_takes_over_where_its_variance_is_smaller(epsilon, cube, ball):
    for geometry, first in (("cube", cube), ("ball", ball)):
        below = pure(Logistic(), epsilon, dim=first - 1, delta=1e-6, geometry=geometry)
        here = pure(Logistic(), epsilon, dim=first, delta=1e-6, geometry=geometry)
        assert isinstance(below.law, CubeLaw | BallLaw)
        assert isinstance(here.law, GaussianLaw)


@pytest.mark.parametrize("options", [{"epsilon": 0.0}, {"delta": 1.0}, {"rows_per_person": 0}, {"dim": 0}])
def test_values_out_of_range_are_refused(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        calibrate(Logistic(), **{"epsilon": 1.0, "dim": 2, "geometry": "cube", **options})


def test_a_tiny_or_a_large_epsilon_gives_finite_numbers():
    for loss in (Logistic(), LogCosh(cut=1.0), CountCosh(cap=2, cut=0.8), Softmax(classes=4)):
        for epsilon in (1e-6, 50.0):
            fit = pure(loss, epsilon)
            assert np.isfinite([fit.law.scale, fit.ridge]).all()
            assert fit.ridge > 0.0
