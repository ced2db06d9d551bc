# SPDX-License-Identifier: Apache-2.0
"""Draws of the rows' law from a released matrix: chains about the mode, in its whitened coordinates.

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

from dataclasses import dataclass, replace

import numpy as np

from onedraw.families.categorical import contrast_basis
from onedraw.inference.classes import ClassWeight
from onedraw.inference.hmc import Chains, Schedule, sample
from onedraw.inference.moments import MomentSpace, lower_pairs
from onedraw.inference.noisy import CurvatureDensity, NoisyCurvature
from onedraw.inference.space import RowSpace
from onedraw.inference.weight import Weight
from onedraw.inference.whitening import whitened
from onedraw.types import Array

CHAINS = 8
LEAST_EIGENVALUE = (0.01, 0.5)
"""Of the correlations where the search for a mode starts, between which the size of the noise decides."""
LEAST_UNIT, LEAST_VARIANCE, LARGEST_VARIANCE, LARGEST_MEAN = 0.02, 0.001, 1.5, 1.2
"""What a matrix is taken to show at the least and most: of records their weight, of a column its moments."""
LEAST_SHARE = 0.3
"""Of a category where the search for a mode starts, relative to equally common ones."""
SCHEDULE = Schedule()
FINEST = 0.01
"""The smallest noise that is taken at its word, relative to the smallest variance of a column, times the
share of the rarest category: rows are not normal to more than a per cent anyway."""


def sample_moments(
    released: NoisyCurvature,
    space: RowSpace,
    weight: Weight | ClassWeight,
    theta: Array,
    count: Array,
    rng: np.random.Generator,
) -> Chains:
    """Chains for releases (R, ...) with parameters ``theta`` (R, p) and first counts (R,)."""
    noisy = _floored(released, space, count)
    releases = CurvatureDensity(space=space, weight=weight, theta=theta, count=count, noisy=noisy)
    density = _of_chains(releases)
    summed, spread = _summed(noisy.of_rows, space.dim)
    mode = _start(space, summed, spread * noisy.diagonal_sd, spread * noisy.offdiagonal_sd, count)
    prior, root = _prior_precision(space, mode), np.empty((len(mode), space.size, space.size))
    for r in range(len(mode)):
        mode[r], root[r] = whitened(releases, r, mode[r], prior[r])
    turn = root.transpose(0, 2, 1)

    def free(white: Array) -> Array:
        return mode[:, None] + white.reshape(len(mode), -1, space.size) @ turn

    def of_white(white: Array) -> tuple[Array, Array]:
        value, gradient = density(free(white).reshape(white.shape))
        return value, (gradient.reshape(len(mode), -1, space.size) @ root).reshape(white.shape)

    noise = 0.5 * rng.standard_normal((len(mode), CHAINS, space.size))
    chains = sample(of_white, noise, np.ones((len(mode), space.size)), SCHEDULE, rng)
    return replace(chains, draws=free(chains.draws).reshape(chains.draws.shape))


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


def _floored(released: NoisyCurvature, space: RowSpace, count: Array) -> NoisyCurvature:
    matrix, spread = _summed(released.of_rows, space.dim)
    seen = _Seen.of(space.plain, matrix, spread * released.diagonal_sd, count)
    finest = FINEST * seen.unit / spread**2 * seen.variance.min(1, initial=1.0)
    if released.frame is None:  # else a diagonal entry is that of a category alone
        for share in _shares(space, matrix):
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


def _start(space: RowSpace, matrix: Array, diagonal_sd: Array, offdiagonal_sd: Array, count: Array) -> Array:
    """Where the search for the mode starts (R, size).

    Plain columns start by themselves; categories start at the shares that the matrix shows beside the
    intercept, without interactions and shifts.
    """
    plain = space.plain
    inner = matrix[:, : plain.dim, : plain.dim]
    start = _start_of_moments(plain, inner, diagonal_sd, offdiagonal_sd, count)
    effects = [np.log(share) @ contrast_basis(share.shape[1]) for share in _shares(space, matrix)]
    known = np.concatenate([start, *effects], axis=1)
    return np.pad(known, ((0, 0), (0, space.size - known.shape[1])))


def _prior_precision(space: RowSpace, start: Array) -> Array:
    """Rough precisions (R, size) of the prior near ``start``."""
    plain = space.plain
    out = np.ones(start.shape)
    out[:, : plain.pairs] = 2.0 * plain.columns / (1.0 + start[:, : plain.pairs] ** 2)
    out[:, plain.scales] = np.exp(start[:, plain.scales])
    out[:, plain.count] = 1.0 / plain.count_sd**2
    out[:, plain.size :] = space.precision
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


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What matrices (R) show of the plain columns, as far as noise does not hide it."""

    unit: Array  # (R,), records times their mean weight
    mean: Array  # (R, f)
    variance: Array  # (R, f)
    covariance: Array  # (R, f, f), as it is

    @classmethod
    def of(cls, space: MomentSpace, matrix: Array, noise: Array, count: Array) -> _Seen:
        """``noise`` (R,) is the standard deviation of the matrix's entries."""
        features = slice(int(space.intercept), space.dim)
        size = np.diagonal(matrix, axis1=1, axis2=2)
        unit = np.maximum(size[:, 0] if space.intercept else size.mean(1), LEAST_UNIT * count)
        inner, relative = matrix[:, features, features] / unit[:, None, None], noise / unit
        mean = np.zeros(inner.shape[:2])
        if space.intercept:
            mean = np.clip(matrix[:, 0, features] / unit[:, None], -LARGEST_MEAN, LARGEST_MEAN)
        covariance = inner - mean[:, :, None] * mean[:, None, :]
        hidden = relative[:, None] * np.sqrt(1.0 + 4.0 * mean**2)  # the noise of the variance
        least = np.clip(0.5 * hidden, LEAST_VARIANCE, LARGEST_VARIANCE)
        variance = np.clip(np.diagonal(covariance, axis1=1, axis2=2), least, LARGEST_VARIANCE)
        return cls(unit=unit, mean=mean, variance=variance, covariance=covariance)


def _start_of_moments(
    space: MomentSpace, matrix: Array, diagonal_sd: Array, offdiagonal_sd: Array, count: Array
) -> Array:
    """The means, variances and correlations of the released matrix."""
    seen = _Seen.of(space, matrix, diagonal_sd, count)
    start = np.zeros((len(matrix), space.size))
    start[:, space.scales] = np.log(seen.variance)
    if space.intercept:
        start[:, space.means] = seen.mean
    if space.columns > 1:
        deviation, (rows, columns) = np.sqrt(seen.variance), lower_pairs(space.columns)
        size = deviation[:, :, None] * deviation[:, None, :]
        told = np.median(size[:, rows, columns], axis=1) * seen.unit / offdiagonal_sd
        correlations = _bounded(seen.covariance / size, 2.0 * np.sqrt(space.columns) / told)
        start[:, : space.pairs], start[:, -1] = space.of_correlations(correlations)
    return start


def _bounded(matrix: Array, noise: Array) -> Array:
    """Correlations (R, p, p) near the given ones, with no eigenvalue far below the noise's (R,)."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, np.clip(noise, *LEAST_EIGENVALUE)[:, None])
    out = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
    size = np.sqrt(np.diagonal(out, axis1=1, axis2=2))
    return np.asarray(out / (size[:, :, None] * size[:, None, :]))
