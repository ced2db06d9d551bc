# SPDX-License-Identifier: Apache-2.0
"""Release draws from the beta-divergence posterior of a regression: the paper's method.

Guarantee:
    epsilon-DP (pure) for one exact draw, with epsilon = 2 w S under replace-one and w R under add/remove
    [proof: ``onedraw.privacy.calibration``]. Exactness is the sampler's business, and the release states the
    evidence for it.

Edge cases:
    n = 0 releases a draw from the prior. Nothing is computed from the data before calibration has fixed beta
    and the weight.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("x",)), num_records=200)
>>> mechanism = OnePosterior().calibrate(Request(epsilon=1.0), shape)
>>> mechanism.guarantee.epsilon, mechanism.calibrated.beta, mechanism.calibrated.weight
(1.0, 2.0, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from onedraw._validate import one_of, positive
from onedraw.advice import Set
from onedraw.errors import InvalidInput
from onedraw.mechanisms._beta_posterior import BetaDivergencePosterior
from onedraw.mechanisms._posterior_draw import PosteriorDraw
from onedraw.mechanisms._scale import with_floor, working_scale
from onedraw.mechanisms.base import SOLVED, Requirements, uncalibrated
from onedraw.posterior import Posterior
from onedraw.priors import Prior, ScalePrior
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.request import Request
from onedraw.samplers import BoxSampler, GridSampler, RejectionSampler, Sampler
from onedraw.tables.base import Table
from onedraw.uncertainty import DrawsChoice, choose_draws

EVIDENCE = ("searched", "proved", "enumerated")
PROVED_BOX = 6.0
"""Half-width, in prior scales, of the public box to which evidence="proved" truncates the prior."""
PROVED_CEILING = 1000.0
"""Largest residual scale under evidence="proved", in multiples of its floor."""
PUBLIC_WORK = 1 << 21
PRIVATE_RECORDS = PUBLIC_WORK // 256
"""What the number of proposals is based on where the number of records is private."""
FEWEST_PROPOSALS, MOST_PROPOSALS = 64, 1024


@dataclass(frozen=True, kw_only=True)
class OnePosterior(BetaDivergencePosterior, PosteriorDraw):
    """Draws from prior * exp(-weight * sum of beta-divergence losses).

    Args:
        beta: "auto" (the most accurate under a public reference), "paper" (weight 1), or a number > 1.
        weight: of the loss; by default it follows from epsilon and beta.
        prior_scale: standard deviation of the normal prior of each coefficient, in working units.
        evidence: "searched" (exact rejection under a bound that was searched for); "proved" (branch and
            bound on a public box, for a few parameters); or "enumerated" (every point of a public grid, for
            up to about three parameters).
        noise_floor: the smallest residual scale that a model with one allows, in units of the response; 0.1
            working units by default. It bounds the density, and with it the loss.
        noise_scale: a public guess of the residual scale in units of the response, used only to choose beta.
        sampler: an exact sampler with settings of its own, in place of the one that ``evidence`` names.
    """

    name: ClassVar[str] = "one_posterior"
    requirements: ClassVar[Requirements] = Requirements(
        delta="composition",
        draws="auto",
        exact_draw=True,
        prefer="no bounds on the data, robust to outliers; the paper's method",
    )

    beta: float | str = "auto"
    weight: float | None = None
    evidence: Literal["searched", "proved", "enumerated"] = "searched"
    noise_floor: float | None = None
    noise_scale: float | None = None
    sampler: Sampler | None = None
    calibration: Calibration | None = field(default=None, repr=False, metadata=SOLVED)
    draws_choice: DrawsChoice | None = field(default=None, repr=False, metadata=SOLVED)

    # -- options

    def _check_options(self) -> None:
        super()._check_options()
        one_of(EVIDENCE, evidence=self.evidence)
        for name in ("noise_floor", "noise_scale"):
            if getattr(self, name) is not None:
                positive(**{name: getattr(self, name)})
        if self.sampler is not None and self.evidence != "searched":
            raise InvalidInput(
                f"A sampler brings its own evidence, got evidence={self.evidence!r} beside "
                f"sampler={type(self.sampler).__name__}(...). Leave one of them out."
            )

    def _described(self, model: Any) -> Any:
        return with_floor(model, self.noise_floor, self.noise_scale)

    def _check_request(self, request: Request) -> None:
        super()._check_request(request)
        if request.draws == "auto" and not self.drawn_by.continuous:
            raise InvalidInput(
                "Draws are chosen for intervals, and those of an enumerated grid are too coarse for them.",
                advice=[
                    Set("draws", note=" to a whole number"),
                    Set("evidence", "searched", of="OnePosterior"),
                ],
            )

    # -- calibration

    def _solve(self, request: Request) -> OnePosterior:
        choice = self._choose_draws(request) if request.draws == "auto" else None
        request = request if choice is None else replace(request, draws=choice.draws)
        calibration = calibrate_loss(
            self.loss, beta=self.beta, weight=self.weight, noise_scale=self._noise_scale, **request.terms
        )
        return replace(self, promise=calibration.guarantee, calibration=calibration, draws_choice=choice)

    def _choose_draws(self, request: Request) -> DrawsChoice:
        assert self.shape is not None
        terms = {name: value for name, value in request.terms.items() if name != "draws"}
        return choose_draws(
            self.model.family,
            **terms,
            num_features=self.model.num_features,
            num_records=self.shape.num_records if request.num_records_is_public else None,
            fit_intercept=self.model.fit_intercept,
            prior_scale=self.prior_scale,
            beta=self.beta,
            weight=self.weight,
            noise_scale=self._noise_scale,
        )

    @property
    def calibrated(self) -> Calibration:
        """The calibration, or an error that says how to get one."""
        if self.calibration is None:
            raise uncalibrated()
        return self.calibration

    @property
    def _noise_scale(self) -> float | None:
        return working_scale(self.model, self.noise_scale)

    # -- the posterior

    @property
    def prior(self) -> Prior:
        """Normal coefficients; where the model has one, an inverse-gamma squared scale above its floor."""
        proved, floor, noise = self.evidence == "proved", self.model.scale_floor, None
        if floor is not None:
            noise = ScalePrior(floor=floor, ceiling=PROVED_CEILING * floor if proved else math.inf)
        return Prior(scale=self.prior_scale, noise=noise, box=PROVED_BOX if proved else None)

    @property
    def drawn_by(self) -> Sampler:
        """The sampler given, or the one that the evidence asks for."""
        if self.sampler is not None:
            return self.sampler
        if self.evidence == "enumerated":
            return GridSampler()
        if self.evidence == "proved":
            return BoxSampler()
        # The evidence quotes this number, so it may depend on n only where n is public.
        known = self.shape is not None and self.promise is not None and self.promise.num_records_is_public
        records = self.shape.num_records if known and self.shape is not None else None
        proposals = PUBLIC_WORK // max(1, PRIVATE_RECORDS if records is None else records)
        return RejectionSampler(num_proposals=min(max(proposals, FEWEST_PROPOSALS), MOST_PROPOSALS))

    @property
    def reads_anywhere(self) -> bool:
        """Sums and a look, unless every cell of a box or a grid asks for sums of its own."""
        return self.evidence == "searched" and self.sampler is None

    def posterior(self, records: Table) -> Posterior:
        """The posterior of the records, which may not leave."""
        return Posterior(
            loss=self.loss,
            beta=self.calibrated.beta,
            weight=self.calibrated.weight,
            prior=self.prior,
            table=records,
            fit_intercept=self.model.fit_intercept,
        )

    def _numbers(self) -> Mapping[str, str | float | None]:
        found = self.calibrated
        return {
            "family": found.family,
            "beta": found.beta,
            "weight": found.weight,
            "prior_box": self.prior.box,
        }
