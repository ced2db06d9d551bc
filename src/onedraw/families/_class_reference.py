# SPDX-License-Identifier: Apache-2.0
"""The public reference of several classes: the balanced one, and logits whose differences are N(0, 2.5^2).

With a_y = p_y^beta, sum_y a_y (e_y - p)(e_y - p)' = diag(a) - a p' - p a' + (sum a) p p' in the K logits, so
H and K are K x K matrices. The direction (1, .., 1) is not identified; adding its projector makes H
invertible and adds 1 to the trace of the inverse.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from onedraw.types import Array

INTERCEPT_SD, SPREAD = 2.5, 1.0
"""Standard deviations of the log odds of two classes: of intercepts, and of records around them."""


def class_log_variances(num_classes: int, beta: float, inverse_weight: float) -> tuple[Array, Array]:
    """log tr V over contrasts of the K logits at each intercept vector, and the intercepts' weights."""
    p = _class_probabilities(num_classes)  # (intercepts, nodes, classes)
    log_p = np.log(p)

    def outer_sum(exponent: float) -> tuple[Array, Array]:
        a = np.exp(exponent * log_p)
        total = a.sum(axis=2, keepdims=True)
        cross = np.swapaxes(a, 1, 2) @ p
        matrix = np.swapaxes(total * p, 1, 2) @ p - cross - np.swapaxes(cross, 1, 2)
        matrix += a.sum(axis=1)[:, :, None] * np.eye(num_classes)
        return matrix / p.shape[1], a - total * p  # the second: integral of f^beta s

    curvature, mean_score = outer_sum(beta)
    noise = outer_sum(2.0 * beta - 1.0)[0] - np.swapaxes(mean_score, 1, 2) @ mean_score / p.shape[1]
    inverse = np.linalg.inv(curvature + 1.0 / num_classes)
    trace = np.sum((inverse @ noise) * inverse, axis=(1, 2))  # all three are symmetric
    trace += inverse_weight * (np.trace(inverse, axis1=1, axis2=2) - 1.0)
    weights = np.full(len(p), 1.0 / (len(p) - 1.0))
    weights[0] = 0.0
    return np.log(trace), weights


@lru_cache(maxsize=16)
def _class_probabilities(num_classes: int) -> Array:
    """Class probabilities of the reference, on a fixed low-discrepancy set of logits."""
    count = 32 if num_classes <= 8 else 16 if num_classes <= 20 else 6
    centres = INTERCEPT_SD / math.sqrt(2.0) * _quasi_normal(count, num_classes, shift=0.5)
    centres = np.concatenate([np.zeros((1, num_classes)), centres])  # the balanced reference comes first
    spread = SPREAD / math.sqrt(2.0) * _quasi_normal(count, num_classes, shift=0.25)
    return special.softmax(centres[:, None, :] + spread[None, :, :], axis=2)  # type: ignore[no-any-return]


def _quasi_normal(count: int, dimension: int, shift: float) -> Array:
    """Standard normal points from the additive recurrence of the generalised golden ratio; not random."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (dimension + 1.0))
    steps = root ** -np.arange(1.0, dimension + 1.0)
    points = np.mod(shift + np.arange(1.0, count + 1.0)[:, None] * steps, 1.0)
    return special.ndtri(points)  # type: ignore[no-any-return]
