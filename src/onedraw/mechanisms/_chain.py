# SPDX-License-Identifier: Apache-2.0
"""What mechanisms that release states of a private Markov chain share: target, first stage, tuning, grid.

The chain is private as a whole, step by step, so nothing is assumed about its convergence: a chain that has
not come far is as private as one that has, and less accurate. Of a chain that is private as a whole several
states may be released at no further cost (``draws``).

*A first stage* finds where to start: the tilted fit with a share of epsilon, or a point that is public
already (``start``, for instance a release made before). The chain is private given what it starts from, so
the epsilons add, and the ledger is charged once, for both.

*The weight* of the loss is 1 where the budget pays for a chain that forgets its start, and as large as
allows that elsewhere (``onedraw.chains.tuning``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive, whole
from onedraw.chains.accounting import Sensitivity
from onedraw.chains.engine import Trajectory
from onedraw.chains.tuning import (
    ENOUGH,
    Candidate,
    Tuned,
    kept_states,
    reference_curvature,
    reference_sds,
    search,
)
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.mechanisms._beta_posterior import BetaDivergencePosterior
from onedraw.mechanisms._bounds import bounded_design, clipping_note
from onedraw.mechanisms._first_stage import first_stage, has_first_stage
from onedraw.mechanisms._scale import with_floor
from onedraw.mechanisms.base import SOLVED, uncalibrated
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.posterior import Posterior
from onedraw.privacy.calibration import calibrate_loss
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.samplers.base import Evidence
from onedraw.types import Array

GUESS = 1000
"""The number of records that a chain is tuned for where that number is private and no guess is given."""


@dataclass(frozen=True, kw_only=True)
class ChainMechanism(BetaDivergencePosterior, GridMechanism):
    """States of a private Markov chain on the beta-divergence posterior.

    Args:
        prior_scale: standard deviation of the normal prior of each coefficient, in working units.
        beta: "auto" (as for one exact draw at this epsilon) or a number > 1.
        weight: of the loss; by default 1, or as large as gives a chain that forgets its start.
        feature_norm: a bound on the length of a feature vector, the intercept's 1 included; longer ones are
            shrunk. It makes short steps cheap.
        first_stage: the share of epsilon that a tilted fit takes to find the start; 0 starts at zero.
        start: a public point to start from, in working units, in place of a first stage.
        steps: their number, in place of as many as the budget pays for.
        most_passes: the largest number of passes over the records.
        num_records: a public guess, for tuning alone, where the number of records is private.
    """

    prior_scale: float = 3.0
    beta: float | str = "auto"
    weight: float | None = None
    feature_norm: float | None = None
    first_stage: float = 0.2
    start: tuple[float, ...] | None = None
    steps: int | None = None
    most_passes: int = 2000
    num_records: int | None = None
    tuned: Tuned | None = field(default=None, repr=False, metadata=SOLVED)
    chosen_beta: float | None = field(default=None, repr=False, metadata=SOLVED)

    what: ClassVar[str]
    """What is done to the records, in a clause of the evidence."""

    # -- options

    def _check_options(self) -> None:
        positive(prior_scale=self.prior_scale)
        whole(most_passes=self.most_passes)
        for name in ("weight", "feature_norm"):
            if getattr(self, name) is not None:
                positive(**{name: getattr(self, name)})
        for name in ("steps", "num_records"):
            if getattr(self, name) is not None:
                whole(**{name: getattr(self, name)})
        if not 0.0 <= self.first_stage < 1.0:
            raise InvalidInput(
                "Expected first_stage, a share of epsilon, between 0 and 1, got "
                f"first_stage={self.first_stage!r}."
            )

    def _described(self, model: Any) -> Any:
        return with_floor(model, None, None)

    def _check_model(self, model: Any) -> None:
        if self.start is not None and len(self.start) != model.num_location:
            raise InvalidInput(
                f"Expected start to have the {model.num_location} coefficients and intercepts of the model, "
                f"got {len(self.start)} numbers."
            )

    # -- what one person can do

    @property
    def _norm(self) -> float | None:
        """The declared length of a feature vector; with declared ranges of the features, that of the cube."""
        if self.feature_norm is not None or self.model.feature_bounds is None:
            return self.feature_norm
        return math.sqrt(max(1, self.model.num_features + int(self.model.fit_intercept)))

    def sensitivity(self, weight: float, beta: float, request: Request) -> Sensitivity:
        """How far one person can move the log ratio of a step [proof: ``onedraw.chains.accounting``]."""
        bounds, norm = self.loss.loss_bounds(beta), self._norm
        replaced = request.neighbours == "replace_one"
        # The derivative in the coordinate of a residual scale is not bounded here: widths alone count.
        known = norm is not None and not self.model.has_scale
        slope = self.model.family.slope_bound(beta) * (norm or 0.0) if known else math.inf
        return Sensitivity(
            multiple=(2.0 if replaced else 1.0) * request.rows_per_person,
            weight=weight,
            width=bounds.observation_sensitivity if replaced else bounds.parameter_range,
            slope=slope,
        )

    # -- calibration

    @abstractmethod
    def _candidates(self, sds: Array, moved: Sensitivity, request: Request) -> Sequence[Candidate]:
        """Settings to choose from, on a reference with these standard deviations."""

    @abstractmethod
    def _run(self, target: Any, start: Array, request: Request, rng: np.random.Generator) -> Trajectory:
        """Chains (m, p) from the start."""

    def _solve(self: Any, request: Request) -> Any:
        terms = {name: value for name, value in request.terms.items() if name not in ("draws", "delta")}
        beta = calibrate_loss(self.loss, beta=self.beta, **terms).beta
        of_chain, known = self._of_chain(request), replace(self, chosen_beta=beta)

        def candidates(weight: float) -> Sequence[Candidate]:
            moved = self.sensitivity(weight, beta, request)
            return known._candidates(self._reference(weight, beta, request), moved, of_chain)  # type: ignore[no-any-return]

        draws = self._draws(request)
        tuned = search(
            candidates,
            weight=self.weight,
            wanted=ENOUGH,
            steps=self.steps,
            most_passes=self.most_passes,
        )
        if tuned.steps < draws:
            raise CalibrationError(
                f"{type(self).__name__} can make {tuned.steps} steps within epsilon={request.epsilon:g} "
                f"here, too few for {draws} state{'s' if draws > 1 else ''}. Use a smaller weight, or a "
                "larger epsilon.",
                requested=request.epsilon,
            )
        return replace(known, promise=request.guarantee(draws=draws), tuned=tuned)

    def _reference(self, weight: float, beta: float, request: Request) -> Array:
        return reference_sds(
            curvature=reference_curvature(self.model.family, beta),
            weight=weight,
            num_records=self._guess(request),
            prior_scale=self.prior_scale,
            **self._parameters,
        )

    def _guess(self, request: Request) -> int:
        """The number of records where it is public, and a guess elsewhere."""
        shape = self.shape
        known = shape.num_records if shape is not None and request.num_records_is_public else None
        return known or self.num_records or GUESS

    @property
    def _parameters(self) -> dict[str, int]:
        """How many parameters there are of each kind."""
        model, predictors = self.model, self.model.family.num_predictors
        return {
            "coefficients": predictors * model.num_features,
            "intercepts": predictors * int(model.fit_intercept),
            "others": int(model.has_scale),
        }

    @property
    def _staged(self) -> bool:
        """Whether a first stage is paid for."""
        return self.start is None and self.first_stage > 0.0 and has_first_stage(self.model)

    def _of_chain(self, request: Request) -> Request:
        """What the first stage leaves to the chain."""
        return (
            replace(request, epsilon=request.epsilon * (1.0 - self.first_stage)) if self._staged else request
        )

    @property
    def tuning(self) -> Tuned:
        """What was chosen, or an error that says how to have it chosen."""
        if self.tuned is None:
            raise uncalibrated()
        return self.tuned

    @property
    def outlook(self) -> str:
        """What to expect of the chain, for the plan."""
        found = self.tuning
        return (
            f"About {found.steps} steps with weight {found.weight:.3g}, worth about {found.effective:.3g} "
            "independent states if the data are like the public reference."
        )

    def _numbers(self) -> Mapping[str, str | float | None]:
        found = self.tuning
        return {
            "family": self.model.family.name,
            "beta": self.chosen_beta,
            "weight": found.weight,
            "expected_steps": found.steps,
            "expected_states": found.effective,
        }

    # -- computation

    def target(self, records: Records) -> Posterior:
        """The posterior of the records, held to the declared bound; it may not leave."""
        features, fit_intercept, norm = records.features, self.model.fit_intercept, self._norm
        if norm is not None:
            features = bounded_design(features, fit_intercept=fit_intercept, feature_norm=norm)
            fit_intercept = False  # its column is part of the clipped design
        assert self.chosen_beta is not None
        return Posterior(
            loss=self.loss,
            beta=self.chosen_beta,
            weight=self.tuning.weight,
            prior=self.prior,
            features=features,
            response=records.response,
            fit_intercept=fit_intercept,
        )

    def _started(self, records: Records, rng: np.random.Generator) -> Array:
        """The start (p,): public, found by the first stage, or zero."""
        model, location = self.model, np.zeros(self.model.num_location)
        if self.start is not None:
            location = np.array(self.start, dtype=np.float64)
        elif self._staged:
            location, _, _ = first_stage(
                model,
                records,
                self.guarantee,
                epsilon=self.guarantee.epsilon * self.first_stage,
                norm=self._norm,
                prior_scale=self.prior_scale,
                rng=rng,
            )
        noise = self.prior.noise
        return location if noise is None else np.append(location, math.log(noise.floor))

    def _values(self, records: Records, rng: np.random.Generator) -> tuple[Array, Evidence]:
        start = self._started(records, rng)
        chain = self._run(self.target(records), start[None, :], self._request(), rng)
        values = chain.states[kept_states(int(chain.steps[0]), self.guarantee.draws), 0]
        if self.prior.noise is not None:
            values[:, -1] = self.prior.noise.scale(values[:, -1])
        return values, Evidence(level="accounted", statement=self._statement)

    def _request(self) -> Request:
        """What the chain may spend."""
        guarantee = self.guarantee
        return self._of_chain(
            Request(
                epsilon=guarantee.epsilon,
                delta=guarantee.delta,
                neighbours=guarantee.neighbours,
                rows_per_person=guarantee.rows_per_person,
                draws=guarantee.draws,
            )
        )

    @property
    def _moved(self) -> Sensitivity:
        assert self.chosen_beta is not None
        return self.sensitivity(self.tuning.weight, self.chosen_beta, self._request())

    @property
    def _statement(self) -> str:
        return (
            f"{self.what}; the privacy of every step is counted, and nothing rests on the convergence of the "
            "chain."
        )

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        norm = self._norm
        return () if norm is None else (clipping_note(norm),)
