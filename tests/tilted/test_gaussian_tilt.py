# SPDX-License-Identifier: Apache-2.0
"""The Gaussian tilt: its curve against exact integration in one dimension."""

import numpy as np
import pytest

from onedraw.privacy.gaussian import gaussian_delta
from onedraw.tilted.calibration import calibrate
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.gaussian_tilt import gaussian_ratios, tilt_delta
from onedraw.tilted.losses import LogCosh, Logistic, LogisticShares
from onedraw.tilted.softmax_loss import Softmax

EPSILON, DELTA = 1.0, 1e-3


def exact_delta(loss, sigma, ridge, first, second, common):
    """max of both directions of integral (p - e^epsilon p')_+, one coefficient; ``common`` moves b."""
    centre = -common / ridge
    theta = centre + np.linspace(-1.0, 1.0, 100_001) * (12.0 * sigma + 3.0 * loss.score_bound) / ridge
    densities = []
    for rows in (first, second):
        b, hessian = -common - ridge * theta, np.full_like(theta, ridge)
        for z, y in rows:
            slope, curvature = loss.slope_and_curvature(np.full_like(theta, y), z * theta)
            b, hessian = b - z * slope, hessian + z * z * curvature
        densities.append(np.exp(-0.5 * (b / sigma) ** 2) / np.sqrt(2 * np.pi) / sigma * hessian)
    p, q = densities
    assert np.trapezoid(p, theta) == pytest.approx(1.0, abs=1e-5)
    excess = [np.maximum(a - np.exp(EPSILON) * b, 0.0) for a, b in ((p, q), (q, p))]
    return max(float(np.trapezoid(part, theta)) for part in excess)


def worst_delta(loss, mu, k, rows, neighbours):
    sigma, ridge, found = loss.score_bound / mu, 1.0 / k, 0.0
    ends = (0.0, 1.0) if not isinstance(loss, LogCosh) else (0.0,)
    if isinstance(loss, LogisticShares):
        ends = (0.0, 0.2, 0.5, 1.0)
    for common in np.concatenate([[0.0], np.geomspace(0.3, 60.0, 7), -np.geomspace(0.3, 60.0, 7)]):
        for y in ends:
            person = [(1.0, y)] * rows
            other = [] if neighbours == "add_remove" else [(-0.999, y)] * rows
            found = max(found, exact_delta(loss, sigma, ridge, person, other, common * loss.score_bound))
    return found


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    "loss",
    [Logistic(), LogCosh(cut=0.8), CountCosh(cap=2, cut=0.7), LogisticShares(brier=0.5)],
    ids=lambda x: type(x).__name__,
)
def test_no_pair_in_one_dimension_passes_delta(loss, neighbours, rows):
    mu, k = gaussian_ratios(loss, epsilon=EPSILON, delta=DELTA, neighbours=neighbours, rows_per_person=rows)
    assert worst_delta(loss, mu, k, rows, neighbours) <= DELTA * (1.0 + 1e-4)  # what the quadrature may err


def test_the_logistic_curve_for_adding_a_row_is_exact():
    mu, k = gaussian_ratios(
        Logistic(), epsilon=EPSILON, delta=DELTA, neighbours="add_remove", rows_per_person=1
    )
    assert k == pytest.approx(EPSILON)
    assert worst_delta(Logistic(), mu, k, 1, "add_remove") >= 0.99 * DELTA


def test_noise_or_ridge_too_small_is_seen_by_the_integral():
    mu, k = gaussian_ratios(
        Logistic(), epsilon=EPSILON, delta=DELTA, neighbours="add_remove", rows_per_person=1
    )
    assert worst_delta(Logistic(), 2.0 * mu, k, 1, "add_remove") > 10.0 * DELTA
    assert worst_delta(Logistic(), mu, 8.0 * k, 1, "add_remove") > 2.0 * DELTA
    assert tilt_delta(
        Logistic(), mu=mu, k=1.01 * k, epsilon=EPSILON, neighbours="add_remove", rows_per_person=1
    ) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "times"),
    [(1.0, 1e-5, 3.731), (1.0, 1e-6, 4.225), (0.3, 1e-6, 12.992), (3.0, 1e-6, 1.544)],
)
def test_the_noise_of_adding_a_row_is_that_of_the_gaussian_mechanism(epsilon, delta, times):
    mu, _ = gaussian_ratios(
        Logistic(), epsilon=epsilon, delta=delta, neighbours="add_remove", rows_per_person=1
    )
    assert 1.0 / mu == pytest.approx(times, abs=1e-3)
    replaced, _ = gaussian_ratios(
        Logistic(), epsilon=epsilon, delta=delta, neighbours="replace_one", rows_per_person=1
    )
    assert 2.0 * times <= 1.0 / replaced + 1e-3 <= 2.0 * times * 1.01


def test_the_sums_are_those_written_in_the_theorem():
    mu, k = 0.1, 0.3
    one = {"mu": mu, "k": k, "epsilon": EPSILON, "rows_per_person": 1}

    def h(a, e):
        return gaussian_delta(a, e)

    assert tilt_delta(Logistic(), neighbours="replace_one", **one) == pytest.approx(
        h(2 * mu, EPSILON) + h(mu, EPSILON) + h(mu, EPSILON - k)
    )
    assert tilt_delta(LogCosh(cut=2.0), neighbours="add_remove", **one) == pytest.approx(2 * h(mu, EPSILON))
    assert tilt_delta(LogCosh(cut=2.0), neighbours="replace_one", **one) == pytest.approx(
        4 * h(2 * mu, EPSILON) + 2 * h(mu, EPSILON - 2 * k)
    )
    shares = LogisticShares(brier=0.25)  # the score of a share has either sign
    assert tilt_delta(shares, neighbours="replace_one", **one) == pytest.approx(
        4 * h(2 * mu, EPSILON) + 2 * h(mu, EPSILON - 1.5 * k)
    )
    soft = Softmax(classes=3)
    assert tilt_delta(soft, neighbours="add_remove", **one) == pytest.approx(
        2 * h(mu, EPSILON - soft.determinant_bound(k))
    )


def test_the_polytope_bound_holds_for_random_scores_of_softmax():
    """phi is convex in the score, so its value anywhere is at most that at a corner."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        b, pi = rng.normal(size=3) * 3.0, rng.dirichlet(np.full(3, 0.5))
        shifts = np.vstack([pi, np.eye(3)]) - np.eye(3)[0]
        values = shifts @ b + 0.5 * (shifts**2).sum(axis=1)
        assert values[0] <= values[1:].max() + 1e-12


@pytest.mark.parametrize("loss", [Logistic(), LogCosh(cut=1.5)])
@pytest.mark.parametrize("rows", [500, 3000])
def test_a_person_of_very_many_rows_gets_the_norm_law(loss, rows):
    """The sum over what each row may do would overflow."""
    options = {"epsilon": 1.0, "dim": 30, "geometry": "cube", "rows_per_person": rows}
    assert calibrate(loss, delta=1e-6, **options) == calibrate(loss, **options)
