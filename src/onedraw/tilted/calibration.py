# SPDX-License-Identifier: Apache-2.0
"""The law of the tilt and the ridge R that make the tilted fit epsilon-DP (or (epsilon, delta)-DP).

    J(theta) = sum_i omega_i f(y_i, z_i.theta + o_i) + (R/2) |theta|^2 + b.theta;  released: argmin J + trace.

Guarantee:
    Pure epsilon-DP under ``neighbours``, for a person with at most ``rows_per_person`` rows, whatever the
    records, for rows as in ``weights``. The number of records is never used.

*Proof.* b(theta) = -(sum of gradients) - R theta is one to one and onto (strongly monotone) and bi-Lipschitz
(f' is Lipschitz), so theta has density nu(b(theta)) det(sum of Hessians + R I) [area formula]. Fix theta.
(1) A record's gradient moves log nu by at most a u, a = its relative score [``laws``; u = B/scale for a norm
law and gradients of norm at most a B]. So for one row replaced it changes by at most (a + a') u, for a row
added or removed by a u.
(2) Let A >= R I be R I and the Hessians of the common records, E >= 0 that of the row only in the first data
set, E' of the row only in the second. det(A + E)/det(A + E') <= det(A + E)/det A <= det(I + k f''), where
k = c0/R, c0 = sup omega |z|_2^2 (p or less: ``weights``). Only the *first* row's curvature counts: the other
one's helps.
(3) Together the log ratio is at most a' u + [a u + log det(I + k f'')] <= u + joint_loss(u, k) for
replace-one, and joint_loss(u, k) for add/remove: the supremum is over one record jointly.
(4) m rows: gradients add, and the determinant of the sum of m changes factorises into m such steps, each
against a matrix >= R I. So the bound is m times (3): rows_per_person divides epsilon.
(5) The computed minimiser has a gradient of norm at most t = ``residual``, so it lies within t/R of the exact
one. Given the exact minimiser (and independent randomness of the solver) the gap is a function of the data of
norm at most t/R; two gaps differ by 2 t/R. Spherical noise of scale 2 t/(R share epsilon) releases it at the
price of ``SOLVER_SHARE`` epsilon, and the sum of both is what is published. []

*Offsets.* A record may bring a number o of its own, which is added to its predictor: f(y, z.theta + o). At a
fixed theta its gradient is omega f' z and its curvature omega f'' z z' with the same z and omega, f' and f''
taken at eta = z.theta + o. Sums of gradients stay monotone and Lipschitz in theta, so the change of variables
holds. (1) to (4) know a record by |omega z|, omega |z|_2^2 and the supremum of a u + log det(I + k f'')
over *all* real eta and all y, which an offset cannot leave: so no constant changes, and neighbours may differ
in the offset as in all else of a record, or in nothing else. Nor is a constant larger than before: eta ranges
over the whole line without offsets too. Weights and units are functions of the features, and the loss of
counts is one of the counts alone, so no other stage reads an offset. (5) asks that rounding is bounded, so
offsets are held within ``records.FARTHEST``, a map of each record by itself. The Gaussian tilt's proof knows
a row by the segment of its gradient and by D, the supremum over all eta, and holds likewise.

u and k are the largest with (3) <= (1 - SOLVER_SHARE) epsilon/m: u = epsilon/2 (replace-one), or epsilon,
less the price of the loss where its curvature is not free. Larger noise and ridge are always allowed, so
every number is rounded up by ``MARGIN``. With delta > 0 the Gaussian tilt (``gaussian_tilt``) is taken
where its coordinates have the smaller variance, unless a person has too many rows for its sum.

>>> from onedraw.tilted.losses import Logistic
>>> fit = calibrate(Logistic(), epsilon=1.0, dim=6, geometry="cube", solver_share=0.0)
>>> round(fit.law.scale, 6), round(fit.ridge, 6)
(2.0, 12.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from onedraw._validate import one_of, positive, probability, whole
from onedraw.errors import InvalidInput
from onedraw.tilted.gaussian_tilt import gaussian_ratios, is_of_use
from onedraw.tilted.laws import BallLaw, GaussianLaw, Law
from onedraw.tilted.losses import Loss
from onedraw.tilted.norm_laws import norm_law
from onedraw.tilted.weights import Geometry, squared_length
from onedraw.types import Neighbours

MARGIN = 1.0 + 1e-9
SOLVER_SHARE = 0.005
LARGEST_RATIO = 100.0
"""k is at most this: at a large epsilon no smaller ridge is of use, and the solver's noise would grow."""
LEAST_PRICE = 1e-6
"""Of a loss whose curvature is not free; bounds are rounded up by a thousandth of it."""
RESIDUAL = 1e-6
"""The solver's gradient relative to the largest score; its noise is about RESIDUAL/SOLVER_SHARE long."""
ENTRIES = 16
"""Rows of more entries have a larger residual, in proportion: rounding grows faster, and so does the tilt."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What the fit needs: the law of the tilt, the ridge, the residual and the noise that pays for it."""

    law: Law
    ridge: float
    residual: float
    solver_noise: BallLaw | None

    @property
    def tilt_sd(self) -> float:
        """The standard deviation of each coordinate of the tilt."""
        return math.sqrt(self.law.variance)


def calibrate(
    loss: Loss,
    *,
    epsilon: float,
    dim: int,
    geometry: Geometry,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    price: float | None = None,
    solver_share: float = SOLVER_SHARE,
    residual: float = RESIDUAL,
) -> Calibration:
    """The calibration for rows of ``dim`` entries, the intercept's 1 included.

    ``price`` is the share of epsilon paid for curvature, the loss's own by default. More of it means more
    noise and a smaller ridge: 0.05 about halves the ridge of the logistic fit.
    """
    positive(epsilon=epsilon)
    probability(delta=delta)
    probability(solver_share=solver_share)
    one_of(("replace_one", "add_remove"), neighbours=neighbours)
    rows, p = whole(rows_per_person=rows_per_person), whole(dim=dim)
    spent, longest = (1.0 - solver_share) * epsilon, squared_length(geometry, p)
    paid = loss.price if price is None else probability(price=price)
    u, k = pure_ratios(loss, epsilon=spent / rows, neighbours=neighbours, price=paid)
    law = _norm_law(loss, geometry, p, MARGIN / u)
    if delta > 0.0 and is_of_use(loss, rows):
        mu, gaussian_k = gaussian_ratios(
            loss, epsilon=spent, delta=delta, neighbours=neighbours, rows_per_person=rows
        )
        gaussian = GaussianLaw(dim=law.dim, scale=MARGIN * loss.score_bound * math.sqrt(longest) / mu)
        if gaussian.variance < law.variance:
            law, k = gaussian, gaussian_k
    ridge = MARGIN * longest / k
    residual *= max(1.0, p / ENTRIES)
    return finished(law, ridge, loss, epsilon=epsilon, solver_share=solver_share, residual=residual)


def finished(
    law: Law,
    ridge: float,
    loss: Loss,
    *,
    epsilon: float,
    solver_share: float,
    residual: float,
) -> Calibration:
    """Step (5) of the proof: the noise that pays for the solver."""
    tolerance = positive(residual=residual) * loss.score_bound
    noise = None
    if solver_share > 0.0:
        scale = MARGIN * 2.0 * tolerance / (ridge * solver_share * epsilon)
        noise = BallLaw(dim=law.dim, scale=scale)
    return Calibration(law=law, ridge=ridge, residual=tolerance, solver_noise=noise)


def pure_ratios(loss: Loss, *, epsilon: float, neighbours: Neighbours, price: float) -> tuple[float, float]:
    """(u, k) of step (3), for one row a person."""
    if price < LEAST_PRICE and loss.price:
        raise InvalidInput(
            f"Expected price >= {LEAST_PRICE:g} as its curvature is not free, got price={price!r}."
        )
    u = (1.0 - price) * epsilon
    if neighbours == "replace_one":
        u *= 0.5
        return u, largest_ratio(loss, u, epsilon - u)
    return u, largest_ratio(loss, u, epsilon)


def largest_ratio(loss: Loss, u: float, allowed: float) -> float:
    """The largest k, rounded down, with joint_loss(u, k) <= allowed."""
    allowed = max(allowed, u)  # which it is, up to rounding
    low, high = 0.0, min(u, LARGEST_RATIO)
    while loss.joint_loss(u, high) <= allowed:
        if high >= LARGEST_RATIO:
            return LARGEST_RATIO
        low, high = high, min(2.0 * high, LARGEST_RATIO)
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if loss.joint_loss(u, middle) <= allowed:
            low = middle
        else:
            high = middle
    return low


def _norm_law(loss: Loss, geometry: Geometry, p: int, per_unit: float) -> Law:
    """The law of the tilt whose norm is 1 at a gradient of relative score 1; ``per_unit`` is 1/u."""
    row = math.sqrt(p) if geometry == "ball" else 1.0  # the largest norm of a weighted row
    score = loss.score_bound if loss.num_predictors == 1 else 1.0
    return norm_law(
        predictors=loss.num_predictors, columns=p, scale=per_unit * row * score, geometry=geometry
    )
