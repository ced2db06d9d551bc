# SPDX-License-Identifier: Apache-2.0
"""Declared categories in the inference: the law by cells against exact sums, and releases of known shares."""

import dataclasses

import numpy as np
import pytest
from scipy import special, stats

from onedraw.errors import InvalidInput
from onedraw.families.categorical import contrast_basis
from onedraw.inference import (
    ClassWeight,
    ConstantWeight,
    ExponentialWeight,
    Layout,
    LogisticWeight,
    NormalTilt,
    Released,
    RobustScore,
    infer,
)
from onedraw.inference.cells import Cells, Indicators
from onedraw.inference.components import FARTHEST, Solved, solved
from onedraw.inference.curvature import row_law
from onedraw.inference.moments import MomentSpace
from onedraw.inference.noisy import CurvatureDensity, NoisyCurvature
from onedraw.inference.rows import Rows
from onedraw.inference.space import PAIR_SD, SHIFT_SD, RowSpace
from onedraw.tilted.one_hot import OneHot

THREE = Indicators.of_range(3)


def space_of(levels, plain=2):
    return RowSpace(
        plain=MomentSpace(dim=plain, intercept=True, count_sd=0.2),
        categories=tuple(Indicators.of_range(k) for k in levels),
    )


# -- cells


def test_a_cell_has_the_numbers_that_a_table_of_indicators_has():
    columns = (Indicators(off=(-1.0, 0.0), on=(1.0, 0.5)), Indicators.of_range(2))
    expected = [[-1, 0, -1], [-1, 0, 1], [1, 0, -1], [1, 0, 1], [-1, 0.5, -1], [-1, 0.5, 1]]
    np.testing.assert_array_equal(Cells.of(columns).values, expected)
    assert len(Cells.of(())) == 1


def test_effects_and_interactions_are_orthogonal_and_single_out_no_category():
    cells = Cells.of((THREE, Indicators.of_range(4)))
    design = np.column_stack([np.ones(12), cells.effects, cells.pairs])
    gram = design.T @ design
    np.testing.assert_allclose(gram - np.diag(gram.diagonal()), 0.0, atol=1e-12)
    assert design.shape == (12, 12)  # saturated


# -- the law of the rows


@pytest.mark.parametrize("levels", [(3,), (5,), (4, 3)])
def test_indicators_of_a_column_exclude_one_another_at_every_point(levels):
    """In the one-hot basis a column's block is diagonal, under weights too, and adds up to the intercept."""
    space = space_of(levels, plain=3)
    free = np.random.default_rng(0).normal(size=(2, space.size))
    rows, theta = space.read(free).rows, np.random.default_rng(1).normal(size=(2, space.dim))
    for matrix in (rows.moments, row_law(LogisticWeight(), rows, theta).curvature):
        place = 3
        for k in levels:
            block = np.r_[0, place : place + k - 1]
            back = np.zeros((k, k))  # from (1, 2 e - 1) to the indicators of all categories
            back[1:, 0], back[1:, 1:] = 0.5, 0.5 * np.eye(k - 1)
            back[0] = -back[1:].sum(0)
            back[0, 0] += 1.0
            hot = back @ matrix[:, block][:, :, block] @ back.T
            np.testing.assert_allclose(hot[:, ~np.eye(k, dtype=bool)], 0.0, atol=1e-12)
            np.testing.assert_allclose(hot.trace(axis1=1, axis2=2), matrix[:, 0, 0], rtol=1e-12)
            place += k - 1


def rows_of_two_columns():
    """Cells of 3 x 2 categories with a normal column: its law, and the same as weighted points."""
    weight = np.array([0.1, 0.25, 0.2, 0.05, 0.3, 0.1])
    values = Cells.of((THREE, Indicators.of_range(2))).values
    mean = np.column_stack([np.ones(6), [0.3, -0.2, 0.1, 0.5, -0.4, 0.0], values])
    covariance = np.zeros((5, 5))
    covariance[1, 1] = 0.3
    law = Rows(weight=weight[None], mean=mean[None], covariance=covariance[None], free=slice(1, 2))
    nodes, masses = np.polynomial.hermite_e.hermegauss(40)
    points = np.repeat(mean, 40, axis=0)
    points[:, 1] += np.tile(np.sqrt(0.3) * nodes, 6)
    return law, points, np.outer(weight, masses / masses.sum()).ravel()


def test_the_curvature_and_the_score_are_those_of_the_cells():
    rows, points, mass = rows_of_two_columns()
    theta = np.array([-0.3, 0.8, 0.4, -0.9, 0.6])
    mean = special.expit(points @ theta)
    law = row_law(LogisticWeight(), rows, theta[None])
    np.testing.assert_allclose(law.score[0], points.T @ (mass * mean), atol=1e-5)
    expected = (points * (mass * mean * (1 - mean))[:, None]).T @ points
    np.testing.assert_allclose(law.curvature[0], expected, atol=1e-5)
    np.testing.assert_allclose(rows.moments[0], (points * mass[:, None]).T @ points, atol=1e-12)


def test_the_curvature_of_three_classes_is_that_of_the_cells():
    """42 nodes a cell stand for one normal column; what does not vary within a cell is exact."""
    rows, points, mass = rows_of_two_columns()
    theta, basis = np.random.default_rng(2).normal(size=(2, 5)) * 0.6, contrast_basis(3)
    pi = special.softmax(points @ theta.T @ basis.T, axis=1)
    variance = np.einsum("ka,nk,kb->nab", basis, pi, basis) - (pi @ basis)[:, :, None] * (pi @ basis)[:, None]
    expected = np.einsum("n,nab,ni,nj->aibj", mass, variance, points, points, optimize=True).reshape(10, 10)
    law = row_law(ClassWeight(classes=3), rows, theta.reshape(1, 10))
    np.testing.assert_allclose(law.curvature[0], expected, atol=0.01)
    np.testing.assert_allclose(law.score[0], ((pi @ basis).T @ (points * mass[:, None])).ravel(), atol=0.01)
    still = dataclasses.replace(rows, covariance=np.zeros((1, 5, 5)), free=slice(1, 1))
    centres, masses = rows.mean[0], rows.weight[0]
    pi = special.softmax(centres @ theta.T @ basis.T, axis=1)
    exact = ((pi @ basis).T @ (centres * masses[:, None])).ravel()
    np.testing.assert_allclose(row_law(ClassWeight(classes=3), still, theta.reshape(1, 10)).score[0], exact)


@pytest.mark.parametrize(
    "weight",
    [LogisticWeight(), ExponentialWeight(), ConstantWeight(), ClassWeight(classes=3)],
    ids=lambda weight: type(weight).__name__,
)
@pytest.mark.parametrize(("levels", "plain"), [((3,), 1), ((4, 2), 3)])
def test_the_gradient_of_the_density_agrees_with_differences(weight, levels, plain, differs_as_it_says):
    rng, space = np.random.default_rng(plain), space_of(levels, plain)
    n = space.dim * (2 if isinstance(weight, ClassWeight) else 1)
    raw = rng.normal(size=(2, n, n))
    density = CurvatureDensity(
        space=space,
        weight=weight,
        theta=0.5 * rng.normal(size=(2, n)),
        count=np.full(2, 1000.0),
        noisy=NoisyCurvature(
            matrix=60 * (raw + raw.transpose(0, 2, 1)) + 300 * np.eye(n),
            diagonal_sd=np.full(2, 200.0),
            offdiagonal_sd=np.full(2, 300.0),
        ),
    )
    differs_as_it_says(density, 0.4 * rng.normal(size=(2, space.size)))


@pytest.mark.parametrize("columns", [((1, 2),), ((1, 2), (3, 4, 5))])
def test_noise_in_the_entries_of_all_categories_is_compared_there(columns, differs_as_it_says):
    """The density is that of a matrix C H C' with its own noise; its gradient agrees with differences."""
    geometry = OneHot(num_features=1 + sum(map(len, columns)), columns=columns)
    rng, space = np.random.default_rng(5), space_of(tuple(len(each) + 1 for each in columns), 2)
    order = [geometry.num_features, *range(geometry.num_features)]
    frame, m = geometry.frame[:, order], geometry.dim
    raw = rng.normal(size=(2, m, m))
    noisy = NoisyCurvature(
        matrix=60 * (raw + raw.transpose(0, 2, 1)) + 300 * np.eye(m),
        diagonal_sd=np.full(2, 200.0),
        offdiagonal_sd=np.full(2, 300.0),
        frame=frame,
    )
    theta = 0.5 * rng.normal(size=(2, space.dim))
    density = CurvatureDensity(
        space=space, weight=LogisticWeight(), theta=theta, count=np.full(2, 1000.0), noisy=noisy
    )
    free = 0.4 * rng.normal(size=(2, space.size))
    differs_as_it_says(density, free)
    point = space.read(free)
    law = row_law(LogisticWeight(), point.rows, theta)
    for k in range(2):
        shown = 1000.0 * np.exp(point.log_count[k]) * frame @ law.curvature[k] @ frame.T
        inner = shown[np.ix_(geometry.blocks[0], geometry.blocks[0])]
        np.testing.assert_allclose(inner, np.diag(inner.diagonal()), atol=1e-9)  # none meets two categories
        gap = noisy.matrix[k] - shown
        entries = stats.norm.logpdf(gap.diagonal(), 0.0, 200.0).sum()
        entries += stats.norm.logpdf(gap[np.triu_indices(m, 1)], 0.0, 300.0).sum()
        constant = m * stats.norm.logpdf(0.0, 0.0, 200.0)
        constant += m * (m - 1) / 2 * stats.norm.logpdf(0.0, 0.0, 300.0)
        prior = space.log_prior(free, point)[0][k]
        assert density(free)[0][k] == pytest.approx(prior + entries - constant)


def test_the_prior_is_uniform_in_shares_and_normal_in_interactions_and_shifts():
    """A density of shares p is one of their logarithms' contrasts times the product of p."""
    space = space_of((3, 4), plain=2)
    free = np.random.default_rng(0).normal(size=(2, space.size))
    first = space.plain.size
    free[1, :first] = free[0, :first]
    expected = np.zeros(2)
    for place, levels in [(first, 3), (first + 2, 4)]:
        share = special.softmax(free[:, place : place + levels - 1] @ contrast_basis(levels).T, axis=1)
        law = stats.dirichlet(np.ones(levels))
        expected += [law.logpdf(each) + np.log(each).sum() for each in share]
    for normal, sd in [(free[:, first + 5 : first + 11], PAIR_SD), (free[:, first + 11 :], SHIFT_SD)]:
        expected += stats.norm(0.0, sd).logpdf(normal).sum(1)
    assert space.size == first + 16
    got = space.log_prior(free, space.read(free))[0]
    assert got[1] - got[0] == pytest.approx(expected[1] - expected[0])


# -- whole inferences


def released(levels=8, sd=0.5, seed=0, **changes):
    """One column of uneven categories and a numeric one: 20,000 records of two classes and a curvature."""
    rng, n = np.random.default_rng(seed), 20_000
    shares = np.arange(1.0, levels + 1) / np.arange(1.0, levels + 1).sum()
    place = rng.choice(levels, n, p=shares)
    indicators = 2.0 * (place[:, None] == np.arange(1, levels)) - 1.0
    x = 0.5 * rng.standard_normal(n) + 0.2 * (place % 2)
    rows = np.column_stack([indicators[:, :3], x, indicators[:, 3:], np.ones(n)])
    theta = 0.3 * rng.standard_normal(levels + 1)
    mean = special.expit(rows @ theta)
    noise = np.triu(sd * rng.standard_normal((levels + 1, levels + 1)))
    places = tuple(j for j in range(levels) if j != 3)
    base = Released(
        theta=theta,
        ridge=5.0,
        tilt=NormalTilt(dim=levels + 1, scale=3.0),
        curvature=(rows * (mean * (1 - mean))[:, None]).T @ rows + noise + np.triu(noise, 1).T,
        diagonal_sd=sd,
        offdiagonal_sd=sd,
        count=float(n),
        layout=Layout(intercept=levels, categories=((places, Indicators.of_range(levels)),)),
    )
    return dataclasses.replace(base, **changes)


def test_with_little_noise_it_is_the_sandwich_of_a_known_curvature():
    """Closed forms, at a ridge and a tilt that move no estimate far; 6% is three times the error of 640 pairs
    of tilts. Noise that is nearly nothing beside the entries of the curvature (0.5 of 4,000) is much beside
    its smallest eigenvalue: an inverse of the noisy matrix would err by more."""
    release = released(sd=0.5, ridge=0.1, tilt=NormalTilt(dim=9, scale=1.0))
    inverse = np.linalg.inv(released(sd=1e-9).curvature)
    exact = np.sqrt((inverse + inverse @ release.tilt.covariance @ inverse).diagonal())
    found = infer(release)
    assert found.reason is None
    np.testing.assert_allclose(found.standard_error, exact, rtol=0.06)
    debiased = release.theta + inverse @ release.pull
    assert (abs(found.estimate - debiased) < 0.2 * exact).all()
    assert np.linalg.eigvalsh(np.linalg.inv(inverse))[0] < 10.0


def test_a_category_whose_share_is_hidden_is_refused():
    reason = infer(released(sd=2000.0)).reason
    assert reason is not None
    assert "times the records" in reason


def test_a_tilt_that_no_parameters_explain_leaves_numbers():
    """A category of 50 records cannot have 200 more events."""
    rows = Rows(
        weight=np.array([[0.95, 0.05]]),
        mean=np.array([[[1.0, -1.0], [1.0, 1.0]]]),
        covariance=np.zeros((1, 2, 2)),
        free=slice(1, 1),
    )
    found = solved(LogisticWeight(), rows, np.array([1000.0]), np.zeros((1, 2)), np.array([[200.0, 200.0]]))
    assert np.isfinite(found.inverse).all()
    assert abs(rows.mean[0] @ found.point[0]).max() <= FARTHEST + 1e-9


def test_a_robust_score_has_its_own_cells():
    layout = Layout(intercept=2, categories=(((0, 1), THREE),))
    values = np.column_stack([THREE.values, np.ones(3)])
    matrix = (values * np.array([[300.0], [420.0], [280.0]])).T @ values
    rows = Rows.of_moments(np.tile(np.eye(3), (1280, 1, 1)), intercept=True)
    law = row_law(ConstantWeight(), rows, np.zeros((1280, 3)))
    truth = Solved(point=np.zeros((1280, 3)), law=law, count=np.full(1280, 1000.0))
    score = RobustScore(matrix=matrix, diagonal_sd=0.5, offdiagonal_sd=0.5, unit=2.0, layout=layout)
    got = score.covariances(truth, np.random.default_rng(0)).mean(0)
    order = layout.order(3)
    np.testing.assert_allclose(got, 2.0 * matrix[np.ix_(order, order)], rtol=0.05)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout(intercept=0, categories=(((1, 1), THREE),)), "positions of their own"),
        (Layout(intercept=0, categories=(((0, 1), THREE),)), "positions of their own"),
        (Layout(intercept=0, categories=(((1, 9), THREE),)), "positions of their own"),
        (Layout(intercept=0, categories=(((1,), THREE),)), "positions of their own"),
        (Layout(intercept=None, categories=(((0, 1), THREE),)), "an intercept beside categories"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout, message):
    with pytest.raises(InvalidInput, match=message):
        released(layout=layout)
