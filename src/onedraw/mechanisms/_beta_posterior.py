# SPDX-License-Identifier: Apache-2.0
"""What all mechanisms with a beta-divergence posterior say of it: its loss, its prior, and the public
grid."""

from __future__ import annotations

from typing import Any

from onedraw.losses import BetaDivergence
from onedraw.priors import Prior, ScalePrior
from onedraw.release import Grid, coefficient_step, scale_step


class BetaDivergencePosterior:
    """For mechanisms with a ``model`` and a ``prior_scale``."""

    @property
    def loss(self: Any) -> BetaDivergence:
        """The loss of one record."""
        return BetaDivergence(self.model.family)

    @property
    def prior(self: Any) -> Prior:
        """Normal coefficients; where the model has one, an inverse-gamma squared scale above its floor."""
        floor = self.model.scale_floor
        return Prior(scale=self.prior_scale, noise=None if floor is None else ScalePrior(floor=floor))

    @property
    def grid(self: Any) -> Grid:
        """2^-40 of the prior scale, and of the floor for a residual scale."""
        noise = self.prior.noise
        return Grid(
            coefficient=coefficient_step(self.prior_scale),
            scale=None if noise is None else scale_step(noise.floor),
        )
