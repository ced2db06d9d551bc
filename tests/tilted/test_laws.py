# SPDX-License-Identifier: Apache-2.0
"""The laws of the tilt have the moments, the radii and the densities that the proofs use."""

import numpy as np
import pytest
from scipy import stats

from onedraw.errors import InvalidInput
from onedraw.tilted.laws import BallLaw, ClassCubeLaw, CubeLaw, GaussianLaw

LAWS = [
    CubeLaw(dim=6, scale=2.0),
    CubeLaw(dim=1, scale=0.7),
    BallLaw(dim=5, scale=1.3),
    GaussianLaw(dim=3, scale=0.4),
    ClassCubeLaw(classes=3, columns=2, scale=1.0),
    ClassCubeLaw(classes=5, columns=3, scale=2.0),
    ClassCubeLaw(classes=2, columns=4, scale=1.0),
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


def test_the_uniform_hexagon_has_mean_square_five_sixths():
    law = ClassCubeLaw(classes=3, columns=1, scale=1.0)
    # variance = E radius^2 E|z|^2/2, E radius^2 = (m+1)(m+2) with m = 2.
    assert law.variance == pytest.approx(12.0 * (5.0 / 6.0) / 2.0)


def test_two_classes_are_the_cube_up_to_the_basis():
    pair, cube = ClassCubeLaw(classes=2, columns=4, scale=1.0), CubeLaw(dim=4, scale=np.sqrt(2.0))
    assert pair.variance == pytest.approx(cube.variance)
    b = np.array([0.3, -2.0, 1.0, 0.1])
    assert pair.norm(b) == pytest.approx(2.0 / np.sqrt(2.0))


@pytest.mark.statistical
def test_columns_of_the_class_body_are_uniform():
    """Uniformity in the hexagon: the share within half of it is (1/2)^2, and all six sides are alike."""
    law = ClassCubeLaw(classes=3, columns=1, scale=1.0)
    sample = draws(law, seed=3)
    # Directions carry no radius: by symmetry each of the six sectors has a sixth (chi-squared, 1 in 10,000).
    angle = np.arctan2(sample[:, 1], sample[:, 0])
    counts = np.histogram((angle + np.pi) % (2 * np.pi), bins=np.linspace(0, 2 * np.pi, 7))[0]
    assert stats.chisquare(counts).pvalue > 1e-4


def test_a_law_needs_a_positive_scale():
    with pytest.raises(InvalidInput, match="scale > 0"):
        CubeLaw(dim=2, scale=0.0)
