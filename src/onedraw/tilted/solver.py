# SPDX-License-Identifier: Apache-2.0
"""The minimiser of a tilted objective, with a certified residual, in a few passes over the records.

    J(theta) = sum_i omega_i f(y_i, z_i.theta) + (ridge/2) |theta|^2 + tilt.theta.

Guarantee:
    The point returned has a gradient of Euclidean norm at most ``residual``, including what rounding may have
    hidden; J is ridge-strongly convex, so it lies within residual/ridge of the exact minimiser. Where that
    cannot be certified the solver raises; it never returns a worse point.

*It converges for every data set.* With the exact curvature H the step d = -H^-1 g satisfies
g(theta + t d) = (1 - t) g + o(t), so the damping that asks |g| to fall finds a t > 0; points with a smaller
|g| lie within |g|/ridge of the minimiser, a compact set on which H is continuous (or piecewise so) and at
least the ridge, so |g| falls to zero, at the end quadratically. No value of the objective is needed.

*It is cheap.* Newton steps on random subsamples give a point that is wrong by the sampling error only. One
full curvature is taken there; further steps correct it from the gradients (BFGS), one pass each. A step that
does not bring |g| down makes the solver take a new curvature, and then halve.

>>> import numpy as np
>>> from onedraw.tilted.losses import Logistic
>>> from onedraw.tilted.sums import ArraySums
>>> sums = ArraySums(loss=Logistic(), design=np.ones((3, 1)), response=np.array([1.0, 1.0, 0.0]))
>>> theta = minimise(sums, ridge=1e-9, tilt=np.zeros((1, 1)), residual=1e-9, rng=np.random.default_rng(0))
>>> bool(np.isclose(theta[0, 0], np.log(2.0)))
True
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from onedraw.errors import SamplingError
from onedraw.tilted.sums import UNIT, Sums
from onedraw.types import Array

MAX_STEPS = 500
SMALLEST_SAMPLE = 2000
SAMPLED_SHARE = 8
"""Each subsample is this many times smaller than the next one."""
GOOD_FALL = 0.3
"""A step that leaves more than this share of the gradient calls for a new curvature."""


def minimise(sums: Sums, *, ridge: float, tilt: Array, residual: float, rng: np.random.Generator) -> Array:
    """theta (q, p) with a gradient certified to be at most ``residual``."""
    theta = np.zeros(sums.shape)
    for sample in _ladder(sums, rng):
        # To a tenth of the sampling error of the subsample, which is all that it can say.
        theta = _descend(sample, theta, ridge, tilt, residual, loose=True)
    return _descend(sums, theta, ridge, tilt, residual, loose=False)


def _ladder(sums: Sums, rng: np.random.Generator) -> list[Sums]:
    """Random subsamples, the smallest first."""
    q, p = sums.shape
    size, samples = sums.num_records // SAMPLED_SHARE, []
    while size >= max(SMALLEST_SAMPLE, 20 * q * p):
        samples.append(sums.subsample(size, rng))
        size //= SAMPLED_SHARE
    return samples[::-1]


def _descend(sums: Sums, theta: Array, ridge: float, tilt: Array, residual: float, *, loose: bool) -> Array:
    """Damped quasi-Newton steps until |g| <= residual, or for subsamples until it is small beside noise."""

    def rest(theta: Array) -> Array:
        return ridge * theta + tilt

    slope, hessian = _with_ridge(sums, theta, ridge, tilt)
    exact = True  # whether the curvature was taken at theta itself
    for _ in range(MAX_STEPS):
        size = float(np.linalg.norm(slope))
        if _small_enough(sums, theta, size, ridge, residual, slope, hessian, loose):
            return theta
        step = _newton_step(hessian, slope)
        tried = theta + step
        new_slope = sums.gradient(tried) + rest(tried)
        new_size = float(np.linalg.norm(new_slope))
        if exact:
            length = 1.0
            while not new_size <= (1.0 - 0.1 * length) * size:
                length *= 0.5
                if length < 1e-12:
                    raise _not_found()
                tried = theta + length * step
                new_slope = sums.gradient(tried) + rest(tried)
                new_size = float(np.linalg.norm(new_slope))
        elif not new_size <= GOOD_FALL * size:
            if new_size < size:
                theta = tried
            slope, hessian = _with_ridge(sums, theta, ridge, tilt)
            exact = True
            continue
        hessian = _bfgs(hessian, (tried - theta).ravel(), (new_slope - slope).ravel())
        if new_size > GOOD_FALL * size:
            slope, hessian = _with_ridge(sums, tried, ridge, tilt)
            theta, exact = tried, True
        else:
            theta, slope, exact = tried, new_slope, False
    raise _not_found()


def _small_enough(
    sums: Sums, theta: Array, size: float, ridge: float, residual: float, slope: Array, hessian: Array, loose: bool
) -> bool:
    length = float(np.linalg.norm(theta))
    slack = sums.rounding(length) + 8.0 * UNIT * (ridge * length + size)
    if size + slack <= residual:
        return True
    if not loose:
        return False
    # g' H^-1 g against its mean under sampling of n records, p: a tenth in standard deviations.
    decrement = float(slope.ravel() @ -_newton_step(hessian, slope).ravel())
    return decrement <= 0.01 * slope.size * _overcount(sums)


def _overcount(sums: Sums) -> float:
    return float(getattr(sums, "factor", 1.0))


def _with_ridge(sums: Sums, theta: Array, ridge: float, tilt: Array) -> tuple[Array, Array]:
    slope, hessian = sums.gradient_and_curvature(theta)
    hessian[np.diag_indices(len(hessian))] += ridge
    return slope + ridge * theta + tilt, hessian


def _newton_step(hessian: Array, slope: Array) -> Array:
    try:
        factor = linalg.cho_factor(hessian, check_finite=False)
    except linalg.LinAlgError:
        raise _not_found() from None
    return np.asarray(linalg.cho_solve(factor, -slope.ravel(), check_finite=False)).reshape(slope.shape)


def _bfgs(hessian: Array, step: Array, change: Array) -> Array:
    """The curvature that explains the change of the gradient over the step, and is else as before."""
    seen = hessian @ step
    along, expected = float(change @ step), float(seen @ step)
    if not (along > 1e-12 * expected > 0.0):
        return hessian
    return np.asarray(hessian + np.outer(change, change) / along - np.outer(seen, seen) / expected)


def _not_found() -> SamplingError:
    return SamplingError(
        "The minimiser was not found to the declared residual, so nothing was released. Choose a larger "
        "residual (which adds noise), or scale the features and the response."
    )
