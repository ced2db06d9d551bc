# SPDX-License-Identifier: Apache-2.0
"""Envelopes for exact rejection, and the search for the largest ratio of the posterior over them.

An envelope has a t law at each mode and the prior. Where drawing from it would take long, it gains flanks: t
laws that reach out to where the ratio is largest; and, with few parameters, t laws fitted to weighted
proposals. What a better envelope costs is weighed against the passes over the data that it saves.

All of this reads the private data freely: an exact draw does not depend on the envelope, running time does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onedraw.posterior import Posterior
from onedraw.samplers.ascent import all_to_the_top, climb_ratio
from onedraw.samplers.envelope import Component, Mixture, PriorComponent, StudentT
from onedraw.samplers.modes import MAX_MODES, Mode, climb, distance, positive_definite, settle
from onedraw.types import Array

PRIOR_SHARE = 0.05
INFLATION = (
    1.02  # of the envelope's covariance: a little wider than the posterior costs less than a little narrower
)
PILOT, LATER_PILOT = 16, 64
HARD_PILOT = 512
ADAPTABLE_DIM = 12  # above this, a weighted covariance from a pilot is worse than the Hessian
GOOD_ACCEPTANCE, POOR_ACCEPTANCE = 0.08, 0.005
FIT_PASSES, FLANK_FITS, ADAPTATION_PASSES = 256, 6, 8192  # costs, in passes over the data or in fits
MAX_FLANKS, MAX_VAIN_FLANKS, FLANK_SHARE, FLANK_INFLATION = 16, 6, 0.15, 1.1
RECENT_PEAKS, MOST_PEAKS, FRESH_STARTS = 4, 3, 2
SKETCHES = (4096, 16_384)
ADAPTATION_ROUNDS = 12
MAX_ROUNDS, FAR_BELOW = 3, 0.5
"""An envelope is improved again where its bound, in nats, turns out to have been this far below the top."""


class Fit(NamedTuple):
    """An envelope, the largest log ratio found, a rough acceptance, and where the ratio is largest: points
    (m, p) that lie apart, highest first.
    """

    envelope: Mixture
    bound: float
    acceptance: float
    peaks: Array

    @property
    def peak(self) -> Array:
        """Where the ratio is largest."""
        return np.asarray(self.peaks[0])

    def takes_more(self, passes: float, num_draws: float) -> bool:
        """Whether the draws take more passes over the data, and a better envelope would help."""
        return num_draws > passes * self.acceptance and self.acceptance < GOOD_ACCEPTANCE


def fit_envelope(
    posterior: Posterior,
    modes: list[Mode],
    num_draws: int,
    rng: np.random.Generator,
    missed: Array | None = None,
) -> Fit:
    """An envelope as good as ``num_draws`` draws are worth.

    ``missed`` are points to look at too. Where the envelope fits badly because a mode is missing, ``modes``
    gains it.
    """
    extra = np.empty((0, posterior.dim)) if missed is None else missed
    while True:
        fit = judged(posterior, laplace_mixture(posterior, modes), modes, rng, PILOT, extra)
        if fit.acceptance > (GOOD_ACCEPTANCE if posterior.dim <= ADAPTABLE_DIM else POOR_ACCEPTANCE):
            break
        if len(modes) >= MAX_MODES or not gain_mode(posterior, modes, fit.peak):
            break
    settled = None
    for _ in range(MAX_ROUNDS):
        improved = _improved(posterior, modes, fit, num_draws, rng, extra)
        if settled is not None and improved.envelope is fit.envelope:
            break  # nothing better was found, and the top of this one is known
        settled = _settled(posterior, improved, modes, rng)
        if settled.bound - improved.bound < FAR_BELOW:
            break
        # The acceptance was judged by a bound far below a top that only the longer climb came to.
        fit, extra = settled, np.concatenate([extra, settled.peak[None, :]])
    assert settled is not None
    return settled


def _improved(
    posterior: Posterior, modes: list[Mode], fit: Fit, num_draws: int, rng: np.random.Generator, extra: Array
) -> Fit:
    """The fit with flanks, or adapted to weighted proposals, where the draws are worth it."""
    n = max(1, posterior.num_records)
    for size in (*(size for size in SKETCHES if 2 * size <= n), n):
        if fit.takes_more(FIT_PASSES * (1.5 + FLANK_FITS * size / n), num_draws):
            look = posterior.subsample(size, rng)
            fit = _with_flanks(posterior, look, modes, fit, num_draws, rng, extra)
    if fit.takes_more(ADAPTATION_PASSES, num_draws) and posterior.dim <= ADAPTABLE_DIM:
        adapted = judged(posterior, _adapt(posterior, fit.envelope, rng), modes, rng, HARD_PILOT, extra)
        fit = adapted if adapted.acceptance > fit.acceptance else fit
    return fit


def judged(
    posterior: Posterior,
    mixture: Mixture,
    modes: list[Mode],
    rng: np.random.Generator,
    num: int,
    extra: Array,
) -> Fit:
    """How well an envelope fits, by ``num`` proposals and a search that starts from ``extra`` points too."""
    thetas, ratio = _pilot(posterior, mixture, rng, num)
    starts = np.concatenate([np.stack([m.location for m in modes]), thetas[np.argsort(ratio)[-3:]], extra])
    peaks, heights = climb_ratio(posterior, mixture, starts, modes[0], rng)
    bound = max(float(ratio.max()), float(heights[0]))
    return Fit(mixture, bound, float(np.exp(ratio - bound).mean()), peaks)


def tops_of(
    posterior: Posterior, fit: Fit, mode: Mode, rng: np.random.Generator
) -> list[tuple[float, Array]]:
    """The log ratios and places of the tops uphill of the peaks that the search came to.

    With many parameters proposals lie far from the mode, and may be on the slope of another top, farther out,
    than the peaks are: there the best of a few fresh ones are led to the top as well.
    """
    starts = fit.peaks[:MOST_PEAKS]
    if posterior.dim > ADAPTABLE_DIM:
        fresh, ratio = _pilot(posterior, fit.envelope, rng, PILOT)
        starts = np.concatenate([starts, fresh[np.argsort(ratio)[-FRESH_STARTS:]]])
    return all_to_the_top(posterior, fit.envelope, starts, mode, rng)


def _settled(posterior: Posterior, fit: Fit, modes: list[Mode], rng: np.random.Generator) -> Fit:
    """The fit with its bound at the highest of the tops."""
    tops = tops_of(posterior, fit, modes[0], rng)
    bound, peak = max(tops, key=lambda top: top[0])
    if bound <= fit.bound:
        return fit
    peaks = np.concatenate([peak[None, :], fit.peaks])
    return Fit(fit.envelope, bound, fit.acceptance * math.exp(fit.bound - bound), peaks)


def _with_flanks(
    posterior: Posterior,
    look: Posterior,
    modes: list[Mode],
    fit: Fit,
    num_draws: int,
    rng: np.random.Generator,
    extra: Array,
) -> Fit:
    """The envelope with flanks, if that makes it better.

    They may be searched for through a ``look`` at a random few of the records, and are then moved by as much
    as the modes of the few lie off those of all.
    """
    if look is posterior:
        return _find_flanks(posterior, modes, fit, num_draws, rng, extra)[0]
    centres = [settle(look, mode.location) for mode in modes]
    shifts = np.stack([mode.location - centre.location for mode, centre in zip(modes, centres, strict=True)])
    start = np.concatenate([extra, (fit.peak - shifts[_nearest(fit.peak, modes)])[None, :]])
    seen = judged(look, laplace_mixture(look, centres), centres, rng, LATER_PILOT, start)
    share = look.num_records / posterior.num_records
    seen, flanks = _find_flanks(look, centres, seen, num_draws / share, rng, start)
    moved = [replace(f, location=f.location + shifts[_nearest(f.location, centres)]) for f in flanks]
    peaks = np.stack([fit.peak, seen.peak + shifts[_nearest(seen.peak, centres)]])
    mixture = _flanked(fit.envelope, moved)
    flanked = judged(posterior, mixture, modes, rng, LATER_PILOT, np.concatenate([extra, peaks]))
    return flanked if flanked.acceptance > fit.acceptance else fit


def _find_flanks(
    posterior: Posterior,
    modes: list[Mode],
    fit: Fit,
    num_draws: float,
    rng: np.random.Generator,
    extra: Array,
) -> tuple[Fit, list[StudentT]]:
    """The best envelope with flanks, and its flanks, each at the peak that those before it leave.

    The loss is bounded, so far from the mode the posterior falls no faster than the prior: with few records
    or many parameters a broad flank, many standard deviations out, towers over t laws fitted at the mode.
    """
    base, best, chosen, points = fit.envelope, fit, 0, extra
    flanks: list[StudentT] = []
    while best.takes_more(FIT_PASSES, num_draws) and len(flanks) < min(MAX_FLANKS, chosen + MAX_VAIN_FLANKS):
        flanks.append(_flank(posterior, modes[_nearest(fit.peak, modes)], fit.peak))
        points = np.concatenate([points, fit.peak[None, :]])[-RECENT_PEAKS:]
        fit = judged(posterior, _flanked(base, flanks), modes, rng, LATER_PILOT, points)
        if fit.acceptance > best.acceptance:
            best, chosen = fit, len(flanks)
    return best, flanks[:chosen]


def _flank(posterior: Posterior, mode: Mode, peak: Array) -> StudentT:
    """A t law half-way to the peak, as wide as the posterior is there and stretched along the way."""
    _, _, hessian = posterior.local_quadratic(peak)
    narrow = positive_definite(hessian, posterior) + np.eye(posterior.dim) / posterior.prior.scale**2
    narrow /= FLANK_INFLATION
    half = 0.5 * (peak - mode.location)
    pull = narrow @ half
    precision = narrow - np.outer(pull, pull) / (1.0 + half @ pull)  # the inverse of narrow^-1 + half half'
    return StudentT(location=mode.location + half, precision=precision, df=_degrees(posterior.dim))


def _flanked(base: Mixture, flanks: Sequence[Component]) -> Mixture:
    weights = np.concatenate([base.weights, np.full(len(flanks), FLANK_SHARE)])
    return Mixture(components=[*base.components, *flanks], weights=weights / weights.sum())


def _nearest(theta: Array, modes: list[Mode]) -> int:
    return int(np.argmin([distance(theta, mode) for mode in modes]))


def gain_mode(posterior: Posterior, modes: list[Mode], start: Array) -> bool:
    """Append the mode uphill of ``start`` if it is a new one."""
    found = climb(posterior, start, known=modes)
    # Known modes may stand where their mass is centred, a little off their peaks.
    if found is None or any(distance(found.location, mode) < 4.0 for mode in modes):
        return False
    modes.append(found)
    return True


def laplace_mixture(posterior: Posterior, modes: list[Mode]) -> Mixture:
    """One t law per mode, weighted by the mass of its Gaussian approximation, and the prior."""
    dim, df = posterior.dim, _degrees(posterior.dim)
    heights = np.array([m.log_mass for m in modes])
    # Flattened, because a Gaussian approximation can be wrong by much: no mode gets less than its square
    # root would.
    shares = np.exp(0.5 * (heights - heights.max()))
    shares *= (1.0 - PRIOR_SHARE) / shares.sum()
    components: list[Component] = [
        StudentT(location=m.location, precision=m.precision / INFLATION, df=df) for m in modes
    ]
    components.append(PriorComponent(prior=posterior.prior, dim=dim))
    return Mixture(components=components, weights=np.append(shares, PRIOR_SHARE))


def _degrees(dim: int) -> float:
    """Degrees of freedom of t laws: with more parameters, heavy tails waste more proposals."""
    return 5.0 + 0.2 * dim


def _pilot(posterior: Posterior, mixture: Mixture, rng: np.random.Generator, num: int) -> tuple[Array, Array]:
    thetas = mixture.sample(rng, num)
    return thetas, posterior.log_density(thetas) - mixture.log_density(thetas)


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
