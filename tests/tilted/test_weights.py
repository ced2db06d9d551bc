# SPDX-License-Identifier: Apache-2.0
"""Rows and weights bound every record, in exact arithmetic, whatever its features are."""

from fractions import Fraction

import numpy as np
import pytest

from onedraw.errors import InvalidInput
from onedraw.records import Records
from onedraw.tilted.alignment import Alignment
from onedraw.tilted.one_hot import OneHot
from onedraw.tilted.weights import BLOCK_CELLS, Weighing, ball_rows, cube_rows


def nasty_features(rng, n=400, d=3):
    sizes = 10.0 ** rng.uniform(-3, 3, (n, 1))
    x = rng.uniform(-1, 1, (n, d)) * sizes
    x[0], x[1], x[2] = 1.0, -1.0, 1.0 + 2.0**-52
    x[3, 0], x[4], x[5, 1] = 1e300, -1e308, 1e7
    x[6] = 1.5 * np.sqrt(1.0 + 1.0 / 3)  # about where the ball begins to weigh
    return x


def exact(rows, i):
    z = [Fraction(value) for value in rows.design[i].tolist()]
    weight = Fraction(1 if rows.weight is None else float(rows.weight[i]))
    return z, weight


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_row_is_within_the_cube(fit_intercept):
    x = nasty_features(np.random.default_rng(0))
    rows = cube_rows(x, bounds=np.tile([-1.0, 1.0], (3, 1)), fit_intercept=fit_intercept)
    for i in range(len(x)):
        z, weight = exact(rows, i)
        assert weight * max(abs(v) for v in z) <= 1
        assert weight * sum(v * v for v in z) <= rows.dim


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_row_is_within_the_ball(fit_intercept):
    x = nasty_features(np.random.default_rng(1))
    rows = ball_rows(x, units=np.full(x.shape[1], 1.5), fit_intercept=fit_intercept)
    for i in range(len(x)):
        z, weight = exact(rows, i)
        square = sum(v * v for v in z)
        assert weight * square <= rows.dim
        assert weight * weight * square <= rows.dim


def test_the_bounds_are_reached():
    rows = cube_rows(np.array([[1.0, -1.0], [2.0, 0.0]]), bounds=np.tile([-1.0, 1.0], (2, 1)))
    assert rows.weight == pytest.approx([1.0, 0.25])
    far = ball_rows(np.array([[30.0, 40.0]]), units=np.full(2, 1.5))
    assert far.weight[0] * (far.design[0] @ far.design[0]) == pytest.approx(3.0)


def test_rows_within_their_bounds_need_no_weights():
    x = np.random.default_rng(2).uniform(0.0, 10.0, (5000, 4))
    rows = cube_rows(x, bounds=np.tile([0.0, 10.0], (4, 1)))
    assert rows.weight is None
    assert rows.design[:, :4] == pytest.approx(x / 5.0 - 1.0)
    assert (rows.design[:, 4] == 1.0).all()


def test_rows_far_beyond_count_for_nothing_and_overflow_nowhere():
    rows = cube_rows(np.array([[1e308], [0.5]]), bounds=np.array([[-1.0, 1.0]]))
    assert rows.weight.tolist() == [0.0, 1.0]
    assert np.isfinite(rows.design).all()
    assert ball_rows(np.array([[1e200]]), units=np.ones(1)).weight.tolist() == [0.0]


@pytest.mark.parametrize("kind", ["ball", "aligned", "cube", "one_hot"])
@pytest.mark.parametrize("d", [3, 8, 11, 20, 37])
def test_a_size_depends_on_its_record_alone_to_the_last_bit(kind, d):
    """At ``FAR`` a row that adds as much as any becomes one that adds nothing. If that depended on where it
    stands, a record removed would move those behind it, and change much more than its own part: a product of
    matrices adds the last rows of a block in another order."""
    rng = np.random.default_rng(d)
    n = 2 * (BLOCK_CELLS // d) + 3
    x = rng.normal(size=(n, d)) * np.exp(rng.uniform(0.0, 14.0, (n, 1)))
    facts = {
        "ball": {"units": tuple(0.6 + rng.random(d))},
        "aligned": {"alignment": Alignment.none(d).then(rng.normal(size=(d, d)), rng.normal(size=d))},
        "cube": {},
        "one_hot": {"one_hot": OneHot(num_features=d, columns=(tuple(range(1, d)),))},
    }
    weighing = Weighing(fit_intercept=kind != "one_hot", **facts[kind])

    def weights(part):
        found = weighing(Records(features=part, response=np.zeros(len(part)))).weight
        return np.ones(len(part)) if found is None else found

    whole = weights(x)
    assert len(np.unique(whole)) > 100
    for first in (1, 2, 3, n - 5, n - 1):
        assert (weights(x[first:]) == whole[first:]).all()


def test_no_features_leave_the_intercept():
    assert cube_rows(np.zeros((3, 0)), bounds=np.zeros((0, 2))).design.tolist() == [[1.0]] * 3
    assert ball_rows(np.zeros((0, 2)), units=np.ones(2)).design.shape == (0, 3)


def test_bounds_that_are_not_increasing_are_refused():
    with pytest.raises(InvalidInput, match="lower < upper"):
        cube_rows(np.zeros((1, 1)), bounds=np.array([[1.0, 1.0]]))
