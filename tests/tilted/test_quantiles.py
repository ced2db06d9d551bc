# SPDX-License-Identifier: Apache-2.0
"""Private quantiles: exact probabilities for all neighbours of small data sets."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from onedraw.errors import InvalidInput
from onedraw.tilted.quantiles import (
    SIZES,
    Choice,
    counts_up_to,
    drawn,
    quantile,
    sensitivity,
    size_of_counts,
    spread_of_residuals,
)

GRID = np.array([0.0, 1.0, 2.0, 3.0])
VALUES = (-1.0, 0.5, 1.5, 2.0, 9.0)
EPSILON = 0.8
BASE = np.log([0.4, 0.3, 0.2, 0.1])


def log_probabilities(values, choice):
    counts = [sum(v <= t for v in values) for t in GRID]
    weights = choice.log_weights(np.array(counts), len(values), BASE)
    return weights - special.logsumexp(weights)


def neighbours_of(data, relation, rows):
    """All data sets in which the last person, with up to ``rows`` values, is another or absent."""
    for kept in range(rows + 1):
        others = data[: len(data) - kept]
        people = [
            c for size in range(rows + 1) for c in itertools.combinations_with_replacement(VALUES, size)
        ]
        for person in people:
            if relation == "add_remove" and kept and person:
                continue
            yield others + person


def worst_loss(choice, relation, rows, sizes):
    found = 0.0
    for size in sizes:
        for data in itertools.combinations_with_replacement(VALUES, size):
            here = log_probabilities(data, choice)
            for other in neighbours_of(data, relation, rows):
                found = max(found, np.abs(here - log_probabilities(other, choice)).max())
    return found


@pytest.mark.parametrize("tau", [0.5, 0.8])
@pytest.mark.parametrize(
    ("relation", "rows"), [("replace_one", 1), ("replace_one", 2), ("add_remove", 1), ("add_remove", 2)]
)
def test_no_neighbours_of_small_data_sets_pass_epsilon(relation, rows, tau):
    choice = Choice(tau=tau, epsilon=EPSILON, neighbours=relation, rows_per_person=rows)
    found = worst_loss(choice, relation, rows, sizes=range(rows, 5))
    assert found <= EPSILON * (1 + 1e-12)
    assert found > 0.4 * EPSILON


@pytest.mark.parametrize("rows", [1, 2])
def test_replacing_a_person_comes_to_epsilon(rows):
    """A value moves from below two grid points to above: the likely one gains a row, the other loses it."""
    choice = Choice(tau=0.5, epsilon=EPSILON, rows_per_person=rows)

    def log_p(low, middle, high):
        weights = choice.log_weights(np.array([low, low + middle]), low + middle + high, np.log([0.5, 0.5]))
        return weights - special.logsumexp(weights)

    change = np.abs(log_p(50, 55, 95) - log_p(50 - rows, 55, 95 + rows)).max()
    assert 0.999 * EPSILON <= change <= EPSILON


@pytest.mark.parametrize("rows", [1, 2])
def test_adding_a_person_comes_to_epsilon(rows):
    choice = Choice(tau=0.5, epsilon=EPSILON, neighbours="add_remove", rows_per_person=rows)

    def log_p(low, middle, high):
        weights = choice.log_weights(np.array([low, low + middle]), low + middle + high, np.log([0.5, 0.5]))
        return weights - special.logsumexp(weights)

    change = np.abs(log_p(70, 35, 95) - log_p(70, 35, 95 + rows)).max()
    assert 0.999 * EPSILON <= change <= EPSILON


@pytest.mark.parametrize(
    ("tau", "relation", "rows", "expected"),
    [
        (0.5, "replace_one", 1, 1.0),
        (0.5, "add_remove", 1, 0.5),
        (0.8, "add_remove", 3, 2.4),
        (0.8, "replace_one", 3, 3.0),
    ],
)
def test_the_sensitivity_is_that_of_the_proof(tau, relation, rows, expected):
    assert sensitivity(tau, relation, rows) == pytest.approx(expected)


def test_counts_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    values = np.append(rng.choice(GRID, 200), rng.uniform(-1, 4, 200))
    assert counts_up_to(values, GRID).tolist() == [int((values <= t).sum()) for t in GRID]
    assert counts_up_to(np.zeros(0), GRID).tolist() == [0, 0, 0, 0]


@pytest.mark.statistical
def test_draws_follow_the_probabilities():
    """Chi-squared over four points, 20,000 draws: a false alarm once in 10,000 seeds."""
    weights, rng = np.log([0.1, 0.2, 0.3, 0.4]), np.random.default_rng(0)
    counts = np.bincount([drawn(weights + 7.0, rng) for _ in range(20_000)], minlength=4)
    assert stats.chisquare(counts, 20_000 * np.exp(weights)).pvalue > 1e-4


def test_a_quantile_of_many_values_is_found():
    values = np.random.default_rng(1).exponential(size=10_000)
    grid = np.linspace(0.0, 5.0, 501)
    found = quantile(values, grid, tau=0.8, epsilon=1.0, rng=np.random.default_rng(2))
    assert found == pytest.approx(np.log(5.0), abs=0.05)


def test_the_size_of_counts_is_near_the_quantile_and_falls_back_to_small_ones():
    y = np.random.default_rng(0).poisson(6.0, size=20_000).astype(float)
    assert size_of_counts(y, tau=0.8, epsilon=1.0, rng=np.random.default_rng(0)) == 8
    empty = [
        size_of_counts(y[:0], tau=0.8, epsilon=1.0, rng=np.random.default_rng(seed)) for seed in range(200)
    ]
    expected = 2 / (np.maximum(SIZES, 1.0) ** -2.0).sum()  # zero is as likely as one
    assert np.mean(np.array(empty) <= 1) == pytest.approx(expected, abs=0.1)


def test_the_spread_of_normal_residuals_is_their_standard_deviation():
    r = 3.0 * np.random.default_rng(0).standard_normal(20_000)
    assert spread_of_residuals(r, 30.0, epsilon=1.0, rng=np.random.default_rng(1)) == pytest.approx(
        3.0, rel=0.1
    )


@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_tau_lies_between_zero_and_one(tau):
    with pytest.raises(InvalidInput, match="tau"):
        Choice(tau=tau, epsilon=1.0)
