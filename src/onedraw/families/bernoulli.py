# SPDX-License-Identifier: Apache-2.0
"""Bernoulli responses with a logit link: f(1 | eta) = 1/(1 + exp(-eta)).

With the margin m = eta for y = 1 and -eta for y = 0, and p = f(y) = 1/(1 + exp(-m)), q = 1 - p,

    I = p^beta + q^beta,
    d loss / dm   = -(q^2 p^b + p q^(b+1)),
    d2 loss / dm2 = p q [ 2 q p^b - b q^2 p^(b-1) - q^beta + beta p q^b ].

>>> import numpy as np
>>> family = Bernoulli()
>>> loss = family.beta_loss(np.array([1.0]), np.log(np.array([0.3 / 0.7])), 2.0)
>>> float(loss[0] - 1 / 1.0 + 1 / 2.0)          # without the constant 1/b - 1/beta
-0.01...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from onedraw.errors import InvalidInput
from onedraw.families._power import power
from onedraw.families.base import SMALL_B, Derivatives, MassFunction
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Bernoulli(MassFunction):
    """y in {0, 1} with logit link."""

    name: ClassVar[str] = "bernoulli"

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
        p, q = _probabilities(y, eta)
        return _loss_in_place(p, q, power(p, b), power(q, b), beta)

    def beta_loss_derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        b = beta - 1.0
        p, q = _probabilities(y, eta)
        p_power, q_power = power(p, b), power(q, b)
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

    def check_response(self, y: Array) -> None:
        if not np.isin(y, (0.0, 1.0)).all():
            raise InvalidInput("Expected a response of zeros and ones; encode the two classes as 0 and 1.")


def _probabilities(y: Array, eta: Array) -> tuple[Array, Array]:
    """p = f(y) and q = 1 - p, with few passes and no logarithm: this runs rows x proposals times per draw."""
    p = np.asarray((1.0 - 2.0 * y) * eta)
    with np.errstate(over="ignore"):  # exp(-margin) = inf means p = 0
        np.exp(p, out=p)
    p += 1.0
    np.reciprocal(p, out=p)
    return p, np.subtract(1.0, p)


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
