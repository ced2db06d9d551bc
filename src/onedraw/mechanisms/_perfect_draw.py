# SPDX-License-Identifier: Apache-2.0
"""What draws by public proposals share: the weight, the proposals around a first stage, and their level.

Guarantee:
    epsilon-DP for everything together: the first stage takes ``first_stage`` of epsilon, the level (where
    there is one) ``level_share``, and the draw, whose weight is set for it, the rest. What is drawn is
    private whatever the proposals and the level are [``onedraw.chains.perfect``], so a bad first stage costs
    accuracy alone.

    The level is the log weight log g/phi of the first stage's point plus Laplace noise. At one point g moves
    by a factor of at most e^(m w S) (replace-one) or e^(m w R) (add/remove), which the noise covers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive, whole
from onedraw.chains.perfect import Acceptance, Envelope, PriorEnvelope, StudentEnvelope, laplace
from onedraw.chains.tuning import SPREAD, reference_curvature, reference_sds
from onedraw.errors import InvalidInput
from onedraw.mechanisms._beta_posterior import BetaDivergencePosterior
from onedraw.mechanisms._chain import GUESS
from onedraw.mechanisms._first_stage import first_stage, has_first_stage
from onedraw.mechanisms._scale import with_floor
from onedraw.mechanisms.base import SOLVED, uncalibrated
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.posterior import Posterior
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.samplers.base import Evidence
from onedraw.types import Array

WIDER = 1.2
"""Proposals are this much wider than the reference."""
MARGIN = 2.0
"""How far the level is above the log weight of the first stage's point, besides the scale of its noise."""
FIRST_CURVATURE = 0.2
"""About that of the convex loss of the first stage, in its linear predictor."""


@dataclass(frozen=True, kw_only=True)
class PerfectDraw(BetaDivergencePosterior, GridMechanism):
    """A draw whose law is known on every data set.

    Args:
        prior_scale: standard deviation of the normal prior of each coefficient, in working units.
        beta: "auto" (the most accurate under a public reference) or a number > 1.
        first_stage: the share of epsilon of a tilted fit, around which proposals are made; 0 proposes from
        the
            prior, which is for a handful of records.
        num_records: a public guess, for the width of the proposals alone, where their number is private.
    """

    prior_scale: float = 3.0
    beta: float | str = "auto"
    first_stage: float = 0.2
    num_records: int | None = None
    calibration: Calibration | None = field(default=None, repr=False, metadata=SOLVED)

    level_part: ClassVar[str | None] = None
    """The option that holds the level's share of epsilon, for draws that need a level."""
    what: ClassVar[str]

    # -- options

    def _check_options(self) -> None:
        positive(prior_scale=self.prior_scale)
        if self.num_records is not None:
            whole(num_records=self.num_records)
        shares = {name: getattr(self, name) for name in ("first_stage", self.level_part) if name}
        for name, share in shares.items():
            if not 0.0 <= share < 1.0:
                raise InvalidInput(
                    f"Expected {name}, a share of epsilon, between 0 and 1, got {name}={share!r}."
                )
        if sum(shares.values()) >= 1.0:
            raise InvalidInput(f"Expected {' and '.join(shares)} to leave a part of epsilon to the draw.")

    def _described(self, model: Any) -> Any:
        return with_floor(model, None, None)

    # -- calibration

    @property
    def _staged(self) -> bool:
        return self.first_stage > 0.0 and has_first_stage(self.model)

    @property
    def _level_share(self) -> float:
        return getattr(self, self.level_part) if self.level_part and self._staged else 0.0

    def _solve(self: Any, request: Request) -> Any:
        terms = {name: value for name, value in request.terms.items() if name not in ("delta", "draws")}
        spent = (self.first_stage if self._staged else 0.0) + self._level_share
        terms["epsilon"] = request.epsilon * (1.0 - spent)
        found = calibrate_loss(self.loss, beta=self.beta, **terms)
        # All of it is the draw's where there is no first stage: then it is of bounded range, which composes.
        width = found.epsilon_per_draw if spent == 0.0 and request.delta == 0.0 else None
        return replace(self, promise=request.guarantee(bounded_range=width), calibration=found)

    @property
    def calibrated(self) -> Calibration:
        """The beta and weight, or an error that says how to get them."""
        if self.calibration is None:
            raise uncalibrated()
        return self.calibration

    def _numbers(self) -> Mapping[str, str | float | None]:
        found = self.calibrated
        return {"family": found.family, "beta": found.beta, "weight": found.weight}

    # -- computation

    def target(self, records: Records) -> Posterior:
        """The posterior of the records, which may not leave."""
        return Posterior(
            loss=self.loss,
            beta=self.calibrated.beta,
            weight=self.calibrated.weight,
            prior=self.prior,
            features=records.features,
            response=records.response,
            fit_intercept=self.model.fit_intercept,
        )

    def _envelope(self, records: Records, rng: np.random.Generator) -> Envelope:
        """Proposals from the prior, or around the first stage."""
        if not self._staged:
            return PriorEnvelope(prior=self.prior, dim=self.model.dim)
        centre, scale, tilt = first_stage(
            self.model,
            records,
            self.guarantee,
            epsilon=self.guarantee.epsilon * self.first_stage,
            norm=None,
            prior_scale=self.prior_scale,
            rng=rng,
        )
        noise = self.prior.noise
        if noise is not None:
            centre = np.append(centre, math.log(max(scale - noise.floor, 0.1 * noise.floor)))
        return StudentEnvelope(centre=centre, scales=self._scales(tilt), prior=self.prior)

    def _scales(self, tilt: float) -> Array:
        """Those of the reference posterior and of the first stage's noise, together."""
        model, shape = self.model, self.shape
        known = shape.num_records if shape is not None and self.guarantee.num_records_is_public else None
        n, q = known or self.num_records or GUESS, model.family.num_predictors
        coefficients, intercepts = q * model.num_features, q * int(model.fit_intercept)
        sds = reference_sds(
            curvature=reference_curvature(model.family, self.calibrated.beta),
            weight=self.calibrated.weight,
            num_records=n,
            coefficients=coefficients,
            intercepts=intercepts,
            prior_scale=self.prior_scale,
            others=int(model.has_scale),
        )
        spread = np.concatenate(
            [np.full(coefficients, SPREAD), np.ones(intercepts), np.ones(int(model.has_scale))]
        )
        first = np.minimum(tilt / (n * FIRST_CURVATURE * spread), self.prior_scale)
        return np.asarray(WIDER * np.sqrt(np.square(sds) + np.square(first)))

    def acceptance(self, records: Records, rng: np.random.Generator) -> Acceptance:
        """The proposals, their level, and the probability of accepting each; it looks at the records."""
        target, envelope = self.target(records), self._envelope(records, rng)
        lower = self.loss.loss_bounds(self.calibrated.beta).lower
        shift = target.weight * target.num_records * lower
        accept = Acceptance(target=target, envelope=envelope, log_level=0.0, shift=shift)
        if not isinstance(envelope, StudentEnvelope) or not self._level_share:
            return accept
        # One person moves the log weight at a point by half of the draw's range, or by all of it.
        moved = self.calibrated.epsilon_per_draw
        moved *= 0.5 if self.guarantee.neighbours == "replace_one" else 1.0
        spread = moved / (self.guarantee.epsilon * self._level_share)
        level = float(accept.log_weight(envelope.centre[None, :])[0]) + laplace(spread, rng)
        return replace(accept, log_level=level + spread + MARGIN)

    @abstractmethod
    def _draw(self, records: Records, rng: np.random.Generator) -> Array:
        """One draw (p,) in working coordinates."""

    def _values(self, records: Records, rng: np.random.Generator) -> tuple[Array, Evidence]:
        values = self._draw(records, rng)[None, :].copy()
        if self.prior.noise is not None:
            values[:, -1] = self.prior.noise.scale(values[:, -1])
        return values, Evidence(level="accounted", statement=self._statement)

    @property
    def _statement(self) -> str:
        return f"{self.what}; its law is known on every data set, and nothing rests on a sampler."


@dataclass(frozen=True, kw_only=True)
class DefendedDraw(PerfectDraw):
    """A draw with a level, and a defence that returns some proposals as they are.

    Args:
        level_share: the share of epsilon that the level takes.
        defence: the share of rounds that return a proposal as it is.
    """

    level_part: ClassVar[str | None] = "level_share"

    level_share: float = 0.1
    defence: float = 1e-3

    def _check_options(self) -> None:
        super()._check_options()
        if not 0.0 < self.defence < 1.0:  # without a defence nobody knows when a draw will end
            raise InvalidInput(
                f"Expected defence, the share of rounds that return a proposal as it is, between 0 and 1, "
                f"got defence={self.defence!r}."
            )
