"""The grid sampler: its draws against exact masses, and the exact masses against the guarantee.

False alarms: two chi-square tests at 5e-5 each. Seeds are fixed.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from onedraw.errors import InvalidInput, SamplingError
from onedraw.families import Bernoulli, Family, Gaussian, Poisson
from onedraw.losses import BetaDivergence
from onedraw.posterior import Posterior
from onedraw.priors import Prior, ScalePrior
from onedraw.privacy.calibration import calibrate_loss
from onedraw.samplers import GridSampler


def _points(axes: list[Any]) -> Any:
    return np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["logistic", "linear"])
def test_draws_have_the_exact_masses(name: str, reference: Any) -> None:
    case = reference.CASES[name]
    posterior, sampler = case.posterior(), GridSampler(points=7, half_width=1.0)
    axes = sampler.axes(posterior.prior, posterior.dim)
    points = _points(axes)
    log_mass = case.log_density(case.natural(points))  # the reference density
    if case.floor is not None:
        log_mass = log_mass + points[:, -1]  # d scale = exp(u) du
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    draws = np.concatenate(
        [sampler.sample(posterior, 20_000, np.random.default_rng(seed)).values for seed in range(5)]
    )
    index = [np.abs(axis[None, :] - draws[:, [i]]).argmin(axis=1) for i, axis in enumerate(axes)]
    counts = np.bincount(np.ravel_multi_index(index, [len(a) for a in axes]), minlength=len(mass))
    assert all(np.isin(draws[:, i], axis).all() for i, axis in enumerate(axes))
    common = mass * len(draws) > 5.0
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(mass[common], mass[~common].sum()) * len(draws)
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 5e-5


def test_every_point_is_enumerated_once(monkeypatch: pytest.MonkeyPatch, reference: Any) -> None:
    seen: list[Any] = []
    evaluate = Posterior.log_density

    def record(self: Posterior, thetas: Any) -> Any:
        seen.append(thetas)
        return evaluate(self, thetas)

    monkeypatch.setattr(Posterior, "log_density", record)
    posterior = reference.CASES["logistic"].posterior()
    sampler = GridSampler(points=23)  # 529 points are not a whole number of chunks
    draws = sampler.sample(posterior, 1, np.random.default_rng(0))
    expected = {tuple(point) for point in _points(sampler.axes(posterior.prior, 2))}
    evaluated = [tuple(point) for chunk in seen for point in chunk]
    assert len(evaluated) == 529
    assert set(evaluated) == expected
    assert (
        str(draws.evidence)
        == "proved: The parameter space is a public grid of 529 points and every one was enumerated."
    )


def test_the_grid_is_public() -> None:
    noise = ScalePrior(floor=0.5, ceiling=3.0)
    axes = GridSampler(points=11).axes(Prior(scale=2.0, noise=noise, box=3.0), 2)
    assert axes[0][0] == -6.0
    assert axes[0][-1] == 6.0
    scales = noise.scale(axes[1])
    assert scales.min() > 0.5
    assert scales.max() <= 3.0
    assert np.isfinite(noise.log_density(axes[1])).all()


def test_the_default_grid_has_about_a_quarter_million_points() -> None:
    for dim in (1, 2, 3):
        assert 1e5 < np.prod([len(axis) for axis in GridSampler().axes(Prior(), dim)], dtype=float) < 3e5


def test_a_grid_that_is_too_large_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 3 parameters, got 4"):
        GridSampler().axes(Prior(), 4)
    message = r"got 300 for each of 3 parameters\. Set OnePosterior\(evidence='searched'\)"
    with pytest.raises(InvalidInput, match=message):
        GridSampler(points=300).axes(Prior(), 3)


def test_a_grid_without_mass_is_an_error(reference: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = reference.CASES["logistic"].posterior()
    monkeypatch.setattr(Posterior, "log_density", lambda self, thetas: np.full(len(thetas), -np.inf))
    with pytest.raises(SamplingError, match="nothing was released"):
        GridSampler(points=5).sample(posterior, 1, np.random.default_rng(0))


# -- the guarantee, by brute force

RECORDS: dict[str, list[tuple[float, float]]] = {
    "bernoulli": list(itertools.product((-1e6, -1.0, 0.0, 3.0, 1e6), (0.0, 1.0))),
    "poisson": list(itertools.product((-50.0, 0.0, 1.0, 50.0), (0.0, 3.0, 1e6))),
    "gaussian": list(itertools.product((-1e6, 0.0, 1.0, 1e6), (-1e8, 0.0, 1.5, 1e8))),
}


def _log_masses(family: Family, records: list[tuple[float, float]], beta: float, weight: float) -> Any:
    noise = ScalePrior(floor=0.1) if isinstance(family, Gaussian) else None
    features, response = np.array([[x] for x, _ in records]).reshape(-1, 1), np.array([y for _, y in records])
    posterior = Posterior(
        loss=BetaDivergence(family),
        beta=beta,
        weight=weight,
        prior=Prior(noise=noise),
        features=features,
        response=response,
    )
    axes = GridSampler(points=9 if noise else 31).axes(posterior.prior, posterior.dim)
    log_mass = posterior.log_density(_points(axes))
    return log_mass - np.logaddexp.reduce(log_mass)


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("family", [Bernoulli(), Poisson(), Gaussian(scale_floor=0.1)], ids=lambda f: f.name)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_no_neighbour_changes_a_log_mass_by_more_than_epsilon(
    family: Family, neighbours: str, epsilon: float
) -> None:
    calibration = calibrate_loss(BetaDivergence(family), epsilon=epsilon, neighbours=neighbours)
    rng = np.random.default_rng(0)
    pool = RECORDS[family.name]
    worst = 0.0
    for size in (0, 1, 3):
        rest = [pool[i] for i in rng.integers(0, len(pool), size=size)]
        masses = [
            _log_masses(family, [*rest, record], calibration.beta, calibration.weight) for record in pool
        ]
        if neighbours == "replace_one":
            worst = max(worst, *(float(np.abs(a - b).max()) for a, b in itertools.combinations(masses, 2)))
        else:
            without = _log_masses(family, rest, calibration.beta, calibration.weight)
            worst = max(worst, *(float(np.abs(a - without).max()) for a in masses))
    assert worst <= epsilon + 1e-9
    assert worst >= 0.3 * epsilon  # the search is not idle


@pytest.mark.parametrize(("neighbours", "factor"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_epsilon_is_tight_on_two_points(neighbours: str, factor: float) -> None:
    # Two parameters under which the response is certain to be 1 and to be 0, prior mass 1e-6 on the first.
    beta = 2.0
    calibration = calibrate_loss(BetaDivergence(Bernoulli()), epsilon=1.0, neighbours=neighbours, beta=beta)
    assert calibration.weight * factor == pytest.approx(1.0)
    prior = np.log([1e-6, 1.0 - 1e-6])

    def log_masses(responses: list[float]) -> Any:
        posterior = Posterior(
            loss=BetaDivergence(Bernoulli()),
            beta=beta,
            weight=calibration.weight,
            prior=Prior(scale=1e6),
            features=np.ones((len(responses), 1)),
            response=np.array(responses),
            fit_intercept=False,
        )
        thetas = np.array([[50.0], [-50.0]])
        value = prior + posterior.log_density(thetas) - posterior.prior.log_density(thetas)
        return value - np.logaddexp.reduce(value)

    other = log_masses([0.0]) if neighbours == "replace_one" else log_masses([])
    worst = float(np.abs(log_masses([1.0]) - other).max())
    assert 0.99 <= worst <= 1.0 + 1e-9
