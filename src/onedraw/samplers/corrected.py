# SPDX-License-Identifier: Apache-2.0
"""A look at some records that stands in for all of them near a point.

The posterior of the look is corrected by a quadratic so that its log density, gradient and curvature at the
point are those of all records. What is left wrong are third derivatives, by the sampling error of the look
[Jordan, Lee & Yang 2019], which a few standard deviations from the point is next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from onedraw.posterior import Posterior
from onedraw.samplers.modes import positive_definite
from onedraw.types import Array

NEAREST_REACH, REACH = 30.0, 10.0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Corrected(Posterior):
    """The posterior of a look plus a quadratic around ``centre``, held beyond ``reach`` deviations."""

    centre: Array
    value_gap: float
    slope_gap: Array
    bend_gap: Array
    root: Array
    reach: float

    @classmethod
    def at(
        cls, look: Posterior, centre: Array, quadratic: tuple[float, Array, Array], looks: float
    ) -> Corrected:
        """With this log density, gradient and minus Hessian at ``centre``; ``looks`` make up all records."""
        own = look.local_quadratic(centre)
        given: dict[str, Any] = {f.name: getattr(look, f.name) for f in fields(look)}
        return cls(
            **given,
            centre=centre,
            value_gap=quadratic[0] - own[0],
            slope_gap=quadratic[1] - own[1],
            bend_gap=quadratic[2] - own[2],
            root=np.asarray(np.linalg.cholesky(positive_definite(quadratic[2], look)), dtype=float),
            reach=NEAREST_REACH + REACH * float(np.sqrt(look.dim * looks)),
        )

    def log_density(self, thetas: Array) -> Array:
        return super().log_density(thetas) + self._correction(thetas)[0]

    def log_density_and_gradient(self, thetas: Array) -> tuple[Array, Array]:
        value, gradient = super().log_density_and_gradient(thetas)
        more, slope = self._correction(thetas)
        return value + more, gradient + slope

    def local_quadratic(self, theta: Array, smoothing: Array | None = None) -> tuple[float, Array, Array]:
        value, gradient, hessian = super().local_quadratic(theta, smoothing)
        (more,), (slope,) = self._correction(theta[None, :])
        within = float(np.linalg.norm((theta - self.centre) @ self.root)) <= self.reach
        return value + float(more), gradient + slope, hessian + within * self.bend_gap

    def _correction(self, thetas: Array) -> tuple[Array, Array]:
        gaps = thetas - self.centre
        lengths = np.linalg.norm(gaps @ self.root, axis=1)
        held = np.minimum(1.0, self.reach / np.maximum(lengths, 1e-300))[:, None]
        near = gaps * held
        pull = near @ self.bend_gap
        value = self.value_gap + near @ self.slope_gap - 0.5 * (near * pull).sum(axis=1)
        return value, np.where(held < 1.0, 0.0, self.slope_gap - pull)
