# SPDX-License-Identifier: Apache-2.0
"""What mechanisms that draw from a posterior share: a prior, an exact sampler, and the grid.

``PosteriorDraw`` serves them all; ``BoundedPosterior`` those with the logistic likelihood itself, which is
private only for bounded features.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np

from onedraw._validate import whole
from onedraw.families import Bernoulli
from onedraw.losses import Gibbs
from onedraw.mechanisms._base import BoundedMechanism, Mechanism
from onedraw.mechanisms._bounds import bounded_design, clipping_note
from onedraw.mechanisms.records import Records
from onedraw.model import RegressionModel
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.release import Grid, coefficient_step, scale_step
from onedraw.samplers.base import Draws, Evidence, Sampler
from onedraw.samplers.exact import RejectionSampler
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class PosteriorDraw(Mechanism):
    """Draws from ``posterior`` with ``sampler``, whose evidence the release states."""

    prior: Prior
    sampler: Sampler

    @abstractmethod
    def posterior(self, data: Records, *, fit_intercept: bool = True) -> Posterior:
        """The posterior of the data. Private."""

    def _drawn_by(self) -> Sampler:
        """What draws: the sampler, unless the mechanism has a way of its own."""
        return self.sampler

    def check(self, data: Records, *, model: RegressionModel) -> None:
        """Refuse what public facts alone rule out, before any budget is spent."""
        super().check(data, model=model)
        self._drawn_by().check(self.posterior(data, fit_intercept=model.fit_intercept))

    def _sample(
        self, data: Records, num_draws: int, rng: np.random.Generator, *, fit_intercept: bool
    ) -> Draws:
        """Draws with the scale itself (not its coordinate) in the last column. Private."""
        draws = self._drawn_by().sample(self.posterior(data, fit_intercept=fit_intercept), num_draws, rng)
        if self.prior.noise is None:
            return draws
        values = draws.values.copy()
        values[:, -1] = self.prior.noise.scale(values[:, -1])
        return replace(draws, values=values)

    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        draws = self._sample(data, self.guarantee.draws, rng, fit_intercept=model.fit_intercept)
        return draws.values, draws.evidence

    @property
    def grid(self) -> Grid:
        """2^-40 of the prior scale, and of the floor for a residual scale."""
        noise = self.prior.noise
        return Grid(
            coefficient=coefficient_step(self.prior.scale),
            scale=None if noise is None else scale_step(noise.floor),
        )


@dataclass(frozen=True, kw_only=True)
class BoundedPosterior(PosteriorDraw, BoundedMechanism):
    """Draws from the weighted logistic posterior of features clipped to ``feature_norm``."""

    feature_norm: float | None = None
    prior: Prior = field(default_factory=Prior)
    sampler: Sampler = field(default_factory=RejectionSampler)
    draws: int = 1

    @property
    @abstractmethod
    def loss(self) -> Gibbs:
        """The loss of one record."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """The weight of the loss."""

    def posterior(self, data: Records, *, fit_intercept: bool = True) -> Posterior:
        """The posterior of the clipped data. Private."""
        Bernoulli().check_response(data.response)
        norm = self._needed("feature_norm")
        return Posterior(
            loss=self.loss,
            beta=1.0,
            weight=self.weight,
            prior=self.prior,
            features=bounded_design(data.features, fit_intercept=fit_intercept, feature_norm=norm),
            response=data.response,
            fit_intercept=False,  # its column is part of the clipped design
        )

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return (clipping_note(self._needed("feature_norm")),)

    def _draws_released(self) -> int:
        return whole(draws=self.draws)
