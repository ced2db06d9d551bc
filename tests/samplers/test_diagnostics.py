# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from onedraw.samplers.diagnostics import bulk_ess, e_bfmi, rhat, tail_ess


def autoregressive(rho, *, chains=4, draws=400, seed=0):
    """Stationary AR(1) chains with lag-one correlation rho."""
    rng = np.random.default_rng(seed)
    values = np.empty((chains, draws))
    values[:, 0] = rng.normal(size=chains)
    for t in range(1, draws):
        values[:, t] = rho * values[:, t - 1] + np.sqrt(1.0 - rho**2) * rng.normal(size=chains)
    return values


@pytest.mark.parametrize("draws", [50, 101, 400])
@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.95])
def test_diagnostics_agree_with_arviz(rho, draws):
    arviz = pytest.importorskip("arviz")
    values = autoregressive(rho, draws=draws) + 0.1 * np.arange(4)[:, None]
    ties = np.round(values, 1)
    for chains in (values, ties):
        assert rhat(chains) == pytest.approx(float(arviz.rhat(chains)), rel=1e-12)
        assert bulk_ess(chains) == pytest.approx(float(arviz.ess(chains, method="bulk")), rel=1e-12)
        np.testing.assert_allclose(e_bfmi(chains), arviz.bfmi(chains), rtol=1e-12)
    # Without ties: there the last bit of an interpolated quantile decides on which side many values are.
    assert tail_ess(values) == pytest.approx(float(arviz.ess(values, method="tail")), rel=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_effective_sample_size_of_an_autoregression_is_the_known_one(rho):
    """ESS/N = (1 - rho)/(1 + rho) for the mean; the estimate is within 20% at N = 40,000 (a fixed seed)."""
    values = autoregressive(rho, draws=10_000)
    assert bulk_ess(values) / values.size == pytest.approx((1.0 - rho) / (1.0 + rho), rel=0.2)


def test_chains_in_different_places_or_of_different_widths_are_found_out():
    values = autoregressive(0.3)
    assert rhat(values) < 1.02
    assert rhat(values + np.array([0.0, 0.0, 0.0, 3.0])[:, None]) > 1.3
    wide = values * np.array([1.0, 1.0, 1.0, 6.0])[:, None]
    assert rhat(wide) > 1.05  # only the folded ranks see this
    trend = values + np.linspace(0, 4, values.shape[1])
    assert rhat(trend) > 1.3  # only halves see this


@pytest.mark.parametrize(
    "chains",
    [np.full((4, 50), 1.0), np.vstack([np.zeros(50), np.arange(50.0)]), np.full((2, 50), np.nan), np.eye(3)],
    ids=["constant", "one stuck chain", "not numbers", "too short"],
)
def test_unusable_chains_never_pass(chains):
    assert rhat(chains) == np.inf
    assert bulk_ess(chains) == 0.0
    assert tail_ess(chains) == 0.0


def test_energy_fraction_is_small_where_energies_barely_move():
    assert e_bfmi(autoregressive(0.99))[0] < 0.1
    assert e_bfmi(np.zeros((2, 10))).tolist() == [0.0, 0.0]
