# SPDX-License-Identifier: Apache-2.0
"""Exact draws by rejection from an envelope of t laws at the modes and the prior.

Guarantee:
    If C >= sup(log posterior - log envelope), an accepted proposal is an exact draw, whatever the envelope:
    accept with probability exp(log ratio - C). C comes from a global search plus a margin; a ratio above C
    raises C and discards everything drawn so far. Evidence is ``searched``: the bound survived N fresh
    proposals, with N public.

Edge cases:
    n = 0 draws from the prior. A log density that is not a number is an error, never a draw. Too low an
    acceptance is an error that names other engines, never an approximate draw.

The adaptation below reads the private data freely: it shapes the envelope, and an exact draw does not depend
on the envelope. What it does change is the running time, which must not be published (docs/pitfalls.md).

>>> import numpy as np
>>> from onedraw.families import Bernoulli
>>> from onedraw.losses import BetaDivergence
>>> from onedraw.posterior import Posterior
>>> from onedraw.priors import Prior
>>> rng = np.random.default_rng(0)
>>> x = rng.normal(size=(500, 1)); y = (rng.random(500) < 0.7).astype(float)
>>> posterior = Posterior(loss=BetaDivergence(Bernoulli()), beta=2.5, weight=0.75, prior=Prior(scale=3.0),
...                       features=x, response=y)
>>> RejectionSampler().sample(posterior, 4, rng).values.shape
(4, 2)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from threadpoolctl import ThreadpoolController

from onedraw.errors import AcceptanceTooLow
from onedraw.posterior import Posterior
from onedraw.samplers.base import Draws, Evidence
from onedraw.samplers.envelope import Component, Mixture, PriorComponent, StudentT
from onedraw.samplers.modes import MAX_MODES, Mode, climb, distance, find_modes, positive_definite
from onedraw.types import Array

PRIOR_SHARE = 0.05
INFLATION = (
    1.02  # of the envelope's covariance: a little wider than the posterior costs less than a little narrower
)
PILOT = 16
HARD_PILOT = 512
ADAPTABLE_DIM = 12  # above this, a weighted covariance from a pilot is worse than the Hessian
GOOD_ACCEPTANCE, POOR_ACCEPTANCE = 0.08, 0.005
MAX_FLANKS, FLANK_SHARE = 12, 0.1
ADAPTATION_ROUNDS = 12
CLIMB_STEPS = 20
MAX_RESTARTS = 60
MAX_REBUILDS = 8
MISSED_NATS = (
    0.5  # a ratio this far above the bound points at a mode or a ridge that the envelope does not have
)
FEWEST_PROPOSALS, MOST_PROPOSALS = 50_000, 5_000_000
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class RejectionSampler:
    """Exact rejection sampling; ``num_proposals`` is the public number N of the evidence.

    ``margin`` (nats) is added to the largest log ratio that the search finds. ``max_cells`` limits rows
    times proposals before the sampler gives up.
    """

    num_proposals: int = 64
    margin: float = 0.05
    max_cells: float = 2e10

    def check(self, posterior: Posterior) -> None:
        """Nothing public rules an attempt out."""

    def sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws:
        """``num_draws`` independent exact draws."""
        # The posterior runs its own threads over blocks too small for BLAS to gain from more.
        with _blas().limit(limits=1, user_api="blas"):
            return self._sample(posterior, num_draws, rng)

    def _sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws:
        modes = find_modes(posterior, rng)
        envelope, bound, acceptance = _build_envelope(posterior, modes, rng)
        bound += self.margin
        accepted: list[Array] = []
        seen = proposals = kept = restarts = 0
        limit = min(max(FEWEST_PROPOSALS, self.max_cells / max(1, posterior.num_records)), MOST_PROPOSALS)
        while kept < num_draws or seen < self.num_proposals:
            if proposals > limit or restarts > MAX_RESTARTS:
                raise _too_low(posterior.dim)
            wanted = max(
                self.num_proposals - seen, math.ceil(1.2 * (num_draws - kept) / max(acceptance, 1e-3))
            )
            thetas = envelope.sample(rng, int(min(max(wanted, 16), 1024)))
            ratio = posterior.log_density(thetas) - envelope.log_density(thetas)
            proposals += len(thetas)
            if ratio.max() > bound:
                # The search had missed this height: everything accepted under the old bound is discarded.
                accepted, seen, kept, restarts = [], 0, 0, restarts + 1
                excess, bound = float(ratio.max()) - bound, float(ratio.max()) + self.margin
                if excess > MISSED_NATS and restarts <= MAX_REBUILDS:
                    missed = thetas[[int(ratio.argmax())]]
                    _gain_mode(posterior, modes, missed[0])
                    envelope, bound, acceptance = _build_envelope(posterior, modes, rng, missed)
                    bound += self.margin
                continue
            seen += len(thetas)
            chosen = thetas[-rng.standard_exponential(len(thetas)) < ratio - bound]
            accepted.append(chosen)
            kept += len(chosen)
            acceptance = max(kept / seen, 0.5 / seen)
        values = np.concatenate(accepted)[:num_draws]
        return Draws(
            values=values,
            evidence=_evidence(self.num_proposals),
            diagnostics={
                "acceptance": kept / seen,
                "proposals": proposals,
                "restarts": restarts,
                "passes": posterior.passes[0],
            },
        )


@functools.cache
def _blas() -> ThreadpoolController:
    """The libraries that NumPy and SciPy have loaded: looking for them takes longer than many a draw."""
    return ThreadpoolController()


def _evidence(num_proposals: int) -> Evidence:
    missed = -math.expm1(math.log(1.0 - CONFIDENCE) / num_proposals)
    return Evidence(
        level="searched",
        statement=(
            "The draw is exact if the envelope bounds the posterior everywhere. The bound comes from a "
            f"search over many starting points and held in {num_proposals} fresh proposals without "
            f"exception, so at {CONFIDENCE:.0%} confidence less than {missed:.2g} of the envelope's mass "
            "lies where it could fail."
        ),
    )


def _too_low(dim: int) -> AcceptanceTooLow:
    others = "engine='grid', evidence='proved', " if dim <= 3 else ""
    return AcceptanceTooLow(
        f"The exact rejection sampler found no envelope that fits this posterior of {dim} parameters, so "
        f"nothing was released. Use {others}fewer features, or public feature_bounds that bring the features "
        "to similar ranges."
    )


def _build_envelope(
    posterior: Posterior, modes: list[Mode], rng: np.random.Generator, missed: Array | None = None
) -> tuple[Mixture, float, float]:
    """An envelope, the largest log ratio found, and a rough acceptance.

    ``missed`` are points to look at too. Where the envelope fits badly because a mode is missing, ``modes``
    gains it.
    """
    extra = np.empty((0, posterior.dim)) if missed is None else missed
    while True:
        mixture = _laplace_mixture(posterior, modes)
        thetas, ratio = _pilot(posterior, mixture, rng, PILOT)
        bound, peak = _climb_ratio(posterior, mixture, modes, thetas, ratio, extra)
        acceptance = _acceptance(ratio, bound)
        if acceptance > (GOOD_ACCEPTANCE if posterior.dim <= ADAPTABLE_DIM else POOR_ACCEPTANCE):
            return mixture, bound, acceptance
        if len(modes) >= MAX_MODES or not _gain_mode(posterior, modes, peak):
            break
    fit = _add_flanks(posterior, modes, mixture, peak, rng, extra)
    if posterior.dim > ADAPTABLE_DIM or fit[2] > GOOD_ACCEPTANCE:
        return fit
    mixture = _adapt(posterior, fit[0], rng)
    thetas, ratio = _pilot(posterior, mixture, rng, HARD_PILOT)
    bound, _ = _climb_ratio(posterior, mixture, modes, thetas, ratio, extra)
    acceptance = _acceptance(ratio, bound)
    return (mixture, bound, acceptance) if acceptance > fit[2] else fit


def _add_flanks(
    posterior: Posterior,
    modes: list[Mode],
    mixture: Mixture,
    peak: Array,
    rng: np.random.Generator,
    extra: Array,
) -> tuple[Mixture, float, float]:
    """Components where the ratio peaks, one after another: the envelope, its bound, a rough acceptance.

    The loss is bounded, so far from the mode the posterior falls no faster than the prior: with few records
    or many parameters a broad flank, many standard deviations out, towers over t laws fitted at the mode.
    """
    base, best, points = mixture, (mixture, math.inf, 0.0), extra
    flanks: list[Component] = []
    for _ in range(MAX_FLANKS):
        _, _, hessian = posterior.local_quadratic(peak)
        precision = positive_definite(hessian, posterior) + np.eye(posterior.dim) / posterior.prior.scale**2
        df = 5.0 + 0.2 * posterior.dim
        flanks.append(StudentT(location=peak, precision=precision / 1.3, df=df))
        points = np.concatenate([points, peak[None, :]])
        weights = np.concatenate([base.weights, np.full(len(flanks), FLANK_SHARE)])
        mixture = Mixture(components=[*base.components, *flanks], weights=weights / weights.sum())
        thetas, ratio = _pilot(posterior, mixture, rng, 4 * PILOT)
        bound, peak = _climb_ratio(posterior, mixture, modes, thetas, ratio, points)
        acceptance = _acceptance(ratio, bound)
        if acceptance > best[2]:
            best = (mixture, bound, acceptance)
        if acceptance > GOOD_ACCEPTANCE:
            break
    return best


def _gain_mode(posterior: Posterior, modes: list[Mode], start: Array) -> bool:
    """Append the mode uphill of ``start`` if it is a new one."""
    found = climb(posterior, start, known=modes)
    # Known modes may stand where their mass is centred, a little off their peaks.
    if found is None or any(distance(found.location, mode) < 4.0 for mode in modes):
        return False
    modes.append(found)
    return True


def _laplace_mixture(posterior: Posterior, modes: list[Mode]) -> Mixture:
    """One t law per mode, weighted by the mass of its Gaussian approximation, and the prior."""
    dim = posterior.dim
    df = 5.0 + 0.2 * dim
    heights = np.array([m.log_density - 0.5 * np.linalg.slogdet(m.precision)[1] for m in modes])
    # Flattened, because a Gaussian approximation can be wrong by much: no mode gets less than its square
    # root would.
    shares = np.exp(0.5 * (heights - heights.max()))
    shares *= (1.0 - PRIOR_SHARE) / shares.sum()
    components: list[Component] = [
        StudentT(location=m.location, precision=m.precision / INFLATION, df=df) for m in modes
    ]
    components.append(PriorComponent(prior=posterior.prior, dim=dim))
    return Mixture(components=components, weights=np.append(shares, PRIOR_SHARE))


def _pilot(posterior: Posterior, mixture: Mixture, rng: np.random.Generator, num: int) -> tuple[Array, Array]:
    thetas = mixture.sample(rng, num)
    return thetas, posterior.log_density(thetas) - mixture.log_density(thetas)


def _acceptance(ratio: Array, bound: float) -> float:
    return float(np.exp(ratio - bound).mean())


def _climb_ratio(
    posterior: Posterior, mixture: Mixture, modes: list[Mode], thetas: Array, ratio: Array, extra: Array
) -> tuple[float, Array]:
    """The largest log ratio reached by ascent from modes, best pilot points and ``extra`` ones, and where."""
    best = thetas[np.argsort(ratio)[-3:]]
    points = np.concatenate([np.stack([m.location for m in modes]), best, extra])
    shape = np.linalg.inv(modes[0].precision)
    value, gradient = _ratio_and_gradient(posterior, mixture, points)
    highest = max(float(ratio.max()), float(value.max()))
    length = np.full((len(points), 1), 0.5)
    stalls = 0
    for _ in range(CLIMB_STEPS):
        before = highest
        tried = points + length * gradient @ shape
        new_value, new_gradient = _ratio_and_gradient(posterior, mixture, tried)
        better = (new_value > value)[:, None]
        points = np.where(better, tried, points)
        gradient = np.where(better, new_gradient, gradient)
        value = np.maximum(value, new_value)
        length = np.where(better, 1.6 * length, 0.3 * length)
        highest = max(highest, float(value.max()))
        stalls = 0 if highest > before + 0.01 else stalls + 1
        if stalls == 3:
            break
    # Where the pilot's best beats every ascent, the ascents began there, so the best of them is no lower.
    return highest, points[int(value.argmax())]


def _ratio_and_gradient(posterior: Posterior, mixture: Mixture, thetas: Array) -> tuple[Array, Array]:
    value, gradient = posterior.log_density_and_gradient(thetas)
    return value - mixture.log_density(thetas), gradient - mixture.gradient(thetas)


def _adapt(posterior: Posterior, mixture: Mixture, rng: np.random.Generator) -> Mixture:
    """Refit t components to importance-weighted pilots until the envelope fits, keeping what it started from.

    Weights are tempered so that each round moves only as far as its sample can support.
    """
    start, best, best_fit = mixture, mixture, -math.inf
    for _ in range(ADAPTATION_ROUNDS):
        thetas, ratio = _pilot(posterior, mixture, rng, HARD_PILOT)
        log_fit = -float(np.max(ratio)) + float(np.logaddexp.reduce(ratio)) - math.log(len(ratio))
        if log_fit > best_fit:
            best, best_fit = mixture, log_fit
        if log_fit > math.log(2 * GOOD_ACCEPTANCE):
            break
        weights = _tempered(ratio, target=0.1 * len(ratio))
        mixture = _refit(posterior, start, thetas, weights, rng)
    return best


def _tempered(ratio: Array, target: float) -> Array:
    """Normalised weights exp(t * ratio), with the largest t <= 1 that keeps ``target`` effective points."""
    low, high = 0.0, 1.0
    finite = np.where(np.isfinite(ratio), ratio, -1e300)
    for step in range(40):
        t = 1.0 if step == 0 else 0.5 * (low + high)
        weights = np.exp(t * (finite - finite.max()))
        weights /= weights.sum()
        if 1.0 / np.square(weights).sum() >= target:
            low = t
            if t == 1.0:
                break
        else:
            high = t
    return np.asarray(weights)


def _split(points: Array, weights: Array, rng: np.random.Generator) -> Array:
    """Two clusters to start from, (2, m): around seeds that lie apart, as k-means++ chooses them."""
    first = points[rng.choice(len(points), p=weights)]
    away = np.square(points - first).sum(axis=1)
    chance = weights * away
    second = points[rng.choice(len(points), p=chance / chance.sum())] if chance.sum() > 0.0 else first
    nearer = np.square(points - second).sum(axis=1) < away
    return np.stack([np.where(nearer, 0.9, 0.1), np.where(nearer, 0.1, 0.9)])


def _refit(
    posterior: Posterior, start: Mixture, thetas: Array, weights: Array, rng: np.random.Generator
) -> Mixture:
    """Two weighted clusters (a few rounds of EM) become wide t components."""
    dim = posterior.dim
    floor = 1e-9 * np.average(
        np.square(thetas - np.average(thetas, axis=0, weights=weights)), axis=0, weights=weights
    )
    shares = _split(thetas / np.sqrt(floor + 1e-300), weights, rng)
    components: list[Component] = []
    masses: list[float] = []
    for _ in range(8):
        components, masses, terms = [], [], []
        for share in shares:
            mass = weights * share
            total = float(mass.sum())
            centre = np.average(thetas, axis=0, weights=mass)
            gaps = thetas - centre
            covariance = (gaps * mass[:, None]).T @ gaps / total + np.diag(floor + 1e-300)
            component = StudentT(location=centre, precision=np.linalg.inv(1.3 * covariance), df=4.0)
            components.append(component)
            masses.append(total)
            terms.append(math.log(total + 1e-12) + component.log_density(thetas))
        stacked = np.stack(terms)
        shares = np.exp(stacked - np.logaddexp.reduce(stacked, axis=0)) + 1e-6
        shares /= shares.sum(axis=0)
    kept = [c for c in start.components if not isinstance(c, PriorComponent)]
    mixture_weights = np.array([0.65 * m for m in masses] + [0.2 / len(kept)] * len(kept) + [0.15])
    return Mixture(
        components=[*components, *kept, PriorComponent(prior=posterior.prior, dim=dim)],
        weights=mixture_weights / mixture_weights.sum(),
    )
