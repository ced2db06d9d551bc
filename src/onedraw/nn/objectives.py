# SPDX-License-Identifier: Apache-2.0
"""What noisy gradients minimise: the loss of single records under a network, and what involves no data.

``Objective`` is what ``onedraw.nn.training`` asks for; ``NetworkLoss`` is the loss of one record; and
``PointObjective`` its mean over the records, for one network. Objectives are frozen and compare by value, so
that equal ones share compiled code.

>>> from onedraw.families import Bernoulli
>>> model = NetworkModel(family=Bernoulli(), features=("a",), hidden_layer_sizes=(), classes=(0, 1))
>>> PointObjective(loss=NetworkLoss.of(model, None)) == PointObjective(loss=NetworkLoss.of(model, None))
True
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from onedraw.families import Family
from onedraw.model import Layers, NetworkModel
from onedraw.nn.likelihood import known_loss
from onedraw.nn.networks import NetworkDensity
from onedraw.samplers.nuts import above
from onedraw.types import Array


class Objective(Hashable, Protocol):
    """What is minimised: the mean of ``record_loss`` plus ``public_loss``."""

    @property
    def shared(self) -> int:
        """How many standard normal numbers all records of a step share."""

    def record_loss(self, parameters: Any, features: Any, response: Any, shared: Any) -> Any:
        """The loss of one record: features (d,), a scalar response."""

    def public_loss(self, parameters: Any, shared: Any) -> Any:
        """What involves no data, per record."""

    def project(self, parameters: Any) -> Any:
        """The nearest parameters that are allowed."""


@dataclass(frozen=True, kw_only=True)
class NetworkLoss:
    """The loss of one record under a network: -log f, or the beta-divergence loss if ``beta`` is given.

    The residual scale of a regression enters as floor + exp(u), u the last parameter.
    """

    layers: Layers
    activation: str
    family: Family
    beta: float | None = None

    @classmethod
    def of(cls, model: NetworkModel, beta: float | None) -> NetworkLoss:
        """The loss of a model's records."""
        return cls(layers=model.layers, activation=model.activation, family=model.family, beta=beta)

    @property
    def size(self) -> int:
        """The number of parameters: weights, biases and, for a regression, u."""
        return self.layers.size + int(self.family.has_scale)

    def __call__(self, theta: Any, features: Any, response: Any) -> Any:
        loss = known_loss(self.family)
        facts = loss.facts(self.family, 2.0 if self.beta is None else self.beta)
        network = NetworkDensity(layers=self.layers, activation=self.activation, family=self.family.name)
        eta = loss.eta(network.outputs(theta, features[:, None])[:, 0], facts)
        scale = above(facts["floor"], theta[-1])[0] if self.family.has_scale else None
        if self.beta is None:
            return loss.log_loss(response, eta, scale, facts)
        return loss.beta_loss(response, eta, scale, self.beta, facts)


@dataclass(frozen=True, kw_only=True)
class PointObjective:
    """The mean loss of one network. ``weight_norm`` bounds the length of the weights of its output."""

    loss: NetworkLoss
    weight_norm: float | None = None
    shared: ClassVar[int] = 0

    def record_loss(self, parameters: Any, features: Any, response: Any, shared: Any) -> Any:
        """The loss of one record."""
        return self.loss(parameters, features, response)

    def public_loss(self, parameters: Any, shared: Any) -> Any:
        """Nothing."""
        return 0.0 * parameters.sum()

    def project(self, parameters: Any) -> Any:
        """The network with the weights of its output shortened to the bound, if there is one."""
        if self.weight_norm is None:
            return parameters
        layers = self.loss.layers
        last = slice(layers.size - layers.hidden[-1] - 1, layers.size - 1)
        length = (parameters[last] ** 2).sum() ** 0.5
        # Never divides by 0, and never lengthens.
        return parameters.at[last].multiply(self.weight_norm / length.clip(min=self.weight_norm))


def initial_weights(model: NetworkModel, rng: np.random.Generator) -> Array:
    """A public random network, (p,): weights of variance 2 (relu) or 1 (tanh) over inputs, biases 0.

    All 0 without hidden layers, where nothing needs to tell units apart. The last entry of a regression is
    u = 0: a scale of one above the floor.
    """
    start = np.zeros(model.dim)
    if not model.hidden_layer_sizes:
        return start
    gain = 2.0 if model.activation == "relu" else 1.0
    for weights, _ in model.layers.unpack(start):  # views
        weights[...] = rng.standard_normal(weights.shape) * math.sqrt(gain / max(1, len(weights)))
    return start
