# SPDX-License-Identifier: Apache-2.0
"""What mechanisms that draw from a posterior by Markov chains share: the price of the chain's error.

Guarantee:
    That of exact draws from prior * exp(-weight * sum of losses): epsilon = 2 w S under replace-one, w R
    under add/remove, with the certificate of the loss [``onedraw.losses.beta_divergence``], given that the
    chains have converged. Let gamma be the larger of ``assume_sampler_error`` and of what the sampler states
    of itself (``stated_error``: nothing for ``NutsSampler``, ``sampler_error`` for ``CoupledSampler``). With
    gamma > 0 the guarantee is given only that each draw's law is within gamma of the posterior in total
    variation, for every data set, and delta grows by (1 + e^epsilon) k gamma for k draws
    [proof: ``onedraw.samplers.nuts``]. Such a draw has no bounded range, so the ledger is not told of one.

    *Why a stated error is charged.* A release that states "within 0.3 in total variation" and delta = 0
    contradicts itself: there are laws within 0.3 of the exact ones that break any pure guarantee, and the
    proof's bound is attained by some of them. So nobody can assume less than the sampler itself states; who
    wants to pay less must have it show less. A price of 1 or more promises nothing and is refused.

Edge cases:
    k draws need k chains: the guarantee is of independent draws, and the states of one chain are not.

>>> priced(Guarantee(epsilon=1.0, bounded_range=1.0), sampler_error=1e-6)
Guarantee(epsilon=1.0, delta=3.718...e-06, neighbours='replace_one', ..., bounded_range=None)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from onedraw._validate import positive, probability
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.losses import Loss
from onedraw.mechanisms.base import SOLVED, uncalibrated
from onedraw.mechanisms.drawing import SamplerMechanism
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.guarantee import Guarantee
from onedraw.privacy.request import Request
from onedraw.samplers.base import Draws
from onedraw.samplers.coupling import CoupledSampler
from onedraw.samplers.nuts import NutsSampler
from onedraw.types import Array

ChainSampler: TypeAlias = NutsSampler | CoupledSampler
C = TypeVar("C", bound="ChainDraw")

CONVERGED = (
    "The chain has converged: the law of the released draw is the posterior, for every data set. Diagnostics "
    "support this for the data at hand; they do not prove it."
)
UNPREDICTABLE = "The chain's random numbers (Threefry under a secret 64-bit key) cannot be predicted."


def priced(guarantee: Guarantee, sampler_error: float) -> Guarantee:
    """The guarantee of draws each within ``sampler_error`` of the exact law in total variation."""
    if sampler_error == 0.0:
        return guarantee
    factor = 1.0 + math.exp(min(guarantee.epsilon, 700.0))
    delta = guarantee.delta + factor * guarantee.draws * sampler_error
    if delta >= 1.0:
        raise CalibrationError(
            f"A sampler error of {sampler_error:g} at epsilon={guarantee.epsilon:g} gives "
            f"delta={delta:.3g}, which promises nothing. Expected (1 + exp(epsilon)) * draws * "
            "sampler error far below 1: lower epsilon, assume a smaller error, or have the sampler show one.",
            requested=guarantee.epsilon,
        )
    # Rounded up: the sum of floats may fall short of the sum.
    return replace(guarantee, delta=math.nextafter(delta * (1.0 + 1e-15), 1.0), bounded_range=None)


def chain_assumptions(sampler_error: float) -> tuple[str, ...]:
    """What a release that rests on Markov chains takes on trust."""
    if sampler_error == 0.0:
        return CONVERGED, UNPREDICTABLE
    bounded = (
        f"The law of each released draw is within {sampler_error:g} of the posterior in total variation, for "
        "every data set; delta includes the price of that error."
    )
    return bounded, UNPREDICTABLE


@dataclass(frozen=True, kw_only=True)
class ChainDraw(SamplerMechanism):
    """Draws from a beta-divergence posterior by Markov chains, calibrated before any data are seen.

    Args:
        beta: "auto" (the most accurate under a public reference), "paper" (weight 1), or a number > 1.
        weight: of the loss; by default it follows from epsilon and beta.
        noise_scale: a public guess of the residual scale in units of the response, used only to choose beta.
        sampler: an ``onedraw.nn.NutsSampler`` with other settings than the default ones, or an
            ``onedraw.nn.CoupledSampler``.
        assume_sampler_error: gamma, an upper bound on the total-variation distance of a draw from the
            posterior that you are ready to assume; it adds (1 + exp(epsilon)) * draws * gamma to delta. 0
            assumes convergence.
    """

    beta: float | str = "auto"
    weight: float | None = None
    noise_scale: float | None = None
    sampler: Any = None
    """A ``ChainSampler``; None for the default ``NutsSampler``."""
    assume_sampler_error: float = 0.0
    calibration: Calibration | None = field(default=None, repr=False, metadata=SOLVED)

    # -- what a posterior adds

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """The loss of one record."""

    @property
    @abstractmethod
    def _noise_scale(self) -> float | None:
        """The guess of the residual scale in the units of the loss."""

    @abstractmethod
    def posterior(self, records: Any) -> Any:
        """The posterior of the records, for the sampler; it may not leave."""

    @abstractmethod
    def _parameters(self, target: Any, positions: Array) -> Array:
        """Working parameters (k, p), as they are released, from positions of the chains."""

    # -- options

    def _check_options(self) -> None:
        probability(assume_sampler_error=self.assume_sampler_error)
        if self.noise_scale is not None:
            positive(noise_scale=self.noise_scale)
        if self.sampler is not None and not isinstance(self.sampler, NutsSampler | CoupledSampler):
            raise InvalidInput(
                "Expected sampler to be an onedraw.nn.NutsSampler, an onedraw.nn.CoupledSampler or None, got "
                f"{type(self.sampler).__name__}."
            )

    def _check_model(self, model: Any) -> None:
        self.drawn_by.require()

    def _check_request(self, request: Request) -> None:
        super()._check_request(request)
        chains = self.drawn_by.chains
        if isinstance(request.draws, int) and request.draws > chains:
            raise InvalidInput(
                f"Expected at most as many draws as chains ({chains}), got draws={request.draws}: draws of "
                "one chain are not independent. Raise the sampler's chains."
            )

    # -- calibration

    def _solve(self: C, request: Request) -> C:
        calibration = calibrate_loss(
            self.loss, beta=self.beta, weight=self.weight, noise_scale=self._noise_scale, **request.terms
        )
        promise = priced(calibration.guarantee, self.sampler_error)
        return replace(self, promise=promise, calibration=calibration)

    @property
    def calibrated(self) -> Calibration:
        """The calibration, or an error that says how to get one."""
        if self.calibration is None:
            raise uncalibrated()
        return self.calibration

    @property
    def drawn_by(self) -> ChainSampler:
        """The sampler given, or the no-U-turn sampler with its defaults."""
        return NutsSampler() if self.sampler is None else self.sampler

    @property
    def sampler_error(self) -> float:
        """gamma: what delta pays for, never less than what the sampler states of itself."""
        return max(float(self.assume_sampler_error), self.drawn_by.stated_error)

    # -- the draw

    def draws(self, records: Any, num_draws: int, rng: np.random.Generator) -> Draws:
        """Draws of the released parameters: private, not on the grid."""
        target = self.posterior(records)
        drawn = self.drawn_by.sample(target, num_draws, rng)
        return replace(drawn, values=self._parameters(target, drawn.values))

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the chains leave to be assumed."""
        return chain_assumptions(self.sampler_error)

    def _numbers(self) -> Mapping[str, str | float | None]:
        found = self.calibrated
        return {
            "family": found.family,
            "beta": found.beta,
            "weight": found.weight,
            "sampler_error": self.sampler_error,
            "exact_delta": found.guarantee.delta,
        }
