# SPDX-License-Identifier: Apache-2.0
"""Location-scale families from a standard density g: f(y) = g(r)/scale with residual r = (y - eta)/scale.

A family supplies h = log g with two derivatives, m = sup g and c = the integral of g^beta; all else follows.
With s the scale, log f = h(r) - log s and I = c s^-b, so

    (log f)_eta     = -h'/s,            (log f)_s  = -(1 + r h')/s,          (log f)_eta,s = (h' + r h'')/s^2,
    (log f)_eta,eta = h''/s^2,          (log f)_ss = (1 + 2 r h' + r^2 h'')/s^2,
    I_s = -b I/s,                       I_ss = b beta I/s^2,

and the loss is composed from these. A scale below the floor is read as the floor, so the certificate of the
loss holds for every finite input.

>>> import numpy as np
>>> from onedraw.families import Gaussian
>>> family = Gaussian(scale_floor=0.5)
>>> loss = family.beta_loss(np.array([0.7]), np.array([0.0]), 2.0, np.array(1.0))
>>> round(float(loss[0] - 1 + 1 / 2), 10)          # without the constant 1/b - 1/beta
-0.1712065375
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.families._compose import compose_beta_loss
from onedraw.families.base import SMALL_B, Derivatives, LocationScale
from onedraw.types import Array

_LARGEST_RESIDUAL = 1e70
"""Derivatives take larger residuals for this one, whose fourth power is still finite."""


class StandardDensity(LocationScale):
    """A location-scale family given by its standard density g."""

    def __post_init__(self) -> None:
        positive(scale_floor=self.scale_floor)

    @abstractmethod
    def scaled_log_kernel(self, residual: Array, factor: float) -> Array:
        """factor * log(g(residual) / sup g), written over ``residual``: the hot path of the loss."""

    @abstractmethod
    def log_kernel_slopes(self, residual: Array) -> tuple[Array, Array]:
        """h' and h'', the derivatives of log g (almost everywhere)."""

    @abstractmethod
    def standard_sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws from g."""

    def log_density(self, y: Array, eta: Array, scale: Array | None = None) -> Array:
        sigma = self._at_least_floor(scale)
        with np.errstate(over="ignore"):  # a residual of 1e200 has log density -inf, which is right
            result = self.scaled_log_kernel(_residual(y, eta, sigma), 1.0)
        result += self.log_sup_standard - np.log(sigma)
        return result

    def log_density_derivatives(self, y: Array, eta: Array, scale: Array | None = None) -> Derivatives:
        sigma = self._at_least_floor(scale)
        residual = np.clip(_residual(y, eta, sigma), -_LARGEST_RESIDUAL, _LARGEST_RESIDUAL)
        slope, curvature = self.log_kernel_slopes(residual)
        along, bend = residual * slope, residual * curvature
        variance = sigma * sigma
        return Derivatives(
            value=self.scaled_log_kernel(residual.copy(), 1.0) + (self.log_sup_standard - np.log(sigma)),
            d_eta=-slope / sigma,
            d2_eta=curvature / variance,
            d_scale=-(1.0 + along) / sigma,
            d2_scale=(1.0 + 2.0 * along + residual * bend) / variance,
            d_eta_scale=(slope + bend) / variance,
        )

    def power_integral(self, eta: Array, beta: float, scale: Array | None = None) -> Array:
        sigma = self._at_least_floor(scale)
        shape = np.broadcast_shapes(np.shape(eta), sigma.shape)
        return np.broadcast_to(np.exp(self._log_power_integral(sigma, beta)), shape).copy()

    def beta_loss(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        b = beta - 1.0
        sigma = self._at_least_floor(scale)
        # Whatever depends on the scale alone is one number per column; only the kernel is rows x columns.
        integral_part = np.expm1(self._log_power_integral(sigma, beta)) / beta
        log_top_power = b * (self.log_sup_standard - np.log(sigma))
        with np.errstate(over="ignore"):
            loss = self.scaled_log_kernel(_residual(y, eta, sigma), b)
        if b < SMALL_B:
            loss += log_top_power
            np.expm1(loss, out=loss)
            loss *= -1.0 / b
            loss += integral_part
        else:
            np.exp(loss, out=loss)
            loss *= np.exp(log_top_power) / -b
            loss += 1.0 / b + integral_part
        return loss

    def beta_loss_derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        b = beta - 1.0
        sigma = self._at_least_floor(scale)
        total = np.exp(self._log_power_integral(sigma, beta))
        zero = np.zeros(())
        integral = Derivatives(
            value=total,
            d_eta=zero,
            d2_eta=zero,
            d_scale=-b * total / sigma,
            d2_scale=b * beta * total / (sigma * sigma),
            d_eta_scale=zero,
        )
        log_density = self.log_density_derivatives(y, eta, sigma)
        value = self.beta_loss(y, eta, beta, sigma)
        return compose_beta_loss(value, log_density, integral, beta=beta, order=order)

    def sample(self, eta: Array, rng: np.random.Generator, scale: Array | None = None) -> Array:
        sigma = self._at_least_floor(scale)
        shape = np.broadcast_shapes(np.shape(eta), sigma.shape)
        return eta + sigma * self.standard_sample(shape, rng)

    def check_response(self, y: Array) -> None:
        if not np.isfinite(y).all():
            raise InvalidInput("Expected a response of finite numbers; remove or impute the missing ones.")

    def _log_power_integral(self, sigma: Array, beta: float) -> Array:
        log_integral: Array = self.log_standard_power_integral(beta) - (beta - 1.0) * np.log(sigma)
        return log_integral

    def _at_least_floor(self, scale: Array | None) -> Array:
        if scale is None:
            raise InvalidInput(f"Expected a scale >= scale_floor for the {self.name} family, got scale=None.")
        return np.maximum(np.asarray(scale, dtype=np.float64), self.scale_floor)


def _residual(y: Array, eta: Array, sigma: Array) -> Array:
    """(y - eta)/sigma, as a new array of the full broadcast shape."""
    with np.errstate(over="ignore"):
        difference = np.asarray(np.subtract(y, eta))
        whole = np.broadcast_shapes(difference.shape, sigma.shape) == difference.shape
        return np.asarray(np.multiply(difference, 1.0 / sigma, out=difference if whole else None))
