# SPDX-License-Identifier: Apache-2.0
"""Laplace responses: f(y | eta, s) = exp(-|r|) / (2 s), r = (y - eta)/s, s >= ``scale_floor``.

    sup g = 1/2,    integral of g^beta = 2^(-b) / beta,    h' = -sign(r),    h'' = 0 except at r = 0.

The loss has a kink where the residual is zero; derivatives there are those of sign(0) = 0.

>>> family = Laplace(scale_floor=0.5)
>>> family.log_sup_density
0.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw.families.location_scale import LocationScale
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Laplace(LocationScale):
    """y = eta + scale * (standard Laplace noise); eta is the median."""

    scale_floor: float = 0.1

    name: ClassVar[str] = "laplace"
    errors: ClassVar[str | None] = "laplace"

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

    def standard_sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.laplace(size=shape)
