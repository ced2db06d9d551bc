# SPDX-License-Identifier: Apache-2.0
"""The minimiser of a tilted objective, with a certified residual, in a few passes over the records.

    J(theta) = sum_i omega_i f(y_i, z_i.theta + o_i) + (ridge/2) |theta|^2 + tilt.theta.

Guarantee:
    The point returned has a gradient of Euclidean norm at most ``residual``, including what rounding may have
    hidden; J is ridge-strongly convex, so it lies within residual/ridge of the exact minimiser. Where that
    cannot be certified the solver raises; it never returns a worse point.

*It converges for every data set.* With the exact curvature H the step d = -H^-1 g satisfies
g(theta + t d) = (1 - t) g + o(t), so the damping that asks |g| to fall finds a t > 0; points with a smaller
|g| lie within |g|/ridge of the minimiser, a compact set on which H is continuous (or piecewise so) and at
least the ridge, so |g| falls to zero, at the end quadratically. No value of the objective is needed.

*It is cheap.* Newton steps on random subsamples give a point that is wrong by the sampling error only. From
there quasi-Newton steps, one gradient each: the curvature is that of the largest subsample, and every step
corrects it by the change of the gradient that it saw [BFGS]. Where a step does little, the subsample having
few records for its parameters, the curvature of all records is taken, in half precision. No curvature need be
right: a point is certified by its gradient alone. Gradients are added up in the quickest way until one is
expected to be small enough, and that one so that its rounding is bounded.

*Of a table elsewhere, three passes.* There a pass costs more than what is computed in it, so each takes the
curvature as well, and a step minimises a surrogate [Jordan, Lee & Yang 2019]: the objective of the look,
corrected by gradient and curvature of all records so that both agree at the start. What is left is the
sampling error of third derivatives, times the distance squared: the distance goes 1e-2, 1e-6, 1e-14. The
third pass certifies, and takes what is asked for at the point that will be published (``also``). If a pass
finds a gradient that did not fall, damped steps of all records go on from there. ``approach`` stops before
the last pass, so that another stage of a fit can begin in it.

>>> import numpy as np
>>> from onedraw.tilted.losses import Logistic
>>> from onedraw.tilted.sums import Sums
>>> from onedraw.tilted.weights import Rows
>>> rows = Rows(features=np.ones((3, 1)), weight=None, geometry="cube", response=np.array([1.0, 1.0, 0.0]))
>>> sums = Sums(loss=Logistic(), table=rows)
>>> theta = minimise(sums, ridge=1e-9, tilt=np.zeros((1, 1)), residual=1e-9, rng=np.random.default_rng(0))
>>> bool(np.isclose(theta[0, 0], np.log(2.0)))
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from onedraw.errors import SamplingError
from onedraw.private import Withheld
from onedraw.tables import base
from onedraw.tilted.losses import Loss
from onedraw.tilted.sums import UNIT, Slope, Sums
from onedraw.types import Array

MAX_STEPS = 500
SMALLEST_SAMPLE = 2000
SAMPLED_SHARE = 8
"""Each subsample is this many times smaller than the next one."""
GOOD_FALL, FAIR_FALL = 0.1, 0.5
"""A step that leaves more than this share of the gradient calls for a new curvature, or for an exact one."""
SURROGATE_STEPS = 16
LAST = 1e-3
"""A step may be the last if the residual was reached before it, or if it should reach this share of it, by
the fall of the step before. Less than 1, so that the last digits hardly depend on the way there."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Solution(Withheld):
    """Where the minimiser was moved to and, if the last pass took them, further sums there."""

    theta: Array
    taken: tuple[base.Sums, ...] | None = None


AtPoint = Callable[[Loss, Array], base.Kernel]
"""The kernel of a loss at parameters (q, p)."""


def minimise(sums: Sums, *, ridge: float, tilt: Array, residual: float, rng: np.random.Generator) -> Array:
    """theta (q, p) with a gradient certified to be at most ``residual``."""
    still = np.zeros(sums.shape)
    return solve(sums, ridge=ridge, tilt=tilt, residual=residual, moved=still, rng=rng).theta


def solve(
    sums: Sums,
    *,
    ridge: float,
    tilt: Array,
    residual: float,
    moved: Array,
    rng: np.random.Generator,
    also: tuple[AtPoint, ...] = (),
) -> Solution:
    """The minimiser, certified, plus ``moved``, and maybe the sums of ``also`` there."""
    return approach(sums, ridge=ridge, tilt=tilt, residual=residual, moved=moved, rng=rng).finish(also)


def approach(
    sums: Sums, *, ridge: float, tilt: Array, residual: float, moved: Array, rng: np.random.Generator
) -> Approach:
    """The minimiser, certified or all but certified."""
    theta = np.zeros(sums.shape)
    objective = _Objective(sums=sums, ridge=ridge, tilt=tilt, residual=residual)
    samples = [replace(objective, sums=sample) for sample in _ladder(sums, rng)]
    for sample in samples:
        theta = _descend(sample, theta, loose=True)
    if samples and not sums.table.in_memory:
        return _in_few_passes(objective, samples[-1], theta, moved)
    hessian = samples[-1].ridged(samples[-1].sums.curvature(theta)) if samples else None
    theta = _descend(objective, theta, loose=False, hessian=hessian)
    return Approach(objective=objective, theta=theta, moved=moved, certified=True)


def _ladder(sums: Sums, rng: np.random.Generator) -> list[Sums]:
    """Random subsamples, the smallest first; of a table elsewhere the largest is its look."""
    q, p = sums.shape
    n, sizes = sums.num_records, list[int]()
    size = n // SAMPLED_SHARE if sums.table.in_memory else min(n, base.LOOK)
    while size >= max(SMALLEST_SAMPLE, 20 * q * p):
        sizes.append(size)
        size //= SAMPLED_SHARE
    return sums.subsamples(sizes, rng)[::-1] if sizes else []


@dataclass(frozen=True, kw_only=True, eq=False)
class _Objective:
    """The gradient and curvature of J."""

    sums: Sums
    ridge: float
    tilt: Array
    residual: float

    @property
    def precise(self) -> bool:
        """Whether doubles could not certify the residual; subsamples need not be certified."""
        sums = self.sums
        return sums.factor == 1.0 and sums.can_be_precise and sums.rounding(1.0) > 0.25 * self.residual

    def slope(self, theta: Array, *, quick: bool = False) -> Array:
        kernel = Slope(self.sums.loss, theta, self.precise and not quick, quick)
        return self.slope_of(theta, self.sums.table.sum(kernel))

    def slope_of(self, theta: Array, sums: base.Sums) -> Array:
        """The slope at theta from the sums of the kernel ``Slope`` there."""
        return self._whole(theta, self.sums.factor * sums[0])

    def _whole(self, theta: Array, slope: Array) -> Array:
        return np.asarray(slope + (self.ridge * theta + self.tilt), dtype=np.float64)

    def slope_and_hessian(self, theta: Array, *, quick: bool) -> tuple[Array, Array]:
        slope, hessian = self.sums.gradient_and_curvature(theta, quick=quick)
        return self._whole(theta, slope), self.ridged(hessian)

    def ridged(self, curvature: Array) -> Array:
        """The curvature with the ridge."""
        return np.asarray(curvature + self.ridge * np.eye(len(curvature)))

    def certified(self, theta: Array, size: float, *, precise: bool) -> bool:
        """Whether a gradient of computed norm ``size`` is at most the residual, rounding included."""
        length = float(np.linalg.norm(theta))
        own = self.ridge * length + float(np.linalg.norm(self.tilt)) + size
        slack = self.sums.rounding(length, precise=precise) + 8.0 * UNIT * own
        return size + slack <= self.residual


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Approach(Withheld):
    """A point that is the minimiser to the residual, once ``finish`` or ``certifies`` has seen to it."""

    objective: _Objective
    theta: Array
    moved: Array
    certified: bool
    look: _Objective | None = None
    hessian: Array | None = None
    gap: Array | None = None
    """The hessian less that of the look."""
    size: float = np.inf
    """Of the gradient before."""

    @property
    def point(self) -> Array:
        """Where the minimiser is moved to. Not to be published before it is certified."""
        return self.theta + self.moved

    @property
    def kernel(self) -> base.Kernel:
        """What ``certifies`` needs of all records."""
        return Slope(self.objective.sums.loss, self.theta, self.objective.precise)

    def certifies(self, sums: base.Sums) -> bool:
        """Whether the sums of ``kernel`` prove the residual."""
        return self._is_certified(self.objective.slope_of(self.theta, sums))

    def _is_certified(self, slope: Array) -> bool:
        size = float(np.linalg.norm(slope))
        return self.objective.certified(self.theta, size, precise=self.objective.precise)

    def finish(self, also: tuple[AtPoint, ...] = (), seen: base.Sums | None = None) -> Solution:
        """The point, certified, and maybe the sums of ``also`` there; as many passes as it takes.

        ``seen`` are the sums of ``kernel``, where they are known.
        """
        if self.certified:
            return Solution(theta=self.point)
        assert self.look is not None
        assert self.hessian is not None
        assert self.gap is not None
        loss, theta, before = self.objective.sums.loss, self.theta, self.size
        for _ in range(MAX_STEPS):
            now = replace(self, theta=theta)
            taken = None
            if seen is None:
                kernels = (now.kernel, *(at(loss, now.point) for at in also))
                seen, *taken = base.Together.split(self.objective.sums.table.sum(base.Together(kernels)))
            slope, seen = self.objective.slope_of(theta, seen), None
            if now._is_certified(slope):
                return Solution(theta=now.point, taken=None if taken is None else tuple(taken))
            size = float(np.linalg.norm(slope))
            if size > FAIR_FALL * before:
                break
            # The curvature is that of the last point, so near that steps still shrink fast.
            gap_of_slopes = slope - self.look.slope(theta, quick=True)
            theta = theta + _surrogate_step(self.look, theta, slope, gap_of_slopes, self.hessian, self.gap)
            before = size
        return Solution(theta=_descend(self.objective, theta, loose=False) + self.moved)


def _in_few_passes(objective: _Objective, look: _Objective, theta: Array, moved: Array) -> Approach:
    """Two steps of a surrogate from ``theta``, a minimiser of the look: see the module docstring."""
    before = np.inf
    for _ in range(2):
        own_slope, own_hessian = look.slope_and_hessian(theta, quick=True)
        slope, hessian = objective.slope_and_hessian(theta, quick=True)
        size = float(np.linalg.norm(slope))
        if size > FAIR_FALL * before:
            theta = _descend(objective, theta, loose=False)
            return Approach(objective=objective, theta=theta, moved=moved, certified=True)
        gap = hessian - own_hessian
        theta = theta + _surrogate_step(look, theta, slope, slope - own_slope, hessian, gap)
        before = size
    return Approach(
        objective=objective,
        theta=theta,
        moved=moved,
        certified=False,
        look=look,
        hessian=hessian,
        gap=gap,
        size=before,
    )


def _surrogate_step(
    look: _Objective, start: Array, slope: Array, slope_gap: Array, hessian: Array, gap: Array
) -> Array:
    """To the minimiser of the look's objective, with the gaps to slope and curvature of all records."""
    way, now, before = np.zeros_like(start), slope, np.inf
    enough = 0.1 * start.size / look.sums.num_records  # further digits are lost to sampling
    solve_with = _factored(hessian)
    if solve_with is None:
        return way
    for _ in range(SURROGATE_STEPS):
        # The way is so short that the curvature at its start serves for all of it.
        step = solve_with(now)
        if (length := float(np.linalg.norm(step))) > before:
            break
        way, before = way + step, length
        if length <= enough * float(np.linalg.norm(way)):
            break
        now = look.slope(start + way, quick=True) + slope_gap + (gap @ way.ravel()).reshape(way.shape)
    return way


def _descend(objective: _Objective, theta: Array, *, loose: bool, hessian: Array | None = None) -> Array:
    """Damped quasi-Newton steps until |g| is certified; for subsamples until a step is small beside noise.

    ``hessian`` is about that at theta, if known.
    """
    if hessian is None:
        slope, hessian = objective.slope_and_hessian(theta, quick=True)
    else:
        slope = objective.slope(theta, quick=True)
    exact, fall = False, 1.0  # whether the curvature was taken at theta itself, of all records, in full
    for _ in range(MAX_STEPS):
        size = float(np.linalg.norm(slope))
        if exact and not loose and objective.certified(theta, size, precise=False):
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
        quick = loose or (size > objective.residual and fall * size > LAST * objective.residual)
        tried, new_slope, fall = _damped(objective, theta, step, size, damp=exact, quick=quick)
        if not quick and objective.certified(
            tried, float(np.linalg.norm(new_slope)), precise=objective.precise
        ):
            return tried
        if fall <= GOOD_FALL:
            hessian = _bfgs(hessian, (tried - theta).ravel(), (new_slope - slope).ravel())
            theta, slope, exact = tried, new_slope, False
        elif fall <= FAIR_FALL:
            theta, slope, exact = tried, new_slope, False
            hessian = objective.ridged(objective.sums.curvature(theta))
        else:
            if fall < 1.0:
                theta = tried
            slope, hessian = objective.slope_and_hessian(theta, quick=loose)
            exact = True
    raise _not_found()


def _damped(
    objective: _Objective, theta: Array, step: Array, size: float, *, damp: bool, quick: bool
) -> tuple[Array, Array, float]:
    """The point after the step, its gradient, and by what factor the gradient fell; halved if ``damp``."""
    length = 1.0
    while True:
        tried = theta + length * step
        slope = objective.slope(tried, quick=quick)
        fall = float(np.linalg.norm(slope)) / max(size, 1e-300)
        if not damp or fall <= 1.0 - 0.1 * length:
            return tried, slope, fall
        length *= 0.5
        if length < 1e-12:
            raise _not_found()


def _newton_step(hessian: Array, slope: Array) -> Array | None:
    """-H^-1 g (q, p); None where rounding has made H indefinite."""
    solve_with = _factored(hessian)
    return None if solve_with is None else solve_with(slope)


def _factored(hessian: Array) -> Callable[[Array], Array] | None:
    """From g (q, p) to -H^-1 g; None where rounding has made H indefinite."""
    try:
        factor = linalg.cho_factor(hessian, check_finite=False)
    except linalg.LinAlgError:
        return None

    def step(slope: Array) -> Array:
        found = linalg.cho_solve(factor, -slope.ravel(), check_finite=False)
        return np.asarray(found).reshape(slope.shape)

    return step


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
