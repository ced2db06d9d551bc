# SPDX-License-Identifier: Apache-2.0
"""One draw from the posterior, private because its log-likelihood is bounded [Wang, Fienberg & Smola 2015].

The density is proportional to exp(-weight * sum of logistic losses) under a normal prior truncated to a box.

Guarantee:
    epsilon-DP (pure), with features of norm at most X and coefficients in [-b s, b s] (``Prior(scale=s,
    box=b)``): over p parameters the linear predictor stays within B = X b s sqrt(p), so the loss has width
    exactly B at most and the weight is

        w = epsilon/(2 m B) under replace-one,    w = epsilon/(m B) under add/remove,    m rows a person.

*Proof.* |x.theta| <= |x| |theta| <= X b s sqrt(p) for every parameter in the support, which is what the
certificate of ``losses.Gibbs`` asks for; the rest is the proof of ``onedraw.privacy.calibration``. []

(The published weight is epsilon/(4 B') with B' >= |log f| everywhere. As log f spans an interval of width B
while B' = log(1 + e^B) > B, the weight here is more than twice as large at the same epsilon.)

The bound grows with the features, the box and the dimension, and the weight falls with it: the
beta-divergence loss needs none of the three.

Edge cases:
    A prior without a box is refused: its likelihood is unbounded. n = 0 draws from the truncated prior.

>>> mechanism = GibbsPosterior(feature_norm=2.0, prior=Prior(scale=1.0, box=3.0), num_parameters=4)
>>> mechanism.calibrate(epsilon=1.0).weight == 1.0 / (2 * 2.0 * 3.0 * 2.0)
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from onedraw._validate import whole
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli
from onedraw.losses import Gibbs
from onedraw.mechanisms._base import (
    DEFAULT_NEEDS_NONE,
    BoundedMechanism,
    bounded_design,
    clipping_note,
    need_bound,
)
from onedraw.mechanisms.one_posterior import Records
from onedraw.model import RegressionModel
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.guarantee import Guarantee
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence, Sampler
from onedraw.samplers.exact import RejectionSampler
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class GibbsPosterior(BoundedMechanism):
    """Draws from the weighted logistic posterior on a box; ``num_parameters`` counts the intercept."""

    name: ClassVar[str] = "gibbs_posterior"

    feature_norm: float | None = None
    num_parameters: int | None = None
    prior: Prior = field(default_factory=lambda: Prior(box=1.0))
    sampler: Sampler = field(default_factory=RejectionSampler)
    draws: int = 1

    def _check(self, guarantee: Guarantee) -> Guarantee:
        return self._calibration(guarantee).guarantee

    def _draws_released(self) -> int:
        return whole(draws=self.draws)

    def _norm(self) -> float:
        return need_bound(
            self.feature_norm,
            name="feature_norm",
            mechanism=type(self).__name__,
            why="the log-likelihood of one record is unbounded unless its linear predictor is bounded, which "
            "takes a bound on the features and one on the parameters.",
        )

    @property
    def loss(self) -> Gibbs:
        """The loss with its certificate."""
        norm, box = self._norm(), self.prior.box
        if box is None:
            raise InvalidInput(
                f"{type(self).__name__} needs a prior truncated to a box, such as Prior(scale=3.0, box=1.0): "
                "the log-likelihood of one record is unbounded unless the parameters are bounded. "
                f"{DEFAULT_NEEDS_NONE}"
            )
        if self.num_parameters is None:
            raise InvalidInput(
                f"{type(self).__name__} needs num_parameters=...: the longest parameter vector in a box "
                f"grows with their number. Count the intercept. {DEFAULT_NEEDS_NONE}"
            )
        radius = box * self.prior.scale * math.sqrt(whole(num_parameters=self.num_parameters))
        return Gibbs(Bernoulli(), predictor_bound=norm * radius)

    def _calibration(self, guarantee: Guarantee) -> Calibration:
        return calibrate_loss(
            self.loss,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            neighbours=guarantee.neighbours,
            rows_per_person=guarantee.rows_per_person,
            draws=guarantee.draws,
        )

    @property
    def weight(self) -> float:
        """The weight of the loss."""
        return self._calibration(self.guarantee).weight

    def posterior(self, data: Records, *, fit_intercept: bool = True) -> Posterior:
        """The posterior of the clipped data. Private."""
        Bernoulli().check_response(data.response)
        return Posterior(
            loss=self.loss,
            beta=1.0,
            weight=self.weight,
            prior=self.prior,
            features=bounded_design(data.features, fit_intercept=fit_intercept, feature_norm=self._norm()),
            response=data.response,
            fit_intercept=False,  # its column is part of the clipped design
        )

    def _check_model(self, model: RegressionModel) -> None:
        super()._check_model(model)
        if model.dim != self.num_parameters:
            raise InvalidInput(
                f"Expected a model of num_parameters={self.num_parameters}, got one of {model.dim}: the "
                "calibration holds for that number only."
            )

    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        posterior = self.posterior(data, fit_intercept=model.fit_intercept)
        draws = self.sampler.sample(posterior, self.guarantee.draws, rng)
        return draws.values, draws.evidence

    def grid(self, model: RegressionModel) -> Grid:
        """2^-40 of the prior scale."""
        return Grid(coefficient=coefficient_step(self.prior.scale))

    @property
    def description(self) -> Mapping[str, str | float | None]:
        """The public numbers that define the mechanism, for the release."""
        return {
            "feature_norm": self._norm(),
            "predictor_bound": self.loss.predictor_bound,
            "weight": self.weight,
            "prior_scale": float(self.prior.scale),
            "prior_box": self.prior.box,
        }

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return (clipping_note(self._norm()),)
