# SPDX-License-Identifier: Apache-2.0
"""Public priors: normal for the coefficients, inverse-gamma with a floor for the residual scale.

A prior is part of what the user declares before seeing the data. It is proper, so every posterior is; and
where the model has a scale, the floor is what bounds the density and therefore the loss: no draw ever has a
scale below it.

The scale enters through an unconstrained last coordinate u with scale = floor + exp(u); the density in u
carries the Jacobian. ``box`` truncates every coefficient to [-box, box] times the prior scale and the
residual scale from above, which makes the parameter space compact, as the proving sampler needs.

>>> import numpy as np
>>> prior = Prior(scale=3.0)
>>> float(prior.log_density(np.zeros((1, 2)))[0])      # 2 log(1/(3 sqrt(2 pi)))
-4.035...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class ScalePrior:
    """scale^2 ~ inverse-gamma(shape, rate), truncated to floor <= scale <= ceiling."""

    floor: float
    ceiling: float = math.inf
    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        positive(floor=self.floor)
        positive(shape=self.shape)
        positive(rate=self.rate)
        if not self.ceiling > self.floor:
            raise InvalidInput(
                f"Expected the scale's ceiling > its floor, got ceiling={self.ceiling:g} and "
                f"floor={self.floor:g}."
            )
        low, high, _ = self._precision_range()
        if not abs(high - low) > 1e-290:
            raise InvalidInput(
                f"Expected a scale prior with some mass between floor={self.floor:g} and "
                f"ceiling={self.ceiling:g}, "
                f"got shape={self.shape:g} and rate={self.rate:g}, which put none there. Choose a rate near "
                "shape times the square of a plausible scale."
            )

    def scale(self, u: Array) -> Array:
        """The residual scale at working coordinate u; overflow is cut off far above any ceiling."""
        return self.floor + np.exp(np.minimum(u, 300.0))

    def coordinate(self, scale: float) -> float:
        """The working coordinate of a scale above the floor."""
        return math.log(scale - self.floor)

    def _precision_range(self) -> tuple[float, float, bool]:
        """Probabilities of the gamma law of 1/scale^2 at the ceiling and at the floor; True if of its upper
        tail.

        The tail is the one in which both are small, so that their difference keeps its digits.
        """
        low, high = self.rate / self.ceiling**2, self.rate / self.floor**2
        upper = low > self.shape
        tail = special.gammaincc if upper else special.gammainc
        return float(tail(self.shape, low)), float(tail(self.shape, high)), upper

    @cached_property
    def _log_constant(self) -> float:
        low, high, _ = self._precision_range()
        constant = math.log(2.0) + self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return constant - math.log(abs(high - low))

    def log_density_of_scale(self, scale: Array) -> Array:
        """Normalised log density of the scale itself (not of scale^2), -inf outside [floor, ceiling]."""
        inside = (scale >= self.floor) & (scale <= self.ceiling)
        return np.where(inside, self._log_density(np.log(np.maximum(scale, self.floor))), -np.inf)

    def log_density(self, u: Array) -> Array:
        """Log density of the working coordinate, Jacobian d scale/du = exp(u) included."""
        return np.where(self.scale(u) <= self.ceiling, self._log_density(self._log_scale(u)) + u, -np.inf)

    def derivatives(self, u: Array) -> tuple[Array, Array]:
        """First and second derivative of ``log_density`` in u, inside the support."""
        # With r = d log scale/du = exp(u)/scale, whose own derivative is r (1 - r).
        r = special.expit(u - math.log(self.floor))
        precision = self.rate * np.exp(-2.0 * self._log_scale(u))
        slope = 2.0 * precision - (2.0 * self.shape + 1.0)
        return slope * r + 1.0, slope * r * (1.0 - r) - 4.0 * precision * r * r

    def _log_scale(self, u: Array) -> Array:
        """log(floor + exp(u)) for any u: cut off instead, the density would rise again far out."""
        return np.logaddexp(math.log(self.floor), u)

    def _log_density(self, log_scale: Array) -> Array:
        """Log density of the scale, inside the support."""
        power = 2.0 * self.shape + 1.0
        return self._log_constant - power * log_scale - self.rate * np.exp(-2.0 * log_scale)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Working coordinates drawn from the prior, by inversion."""
        low, high, upper = self._precision_range()
        inverse = special.gammainccinv if upper else special.gammaincinv
        # 1 - random() is never 0, so the precision is not either.
        precision = inverse(self.shape, low + (high - low) * (1.0 - rng.random(size))) / self.rate
        scale = np.minimum(1.0 / np.sqrt(precision), self.ceiling)
        return np.asarray(np.log(np.maximum(scale - self.floor, 1e-300)))


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Independent N(0, scale^2) coefficients and, with ``noise``, one scale coordinate after them."""

    scale: float = 3.0
    noise: ScalePrior | None = None
    box: float | None = None

    def __post_init__(self) -> None:
        positive(prior_scale=self.scale)
        if self.box is not None:
            positive(box=self.box)

    def _split(self, thetas: Array) -> tuple[Array, Array | None]:
        if self.noise is None:
            return thetas, None
        return thetas[:, :-1], thetas[:, -1]

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row of ``thetas`` (m, p), -inf outside the box."""
        location, u = self._split(thetas)
        log_norm = -math.log(self.scale) - 0.5 * math.log(2.0 * math.pi)
        if self.box is not None:
            log_norm -= math.log(math.erf(self.box / math.sqrt(2.0)))
        value = location.shape[1] * log_norm - 0.5 * np.square(location / self.scale).sum(axis=1)
        if self.box is not None:
            inside = (np.abs(location) <= self.box * self.scale).all(axis=1)
            value = np.where(inside, value, -np.inf)
        if u is not None and self.noise is not None:
            value = value + self.noise.log_density(u)
        return np.asarray(value)

    def gradient(self, thetas: Array) -> Array:
        """Gradient of the log density in each row, inside the support."""
        gradient = -thetas / self.scale**2
        if self.noise is not None:
            gradient[:, -1] = self.noise.derivatives(thetas[:, -1])[0]
        return gradient

    def negative_hessian_diagonal(self, theta: Array) -> Array:
        """The diagonal of minus the Hessian at one point (p,); the prior has no other entries."""
        diagonal = np.full(theta.shape, 1.0 / self.scale**2)
        if self.noise is not None:
            diagonal[-1] = -self.noise.derivatives(theta[-1:])[1][0]
        return diagonal

    def sample(self, rng: np.random.Generator, num: int, dim: int) -> Array:
        """``num`` rows of ``dim`` working coordinates."""
        draws = rng.standard_normal((num, dim))
        if self.box is not None:
            # Truncated by inversion: redrawing until inside would be as good, but this never loops.
            half = 0.5 * math.erf(self.box / math.sqrt(2.0))
            draws = special.ndtri(0.5 + half * (2.0 * rng.random((num, dim)) - 1.0))
            draws = np.clip(draws, -self.box, self.box)  # against rounding
        draws *= self.scale
        if self.noise is not None:
            draws[:, -1] = self.noise.sample(rng, num)
        return draws
