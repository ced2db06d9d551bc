# SPDX-License-Identifier: Apache-2.0
"""How accurate an audited mechanism is, on simulated data: privacy alone would praise silence."""

from __future__ import annotations

import numpy as np

from onedraw.audit.releasing import released
from onedraw.audit.subjects.subject import Subject
from onedraw.records import Records
from onedraw.types import Array, Neighbours

SIMULATED_RECORDS = 1000
TRUE_SCALE = 0.3
"""Of the residuals, for families with a scale."""


def simulate(subject: Subject, seed: int, n: int = SIMULATED_RECORDS) -> tuple[Records, Array]:
    """Made-up records for the subject's model, and the true working parameters without the scale.

    Features as in the paper: normal, clipped to [-4, 4], mapped to [0, 1].
    """
    rng = np.random.default_rng(seed)
    family, width = subject.family, subject.fitted_model.num_features
    features = np.clip(rng.standard_normal((n, width)), -4.0, 4.0) / 8.0 + 0.5
    truth = subject.spread * rng.standard_normal((family.num_predictors, width + 1))
    slopes, intercepts = truth[:, :-1], truth[:, -1]
    if width:
        intercepts = -0.5 * slopes.sum(axis=1)  # the mean predictor is about 0
    eta = (slopes @ features.T + intercepts[:, None])[..., None]  # (predictors, rows, one column)
    scale = np.array(TRUE_SCALE) if family.has_scale else None
    response = family.sample(eta if family.num_predictors > 1 else eta[0], rng, scale)[:, 0]
    return Records(features=features, response=response), np.append(slopes.ravel(), intercepts)


def root_mean_squared_error(
    subject: Subject,
    *,
    epsilon: float,
    delta: float | None = None,
    neighbours: Neighbours = "replace_one",
    repeats: int = 20,
) -> float:
    """Of the released coefficients and intercept, over simulated data sets of 1,000 records."""
    mechanism = subject.calibrated_to_fit(epsilon=epsilon, delta=delta, neighbours=neighbours)
    model, errors = mechanism.model, []
    for seed in range(repeats):
        records, truth = simulate(subject, seed)
        # A stream of its own: from that of the data, the noise would go with the truth.
        draws = released(mechanism, subject.read(records), np.random.default_rng([seed, 1]))
        typical = model.typical(draws)[0]
        errors.append(np.mean((typical[: len(truth)] - truth) ** 2))
    return float(np.sqrt(np.mean(errors)))
