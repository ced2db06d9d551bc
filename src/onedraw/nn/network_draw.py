# SPDX-License-Identifier: Apache-2.0
"""Release draws from the posterior of a neural network under the beta-divergence loss.

Guarantee:
    epsilon-DP for one draw, with epsilon = 2 w S under replace-one and w R under add/remove, given that the
    chains have converged; ``onedraw.nn.chain_draw`` has the price of an error of theirs. The loss of a record
    is bounded whatever the network says of it [``onedraw.nn.networks``], so neither gradients nor features
    are clipped, and nothing is asked of depth, width, activation or convergence of an optimiser.

Edge cases:
    n = 0 releases a draw from the prior. The residual scale of a regression is never below its floor.

>>> import pytest; _ = pytest.importorskip("blackjax")
>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.privacy import Request
>>> model = NetworkModel(family=Bernoulli(), features=("x",), hidden_layer_sizes=(3,), classes=(0, 1))
>>> mechanism = NetworkDraw().calibrate(Request(epsilon=1.0), Shape(model=model))
>>> mechanism.guarantee.epsilon, mechanism.calibrated.beta, mechanism.calibrated.weight
(1.0, 2.0, 0.5)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from onedraw._validate import positive
from onedraw.mechanisms._beta_posterior import BetaDivergencePosterior
from onedraw.mechanisms._scale import with_floor, working_scale
from onedraw.mechanisms.base import Requirements
from onedraw.model import NetworkModel
from onedraw.nn.chain_draw import ChainDraw
from onedraw.nn.likelihood import known_loss
from onedraw.nn.networks import NetworkPosterior
from onedraw.records import Records
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class NetworkDraw(BetaDivergencePosterior, ChainDraw):
    """Draws of a network's weights, biases and residual scale.

    Args:
        prior_scale: standard deviation of the normal prior of every weight and bias, in working units.
        noise_floor: the smallest residual scale of a regression, in units of the response; 0.1 working units
            by default. It bounds the density, and with it the loss.

    The others are those of every draw by chains: ``beta``, ``weight``, ``noise_scale``, ``sampler`` and
    ``assume_sampler_error`` (see ``onedraw.nn.chain_draw.ChainDraw``).
    """

    name: ClassVar[str] = "network_draw"
    requirements: ClassVar[Requirements] = Requirements(
        forms=(NetworkModel.form,),
        delta="composition",
        draws="several",
        exact_draw=True,
        prefer="neural networks without clipping; the paper's method",
    )

    prior_scale: float = 1.0
    noise_floor: float | None = None

    def _check_options(self) -> None:
        super()._check_options()
        positive(prior_scale=self.prior_scale)
        if self.noise_floor is not None:
            positive(noise_floor=self.noise_floor)

    def _described(self, model: Any) -> Any:
        return with_floor(model, self.noise_floor, self.noise_scale)

    def _check_model(self, model: Any) -> None:
        known_loss(model.family)
        super()._check_model(model)

    @property
    def _noise_scale(self) -> float | None:
        return working_scale(self.model, self.noise_scale)

    def posterior(self, records: Records) -> NetworkPosterior:
        """The posterior of the records, which may not leave."""
        found = self.calibrated
        return NetworkPosterior(
            model=self.model, beta=found.beta, weight=found.weight, prior=self.prior, records=records
        )

    def _parameters(self, target: NetworkPosterior, positions: Array) -> Array:
        if self.prior.noise is None:
            return positions
        values = positions.copy()
        values[:, -1] = self.prior.noise.scale(values[:, -1])
        return values
