# SPDX-License-Identifier: Apache-2.0
"""The mechanisms for neural networks, set up to be audited on the smallest one: no hidden layer, two classes.

Those by noisy gradients make one step in full batches, where their law is known and the attack is optimal;
``dp_sgd:paper`` runs the published schedule of sampled batches and is attacked by its last parameters, along
the gradient of the crafted record. That record's feature is long enough for its gradient to be clipped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onedraw.audit.subjects.accuracy import SIMULATED_RECORDS
from onedraw.audit.subjects.subject import Subject
from onedraw.model import NetworkModel
from onedraw.nn import DPSGD, DPVI, BetaSGD, NetworkDraw, NutsSampler
from onedraw.types import Array

DELTA = 0.01
"""Larger than anyone should claim, so that the outputs by which a claim is decided turn up in an attack."""
LONG = 10.0
NORM = 2.0
ONE_STEP: dict[str, Any] = {
    "num_records": 1,
    "batch_size": 1,
    "epochs": 1,
    "optimiser": "sgd",
    "learning_rate": 0.1,
}
"""The declared number of records decides the size of a batch and nothing else: here, that all join."""
SCHEDULED: dict[str, Any] = {"num_records": 200}
SIMULATED: dict[str, Any] = {"num_records": SIMULATED_RECORDS}
GRADIENTS: dict[str, Any] = {"delta": DELTA, "size": LONG, "spread": 3.0}
PRIOR_SCALE = 3.0
"""As wide as that of regressions."""


@dataclass(frozen=True, kw_only=True)
class NetworkSubject(Subject):
    """A mechanism for networks; its data are those of logistic regression, with an intercept."""

    papers_pair: bool = True

    def _model(self, width: int, intercept: bool) -> NetworkModel:
        names = tuple(f"x{i + 1}" for i in range(width))
        return NetworkModel(family=self.family, features=names, hidden_layer_sizes=(), classes=(0, 1))


def _posterior(**settings: Any) -> NetworkDraw:
    return NetworkDraw(prior_scale=PRIOR_SCALE, sampler=NutsSampler(**settings))


def along_the_canary(outputs: Array) -> Array:
    """How far parameters (m, 2) went towards the second data set: class 1 there, or no record of class 0."""
    return np.asarray(outputs @ np.array([LONG, 1.0]))


def one_chain_per_round(mechanism: Any, rounds: int) -> Any:
    """The mechanism with as many chains as it is drawn from on one data set: their draws are independent."""
    return replace(mechanism, sampler=replace(mechanism.sampler, chains=max(2, rounds // 2)))


NETWORKS = (
    NetworkSubject(
        name="network_draw",
        build=lambda model: _posterior(warmup=300, kept=24, min_ess=10.0, max_rhat=1.3),
        fitted=lambda model: _posterior(),
        spread=3.0,
        for_rounds=one_chain_per_round,
        slowness=20,
    ),
    NetworkSubject(
        name="dp_sgd",
        build=lambda model: DPSGD(**ONE_STEP),
        fitted=lambda model: DPSGD(**SIMULATED),
        **GRADIENTS,
    ),
    NetworkSubject(
        name="dp_sgd:paper",
        build=lambda model: DPSGD(**SCHEDULED),
        fitted=lambda model: DPSGD(**SIMULATED),
        score=along_the_canary,
        slowness=5,
        **GRADIENTS,
    ),
    NetworkSubject(
        name="beta_sgd",
        build=lambda model: BetaSGD(feature_norm=NORM, **ONE_STEP),
        fitted=lambda model: BetaSGD(feature_norm=NORM, **SIMULATED),
        **GRADIENTS,
    ),
    NetworkSubject(
        name="dp_vi",
        build=lambda model: DPVI(draws=50, **ONE_STEP),
        fitted=lambda model: DPVI(draws=50, **SIMULATED),
        **GRADIENTS,
    ),
)
"""In the order of the tables."""
