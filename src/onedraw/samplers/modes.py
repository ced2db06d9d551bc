# SPDX-License-Identifier: Apache-2.0
"""Local maxima of a posterior, reached by Newton steps from fixed starts, the prior and fits to records.

The beta-divergence loss is not convex, so there may be several. A mode that is missed costs acceptance once
a proposal meets it, for then everything is redrawn; that none was missed unseen is what the evidence
``searched`` rests on. Starts (``onedraw.samplers.search``) run on a small subsample of the records, and what
they reach is polished on larger and larger ones, so that few passes see all the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onedraw.posterior import Posterior
from onedraw.private import Withheld
from onedraw.samplers.search import Explorer, look_size
from onedraw.tables.base import Block
from onedraw.types import Array

SUBSAMPLES = (16_384, 262_144)
FEWEST_SKETCHED, SKETCHED_PER_PARAMETER = 1024, 20
NUM_STARTS = 3
NUM_SCOUTS = 48
NEAR = 12.0  # squared standard deviations per parameter within which a scout belongs to a known mode
MAX_MODES = 12
MAX_VAIN = 2
MAX_ROUNDS = 6
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

    @property
    def log_mass(self) -> float:
        """Log mass of the Gaussian approximation, up to a constant."""
        return self.log_density - 0.5 * float(np.linalg.slogdet(self.precision)[1])


def find_modes(posterior: Posterior, rng: np.random.Generator) -> list[Mode]:
    """The distinct modes worth an envelope component, heaviest first."""
    return modes_near(posterior, sampled_modes(posterior, rng))


def sampled_modes(posterior: Posterior, rng: np.random.Generator) -> Array:
    """Where the modes of subsamples are (k, p): of larger and larger ones, the largest a look."""
    look = _look(posterior, rng)
    points = np.stack([mode.location for mode in _explore(look, rng)])
    for size in SUBSAMPLES:
        if posterior.num_records >= 8 * size > 8 * look.num_records:  # a smaller step up costs as much
            # A subsample's heights are too noisy to drop a low mode by.
            points = np.stack([mode.location for mode in _climb_all(posterior.subsample(size, rng), points)])
    return points


def modes_near(posterior: Posterior, points: Array) -> list[Mode]:
    """The modes of all records uphill of the points, heaviest first."""
    modes = sorted(_climb_all(posterior, points), key=lambda mode: -mode.log_mass)
    # By mass and by height: a broad peak can lie far below a narrow one and outweigh it.
    height = max(mode.log_density for mode in modes) - NEGLIGIBLE_NATS
    mass = modes[0].log_mass - NEGLIGIBLE_NATS
    modes = [mode for mode in modes if mode.log_density > height or mode.log_mass > mass]
    return [_centred(posterior, mode) for mode in modes]


def _look(posterior: Posterior, rng: np.random.Generator) -> Posterior:
    """The posterior of a random few thousand records, in memory."""
    look = posterior.subsample(look_size(posterior), rng)
    if isinstance(look.source, Block):
        return look
    block = look.source.look(rng)
    share = len(block) / max(1, look.num_records)
    return replace(
        look,
        features=block.features,
        response=block.response,
        table=None,
        weight=look.weight / max(share, 1e-300),
        passes=[0.0],
    )


def settle(posterior: Posterior, start: Array) -> Mode:
    """The mode uphill of ``start``, placed as ``find_modes`` places them."""
    mode = climb(posterior, start, known=[])
    assert mode is not None  # no mode is known that the ascent could run into
    return _centred(posterior, mode)


def _centred(posterior: Posterior, mode: Mode) -> Mode:
    """The mode, or the centre of its mass where the two lie apart."""
    return recentre(posterior, mode) if is_skewed(posterior) else mode


def is_skewed(posterior: Posterior) -> bool:
    """Whether the mean may lie far from the mode."""
    # Squared and in posterior standard deviations, the distance is of this order.
    return posterior.dim**3 / max(1.0, posterior.weight * posterior.num_records) > 0.05


def _climb_all(posterior: Posterior, points: Array, sketch: Posterior | None = None) -> list[Mode]:
    """The distinct modes reached from the points, in their order; from far off by way of a ``sketch``."""
    modes: list[Mode] = []
    for start in points:
        mode = climb(posterior, _sketched(posterior, sketch, start), known=modes)
        if mode is not None:
            modes.append(mode)
    return modes


def _sketched(posterior: Posterior, sketch: Posterior | None, start: Array) -> Array:
    """Where to climb from: the start, or the mode of fewer records to which it leads."""
    if sketch is None or sketch is posterior:
        return start
    mode = climb(sketch, start, known=[])
    assert mode is not None  # no mode is known that the ascent could run into
    return mode.location


def _explore(look: Posterior, rng: np.random.Generator) -> list[Mode]:
    """Modes of a look at some records: from fixed starts, from draws of the prior, from fits to records.

    The first two lie far from any mode, and the dozens of steps from there are made on a sketch of the look.
    """
    sketch = look.subsample(max(FEWEST_SKETCHED, SKETCHED_PER_PARAMETER * look.dim), rng)
    modes = _climb_all(look, _starts(look), sketch)
    modes = _visit(look, modes, look.prior.sample(rng, NUM_SCOUTS, look.dim), MAX_VAIN, sketch)
    if not look.num_records:
        return modes
    explorer, known = Explorer.of(look), 0
    counts = explorer.random_subsets(rng)
    for _ in range(MAX_ROUNDS):
        if len(counts):
            modes = _visit(look, modes, explorer.anneal(counts), len(counts))
        if len(modes) == known:
            break
        peaks = np.stack([mode.location for mode in modes])
        counts, known = explorer.unexplained(peaks, len(modes) - known, rng), len(modes)
    return modes


def _visit(
    look: Posterior, modes: list[Mode], scouts: Array, patience: int, sketch: Posterior | None = None
) -> list[Mode]:
    """The modes, and others to which scouts far from them lead, best first, until ``patience`` climbs in a
    row lead to none.
    """
    modes, values, vain = list(modes), look.log_density(scouts), 0
    seen = 0
    while vain < patience and len(modes) < MAX_MODES:
        for mode in modes[seen:]:
            gaps = (scouts - mode.location) @ mode.precision
            squared = (gaps * (scouts - mode.location)).sum(axis=1)
            # A point that is higher than this mode's Gaussian approximation lies on a peak inside it.
            near = (squared < NEAR * look.dim) & (values < mode.log_density - 0.25 * squared + 1.0)
            values = np.where(near, -np.inf, values)
        seen = len(modes)
        best = int(np.argmax(values))
        if not np.isfinite(values[best]):
            break
        found = climb(look, _sketched(look, sketch, scouts[best]), known=modes)
        values[best] = -np.inf
        vain = vain + 1 if found is None else 0
        if found is not None:
            modes.append(found)
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
