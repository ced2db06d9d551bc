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
from typing import Any, ClassVar

import numpy as np

from onedraw.families.cells import Cell
from onedraw.families.location_scale import LocationScale
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Gaussian(LocationScale):
    """y = eta + scale * (standard normal noise)."""

    scale_floor: float = 0.1

    name: ClassVar[str] = "gaussian"
    question: ClassVar[str | None] = "mean"
    question_assumes: ClassVar[str] = (
        "values are independent and lie symmetric about their mean, spread alike in every group"
    )
    errors: ClassVar[str | None] = "normal"
    has_cell_bounds: ClassVar[bool] = True

    def describe(self, classes: tuple[Any, ...] | None = None) -> str:
        return "linear, coefficients of the mean"

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

    # -- bounds over a cell

    def loss_minimum(self, y: Array, cell: Cell, beta: float) -> Array:
        # At a given residual r the density is unimodal in the scale, with its peak at scale = |r|; I falls
        # with the scale.
        assert cell.scale_low is not None
        assert cell.scale_high is not None
        b = beta - 1.0
        residual = np.maximum(np.maximum(y - cell.eta_high, cell.eta_low - y), 0.0)
        best_scale = np.clip(residual, cell.scale_low, cell.scale_high)
        highest = self.log_density(residual, np.zeros_like(residual), best_scale)
        log_integral = self.log_standard_power_integral(beta) - b * np.log(cell.scale_high)
        return -np.expm1(b * highest) / b + np.expm1(log_integral) / beta

    def loss_concavity(self, y: Array, cell: Cell, beta: float) -> tuple[Array, Array | None]:
        """With z = (y - eta)/scale and t^2 = b z^2, f^b = K scale^-b exp(-t^2/2), K = (2 pi)^(-b/2), whose
        second derivatives are

            eta eta: K scale^-(b+2) b (t^2 - 1) e,                    at most 2 b e^(-3/2);
            eta log scale: K scale^-(b+1) sqrt(b) t (t^2 - b - 2) e,  at most sqrt(b) max(3^(3/2) e^(-3/2),
                                                                      (b + 2) e^(-1/2)) in size;
            log scale twice: K scale^-b (b^2 - 2 (b + 1) t^2 + t^4) e, at most b^2 + 16 e^-2,

        with e = exp(-t^2/2). The loss is -f^b/b plus the power integral, which is convex in the log scale.
        The cross term is split by 2 |uv| <= u^2/scale + v^2 scale.
        """
        assert cell.scale_low is not None
        b = beta - 1.0
        constant = (2.0 * math.pi) ** (-0.5 * b) / b
        cross = math.sqrt(b) * max(3.0**1.5 * math.exp(-1.5), (b + 2.0) * math.exp(-0.5))
        a = constant * (2.0 * b * math.exp(-1.5) + cross) * cell.scale_low ** -(b + 2.0)
        c = constant * (b * b + 16.0 * math.exp(-2.0) + cross) * cell.scale_low**-b
        return np.broadcast_to(a, cell.eta_low.shape), np.broadcast_to(c, cell.eta_low.shape)

    # -- closed forms for intervals

    def location_information(self, power: float, scale: float) -> float:
        return float(_mass(power, scale) * power**-1.5 / scale**2)

    def scale_noise_ratio(self, beta: float, scale: float) -> float:
        # The score is (r^2 - 1)/scale. Under f^g, up to its mass, r is N(0, 1/g): E[(r^2 - 1)^2] = 3/g^2 -
        # 2/g + 1.
        def mass(power: float) -> float:
            return _mass(power, scale) / math.sqrt(power)

        def squared(power: float) -> float:
            return mass(power) * (3.0 / power**2 - 2.0 / power + 1.0)

        mean = mass(beta) * (1.0 / beta - 1.0)
        return (squared(2.0 * beta - 1.0) - mean**2) / squared(beta)

    def expected_loss(self, scale: Array, true_scale: Array, beta: float) -> tuple[Array, Array]:
        b = beta - 1.0
        height = (2.0 * np.pi * scale**2) ** (-0.5 * b)
        overlap = (1.0 + b * np.square(true_scale / scale)) ** -0.5
        loss = height * (beta**-1.5 - overlap / b)
        return loss, height * overlap / (scale**2 + b * np.square(true_scale))


def _mass(power: float, scale: float) -> float:
    """sup f to the (power - 1), which is sqrt(power) times the integral of f^power."""
    return math.exp(-0.5 * (power - 1.0) * math.log(2.0 * math.pi * scale**2))
