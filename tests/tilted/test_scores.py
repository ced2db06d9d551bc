# SPDX-License-Identifier: Apache-2.0
"""What else inference releases: a total and products of scores. Bounds that are reached, and exact ratios."""

import dataclasses

import numpy as np
import pytest
from scipy import special, stats

from onedraw.families.categorical import contrast_basis
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.curvature import curvature_law, total_scale
from onedraw.tilted.losses import LogCosh, Logistic
from onedraw.tilted.scores import PIECE, ScoreProducts, TotalScore
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.weights import ball_rows, cube_rows


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("epsilon", [0.02, 1.0])
def test_the_noise_of_a_total_is_exactly_what_the_guarantee_needs(epsilon, rows):
    """A person moves the total by as much as its rows: the log ratio is epsilon, no less and no more. Half
    the scale gives twice as much, twice the scale half of it."""

    def largest_ratio(scale):
        noise = stats.laplace(scale=scale)
        places = np.linspace(-20.0, 20.0, 401)
        return np.abs(noise.logpdf(places) - noise.logpdf(places - rows)).max()

    scale = total_scale(epsilon=epsilon, rows_per_person=rows)
    assert largest_ratio(scale) == pytest.approx(epsilon, rel=1e-9)
    assert largest_ratio(scale) <= epsilon
    assert largest_ratio(0.5 * scale) > 1.9 * epsilon
    assert largest_ratio(2.0 * scale) < 0.6 * epsilon


def far_rows(geometry, rng):
    x = 10.0 ** rng.uniform(-1, 3, (400, 1)) * rng.choice([-1.0, 1.0], (400, 3))
    if geometry == "ball":
        return ball_rows(x, units=np.full(3, 1.5))
    return cube_rows(x, bounds=np.tile([-1.0, 1.0], (3, 1)))


@pytest.mark.parametrize("geometry", ["cube", "ball"])
@pytest.mark.parametrize(
    ("loss", "y"), [(Logistic(), 0.0), (LogCosh(cut=0.3), -1e3), (CountCosh(cap=40, cut=1.1), 0.0)]
)
def test_a_record_adds_no_more_than_the_bounds_of_its_law_and_reaches_them(loss, y, geometry):
    """Also rows far out of their bounds. With scores of 1 a corner of the cube adds ones, trace p."""
    rows = far_rows(geometry, np.random.default_rng(0))
    rows = dataclasses.replace(rows, response=np.full(len(rows), y))
    one = [rows.take(slice(i, i + 1)) for i in range(len(rows))]
    theta = np.array([[0.0, 0.0, 0.0, 40.0]])
    added = np.array([r.sum(ScoreProducts(loss, theta))[0] for r in one])
    assert max(r.sum(TotalScore(loss, theta))[0][0] for r in one) <= 1 + 1e-12
    assert np.trace(added, axis1=1, axis2=2).max() <= rows.dim * (1 + 1e-12)
    if geometry == "cube":
        assert np.abs(added).max() <= 1 + 1e-12
    corner = cube_rows(np.ones((1, 3)), bounds=np.tile([-1.0, 1.0], (3, 1)))
    corner = dataclasses.replace(corner, response=np.array([y]))
    np.testing.assert_allclose(corner.sum(ScoreProducts(loss, theta))[0], np.ones((4, 4)))
    assert corner.sum(TotalScore(loss, theta))[0][0] == pytest.approx(1.0)


def test_products_are_summed_over_blocks_as_over_all_rows():
    rng = np.random.default_rng(1)
    rows = ball_rows(3.0 * rng.standard_normal((2 * PIECE + 77, 2)), units=np.full(2, 1.5))
    y, theta = rng.integers(0, 2, len(rows.design)).astype(float), np.array([[0.5, -1.0, 0.2]])
    rows = dataclasses.replace(rows, response=y)
    score = rows.weight * (1 / (1 + np.exp(-rows.design @ theta[0])) - y)
    expected = np.einsum("n,ni,nj->ij", score**2, rows.design, rows.design)
    np.testing.assert_allclose(rows.sum(ScoreProducts(Logistic(), theta))[0], expected, rtol=1e-10)
    total = (score**2 / rows.weight).sum()
    assert rows.sum(TotalScore(Logistic(), theta))[0][0] == pytest.approx(total)


@pytest.mark.parametrize(("neighbours", "both"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_the_law_of_products_is_that_of_a_matrix_with_entries_up_to_one(neighbours, both):
    """The release of ``TiltedFit`` asks for this law: trace p, entries 1."""
    law = curvature_law(dim=3, trace=3.0, entry=1.0, epsilon=0.5, neighbours=neighbours)
    assert law.kind == "cube"
    assert (law.scale, law.off_diagonal) == (pytest.approx(2.0), both)


def softmax_scores(theta, rows, y):
    """Gradients of -log pi_y + |pi - e_y|^2/4 by the chain rule, a row for each record and predictor."""
    basis = contrast_basis(len(theta) + 1)
    pi = special.softmax(rows.design @ theta.T @ basis.T, axis=1)
    gap = pi - np.eye(len(theta) + 1)[y.astype(int)]
    through = pi[:, :, None] * (np.eye(len(theta) + 1) - pi[:, None, :])
    return (gap + 0.5 * np.einsum("nij,nj->ni", through, gap)) @ basis


@pytest.mark.parametrize("classes", [3, 5])
def test_products_of_classes_are_those_of_scores_times_rows_with_their_weights_squared(classes):
    rng = np.random.default_rng(2)
    rows = ball_rows(3.0 * rng.standard_normal((PIECE + 99, 2)), units=np.full(2, 1.5))
    assert (rows.weight < 0.5).mean() > 0.1  # so that a weight is not its square
    y, theta = rng.integers(0, classes, len(rows)).astype(float), rng.standard_normal((classes - 1, 3))
    scored = np.einsum("n,na,ni->nai", rows.weight, softmax_scores(theta, rows, y), rows.design)
    scored = scored.reshape(len(rows), -1) / np.sqrt(2.0)
    kernel = ScoreProducts(Softmax(classes=classes, brier=0.5), theta)
    found = dataclasses.replace(rows, response=y).sum(kernel)[0]
    np.testing.assert_allclose(found, scored.T @ scored, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("geometry", ["cube", "ball"])
@pytest.mark.parametrize("classes", [3, 5])
def test_the_noise_of_products_of_classes_is_what_the_worst_record_needs(classes, geometry):
    """A search over records, far-out ones and the worst by design, at epsilon 1:
    what it moves is the scale of the law, so half of it breaks the promise and twice is wasted."""
    rng, q, loss = np.random.default_rng(classes), classes - 1, Softmax(classes=classes, brier=0.5)
    if geometry == "cube":
        worst = cube_rows(np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0]]), bounds=np.tile([-1.0, 1.0], (3, 1)))
    else:  # as long as rows of full weight are
        worst = ball_rows(1.5 * np.sqrt(3.0) * np.eye(3), units=np.full(3, 1.5))
    certain = np.zeros((q, 4))
    certain[:, -1] = 40.0 * contrast_basis(classes)[0]  # the first class has all probability
    added = []
    for table in (worst, far_rows(geometry, rng).take(slice(None, None, 40))):
        for theta, seen in ((certain, 1.0), (certain, 2.0), (rng.standard_normal((q, 4)), 0.0)):
            held = dataclasses.replace(table, response=np.full(len(table), seen))
            kernel = ScoreProducts(loss, theta)
            added += [held.take(slice(i, i + 1)).sum(kernel)[0] for i in range(len(held))]
    added = np.array(added)
    entry = 1.0 if geometry == "cube" else None
    law = curvature_law(dim=4 * q, trace=4.0, entry=entry, epsilon=1.0)
    assert np.linalg.eigvalsh(added).min() >= -1e-9
    # Replace-one moves the Wishart's exponent by both traces over twice its scale: epsilon 1 in all.
    assert law.kind == "wishart"
    spent = np.trace(added, axis1=1, axis2=2).max() / law.scale
    if law.own is not None:  # which a record moves by the largest entry of the diagonal
        spent += np.diagonal(added, axis1=1, axis2=2).max() / law.own.scale
    assert spent == pytest.approx(1.0, rel=1e-6)
    if geometry == "cube":  # what the law of few parameters rests on
        upper = np.triu_indices(4 * q)
        assert np.abs(added[:, upper[0], upper[1]]).max() == pytest.approx(1.0, rel=1e-9)
        assert np.diagonal(added, axis1=1, axis2=2).min() >= 0.0
    gaussian = curvature_law(dim=4 * q, trace=4.0, entry=entry, epsilon=1.0, delta=0.1)
    assert gaussian.kind == "gaussian"
    furthest = np.linalg.norm(added[:, None] - added[None], axis=(2, 3)).max()
    needed = gaussian.scale * gaussian_parameter(1.0, 0.1)
    assert 0.95 * needed <= furthest <= needed
