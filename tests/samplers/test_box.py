"""The proving sampler: its bounds by random search, its draws against quadrature.

False alarms: as in test_exact, at most 2e-4 for the module over seeds; the bounds are exact statements.
Seeds are fixed.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from onedraw.errors import InvalidInput, SamplingError
from onedraw.families import Bernoulli, Categorical, Cell, Family, Gaussian, Laplace, Poisson
from onedraw.families.bernoulli import concavity
from onedraw.losses import BetaDivergence, Gibbs
from onedraw.mechanisms.one_posterior import EVIDENCE
from onedraw.posterior import Posterior
from onedraw.priors import Prior, ScalePrior
from onedraw.samplers import BoxSampler, box

ALPHA = 1e-4
DRAWS = 4000
FAMILIES: list[Family] = [Bernoulli(), Poisson(), Gaussian(scale_floor=0.1)]
BETAS = [1.01, 1.2, 1.5, 2.0, 3.0, 11.0]
ROUNDING = 1e-9

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
every_beta = pytest.mark.parametrize("beta", BETAS)


# -- bounds over a cell


def _random_cells(
    family: Family, rng: np.random.Generator, rows: int = 60, cells: int = 60
) -> tuple[Any, Cell, Any, Any]:
    """Responses (rows, 1), cells, and their centres; widths from 1e-4 to 1e2, some far from the response."""
    width = 10.0 ** rng.uniform(-4.0, 2.0, size=(rows, cells))
    width[:, ::3] = 10.0 ** rng.uniform(-2.0, 0.5, size=width[:, ::3].shape)
    centre = rng.normal(size=(rows, cells)) * 10.0 ** rng.uniform(-1.0, 1.0, size=(1, cells))
    if isinstance(family, Bernoulli):
        y = rng.integers(0, 2, size=(rows, 1)).astype(float)
    elif isinstance(family, Poisson):
        y = np.floor(10.0 ** rng.uniform(-0.5, 3.0, size=(rows, 1)))
        near = rng.random((rows, cells)) < 0.5
        centre = np.where(near, np.log(y + 0.5) + 0.3 * centre, centre)
    else:
        y = rng.normal(size=(rows, 1))
        log_low = math.log(0.1) + rng.exponential(1.0, size=(1, cells))
        log_half = 10.0 ** rng.uniform(-3.0, 0.3, size=(1, cells))
        near = rng.random((rows, cells)) < 0.5
        centre = np.where(near, y + np.exp(log_low) * rng.normal(size=(rows, cells)), centre)
        low, high = np.exp(log_low), np.exp(log_low + 2.0 * log_half)
        cell = Cell(eta_low=centre - width, eta_high=centre + width, scale_low=low, scale_high=high)
        return y, cell, centre, np.exp(log_low + log_half)
    return y, Cell(eta_low=centre - width, eta_high=centre + width), centre, None


def _inside(cell: Cell, rng: np.random.Generator) -> tuple[Any, Any]:
    """A random point of every cell, corners included."""
    t = np.clip(rng.uniform(-0.2, 1.2, size=cell.eta_low.shape), 0.0, 1.0)
    eta = cell.eta_low + t * (cell.eta_high - cell.eta_low)
    if cell.scale_low is None or cell.scale_high is None:
        return eta, None
    s = np.clip(rng.uniform(-0.2, 1.2, size=cell.scale_low.shape), 0.0, 1.0)
    return eta, cell.scale_low * (cell.scale_high / cell.scale_low) ** s


@every_family
@every_beta
def test_no_loss_inside_a_cell_is_below_its_minimum(family: Family, beta: float) -> None:
    rng = np.random.default_rng(1)
    y, cell, _, _ = _random_cells(family, rng)
    least = family.loss_minimum(y, cell, beta)
    gap = np.full(least.shape, np.inf)
    for _ in range(150):
        eta, scale = _inside(cell, rng)
        gap = np.minimum(gap, family.beta_loss(y, eta, beta, scale) - least)
    assert gap.min() >= -ROUNDING
    if family.has_scale:  # loose by the scale's range, because density and integral are bounded apart
        narrow = np.broadcast_to(np.log(cell.scale_high / cell.scale_low) < 0.01, gap.shape)  # type: ignore[operator]
        gap = gap[narrow & (cell.eta_high - cell.eta_low < 0.1)]
    assert np.quantile(gap, 0.2) < 0.02 * max(1.0, family.log_sup_density)


@every_family
@every_beta
def test_the_second_order_bound_holds_at_every_point(family: Family, beta: float) -> None:
    rng = np.random.default_rng(2)
    y, cell, centre, centre_scale = _random_cells(family, rng)
    a, c = family.loss_concavity(y, cell, beta)
    at = family.beta_loss_derivatives(y, centre, beta, centre_scale, order=1)
    for _ in range(150):
        eta, scale = _inside(cell, rng)
        bound = at.value + at.d_eta * (eta - centre) - 0.5 * a * np.square(eta - centre)
        if scale is not None:
            assert c is not None
            assert at.d_scale is not None
            step = np.log(scale / centre_scale)
            bound = bound + at.d_scale * centre_scale * step - 0.5 * c * np.square(step)
        tolerance = ROUNDING * (1.0 + np.abs(at.d_eta * (eta - centre)))
        assert (family.beta_loss(y, eta, beta, scale) >= bound - tolerance).all()


@every_family
@every_beta
def test_curvature_never_exceeds_the_concavity(family: Family, beta: float) -> None:
    # The Hessian itself, in (eta, log scale), at points of the cell: more severe than the expansion.
    rng = np.random.default_rng(3)
    y, cell, _, _ = _random_cells(family, rng)
    a, c = family.loss_concavity(y, cell, beta)
    for _ in range(40):
        eta, scale = _inside(cell, rng)
        d = family.beta_loss_derivatives(y, eta, beta, scale, order=2)
        assert d.d2_eta is not None
        first = d.d2_eta + a
        assert (first >= -ROUNDING * (1.0 + a)).all()
        if scale is not None:
            assert c is not None
            assert d.d2_scale is not None
            assert d.d_scale is not None
            assert d.d_eta_scale is not None
            second = d.d2_scale * scale**2 + d.d_scale * scale + c
            assert (second >= -ROUNDING * (1.0 + c)).all()
            assert (first * second - np.square(d.d_eta_scale * scale) >= -1e-6 * (1.0 + a * c)).all()


@pytest.mark.parametrize(
    ("beta", "published"),
    [(1.05, 0.0356), (1.2, 0.0896), (1.33, 0.1140), (1.5, 0.1289), (2.0, 0.1202), (3.0, 0.0601)],
)
def test_bernoulli_concavity_is_the_known_constant(beta: float, published: float) -> None:
    assert concavity(beta) == pytest.approx(published, rel=0.01)
    margins = np.linspace(-30.0, 30.0, 20_001)
    second = Bernoulli().beta_loss_derivatives(np.ones(1), margins, beta).d2_eta
    assert second is not None
    assert -second.min() <= concavity(beta) <= -second.min() * 1.01


@pytest.mark.parametrize("beta", [1.05, 2.0, 6.0])
def test_the_poisson_power_sum_falls_with_the_mean(beta: float) -> None:
    eta = np.linspace(-30.0, 30.0, 4001)
    assert (np.diff(Poisson().power_integral(eta, beta)) <= 1e-11).all()
    means = np.array([1e-3, 0.1, 1.0, 2.5, 40.0])
    k = np.arange(400.0)[:, None]
    plain = (stats.poisson.pmf(k, means) ** beta).sum(axis=0)
    np.testing.assert_allclose(Poisson().power_integral(np.log(means), beta), plain, rtol=1e-10)


def test_a_count_of_zero_is_most_probable_under_the_smallest_mean() -> None:
    cell = Cell(eta_low=np.array([[-900.0, -3.0]]), eta_high=np.array([[2.0, 2.0]]))
    least = Poisson().loss_minimum(np.zeros((1, 1)), cell, 2.0)
    best = -np.expm1(-np.exp([-900.0, -3.0]))  # (1 - f)/b with b = 1
    integral = Poisson().power_integral(np.array([2.0]), 2.0)
    np.testing.assert_allclose(least[0], best - (1.0 - integral) / 2.0, atol=1e-12)


# -- the envelope over cells


@pytest.mark.parametrize(
    "name",
    ["logistic", "linear with intercept", "poisson", "columns of 1e-6 and 1e6", "outliers in x, linear",
    "outliers in x, poisson",
     "outliers in y, poisson", "scale on its floor", "linear, ceiling", "two groups, heavy", "huge weight"],
)  # fmt: skip
def test_the_envelope_is_above_the_density_on_every_cell(name: str, reference: Any) -> None:
    case = reference.PROVABLE[name]
    posterior = case.posterior()
    tree = box._Tree(posterior, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    for _ in range(14):
        tree._refine()
        cells = rng.integers(0, len(tree.height), size=500)
        t = np.clip(rng.uniform(-1.3, 1.3, size=(500, tree.dim)), -1.0, 1.0)  # corners and faces too
        offset = t * tree.half[cells]
        natural = tree.origin + (tree.centre[cells] + offset) @ tree.axes.T
        bound = tree.height[cells] + (tree.slope[cells] * offset).sum(axis=1)
        assert (tree._log_density(natural) <= bound).all()
    # The same density as the reference's, up to a constant: so the bound is one of the right function.
    inside = natural[tree._inside(natural)]
    mine, theirs = tree._log_density(inside), _reference_log_density(case, inside)
    assert np.ptp(mine - theirs) < 1e-6 * (1.0 + np.ptp(theirs))


def _reference_log_density(case: Any, natural: Any) -> Any:
    """In (coefficients, log scale), from the reference's (coefficients, scale)."""
    if case.floor is None:
        return case.log_density(natural)
    own = np.column_stack([natural[:, :-1], np.exp(natural[:, -1])])
    return case.log_density(own) + natural[:, -1]


def test_cells_tile_the_public_box(reference: Any) -> None:
    tree = box._Tree(reference.PROVABLE["linear"].posterior(), np.random.default_rng(0))
    for _ in range(12):
        tree._refine()
    points = np.random.default_rng(0).uniform(-1.0, 1.0, size=(500, 2)) * [18.0, 0.5 * math.log(1000.0)]
    points[:, 1] += math.log(0.1) + 0.5 * math.log(1000.0)
    v = (points - tree.origin) @ np.linalg.inv(tree.axes).T
    holds = (np.abs(v[:, None, :] - tree.centre) <= tree.half).all(axis=2).sum(axis=1)
    assert (holds == 1).all()


@pytest.mark.parametrize("slope", [0.0, 3e-9, 1e-6, 0.3, -40.0, 3000.0])
def test_proposals_follow_the_plane_and_its_mass(slope: float, reference: Any) -> None:
    tree = box._Tree(reference.PROVABLE["no records"].posterior(), np.random.default_rng(0))
    tree.centre, tree.half = np.array([[0.2, 0.0]]), np.array([[1.5, 1.0]])
    tree.height, tree.slope = np.array([0.0]), np.array([[slope, 0.0]])
    points, bound = tree._propose(np.random.default_rng(1), 20_000)
    offset = points[:, 0] - 0.2
    np.testing.assert_allclose(bound, slope * offset, atol=1e-9 * (1.0 + abs(slope)))
    s = abs(slope)
    level = (offset * np.sign(slope or 1.0) + 1.5) / 3.0
    if s < 100.0:
        distribution = level * special.exprel(3.0 * s * level) / special.exprel(3.0 * s)
        log_mass = math.log(3.0 * special.exprel(3.0 * s)) - 1.5 * s
    else:
        distribution = np.exp(3.0 * s * (level - 1.0))
        log_mass = 1.5 * s - math.log(s)
    assert stats.kstest(distribution, "uniform").pvalue > ALPHA / 6
    assert tree._log_mass()[0] == pytest.approx(log_mass + math.log(2.0), abs=1e-9)


# -- draws


@pytest.mark.statistical
def test_draws_follow_the_posterior(provable_case: Any, reference: Any) -> None:
    draws = BoxSampler().sample(provable_case.posterior(), DRAWS, np.random.default_rng(11))
    p_values = reference.Oracle(provable_case).p_values(provable_case.natural(draws.values))
    assert min(p_values.values()) > ALPHA / 7 / len(reference.PROVABLE), (p_values, draws.diagnostics)


@pytest.mark.statistical
@pytest.mark.parametrize("edge", [0.05, 0.4])
def test_a_small_box_truncates_the_posterior(edge: float, reference: Any) -> None:
    for name in ("separable", "linear", "poisson"):
        case = replace(reference.PROVABLE[name], box=edge)
        draws = case.natural(BoxSampler().sample(case.posterior(), DRAWS, np.random.default_rng(2)).values)
        location = draws if case.floor is None else draws[:, :-1]
        assert np.abs(location).max() <= edge * case.prior_scale
        p_values = reference.Oracle(case).p_values(draws)
        assert min(p_values.values()) > ALPHA / 7 / 6, (name, p_values)


def test_no_draw_has_a_scale_at_or_below_the_floor(reference: Any) -> None:
    case = reference.PROVABLE["scale on its floor, heavy"]
    draws = BoxSampler().sample(case.posterior(), DRAWS, np.random.default_rng(3))
    assert np.isfinite(draws.values).all()
    assert (case.natural(draws.values)[:, -1] >= case.floor).all()


def test_single_draws_follow_the_posterior_too(reference: Any) -> None:
    case = reference.PROVABLE["two groups, heavy"]
    posterior = case.posterior()
    draws = [BoxSampler().sample(posterior, 1, np.random.default_rng(seed)).values[0] for seed in range(100)]
    p_values = reference.Oracle(case).p_values(case.natural(np.array(draws)))
    assert min(p_values.values()) > ALPHA / 7, p_values


def test_evidence_names_public_facts_only(reference: Any) -> None:
    statements = {
        str(BoxSampler().sample(case.posterior(), 1, np.random.default_rng(0)).evidence)
        for name, case in reference.PROVABLE.items()
        if case.box == 6.0
    }
    assert len(statements) == 1
    assert re.findall(r"\d+", statements.pop()) == ["6"]


# -- refusals


def _posterior(family: Family, *, prior: Prior, d: int = 1, loss: Any = None) -> Posterior:
    return Posterior(
        loss=loss or BetaDivergence(family),
        beta=2.0,
        weight=1.0,
        prior=prior,
        features=np.zeros((2, d)),
        response=np.zeros(2),
    )


BOX = Prior(box=6.0)
NOISE, NO_TOP = ScalePrior(floor=0.1, ceiling=10.0), ScalePrior(floor=0.1)


@pytest.mark.parametrize(
    ("posterior", "message"),
    [
        (_posterior(Categorical(num_classes=3), prior=BOX), "not available for the categorical family"),
        (_posterior(Laplace(), prior=Prior(box=6.0, noise=NOISE)), "not available for the laplace family"),
        (_posterior(Bernoulli(), prior=BOX, d=5), "at most 5 parameters, got 6"),
        (_posterior(Bernoulli(), prior=Prior()), r"set Prior\(box=...\)"),
        (_posterior(Gaussian(), prior=Prior(box=6.0, noise=NO_TOP)), r"ScalePrior\(ceiling=...\)"),
        (_posterior(Gaussian(scale_floor=0.2), prior=Prior(box=6.0, noise=NOISE)), "scale_floor=0.2"),
        (_posterior(Bernoulli(), prior=BOX, loss=Gibbs(Bernoulli())), "beta-divergence loss only"),
    ],
    ids=["categorical", "laplace", "dimension", "no box", "no ceiling", "floors", "gibbs"],
)  # fmt: skip
def test_what_is_not_proved_is_refused(posterior: Posterior, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        BoxSampler().sample(posterior, 1, np.random.default_rng(0))
    named = set(re.findall(r"evidence='(\w+)'", str(caught.value)))
    assert named <= set(EVIDENCE)


def test_families_without_bounds_have_no_default() -> None:
    cell = Cell(eta_low=np.zeros((1, 1)), eta_high=np.ones((1, 1)))
    assert not Laplace().has_cell_bounds
    with pytest.raises(InvalidInput, match="No proved bound is known for the laplace family"):
        Laplace().loss_minimum(np.zeros((1, 1)), cell, 2.0)
    with pytest.raises(InvalidInput, match="No proved bound is known for the laplace family"):
        Laplace().loss_concavity(np.zeros((1, 1)), cell, 2.0)


def test_a_bound_that_fails_stops_the_release(reference: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box._Tree, "_slack", lambda self: -3.0)
    with pytest.raises(SamplingError, match="exceeded in floating point, so nothing was released"):
        BoxSampler().sample(reference.PROVABLE["logistic"].posterior(), DRAWS, np.random.default_rng(0))


@pytest.mark.statistical
def test_an_envelope_that_stays_loose_is_slow_and_exact(
    reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refusal would depend on the data, so there is none. False alarm: 1e-4 over all statistics.
    case = reference.PROVABLE["logistic"]
    _, tight = box._Tree(case.posterior(), np.random.default_rng(0)).draw(500, np.random.default_rng(0))
    monkeypatch.setattr(box, "MAX_CELLS", 64)
    values, loose = box._Tree(case.posterior(), np.random.default_rng(0)).draw(500, np.random.default_rng(0))
    assert loose > 3 * tight
    p_values = reference.Oracle(case).p_values(case.natural(values))
    assert min(p_values.values()) > 1e-4 / len(p_values)
