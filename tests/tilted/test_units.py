# SPDX-License-Identifier: Apache-2.0
"""Private units of features: exact counts, probabilities of neighbours, and what they find."""

import itertools

import numpy as np
import pytest
from scipy import special

from onedraw.records import Records
from onedraw.tilted import units
from onedraw.tilted.terms import Terms
from onedraw.tilted.units import (
    SizeCounts,
    UnitTerms,
    counts_of_sizes,
    feature_units,
    grid,
    planned_reach,
    regrets,
)


def table(x):
    return Records(features=x, response=np.zeros(len(x)))


def test_the_grid_has_two_sizes_to_an_octave():
    assert grid()[[0, 38, 39, 40, 41, 42, 43, -1]].tolist() == [2**-20, 0.5, 0.75, 1, 1.5, 2, 3, 2**20]


def test_counts_are_those_of_a_plain_comparison():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((700, 3)) * 10.0 ** rng.uniform(-9, 9, (700, 3))
    x = np.concatenate([x, [[0.0, 1.5, -2.0], [3.0, -1.0, 0.75], [1e300, 5e-324, -0.0]]])
    assert (counts_of_sizes(x) == (np.abs(x)[:, :, None] < grid()).sum(axis=0)).all()
    assert (counts_of_sizes(np.asfortranarray(x)[::2]) == counts_of_sizes(x[::2].copy())).all()
    assert counts_of_sizes(np.zeros((0, 2))).shape == (2, 81)
    (together,), (each,) = (table(x).sum(SizeCounts(each=each)) for each in (False, True))
    assert (together == each.sum(axis=0)).all()


def log_probabilities(x, epsilon_common, epsilon_own, relation, rows):
    """Of all outcomes (common, one, other), by asking the choices for their weights."""
    logs = []

    def recorded(weights, rng):
        logs.append(weights - special.logsumexp(weights))
        return 40  # the common size is 1, whatever was likely

    plain, units.drawn = units.drawn, recorded
    try:
        feature_units(
            counts_of_sizes(x),
            len(x),
            epsilon_common=epsilon_common,
            epsilon_own=epsilon_own,
            rng=np.random.default_rng(0),
            neighbours=relation,
            rows_per_person=rows,
        )
    finally:
        units.drawn = plain
    return logs


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_person_changes_no_probability_by_more_than_epsilon_and_some_by_nearly_as_much(relation, rows):
    """Persons at the ends of the grid, before others who are at either end: a choice between two sizes."""
    others = np.concatenate([np.full((60, 2), 1e-5), np.full((40, 2), 1e5)])
    ends = np.array(list(itertools.product([1e-5, 1.0, 1e5, 0.0], repeat=2)))
    people = [np.concatenate([others, np.tile(end, (rows, 1))]) for end in ends]
    pairs = itertools.permutations(people, 2)
    if relation == "add_remove":
        pairs = [(others, other) for other in people]
    worst = np.zeros(3)
    for one, other in pairs:
        here = log_probabilities(one, 3.0, 4.0, relation, rows)
        there = log_probabilities(other, 3.0, 4.0, relation, rows)
        worst = np.maximum(worst, [np.abs(a - b).max() for a, b in zip(here, there, strict=True)])
    assert (worst <= np.array([3.0, 2.0, 2.0]) * (1 + 1e-12)).all()
    assert (worst > np.array([3.0, 2.0, 2.0]) * (0.9 if relation == "replace_one" else 0.55)).all()


@pytest.mark.statistical
def test_features_of_very_different_size_get_units_of_their_own():
    """Each size is within a factor of 2.5 of the median in all of 20 runs."""
    sizes = 10.0 ** np.array([-4.0, -2.0, 0.0, 3.0, 5.0])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((10_000, 5)) * sizes
        terms = Terms(epsilon=1.0, num_records=10_000)
        found = UnitTerms.planned(terms, 5, 6).chosen(counts_of_sizes(x), len(x), rng)
        found /= planned_reach(terms.noise(6))
        assert (np.abs(np.log(found / sizes)) < np.log(2.5)).all()


def test_few_records_get_one_unit_for_all_features():
    found = UnitTerms.planned(Terms(epsilon=1.0, num_records=1000), 5, 6)
    assert found.own == 0.0
    x = np.random.default_rng(0).standard_normal((1000, 5))
    assert len(set(found.chosen(counts_of_sizes(x), len(x), np.random.default_rng(1)).tolist())) == 1


@pytest.mark.parametrize("records", [None, 0, 10, 1000, 10**9])
@pytest.mark.parametrize("features", [1, 10, 1000])
def test_units_never_take_more_than_a_fifth_of_epsilon(records, features):
    terms = Terms(epsilon=0.7, num_records=records)
    assert 0.0 < UnitTerms.planned(terms, features, features + 1).epsilon <= 0.2 * 0.7 * (1 + 1e-12)


def test_a_unit_reaches_further_the_less_noise_there_is():
    found = [planned_reach(noise) for noise in (5.0, 0.1, 0.05, 0.005, 1e-9, 0.0)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0.8, 1.7)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 1.0])
def test_columns_of_zeros_and_ones_get_a_unit_just_above_one(share):
    """Rows with a one would otherwise be weighted away."""
    x = (np.random.default_rng(0).random((20_000, 3)) <= share).astype(float)
    found = feature_units(
        counts_of_sizes(x), 20_000, epsilon_common=0.1, epsilon_own=0.3, rng=np.random.default_rng(0)
    )
    assert set(found) <= {1.5, 2.0}


def test_columns_of_zeros_say_nothing_about_a_size():
    assert (regrets(counts_of_sizes(np.zeros((50, 1)))[0], 50) == 0.0).all()


def test_regrets_are_those_of_a_plain_count():
    x = np.append(np.random.default_rng(0).standard_cauchy(300), np.zeros(40))
    seen = np.abs(x[np.abs(x) >= 2.0**-20])
    expected = [
        max(0.6 * len(seen) - (seen < t).sum(), (seen < t / 2).sum() - 0.4 * len(seen)) for t in grid()
    ]
    assert regrets(counts_of_sizes(x[:, None])[0], len(x)) == pytest.approx(expected)
