# SPDX-License-Identifier: Apache-2.0
"""DP-SGD: a network fitted by clipped, noisy gradients [Abadi et al. 2016].

The release is the last parameter vector of the run, and nothing else: no loss, no gradient, no norm.

Guarantee:
    (epsilon, delta)-DP under replace-one or add/remove, for several rows per person too: that of T
    Poisson-subsampled Gaussian mechanisms with sensitivity C = ``clip`` [``onedraw.privacy.subsampled``, with
    the proof for both relations]. The gradient of a record is clipped, so nothing is assumed about the
    records, the network or convergence.

The loss of a record is -log f, or with ``beta`` its beta-divergence loss, whose gradient vanishes for
outliers. ``onedraw.nn.noisy_gradients`` has the schedule: batches, epochs, and the number of records that
they are made for.

Edge cases:
    delta = 0 is refused. n = 0 releases noise. The residual scale of a regression is never below its floor.

>>> import pytest; _ = pytest.importorskip("jax_privacy")
>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.privacy import Request
>>> model = NetworkModel(family=Bernoulli(), features=("a", "b"), hidden_layer_sizes=(), classes=(0, 1))
>>> request = Request(epsilon=8.0, delta=1e-5)
>>> mechanism = DPSGD().calibrate(request, Shape(model=model, num_records=200))
>>> mechanism.sampling.rate, mechanism.sampling.steps                    # 14 + 8 epochs of 2 batches
(0.5, 44)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.mechanisms.base import Requirements
from onedraw.model import NetworkModel
from onedraw.nn.noisy_gradients import ClippedGradients
from onedraw.nn.objectives import NetworkLoss, PointObjective, initial_weights
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class DPSGD(ClippedGradients):
    """One network by clipped, noisy gradients.

    The options are ``clip``, ``beta`` and ``noise_floor`` (see
    ``onedraw.nn.noisy_gradients.ClippedGradients``) and those of the schedule: ``num_records``, ``preset``,
    ``epochs``, ``batch_size``, ``learning_rate`` and ``optimiser`` (see ``NoisyGradients`` there).
    """

    name: ClassVar[str] = "dp_sgd"
    requirements: ClassVar[Requirements] = Requirements(
        forms=(NetworkModel.form,),
        delta="needed",
        prefer="large networks, large n, δ > 0 acceptable; no chain needs to converge",
    )

    def objective(self) -> PointObjective:
        """The loss of the network."""
        return PointObjective(loss=NetworkLoss.of(self.model, self.beta))

    def initial(self, rng: np.random.Generator) -> Array:
        """A public random network."""
        return initial_weights(self.model, rng)

    def _released(self, parameters: Array, rng: np.random.Generator) -> Array:
        return parameters[None, :].copy()
