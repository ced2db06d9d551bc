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
full curvature is taken there, in half precision; further steps correct it from the gradients (BFGS), one pass
each. A step that does not bring |g| down makes the solver take a new curvature in full precision, and halve.

>>> import numpy as np
>>> from onedraw.tilted.losses import Logistic
>>> from onedraw.tilted.sums import ArraySums
>>> sums = ArraySums(loss=Logistic(), design=np.ones((3, 1)), response=np.array([1.0, 1.0, 0.0]))
>>> theta = minimise(sums, ridge=1e-9, tilt=np.zeros((1, 1)), residual=1e-9, rng=np.random.default_rng(0))
>>> bool(np.isclose(theta[0, 0], np.log(2.0)))
True
"""

from __future__ import annotations

from dataclasses import dataclass

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
        theta = _descend(_Objective(sums=sample, ridge=ridge, tilt=tilt), theta, residual, loose=True)
    return _descend(_Objective(sums=sums, ridge=ridge, tilt=tilt), theta, residual, loose=False)


def _ladder(sums: Sums, rng: np.random.Generator) -> list[Sums]:
    """Random subsamples, the smallest first."""
    q, p = sums.shape
    size, samples = sums.num_records // SAMPLED_SHARE, []
    while size >= max(SMALLEST_SAMPLE, 20 * q * p):
        samples.append(sums.subsample(size, rng))
        size //= SAMPLED_SHARE
    return samples[::-1]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Objective:
    """The gradient and curvature of J."""

    sums: Sums
    ridge: float
    tilt: Array

    def slope(self, theta: Array) -> Array:
        return self.sums.gradient(theta) + (self.ridge * theta + self.tilt)

    def slope_and_hessian(self, theta: Array, *, quick: bool) -> tuple[Array, Array]:
        slope, hessian = self.sums.gradient_and_curvature(theta, quick=quick)
        hessian[np.diag_indices(len(hessian))] += self.ridge
        return slope + (self.ridge * theta + self.tilt), hessian

    def slack(self, theta: Array, size: float) -> float:
        """A bound on the rounding error of a gradient of norm ``size`` at theta."""
        length = float(np.linalg.norm(theta))
        own = self.ridge * length + float(np.linalg.norm(self.tilt)) + size
        return self.sums.rounding(length) + 8.0 * UNIT * own


def _descend(objective: _Objective, theta: Array, residual: float, *, loose: bool) -> Array:
    """Damped quasi-Newton steps until |g| is certified; for subsamples until a step is small beside noise."""
    slope, hessian = objective.slope_and_hessian(theta, quick=True)
    exact = False  # whether the curvature was taken at theta itself, in full precision
    for _ in range(MAX_STEPS):
        size = float(np.linalg.norm(slope))
        if size + objective.slack(theta, size) <= residual:
            return theta
        step = _newton_step(hessian, slope)
        if step is None:
            if exact:
                raise _not_found()
            (slope, hessian), exact = objective.slope_and_hessian(theta, quick=False), True
            continue
        # -g.step is |step|^2 in units of the curvature, the sampling error about factor times g.size.
        if loose and -float(slope.ravel() @ step.ravel()) <= 0.01 * slope.size * objective.sums.factor:
            return theta + step
        tried, new_slope, fall = _damped(objective, theta, step, size, damp=exact)
        if fall <= GOOD_FALL:
            hessian = _bfgs(hessian, (tried - theta).ravel(), (new_slope - slope).ravel())
            theta, slope, exact = tried, new_slope, False
        else:
            if fall < 1.0:
                theta = tried
            slope, hessian = objective.slope_and_hessian(theta, quick=False)
            exact = True
    raise _not_found()


def _damped(
    objective: _Objective, theta: Array, step: Array, size: float, *, damp: bool
) -> tuple[Array, Array, float]:
    """The point after the step, its gradient, and by what factor the gradient fell; halved if ``damp``."""
    length = 1.0
    while True:
        tried = theta + length * step
        slope = objective.slope(tried)
        fall = float(np.linalg.norm(slope)) / size
        if not damp or fall <= 1.0 - 0.1 * length:
            return tried, slope, fall
        length *= 0.5
        if length < 1e-12:
            raise _not_found()


def _newton_step(hessian: Array, slope: Array) -> Array | None:
    """-H^-1 g (q, p); None where rounding has made H indefinite."""
    try:
        factor = linalg.cho_factor(hessian, check_finite=False)
    except linalg.LinAlgError:
        return None
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
