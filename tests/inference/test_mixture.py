# SPDX-License-Identifier: Apache-2.0
"""Intervals and tests of a mixture, against normal theory."""

import itertools

import numpy as np
import pytest
from scipy import stats

from onedraw.errors import InvalidInput
from onedraw.inference import NormalMixture

COVARIANCE = np.array([[1.0, 0.6, 0.0], [0.6, 2.0, 0.3], [0.0, 0.3, 0.5]])
ONE = NormalMixture(means=np.array([[1.0, -2.0, 0.5]]), covariances=COVARIANCE[None])


def spread(seed=0, components=300):
    rng = np.random.default_rng(seed)
    scale = rng.gamma(3.0, 1 / 3.0, components)
    return NormalMixture(
        means=np.array([1.0, -2.0, 0.5]) + 0.5 * rng.standard_normal((components, 3)),
        covariances=scale[:, None, None] * COVARIANCE,
    )


def test_one_component_gives_normal_intervals():
    half = stats.norm.ppf(0.95) * np.sqrt(COVARIANCE.diagonal())
    centre = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(ONE.interval(0.9), np.stack([centre - half, centre + half], 1), rtol=1e-9)
    np.testing.assert_allclose(ONE.standard_error, np.sqrt(COVARIANCE.diagonal()), rtol=1e-9)


def test_one_component_gives_the_chi_square_of_wald():
    """20,000 draws: the p-value has standard error 0.0035; 0.015 is more than four of them."""
    rows, value = np.eye(3)[:2], np.array([0.0, 0.0])
    gap = np.array([1.0, -2.0])
    exact = stats.chi2.sf(gap @ np.linalg.solve(COVARIANCE[:2, :2], gap), 2)
    assert ONE.wald(rows, value).p_value == pytest.approx(exact, abs=0.015)


def test_small_joint_p_values_go_on_as_a_chi_square():
    rows = np.eye(3)[:2]
    values = [ONE.wald(rows, np.array([1.0 + far, -2.0])).p_value for far in (2.0, 3.0, 4.0, 6.0, 9.0)]
    assert all(later < earlier for earlier, later in itertools.pairwise(values))
    exact = stats.chi2.sf(36 * np.linalg.inv(COVARIANCE[:2, :2])[0, 0], 2)
    assert np.log(values[3]) == pytest.approx(np.log(exact), rel=0.15)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_the_p_value_at_an_end_of_an_interval_is_one_minus_its_level(level):
    law, row = spread(), np.array([1.0, 1.0, -1.0])
    for end in law.interval(level, row)[0]:
        assert law.wald(row, end).p_value == pytest.approx(1 - level, rel=1e-6)


def test_z_has_the_sign_of_the_estimate_and_the_p_value_of_a_normal():
    test = spread().wald(np.array([0.0, 1.0, 0.0]))
    assert test.z < 0
    assert 2 * stats.norm.sf(abs(test.z)) == pytest.approx(test.p_value, rel=1e-9)


def test_quantiles_agree_with_many_draws():
    """0.02 in probability are more than four standard errors of 20,000 draws."""
    law = spread()
    share = (law.draws < law.quantile(0.3)).mean(axis=0)
    np.testing.assert_allclose(share, 0.3, atol=0.02)


def test_the_joint_test_depends_on_the_hypothesis_and_not_on_how_it_is_written():
    law, rows = spread(), np.eye(3)[:2]
    mix = np.array([[2.0, 1.0], [-1.0, 1.0]])
    value = np.array([0.2, -1.0])
    one, other = law.wald(rows, value), law.wald(mix @ rows, mix @ value)
    assert one.p_value == pytest.approx(other.p_value, abs=0.01)


def test_the_covariance_is_positive_definite_with_the_standard_errors_on_its_diagonal():
    law = spread()
    assert np.linalg.eigvalsh(law.covariance)[0] > 0
    np.testing.assert_allclose(np.sqrt(law.covariance.diagonal()), law.standard_error, rtol=1e-12)


def test_contrasts_that_are_not_independent_rows_are_refused():
    with pytest.raises(InvalidInput, match="linearly independent rows, got 2 of which some follow"):
        ONE.wald(np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]))
    with pytest.raises(InvalidInput, match="0 < level < 1"):
        ONE.interval(95.0)


def test_a_component_that_rounding_made_indefinite_has_draws():
    wide = np.array([[1e18, 1e9], [1e9, 1.0 - 1e-6]])
    law = NormalMixture(means=np.zeros((2, 2)), covariances=np.stack([np.eye(2), wide]))
    assert np.isfinite(law.draws).all()
    assert np.isfinite(law.wald(np.eye(2)).p_value)
