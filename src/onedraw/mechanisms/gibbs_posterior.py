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

from onedraw._validate import whole
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli
from onedraw.losses import Gibbs
from onedraw.mechanisms._base import DEFAULT_NEEDS_NONE, Requirements
from onedraw.mechanisms._posterior_draw import BoundedPosterior
from onedraw.model import RegressionModel
from onedraw.priors import Prior
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.guarantee import Guarantee


@dataclass(frozen=True, kw_only=True)
class GibbsPosterior(BoundedPosterior):
    """Draws from the weighted logistic posterior on a box; ``num_parameters`` counts the intercept."""

    name: ClassVar[str] = "gibbs_posterior"
    requirements: ClassVar[Requirements] = Requirements(
        kinds=("logistic",),
        needs={
            "feature_norm": "the log-likelihood of one record is unbounded unless its linear predictor is "
            "bounded, which takes a bound on the features and one on the parameters.",
            "num_parameters": "the longest parameter vector in a box grows with their number. Count the "
            "intercept.",
        },
        delta="composition",
        exact_draw=True,
        prefer="few parameters with known small ranges, and the likelihood itself is wanted",
    )

    num_parameters: int | None = None
    prior: Prior = field(default_factory=lambda: Prior(box=1.0))

    def _check(self, guarantee: Guarantee) -> Guarantee:
        return self._calibration(guarantee).guarantee

    @property
    def loss(self) -> Gibbs:
        """The loss with its certificate."""
        norm, box = self._needed("feature_norm"), self.prior.box
        if box is None:
            raise InvalidInput(
                f"{type(self).__name__} needs a prior truncated to a box (prior_box=... of an estimator), "
                "such as Prior(scale=3.0, box=1.0): the log-likelihood of one record is unbounded unless "
                f"the parameters are bounded. {DEFAULT_NEEDS_NONE}"
            )
        self._needed("num_parameters")
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

    def _check_model(self, model: RegressionModel) -> None:
        super()._check_model(model)
        if model.dim != self.num_parameters:
            raise InvalidInput(
                f"Expected a model of num_parameters={self.num_parameters}, got one of {model.dim}: the "
                "calibration holds for that number only."
            )

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {
            "feature_norm": self.feature_norm,
            "predictor_bound": self.loss.predictor_bound,
            "weight": self.weight,
            "prior_scale": float(self.prior.scale),
            "prior_box": self.prior.box,
        }
