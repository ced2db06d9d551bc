# SPDX-License-Identifier: Apache-2.0
"""Declared categories from the file of a release: what it says of them, and that everybody reads the same."""

import numpy as np
import pytest

import onedraw
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli
from onedraw.mechanisms import TiltedFit
from onedraw.model import RegressionModel
from onedraw.release import Release
from onedraw.uncertainty import categories
from onedraw.uncertainty.released import released_of

TOWNS = ["a", "b", "c", "d", "e", "f"]
N = 6000


@pytest.fixture
def published():
    rng = np.random.default_rng(0)
    place = rng.integers(6, size=N)
    table = {"town": np.array(TOWNS)[place], "age": rng.uniform(20.0, 80.0, N)}
    died = (rng.random(N) < 1 / (1 + np.exp(-0.4 * (place - 2.5)))).astype(int)
    columns = onedraw.Columns({"town": TOWNS, "age": (20.0, 80.0)})
    model = onedraw.LogisticRegression(
        epsilon=20.0, mechanism=TiltedFit(inference=True), columns=columns, classes=[0, 1], random_state=1
    )
    pandas = pytest.importorskip("pandas")
    return model.fit(pandas.DataFrame(table), died), place, died


def test_a_file_tells_the_layout_and_everybody_gets_the_same_table(published, tmp_path):
    model, _, _ = published
    path = tmp_path / "release.json"
    model.release_.to_json(path)
    read = Release.from_json(path)
    assert read.summary() == model.summary()
    ((places, indicators),) = released_of(read).layout.categories
    assert places == (0, 1, 2, 3, 4)
    assert indicators.off == (-1.0,) * 5
    assert indicators.on == (1.0,) * 5


def test_with_a_large_epsilon_errors_are_those_of_the_log_odds_of_groups(published):
    """Contrasts of groups have closed forms: 1/(n p (1-p)) each. 10% is for age and the noise of the fit."""
    model, place, died = published
    rates = np.array([died[place == k].mean() for k in range(6)])
    variance = 1.0 / (np.bincount(place) * rates * (1 - rates))
    found = model.summary()
    errors = dict(zip(found.names, found.standard_error, strict=True))
    for k in range(1, 6):
        exact = np.sqrt(variance[0] + variance[k])
        assert errors[f"town={TOWNS[k]} (vs a)"] == pytest.approx(exact, rel=0.1)


def test_a_file_whose_categories_were_not_studied_is_read_without_intervals(published, monkeypatch):
    model, _, _ = published
    monkeypatch.setattr(categories, "STUDIED", ())
    with pytest.raises(InvalidInput, match="'town' has 6 categories"):
        released_of(model.release_)


def test_rows_without_bounds_have_indicators_in_their_units():
    names = ("age", "town[T.b]", "town[T.c]", "town[T.b]:age")
    model = RegressionModel(family=Bernoulli(), features=names)
    ((places, indicators),) = categories.categories_of(model, np.array([1.0, 2.0, 0.5, 1.0]))
    assert places == (1, 2)
    assert indicators.off == (0.0, 0.0)
    assert indicators.on == (2.0, 0.5)
