# SPDX-License-Identifier: Apache-2.0
"""Bernoulli responses with a logit link: f(1 | eta) = 1/(1 + exp(-eta)).

With the margin m = eta for y = 1 and -eta for y = 0, and p = f(y) = 1/(1 + exp(-m)), q = 1 - p,

    I = p^beta + q^beta,
    d loss / dm   = -(q^2 p^b + p q^(b+1)),
    d2 loss / dm2 = p q [ 2 q p^b - b q^2 p^(b-1) - q^beta + beta p q^b ].

The loss falls with the margin, and the largest value of minus its second derivative over p is a constant of
beta (``concavity``): both bound it over a cell of parameters.

-log f = log(1 + exp(-m)) with |m| <= B lies in [log(1 + e^-B), log(1 + e^B)], of width exactly B.

At beta = 2 the loss is q^2 and at beta = 3 it is q^2 / 2, by p + q = 1: the same model at another weight.

>>> import numpy as np
>>> family = Bernoulli()
>>> loss = family.beta_loss(np.array([1.0]), np.log(np.array([0.3 / 0.7])), 2.0)
>>> float(loss[0] - 1 / 1.0 + 1 / 2.0)          # without the constant 1/b - 1/beta
-0.01...
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from onedraw.families._class_reference import INTERCEPT_SD, SPREAD
from onedraw.families.base import SMALL_B, Derivatives, MassFunction
from onedraw.families.cells import Cell
from onedraw.families.noise_ratio import class_noise_ratio
from onedraw.families.reference import ReferenceTable, gauss_hermite
from onedraw.types import AnyArray, Array

SQUARES = {2.0: 1.0, 3.0: 0.5}
"""The betas at which the loss is a multiple of q^2, and the multiple."""
LARGEST_DRIFTING = 15.0
"""The size of a predictor beyond which the curvature of the loss is no longer followed."""
LARGEST_MARGIN = 709.0
"""exp(709) is finite, and at b >= SMALL_B the loss there is its limit to the last digit."""


@dataclass(frozen=True, kw_only=True)
class Bernoulli(MassFunction):
    """y in {0, 1} with logit link."""

    name: ClassVar[str] = "bernoulli"
    kind: ClassVar[str] = "logistic"
    is_canonical: ClassVar[bool] = True
    response: ClassVar[str] = "zeros and ones"
    response_remedy: ClassVar[str] = "Encode the two classes as 0 and 1."
    handy_betas: ClassVar[tuple[float, ...]] = (1.5, 2.0, 2.5)
    compares_with_weight_one: ClassVar[bool] = True
    has_cell_bounds: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True
    question: ClassVar[str | None] = "proportion"
    question_assumes: ClassVar[str] = "records are independent of one another"
    has_planner_page: ClassVar[bool] = True
    takes_shares: ClassVar[bool] = True
    ratio: ClassVar[str | None] = "odds ratio"
    exponential_intercept: ClassVar[str] = "the odds where every feature is 0"

    def describe(self, classes: tuple[Any, ...] | None = None) -> str:
        if classes is None:
            return "logistic, coefficients of the log odds"
        against, of = classes
        return f"logistic, coefficients of the log odds of class {of!r} against {against!r}"

    def mean(self, eta: Array) -> Array:
        return special.expit(eta)  # type: ignore[no-any-return]

    def log_density(self, y: Array, eta: Array, scale: Array | None = None) -> Array:
        return special.log_expit((2.0 * y - 1.0) * eta)  # type: ignore[no-any-return]

    def log_density_derivatives(self, y: Array, eta: Array, scale: Array | None = None) -> Derivatives:
        mean = special.expit(eta)
        return Derivatives(value=self.log_density(y, eta), d_eta=y - mean, d2_eta=-mean * special.expit(-eta))

    def power_integral(self, eta: Array, beta: float, scale: Array | None = None) -> Array:
        total: Array = np.exp(beta * special.log_expit(eta)) + np.exp(beta * special.log_expit(-eta))
        return np.minimum(total, 1.0)

    def beta_loss(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        b = beta - 1.0
        if b < SMALL_B:
            log_p = special.log_expit((2.0 * y - 1.0) * eta)
            log_q = log_p - (2.0 * y - 1.0) * eta
            p_gain, q_gain = np.expm1(b * log_p), np.expm1(b * log_q)
            mixed = np.exp(log_p) * p_gain + np.exp(log_q) * q_gain
            return mixed / beta - p_gain / b  # type: ignore[no-any-return]
        if beta in SQUARES:
            q = _other_probability(y, eta)
            q *= q
            return q if beta == 2.0 else np.multiply(q, SQUARES[beta], out=q)
        p, q, p_power, q_power = _probabilities_and_powers(y, eta, b)
        return _loss_in_place(p, q, p_power, q_power, beta)

    def beta_loss_derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        if beta in SQUARES:
            return _square_derivatives(y, eta, SQUARES[beta], order)
        b = beta - 1.0
        p, q, p_power, q_power = _probabilities_and_powers(y, eta, b)
        second = None
        if order >= 2:
            # p q [2 q p^b - q^beta + beta p q^b] - b q^3 p^b, with the powers of q factored out.
            second = q * (p * ((2.0 * q) * p_power + (beta * p - q) * q_power) - (b * q * q) * p_power)
        first = q * p_power
        first += p * q_power
        first *= q
        first *= 1.0 - 2.0 * y  # minus the margin's sign: the loss falls with the margin
        value = self.beta_loss(y, eta, beta) if b < SMALL_B else _loss_in_place(p, q, p_power, q_power, beta)
        return Derivatives(value=value, d_eta=first, d2_eta=second)

    def sample(self, eta: Array, rng: np.random.Generator, scale: Array | None = None) -> Array:
        return (rng.random(np.shape(eta)) < special.expit(eta)).astype(np.float64)  # type: ignore[no-any-return]

    def signs(self, y: Array) -> Array | None:
        return np.asarray(1.0 - 2.0 * y)

    def in_support(self, y: Array) -> AnyArray:
        return np.isin(y, (0.0, 1.0))

    def rough_predictor(self, y: Array) -> Array:
        return 4.0 * y - 2.0

    def slope_bound(self, beta: float) -> float:
        return slope_bound(beta)

    def log_loss_range(self, predictor_bound: float) -> tuple[float, float]:
        smallest = math.log1p(math.exp(-predictor_bound))
        return smallest, predictor_bound + smallest

    def reference_table(self, scale: float) -> ReferenceTable:
        normal, intercepts = gauss_hermite(15)
        # The balanced reference comes first, with weight 0.
        centres, intercepts = INTERCEPT_SD * np.append(0.0, normal), np.append(0.0, intercepts)
        return self._reference(np.arange(2.0), centres, intercepts, SPREAD)

    def loss_minimum(self, y: Array, cell: Cell, beta: float) -> Array:
        # The derivative in the margin is -(q^2 p^b + p q^beta) < 0.
        return self.beta_loss(y, np.where(y > 0.5, cell.eta_high, cell.eta_low), beta)

    def loss_concavity(self, y: Array, cell: Cell, beta: float) -> tuple[Array, Array | None]:
        return np.full(cell.eta_low.shape, concavity(beta)), None

    def noise_ratio(self, beta: float, scale: float | None = None) -> float:
        return class_noise_ratio(beta)

    def drift_support(self, eta: Array) -> tuple[Array, Array]:
        return np.arange(2.0), np.clip(eta, -LARGEST_DRIFTING, LARGEST_DRIFTING)


@functools.lru_cache(maxsize=64)
def slope_bound(beta: float) -> float:
    """sup over p of |d loss/dm| = (1-p)^2 p^b + p (1-p)^(b+1), rounded up by less than a part in a billion.

    By dividing [0, 1]: on [s, t] the sum is at most (1-s)^2 t^b + t (1-s)^(b+1), each factor being monotone.

    >>> 8 / 27 < slope_bound(2.0) < 8 / 27 * (1 + 1e-9)
    True
    """
    b = beta - 1.0
    # Geometric near 0, where the first term may rise steeply.
    edges = np.concatenate([[0.0], 10.0 ** np.linspace(-300.0, -3.0, 2000), np.linspace(1e-3, 1.0, 1000)[1:]])
    low, high = edges[:-1], edges[1:]
    while True:
        above = np.square(1.0 - low) * high**b + high * (1.0 - low) ** (b + 1.0)
        reached = float((np.square(1.0 - high) * high**b + high * (1.0 - high) ** (b + 1.0)).max())
        if above.max() <= reached * (1.0 + 5e-10):
            return float(above.max()) * (1.0 + 1e-12)
        kept = above > reached
        steps = np.linspace(low[kept], high[kept], 9)
        low, high = steps[:-1].ravel(), steps[1:].ravel()


@functools.lru_cache(maxsize=256)
def concavity(beta: float) -> float:
    """sup of minus the second derivative in the margin, by interval arithmetic over p in [0, 1].

    With q = 1 - p, minus the second derivative is b q^3 p^b + p q^(beta+1) - 2 p q^2 p^b - beta p^2 q^beta.
    Each factor is monotone in p, so on [u, v] the first two terms are bounded above, and the last two below,
    at mixed ends.

    >>> round(concavity(2.0), 3)
    0.12
    """
    b = beta - 1.0
    edges = np.linspace(0.0, 1.0, 20_001)
    p_low, p_high = edges[:-1], edges[1:]
    q_low, q_high = 1.0 - p_high, 1.0 - p_low
    upper = b * q_high**3 * p_high**b + p_high * q_high ** (beta + 1.0)
    lower = 2.0 * p_low ** (1.0 + b) * q_low**2 + beta * p_low**2 * q_low**beta
    return float((upper - lower).max() * (1.0 + 1e-9))


def _minus_margin(y: Array, eta: Array) -> Array:
    """eta itself where all responses are known to be 0; a new array elsewhere."""
    return eta if y.size == 1 and y.item() == 0.0 else np.asarray((1.0 - 2.0 * y) * eta)


def _other_probability(y: Array, eta: Array) -> Array:
    """q = 1 - f(y), in one array and few passes: this runs rows x proposals times per draw."""
    with np.errstate(over="ignore"):  # exp(-margin) = inf means p = 0
        q: Array = np.exp(_minus_margin(y, eta))
    q += 1.0
    np.reciprocal(q, out=q)
    return np.subtract(1.0, q, out=q)


def _square_derivatives(y: Array, eta: Array, factor: float, order: int) -> Derivatives:
    """The loss factor * q^2 with its derivatives in the margin m.

    As dp/dm = p q = -dq/dm, those of q^2 are -2 p q^2 and 2 p q^2 (2 p - q).
    """
    q = _other_probability(y, eta)
    p = 1.0 - q
    value = q * q
    value *= factor
    first = 2.0 * value
    first *= p
    second = None
    if order >= 2:
        p *= 2.0
        p -= q
        second = np.multiply(p, first, out=p)
    first *= 1.0 - 2.0 * y  # minus the margin's sign: the loss falls with the margin
    return Derivatives(value=value, d_eta=first, d2_eta=second)


def _probabilities_and_powers(y: Array, eta: Array, b: float) -> tuple[Array, Array, Array, Array]:
    """p = f(y), q = 1 - p, and their b-th powers: exponentials and logarithms cost less than powers."""
    minus_margin = np.minimum(_minus_margin(y, eta), LARGEST_MARGIN)
    total = np.exp(minus_margin)
    total += 1.0
    log_total = np.log(total)  # -log p; and log q = -margin - log_total
    minus_margin -= log_total
    minus_margin *= b
    q_power = np.exp(minus_margin, out=minus_margin)
    log_total *= -b
    p_power = np.exp(log_total, out=log_total)
    p = np.reciprocal(total, out=total)
    return p, 1.0 - p, p_power, q_power


def _loss_in_place(p: Array, q: Array, p_power: Array, q_power: Array, beta: float) -> Array:
    """(1 - p^b)/b - (1 - p^beta - q^beta)/beta from p, q and their b-th powers, overwriting p and q."""
    b = beta - 1.0
    # p^b (p - beta/b) + q^beta is beta (I/beta - p^b/b).
    q *= q_power
    p -= beta / b
    p *= p_power
    p += q
    p *= 1.0 / beta
    p += 1.0 / b - 1.0 / beta
    return p
