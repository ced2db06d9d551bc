# SPDX-License-Identifier: Apache-2.0
"""The law of the tilt for several classes: its norm, its exact densities, its variance and its sampler."""

from fractions import Fraction
from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from scipy import optimize, stats

from onedraw.errors import InvalidInput
from onedraw.families.categorical import contrast_basis
from onedraw.tilted import class_law
from onedraw.tilted.calibration import calibrate
from onedraw.tilted.class_law import ClassNormLaw, density_at_zero, level_shares, sums_of_zero
from onedraw.tilted.laws import BallLaw, CubeLaw
from onedraw.tilted.softmax_loss import Softmax

DRAWS = 20_000
LAWS = [
    ClassNormLaw(classes=3, columns=1, scale=0.7),
    ClassNormLaw(classes=3, columns=3, scale=1.0),
    ClassNormLaw(classes=5, columns=3, scale=2.0),
    ClassNormLaw(classes=2, columns=4, scale=1.0),
    ClassNormLaw(classes=10, columns=2, scale=1.0),
    ClassNormLaw(classes=3, columns=2, scale=1.5, geometry="ball"),
    ClassNormLaw(classes=6, columns=4, scale=1.0, geometry="ball"),
]
EACH = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.classes}-{law.columns}-{law.geometry}")
GEOMETRIES = pytest.mark.parametrize("geometry", ["cube", "ball"])


def logits(law, draws):
    """Rows of the classes (n, K, p)."""
    return contrast_basis(law.classes) @ draws.reshape(-1, law.classes - 1, law.columns)


# -- the norm


@GEOMETRIES
@pytest.mark.parametrize("classes", [3, 4, 7])
def test_the_norm_of_a_gradient_is_its_score_times_the_norm_of_its_row(classes, geometry):
    law, rng = (
        ClassNormLaw(classes=classes, columns=4, scale=1.0, geometry=geometry),
        np.random.default_rng(0),
    )
    row_law = (CubeLaw if geometry == "cube" else BallLaw)(dim=4, scale=1.0)
    for _ in range(50):
        pi, y, row = rng.dirichlet(np.full(classes, 0.3)), rng.integers(classes), rng.normal(size=4)
        gradient = np.outer(contrast_basis(classes).T @ (pi - np.eye(classes)[y]), row)
        assert law.norm(gradient) == pytest.approx((1.0 - pi[y]) * row_law.norm(row))


def gauge(matrix):
    """The least sum of the largest entries of c_kl with sum (e_k - e_l) (x) c_kl = matrix: a programme."""
    classes, columns = matrix.shape
    first, second = np.triu_indices(classes, 1)
    along = np.eye(classes)[first] - np.eye(classes)[second]
    r = len(along)
    size = np.kron(np.eye(r), np.ones((columns, 1)))
    return optimize.linprog(
        np.append(np.zeros(r * columns), np.ones(r)),
        A_ub=np.block([[np.eye(r * columns), -size], [-np.eye(r * columns), -size]]),
        b_ub=np.zeros(2 * r * columns),
        A_eq=np.hstack([np.kron(along.T, np.eye(columns)), np.zeros((matrix.size, r))]),
        b_eq=matrix.ravel(),
        bounds=(None, None),
    ).fun


@pytest.mark.parametrize("classes", [3, 4])
def test_in_the_cube_the_norm_is_the_gauge_of_all_gradients_for_three_classes_and_below_it_for_four(classes):
    law, rng = ClassNormLaw(classes=classes, columns=3, scale=1.0), np.random.default_rng(1)
    for point in rng.standard_cauchy((20, law.dim)):
        largest = gauge(logits(law, point)[0])
        assert law.norm(point) <= largest * (1.0 + 1e-9)
        if classes == 3:
            assert law.norm(point) == pytest.approx(largest)


# -- the law


@pytest.mark.statistical
@EACH
def test_coordinates_have_the_variance_of_the_law_and_none_is_correlated(law):
    """Five standard errors, and 1% for how the variance is computed: false alarm once in 20,000 seeds."""
    sample = law.draws(DRAWS // 4, np.random.default_rng(0))
    second = sample[:, :, None] * sample[:, None, :]
    allowed = 5.0 * second.std(axis=0) / np.sqrt(len(sample)) + 0.01 * law.variance * np.eye(law.dim)
    assert (np.abs(second.mean(axis=0) - law.variance * np.eye(law.dim)) < allowed).all()


@pytest.mark.statistical
@EACH
def test_the_norm_is_a_gamma_variable_of_its_dimension(law):
    """Kolmogorov-Smirnov: a false alarm once in 10,000 seeds."""
    norms = [law.norm(b) for b in law.draws(DRAWS // 10, np.random.default_rng(1))]
    assert stats.kstest(norms, stats.gamma(law.dim, scale=law.scale).cdf).pvalue > 1e-4


@pytest.mark.statistical
@GEOMETRIES
@pytest.mark.parametrize("classes", [3, 4])
def test_directions_are_those_of_points_uniform_in_the_unit_ball(classes, geometry):
    """Against rejection from a box, with four statistics of T/||T||: false alarm once in 2,500 seeds."""
    law, rng = (
        ClassNormLaw(classes=classes, columns=2, scale=1.0, geometry=geometry),
        np.random.default_rng(2),
    )
    box = rng.uniform(-1.0, 1.0, (150_000, classes - 1, 2))
    box = np.concatenate([box, -box.sum(axis=1, keepdims=True)], axis=1)
    own = logits(law, law.draws(DRAWS, rng))

    def norm(rows):
        return 0.5 * np.linalg.norm(rows, ord=np.inf if geometry == "cube" else 2, axis=2).sum(axis=1)

    box = box[norm(box) <= 1.0]  # |T_k| <= ||T||, so the box holds the unit ball
    assert len(box) > 2_000
    for statistic in (
        lambda t: t[:, 0, 0],
        lambda t: np.abs(t).max(axis=2).min(axis=1),
        lambda t: t[:, 0, 0] * t[:, 1, 1],
        lambda t: (t**2).sum(axis=(1, 2)),
    ):
        one, other = (statistic(t / norm(t)[:, None, None]) for t in (box, own))
        assert stats.ks_2samp(one, other).pvalue > 1e-4


@pytest.mark.statistical
@GEOMETRIES
@pytest.mark.parametrize(("classes", "weights"), [(3, (2.0, 1.0)), (4, (3.0, 1.5, 0.25))])
def test_one_column_has_the_density_worked_out_by_hand(classes, weights, geometry):
    """The density of T_1 = t is in proportion to exp(-|t|) times a polynomial: K - 1 Laplace variables of
    scale 2 have a sum of -t. False alarm once in 10,000 seeds."""
    law = ClassNormLaw(classes=classes, columns=1, scale=1.0, geometry=geometry)
    size = np.abs(logits(law, law.draws(DRAWS, np.random.default_rng(3)))[:, 0, 0])
    share = np.array([weight * factorial(j) for j, weight in enumerate(weights)])

    def cumulative(t):
        return sum(s * stats.gamma(j + 1).cdf(t) for j, s in enumerate(share / share.sum()))

    assert stats.kstest(size, cumulative).pvalue > 1e-4


def test_the_exact_density_of_three_classes_integrates_to_one_and_stays_below_epsilon():
    """An intercept alone: the tilt has the density exp(-||b||/s)/(6 sqrt(3) s^2), on hexagons."""
    loss, epsilon = Softmax(classes=3), 1.0
    fit = calibrate(loss, epsilon=epsilon, dim=1, geometry="cube", solver_share=0.0)
    line = np.linspace(-8.0, 8.0, 161)
    theta = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)

    def log_density(classes, scale=1.0):
        total, hessian = fit.ridge * theta, fit.ridge * np.eye(2)
        for y in classes:
            slope, curvature = loss.slope_and_curvature(np.full(len(theta), float(y)), theta)
            total, hessian = total + slope, hessian + curvature
        s = scale * fit.law.scale
        norms = 0.5 * np.abs(total @ contrast_basis(3).T).sum(axis=1)
        return np.linalg.slogdet(hessian)[1] - norms / s - np.log(6.0 * np.sqrt(3.0) * s**2)

    common = [0, 0, 1, 2]
    variants = [log_density([*common, y]) for y in range(3)]
    assert np.exp(variants[0]).sum() * (line[1] - line[0]) ** 2 == pytest.approx(1.0, abs=1e-3)
    worst = max(np.abs(one - other).max() for one in variants for other in variants)
    # One row in common: the scores of two classes differ by one, not by two, so half of u + u is reached.
    assert 0.44 * epsilon <= worst <= 0.5 * epsilon
    halved = [log_density([*common, y], scale=0.5) for y in range(3)]
    assert max(np.abs(one - halved[0]).max() for one in halved) > 0.8 * epsilon


# -- variances


def test_variances_are_those_worked_out_by_hand():
    # One column of three classes: a hexagon, E |z|^2 = 5/6, times Gamma(3) squared, over two coordinates.
    assert ClassNormLaw(classes=3, columns=1, scale=2.0).variance == pytest.approx(20.0, rel=0.01)
    assert ClassNormLaw(classes=3, columns=1, scale=2.0, geometry="ball").variance == pytest.approx(20.0)
    # Two classes are one difference, of length sqrt(2) in the contrast.
    cube, ball = CubeLaw(dim=4, scale=np.sqrt(2.0)), BallLaw(dim=4, scale=np.sqrt(2.0))
    assert ClassNormLaw(classes=2, columns=4, scale=1.0).variance == pytest.approx(cube.variance, rel=0.01)
    assert ClassNormLaw(classes=2, columns=4, scale=1.0, geometry="ball").variance == pytest.approx(
        ball.variance
    )


@pytest.mark.parametrize("columns", [2, 3, 12])
def test_the_variance_of_three_classes_in_the_cube_is_that_of_quadrature(columns):
    """Levels have the density exp(-(u + v + w)/2) A^p, A the area of |a| <= u, |b| <= v, |a + b| <= w.

    All is polynomial where one level is above half of the total, and where none is: two triangles.
    """
    nodes, weights = np.polynomial.legendre.leggauss(40)
    first, second = np.meshgrid((nodes + 1.0) / 2.0, (nodes + 1.0) / 2.0)
    barycentric = np.stack([first, (1.0 - first) * second, (1.0 - first) * (1.0 - second)], axis=-1)
    weight = np.outer(weights, weights) * (1.0 - first)
    above, total = 0.0, 0.0
    for corners, times in ((np.eye(3) / 2.0 + [0.5, 0.0, 0.0], 3.0), (0.5 - np.eye(3) / 2.0, 1.0)):
        u, v, w = np.moveaxis(np.sort(barycentric @ corners, axis=-1), -1, 0)
        c = np.maximum(u + v - w, 0.0)  # the legs of two corners that are cut off a rectangle
        area = 4.0 * u * v - c**2
        corner = 2.0 * (u**2 + v**2 + u * v - (u + v) * c + 5.0 * c**2 / 12.0)
        squares = 8.0 * u * v * (u**2 + v**2) / 3.0 - c**2 * corner  # of a, b and a + b
        above += times * (weight * area ** (columns - 1) * squares).sum()
        total += times * (weight * area**columns).sum()
    shape = 2 * columns + 3
    expected = 4.0 * shape * (shape + 1) * above / total / 2.0
    assert ClassNormLaw(classes=3, columns=columns, scale=1.0).variance == pytest.approx(expected, rel=0.01)
    assert expected < 0.84 * (columns + 1) * (columns + 2)  # what a sum of independent tilts has


# -- the sampler of the cube


def by_fractions(levels):
    """The density at zero of a sum of uniform numbers, in exact arithmetic."""
    levels, total = [Fraction(float(u)) for u in levels], Fraction(0)
    for signs in product((1, -1), repeat=len(levels)):
        total += prod(signs) * max(sum(e * u for e, u in zip(signs, levels, strict=True)), 0) ** (
            len(levels) - 1
        )
    return float(total / (factorial(len(levels) - 1) * prod(2 * u for u in levels)))


@pytest.mark.parametrize("classes", [2, 3, 5, 8, 9, 10])
def test_the_density_at_zero_is_exact_to_many_digits_and_largest_at_equal_levels(classes):
    levels = np.random.default_rng(5).dirichlet(np.full(classes, 2.0), 8)
    found = density_at_zero(levels)
    assert found == pytest.approx([by_fractions(each) for each in levels], rel=1e-11)
    assert (found <= density_at_zero(np.full((1, classes), 1.0 / classes))).all()


def test_both_formulas_of_the_density_agree(monkeypatch):
    levels = np.random.default_rng(6).dirichlet(np.full(8, 3.0), 200)
    signs = density_at_zero(levels)
    monkeypatch.setattr(class_law, "MOST_SIGNS", 7)
    assert density_at_zero(levels) == pytest.approx(signs, rel=1e-11)


def test_points_of_the_boxes_sum_to_zero_and_stay_within():
    rng = np.random.default_rng(7)
    levels = level_shares(4, 3, 500, rng)
    assert levels.shape == (500, 4)
    assert levels.sum(axis=1) == pytest.approx(1.0)
    points = sums_of_zero(levels, rng)
    assert points.sum(axis=1) == pytest.approx(0.0, abs=1e-14)
    assert (np.abs(points) <= levels).all()


@pytest.mark.parametrize(
    "wrong", [{"classes": 1}, {"columns": 0}, {"scale": 0.0}], ids=["classes", "columns", "scale"]
)
def test_impossible_laws_are_refused(wrong):
    with pytest.raises(InvalidInput, match=f"Expected {next(iter(wrong))}"):
        ClassNormLaw(**{"classes": 3, "columns": 2, "scale": 1.0} | wrong)
