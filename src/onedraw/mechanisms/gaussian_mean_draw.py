# SPDX-License-Identifier: Apache-2.0
"""One draw of a mean from its weighted normal posterior [Geumlek, Song & Chaudhuri 2017].

The model is a regression on an intercept alone. The data enter with a weight w <= 1, the largest that meets
the guarantee; w = 1 is the ordinary posterior.

Guarantee:
    (epsilon, delta)-DP. With |y| <= Y (clipped), prior N(0, s^2) and residual scale r, neighbours' posteriors
    share their precision P = 1/s^2 + w n/r^2 and their means differ by at most 2 Y w/(r^2 P): the draw is
    g-GDP with g = 2 Y w/(r^2 sqrt(P)), whose exact curve is used. Replace-one with one row a person only: the
    precision shows n. []

Edge cases:
    delta = 0 is refused: no weight > 0 bounds the log ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw._validate import positive
from onedraw.mechanisms._bounds import response_note
from onedraw.mechanisms._conjugate import EVIDENCE, ConjugateDraw
from onedraw.mechanisms._linear import NORMAL
from onedraw.mechanisms._renyi import largest_weight
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.gaussian import gaussian_delta
from onedraw.privacy.guarantee import Guarantee
from onedraw.records import Records
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class GaussianMeanDraw(ConjugateDraw):
    """One draw of a mean from its weighted normal posterior, for responses clipped to a bound."""

    name: ClassVar[str] = "gaussian_mean_draw"
    requirements: ClassVar[Requirements] = Requirements(
        families=NORMAL,
        needs={"response_bound": "one response moves the posterior mean in proportion to its size."},
        delta="needed",
        count="the posterior's spread shows how many records there are.",
        intercept_only=True,
        prefer="one draw of a mean",
    )

    response_bound: float | None = None
    """In units of the response, counted from the middle of its declared range."""
    prior_scale: float = 3.0
    noise_scale: float = 1.0
    """The residual scale; like the prior's, in working units."""

    def _check_options(self) -> None:
        positive(prior_scale=self.prior_scale)
        positive(noise_scale=self.noise_scale)

    def _bound(self) -> float:
        """Y in working units."""
        return self._needed("response_bound") / float(self.model.target_unit)

    def _largest_weight(self, guarantee: Guarantee) -> float:
        bound, count = self._bound(), self.num_records or 1

        def meets(weight: float) -> bool:
            precision = self.precision(weight, count)
            shift = 2.0 * bound * weight / self.noise_scale**2 / math.sqrt(precision)
            return gaussian_delta(shift, guarantee.epsilon) <= guarantee.delta

        return largest_weight(meets, guarantee.epsilon)

    def precision(self, weight: float, count: int) -> float:
        """Of the posterior of ``count`` records."""
        return 1.0 / self.prior_scale**2 + weight * count / self.noise_scale**2

    def _values(self, records: Records, rng: np.random.Generator) -> tuple[Array, Evidence]:
        bound, weight = self._bound(), self.weight
        precision = self.precision(weight, len(records.response))
        total = float(np.clip(records.response, -bound, bound).sum())
        mean = weight * total / self.noise_scale**2 / precision
        return np.array([[mean + rng.standard_normal() / math.sqrt(precision)]]), EVIDENCE

    @property
    def grid(self) -> Grid:
        """2^-40 of the prior scale."""
        return Grid(coefficient=coefficient_step(self.prior_scale))

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {"weight": self.weight}

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return (response_note(self._bound()),)
