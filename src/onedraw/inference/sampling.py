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
>>> round(float(point.rows.moments[:, 1, 1].mean()), 2), round(float(np.exp(point.log_count).mean()), 2)
(0.33, 0.9)
"""

from __future__ import annotations

import numpy as np

from onedraw.families.categorical import contrast_basis
from onedraw.inference.classes import ClassWeight
from onedraw.inference.hmc import Chains, Schedule, sample
from onedraw.inference.moments import MomentSpace
from onedraw.inference.noisy import CurvatureDensity, NoisyCurvature
from onedraw.inference.space import RowSpace
from onedraw.inference.weight import Weight
from onedraw.types import Array

CHAINS = 8
LEAST_EIGENVALUE = (0.01, 0.5)
"""Of the correlations where chains start, between which the size of the noise decides."""
LEAST_SHARE = 0.3
"""Of a category where chains start, relative to equally common ones."""
SCHEDULE = Schedule()
FINEST = 0.01
"""The smallest noise that is taken at its word, relative to the smallest diagonal entry: rows are not normal
to more than a per cent anyway."""


def sample_moments(
    released: NoisyCurvature,
    space: RowSpace,
    weight: Weight | ClassWeight,
    theta: Array,
    count: Array,
    rng: np.random.Generator,
) -> Chains:
    """Chains for releases (R, ...) with parameters ``theta`` (R, p) and first counts (R,)."""
    noisy = _floored(released)

    def each(values: Array) -> Array:
        return np.repeat(values, CHAINS, axis=0)

    density = CurvatureDensity(
        space=space,
        weight=weight,
        theta=each(theta),
        count=each(count),
        noisy=NoisyCurvature(
            matrix=each(noisy.matrix),
            diagonal_sd=each(noisy.diagonal_sd),
            offdiagonal_sd=each(noisy.offdiagonal_sd),
            misfit=None if noisy.misfit is None else each(noisy.misfit),
        ),
    )
    summed, spread = _summed(noisy.matrix, space.dim)
    start, precision = _start(space, summed, spread * noisy.diagonal_sd, spread * noisy.offdiagonal_sd, count)
    noise = rng.standard_normal((len(noisy.matrix), CHAINS, space.size))
    places = start[:, None, :] + 0.5 * noise / np.sqrt(precision)[:, None, :]
    return sample(density, places, 1.0 / precision, SCHEDULE, rng)


def _floored(released: NoisyCurvature) -> NoisyCurvature:
    smallest = np.diagonal(released.matrix, axis1=1, axis2=2).min(1)
    finest = FINEST * np.maximum(smallest, released.diagonal_sd)
    return NoisyCurvature(
        matrix=released.matrix,
        diagonal_sd=np.maximum(released.diagonal_sd, finest),
        offdiagonal_sd=np.maximum(released.offdiagonal_sd, finest),
        misfit=released.misfit,
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
    unit = np.maximum(matrix[:, 0, 0], 0.02 * count)
    place, effects, rarest = plain.dim, [], []
    for column in space.categories:
        k, off = column.levels - 1, np.array(column.off)
        share = (matrix[:, 0, place : place + k] / unit[:, None] - off) / (np.array(column.on) - off)
        share = np.maximum(np.column_stack([1.0 - share.sum(1), share]), LEAST_SHARE / column.levels)
        share /= share.sum(1, keepdims=True)
        effects.append(np.log(share) @ contrast_basis(column.levels))
        rarest.append(np.repeat(share.min(1)[:, None], k, axis=1))
        place += k
    pairs = np.zeros((len(matrix), space.cells.pairs.shape[1]))
    told = unit[:, None] * np.concatenate(rarest, axis=1) / offdiagonal_sd[:, None]
    shifts = np.repeat(told, plain.scales, axis=1)
    known = np.concatenate([told, pairs + told.min(1, keepdims=True), shifts], axis=1)
    return (
        np.concatenate([start, *effects, pairs, np.zeros_like(shifts)], axis=1),
        np.concatenate([precision, 1.0 / space.spreads**2 + known**2], axis=1),
    )


def _start_of_moments(
    space: MomentSpace, matrix: Array, diagonal_sd: Array, offdiagonal_sd: Array, count: Array
) -> tuple[Array, Array]:
    """Chains start at the correlations of the released matrix. A chain that starts at none, where many records
    show strong ones, overshoots to singular correlations and is still there when the warm-up ends.
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
