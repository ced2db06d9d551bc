# SPDX-License-Identifier: Apache-2.0
"""What mechanisms that draw exactly from the posterior of a regression share: a prior, a sampler, the grid.

``PosteriorDraw`` serves them all; ``BoundedPosterior`` those with the logistic likelihood itself, which is
private only for bounded features.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onedraw._validate import positive
from onedraw.advice import Set
from onedraw.errors import AcceptanceTooLow
from onedraw.families import Bernoulli
from onedraw.losses import Gibbs, Loss
from onedraw.mechanisms._bounds import bounded_design, clipping_note
from onedraw.mechanisms.base import EXACTNESS
from onedraw.mechanisms.drawing import SamplerMechanism
from onedraw.mechanisms.tilted_fit import TiltedFit
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.records import Records
from onedraw.release import Grid, coefficient_step, scale_step
from onedraw.samplers.base import Draws, PosteriorFacts, Sampler
from onedraw.samplers.exact import RejectionSampler


@dataclass(frozen=True, kw_only=True)
class PosteriorDraw(SamplerMechanism):
    """Draws from ``posterior`` with an exact sampler, whose evidence the release states."""

    prior_scale: float = 3.0

    @property
    @abstractmethod
    def prior(self) -> Prior:
        """The public prior of the working parameters."""

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """The loss of one record."""

    @abstractmethod
    def posterior(self, records: Any) -> Posterior:
        """The posterior of the records, which may not leave."""

    @property
    @abstractmethod
    def drawn_by(self) -> Sampler:
        """What draws."""

    def _check_options(self) -> None:
        positive(prior_scale=self.prior_scale)

    def _check_model(self, model: Any) -> None:
        facts = PosteriorFacts(loss=self.loss, prior=self.prior, dim=model.dim)
        self.drawn_by.check(facts)

    def draws(self, records: Records, num_draws: int, rng: np.random.Generator) -> Draws:
        """Draws with the scale itself (not its coordinate) in the last column: private, not on the grid."""
        try:
            drawn = self.drawn_by.sample(self.posterior(records), num_draws, rng)
        except AcceptanceTooLow as error:
            if TiltedFit.requirements.fits(self.model):
                other = Set("mechanism", TiltedFit.name, note=", which cannot fail so")
                error.advice = (other, *error.advice)
            raise
        if self.prior.noise is None:
            return drawn
        values = drawn.values.copy()
        values[:, -1] = self.prior.noise.scale(values[:, -1])
        return replace(drawn, values=values)

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the evidence leaves to be assumed."""
        return EXACTNESS.get(self.evidence_level, ())

    @property
    def grid(self) -> Grid:
        """2^-40 of the prior scale, and of the floor for a residual scale."""
        noise = self.prior.noise
        return Grid(
            coefficient=coefficient_step(self.prior.scale),
            scale=None if noise is None else scale_step(noise.floor),
        )


@dataclass(frozen=True, kw_only=True)
class BoundedPosterior(PosteriorDraw):
    """Draws from the weighted logistic posterior of features clipped to ``feature_norm``."""

    feature_norm: float | None = None
    sampler: Sampler | None = None

    @property
    @abstractmethod
    def weight(self) -> float:
        """The weight of the loss."""

    @property
    @abstractmethod
    def loss(self) -> Gibbs:
        """The loss of one record."""

    @property
    def prior(self) -> Prior:
        """Independent N(0, prior_scale^2) coefficients."""
        return Prior(scale=self.prior_scale)

    @property
    def drawn_by(self) -> Sampler:
        """The sampler given, or exact rejection."""
        return RejectionSampler() if self.sampler is None else self.sampler

    def posterior(self, records: Records) -> Posterior:
        """The posterior of the clipped records, which may not leave."""
        norm = self._needed("feature_norm")
        fit_intercept = self.model.fit_intercept
        return Posterior(
            loss=self.loss,
            beta=1.0,
            weight=self.weight,
            prior=self.prior,
            features=bounded_design(records.features, fit_intercept=fit_intercept, feature_norm=norm),
            response=records.response,
            fit_intercept=False,  # its column is part of the clipped design
        )

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return (clipping_note(self._needed("feature_norm")), *super().own_assumptions)


BINARY = (Bernoulli.name,)
"""The family of the logistic mechanisms."""
