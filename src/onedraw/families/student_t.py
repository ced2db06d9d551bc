# SPDX-License-Identifier: Apache-2.0
"""Student-t responses with known degrees of freedom d: g(r) = C (1 + r^2/d)^(-(d+1)/2), r = (y - eta)/scale.

With B the beta function and a = beta (d + 1)/2,

    C = 1/(sqrt(d) B(1/2, d/2)) = sup g,        integral of g^beta = C^beta sqrt(d) B(1/2, a - 1/2),
    h' = -(d+1) r/(d + r^2),                    h'' = -(d+1) (d - r^2)/(d + r^2)^2.

Degrees of freedom are public and fixed: with free ones the power integral is no longer one constant times
scale^-b, and the certificate of location-scale families would not apply.

>>> import math
>>> family = StudentT(df=1.0, scale_floor=1.0)
>>> bool(math.isclose(family.log_sup_density, -math.log(math.pi)))       # the Cauchy
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy import special

from onedraw._validate import positive
from onedraw.families.base import Option
from onedraw.families.location_scale import NOISE_FLOOR, LocationScale
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class StudentT(LocationScale):
    """y = eta + scale * (standard t noise with ``df`` degrees of freedom)."""

    df: float = 4.0
    scale_floor: float = 0.1

    name: ClassVar[str] = "student_t"
    errors: ClassVar[str | None] = "student_t"
    options: ClassVar[Mapping[str, Option]] = MappingProxyType(
        {**NOISE_FLOOR, "df": Option(field="df", default=4.0, about="Degrees of freedom.")}
    )

    def describe(self, classes: tuple[Any, ...] | None = None) -> str:
        return f"linear with Student t errors of {self.df:g} degrees of freedom, coefficients of the centre"

    def __post_init__(self) -> None:
        positive(df=self.df)
        super().__post_init__()

    @property
    def log_sup_standard(self) -> float:
        return -0.5 * math.log(self.df) - float(special.betaln(0.5, 0.5 * self.df))

    def log_standard_power_integral(self, beta: float) -> float:
        exponent = 0.5 * beta * (self.df + 1.0)
        log_beta_function = float(special.betaln(0.5, exponent - 0.5))
        return beta * self.log_sup_standard + 0.5 * math.log(self.df) + log_beta_function

    def scaled_log_kernel(self, residual: Array, factor: float) -> Array:
        residual *= residual
        residual *= 1.0 / self.df
        np.log1p(residual, out=residual)
        residual *= -0.5 * (self.df + 1.0) * factor
        return residual

    def log_kernel_slopes(self, residual: Array) -> tuple[Array, Array]:
        d = self.df
        decay = 1.0 / (d + residual * residual)
        return -(d + 1.0) * residual * decay, (d + 1.0) * (1.0 - 2.0 * d * decay) * decay

    def standard_sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.standard_t(self.df, size=shape)
