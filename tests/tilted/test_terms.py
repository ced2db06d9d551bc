# SPDX-License-Identifier: Apache-2.0
"""What is planned from public numbers: shares of a private count, and a residual that any sum can meet."""

import numpy as np
import pytest

from onedraw.tilted import terms as terms_module
from onedraw.tilted.calibration import RESIDUAL
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.fit import tilted_minimiser
from onedraw.tilted.losses import LogCosh, Logistic
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.sums import Sums
from onedraw.tilted.terms import ASSUMED, COUNT_SHARE, Terms
from onedraw.tilted.weights import cube_rows

LOSSES = [Logistic(), LogCosh(cut=3e-7), CountCosh(cap=8, cut=1.5), Softmax(classes=3)]


class ManySums(Sums):
    """As if each record stood in the table a hundred million times: rounding is bounded for all of them."""

    TIMES = 1e8

    def rounding(self, length, *, precise=False):
        return self.TIMES * super().rounding(length, precise=precise)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("records", [100, None])
def test_no_number_of_records_is_too_large_for_the_certificate(loss, records, monkeypatch):
    """Ten billion records; with the residual of a hundred records the certificate fails."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (100, 2))
    rows = cube_rows(x, bounds=np.tile([-1.0, 1.0], (2, 1)))
    y = rng.integers(0, 2, 100).astype(float) * loss.score_bound
    many = int(100 * ManySums.TIMES)
    terms = Terms(epsilon=1.0, num_records=None if records is None else many)
    terms = terms.paying_for_a_count().counted(many, rng)
    assert terms.at_most >= many
    sums = ManySums(loss=loss, table=rows.take(slice(None)).__class__(**{**rows.__dict__, "response": y}))
    calibration = terms.calibrated(loss, 3, "cube")
    found = tilted_minimiser(sums, calibration, rng)
    assert np.isfinite(found.theta).all()
    assert calibration.residual > RESIDUAL * loss.score_bound


def test_few_records_keep_the_smallest_residual():
    terms = Terms(epsilon=1.0, num_records=10_000).counted(10_000, np.random.default_rng(0))
    assert terms.calibrated(Logistic(), 3, "cube").residual == pytest.approx(RESIDUAL)


def test_a_public_count_costs_nothing_and_a_private_one_its_share():
    assert Terms(epsilon=1.0, num_records=7).paying_for_a_count().epsilon == 1.0
    paid = Terms(epsilon=2.0).paying_for_a_count()
    assert paid.epsilon + paid.count_epsilon == pytest.approx(2.0, rel=1e-15)
    assert paid.count_epsilon == pytest.approx(COUNT_SHARE * 2.0)


@pytest.mark.parametrize("rows", [1, 4])
def test_the_private_count_has_noise_of_the_stated_scale(rows, monkeypatch):
    """A person moves n by ``rows``, so the scale is rows/epsilon."""
    paid = Terms(epsilon=1.0, rows_per_person=rows, neighbours="add_remove").paying_for_a_count()
    seen = []

    def recorded(scale, size, rng):
        seen.append(float(scale))
        return [0] * size

    monkeypatch.setattr(terms_module, "discrete_laplace", recorded)
    paid.counted(1000, np.random.default_rng(0))
    assert seen == [pytest.approx(rows / paid.count_epsilon)]


def test_information_is_never_taken_from_private_numbers():
    assert Terms(epsilon=1.0).counted(10**9, np.random.default_rng(0)).information == ASSUMED
    paid = Terms(epsilon=1.0).paying_for_a_count()
    assert paid.counted(10**9, np.random.default_rng(0)).information == ASSUMED


@pytest.mark.parametrize(
    ("loss", "num_records", "raw", "expected"),
    [
        (Logistic(), 100_000, False, 0.0),
        (Logistic(), 3_000, False, 0.05),
        (Logistic(), 3_000, True, 0.1),
        (Logistic(), 600, True, 0.04),
        (Logistic(), 30, True, 0.04),
        (Logistic(), None, True, 0.1),
        (CountCosh(cap=3, cut=1.0), 100_000, False, 0.0),
        (CountCosh(cap=3, cut=1.0), 100_000, True, 0.1),
        (Softmax(classes=3), 1_000, True, 0.2),
        (Softmax(classes=3), 100_000, True, 0.2),
        (Softmax(classes=3), 10_000, False, 0.15),
        (Softmax(classes=4), 10_000, False, 0.2),
        (Softmax(classes=3), 100_000, False, 0.05),
    ],
)
def test_a_smaller_ridge_is_bought_where_its_pull_is_not_undone(loss, num_records, raw, expected):
    """The scale of the pure tilt says what was paid: 2/((1 - price) epsilon), less the solver's share."""
    law = Terms(epsilon=1.0, num_records=num_records, raw=raw).calibrated(loss, 6, "cube").law
    scale = law.scale / (1.0 if isinstance(loss, Softmax) else loss.score_bound)
    assert scale == pytest.approx(2.0 / ((1.0 - expected) * 0.995), rel=1e-6)
