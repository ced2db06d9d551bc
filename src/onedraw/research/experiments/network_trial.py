# SPDX-License-Identifier: Apache-2.0
"""What every compared network method is given, and what it hands back.

>>> network("classification", 2).dim, network("regression", 2).dim
(41, 42)
"""

from __future__ import annotations

from dataclasses import dataclass

from onedraw.families import Bernoulli, Gaussian
from onedraw.model import NetworkModel
from onedraw.model.network import forward
from onedraw.records import Records
from onedraw.research.experiments.gaussian_calibration import FLOOR
from onedraw.types import Array

TASKS = ("regression", "classification")
HIDDEN = 10


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One data set and how to try a method on it. ``warmup`` is that of the chain."""

    task: str
    features: Array
    response: Array
    test_features: Array
    epsilon: float
    releases: int
    warmup: int

    @property
    def model(self) -> NetworkModel:
        """The network that every method fits."""
        return network(self.task, self.features.shape[1])

    @property
    def records(self) -> Records:
        """The private records."""
        return Records(features=self.features, response=self.response)

    def outputs(self, parameters: Array) -> Array:
        """What networks (k, p) say of the test rows, (k, m): means, or log odds."""
        model = self.model
        return forward(model.layers, model.activation, parameters, self.test_features)[:, :, 0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Outputs:
    """Of several releases on the test rows (k, m), and of the twin (m,)."""

    releases: Array
    twin: Array


def network(task: str, d: int) -> NetworkModel:
    """One hidden layer of rectified units."""
    features = tuple(f"x{i}" for i in range(d))
    if task == "classification":
        return NetworkModel(
            family=Bernoulli(), features=features, hidden_layer_sizes=(HIDDEN,), classes=(0, 1)
        )
    return NetworkModel(family=Gaussian(scale_floor=FLOOR), features=features, hidden_layer_sizes=(HIDDEN,))
