# SPDX-License-Identifier: Apache-2.0
"""Noise on the grid: laws against their formulas, sums without rounding, and no floating-point draw.

Chi-square tests at level 1e-4 with fixed seeds: a false alarm in one of 10,000 changes of the random stream.
"""

import dataclasses
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from onedraw.errors import CalibrationError
from onedraw.mechanisms import OutputPerturbation
from onedraw.mechanisms._linear import Moments
from onedraw.mechanisms.sufficient_statistics import NoisyCounts, NoisyPosterior
from onedraw.noise import discrete_cube, discrete_gaussian, discrete_laplace, gaussian_ratio, on_grid
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.registry import MECHANISMS

SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(20)]


def fits(drawn, log_mass):
    """Chi-square p-value of draws against exp(log_mass), a dictionary of most outcomes up to a constant."""
    outcomes = sorted(log_mass, key=log_mass.get, reverse=True)
    logs = np.array([log_mass[outcome] for outcome in outcomes])
    expected = np.exp(logs - special.logsumexp(logs)) * len(drawn)
    kept = expected >= 5
    seen = Counter(drawn)
    counts = np.array([seen[outcome] for outcome in itertools.compress(outcomes, kept)])
    observed = np.append(counts, len(drawn) - counts.sum())
    wanted = np.append(expected[kept], len(drawn) - expected[kept].sum())
    return stats.chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("scale", SCALES)
def test_the_discrete_laplace_law_is_its_formula(scale):
    drawn = discrete_laplace(scale, 6000, np.random.default_rng(1))
    assert fits(drawn, {n: -abs(n) / float(scale) for n in range(-400, 401)}) > 1e-4
    if scale > 10:
        assert fits(drawn, {n: -abs(n) / float(scale) * 0.8 for n in range(-400, 401)}) < 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(2), Fraction(37, 3), Fraction(400)])
def test_the_discrete_gaussian_law_is_its_formula(variance):
    drawn = discrete_gaussian(variance, 4000, np.random.default_rng(2))
    assert fits(drawn, {n: -(n * n) / (2 * float(variance)) for n in range(-400, 401)}) > 1e-4
    if variance > 10:
        assert fits(drawn, {n: -(n * n) / (2.4 * float(variance)) for n in range(-400, 401)}) < 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_discrete_cube_law_is_its_formula(size):
    rng = np.random.default_rng(3)
    drawn = [tuple(discrete_cube(Fraction(3, 2), size, rng)) for _ in range(6000)]
    reach = range(-12, 13)
    points = {n: -max(map(abs, n)) / 1.5 for n in itertools.product(reach, repeat=size)}
    assert fits(drawn, points) > 1e-4
    assert fits(drawn, {n: value * 0.8 for n, value in points.items()}) < 1e-4


def test_noise_of_any_scale_has_all_its_bits():
    """Far below the resolution of a float: the last bit of the noise is as random as any other."""
    for law, scale in ((discrete_laplace, 2**90), (discrete_gaussian, 2**180), (discrete_cube, 2**90)):
        drawn = law(Fraction(scale), 200, np.random.default_rng(4))
        assert 60 <= sum(n % 2 for n in drawn) <= 140  # 5.6 standard errors
        assert max(abs(n) for n in drawn) > 2**88


def test_the_same_points_are_reached_from_neighbouring_numbers():
    """On a coarse grid: of 3000 outputs none rules out the neighbour, out to where five are expected."""
    one, other = (
        {place + n for n in discrete_laplace(Fraction(2), 3000, np.random.default_rng(seed))}
        for seed, place in ((5, 0), (6, 1))
    )
    likely = [n for n in range(-20, 21) if 3000 * math.exp(-(abs(n) + 1) / 2) / (2 * 2) > 5]
    assert len(likely) > 15
    assert set(likely) <= one & other


def test_values_are_moved_to_the_grid_by_half_a_step_at_most():
    values = np.array([0.3, -0.3, 1e300, 0.0])
    np.testing.assert_array_equal(on_grid(values, 0.25, [0, 0, 0, 3]), [0.25, -0.25, 1e300, 0.75])


# -- the discrete Gaussian against the normal one


def test_the_discrete_gaussian_is_as_private_as_the_ratio_says():
    """The exact delta of two discrete Gaussians, summed, on a grid so coarse that the normal curve would do
    only by its share; on the grids that are used the check of the ratio is far from binding."""
    epsilon, delta, length = 1.0, 1e-3, 2000
    ratio = gaussian_ratio(epsilon, delta, dim=1, length=length * 1e4)  # the fine grid of the claim
    spread = length / ratio
    n = np.arange(-60 * int(spread), 60 * int(spread) + 1, dtype=float)
    one, other = -(n**2) / (2 * spread**2), -((n - length) ** 2) / (2 * spread**2)
    one, other = one - special.logsumexp(one), other - special.logsumexp(other)
    exact = np.maximum(np.exp(one) - np.exp(epsilon + other), 0.0).sum()
    assert exact <= delta
    assert exact == pytest.approx(delta, rel=1e-4)
    assert ratio < gaussian_parameter(epsilon, delta)


def test_a_grid_too_coarse_for_gaussian_noise_is_refused():
    with pytest.raises(CalibrationError, match="too coarse"):
        gaussian_ratio(1.0, 1e-6, dim=100, length=1e3)


# -- sums of whole numbers


def test_moments_are_exact_whatever_the_order_and_the_number_of_rows():
    """Against Python's integers, over several blocks; a row moves them by the same whole numbers anywhere."""
    rng = np.random.default_rng(7)
    design = rng.normal(size=(20_000, 3))
    design[:, 0] = 8.0  # nearly all of the length, so that the sum of 20,000 rows needs more than 53 bits
    design /= np.maximum(1.0, np.linalg.norm(design, axis=1, keepdims=True))
    response = rng.uniform(-1, 1, 20_000)
    found = Moments.of(design, response).products
    rows = np.trunc(np.column_stack([design, response]) * (2.0**20 * (1 - 2.0**-40))).astype(int).tolist()
    for i, j in itertools.product(range(3), range(4)):
        assert found[i, j] == sum(row[i] * row[j] for row in rows)
    order = rng.permutation(20_000)
    assert (Moments.of(design[order], response[order]).products == found).all()
    assert (Moments.of(design[1:], response[1:]).products != found).all()


def test_rows_within_their_bound_stay_within_it():
    """Cut towards zero, so that no row grows, also where division by the bound rounds up."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        row = rng.choice([rng.normal(size=4), np.array([0.6, 0.8, 0.0, 0.0]), np.eye(4)[0]])
        norm = float(np.linalg.norm(row))
        one = Moments.of(row[None, :] / norm, np.array([1.0])).products
        assert sum(one[i, i] for i in range(4)) <= 2**40
        assert (np.abs(one[:, -1].astype(float)) <= 2.0**40 * np.abs(row) / norm).all()


def test_noise_is_symmetric_and_on_the_upper_half_once():
    moments = Moments.of(np.zeros((0, 2)), np.zeros(0))
    second, products = moments.noisy([2**40, 2 * 2**40, 3 * 2**40], [2**40, -(2**40)])
    np.testing.assert_array_equal(second, [[1, 2], [2, 3]])
    np.testing.assert_array_equal(products, [1, -1])


# -- every mechanism that says so


class Bytes(np.random.Generator):
    """A generator that serves bytes, and notes every other request."""

    asked: list

    def __getattribute__(self, name):
        if name in ("laplace", "normal", "standard_normal", "gamma", "uniform", "random", "exponential"):
            object.__getattribute__(self, "asked").append(name)
        return super().__getattribute__(name)


EXACT = [name for name, kind in MECHANISMS.items() if not kind.requirements.floating]


def test_the_mechanisms_with_exact_noise_are_these():
    counts = {"beta_bernoulli_ssp", "beta_bernoulli_noise_aware"}
    assert counts | {"linear_ssp", "linear_noise_aware"} <= set(EXACT)


@pytest.mark.parametrize("name", [*EXACT, "adassp", "output_perturbation"])
def test_exact_noise_is_drawn_from_whole_bytes(name, examples, monkeypatch):
    """No floating-point draw enters the noisy statistics; what is drawn from them afterwards is no noise.

    With NumPy's Laplace noise 254 of 2,000,000 outputs were impossible under the neighbouring data set.
    """
    example = examples.mechanism(name)
    mechanism = example.mechanism
    if isinstance(mechanism, OutputPerturbation):
        mechanism = dataclasses.replace(mechanism, noise="laplace")
    if isinstance(mechanism, NoisyPosterior):
        size = (mechanism.draws, example.model.dim)
        after = "_logits" if isinstance(mechanism, NoisyCounts) else "_draw_posterior"
        monkeypatch.setattr(type(mechanism), after, lambda *_: np.zeros(size))
        if name == "beta_bernoulli_noise_aware":
            monkeypatch.setattr(type(mechanism), "_draw_posterior", lambda *_: np.zeros(size))
    calibrated = dataclasses.replace(example, mechanism=mechanism).calibrated()
    rng = Bytes(np.random.PCG64(0))
    rng.asked = []
    calibrated._values(examples.records(example.model), rng)
    assert rng.asked == []


def test_the_check_of_the_bytes_sees_a_floating_point_draw():
    rng = Bytes(np.random.PCG64(0))
    rng.asked = []
    rng.laplace(size=3)
    assert rng.asked == ["laplace"]
