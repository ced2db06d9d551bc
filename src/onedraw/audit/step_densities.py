# SPDX-License-Identifier: Apache-2.0
"""The law of one step of gradient descent in full batches, on two classes and without a hidden layer.

``DPSGD`` and its relatives release what a step leads to: a normal law around minus the learning rate times
the sum of the clipped gradients at the public start. The gradients are written down by hand here: at 0 both
classes have probability 1/2, where the slope of the loss in the output is 1/2 for -log f and 2^-beta for the
beta-divergence.

>>> clipped(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
array([[0.6, 0.8],
       [0.3, 0.4]])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onedraw._validate import positive
from onedraw.audit.closed_forms import NormalDensity
from onedraw.nn.beta_sgd import BetaSGD
from onedraw.nn.dp_sgd import DPSGD
from onedraw.nn.dp_vi import DPVI, START
from onedraw.records import Records
from onedraw.types import Array


def is_one_step(mechanism: Any) -> bool:
    """Whether it makes one plain step, in full batches, on two classes without a hidden layer."""
    run, model = mechanism.run, mechanism.model
    whole_batches = run.sampling.rate == 1.0 and run.sampling.steps == 1 and run.optimiser == "sgd"
    return whole_batches and not model.hidden_layer_sizes and len(model.classes or ()) == 2


def clipped(vectors: Array, length: float) -> Array:
    """The rows, the longer ones shrunk to the length."""
    return np.asarray(vectors / np.maximum(1.0, np.linalg.norm(vectors, axis=1, keepdims=True) / length))


def log_loss_step(mechanism: DPSGD, records: Records) -> NormalDensity:
    """After one step of ``DPSGD``."""
    return _after(mechanism, _gradients(records.features, records.response, mechanism.beta))


def bounded_step(mechanism: BetaSGD, records: Records) -> NormalDensity:
    """After one step of ``BetaSGD``, which holds features together with the 1 of the bias to a length."""
    room = math.sqrt(positive(feature_norm=mechanism.feature_norm) ** 2 - 1.0)
    return _after(mechanism, _gradients(clipped(records.features, room), records.response, mechanism.beta))


def variational_step(mechanism: DPVI, records: Records) -> NormalDensity:
    """The mean of the draws after one step of ``DPVI``; an approximation.

    It starts with a small spread, which is left out of the gradients; the mean of its draws has that noise
    more.
    """
    gradients = mechanism.weight * _gradients(records.features, records.response, mechanism.beta)
    step = _after(mechanism, gradients)
    spread = START * mechanism.prior_scale / math.sqrt(mechanism.draws)
    return NormalDensity(location=step.location, scale=math.hypot(step.scale, spread))


def _gradients(features: Array, response: Array, beta: float | None) -> Array:
    """Of each record's loss at 0, in the weights and the bias."""
    slope = 0.5 if beta is None else 0.5**beta
    design = np.column_stack([features, np.ones(len(features))])
    return np.asarray(slope * (1.0 - 2.0 * response)[:, None] * design)


def _after(mechanism: Any, gradients: Array) -> NormalDensity:
    run = mechanism.run
    rate = run.learning_rate / run.expected
    location = -rate * clipped(gradients, run.clip).sum(axis=0)
    return NormalDensity(location=location, scale=rate * run.noise)


STEPS: Mapping[str, Callable[[Any, Records], NormalDensity]] = {
    DPSGD.name: log_loss_step,
    BetaSGD.name: bounded_step,
    DPVI.name: variational_step,
}
"""By the name of the mechanism."""
APPROXIMATE = (DPVI.name,)
"""Those whose law here leaves something out."""
