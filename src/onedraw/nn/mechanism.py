# SPDX-License-Identifier: Apache-2.0
"""Release draws from the posterior of a neural network: ``OnePosteriorSample`` with another posterior.

Guarantee:
    That of ``OnePosteriorSample`` (epsilon = 2 w S under replace-one, w R under add/remove, with the family's
    certificate), given that the chains have converged; with ``sampler_error`` = gamma > 0, given only that
    each draw's law is within gamma of the posterior in total variation, at delta + (1 + e^epsilon) k gamma
    [proof: ``onedraw.samplers.nuts``]. Such a draw has no bounded range, so the ledger is not told of one.

Edge cases:
    k draws need k chains: the guarantee is of independent draws.

>>> priced(Guarantee(epsilon=1.0, bounded_range=1.0), sampler_error=1e-6)
Guarantee(epsilon=1.0, delta=3.718...e-06, neighbours='replace_one', ..., bounded_range=None)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from onedraw._validate import probability, whole
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.mechanisms import OnePosteriorSample, Records
from onedraw.mechanisms._base import Requirements
from onedraw.model import NetworkModel
from onedraw.nn.networks import NetworkPosterior, refuse_other_model
from onedraw.privacy.guarantee import Guarantee
from onedraw.samplers.coupling import CoupledSampler
from onedraw.samplers.nuts import NutsSampler

ChainSampler: TypeAlias = NutsSampler | CoupledSampler

CONVERGED = (
    "The chain has converged: the law of the released draw is the posterior, for every data set. Diagnostics "
    "support this for the data at hand; they do not prove it."
)
UNPREDICTABLE = "The chain's random numbers (Threefry under a secret 64-bit key) cannot be predicted."


def priced(guarantee: Guarantee, sampler_error: float) -> Guarantee:
    """The guarantee of draws each within ``sampler_error`` of the exact law in total variation."""
    gamma = probability(assume_sampler_error=sampler_error)
    if gamma == 0.0:
        return guarantee
    factor = 1.0 + math.exp(min(guarantee.epsilon, 700.0))
    delta = guarantee.delta + factor * guarantee.draws * gamma
    if delta >= 1.0:
        raise CalibrationError(
            f"assume_sampler_error={gamma:g} at epsilon={guarantee.epsilon:g} gives "
            f"delta={delta:.3g}, which promises nothing. Expected (1 + exp(epsilon)) * draws * "
            "assume_sampler_error far below 1: lower epsilon, or assume a smaller error.",
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
class NetworkSample(OnePosteriorSample):
    """Draws of a network's parameters, calibrated before any data are seen."""

    name: ClassVar[str] = "network_posterior_sample"
    requirements: ClassVar[Requirements] = Requirements(
        kinds=(NetworkModel.kind,), delta="composition", exact_draw=True, prefer="for neural networks"
    )

    model: NetworkModel
    sampler: Any
    """A ``ChainSampler``."""
    sampler_error: float = 0.0

    def calibrate(self, *, epsilon: float, **options: Any) -> NetworkSample:
        """The same mechanism with beta and weight set for ``epsilon``; options as in ``calibrate_loss``."""
        calibrated = super().calibrate(epsilon=epsilon, **options)
        assert isinstance(calibrated, NetworkSample)
        draws = whole(draws=calibrated.calibrated.draws)
        if draws > self.sampler.chains:
            raise InvalidInput(
                f"Expected at most as many draws as chains ({self.sampler.chains}), got draws={draws}: draws "
                "of one chain are not independent. Raise the sampler's chains."
            )
        return calibrated

    @property
    def guarantee(self) -> Guarantee:
        """What a release promises, with the price of the sampler's assumed error."""
        return priced(super().guarantee, self.sampler_error)

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return chain_assumptions(self.sampler_error)

    def check(self, data: Records, *, model: Any) -> None:
        """Refuse what public facts alone rule out, before any budget is spent."""
        refuse_other_model(type(self).__name__, self.model, model)
        super().check(data, model=model)

    def posterior(self, data: Records, *, fit_intercept: bool = True) -> Any:
        """The posterior of the data. Private."""
        self.loss.family.check_response(data.response)
        calibration = self.calibrated
        return NetworkPosterior(
            model=self.model,
            loss=self.loss,
            beta=calibration.beta,
            weight=calibration.weight,
            prior=self.prior,
            features=np.asarray(data.features, dtype=np.float64),
            response=data.response,
        )

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {**super()._numbers(), "sampler_error": float(self.sampler_error)}
