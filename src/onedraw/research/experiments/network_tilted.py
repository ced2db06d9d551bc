# SPDX-License-Identifier: Apache-2.0
"""Tilted fits in place of networks: of the features themselves, or of public random units of them.

A hidden layer whose weights are drawn from a public seed is a map of each record by itself and costs no
privacy; what is fitted is the last layer, by the tilted fit, whose guarantee is pure and rests on no sampler.
The first units are tanh of each feature, nearly linear; the rest have random weights. The noise of a tilted
fit grows with the number of coefficients over n epsilon, so by a public rule there are about
``SHARE`` sqrt(n epsilon) units, and never fewer than features. NOT PRIVATE, for comparison only.

The rule and the spread of the weights were chosen once, on other seeds, from shares of 0.15, 0.3 and 0.6 and
spreads of 1 and 2, with cosines as the other kind of unit: those need more records than tanh does.

>>> number_of_units(1000, 1.0, 2), number_of_units(1000, 1.0, 32)
(9, 32)
>>> weights, biases = random_layer(2, 9)
>>> weights.shape, biases.shape
((2, 9), (9,))
"""

from __future__ import annotations

import math

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from onedraw.families import Bernoulli, Gaussian
from onedraw.mechanisms import Shape, TiltedFit
from onedraw.model import RegressionModel
from onedraw.privacy.request import Request
from onedraw.publishing import Private, make_plan, publish
from onedraw.records import Records
from onedraw.research.experiments.network_trial import Outputs, Trial
from onedraw.research.experiments.spec import stream
from onedraw.types import Array

SHARE = 0.3
SPREAD = 2.0
SEED = 2023
"""Of the random units: public, and the same for every data set."""
PENALTY = 1.0 / 9.0
"""Of the non-private twin."""


def number_of_units(n: int, epsilon: float, d: int) -> int:
    """By public facts alone."""
    return max(d, round(SHARE * math.sqrt(n * epsilon)))


def random_layer(d: int, units: int) -> tuple[Array, Array]:
    """Weights (d, units) and biases (units,) for features on [-1, 1]: one unit a feature, then random."""
    rng = stream("random units", d, SEED)
    drawn = rng.standard_normal((units, d + 1)).T  # more units leave the first ones as they are
    weights, biases = SPREAD * drawn[:d] / math.sqrt(d), SPREAD * np.tanh(drawn[d])
    weights[:, :d], biases[:d] = np.eye(d), 0.0
    return weights, biases


def _fitted(trial: Trial, rng: np.random.Generator, features: Array, test: Array) -> Outputs:
    """Tilted fits to features on [-1, 1], and the penalised fit that they approach."""
    n, p = features.shape
    classes = trial.task == "classification"
    model = RegressionModel(
        family=Bernoulli() if classes else Gaussian(),
        features=tuple(f"x{i}" for i in range(p)),
        feature_bounds=((-1.0, 1.0),) * p,
    )
    shape = Shape(model=model, num_records=n)
    plan = make_plan(Request(epsilon=trial.epsilon), TiltedFit(inference=False), shape)
    records = Records(features=features, response=trial.response)
    releases = [publish(plan, lambda: Private(records), random_state=rng) for _ in range(trial.releases)]
    found = plan.model.original_units(np.concatenate([np.array(release.draws) for release in releases]))
    outputs = found.coef[:, 0, :] @ test.T + found.intercept[:, :1]
    if classes:
        twin = LogisticRegression(C=1.0 / PENALTY, max_iter=1000).fit(features, trial.response)
        return Outputs(releases=outputs, twin=twin.decision_function(test))
    return Outputs(releases=outputs, twin=Ridge(alpha=PENALTY).fit(features, trial.response).predict(test))


def try_linear(trial: Trial, rng: np.random.Generator) -> Outputs:
    """Without a hidden layer."""
    return _fitted(trial, rng, 2.0 * trial.features - 1.0, 2.0 * trial.test_features - 1.0)


def try_random(trial: Trial, rng: np.random.Generator) -> Outputs:
    """On random units."""
    n, d = trial.features.shape
    weights, biases = random_layer(d, number_of_units(n, trial.epsilon, d))
    features, test = (
        np.tanh((2.0 * part - 1.0) @ weights + biases) for part in (trial.features, trial.test_features)
    )
    return _fitted(trial, rng, features, test)
