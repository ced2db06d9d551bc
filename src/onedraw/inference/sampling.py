# SPDX-License-Identifier: Apache-2.0
"""Draws of the rows' law from a released matrix: where chains start, and how they are run.

>>> import numpy as np
>>> from onedraw.inference.weight import ConstantWeight
>>> space = RowSpace(plain=MomentSpace(dim=2, intercept=True, count_sd=1.0))
>>> noisy = NoisyCurvature(
...     matrix=np.diag([900.0, 300.0])[None], diagonal_sd=np.array([5.0]), offdiagonal_sd=np.array([5.0]))
>>> chains = sample_moments(
...     noisy, space, ConstantWeight(), np.zeros((1, 2)), np.array([1000.0]), np.random.default_rng(0))
>>> point = space.read(chains.draws.reshape(-1, space.size))
>>> bool(abs(point.rows.moments[:, 1, 1].mean() - 300 / 900) < 0.005)
True
>>> round(float(np.exp(point.log_count).mean()), 2)
0.9
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onedraw.families.categorical import contrast_basis
from onedraw.inference.classes import ClassWeight
from onedraw.inference.hmc import Chains, Schedule, sample
from onedraw.inference.moments import MomentSpace
from onedraw.inference.noisy import CurvatureDensity, NoisyCurvature
from onedraw.inference.space import RowSpace
from onedraw.inference.weight import Weight
from onedraw.inference.whitening import whitened
from onedraw.types import Array

CHAINS = 8
LEAST_EIGENVALUE = (0.01, 0.5)
"""Of the correlations where chains start, between which the size of the noise decides."""
LEAST_SHARE = 0.3
"""Of a category where chains start, relative to equally common ones."""
SHARP = 30.0
"""Correlations that are known to one part in so many: chains that start beside them would not find them."""
SCHEDULE = Schedule()
FINEST = 0.01
"""The smallest noise that is taken at its word, relative to the smallest diagonal entry, times the share of
the rarest category: rows are not normal to more than a per cent anyway."""


def sample_moments(
    released: NoisyCurvature,
    space: RowSpace,
    weight: Weight | ClassWeight,
    theta: Array,
    count: Array,
    rng: np.random.Generator,
) -> Chains:
    """Chains for releases (R, ...) with parameters ``theta`` (R, p) and first counts (R,)."""
    noisy = _floored(released, space)
    releases = CurvatureDensity(space=space, weight=weight, theta=theta, count=count, noisy=noisy)
    density = _of_chains(releases)
    summed, spread = _summed(noisy.of_rows, space.dim)
    start, precision = _start(space, summed, spread * noisy.diagonal_sd, spread * noisy.offdiagonal_sd, count)
    noise = 0.5 * rng.standard_normal((len(noisy.matrix), CHAINS, space.size))
    sharp = _sharp(space, precision)
    if not sharp.any():
        places = start[:, None, :] + noise / np.sqrt(precision)[:, None, :]
        return sample(density, places, 1.0 / precision, SCHEDULE, rng)
    mode, root = start.copy(), np.eye(space.size) / np.sqrt(precision)[:, None, :]
    prior = _prior_precision(space, start)
    for r in np.flatnonzero(sharp).tolist():
        mode[r], root[r] = whitened(releases, r, start[r], prior[r])
    each_mode, each_root = np.repeat(mode, CHAINS, axis=0), np.repeat(root, CHAINS, axis=0)

    def white(place: Array) -> tuple[Array, Array]:
        value, gradient = density(each_mode + (each_root @ place[:, :, None])[:, :, 0])
        return value, (gradient[:, None] @ each_root)[:, 0]

    chains = sample(white, noise, np.ones((len(mode), space.size)), SCHEDULE, rng)
    turned = np.einsum("rij,rkcj->rkci", root, chains.draws, optimize=True)
    return replace(chains, draws=mode[:, None, None] + turned)


def _sharp(space: RowSpace, precision: Array) -> Array:
    """Of which releases (R,) the posterior is so sharp, or so uneven, that it takes ``whitening``."""
    if space.categories:
        return np.ones(len(precision), dtype=bool)
    if not space.plain.pairs:
        return np.zeros(len(precision), dtype=bool)
    return np.asarray(np.median(precision[:, : space.plain.pairs], axis=1) > SHARP**2)


def _of_chains(density: CurvatureDensity) -> CurvatureDensity:
    """The density of releases, ``CHAINS`` times each."""
    noisy = density.noisy

    def each(values: Array) -> Array:
        return np.repeat(values, CHAINS, axis=0)

    return replace(
        density,
        theta=each(density.theta),
        count=each(density.count),
        noisy=replace(
            noisy,
            matrix=each(noisy.matrix),
            diagonal_sd=each(noisy.diagonal_sd),
            offdiagonal_sd=each(noisy.offdiagonal_sd),
            misfit=None if noisy.misfit is None else each(noisy.misfit),
        ),
    )


def _floored(released: NoisyCurvature, space: RowSpace) -> NoisyCurvature:
    smallest = np.diagonal(released.matrix, axis1=1, axis2=2).min(1)
    finest = FINEST * np.maximum(smallest, released.diagonal_sd)
    if released.frame is None:  # else a diagonal entry is that of a category alone
        for share in _shares(space, _summed(released.matrix, space.dim)[0]):
            finest = finest * share.min(1)
    return replace(
        released,
        diagonal_sd=np.maximum(released.diagonal_sd, finest),
        offdiagonal_sd=np.maximum(released.offdiagonal_sd, finest),
    )


def _summed(matrix: Array, dim: int) -> tuple[Array, float]:
    """The sum (R, dim, dim) of the diagonal blocks of several predictors, and by how much its noise grows."""
    predictors = matrix.shape[1] // dim
    blocks = matrix.reshape(-1, predictors, dim, predictors, dim)
    return np.einsum("raiaj->rij", blocks), float(np.sqrt(predictors))


def _start(
    space: RowSpace, matrix: Array, diagonal_sd: Array, offdiagonal_sd: Array, count: Array
) -> tuple[Array, Array]:
    """Where chains start, and rough posterior precisions: only the speed of the sampler depends on them.

    Plain columns start by themselves; categories start at the shares that the matrix shows beside the
    intercept, without interactions and shifts.
    """
    plain = space.plain
    inner = matrix[:, : plain.dim, : plain.dim]
    start, precision = _start_of_moments(plain, inner, diagonal_sd, offdiagonal_sd, count)
    if not space.categories:
        return start, precision
    shares = _shares(space, matrix)
    effects = [np.log(share) @ contrast_basis(share.shape[1]) for share in shares]
    none = np.zeros((len(matrix), len(space.spreads) - sum(effect.shape[1] for effect in effects)))
    return (
        np.concatenate([start, *effects, none], axis=1),
        np.concatenate([precision, np.tile(1.0 / space.spreads**2, (len(matrix), 1))], axis=1),
    )


def _prior_precision(space: RowSpace, start: Array) -> Array:
    """Rough precisions (R, size) of the prior near ``start``."""
    plain = space.plain
    out = np.ones(start.shape)
    out[:, : plain.pairs] = 2.0 * plain.dim / (1.0 + start[:, : plain.pairs] ** 2)
    out[:, plain.pairs + plain.scales] = 1.0 / plain.count_sd**2
    out[:, plain.size :] = 1.0 / space.spreads**2
    return out


def _shares(space: RowSpace, matrix: Array) -> list[Array]:
    """Of every column the shares (R, K) that a matrix shows beside its intercept, none of them very small."""
    place, out = space.plain.dim, []
    for column in space.categories:
        k, off = column.levels - 1, np.array(column.off)
        mean = matrix[:, 0, place : place + k] / np.maximum(matrix[:, :1, 0], 1e-300)
        share = (mean - off) / (np.array(column.on) - off)
        share = np.column_stack([1.0 - share.sum(1), share])
        share = np.clip(share, LEAST_SHARE / column.levels, 1.0)
        out.append(share / share.sum(1, keepdims=True))
        place += k
    return out


def _start_of_moments(
    space: MomentSpace, matrix: Array, diagonal_sd: Array, offdiagonal_sd: Array, count: Array
) -> tuple[Array, Array]:
    """Chains start at the correlations of the released matrix.

    A chain that starts at none, where many records show strong ones, overshoots to singular correlations and
    is still there when the warm-up ends.
    """
    p, pairs, scales = space.dim, space.pairs, space.scales
    size = np.diagonal(matrix, axis1=1, axis2=2)
    unit = np.maximum(size[:, 0] if space.intercept else size.mean(1), 0.02 * count)
    relative = np.clip(size / unit[:, None], 0.03, 1.5)
    start, precision = np.zeros((len(matrix), space.size)), np.ones((len(matrix), space.size))
    start[:, pairs : pairs + scales] = np.log(relative[:, p - scales :])
    rows, columns = np.tril_indices(p, -1)
    geometric = np.sqrt(relative[:, rows] * relative[:, columns])
    told = unit[:, None] * geometric / offdiagonal_sd[:, None]
    if p > 1:
        diagonal = np.sqrt(unit[:, None] * relative)
        noise = 2.0 * np.sqrt(p) / np.median(told, axis=1)
        correlations = _bounded(matrix / (diagonal[:, :, None] * diagonal[:, None, :]), noise)
        start[:, :pairs], start[:, -1], radius = space.of_correlations(correlations)
        told = told / radius[:, rows]
    precision[:, :pairs] = 2.0 * p + told**2
    signal = (unit[:, None] * relative / diagonal_sd[:, None]) ** 2
    precision[:, pairs : pairs + scales] = 1.0 + signal[:, p - scales :]
    precision[:, pairs + scales] = 1.0 / space.count_sd**2 + signal.sum(1)
    return start, precision


def _bounded(matrix: Array, noise: Array) -> Array:
    """Correlations (R, p, p) near the given ones, with no eigenvalue far below the noise's (R,)."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, np.clip(noise, *LEAST_EIGENVALUE)[:, None])
    out = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
    size = np.sqrt(np.diagonal(out, axis1=1, axis2=2))
    return np.asarray(out / (size[:, :, None] * size[:, None, :]))
