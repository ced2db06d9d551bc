# SPDX-License-Identifier: Apache-2.0
"""How accurate an audited mechanism is, on simulated data: privacy alone would praise silence."""

from __future__ import annotations

import numpy as np
from scipy import special

from onedraw.audit.subjects.subject import BOUND, Subject
from onedraw.mechanisms import Records
from onedraw.types import Array, Neighbours

SIMULATED_RECORDS = 1000


def simulate(subject: Subject, seed: int, n: int = SIMULATED_RECORDS) -> tuple[Records, Array]:
    """Made-up records for the subject's model, and the true parameters.

    Features as in the paper: normal, clipped to [-4, 4], mapped to [0, 1].
    """
    rng = np.random.default_rng(seed)
    width = subject.fitted_model.num_features
    features = np.clip(rng.standard_normal((n, width)), -4.0, 4.0) / 8.0 + 0.5
    truth = rng.standard_normal(width + 1) * (3.0 if subject.kind == "logistic" and width else 1.0)
    truth[-1] = rng.standard_normal() if not width else -0.5 * truth[:-1].sum()  # mean predictor about 0
    eta = features @ truth[:-1] + truth[-1]
    if subject.kind == "logistic":
        response = (rng.random(n) < special.expit(eta)).astype(float)
    elif subject.kind == "poisson":
        response = rng.poisson(np.exp(eta)).astype(float)
    else:
        response = np.clip(eta + 0.3 * rng.standard_normal(n), -BOUND, BOUND)
    return Records(features=features, response=response), truth


def root_mean_squared_error(
    subject: Subject,
    *,
    epsilon: float,
    delta: float | None = None,
    neighbours: Neighbours = "replace_one",
    repeats: int = 20,
) -> float:
    """Of the released coefficients and intercept, over simulated data sets of 1,000 records."""
    model = subject.fitted_model
    mechanism = subject.calibrated(epsilon=epsilon, delta=delta, neighbours=neighbours, model=model)
    errors = []
    for seed in range(repeats):
        data, truth = simulate(subject, seed)
        release = mechanism.release(data, model=model, random_state=seed)
        errors.append(np.mean((release.estimate.flat()[0][: len(truth)] - truth) ** 2))
    return float(np.sqrt(np.mean(errors)))
