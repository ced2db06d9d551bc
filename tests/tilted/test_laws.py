# SPDX-License-Identifier: Apache-2.0
"""The laws of the tilt have the moments, the radii and the densities that the proofs use."""

import numpy as np
import pytest
from scipy import stats

from onedraw.errors import InvalidInput
from onedraw.families.categorical import contrast_basis
from onedraw.tilted.laws import BallLaw, ClassLaw, CubeLaw, GaussianLaw

LAWS = [
    CubeLaw(dim=6, scale=2.0),
    CubeLaw(dim=1, scale=0.7),
    BallLaw(dim=5, scale=1.3),
    GaussianLaw(dim=3, scale=0.4),
    ClassLaw(classes=3, columns=2, scale=1.0),
    ClassLaw(classes=5, columns=3, scale=2.0),
    ClassLaw(classes=2, columns=4, scale=1.0),
    ClassLaw(classes=3, columns=2, scale=1.5, geometry="ball"),
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


def test_two_classes_are_the_cube_up_to_the_basis():
    pair, cube = ClassLaw(classes=2, columns=4, scale=1.0), CubeLaw(dim=4, scale=np.sqrt(2.0))
    assert pair.variance == pytest.approx(cube.variance)


def test_the_variances_of_several_classes_are_those_worked_out_by_hand():
    # K (p+1) (p+2)/3 for pairs, 4 (p+1) (p+2)/3 for classes; in the ball K p (p+1) at scale sqrt(p).
    assert ClassLaw(classes=3, columns=6, scale=1.0).variance == pytest.approx(56.0)
    assert ClassLaw(classes=10, columns=6, scale=1.0).variance == pytest.approx(224.0 / 3.0)
    assert ClassLaw(classes=3, columns=6, scale=6.0**0.5, geometry="ball").variance == pytest.approx(126.0)


def logits_density(law, b):
    """The density of the tilt of one column at points (..., K) that sum to zero, up to a constant.

    Terms c with sum c_i v_i = b are a line or more; the integral over them is done on a fine grid.
    """
    line = np.linspace(-60.0, 60.0, 6_001)
    if law.classes == 3:  # b_1 = t - c_01 and b_2 = -c_02 - t, where t is the term of the pair (1, 2)
        terms = [-b[1] + line, -b[2] - line, line]
    else:  # 2 c_k - mean = b_k: c_k = b_k/2 + t
        terms = [each / 2.0 + line for each in b]
    return np.exp(-sum(np.abs(term) for term in terms) / law.scale).sum()


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_a_gradient_moves_the_log_density_of_several_classes_by_at_most_its_score(classes):
    """One column, by quadrature: at most a/scale for every gradient and point, and nearly that far out."""
    law, rng = ClassLaw(classes=classes, columns=1, scale=1.5), np.random.default_rng(4)
    for _ in range(100):
        point = rng.normal(0.0, 5.0, classes)
        own = rng.dirichlet(np.full(classes, 0.3))
        gradient = own - np.eye(classes)[rng.integers(classes)]
        score = np.maximum(gradient, 0.0).sum()
        here, there = (logits_density(law, at - at.mean()) for at in (point, point + gradient))
        moved = abs(np.log(there / here))
        assert moved <= score / law.scale * (1.0 + 1e-6)
    far = np.zeros(classes)
    far[0], far[1] = 12.0, -12.0
    step = np.eye(classes)[0] - np.eye(classes)[1]
    most = np.log(logits_density(law, far) / logits_density(law, far + step))
    assert 0.98 / law.scale <= most <= 1.0 / law.scale * (1.0 + 1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("classes", [3, 4])
def test_the_sample_of_one_column_has_the_density_of_the_proof(classes):
    """The law of b_0 - b_1 by quadrature, a sum of Laplace variables: false alarm once in 10,000 seeds."""
    law = ClassLaw(classes=classes, columns=1, scale=1.0)
    basis = contrast_basis(classes)
    logits = draws(law, seed=3) @ basis.T
    rng = np.random.default_rng(5)
    laplace = rng.laplace(0.0, 1.0, (3, DRAWS))
    # Pairs: 2 c_01 + c_02 - c_12. Classes: 2 c_0 - 2 c_1.
    twin = 2.0 * laplace[0] + laplace[1] - laplace[2] if classes == 3 else 2.0 * (laplace[0] - laplace[1])
    assert stats.ks_2samp(logits[:, 0] - logits[:, 1], twin).pvalue > 1e-4


def test_a_law_needs_a_positive_scale():
    with pytest.raises(InvalidInput, match="scale > 0"):
        CubeLaw(dim=2, scale=0.0)
