# SPDX-License-Identifier: Apache-2.0
"""Composition of draws: published numbers, brute force over explicit pairs, and safe rounding."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from onedraw import privacy
from onedraw.errors import InvalidInput
from onedraw.privacy import (
    bounded_range_delta,
    compose_bounded_range,
    compose_pure,
    compose_zcdp,
    range_per_draw,
    zcdp_of_bounded_range,
    zcdp_to_epsilon,
)

DELTA = 1e-6


def two_point_delta(r: float, k: int, epsilon: float, t: np.ndarray) -> np.ndarray:
    """The hockey-stick divergence of k draws of the two-point pair at t, straight from its definition."""
    q = (np.exp(-t) - math.exp(-r)) / (1.0 - math.exp(-r))
    i = np.arange(k + 1)[:, None]
    mass = stats.binom.pmf(i, k, 1.0 - q)
    return np.sum(mass * np.maximum(np.exp(k * t - i * r) - math.exp(epsilon), 0.0), axis=0)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def product(p: np.ndarray, k: int) -> np.ndarray:
    out = np.ones(1)
    for _ in range(k):
        out = np.outer(out, p).ravel()
    return out


@pytest.mark.parametrize(
    ("r", "k", "basic", "generic", "simple", "tight", "optimal"),
    [(0.1, 100, 10.0, 5.22, 2.75, 2.42, 2.25), (0.5, 20, 10.0, 10.0, 6.50, 5.93, 5.39)],
)
def test_published_numbers_are_reproduced(
    r: float, k: int, basic: float, generic: float, simple: float, tight: float, optimal: float
) -> None:
    assert compose_pure(r, draws=k) == pytest.approx(basic)
    assert compose_zcdp(r, draws=k, delta=DELTA, conversion="simple") == pytest.approx(simple, abs=0.005)
    assert compose_zcdp(r, draws=k, delta=DELTA) == pytest.approx(tight, abs=0.005)
    assert compose_bounded_range(r, draws=k, delta=DELTA) == pytest.approx(optimal, abs=0.005)
    # What pure DP alone would give, r^2/2 per draw: four times the concentrated loss.
    assert min(basic, zcdp_to_epsilon(k * r * r / 2.0, delta=DELTA)) == pytest.approx(generic, abs=0.005)


def test_one_draw_is_as_private_as_its_range() -> None:
    for r in (1e-4, 0.3, 1.0, 20.0):
        assert compose_bounded_range(r, draws=1, delta=0.0) == r
        assert compose_pure(r) == r
        assert range_per_draw(r) == r
        assert bounded_range_delta(r, epsilon=r) == 0.0


@pytest.mark.parametrize("r", [1e-4, 0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9])
def test_one_draw_has_the_closed_form_curve(r: float, fraction: float) -> None:
    """The supremum is at t = (epsilon + r)/2, where delta = (1 - e^(-(r-epsilon)/2))^2/(1 - e^-r)."""
    epsilon = fraction * r
    expected = math.expm1(-(r - epsilon) / 2.0) ** 2 / -math.expm1(-r)
    assert bounded_range_delta(r, epsilon=epsilon) == pytest.approx(expected, rel=3e-9)


def worst_two_point_delta(r: float, k: int, epsilon: float) -> float:
    """The largest over t, on a grid and on a finer one around its best."""
    t = np.linspace(0.0, r, 4001)[1:-1]
    coarse = two_point_delta(r, k, epsilon, t)
    top = int(coarse.argmax())
    fine = np.linspace(t[max(top - 1, 0)], t[min(top + 1, t.size - 1)], 4001)
    return max(float(coarse.max()), float(two_point_delta(r, k, epsilon, fine).max()))


@pytest.mark.parametrize("r", [0.02, 0.2, 1.0, 4.0])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.95])
def test_no_two_point_pair_exceeds_the_curve_and_one_attains_it(r: float, k: int, fraction: float) -> None:
    epsilon = fraction * k * r
    worst, curve = worst_two_point_delta(r, k, epsilon), bounded_range_delta(r, draws=k, epsilon=epsilon)
    assert worst <= curve
    assert worst >= curve * (1.0 - 1e-5)  # the finer grid comes this close to the supremum


@pytest.mark.parametrize("k", [96, 512])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_hundreds_of_draws_cost_what_the_worst_pair_says(k: int, epsilon: float) -> None:
    r = range_per_draw(epsilon, delta=DELTA, draws=k)
    worst = worst_two_point_delta(r, k, epsilon)
    assert worst <= DELTA
    assert worst >= DELTA * (1.0 - 1e-5)


def test_no_random_pair_of_bounded_range_exceeds_the_curve() -> None:
    """Pairs on up to five points, three draws, every outcome enumerated."""
    rng = np.random.default_rng(7)
    closest = 0.0
    for _ in range(400):
        r = float(rng.uniform(0.1, 3.0))
        q = rng.dirichlet(np.full(int(rng.integers(2, 6)), 0.5)) + 1e-9
        q /= q.sum()
        ratio = np.exp(r * rng.choice([rng.random(), 0.0, 1.0], size=q.size))
        p = q * ratio / (q @ ratio)
        # Check the premise: the log ratio of p and q has range at most r.
        assert np.ptp(np.log(p / q)) <= r + 1e-12
        for epsilon in (0.1 * r, r, 2.0 * r):
            exact = hockey_stick(product(p, 3), product(q, 3), epsilon)
            curve = bounded_range_delta(r, draws=3, epsilon=epsilon)
            assert exact <= curve * (1.0 + 1e-12) + 1e-15
            closest = max(closest, exact / curve)
    assert closest > 0.9  # the search does reach the curve, so it would notice one that is too low


def test_the_curve_matches_a_simulation_of_the_privacy_loss() -> None:
    """1e6 draws; the tolerance is five standard errors, a false alarm in about two million runs."""
    r, k, epsilon = 0.5, 20, 2.0
    t = np.linspace(0.0, r, 2001)[1:-1]
    t_star = float(t[np.argmax(two_point_delta(r, k, epsilon, t))])
    p_low = 1.0 - (1.0 - math.exp(t_star - r)) / (1.0 - math.exp(-r))
    i = np.random.default_rng(3).binomial(k, p_low, size=1_000_000)
    excess = np.maximum(0.0, 1.0 - np.exp(epsilon - (k * t_star - i * r)))
    error = float(excess.std()) / 1000.0
    assert bounded_range_delta(r, draws=k, epsilon=epsilon) == pytest.approx(excess.mean(), abs=5.0 * error)


@pytest.mark.parametrize("r", [1e-4, 0.01, 1.0, 20.0])
@pytest.mark.parametrize("k", [1, 10, 1000])
def test_bounds_are_ordered_and_invert_safely(r: float, k: int) -> None:
    for delta in (1e-10, 1e-5):
        optimal = compose_bounded_range(r, draws=k, delta=delta)
        tight = compose_zcdp(r, draws=k, delta=delta)
        simple = compose_zcdp(r, draws=k, delta=delta, conversion="simple")
        assert 0.0 < optimal <= tight <= simple <= compose_pure(r, draws=k)
        back = range_per_draw(optimal, delta=delta, draws=k)
        assert back == pytest.approx(r, rel=1e-6)
        assert bounded_range_delta(back, draws=k, epsilon=optimal) <= delta
        assert back >= optimal / k * (1.0 - 1e-12)


def test_epsilon_rises_with_draws_and_range_and_falls_with_delta() -> None:
    by_draws = [compose_bounded_range(0.3, draws=k, delta=DELTA) for k in (1, 2, 3, 5, 10, 50, 200)]
    by_range = [compose_bounded_range(r, draws=10, delta=DELTA) for r in (0.01, 0.1, 0.5, 1.0, 5.0)]
    by_delta = [compose_bounded_range(0.3, draws=10, delta=d) for d in (0.0, 1e-12, 1e-6, 1e-3, 0.1)]
    for values in (by_draws, by_range, by_delta[::-1]):
        assert all(a < b for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.3])
@pytest.mark.parametrize("draws", [1, 3, 7, 49, 1000])
def test_pure_split_never_rounds_above_the_budget(epsilon: float, draws: int) -> None:
    share = range_per_draw(epsilon, draws=draws)
    assert compose_pure(share, draws=draws) <= epsilon
    assert share == pytest.approx(epsilon / draws, rel=1e-15)


def test_zcdp_bounds_the_renyi_divergence_of_two_point_pairs() -> None:
    """rho = r^2/8 dominates D_a/a for every order; a constant four times smaller would not."""
    r = 1.0
    t = np.linspace(0.0, r, 401)[1:-1]
    q = (np.exp(-t) - math.exp(-r)) / (1.0 - math.exp(-r))
    worst = 0.0
    for a in (1.01, 1.5, 2.0, 5.0, 20.0):
        divergence = np.log(q * np.exp(a * t) + (1.0 - q) * np.exp(a * (t - r))) / (a - 1.0)
        worst = max(worst, float(divergence.max()) / a)
    assert 0.95 * zcdp_of_bounded_range(r) < worst <= zcdp_of_bounded_range(r)


def test_zcdp_conversion_holds_for_the_gaussian_mechanism() -> None:
    """Its exact curve is known: sensitivity 1, noise s is 1/(2 s^2)-zCDP."""
    for rho in (0.01, 0.5, 3.0):
        s = math.sqrt(1.0 / (2.0 * rho))
        for delta in (1e-8, 1e-4):
            epsilon = zcdp_to_epsilon(rho, delta=delta)
            exact = stats.norm.cdf(0.5 / s - epsilon * s) - math.exp(epsilon) * stats.norm.cdf(
                -0.5 / s - epsilon * s
            )
            assert exact <= delta
            assert epsilon <= zcdp_to_epsilon(rho, delta=delta, conversion="simple")
    assert zcdp_to_epsilon(1.0, delta=0.0) == math.inf


def test_a_delta_above_the_total_variation_needs_no_epsilon() -> None:
    assert compose_bounded_range(0.1, draws=1, delta=0.5) == 0.0


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"Expected draws to be a whole number >= 1, got draws=0"):
        compose_pure(1.0, draws=0)
    with pytest.raises(InvalidInput, match=r"Expected delta in \[0, 1\), got delta=1"):
        range_per_draw(1.0, delta=1)
    with pytest.raises(InvalidInput, match="Did you mean 'tight'"):
        zcdp_to_epsilon(1.0, delta=DELTA, conversion="tigth")


def test_no_function_of_this_folder_takes_data() -> None:
    forbidden = {"X", "y", "data", "records", "features", "response"}
    for name in privacy.__all__:
        assert not forbidden & set(inspect.signature(getattr(privacy, name)).parameters), name
    assert privacy.__all__ == sorted(privacy.__all__)
