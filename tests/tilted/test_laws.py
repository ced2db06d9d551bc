# SPDX-License-Identifier: Apache-2.0
"""The laws of the tilt have the moments, the radii and the densities that the proofs use."""

import numpy as np
import pytest
from scipy import stats

from onedraw.errors import InvalidInput
from onedraw.tilted.laws import BallLaw, CubeLaw, GaussianLaw

LAWS = [
    CubeLaw(dim=6, scale=2.0),
    CubeLaw(dim=1, scale=0.7),
    BallLaw(dim=5, scale=1.3),
    GaussianLaw(dim=3, scale=0.4),
]
DRAWS = 20_000


def draws(law, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([law.sample(rng) for _ in range(DRAWS)])


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{type(law).__name__}-{law.dim}")
def test_every_coordinate_has_the_variance_of_its_law_and_none_is_correlated(law):
    """Five standard errors of each entry: a false alarm once in about 20,000 seeds."""
    sample = draws(law)
    second = sample[:, :, None] * sample[:, None, :]
    error = second.std(axis=0) / np.sqrt(DRAWS)
    assert (np.abs(second.mean(axis=0) - law.variance * np.eye(law.dim)) < 5.0 * error + 1e-12).all()


@pytest.mark.statistical
@pytest.mark.parametrize("law", [law for law in LAWS if hasattr(law, "norm")], ids=lambda law: f"{law.dim}")
def test_the_norm_of_the_tilt_is_a_gamma_variable_of_its_dimension(law):
    """Kolmogorov-Smirnov: a false alarm once in 10,000 seeds. A wrong body or radius would show here."""
    norms = [law.norm(b) for b in draws(law, seed=1)]
    assert stats.kstest(norms, stats.gamma(law.dim, scale=law.scale).cdf).pvalue > 1e-4


def test_the_cube_has_the_variance_and_kurtosis_worked_out_by_hand():
    law = CubeLaw(dim=6, scale=2.0)
    assert law.variance == pytest.approx(224.0 / 3.0)
    sample = draws(law, seed=2)
    # 1.8 (p+3)(p+4)/((p+1)(p+2)); its sampling error here is about 0.04.
    assert np.mean(sample**4) / np.mean(sample**2) ** 2 == pytest.approx(2.893, abs=0.15)


def test_a_law_needs_a_positive_scale():
    with pytest.raises(InvalidInput, match="scale > 0"):
        CubeLaw(dim=2, scale=0.0)
