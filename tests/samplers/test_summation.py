# SPDX-License-Identifier: Apache-2.0
"""The error of sums over records: against exact sums, attained by the worst table; what proofs add for it."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from onedraw import design
from onedraw.design import SPANS, UNIT, Design, InCache, rows_of_a_piece, summation_error
from onedraw.families import Bernoulli, Gaussian
from onedraw.losses import BetaDivergence
from onedraw.priors import Prior, ScalePrior
from onedraw.samplers import box
from onedraw.tables.stream import Stream


def columns(y, rows):
    """A kernel's terms: the columns of some rows, added row by row, as no order is worse."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total = total + row
    return (total,)


def summed(values, columns_of_room):
    table = Design(design=values, response=design.ALL_ZERO)
    return InCache(terms=columns, columns=columns_of_room)(table)[0]


@pytest.mark.parametrize("room", [1024, 512, 40])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, 30_000])
def test_no_sum_is_farther_from_the_exact_one_than_the_bound(n, room):
    """Terms of sizes from 1e-12 to 1e12, of one and of both signs; exact sums by ``math.fsum``."""
    rng = np.random.default_rng(n)
    values = 10.0 ** rng.uniform(-12.0, 12.0, (n, 2)) * [1.0, -1.0] ** rng.integers(0, 2, (n, 2))
    found = summed(values, room)
    for j in range(2):
        exact, size = math.fsum(values[:, j]), math.fsum(np.abs(values[:, j]))
        assert abs(found[j] - exact) <= summation_error(n, room) * size


def worst_table(n, room):
    """One, and then in every addition that it takes part in half of its last digit, which is lost."""
    rows, values = rows_of_a_piece(room), np.zeros(n)
    values[0], values[1:rows] = 1.0, UNIT
    spans = np.linspace(0, n, SPANS + 1).astype(int) if n * room >= design.PARALLEL_CELLS else [0, n]
    piece = 1
    while piece * rows < spans[1]:
        values[piece * rows] = UNIT  # the first of as many pieces as were added before
        piece *= 2
    values[spans[1:-1]] = UNIT
    return values


@pytest.mark.parametrize(("n", "room"), [(64, 1024), (1024, 64), (64 * 1024, 1024), (64 * 8192, 1024)])
def test_the_worst_table_comes_to_more_than_half_of_the_bound(n, room):
    """So the bound is neither too small nor twice too large; the exact sum is that of fractions."""
    values = worst_table(n, room)
    exact = sum(map(Fraction, values[values != 0.0].tolist()))
    size = float(exact)
    lost = float(exact - Fraction(float(summed(values[:, None], room)[0])))
    assert 0.5 * summation_error(n, room) * size < lost <= summation_error(n, room) * size


def test_blocks_of_a_table_add_a_rounding_for_each_doubling():
    """512 blocks of one piece each: the roundings of the piece, and nine of blocks."""
    rows, blocks = rows_of_a_piece(1024), 512
    values = np.zeros((blocks, rows))
    values[0, 0], values[0, 1:] = 1.0, UNIT
    values[2 ** np.arange(9), 0] = UNIT

    class Pieces:
        num_records = blocks * rows

        def pieces(self):
            yield from values[:, :, None]

    def read(piece):
        return Design(design=piece, response=design.ALL_ZERO)

    table = Stream(source=Pieces(), read=read, empty=read(np.empty((0, 1))))
    lost = float(
        sum(map(Fraction, values[values != 0.0].tolist()))
        - Fraction(float(table.sum(InCache(terms=columns, columns=1024))[0][0]))
    )
    assert lost == pytest.approx((rows - 1 + 9) * UNIT)
    bound = summation_error(blocks * rows, 1024) * float(values.sum())
    assert 0.5 * bound < lost <= bound


# -- the slack of a proved draw


def slack(family, n, noise=None):
    posterior = SimpleNamespace(
        loss=BetaDivergence(family), beta=2.0, weight=0.5, num_records=n, prior=Prior(box=6.0, noise=noise)
    )
    return box._Tree._slack(SimpleNamespace(posterior=posterior, dim=2))


@pytest.mark.parametrize("n", [1000, 10**6, 2 * 10**7, 10**8])
def test_the_slack_covers_the_sums_of_bound_and_density_and_grows_no_faster_than_they_do(n):
    """Two sums of n losses of at most the largest size; what is left are tabulated integrals."""
    for family, noise in (
        (Bernoulli(), None),
        (Gaussian(scale_floor=0.1), ScalePrior(floor=0.1, ceiling=9.0)),
    ):
        bounds = family.loss_bounds(2.0)
        size = max(abs(bounds.lower), abs(bounds.upper))
        summing = 2.0 * 0.5 * n * summation_error(n, box.FEWEST_COLUMNS) * size
        tabulated = 2.0 * 0.5 * n * box.INTEGRAL_ERROR * max(1.0, size)
        prior = slack(family, 0, noise)
        assert summing + tabulated <= slack(family, n, noise) - prior <= 1.1 * (summing + tabulated)


def test_the_slack_of_a_hundred_million_records_is_a_tenth_of_a_nat():
    assert slack(Bernoulli(), 10**8) < 0.11  # 71 where terms were taken to be added in one row


@pytest.mark.parametrize("width", [1e-12, 1e-9])
def test_on_cells_of_no_width_the_bound_is_hardly_above_the_density(width, reference):
    case = reference.PROVABLE["logistic"]
    tree = box._Tree(case.posterior(), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    centre = rng.normal(0.0, 1.0, (200, tree.dim))
    half = np.full_like(centre, width)
    height, slope, _ = tree._bound(centre, half)
    offset = rng.uniform(-1.0, 1.0, centre.shape) * half
    density = tree._log_density(tree.origin + (centre + offset) @ tree.axes.T)
    inside = np.isfinite(height) & np.isfinite(density)
    gap = (height + (slope * offset).sum(axis=1))[inside] - density[inside]
    assert inside.sum() > 100
    assert (gap >= 0.0).all()
    assert (gap < 2.0 * tree.slack + 1e-6).all()
