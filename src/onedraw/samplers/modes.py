# SPDX-License-Identifier: Apache-2.0
"""Local maxima of a posterior, found by Newton steps from fixed starts and from fits to a few records.

The beta-divergence loss is not convex, so there may be several. A mode that is missed costs acceptance once
a proposal meets it, for then everything is redrawn; that none was missed unseen is what the evidence
``searched`` rests on. Starts run on a small subsample of the records, and what they reach is polished on
larger and larger ones, so that few passes see all the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.posterior import Posterior
from onedraw.private import Withheld
from onedraw.types import Array

SUBSAMPLES = (1024, 16_384, 262_144)
NUM_STARTS = 3
NUM_SCOUTS = 96
NEAR = 12.0  # squared standard deviations per parameter within which a scout belongs to a known mode
MAX_MODES = 12
MAX_VAIN = 2
MANY_PARAMETERS = 20  # beyond this, second starts cost more than the modes they might find
STEP_LENGTHS = np.array([1.0, 0.5, 0.2, 0.05, 0.005, 5e-5])
NEARLY_THERE = 0.3  # below this gain one more step ends the ascent, and the curvature at hand will do
NEGLIGIBLE_NATS = 20.0
RECENTRING_STEPS = 4
MAX_STEPS = 60


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Mode(Withheld):
    """A local maximum: where, how high, and the precision matrix (minus the Hessian, made positive
    definite).
    """

    location: Array
    log_density: float
    precision: Array


def find_modes(posterior: Posterior, rng: np.random.Generator) -> list[Mode]:
    """The distinct modes worth an envelope component, highest first.

    Subsamples and scouts are random: what a search overlooks must not be a function of how rows are ordered.
    """
    points = _starts(posterior)
    if posterior.dim > MANY_PARAMETERS:
        points = points[:1]
    else:
        look = posterior.subsample(SUBSAMPLES[0], rng)
        points = np.stack([mode.location for mode in _explore(look, _climb_all(look, points), rng)])
    for size in SUBSAMPLES[1:] if posterior.dim <= MANY_PARAMETERS else SUBSAMPLES:
        if posterior.num_records >= 8 * size:  # a smaller step up is no cheaper than the whole
            # A subsample's heights are too noisy to drop a low mode by.
            points = np.stack([mode.location for mode in _climb_all(posterior.subsample(size, rng), points)])
    modes = sorted(_climb_all(posterior, points), key=lambda mode: -mode.log_density)
    modes = [mode for mode in modes if mode.log_density > modes[0].log_density - NEGLIGIBLE_NATS]
    return [_centred(posterior, mode) for mode in modes]


def settle(posterior: Posterior, start: Array) -> Mode:
    """The mode uphill of ``start``, placed as ``find_modes`` places them."""
    mode = climb(posterior, start, known=[])
    assert mode is not None  # no mode is known that the ascent could run into
    return _centred(posterior, mode)


def _centred(posterior: Posterior, mode: Mode) -> Mode:
    """The mode, or the centre of its mass where the two lie apart."""
    # How far the mean is from the mode, squared and in posterior standard deviations, is of this order.
    skewness = posterior.dim**3 / max(1.0, posterior.weight * posterior.num_records)
    return recentre(posterior, mode) if skewness > 0.05 else mode


def _climb_all(posterior: Posterior, points: Array) -> list[Mode]:
    """The distinct modes reached from the points, in their order."""
    modes: list[Mode] = []
    for start in points:
        mode = climb(posterior, start, known=modes)
        if mode is not None:
            modes.append(mode)
    return modes


def _explore(posterior: Posterior, modes: list[Mode], rng: np.random.Generator) -> list[Mode]:
    """The modes, and others to which the best scouts far from them lead; vain climbs in a row end it."""
    scouts = _scouts(posterior, rng)
    values = posterior.log_density(scouts)
    vain = 0
    while vain < MAX_VAIN and len(modes) < MAX_MODES:
        for mode in modes:
            gaps = (scouts - mode.location) @ mode.precision
            near = (gaps * (scouts - mode.location)).sum(axis=1) < NEAR * posterior.dim
            values = np.where(near, -np.inf, values)
        best = int(np.argmax(values))
        if not np.isfinite(values[best]):
            break
        found = climb(posterior, scouts[best], known=modes)
        values[best] = -np.inf
        vain = vain + 1 if found is None else 0
        modes = modes if found is None else [*modes, found]
    return modes


def climb(posterior: Posterior, start: Array, known: list[Mode]) -> Mode | None:
    """Newton ascent; where a whole step does not climb, shorter ones are tried in one pass over the data.

    None if the ascent runs into a mode that is ``known``.
    """
    apart = max(0.1, _roughness(posterior))
    theta = np.array(start)
    value, gradient, hessian = posterior.local_quadratic(theta)
    for _ in range(MAX_STEPS):
        precision = positive_definite(hessian, posterior)
        step = np.linalg.solve(precision, gradient)
        gain = float(gradient @ step)
        if gain < 1e-2 or any(distance(theta, mode) < apart for mode in known):
            break  # half the gain is the height still missing, in nats
        if gain < NEARLY_THERE:
            last = float(posterior.log_density((theta + step)[None, :])[0])
            if last > value:
                theta, value = theta + step, last
            break
        there = posterior.local_quadratic(theta + step)
        if there[0] > value + 0.25 * gain:  # half the gain if the density is as quadratic as it looks
            theta, (value, gradient, hessian) = theta + step, there
            continue
        candidates = theta + STEP_LENGTHS[:, None] * step
        values = posterior.log_density(candidates)
        best = int(np.argmax(values))
        if not values[best] > value:
            break
        theta = candidates[best]
        value, gradient, hessian = posterior.local_quadratic(theta)
    if any(distance(theta, mode) < apart for mode in known):
        return None
    return Mode(location=theta, log_density=value, precision=positive_definite(hessian, posterior))


def _roughness(posterior: Posterior) -> float:
    """Squared standard deviations within which local maxima are one mode: a density with kinks has many.

    Wherever some records have residual zero, slopes jump, and a search comes to rest near the mode rather
    than on it.
    """
    return 1.0 + 0.25 * posterior.dim if posterior.loss.family.has_kinks else 0.0


def distance(theta: Array, mode: Mode) -> float:
    """Squared distance in standard deviations of the mode's Gaussian approximation."""
    gap = theta - mode.location
    return float(gap @ mode.precision @ gap)


def recentre(posterior: Posterior, mode: Mode) -> Mode:
    """Move from the mode to the centre of the best Gaussian approximation, where that works.

    In 100 dimensions this turns an acceptance of 1e-8 into one of a few per cent: the mode of a skewed
    density lies several standard deviations from its mass.
    """
    close_enough = max(0.1, _roughness(posterior))
    centre, precision, last_gain = mode.location, mode.precision, np.inf
    for _ in range(RECENTRING_STEPS):
        try:
            _, gradient, hessian = posterior.local_quadratic(
                centre, smoothing=np.asarray(np.linalg.inv(precision), dtype=float)
            )
        except np.linalg.LinAlgError:  # units so different that rounding makes the covariance indefinite
            return mode
        new_precision = positive_definite(hessian, posterior)
        step = np.linalg.solve(new_precision, gradient)
        gain = float(gradient @ step)
        if not gain < min(last_gain, posterior.dim + 4.0):
            return mode
        centre, precision, last_gain = centre + step, new_precision, gain
        if gain < close_enough:
            break
    height = float(posterior.log_density(centre[None, :])[0])
    # The smoothed density knows nothing of a truncated prior's edge.
    return Mode(location=centre, log_density=height, precision=precision) if height > -np.inf else mode


def positive_definite(hessian: Array, posterior: Posterior) -> Array:
    """The matrix with its eigenvalues turned positive and kept above a tenth of the prior's precision.

    Works on the matrix scaled to unit diagonal, so that columns of very different units do no harm.
    """
    if (np.diag(hessian) > 0.0).all():
        root = np.sqrt(np.diag(hessian))
        try:
            if np.diag(np.linalg.cholesky(hessian / root[:, None] / root[None, :])).min() > 1e-6:
                return hessian
        except np.linalg.LinAlgError:
            pass
    floor = np.full(len(hessian), 0.1 / posterior.prior.scale**2)
    if posterior.has_scale:
        floor[-1] = 0.01
    diagonal = np.maximum(np.abs(np.diag(hessian)), floor)
    root = np.sqrt(diagonal)
    scaled = hessian / root[:, None] / root[None, :]
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T))
    smallest = float(np.min(floor / diagonal))
    values = np.maximum(np.abs(values), max(smallest, 1e-12))
    return np.asarray((vectors * values) @ vectors.T * root[:, None] * root[None, :])


def _starts(posterior: Posterior) -> Array:
    """Data-independent starting points: the origin and a few fixed prior-sized directions."""
    rng = np.random.default_rng(20231210)
    starts = 0.3 * posterior.prior.scale * rng.standard_normal((NUM_STARTS, posterior.dim))
    starts[0] = 0.0
    if posterior.prior.box is not None:
        edge = 0.9 * posterior.prior.box * posterior.prior.scale
        starts = np.clip(starts, -edge, edge)
    noise = posterior.prior.noise
    if noise is not None:
        sizes = noise.floor * np.array([10.0, 2.0, 50.0])
        ceiling = 0.9 * noise.ceiling + 0.1 * noise.floor if np.isfinite(noise.ceiling) else np.inf
        starts[:, -1] = [noise.coordinate(float(min(size, ceiling))) for size in sizes]
    return starts


def _scouts(posterior: Posterior, rng: np.random.Generator) -> Array:
    """Points to look at: draws from the prior, and fits to as few records as determine one.

    A second group of records that obeys a line of its own has a mode of its own, which is too narrow to be
    met by chance; a fit to records of that group alone lands on it.
    """
    prior, n = posterior.prior, posterior.num_records
    scouts = prior.sample(rng, NUM_SCOUTS, posterior.dim)
    if n and posterior.num_predictors == 1:
        size = posterior.dim - int(posterior.has_scale)
        rows = rng.integers(0, n, size=(NUM_SCOUTS, size))
        y, design = posterior.records(rows.ravel())
        design = design.reshape(NUM_SCOUTS, size, size)
        wanted = np.broadcast_to(posterior.loss.family.rough_predictor(y), (NUM_SCOUTS * size, 1))
        units = np.sqrt(np.square(design).sum(axis=1, keepdims=True)) + 1e-300
        design = design / units
        gram = design.swapaxes(1, 2) @ design + 1e-6 * np.eye(size)
        fits = (
            np.linalg.solve(gram, design.swapaxes(1, 2) @ wanted.reshape(NUM_SCOUTS, size, 1))[:, :, 0]
            / units[:, 0, :]
        )
        edge = prior.scale * (4.0 if prior.box is None else min(4.0, prior.box))
        fits = np.clip(fits, -edge, edge)
        if prior.noise is not None:
            sizes = prior.noise.floor * np.resize([1.2, 2.0, 5.0, 20.0], NUM_SCOUTS)
            sizes = np.minimum(sizes, 0.5 * (prior.noise.floor + prior.noise.ceiling))
            fits = np.column_stack([fits, np.log(sizes - prior.noise.floor)])
        scouts = np.concatenate([scouts, fits])
    return scouts
