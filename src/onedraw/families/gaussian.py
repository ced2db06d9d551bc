# SPDX-License-Identifier: Apache-2.0
"""Gaussian responses: f(y | eta, s) = exp(-r^2/2) / (s sqrt(2 pi)), r = (y - eta)/s, s >= ``scale_floor``.

    sup g = (2 pi)^(-1/2),    integral of g^beta = (2 pi)^(-b/2) beta^(-1/2),    h' = -r,    h'' = -1.

>>> family = Gaussian(scale_floor=0.5)
>>> round(family.log_sup_density, 6)         # -log(0.5 sqrt(2 pi))
-0.225791
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.families.location_scale import StandardDensity
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Gaussian(StandardDensity):
    """y = eta + scale * (standard normal noise)."""

    scale_floor: float = 0.1

    name: ClassVar[str] = "gaussian"
    kind: ClassVar[str] = "linear"

    @property
    def log_sup_standard(self) -> float:
        return -0.5 * math.log(2.0 * math.pi)

    def log_standard_power_integral(self, beta: float) -> float:
        return (beta - 1.0) * self.log_sup_standard - 0.5 * math.log(beta)

    def scaled_log_kernel(self, residual: Array, factor: float) -> Array:
        residual *= residual
        residual *= -0.5 * factor
        return residual

    def log_kernel_slopes(self, residual: Array) -> tuple[Array, Array]:
        return -residual, np.full_like(residual, -1.0)

    def standard_sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.standard_normal(shape)
