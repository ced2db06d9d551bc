# SPDX-License-Identifier: Apache-2.0
"""Location-scale families from a standard density g: f(y) = g(r)/scale with residual r = (y - eta)/scale.

A family supplies h = log g with two derivatives, m = sup g and c = the integral of g^beta; all else follows.
With s the scale, log f = h(r) - log s and I = c s^-b, so

    (log f)_eta     = -h'/s,            (log f)_s  = -(1 + r h')/s,          (log f)_eta,s = (h' + r h'')/s^2,
    (log f)_eta,eta = h''/s^2,          (log f)_ss = (1 + 2 r h' + r^2 h'')/s^2,
    I_s = -b I/s,                       I_ss = b beta I/s^2,

and the loss is composed from these. A scale below the floor is read as the floor, so the certificate of the
loss holds for every finite input.

*For intervals* the densities must be symmetric. Responses of true scale t, seen with scale s and predictor
error e, have expected loss s^-b [ c/beta - (1/b) integral g(z) g(rho z)^b dz ] at e = 0, with rho = t/s.
Integrating by parts twice, its curvature in e is the integral of f_t f_s^b (log f_t)' (log f_s)', or

    s^-b/(t s) integral g(z) g(rho z)^b h'(z) h'(rho z) dz.

For g with a kink this is still the curvature of the *expected* loss, which has none. These and all other
integrals are taken by a double-exponential rule on each half line; a family with closed forms may use those.

>>> import numpy as np
>>> from onedraw.families import Gaussian
>>> family = Gaussian(scale_floor=0.5)
>>> loss = family.beta_loss(np.array([0.7]), np.array([0.0]), 2.0, np.array(1.0))
>>> round(float(loss[0] - 1 + 1 / 2), 10)          # without the constant 1/b - 1/beta
-0.1712065375
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from scipy.interpolate import CubicSpline

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.families._compose import compose_beta_loss
from onedraw.families.base import SMALL_B, Derivatives, Family, Option
from onedraw.families.certificate import LossBounds, location_scale_bounds
from onedraw.families.reference import ReferenceTable, half_line
from onedraw.types import AnyArray, Array

SCALE_OVER_FLOOR = 4.0
"""The scale of the reference that chooses beta, where no better guess is given."""
_LARGEST_RESIDUAL = 1e70
"""Derivatives take larger residuals for this one, whose fourth power is still finite."""
_LARGEST_LOG_RATIO = 13.0
"""Two scales whose log ratio is larger in size are compared as if it were this."""

NOISE_FLOOR: Mapping[str, Option] = MappingProxyType(
    {"noise_floor": Option(field="scale_floor", default=0.1, about="Smallest scale of the residuals.")}
)


class LocationScale(Family):
    """f(y) = g((y - eta)/scale)/scale with scale >= ``scale_floor``, given by its standard density g."""

    kind: ClassVar[str] = "linear"
    options: ClassVar[Mapping[str, Option]] = NOISE_FLOOR
    response: ClassVar[str] = "finite numbers"
    response_remedy: ClassVar[str] = "Remove or impute the missing ones."
    has_scale: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True
    scale_floor: float

    def __post_init__(self) -> None:
        positive(scale_floor=self.scale_floor)

    @property
    @abstractmethod
    def log_sup_standard(self) -> float:
        """log sup g, for the standard density g."""

    @abstractmethod
    def log_standard_power_integral(self, beta: float) -> float:
        """log of the integral of g^beta, a constant of the family."""

    @abstractmethod
    def scaled_log_kernel(self, residual: Array, factor: float) -> Array:
        """factor * log(g(residual) / sup g), written over ``residual``: the hot path of the loss."""

    @abstractmethod
    def log_kernel_slopes(self, residual: Array) -> tuple[Array, Array]:
        """h' and h'', the derivatives of log g (almost everywhere)."""

    @abstractmethod
    def standard_sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws from g."""

    @property
    def log_sup_density(self) -> float:
        return self.log_sup_standard - float(np.log(self.scale_floor))

    def loss_bounds(self, beta: float) -> LossBounds:
        log_integral = self.log_standard_power_integral(beta) - (beta - 1.0) * math.log(self.scale_floor)
        return location_scale_bounds(beta, self.log_sup_density, log_integral)

    def mean(self, eta: Array) -> Array:
        return eta

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

    def in_support(self, y: Array) -> AnyArray:
        return np.isfinite(y)

    def rough_predictor(self, y: Array) -> Array:
        return y

    # -- the public reference that chooses beta

    def reference_scale(self, noise_scale: float | None = None) -> float:
        return SCALE_OVER_FLOOR * self.scale_floor if noise_scale is None else noise_scale

    def reference_table(self, scale: float) -> ReferenceTable:
        half, step = half_line()
        z, measure = np.concatenate([-half, half]), np.concatenate([step, step])
        at = self.log_density_derivatives(
            (scale * z)[:, None, None], np.zeros((1, 1, 1)), np.asarray(scale, dtype=np.float64)
        )
        return ReferenceTable(
            log_density=at.value + math.log(scale),
            score=at.d_eta * scale,
            measure=measure[:, None, None],
            nodes=np.ones(1),
            intercepts=np.ones(1),
        )

    # -- what intervals need

    def drift_support(self, eta: Array) -> tuple[Array, Array]:
        raise InvalidInput("A symmetric location-scale family has no drift in its location.")

    def noise_ratio(self, beta: float, scale: float | None = None) -> float:
        if scale is None:
            raise InvalidInput(
                f"Expected the scale at which to evaluate the {self.name} noise ratio, got None."
            )
        return self.location_information(2.0 * beta - 1.0, scale) / self.location_information(beta, scale)

    def location_information(self, power: float, scale: float) -> float:
        return float(_standard_moments(self, power)[0] * scale ** -(power + 1.0))

    def scale_noise_ratio(self, beta: float, scale: float) -> float:
        # The score of the scale is -(1 + z h')/scale; f^power dy is g^power scale^(1 - power) dz.
        _, mean, squared = _standard_moments(self, beta)
        noise = _standard_moments(self, 2.0 * beta - 1.0)[2] - mean**2
        return float(noise / squared * scale ** (1.0 - beta))

    def expected_loss(self, scale: Array, true_scale: Array, beta: float) -> tuple[Array, Array]:
        b = beta - 1.0
        overlap, information = _overlaps(self, beta)(np.log(true_scale / scale))
        height = scale**-b
        integral = math.exp(self.log_standard_power_integral(beta)) / beta
        return height * (integral - overlap / b), height * information / (true_scale * scale)

    # -- helpers

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


def _standard(family: LocationScale, z: Array) -> tuple[Array, Array]:
    """log g and h' at z > 0."""
    log_density = family.scaled_log_kernel(z.copy(), 1.0) + family.log_sup_standard
    return log_density, family.log_kernel_slopes(z)[0]


@lru_cache(maxsize=1024)
def _standard_moments(family: LocationScale, power: float) -> tuple[float, float, float]:
    """The integrals over z of g^power times h'^2, 1 + z h' and (1 + z h')^2."""
    z, step = half_line()
    log_density, slope = _standard(family, z)
    weight = 2.0 * step * np.exp(power * log_density)
    along = 1.0 + z * slope
    return float(weight @ slope**2), float(weight @ along), float(weight @ along**2)


@lru_cache(maxsize=64)
def _overlaps(family: LocationScale, beta: float) -> Callable[[Array], tuple[Array, Array]]:
    """The two integrals of the module docstring as functions of log rho, interpolated in their logarithms."""
    z, step = half_line()
    log_ratio = np.linspace(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO, 521)
    log_density, slope = _standard(family, z)
    other, other_slope = _standard(family, np.exp(log_ratio)[:, None] * z)
    weight = 2.0 * step * np.exp(log_density + (beta - 1.0) * other)
    sums = np.stack([weight.sum(axis=1), (weight * slope * other_slope).sum(axis=1)], axis=1)
    spline = CubicSpline(log_ratio, np.log(sums))

    def at(log_ratio: Array) -> tuple[Array, Array]:
        found = np.exp(spline(np.clip(log_ratio, -_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)))
        return found[..., 0], found[..., 1]

    return at
