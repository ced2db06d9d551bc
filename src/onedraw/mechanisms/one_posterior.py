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
from typing import Any

import numpy as np

from onedraw._random import generator
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.losses.base import Loss
from onedraw.model import RegressionModel
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.guarantee import Guarantee
from onedraw.release import Grid, Release, coefficient_step, scale_step
from onedraw.samplers.base import Draws, Sampler
from onedraw.types import Array

EXACTNESS = {
    "searched": ("The draw is exact: the search behind the envelope's bound missed no higher point.",),
}
"""What each level of evidence leaves to be assumed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Private records in working units: features (n, d) and response (n,), checked to be finite."""

    features: Array
    response: Array

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.response.shape != self.features.shape[:1]:
            raise InvalidInput(
                f"Expected features (n, d) and response (n,), got shapes {self.features.shape} and "
                f"{self.response.shape}."
            )
        if not (np.isfinite(self.features).all() and np.isfinite(self.response).all()):
            raise InvalidInput("Expected finite records, got NaN or infinite values. Remove or impute them.")


@dataclass(frozen=True, kw_only=True)
class OnePosteriorSample:
    """Draws from prior * exp(-weight * sum of losses), calibrated before any data are seen."""

    loss: Loss
    prior: Prior
    sampler: Sampler
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
                "Call "
                "calibrate(epsilon=...) again."
            )

    def calibrate(self, *, epsilon: float, **options: Any) -> OnePosteriorSample:
        """The same mechanism with beta and weight set for ``epsilon``; options as in ``calibrate_loss``."""
        return replace(self, calibration=calibrate_loss(self.loss, epsilon=epsilon, **options))

    @property
    def calibrated(self) -> Calibration:
        """The calibration, or an error that says how to get one."""
        if self.calibration is None:
            raise CalibrationError("This mechanism has no guarantee yet: call calibrate(epsilon=...) first.")
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
        """Draws with the scale itself (not its coordinate) in the last column. Private: not on the grid, not
        counted.
        """
        draws = self.sampler.sample(self.posterior(data, fit_intercept=fit_intercept), num_draws, rng)
        if self.prior.noise is None:
            return draws
        values = draws.values.copy()
        values[:, -1] = self.prior.noise.scale(values[:, -1])
        return replace(draws, values=values)

    def check(self, data: Records, *, fit_intercept: bool = True) -> None:
        """Refuse what public facts alone rule out, before any budget is spent."""
        self.sampler.check(self.posterior(data, fit_intercept=fit_intercept))

    @property
    def grid(self) -> Grid:
        """The public grid that this mechanism rounds its releases to."""
        noise = self.prior.noise
        return Grid(
            coefficient=coefficient_step(self.prior.scale),
            scale=None if noise is None else scale_step(noise.floor),
        )

    @property
    def description(self) -> dict[str, str | float | None]:
        """The public numbers that define the posterior, for the release."""
        calibration = self.calibrated
        return {
            "name": "one_posterior_sample",
            "loss": type(self.loss).__name__,
            "family": calibration.family,
            "beta": calibration.beta,
            "weight": calibration.weight,
            "prior_scale": float(self.prior.scale),
            "prior_box": self.prior.box,
        }

    def release(
        self,
        data: Records,
        *,
        model: RegressionModel,
        random_state: Any = None,
        assumptions: tuple[str, ...] = (),
        receipt: Mapping[str, str] | None = None,
    ) -> Release:
        """Draw, round to the public grid, and say what was done. Everything else stays here."""
        guarantee = self.guarantee
        if data.features.shape[1] != model.num_features:
            raise InvalidInput(
                f"Expected records with the {model.num_features} features of the model, got "
                f"{data.features.shape[1]}."
            )
        rng, seeded = generator(random_state)
        draws = self.draws(data, guarantee.draws, rng, fit_intercept=model.fit_intercept)
        return Release(
            model=model,
            draws=tuple(tuple(row) for row in self.grid.round(draws.values).tolist()),
            grid=self.grid,
            mechanism=self.description,
            guarantee=guarantee,
            assumptions=(*assumptions, *EXACTNESS.get(draws.evidence.level, ())),
            evidence=draws.evidence,
            seeded=seeded,
            num_records=len(data.response) if guarantee.num_records_is_public else None,
            receipt=receipt,
        )
