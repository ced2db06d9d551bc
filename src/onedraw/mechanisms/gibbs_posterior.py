# SPDX-License-Identifier: Apache-2.0
"""One draw from the posterior, private because its log-likelihood is bounded [Wang, Fienberg & Smola 2015].

The density is proportional to exp(-weight * sum of logistic losses) under a normal prior truncated to a box.

Guarantee:
    epsilon-DP (pure), with features of norm at most X and coefficients in [-b s, b s] (``prior_scale`` s,
    ``prior_box`` b): over p parameters the linear predictor stays within B = X b s sqrt(p), so the loss
    has width exactly B at most and the weight is

        w = epsilon/(2 m B) under replace-one,    w = epsilon/(m B) under add/remove,    m rows a person.

*Proof.* |x.theta| <= |x| |theta| <= X b s sqrt(p) for every parameter in the support, which is what the
certificate of ``losses.Gibbs`` asks for; the rest is the proof of ``onedraw.privacy.calibration``. []

(The published weight is epsilon/(4 B') with B' >= |log f| everywhere. As log f spans an interval of width B
while B' = log(1 + e^B) > B, the weight here is more than twice as large at the same epsilon.)

The bound grows with the features, the box and the dimension, and the weight falls with it: the
beta-divergence loss needs none of the three.

Edge cases:
    n = 0 draws from the truncated prior.

>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> model = RegressionModel(family=Bernoulli(), features=("a", "b", "c"))          # and an intercept: p = 4
>>> mechanism = GibbsPosterior(feature_norm=2.0, prior_scale=1.0, prior_box=3.0)
>>> mechanism.calibrate(Request(epsilon=1.0), Shape(model=model)).weight == 1.0 / (2 * 2.0 * 3.0 * 2.0)
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from onedraw._validate import positive
from onedraw.families import Bernoulli
from onedraw.losses import Gibbs
from onedraw.mechanisms._posterior_draw import BINARY, BoundedPosterior
from onedraw.mechanisms.base import SOLVED, Requirements
from onedraw.priors import Prior
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.request import Request


@dataclass(frozen=True, kw_only=True)
class GibbsPosterior(BoundedPosterior):
    """Draws from the weighted logistic posterior on a box of ``prior_box`` prior scales."""

    name: ClassVar[str] = "gibbs_posterior"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        needs={
            "feature_norm": "the log-likelihood of one record is unbounded unless its linear predictor is "
            "bounded, which takes a bound on the features and one on the parameters.",
        },
        delta="composition",
        draws="several",
        exact_draw=True,
        prefer="few parameters with known small ranges, and the likelihood itself is wanted",
    )

    prior_box: float = 1.0
    calibration: Calibration | None = field(default=None, repr=False, metadata=SOLVED)

    def _check_options(self) -> None:
        super()._check_options()
        positive(prior_box=self.prior_box)

    @property
    def prior(self) -> Prior:
        """Independent N(0, prior_scale^2) coefficients, truncated to the box."""
        return Prior(scale=self.prior_scale, box=self.prior_box)

    @property
    def loss(self) -> Gibbs:
        """The loss with its certificate."""
        radius = self.prior_box * self.prior_scale * math.sqrt(self.model.dim)
        return Gibbs(Bernoulli(), predictor_bound=self._needed("feature_norm") * radius)

    def _solve(self, request: Request) -> GibbsPosterior:
        calibration = calibrate_loss(self.loss, **request.terms)
        return replace(self, promise=calibration.guarantee, calibration=calibration)

    @property
    def weight(self) -> float:
        """The weight of the loss."""
        assert self.calibration is not None
        return self.calibration.weight

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {"predictor_bound": self.loss.predictor_bound, "weight": self.weight}
