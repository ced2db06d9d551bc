# SPDX-License-Identifier: Apache-2.0
"""The alignment of rows: what it spends, that it rests on released matrices alone, what it does to rows."""

import dataclasses
import math

import numpy as np
import pytest

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli
from onedraw.model import RegressionModel
from onedraw.records import Records
from onedraw.tilted import aligning
from onedraw.tilted.aligning import ROUNDS, aligned, products_of_rows, spreading, without_alignment
from onedraw.tilted.alignment import Alignment
from onedraw.tilted.curvature import CurvatureLaw, NoisyCurvature
from onedraw.tilted.one_hot import OneHot
from onedraw.tilted.terms import Terms
from onedraw.tilted.weights import Weighing

MUCH = Terms(epsilon=1e9, num_records=20_000)
CUBE, BALL = Weighing(fit_intercept=True), Weighing(fit_intercept=True, units=(1.0, 1.0, 1.0))


def records(x):
    return Records(features=x, response=np.zeros(len(x)))


def related(rng, n=20_000, size=0.1):
    """Three columns of which two nearly repeat one another, away from 0."""
    x = size * rng.normal(size=(n, 3))
    x[:, 1] = x[:, 0] + 0.05 * x[:, 1]
    return x + np.array([0.3, -0.2, 0.0])


@pytest.mark.parametrize("weighing", [CUBE, BALL])
@pytest.mark.parametrize(("neighbours", "rows"), [("replace_one", 1), ("add_remove", 3)])
def test_the_rounds_spend_the_terms_on_matrices_with_the_bounds_of_rows(
    monkeypatch, weighing, neighbours, rows
):
    asked, law = [], aligning.curvature_law
    monkeypatch.setattr(aligning, "curvature_law", lambda **facts: asked.append(facts) or law(**facts))
    terms = Terms(epsilon=2.0, delta=1e-6, neighbours=neighbours, rows_per_person=rows)
    rng = np.random.default_rng(0)
    aligned(records(related(rng, 50)), weighing, terms, rng, noise=1.0)
    assert len(asked) == ROUNDS
    assert sum(each["epsilon"] for each in asked) == pytest.approx(2.0, rel=1e-12)
    assert sum(each["delta"] for each in asked) == pytest.approx(1e-6, rel=1e-12)
    for turn, each in enumerate(asked):
        assert (each["neighbours"], each["rows_per_person"]) == (neighbours, rows)
        assert (each["dim"], each["trace"]) == (4, 4.0)
        # Rows of a cube are bounded entry by entry; those of the next round are in the ball.
        assert each["entry"] == (1.0 if weighing is CUBE and turn == 0 else None)


@pytest.mark.parametrize("weighing", [CUBE, BALL])
def test_no_record_adds_more_than_the_bounds_and_some_record_adds_as_much(weighing):
    """One record at a time, near and far out of its bounds, with and without an alignment."""
    rng = np.random.default_rng(1)
    turn = Alignment.none(3).then(rng.normal(size=(3, 3)), rng.normal(size=3))
    corners = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    far = rng.normal(size=(200, 3)) * np.exp(rng.uniform(-1.0, 8.0, (200, 1)))
    for each in (weighing, dataclasses.replace(weighing, alignment=turn)):
        added = [products_of_rows(each(records(x[None])))[0] for x in (*corners, *far)]
        traces = [np.trace(one) for one in added]
        assert max(traces) <= 4.0
        assert max(traces) >= 4.0 * (1.0 - 1e-9)
        assert min(np.linalg.eigvalsh(one)[0] for one in added) >= -1e-12
        if each.geometry == "cube":
            assert max(np.abs(one).max() for one in added) == pytest.approx(1.0, rel=1e-12)


def test_nothing_but_the_released_matrices_decides(monkeypatch):
    """With the same released matrices any two tables have the same alignment, to the last bit."""
    rng = np.random.default_rng(2)
    matrices = [np.diag([3.0, 2.0, 1.0, 50.0]), np.diag([40.0, 30.0, 20.0, 50.0])]

    def made(x):
        told = iter(matrices)

        def fixed(law, sums, rng):
            return NoisyCurvature(matrix=next(told), diagonal_sd=0.1, off_diagonal_sd=0.1)

        monkeypatch.setattr(CurvatureLaw, "release", fixed)
        terms = Terms(epsilon=1.0, num_records=60)
        return aligned(records(x), CUBE, terms, np.random.default_rng(0), noise=0.01).alignment.statistic

    assert made(rng.normal(size=(60, 3))) == made(5.0 + 100.0 * rng.normal(size=(60, 3)))


@pytest.mark.parametrize("weighing", [CUBE, BALL])
def test_rows_have_no_correlations_and_the_spread_of_the_reach(weighing):
    """Beside the covariance by NumPy, with so much epsilon that noise does not matter. Long rows
    count for less in the second round, which finds a smaller variance than they have."""
    x, reach = related(np.random.default_rng(3)), 1.3
    normal = np.random.default_rng(0).normal(size=(200_000, 3)) / reach
    weight = np.minimum(1.0, 4.0 / (1.0 + (normal**2).sum(axis=1)))
    seen = (weight @ normal**2 / weight.sum()).mean()
    assert np.linalg.cond(np.cov(x.T)) > 1000.0
    found = aligned(records(x), weighing, MUCH, np.random.default_rng(0), noise=0.01).alignment
    u = found.rows(x)
    assert np.cov(u.T) * seen * reach**4 == pytest.approx(np.eye(3), abs=0.02)
    assert u.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.02)
    assert np.c_[x, np.ones(len(x))] @ found.frame.T == pytest.approx(np.c_[u, np.ones(len(x))], abs=1e-9)


def test_variances_that_noise_hides_count_as_the_noise():
    """A direction without variance is stretched as if it had 2 sqrt(d) standard deviations of the noise."""
    noisy = NoisyCurvature(
        matrix=1000.0 * np.diag([0.25, 0.0, 1.0]), diagonal_sd=3.0, off_diagonal_sd=2.0
    )
    matrix, shift = spreading(noisy, 1000, 1.0)
    assert np.diag(matrix) == pytest.approx([2.0, 1.0 / math.sqrt(2.0 * math.sqrt(2.0) * 2.0 / 1000.0)])
    assert shift.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), -5.0 * np.eye(3), 1e9 * np.eye(3)])
def test_without_records_an_alignment_is_finite(matrix):
    noisy = NoisyCurvature(matrix=matrix, diagonal_sd=1.0, off_diagonal_sd=1.0)
    assert all(np.isfinite(part).all() for part in spreading(noisy, 0, 1.0))
    nobody = records(np.zeros((0, 2)))
    found = aligned(nobody, CUBE, Terms(epsilon=1.0), np.random.default_rng(0), noise=1.0)
    assert np.isfinite(found.alignment.frame).all()


def test_a_row_depends_on_its_record_alone_to_the_last_bit():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(5000, 7)) * np.exp(rng.normal(size=(5000, 1)))
    turn = Alignment.none(7).then(rng.normal(size=(7, 7)), rng.normal(size=7))
    rows = turn.rows(x)
    assert rows == pytest.approx(x @ turn.matrix.T + turn.shift, rel=1e-12, abs=1e-12)
    places = rng.permutation(5000)[:777]
    assert (turn.rows(x[places]) == rows[places]).all()
    assert (turn.rows(np.asfortranarray(x)) == rows).all()


def test_far_rows_count_for_nothing():
    turn = Alignment.none(1).then(np.array([[1e6]]), np.zeros(1))
    found = dataclasses.replace(CUBE, alignment=turn)(records(np.array([[1e300], [0.0]])))
    assert found.weight.tolist() == [0.0, 1.0]
    assert np.isfinite(products_of_rows(found)[0]).all()


def test_what_is_published_makes_the_same_rows():
    rng = np.random.default_rng(5)
    found = aligned(records(related(rng)), CUBE, MUCH, rng, noise=0.1).alignment
    read = Alignment.of_numbers(found.statistic.array(), 3)
    assert (read.matrix == found.matrix).all()
    assert (read.shift == found.shift).all()


def test_rows_that_cannot_be_aligned_are_refused():
    with pytest.raises(InvalidInput, match="with an intercept"):
        aligned(records(np.zeros((5, 2))), Weighing(fit_intercept=False), MUCH, None, noise=1.0)
    one_hot = Weighing(fit_intercept=True, one_hot=OneHot(num_features=2, columns=((0, 1),)))
    with pytest.raises(InvalidInput, match="without columns of categories"):
        aligned(records(np.zeros((5, 2))), one_hot, MUCH, None, noise=1.0)
    model = RegressionModel(family=Bernoulli(), features=("age", "town=b (vs a)", "town=c (vs a)"))
    assert "'town'" in without_alignment(model)
    assert "intercept" in without_alignment(dataclasses.replace(model, fit_intercept=False))
    two = dataclasses.replace(model, features=("age", "sex=m (vs f)"))
    assert without_alignment(two) == ""
    with pytest.raises(InvalidInput, match="finite matrix"):
        Alignment(matrix=np.full((1, 1), np.nan), shift=np.zeros(1))
