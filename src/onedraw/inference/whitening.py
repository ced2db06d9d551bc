# SPDX-License-Identifier: Apache-2.0
"""Coordinates in which the posterior of the rows' law is nearly a standard normal one.

Rare categories are known from a release to a tenth where common ones are known to a thousandth, and what is
known of the first depends on the second; the unique part of the columns trades with all correlations; a mean
is known far better than the variance about it. No scale for each coordinate by itself serves: chains crawl,
or stay where they started. So they run in y, free = mode + root y, with the mode and the inverse curvature
root root' of Gauss and Newton: the information J' P J that the released entries have about the coordinates (J
by reverse mode, P the precisions of the noise), and that of the prior. Only the speed of the sampler depends
on it.

>>> import numpy as np
>>> from onedraw.inference.moments import MomentSpace
>>> from onedraw.inference.noisy import NoisyCurvature
>>> from onedraw.inference.space import RowSpace
>>> from onedraw.inference.weight import ConstantWeight
>>> density = CurvatureDensity(
...     space=RowSpace(plain=MomentSpace(dim=1, intercept=True, count_sd=10.0)), weight=ConstantWeight(),
...     theta=np.zeros((1, 1)), count=np.array([100.0]), noisy=NoisyCurvature(
...         matrix=np.array([[[200.0]]]), diagonal_sd=np.array([1.0]), offdiagonal_sd=np.array([1.0])))
>>> mode, root = whitened(density, 0, np.zeros(1), np.full(1, 0.01))
>>> float(np.exp(mode[0]).round(3)), float(root[0, 0].round(4))            # a share known to 1/200
(2.0, 0.005)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onedraw.inference.curvature import row_law
from onedraw.inference.noisy import CurvatureDensity
from onedraw.inference.weight import SeveralCounts
from onedraw.types import Array

STEPS = 12
LONGEST = 0.7
"""The largest change of a coordinate in one step."""


def whitened(batch: CurvatureDensity, release: int, start: Array, prior: Array) -> tuple[Array, Array]:
    """The mode (size,) of one release near ``start`` and the root (size, size); ``prior`` are precisions."""
    density, place, prior = _release(batch, release), start[None], np.diag(prior)
    value, gradient = density(place)
    information, damping = _information(density, place) + prior, 0.0
    for _ in range(STEPS):
        step = np.linalg.solve(information + damping * np.diag(information.diagonal()), gradient[0])
        moved = place + step * min(1.0, LONGEST / max(float(np.abs(step).max()), 1e-300))
        new_value, new_gradient = density(moved)
        if not new_value[0] >= value[0]:
            damping = max(4.0 * damping, 0.1)
            continue
        gain = float(new_value[0] - value[0])
        place, value, gradient, damping = moved, new_value, new_gradient, 0.25 * damping
        information = _information(density, place) + prior
        if gain < 1e-3:
            break
    return place[0], np.asarray(np.linalg.inv(np.linalg.cholesky(information)).T)


def _information(density: CurvatureDensity, place: Array) -> Array:
    """J' P J (size, size) of one release."""
    rows, columns = np.triu_indices(density.noisy.matrix.shape[1])
    entries = np.arange(len(rows))
    gradient = np.zeros((len(rows), *density.noisy.matrix.shape[1:]))
    gradient[entries, rows, columns] += 0.5
    gradient[entries, columns, rows] += 0.5
    point = density.space.read(np.repeat(place, len(rows), axis=0))
    law = row_law(density.weight, point.rows, np.repeat(density.theta, len(rows), axis=0))
    count = (density.count * np.exp(point.log_count))[:, None, None]
    by_count = density.noisy.framed(count * law.curvature)[entries, rows, columns]
    by_rows = law.pullback(count * density.noisy.pullback(gradient))
    jacobian = density.space.pullback(point, by_rows, by_count)
    precision = density.noisy.precision()[0, rows, columns] * np.where(rows == columns, 1.0, 2.0)
    return np.asarray(jacobian.T @ (precision[:, None] * jacobian))


def _release(density: CurvatureDensity, r: int) -> CurvatureDensity:
    """That of one release of a batch."""
    one, noisy, weight = slice(r, r + 1), density.noisy, density.weight
    return replace(
        density,
        weight=weight.weights[r] if isinstance(weight, SeveralCounts) else weight,
        theta=density.theta[one],
        count=density.count[one],
        noisy=replace(
            noisy,
            matrix=noisy.matrix[one],
            diagonal_sd=noisy.diagonal_sd[one],
            offdiagonal_sd=noisy.offdiagonal_sd[one],
            misfit=None if noisy.misfit is None else noisy.misfit[one],
        ),
    )
