# SPDX-License-Identifier: Apache-2.0
"""The minimiser of a strongly convex logistic objective, with a certified residual.

    F(theta) = sum_i log(1 + exp(-y_i x_i.theta)) + (ridge/2) |theta|^2 + tilt.theta,   y in {-1, +1}.

Guarantee:
    The point returned has a gradient of Euclidean norm at most ``residual``, including what rounding may have
    hidden; F is ridge-strongly convex, so it lies within residual/ridge of the exact minimiser. Where that
    cannot be reached the solver raises; it never returns a worse point.

*Rounding.* Each record's gradient is a number in (0, 1) times a row of norm at most X = ``feature_norm``.
Rows are summed in blocks of 512 and the blocks exactly (``math.fsum``). With machine epsilon u the predictors
carry an error of at most p X |theta| u and the sum one of n X (512 + p + 32 + p X |theta|) u: a first-order
bound, taken twice.

>>> import numpy as np
>>> design, sign = np.array([[1.0], [1.0], [1.0]]), np.array([1.0, 1.0, -1.0])
>>> theta = minimise(design, sign, ridge=1e-9, tilt=np.zeros(1), feature_norm=1.0, residual=1e-9)
>>> bool(np.isclose(theta[0], np.log(2.0)))
True
"""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg, special

from onedraw.errors import SamplingError
from onedraw.types import Array

BLOCK = 512
MAX_STEPS = 400
UNIT = float(np.finfo(float).eps)


def rounding_error(num_records: int, dim: int, feature_norm: float, ridge: float, length: float) -> float:
    """A bound on the error of the computed gradient at a point of Euclidean norm ``length``."""
    data = num_records * feature_norm * (BLOCK + dim + 32.0 + feature_norm * length * dim)
    return 2.0 * UNIT * (data + 4.0 * ridge * length)


def gradient(design: Array, sign: Array, theta: Array, ridge: float, tilt: Array) -> Array:
    """The gradient of F (p,), its sum over blocks exact."""
    slope = -sign * special.expit(-sign * (design @ theta))
    parts = [
        slope[first : first + BLOCK] @ design[first : first + BLOCK] for first in range(0, len(sign), BLOCK)
    ]
    columns = np.array(parts).reshape(-1, len(theta)).T
    return np.array(
        [
            math.fsum([*column.tolist(), float(ridge * t), float(b)])
            for column, t, b in zip(columns, theta, tilt, strict=True)
        ]
    )


def objective(design: Array, sign: Array, theta: Array, ridge: float, tilt: Array) -> float:
    """F(theta)."""
    losses = -special.log_expit(sign * (design @ theta))
    return float(losses.sum() + 0.5 * ridge * theta @ theta + tilt @ theta)


def minimise(
    design: Array, sign: Array, *, ridge: float, tilt: Array, feature_norm: float, residual: float
) -> Array:
    """Damped Newton steps until the gradient is certified to be at most ``residual``."""
    theta = np.zeros(design.shape[1])
    slope = gradient(design, sign, theta, ridge, tilt)
    for _ in range(MAX_STEPS):
        size = float(np.linalg.norm(slope))
        slack = rounding_error(len(sign), len(theta), feature_norm, ridge, float(np.linalg.norm(theta)))
        if size + slack <= residual:
            return theta
        margin = design @ theta
        curvature = special.expit(margin) * special.expit(-margin)
        hessian = (design * curvature[:, None]).T @ design
        hessian[np.diag_indices(len(theta))] += ridge
        step = _newton_step(hessian, slope)
        theta, slope = _descend(design, sign, theta, slope, step, ridge, tilt)
    raise _not_found()


def _not_found() -> SamplingError:
    return SamplingError(
        "The minimiser was not found to the declared tolerance, so nothing was released. Use more "
        "regularisation, or a larger tolerance (which adds noise)."
    )


def _newton_step(hessian: Array, slope: Array) -> Array:
    try:
        return np.asarray(linalg.cho_solve(linalg.cho_factor(hessian), -slope))
    except linalg.LinAlgError:
        raise _not_found() from None


def _descend(
    design: Array, sign: Array, theta: Array, slope: Array, step: Array, ridge: float, tilt: Array
) -> tuple[Array, Array]:
    """The Newton step, halved until the objective falls or, near the optimum, until the gradient does."""
    here, size = objective(design, sign, theta, ridge, tilt), float(np.linalg.norm(slope))
    decrease = float(slope @ step)
    for halving in range(60):
        length = 0.5**halving
        tried = theta + length * step
        new_slope = gradient(design, sign, tried, ridge, tilt)
        falls = objective(design, sign, tried, ridge, tilt) <= here + 0.1 * length * decrease
        if falls or float(np.linalg.norm(new_slope)) <= (1.0 - 0.25 * length) * size:
            return tried, new_slope
    return theta, slope
