# SPDX-License-Identifier: Apache-2.0
"""Laplace responses: f(y | eta, s) = exp(-|r|) / (2 s), r = (y - eta)/s, s >= ``scale_floor``.

    sup g = 1/2,    integral of g^beta = 2^(-b) / beta,    h' = -sign(r),    h'' = 0 except at r = 0.

The loss has a kink where the residual is zero; first derivatives there are those of sign(0) = 0. Second
derivatives in the predictor miss the kinks: those of the loss are -b f^b/s^2 < 0 almost everywhere, although
the sum over many records is convex near its minimum. A search that believed them would go astray. So the
curvature of the *expected* loss stands in, in which the kinks count. At the model it is the expectation of
f^b (d log f/d eta)^2 (see ``onedraw.privacy.reference``), that is, of f^b/s^2. This is what ``d2_eta`` holds,
and -1/s^2 for log f. An exact draw does not depend on it.

>>> family = Laplace(scale_floor=0.5)
>>> family.log_sup_density
0.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw.families.base import Derivatives
from onedraw.families.location_scale import LocationScale
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Laplace(LocationScale):
    """y = eta + scale * (standard Laplace noise); eta is the median."""

    scale_floor: float = 0.1

    name: ClassVar[str] = "laplace"
    errors: ClassVar[str | None] = "laplace"
    has_kinks: ClassVar[bool] = True

    def describe(self, classes: tuple[Any, ...] | None = None) -> str:
        return "linear with Laplace errors, coefficients of the median"

    @property
    def log_sup_standard(self) -> float:
        return -math.log(2.0)

    def log_standard_power_integral(self, beta: float) -> float:
        return (beta - 1.0) * self.log_sup_standard - math.log(beta)

    def scaled_log_kernel(self, residual: Array, factor: float) -> Array:
        np.abs(residual, out=residual)
        residual *= -factor
        return residual

    def log_kernel_slopes(self, residual: Array) -> tuple[Array, Array]:
        return -np.sign(residual), np.zeros_like(residual)

    def log_density_derivatives(self, y: Array, eta: Array, scale: Array | None = None) -> Derivatives:
        found = super().log_density_derivatives(y, eta, scale)
        return replace(found, d2_eta=-np.broadcast_to(self._at_least_floor(scale) ** -2.0, found.value.shape))

    def beta_loss_derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        found = super().beta_loss_derivatives(y, eta, beta, scale, order=order)
        if order < 2:
            return found
        density_power = np.exp((beta - 1.0) * self.log_density(y, eta, scale))
        return replace(found, d2_eta=density_power / np.square(self._at_least_floor(scale)))

    def standard_sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.laplace(size=shape)
