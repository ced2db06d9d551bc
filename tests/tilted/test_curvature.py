# SPDX-License-Identifier: Apache-2.0
"""Noisy curvatures: the moments of their noise, and the density ratio of the symmetrised Wishart law."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from onedraw.families.categorical import contrast_basis
from onedraw.tilted.curvature import CurvatureLaw, _wishart_root, curvature_law
from onedraw.tilted.one_hot import OneHot
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.weights import one_hot_rows

DRAWS = 20_000


def wishart(dim, scale):
    return CurvatureLaw(dim=dim, kind="wishart", scale=scale)


def test_the_symmetrised_wishart_has_its_golden_variances():
    law, rng = wishart(4, 1.0), np.random.default_rng(0)
    noise = np.array([law.noise(rng) for _ in range(DRAWS)])
    variance = noise.var(axis=0)
    # Kurtosis is at most about 6, so a variance has a relative error of 2 per cent at most; five of these.
    assert variance[np.triu_indices(4, 1)] == pytest.approx(np.full(6, 10.0), rel=0.1)
    assert np.diag(variance) == pytest.approx(np.full(4, 20.0), rel=0.1)
    assert law.off_diagonal_sd**2 == pytest.approx(10.0)
    assert law.diagonal_sd**2 == pytest.approx(20.0)


@pytest.mark.statistical
def test_one_coefficient_gives_laplace_noise():
    """Kolmogorov-Smirnov: a false alarm once in 10,000 seeds."""
    law, rng = wishart(1, 1.0), np.random.default_rng(1)
    noise = [law.noise(rng)[0, 0] for _ in range(DRAWS)]
    assert stats.kstest(noise, stats.laplace(scale=2.0).cdf).pvalue > 1e-4


@pytest.mark.statistical
def test_the_triangular_root_has_the_law_of_a_wishart_matrix():
    """Beside A A' itself, by three functions of it: a false alarm once in 3,000 seeds."""
    rng, draws = np.random.default_rng(2), 5000
    normal = rng.standard_normal((draws, 3, 4))
    plain = normal @ normal.swapaxes(1, 2)
    roots = np.array([_wishart_root(3, rng) for _ in range(draws)])
    found = roots @ roots.swapaxes(1, 2)
    for number in (np.linalg.det, lambda m: m[:, 0, 0] - m[:, 2, 2], lambda m: m[:, 0, 1] * m[:, 1, 2]):
        assert stats.ks_2samp(number(plain), number(found)).pvalue > 1e-4


def wishart_density(noise):
    """The density of A A' - B B' at a 2 x 2 matrix, by its integral on a grid, up to a constant."""
    side = np.linspace(0.0, 12.0, 81)[1:] - 0.075
    cross = np.linspace(-12.0, 12.0, 161)
    a, c, b = np.meshgrid(side, side, cross, indexing="ij")
    inside = a * c > b * b
    x, y, z = a + noise[0, 0], c + noise[1, 1], b + noise[0, 1]
    inside &= (x > 0) & (y > 0) & (x * y > z * z)
    return float((np.exp(-0.5 * (2 * (a + c) + noise[0, 0] + noise[1, 1])) * inside).sum())


def test_the_density_of_the_wishart_noise_moves_by_no_more_than_half_the_trace():
    shift = 0.8 * np.array([[0.6, 0.4], [0.4, 0.4]])  # positive definite
    ratios = []
    for noise in (
        np.zeros((2, 2)),
        np.eye(2),
        np.diag([1.0, -1.0]),
        np.array([[0.5, 1.0], [1.0, -0.5]]),
        -np.eye(2),
    ):
        ratios.append(math.log(wishart_density(noise) / wishart_density(noise + shift)))
    bound = 0.5 * np.trace(shift)
    assert np.abs(ratios).max() <= bound + 0.02  # what the grid may err
    assert np.abs(ratios).max() >= 0.5 * bound
    # Far out, where the domains are the same, the bound is reached.
    far = math.log(wishart_density(8.0 * np.eye(2)) / wishart_density(8.0 * np.eye(2) + shift))
    assert far == pytest.approx(bound, abs=0.02)


@pytest.mark.parametrize(("neighbours", "both"), [("replace_one", 2.0), ("add_remove", 1.0)])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_scales_are_those_of_the_guarantee(neighbours, both, rows):
    options = {"neighbours": neighbours, "rows_per_person": rows, "epsilon": 2.0}
    small = curvature_law(dim=2, trace=0.5, entry=0.25, **options)
    assert small.kind == "cube"
    assert small.scale == pytest.approx(rows * 0.25 / 2.0)
    assert small.off_diagonal == both
    assert small.off_diagonal_sd == pytest.approx(both * small.diagonal_sd)
    ball = curvature_law(dim=3, trace=0.75, entry=None, **options)
    assert (ball.kind, ball.own) == ("wishart", None)
    assert ball.scale == pytest.approx(both / 2 * rows * 0.75 / 2.0)
    large = curvature_law(dim=40, trace=10.0, entry=0.25, **options)
    assert large.kind == "wishart"
    assert large.scale == pytest.approx(both / 2 * rows * 10.0 / 1.4)
    assert large.own.scale == pytest.approx(rows * 0.25 / 0.6)
    readings = (large.own.variance, 4 * 41 * large.scale**2)
    assert large.diagonal_sd**2 == pytest.approx(1.0 / (1.0 / readings[0] + 1.0 / readings[1]))


@pytest.mark.parametrize(("neighbours", "both"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_the_cube_law_loses_epsilon_at_the_worst_pair_and_no_more(neighbours, both):
    """Its density falls as exp(-|N|/scale) with the largest entry, those off the diagonal over ``both``: all
    pairs of records at corners and beside them, and none of a smaller noise would do."""
    rng, c1, epsilon = np.random.default_rng(0), 0.25, 1.5
    law = curvature_law(dim=2, trace=2.0 * c1, entry=c1, epsilon=epsilon, neighbours=neighbours)
    z = np.concatenate([rng.choice([-1.0, 1.0], (50, 2)), rng.uniform(-1.0, 1.0, (50, 2))])
    slope = rng.choice([c1, 0.5 * c1, 0.0], 100)
    added = slope[:, None, None] * z[:, :, None] * z[:, None, :]
    change = added[:, None] - added[None] if neighbours == "replace_one" else added[:, None]
    size = np.abs(change / np.array([[1.0, both], [both, 1.0]])).max(axis=(2, 3))
    assert size.max() / law.scale == pytest.approx(epsilon, rel=1e-9)
    radius = np.abs(law.noise(rng) / np.array([[1.0, both], [both, 1.0]])).max()
    assert radius > 0.0


@pytest.mark.statistical
def test_the_largest_entry_of_cube_noise_has_a_gamma_law():
    """Kolmogorov-Smirnov: a false alarm once in 10,000 seeds."""
    law, rng = CurvatureLaw(dim=3, kind="cube", scale=0.7, off_diagonal=2.0), np.random.default_rng(4)
    share = np.where(np.eye(3) > 0.0, 1.0, 2.0)
    largest = [np.abs(law.noise(rng) / share).max() for _ in range(5000)]
    assert stats.kstest(largest, stats.gamma(6, scale=0.7).cdf).pvalue > 1e-4


@pytest.mark.parametrize(("neighbours", "moved"), [("replace_one", 4.25), ("add_remove", 3.0)])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_with_categories_have_independent_noise_in_all_entries(neighbours, moved, rows):
    """A feature and one of twelve categories: three entries of a record, of which one is a square."""
    geometry = OneHot(num_features=12, columns=(tuple(range(1, 12)),))
    assert geometry.moved(neighbours) == moved
    options = {"neighbours": neighbours, "rows_per_person": rows, "epsilon": 2.0}
    law = curvature_law(dim=13, trace=0.5, entry=0.25, moved=0.25 * moved, **options)
    assert law.kind == "laplace"
    assert law.scale == pytest.approx(rows * 0.25 * moved / 2.0)
    assert law.diagonal_sd == law.off_diagonal_sd == pytest.approx(math.sqrt(2.0) * law.scale)
    assert law.total_variance < curvature_law(dim=13, trace=0.5, entry=0.25, **options).total_variance


@pytest.mark.parametrize(
    ("plain", "columns", "reached"),
    [
        (0, ((0, 1),), 1.0),
        (0, ((0, 1), (2, 3), (4, 5)), 1.0),
        (1, ((1, 2),), 1.0),
        (2, ((2, 3, 4),), 1.0),
        (1, ((1, 2), (3, 4, 5)), 1.0),
        (3, ((3, 4),), 0.85),  # of three products of signs two change at most
        (4, ((4, 5),), 0.8),
    ],
)
def test_records_with_categories_reach_what_they_may_move_and_none_passes_it(plain, columns, reached):
    """Whatever their slopes are, and for rows that no category has."""
    geometry = OneHot(num_features=plain + sum(map(len, columns)), columns=columns)
    rng, n, d = np.random.default_rng(3), 1500, geometry.num_features
    x = rng.choice([-1.0, -0.5, 0.5, 1.0], (2 * n, d))
    for *others, _ in geometry.blocks:
        met = rng.integers(-1, len(others), n)
        x[:n, others] = np.where(np.arange(len(others)) == met[:, None], 1.0, -1.0)
    x[n:] *= rng.choice([0.3, 1.0, 3.0], (n, 1))
    rows = one_hot_rows(x, geometry)
    slope = rng.choice([1.0, 1.0, 1.0, 0.3], 2 * n) * (1.0 if rows.weight is None else rows.weight)
    upper = np.triu_indices(geometry.dim)
    added = slope[:, None] * (rows.design[:, upper[0]] * rows.design[:, upper[1]])
    assert np.abs(added).sum(axis=1).max() == pytest.approx(geometry.moved("add_remove"))
    largest = max(float(np.abs(added - one).sum(axis=1).max()) for one in added[::5])
    most = geometry.moved("replace_one")
    assert reached * most - 1e-9 <= largest <= most + 1e-9


def test_a_record_moves_diagonal_off_diagonal_and_trace_by_no_more_than_their_bounds():
    """Corners of the cube reach every bound that the scales use."""
    rng, p, c1 = np.random.default_rng(0), 4, 0.25
    z = rng.choice([-1.0, 1.0], (200, p))
    added = c1 * z[:, :, None] * z[:, None, :]
    change = added[:, None] - added[None]
    upper = np.triu_indices(p, 1)
    assert np.abs(change[..., upper[0], upper[1]]).max() == pytest.approx(2 * c1)
    assert np.abs(added[:, upper[0], upper[1]]).max() == pytest.approx(c1)
    assert np.trace(added[0]) == pytest.approx(p * c1)
    assert np.linalg.norm(change, axis=(2, 3)).max() <= math.sqrt(2.0) * p * c1
    ball = 2.0 * np.eye(4)[:2]
    pair = [c1 * np.outer(v, v) for v in ball]
    assert np.linalg.norm(pair[0] - pair[1]) == pytest.approx(math.sqrt(2.0) * p * c1)
    assert np.abs(np.diag(pair[0] - pair[1])).sum() == pytest.approx(2 * p * c1)


def test_the_law_with_the_least_noise_in_all_is_taken():
    """In rows of the cube that is the cube law for up to ten coefficients: variances of all entries are
    393,000 against 409,000 there, 685,000 against 658,000 at eleven, in units of (c1/epsilon)^2."""
    found = [curvature_law(dim=p, trace=p / 4, entry=0.25, epsilon=1.0).kind for p in range(1, 13)]
    assert found == ["cube"] * 10 + ["wishart"] * 2


def test_the_gaussian_law_takes_over_under_a_delta():
    pure = curvature_law(dim=4, trace=1.0, entry=0.25, epsilon=1.0, delta=1e-6)
    many = curvature_law(dim=30, trace=7.5, entry=0.25, epsilon=1.0, delta=1e-6)
    assert (pure.kind, many.kind) == ("cube", "gaussian")
    # sqrt(2) c times 4.225, the noise of the Gaussian mechanism at (1, 1e-6), off the diagonal over sqrt(2).
    assert many.scale == many.diagonal_sd == pytest.approx(math.sqrt(2.0) * 7.5 * 4.225, rel=1e-3)
    assert many.off_diagonal_sd == pytest.approx(7.5 * 4.225, rel=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("dim", "entry", "delta"), [(3, 0.25, 0.0), (3, None, 0.0), (12, 0.25, 0.0), (12, 0.25, 1e-5)]
)
def test_released_matrices_are_symmetric_and_have_the_stated_noise(dim, entry, delta):
    """Standard deviations over all entries of 2,000 matrices: 10 per cent is five standard errors or more."""
    law = curvature_law(dim=dim, trace=dim / 4, entry=entry, epsilon=1.0, delta=delta)
    rng, truth = np.random.default_rng(0), np.diag(np.arange(1.0, dim + 1))
    released = [law.release(truth, rng) for _ in range(2000)]
    noise = np.array([r.matrix for r in released]) - truth
    assert (noise == noise.swapaxes(1, 2)).all()
    assert noise[:, range(dim), range(dim)].std() == pytest.approx(released[0].diagonal_sd, rel=0.1)
    upper = np.triu_indices(dim, 1)
    assert noise[:, upper[0], upper[1]].std() == pytest.approx(released[0].off_diagonal_sd, rel=0.1)


@pytest.mark.parametrize("classes", [3, 5])
def test_a_record_of_several_classes_reaches_the_bounds_that_its_noise_is_scaled_by(classes):
    """Every sensitivity of the guarantee is found by a search: a bound twice as small or as large fails."""
    rng, p, loss = np.random.default_rng(classes), 3, Softmax(classes=classes)
    pairs = [0.5 * (a + b) for a, b in itertools.combinations(np.eye(classes), 2)]
    corners = [np.full(classes, 1.0 / classes), *pairs, *np.eye(classes)]
    logits = np.log(np.concatenate([corners, rng.dirichlet(np.ones(classes), 300)]) + 1e-12)
    _, variance = loss.slope_and_curvature(np.zeros(len(logits)), logits @ contrast_basis(classes))
    z = rng.choice([-1.0, 1.0], (len(logits), p))
    dim = (classes - 1) * p
    added = np.einsum("nab,ni,nj->naibj", variance, z, z).reshape(len(logits), dim, dim)
    diagonal = added[:, range(dim), range(dim)]
    assert (diagonal >= -1e-12).all()
    upper = np.triu_indices(dim, 1)
    largest = np.abs(added[:, upper[0], upper[1]]).max()
    assert largest == pytest.approx(loss.curvature_bound, rel=1e-6)
    assert diagonal.max() == pytest.approx(loss.curvature_bound, rel=1e-6)
    # Replace-one moves the Wishart's exponent by both traces over twice its scale: epsilon in all.
    trace = np.trace(added, axis1=1, axis2=2).max()
    law = curvature_law(dim=dim, trace=p * loss.trace_bound, entry=loss.curvature_bound, epsilon=2.0)
    assert law.kind == "wishart"
    spent = 2.0 * trace / (2.0 * law.scale)
    assert spent + diagonal.max() / law.own.scale == pytest.approx(2.0, rel=1e-6)
    assert np.linalg.eigvalsh(added).min() >= -1e-9
