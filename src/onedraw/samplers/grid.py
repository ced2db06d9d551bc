# SPDX-License-Identifier: Apache-2.0
"""Exact draws from a finite public grid, by enumeration: the oracle that other samplers are tested against.

Guarantee:
    The parameter space *is* the grid, so the draw is a finite exponential mechanism with no sampling error
    at all (evidence ``proved``). A draw is the argmax of log mass + Gumbel noise over the grid points.

Edge cases:
    The grid is chosen from public facts only: ``points`` values per parameter, equally spaced over
    ``half_width`` prior scales either side of zero, and for the residual scale equally spaced in its working
    coordinate. The prior mass of a point is proportional to the prior density there.

>>> import numpy as np
>>> from onedraw.priors import Prior
>>> GridSampler(points=5, half_width=2.0).axes(Prior(scale=3.0), dim=1)[0].tolist()
[-6.0, -3.0, 0.0, 3.0, 6.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.advice import Do, Set
from onedraw.errors import InvalidInput, SamplingError
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.samplers.base import Draws, Evidence, PosteriorFacts
from onedraw.types import Array

MAX_DEFAULT_DIM = 3
MAX_POINTS = 20_000_000
CHUNK = 256


@dataclass(frozen=True, kw_only=True)
class GridSampler:
    """Enumerates ``points`` values of each parameter over ``half_width`` prior scales either side of zero.

    ``points=None`` takes a grid of about 250,000 points: 501 values each for two parameters, 63
    for three.
    """

    evidence_level: ClassVar[str] = "proved"
    continuous: ClassVar[bool] = False

    points: int | None = None
    half_width: float = 4.0

    def axes(self, prior: Prior, dim: int) -> list[Array]:
        """The public grid, one axis per working coordinate."""
        points = self.points
        if points is None and dim > MAX_DEFAULT_DIM:
            raise InvalidInput(
                f"Enumerated evidence is for at most {MAX_DEFAULT_DIM} parameters, got {dim}: with more, the "
                "grid would be too coarse to be useful.",
                advice=[Set("evidence", "searched", of="OnePosterior"), Do("use fewer features")],
            )
        if points is None:
            points = max(3, int(250_000 ** (1.0 / dim)) // 2 * 2 + 1)
        if points**dim > MAX_POINTS:
            raise InvalidInput(
                f"Expected a grid of at most {MAX_POINTS} points, got {points} for each of {dim} parameters.",
                advice=[Set("evidence", "searched", of="OnePosterior"), Do("use fewer points")],
            )
        reach = self.half_width if prior.box is None else min(self.half_width, prior.box)
        axis = reach * prior.scale * np.linspace(-1.0, 1.0, points)
        axes = [axis] * dim
        if prior.noise is not None:
            # A little below the ceiling, or rounding could put the last point above it.
            top = min(
                prior.noise.floor + (1.0 - 1e-9) * (prior.noise.ceiling - prior.noise.floor),
                prior.noise.floor + 30.0,
            )
            low, high = prior.noise.coordinate(1.001 * prior.noise.floor), prior.noise.coordinate(top)
            axes[-1] = np.linspace(low, high, points)
        return axes

    def check(self, posterior: PosteriorFacts | Posterior) -> None:
        """Refuse a grid that is too large to enumerate."""
        self.axes(posterior.prior, posterior.dim)

    def sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws:
        """``num_draws`` independent draws from the posterior restricted to the grid."""
        axes = self.axes(posterior.prior, posterior.dim)
        shape = tuple(len(axis) for axis in axes)
        total = int(np.prod(shape))
        best = np.full(num_draws, -np.inf)
        values = np.empty((num_draws, posterior.dim))
        for start in range(0, total, CHUNK):
            index = np.unravel_index(np.arange(start, min(start + CHUNK, total)), shape)
            thetas = np.stack([axis[i] for axis, i in zip(axes, index, strict=True)], axis=1)
            # Gumbel noise from exponentials, which resolve its upper tail; the floor keeps it finite.
            noise = -np.log(np.maximum(rng.standard_exponential((num_draws, len(thetas))), 2.0**-54))
            scores = posterior.log_density(thetas) + noise
            where = scores.argmax(axis=1)
            top = scores[np.arange(num_draws), where]
            better = top > best
            best[better] = top[better]
            values[better] = thetas[where[better]]
        if not np.isfinite(best).all():
            raise SamplingError(
                "No point of the grid has a positive posterior mass, so nothing was released."
            )
        return Draws(
            values=values,
            evidence=Evidence(
                level="proved",
                statement=(
                    f"The parameter space is a public grid of {total} points and every one was enumerated."
                ),
            ),
        )
