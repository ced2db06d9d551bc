# SPDX-License-Identifier: Apache-2.0
"""The largest ratio of a posterior over an envelope: ascents by gradients from many points, then Newton's.

A t law fitted to the posterior is nearly parallel to it, so the ratio is flat, and steps along its gradient
come to rest long before its top: 0.2 nats below it in ten dimensions, when the bound's margin is 0.05. So the
points that many cheap steps lead to are taken to the top by Newton's method with the curvature of the ratio
itself, in a region in which that can be trusted [Conn, Gould & Toint 2000, algorithm 6.1.1].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg

from onedraw.posterior import Posterior
from onedraw.samplers.corrected import Corrected
from onedraw.samplers.envelope import Mixture
from onedraw.samplers.modes import Mode
from onedraw.types import Array

CLIMB_STEPS = 12
TOP_STEPS = 30
GAIN_LEFT = 1e-3
"""Nats still to gain, by the model of the ratio, at which an ascent ends."""
ROUGH_GAIN_LEFT = 0.02
MANY_PARAMETERS, LOOKED_AT_PER_PARAMETER, FEWEST_LOOKS = 32, 40, 8
"""From so many parameters on, so many records are looked at, if all are that many times more."""
SAME = 0.1  # standard deviations from a top at which a climb has come to it
APART = 1.0  # squared standard deviations between points that count as two peaks
KINK_RADII, KINK_TRIES = 4.0 * 0.5 ** np.arange(8.0), 32  # in standard deviations of the mode


def climb_ratio(
    posterior: Posterior, mixture: Mixture, points: Array, mode: Mode, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Points (m, p) that steps along the gradient lead to, those that lie apart, and log ratios (m,) there,
    highest first.
    """
    shape = np.linalg.inv(mode.precision)
    value, gradient = _ratio_and_gradient(posterior, mixture, points)
    length = np.full((len(points), 1), 0.5)
    stalls = 0
    for _ in range(CLIMB_STEPS):
        before = value.max()
        tried = points + length * gradient @ shape
        new_value, new_gradient = _ratio_and_gradient(posterior, mixture, tried)
        better = (new_value > value)[:, None]
        points = np.where(better, tried, points)
        gradient = np.where(better, new_gradient, gradient)
        value = np.maximum(value, new_value)
        length = np.where(better, 1.6 * length, 0.3 * length)
        stalls = 0 if value.max() > before + 0.01 else stalls + 1
        if stalls == 3:
            break
    order = np.argsort(-value)
    points, value = points[order], value[order]
    if posterior.loss.family.has_kinks:
        value[0], points[0] = _climb_kinks(posterior, mixture, mode, float(value[0]), points[0], rng)
    kept: list[int] = []
    for i, point in enumerate(points):
        gaps = points[kept] - point
        if not ((gaps @ mode.precision) * gaps).sum(axis=1).min(initial=np.inf) < APART:
            kept.append(i)
    return points[kept], value[kept]


def all_to_the_top(
    posterior: Posterior, mixture: Mixture, starts: Array, mode: Mode, rng: np.random.Generator
) -> list[tuple[float, Array]]:
    """``to_the_top`` from each start.

    With many parameters the curvature is most of what a step costs. There a climb goes by the true ratio and
    its gradient with a curvature of few records until little is left to gain, and by the true curvature from
    there on. A climb that comes to a top that is known ends there.
    """
    size = LOOKED_AT_PER_PARAMETER * posterior.dim
    rough = None
    if posterior.dim >= MANY_PARAMETERS and posterior.num_records >= FEWEST_LOOKS * size:
        centre = posterior.local_quadratic(mode.location)
        rough = Corrected.at(posterior.subsample(size, rng), mode.location, centre, FEWEST_LOOKS)
    tops: list[tuple[float, Array]] = []
    for start in starts:
        if rough is not None:
            start = to_the_top(posterior, mixture, start, mode, known=tops, rough=rough)[1]
        tops.append(to_the_top(posterior, mixture, start, mode, known=tops))
    return tops


@np.errstate(over="ignore", invalid="ignore")  # of columns of any size; what is not finite ends the climb
def to_the_top(
    posterior: Posterior,
    mixture: Mixture,
    start: Array,
    mode: Mode,
    *,
    known: Sequence[tuple[float, Array]] = (),
    rough: Posterior | None = None,
) -> tuple[float, Array]:
    """The log ratio at the top of the peak on whose slope ``start`` lies, and where that is.

    Lengths are in standard deviations of the ``mode``. Each step looks at the data once. A climb ends at a
    top that is ``known``; with a ``rough`` posterior, which gives the curvature, near one.
    """
    root = np.asarray(np.linalg.cholesky(mode.precision), dtype=float)
    enough = GAIN_LEFT if rough is None else ROUGH_GAIN_LEFT
    theta, radius = start, 1.0
    value, slope, bend = ratio_quadratic(posterior, mixture, theta, root, rough)
    for _ in range(TOP_STEPS):
        for height, top in known:
            if np.linalg.norm((theta - top) @ root) < SAME:
                return height, top
        if not (np.isfinite(bend).all() and np.isfinite(slope).all()):
            break
        step, gain = trusted_step(slope, bend, radius)
        if gain < enough:
            break
        tried = theta + linalg.solve_triangular(root, step, lower=True, trans="T")
        found = ratio_quadratic(posterior, mixture, tried, root, rough)
        if found[0] > value + 0.75 * gain and np.linalg.norm(step) > 0.9 * radius:
            radius *= 2.5
        elif not found[0] > value + 0.25 * gain:
            radius = 0.3 * float(np.linalg.norm(step))
        if found[0] > value:
            theta, (value, slope, bend) = tried, found
    return value, theta


def trusted_step(slope: Array, bend: Array, radius: float) -> tuple[Array, float]:
    """The step within ``radius`` that gains most on the quadratic model, nearly, and what it gains."""
    values, vectors = np.linalg.eigh(bend)  # minus the second derivatives
    along = vectors.T @ slope
    least = max(1e-6, 1e-15 * float(np.abs(values).max()))  # of a large negative one rounding may leave zero
    shift = max(0.0, least - float(values[0]))
    while np.linalg.norm(along / np.maximum(values + shift, least)) > radius:
        shift = 1.5 * shift + 1e-3
    step = along / np.maximum(values + shift, least)
    return vectors @ step, float(along @ step - 0.5 * values @ np.square(step))


def ratio_quadratic(
    posterior: Posterior, mixture: Mixture, theta: Array, root: Array, rough: Posterior | None = None
) -> tuple[float, Array, Array]:
    """The log ratio, its gradient and minus its second derivatives, in standard deviations; -inf and zeros
    outside the prior's support. A ``rough`` posterior gives the second derivatives."""
    value, gradient, hessian = (posterior if rough is None else rough).local_quadratic(theta)
    if rough is not None:
        (value,), (gradient,) = posterior.log_density_and_gradient(theta[None, :])
    value -= float(mixture.log_density(theta[None, :])[0])
    gradient = gradient - mixture.gradient(theta[None, :])[0]
    hessian = hessian + mixture.hessian(theta)
    half = linalg.solve_triangular(root, hessian, lower=True, check_finite=False)
    white = linalg.solve_triangular(root, half.T, lower=True, check_finite=False)
    slope = linalg.solve_triangular(root, gradient, lower=True, check_finite=False)
    return value, np.asarray(slope), 0.5 * (white + white.T)


def _climb_kinks(
    posterior: Posterior, mixture: Mixture, mode: Mode, highest: float, peak: Array, rng: np.random.Generator
) -> tuple[float, Array]:
    """Higher than steps along gradients got, by trying points around: those stop on a ridge.

    Where the loss has kinks, the density has ridges at zero residuals and its peaks where they meet.
    """
    root = np.linalg.cholesky(np.linalg.inv(mode.precision))
    for radius in KINK_RADII:
        tried = peak + radius * rng.standard_normal((KINK_TRIES, posterior.dim)) @ root.T
        ratio = posterior.log_density(tried) - mixture.log_density(tried)
        best = int(ratio.argmax())
        if ratio[best] > highest:
            highest, peak = float(ratio[best]), tried[best]
    return highest, peak


def _ratio_and_gradient(posterior: Posterior, mixture: Mixture, thetas: Array) -> tuple[Array, Array]:
    value, gradient = posterior.log_density_and_gradient(thetas)
    return value - mixture.log_density(thetas), gradient - mixture.gradient(thetas)
