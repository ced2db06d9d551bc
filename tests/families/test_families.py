# SPDX-License-Identifier: Apache-2.0
"""One contract for every family: density, power integral, loss, derivatives, limits, range and sampling.

Independent answers come from scipy.stats, quadrature, long sums, closed forms and central differences.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import onedraw.families as families
from onedraw.errors import InvalidInput
from onedraw.families import (
    Bernoulli,
    Categorical,
    Derivatives,
    Family,
    Gaussian,
    Laplace,
    LocationScale,
    MassFunction,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from onedraw.families._count_power import power_table
from onedraw.families._power import power

FAMILIES: list[Family] = [
    Bernoulli(),
    Categorical(num_classes=2),
    Categorical(num_classes=3),
    Categorical(num_classes=6),
    Poisson(),
    NegativeBinomial(dispersion=0.4),
    NegativeBinomial(dispersion=3.0),
    Gaussian(scale_floor=0.1),
    Gaussian(scale_floor=1.5),
    StudentT(df=1.5, scale_floor=0.5),
    StudentT(df=5.0, scale_floor=0.1),
    Laplace(scale_floor=0.3),
]
COUNTS = [f for f in FAMILIES if isinstance(f, Poisson | NegativeBinomial)]
MASS = [f for f in FAMILIES if isinstance(f, MassFunction)]
CONTINUOUS = [f for f in FAMILIES if isinstance(f, LocationScale)]
BETAS = [1.03, 1.3, 1.5, 2.0, 2.5, 4.0]
EXTREME_B = [1e-8, 1e-4, 0.05, 0.5, 1.0, 1.5, 5.0, 20.0]

every_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)
every_mass = pytest.mark.parametrize("family", MASS, ids=repr)
every_count = pytest.mark.parametrize("family", COUNTS, ids=repr)
every_continuous = pytest.mark.parametrize("family", CONTINUOUS, ids=repr)
every_beta = pytest.mark.parametrize("beta", BETAS)


def batch(family: Family, seed: int = 0, rows: int = 7, columns: int = 5) -> tuple[Any, Any, Any]:
    """Plausible responses (rows, 1), predictors ([q,] rows, columns) and scales (1, columns) or None."""
    rng = np.random.default_rng(seed)
    leading = (family.num_predictors,) if isinstance(family, Categorical) else ()
    eta = 1.2 * rng.standard_normal((*leading, rows, columns))
    scale = None
    if isinstance(family, LocationScale):
        scale = family.scale_floor + rng.uniform(0.1, 1.5, size=(1, columns))
    y = family.sample(eta, rng, scale)[:, :1]
    return y, eta, scale


def frozen(family: Family, eta: Any, scale: Any = None) -> Any:
    """The scipy.stats distribution of a family with one predictor."""
    if isinstance(family, Bernoulli):
        return stats.bernoulli(special.expit(eta))
    if isinstance(family, Poisson):
        return stats.poisson(np.exp(eta))
    if isinstance(family, NegativeBinomial):
        return stats.nbinom(family.dispersion, family.dispersion / (family.dispersion + np.exp(eta)))
    if isinstance(family, Gaussian):
        return stats.norm(eta, scale)
    if isinstance(family, StudentT):
        return stats.t(family.df, eta, scale)
    assert isinstance(family, Laplace)
    return stats.laplace(eta, scale)


def reference_log_density(family: Family, y: Any, eta: Any, scale: Any = None) -> Any:
    if isinstance(family, Categorical):
        table = special.log_softmax(np.einsum("kq,q...->k...", family.contrasts, eta), axis=0)
        return np.take_along_axis(table, y[np.newaxis].astype(int), axis=0)[0]
    distribution = frozen(family, eta, scale)
    return distribution.logpmf(y) if isinstance(family, MassFunction) else distribution.logpdf(y)


def support(family: Family) -> Any:
    """All responses of a mass function that matter for predictors of ordinary size, (responses, 1)."""
    if isinstance(family, Bernoulli):
        size = 2
    elif isinstance(family, Categorical):
        size = family.num_classes
    else:
        size = 5000
    return np.arange(size, dtype=float)[:, np.newaxis]


def reference_power_integral(family: Family, eta: Any, beta: float, scale: Any = None) -> Any:
    """By summation over the support or by quadrature, one row of ``eta`` at a time."""
    if isinstance(family, MassFunction):
        rows = np.moveaxis(eta, -2, 0)
        sums = [
            np.exp(beta * reference_log_density(family, support(family), row[..., np.newaxis, :])).sum(axis=0)
            for row in rows
        ]
        return np.array(sums)
    standard = frozen(family, 0.0, 1.0)
    # Quadrature in u = asinh(residual), which tames heavy tails; then f^beta scales as scale^-b.
    half, _ = integrate.quad(
        lambda u: math.exp(beta * standard.logpdf(math.sinh(u))) * math.cosh(u),
        0,
        60,
        epsabs=0,
        epsrel=1e-12,
        limit=400,
    )
    return np.broadcast_to(2.0 * half * scale ** (1.0 - beta), eta.shape)


def assert_close_derivative(claimed: Any, up: Any, down: Any, step: float) -> None:
    """Central differences agree to their own accuracy (truncation step^2, rounding 1e-16/step)."""
    numeric = (up - down) / (2.0 * step)
    np.testing.assert_allclose(claimed, numeric, rtol=2e-6, atol=2e-8)


# --- densities -----------------------------------------------------------------------------------------


@every_family
def test_density_has_total_mass_one(family: Family) -> None:
    _, eta, scale = batch(family, rows=2, columns=2)
    if isinstance(family, MassFunction):
        row = eta[..., :1, :]
        np.testing.assert_allclose(
            np.exp(family.log_density(support(family), row)).sum(axis=0), 1.0, rtol=1e-9
        )
        return
    centre, width = eta[:1, :1], scale[:, :1]

    def integrand(u: float) -> float:
        y = centre + width * math.sinh(u)
        return float(np.exp(family.log_density(y, centre, width))[0, 0] * width[0, 0] * math.cosh(u))

    sides = [
        integrate.quad(integrand, *ends, epsabs=0, epsrel=1e-10, limit=400)[0] for ends in ((-60, 0), (0, 60))
    ]
    assert sum(sides) == pytest.approx(1.0, rel=1e-9)


@every_family
def test_log_density_agrees_with_scipy(family: Family) -> None:
    y, eta, scale = batch(family)
    expected = reference_log_density(family, y, eta, scale)
    np.testing.assert_allclose(family.log_density(y, eta, scale), expected, rtol=1e-11, atol=1e-12)


@every_family
def test_density_never_exceeds_its_supremum(family: Family) -> None:
    y, eta, scale = batch(family, rows=200, columns=20)
    assert family.log_density(y, eta, scale).max() <= family.log_sup_density + 1e-12
    if isinstance(family, LocationScale):
        top = family.log_density(np.array([[0.3]]), np.array([[0.3]]), np.array(family.scale_floor))
        assert float(top[0, 0]) == pytest.approx(family.log_sup_density, rel=1e-12)


@every_family
@every_beta
def test_power_integral_agrees_with_summation_or_quadrature(family: Family, beta: float) -> None:
    _, eta, scale = batch(family)
    expected = reference_power_integral(family, eta, beta, scale)
    np.testing.assert_allclose(family.power_integral(eta, beta, scale), expected, rtol=1e-10)


@every_mass
@pytest.mark.parametrize("beta", [1 + 1e-8, 1.05, 2.0, 6.0, 21.0])
def test_power_integral_lies_between_its_largest_term_and_one(family: Family, beta: float) -> None:
    eta = np.concatenate([np.linspace(-60, 12, 1500), [-1e4, -700.0, 30.0, 700.0, 1e4]])[np.newaxis]
    if isinstance(family, Categorical):
        direction = np.random.default_rng(3).standard_normal((family.num_predictors, 1, 1))
        eta = direction * eta
    integral = family.power_integral(eta, beta)
    assert (integral <= 1.0).all()
    responses = support(family)[:40]
    largest = np.exp(beta * family.log_density(responses, eta)).max(axis=0)
    # Summed directly, the largest term may round up by an ulp; the count families clip and have no excuse.
    slack = 0.0 if family in COUNTS else 1e-15
    assert (integral >= largest * (1.0 - slack)).all()


# --- the loss ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beta", "p", "golden"), [(1.5, 0.3, -0.5954592578), (2.0, 0.3, -0.01), (2.0, 0.9, -0.49)]
)
def test_bernoulli_loss_has_its_golden_values(beta: float, p: float, golden: float) -> None:
    constant = 1.0 / (beta - 1.0) - 1.0 / beta
    eta = np.array([[special.logit(p)]])
    for y, predictor in ((1.0, eta), (0.0, -eta)):
        loss = Bernoulli().beta_loss(np.array([[y]]), predictor, beta)
        assert float(loss[0, 0]) - constant == pytest.approx(golden, abs=1e-10)


def test_gaussian_loss_has_its_golden_value() -> None:
    loss = Gaussian(scale_floor=0.5).beta_loss(np.array([[0.7]]), np.zeros((1, 1)), 2.0, np.ones((1, 1)))
    assert float(loss[0, 0]) - 0.5 == pytest.approx(-0.1712065375, abs=1e-10)


@every_family
@every_beta
def test_loss_agrees_with_the_direct_formula(family: Family, beta: float) -> None:
    y, eta, scale = batch(family)
    b = beta - 1.0
    density_power = np.exp(b * reference_log_density(family, y, eta, scale))
    integral = reference_power_integral(family, eta, beta, scale)
    expected = -density_power / b + integral / beta + 1.0 / b - 1.0 / beta
    np.testing.assert_allclose(family.beta_loss(y, eta, beta, scale), expected, rtol=1e-10, atol=2e-10)


@every_family
def test_loss_tends_to_the_negative_log_density_as_beta_tends_to_one(family: Family) -> None:
    y, eta, scale = batch(family)
    expected = -reference_log_density(family, y, eta, scale)
    loss = family.beta_loss(y, eta, 1.0 + 1e-8, scale)
    np.testing.assert_allclose(loss, expected, rtol=1e-6, atol=1e-6)


@every_family
def test_loss_joins_smoothly_where_the_formula_for_small_b_takes_over(family: Family) -> None:
    y, eta, scale = batch(family)
    below, at = family.beta_loss(y, eta, 1.05 - 1e-9, scale), family.beta_loss(y, eta, 1.05 + 1e-9, scale)
    np.testing.assert_allclose(below, at, rtol=2e-7, atol=2e-7)


@every_family
@pytest.mark.parametrize("beta", [1.01, 2.0, 2.3])
def test_loss_leaves_its_arguments_untouched(family: Family, beta: float) -> None:
    y, eta, scale = batch(family)
    copies = [None if a is None else a.copy() for a in (y, eta, scale)]
    family.beta_loss(y, eta, beta, scale)
    family.beta_loss_derivatives(y, eta, beta, scale)
    for before, after in zip(copies, (y, eta, scale), strict=True):
        np.testing.assert_array_equal(before, after)


def test_two_classes_are_a_bernoulli_with_predictor_times_root_two() -> None:
    y, eta, _ = batch(Bernoulli(), rows=30)
    two = Categorical(num_classes=2).beta_loss_derivatives(y, eta[np.newaxis], 1.7)
    one = Bernoulli().beta_loss_derivatives(y, math.sqrt(2.0) * eta, 1.7)
    assert one.d2_eta is not None
    assert two.d2_eta is not None
    np.testing.assert_allclose(two.value, one.value, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(two.d_eta[0], math.sqrt(2.0) * one.d_eta, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(two.d2_eta[0, 0], 2.0 * one.d2_eta, rtol=1e-10, atol=1e-13)


def test_signs_turn_every_response_into_zero_or_there_are_none() -> None:
    """f(y | eta) = f(0 | s eta), by 1/(1 + exp(eta)) = 1 - 1/(1 + exp(-eta)), and I is even in eta."""
    for family in FAMILIES:
        y, eta, _ = batch(family)
        signs = family.signs(y)
        if not isinstance(family, Bernoulli):
            assert signs is None
            continue
        assert signs is not None
        np.testing.assert_array_equal(np.unique(signs), [-1.0, 1.0])
        zero = np.zeros((1, 1))
        expected = np.log(np.where(y == 1.0, special.expit(eta), special.expit(-eta)))
        np.testing.assert_allclose(family.log_density(zero, signs * eta), expected, rtol=1e-9, atol=1e-12)
        for beta in (1.01, 1.7, 2.0, 3.0):
            np.testing.assert_allclose(
                family.beta_loss(zero, signs * eta, beta),
                family.beta_loss(y, eta, beta),
                rtol=1e-12,
                atol=1e-15,
            )


# --- derivatives ---------------------------------------------------------------------------------------


def check_derivatives(at: Any, eta: Any, scale: Any, family: Family) -> None:
    """Every derivative in ``at(eta, scale)`` against differences of the one below it."""
    several = family.vector_predictor
    exact: Derivatives = at(eta, scale)
    step = 1e-5
    assert exact.d2_eta is not None
    for j in range(eta.shape[0] if several else 1):
        nudge = np.zeros_like(eta)
        nudge[j if several else ...] = step
        up, down = at(eta + nudge, scale), at(eta - nudge, scale)
        assert_close_derivative(exact.d_eta[j] if several else exact.d_eta, up.value, down.value, step)
        second = exact.d2_eta[j] if several else exact.d2_eta
        if not family.has_kinks:  # see the test of expected curvatures
            assert_close_derivative(second, up.d_eta, down.d_eta, step)
    if scale is not None:
        assert exact.d_scale is not None
        assert exact.d2_scale is not None
        assert exact.d_eta_scale is not None
        up, down = at(eta, scale + step), at(eta, scale - step)
        assert_close_derivative(exact.d_scale, up.value, down.value, step)
        assert_close_derivative(exact.d2_scale, up.d_scale, down.d_scale, step)
        assert_close_derivative(exact.d_eta_scale, up.d_eta, down.d_eta, step)


@every_family
def test_log_density_derivatives_agree_with_differences(family: Family) -> None:
    y, eta, scale = batch(family, seed=1)
    check_derivatives(lambda e, s: family.log_density_derivatives(y, e, s), eta, scale, family)
    exact = family.log_density_derivatives(y, eta, scale)
    np.testing.assert_allclose(exact.value, family.log_density(y, eta, scale), rtol=1e-13, atol=1e-14)


@every_family
@pytest.mark.parametrize("beta", [1.02, 1.5, 2.0, 3.7])
def test_loss_derivatives_agree_with_differences(family: Family, beta: float) -> None:
    y, eta, scale = batch(family, seed=1)
    check_derivatives(lambda e, s: family.beta_loss_derivatives(y, e, beta, s), eta, scale, family)
    exact = family.beta_loss_derivatives(y, eta, beta, scale)
    np.testing.assert_array_equal(exact.value, family.beta_loss(y, eta, beta, scale))


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.has_kinks], ids=repr)
@pytest.mark.parametrize("beta", [1.05, 1.5, 2.0])
def test_where_there_are_kinks_curvatures_are_those_of_the_expected_loss(family: Family, beta: float) -> None:
    """Averages over the quantiles of the response, and differences of average slopes, kinks included."""
    scale, step = np.array(0.7), 0.01
    y = frozen(family, 0.3, 0.7).ppf((np.arange(400_000) + 0.5) / 400_000)[:, np.newaxis]
    for at in (
        lambda eta: family.beta_loss_derivatives(y, np.array([[eta]]), beta, scale),
        lambda eta: family.log_density_derivatives(y, np.array([[eta]]), scale),
    ):
        change = at(0.3 + step).d_eta.mean() - at(0.3 - step).d_eta.mean()
        assert at(0.3).d2_eta.mean() == pytest.approx(change / (2.0 * step), rel=0.03)


@every_family
def test_order_one_gives_the_same_first_derivatives_and_no_second(family: Family) -> None:
    y, eta, scale = batch(family)
    first = family.beta_loss_derivatives(y, eta, 1.6, scale, order=1)
    both = family.beta_loss_derivatives(y, eta, 1.6, scale, order=2)
    np.testing.assert_allclose(first.d_eta, both.d_eta, rtol=1e-14)
    assert first.d2_eta is None
    assert first.d2_scale is None
    assert (first.d_scale is None) == (scale is None)


# --- extremes ------------------------------------------------------------------------------------------


@every_family
@pytest.mark.parametrize("b", EXTREME_B)
def test_loss_and_derivatives_stay_finite_at_extreme_predictors(family: Family, b: float) -> None:
    sizes = np.array([0.0, 1.0, 30.0, 700.0, 1e4])
    eta = np.concatenate([-sizes, sizes])[np.newaxis]
    scale = None
    if isinstance(family, MassFunction):
        y = support(family)[:: max(1, len(support(family)) // 6)]
    else:
        y = np.array([[-1e200], [-1e4], [0.0], [0.3], [700.0], [1e4]])
        scale = np.array(family.scale_floor)  # type: ignore[attr-defined]
    if isinstance(family, Categorical):
        directions = np.random.default_rng(4).standard_normal((family.num_predictors, 1, 1))
        eta = eta * directions / np.linalg.norm(directions)
    result = family.beta_loss_derivatives(y, eta, 1.0 + b, scale)
    for name, array in vars(result).items():
        assert array is None or np.isfinite(array).all(), name
    assert np.isfinite(family.power_integral(eta, 1.0 + b, scale)).all()


@every_mass
@pytest.mark.parametrize("b", EXTREME_B)
def test_mass_function_loss_lies_between_zero_and_one_over_b(family: Family, b: float) -> None:
    rng = np.random.default_rng(8)
    leading = (family.num_predictors,) if isinstance(family, Categorical) else ()
    eta = rng.standard_normal((*leading, 1, 400)) * np.exp(rng.uniform(-2.0, 9.0, size=400))
    beta = 1.0 + b
    loss = family.beta_loss(support(family)[:60], eta, beta)
    width = 1.0 / (beta - 1.0)
    assert loss.min() >= -1e-15 * width
    assert loss.max() <= (1.0 + 1e-15) * width


@every_continuous
def test_scale_below_the_floor_is_read_as_the_floor(family: LocationScale) -> None:
    y, eta, _ = batch(family)
    floor = np.array(family.scale_floor)
    np.testing.assert_array_equal(
        family.beta_loss(y, eta, 1.5, 0.01 * floor), family.beta_loss(y, eta, 1.5, floor)
    )


# --- count tables --------------------------------------------------------------------------------------

WIDE = np.concatenate([np.linspace(-45.0, 12.0, 3001), np.linspace(12.0, 25.0, 101)])


def test_poisson_power_integral_is_a_bessel_function_at_beta_two() -> None:
    expected = special.i0e(2.0 * np.exp(WIDE))  # sum_k f(k)^2 = exp(-2 mu) I_0(2 mu)
    np.testing.assert_allclose(Poisson().power_integral(WIDE, 2.0), expected, rtol=1e-10)


@pytest.mark.parametrize("beta", [1.001, 1.5, 2.0, 5.0, 21.0])
def test_geometric_power_integral_is_a_geometric_series(beta: float) -> None:
    # At r = 1, f(k) = (1 - q) q^k; both logarithms through expit keep their digits near q = 1.
    log_one_minus_q, log_q = special.log_expit(-WIDE), special.log_expit(WIDE)
    expected = np.exp(beta * log_one_minus_q) / -np.expm1(beta * log_q)
    # Inside the table 1e-10; beyond it, where a power law takes over, still 1e-7.
    inside = power_table(NegativeBinomial(dispersion=1.0), beta).end >= WIDE
    computed = NegativeBinomial(dispersion=1.0).power_integral(WIDE, beta)
    np.testing.assert_allclose(computed[inside], expected[inside], rtol=1e-10)
    np.testing.assert_allclose(computed[~inside], expected[~inside], rtol=1e-7)


@every_count
@pytest.mark.parametrize("beta", [1.2, 2.0, 6.0])
def test_count_power_integral_is_accurate_to_1e_10_in_its_table(family: Family, beta: float) -> None:
    eta = np.random.default_rng(5).uniform(-10.0, 3.0, size=(1, 40))
    counts = np.arange(4000.0)[:, np.newaxis]
    expected = np.exp(beta * reference_log_density(family, counts, eta)).sum(axis=0)
    np.testing.assert_allclose(family.power_integral(eta, beta)[0], expected, rtol=1e-10)


def test_poisson_power_integral_has_its_normal_limit() -> None:
    eta, beta = np.array([12.0, 16.0, 30.0]), 2.7
    mean = np.exp(eta)
    limit = (2.0 * math.pi * mean) ** (-0.5 * (beta - 1.0)) / math.sqrt(beta)
    first_order = 1.0 + (beta**2 - 1.0) / (24.0 * beta * mean)
    np.testing.assert_allclose(Poisson().power_integral(eta, beta), limit * first_order, rtol=2e-10)


@every_count
def test_power_table_is_twice_differentiable_across_its_end(family: Family) -> None:
    table = power_table(family, 1.8)  # type: ignore[arg-type]
    below, above = np.array([table.end - 1e-9]), np.array([table.end + 1e-9])
    np.testing.assert_allclose(table(below), table(above), rtol=1e-8)
    for left, right in zip(table.derivatives(below), table.derivatives(above), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-7)


def test_table_is_built_once_for_each_family_and_beta() -> None:
    assert power_table(Poisson(), 1.8) is power_table(Poisson(), 1.8)


# --- contrasts, sampling, responses --------------------------------------------------------------------


@pytest.mark.parametrize("num_classes", [2, 3, 6, 40])
def test_contrasts_are_orthonormal_and_sum_to_zero(num_classes: int) -> None:
    contrasts = Categorical(num_classes=num_classes).contrasts
    assert contrasts.shape == (num_classes, num_classes - 1)
    np.testing.assert_allclose(contrasts.T @ contrasts, np.eye(num_classes - 1), atol=1e-12)
    np.testing.assert_allclose(contrasts.sum(axis=0), 0.0, atol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        contrasts[0, 0] = 1.0


@pytest.mark.statistical
@every_family
def test_samples_follow_the_density(family: Family) -> None:
    """Two frequencies of 40000 draws; at 4.9 standard errors each raises a false alarm once in a million."""
    draws, rng = 40_000, np.random.default_rng(11)
    if isinstance(family, LocationScale):
        scale = family.scale_floor + 0.7
        y = family.sample(np.full((1, draws), 0.4), rng, np.array(scale))
        quartile = float(frozen(family, 0.0, scale).ppf(0.75))
        frequencies = [(0.5, y < 0.4), (0.5, np.abs(y - 0.4) < quartile)]
    else:
        leading = (family.num_predictors,) if isinstance(family, Categorical) else ()
        eta = np.full((*leading, 1, draws), 0.4)
        y = family.sample(eta, rng)
        probability = np.exp(reference_log_density(family, support(family)[:2], eta[..., :1])).ravel()
        frequencies = [(float(probability[k]), y == k) for k in (0, 1)]
    assert y.shape == (1, draws)
    family.check_response(y)
    for expected, event in frequencies:
        error = 4.9 * math.sqrt(expected * (1.0 - expected) / draws)
        assert abs(float(event.mean()) - expected) < error


@pytest.mark.statistical
@every_count
def test_sampled_counts_have_the_right_mean_and_variance(family: Family) -> None:
    """A mean at 4.9 standard errors: one false alarm in a million. The variance is compared at 10%."""
    draws = 40_000
    mean = math.exp(1.1)
    variance = mean + (mean**2 / family.dispersion if isinstance(family, NegativeBinomial) else 0.0)
    y = family.sample(np.full((draws, 1), 1.1), np.random.default_rng(12))
    assert abs(float(y.mean()) - mean) < 4.9 * math.sqrt(variance / draws)
    assert float(y.var()) == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize(
    ("family", "bad"),
    [
        (Bernoulli(), 2.0),
        (Bernoulli(), math.nan),
        (Categorical(num_classes=3), 3.0),
        (Categorical(num_classes=3), 0.5),
        (Poisson(), -7.0),
        (Poisson(), 7.25),
        (Poisson(), math.nan),
        (NegativeBinomial(dispersion=2.0), math.inf),
        (Gaussian(), math.nan),
        (StudentT(), math.inf),
        (Laplace(), -math.inf),
    ],
    ids=repr,
)
def test_response_outside_the_support_is_refused_without_quoting_it(family: Family, bad: float) -> None:
    good = np.array([[0.0], [1.0]])
    family.check_response(good)
    with pytest.raises(InvalidInput, match="Expected a response of") as caught:
        family.check_response(np.append(good, [[bad]], axis=0))
    assert str(bad) not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Categorical(num_classes=1), "num_classes to be a whole number >= 2"),
        (lambda: NegativeBinomial(dispersion=0.0), "dispersion > 0"),
        (lambda: Gaussian(scale_floor=0.0), "scale_floor > 0"),
        (lambda: StudentT(df=-1.0), "df > 0"),
        (lambda: StudentT(scale_floor=-1.0), "scale_floor > 0"),
        (lambda: Laplace(scale_floor=math.inf), "scale_floor > 0"),
    ],
)
def test_impossible_family_parameter_is_refused(build: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build()


@every_continuous
def test_missing_scale_is_refused(family: Family) -> None:
    with pytest.raises(InvalidInput, match="Expected a scale >= scale_floor"):
        family.beta_loss(np.zeros((1, 1)), np.zeros((1, 1)), 1.5)


@every_family
def test_families_are_values(family: Family) -> None:
    twin = type(family)(**vars(family))
    assert twin == family
    assert hash(twin) == hash(family)


@pytest.mark.parametrize("exponent", [0.05, 0.25, 0.5, 1.0, 1.3, 1.5, 2.0, 3.5, 4.0, 7.0, 20.0])
def test_power_agrees_with_numpy(exponent: float) -> None:
    base = np.append(np.random.default_rng(0).random(50), [0.0, 1.0])
    before = base.copy()
    np.testing.assert_allclose(power(base, exponent), before**exponent, rtol=1e-14)
    np.testing.assert_array_equal(base, before)


def test_public_names_are_sorted_and_complete() -> None:
    constants = [name for name in families.__all__ if name.isupper()]
    assert families.__all__ == sorted(constants) + sorted(set(families.__all__) - set(constants))
    exported = {name for name, value in vars(families).items() if isinstance(value, type)}
    assert exported <= set(families.__all__) <= set(vars(families))
