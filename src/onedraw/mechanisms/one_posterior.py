# SPDX-License-Identifier: Apache-2.0
"""Release draws from a generalised posterior: the mechanism that gives the package its name.

Guarantee:
    epsilon-DP (pure) for one exact draw, with epsilon = 2 w S under replace-one and w R under add/remove
    [proof: ``onedraw.privacy.calibration``]. Exactness is the sampler's business, and the release states the
    evidence for it.

Edge cases:
    n = 0 releases a draw from the prior. Nothing is computed from the data before calibration has fixed beta
    and the weight.

>>> import numpy as np
>>> from onedraw.families import Bernoulli
>>> from onedraw.losses import BetaDivergence
>>> from onedraw.model import RegressionModel
>>> from onedraw.priors import Prior
>>> from onedraw.samplers import RejectionSampler
>>> mechanism = OnePosteriorSample(
...     loss=BetaDivergence(Bernoulli()), prior=Prior(scale=3.0), sampler=RejectionSampler()
... ).calibrate(epsilon=1.0)
>>> mechanism.guarantee.epsilon, mechanism.sensitivity
(1.0, 1.0)
>>> x = np.random.default_rng(0).normal(size=(200, 1))
>>> release = mechanism.release(
...     Records(features=x, response=(x[:, 0] > 0).astype(float)),
...     model=RegressionModel(kind="logistic", features=("x",)), random_state=1)
>>> release.seeded, sorted(release.named_parameters())
(True, ['(intercept)', 'x'])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw.errors import CalibrationError
from onedraw.losses.base import Loss
from onedraw.mechanisms._base import Requirements, uncalibrated
from onedraw.mechanisms._posterior_draw import PosteriorDraw
from onedraw.mechanisms.records import Records
from onedraw.model.regression import KINDS
from onedraw.posterior import Posterior
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.guarantee import Guarantee
from onedraw.samplers.base import Draws


@dataclass(frozen=True, kw_only=True)
class OnePosteriorSample(PosteriorDraw):
    """Draws from prior * exp(-weight * sum of losses), calibrated before any data are seen."""

    name: ClassVar[str] = "one_posterior_sample"
    requirements: ClassVar[Requirements] = Requirements(
        kinds=KINDS,
        delta="composition",
        exact_draw=True,
        prefer="the default: no bounds, robust to outliers",
    )

    loss: Loss
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        if self.calibration is None:
            return
        bounds = self.loss.loss_bounds(self.calibration.beta)
        slack = 1.0 + 1e-12
        if (
            self.calibration.family != self.loss.family.name
            or bounds.observation_sensitivity > slack * self.calibration.observation_sensitivity
            or bounds.parameter_range > slack * self.calibration.parameter_range
        ):
            raise CalibrationError(
                "This calibration was made for another loss, and its guarantee does not hold for this one. "
                "Call calibrate(epsilon=...) again."
            )

    def calibrate(self, *, epsilon: float, **options: Any) -> OnePosteriorSample:
        """The same mechanism with beta and weight set for ``epsilon``; options as in ``calibrate_loss``."""
        return replace(self, calibration=calibrate_loss(self.loss, epsilon=epsilon, **options))

    @property
    def calibrated(self) -> Calibration:
        """The calibration, or an error that says how to get one."""
        if self.calibration is None:
            raise uncalibrated()
        return self.calibration

    @property
    def guarantee(self) -> Guarantee:
        """What a release of this mechanism promises."""
        return self.calibrated.guarantee

    @property
    def sensitivity(self) -> float:
        """The observation sensitivity of the loss at the calibrated beta."""
        return self.calibrated.observation_sensitivity

    def posterior(self, data: Records, *, fit_intercept: bool = True) -> Posterior:
        """The posterior of the data. Private."""
        self.loss.family.check_response(data.response)
        calibration = self.calibrated
        return Posterior(
            loss=self.loss,
            beta=calibration.beta,
            weight=calibration.weight,
            prior=self.prior,
            features=data.features,
            response=data.response,
            fit_intercept=fit_intercept,
        )

    def draws(
        self, data: Records, num_draws: int, rng: np.random.Generator, *, fit_intercept: bool = True
    ) -> Draws:
        """Draws with the scale itself in the last column. Private: not on the grid, not counted."""
        return self._sample(data, num_draws, rng, fit_intercept=fit_intercept)

    def _numbers(self) -> Mapping[str, str | float | None]:
        calibration = self.calibrated
        return {
            "loss": type(self.loss).__name__,
            "family": calibration.family,
            "beta": calibration.beta,
            "weight": calibration.weight,
            "prior_scale": float(self.prior.scale),
            "prior_box": self.prior.box,
        }
