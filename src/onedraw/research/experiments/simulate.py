# SPDX-License-Identifier: Apache-2.0
"""The paper's simulated data, for logistic regression and for networks.

Features are standard normal, clipped to [-4, 4] and mapped to [0, 1]: public bounds, by construction.
Coefficients of a logistic regression are N(0, 3^2) in the text of the paper and N(0, 9^2) in its code
(``spread``), and the intercept makes the mean predictor zero. Labels are drawn from the model.

>>> data = simulate(n=50, d=2, repetition=0, seed=1)
>>> data.features.shape, data.truth.shape, data.test_features.shape
((50, 2), (3,), (1000, 2))
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from onedraw.model.network import forward
from onedraw.research.experiments.network_trial import network
from onedraw.research.experiments.spec import stream
from onedraw.types import Array

TEST_ROWS = 1000
NETWORK_TEST_ROWS = 5000
"""Networks differ little in ranking: more rows tell them apart."""
CLIP = 4.0
PRIOR_SCALE = 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """Training and test records, and the true coefficients followed by the intercept."""

    features: Array
    response: Array
    test_features: Array
    test_response: Array
    truth: Array


def true_parameters(*, d: int, repetition: int, seed: int, spread: float = PRIOR_SCALE) -> Array:
    """The same for every n, so that curves over n compare like with like."""
    coefficients = spread * stream("truth", d, repetition, seed).standard_normal(d)
    return np.append(coefficients, -0.5 * coefficients.sum())


def draw_features(n: int, d: int, rng: np.random.Generator) -> Array:
    """(n, d) on [0, 1]."""
    return np.asarray(np.clip(rng.standard_normal((n, d)), -CLIP, CLIP) / (2.0 * CLIP) + 0.5)


def draw_labels(features: Array, truth: Array, rng: np.random.Generator) -> Array:
    """Zeros and ones (n,) from the logistic model."""
    probability = special.expit(features @ truth[:-1] + truth[-1])
    return np.asarray(rng.random(len(features)) < probability, dtype=float)


def simulate(*, n: int, d: int, repetition: int, seed: int, spread: float = PRIOR_SCALE) -> Simulated:
    """One data set; the same for every method and every epsilon."""
    truth = true_parameters(d=d, repetition=repetition, seed=seed, spread=spread)
    rng = stream("records", n, d, repetition, seed)
    features, test = draw_features(n, d, rng), draw_features(TEST_ROWS, d, rng)
    return Simulated(
        features=features,
        response=draw_labels(features, truth, rng),
        test_features=test,
        test_response=draw_labels(test, truth, rng),
        truth=truth,
    )


# -- networks


def simulate_network(task: str, *, n: int, d: int, repetition: int, seed: int) -> Simulated:
    """Records of a network of one hidden layer, the same for every method and every epsilon.

    As published: all weights and biases are N(0, 1), and the variance of a regression's residuals is the
    exponential of a standard normal number. A classification that would have less than a tenth of one class
    is drawn again: many have no second class at all, and then nothing to rank.
    """
    model = network(task, d)
    rng = stream("network truth", task, d, repetition, seed)
    truth, scale = rng.standard_normal((1, model.dim)), math.exp(0.5 * rng.standard_normal())

    def outputs_at(features: Array) -> Array:
        return forward(model.layers, model.activation, truth, features)[0, :, 0]

    typical = draw_features(TEST_ROWS, d, stream("network features", d, seed))
    while task == "classification" and abs(special.expit(outputs_at(typical)).mean() - 0.5) > 0.4:
        truth = rng.standard_normal((1, model.dim))
    rng = stream("network records", task, n, d, repetition, seed)

    def draw(rows: int) -> tuple[Array, Array]:
        features = draw_features(rows, d, rng)
        outputs = outputs_at(features)
        if task == "classification":
            return features, np.asarray(rng.random(rows) < special.expit(outputs), dtype=float)
        return features, outputs + scale * rng.standard_normal(rows)

    (features, response), (test_features, test_response) = draw(n), draw(NETWORK_TEST_ROWS)
    return Simulated(
        features=features,
        response=response,
        test_features=test_features,
        test_response=test_response,
        truth=truth[0],
    )
