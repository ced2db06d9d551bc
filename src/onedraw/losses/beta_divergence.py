# SPDX-License-Identifier: Apache-2.0
"""The beta-divergence loss and the certificate of its range.

Guarantee:
    For every record and every parameter the loss lies in [lower, upper]. The observation sensitivity is
    attained in the limit for mass functions and location-scale families, and so is the parameter range,
    except for counts: no mean makes a positive count certain, so theirs is an upper bound.

Proofs, with b = beta - 1, f <= M and loss = (1 - f^b)/b - (1 - I)/beta:

*Mass functions.* M = 1. Upper: f >= 0 and I <= 1 give loss <= 1/b, approached by a point mass on another
response. Lower: I >= f(y)^beta, so with t = f(y), loss >= (1 - t^b)/b - (1 - t^beta)/beta, whose derivative
in t is t^(b-1) (t - 1) <= 0; so it is smallest at t = 1, where it is 0. The width is exactly 1/b although I
depends on the features. (The published lemma cancels I, which is not allowed; its conclusion survives.)

*Location-scale families with scale >= s.* f = g(r/scale)/scale, so I = scale^-b * c with c = integral of
g^beta, and -f^b/b + I/beta = scale^-b [ c/beta - g^b/b ]. Let m = sup g. The bracket lies in [c/beta - m^b/b,
c/beta], and c <= m^b (as g^beta <= m^b g) makes its lower end negative. Both ends are largest in size at
scale = s, so the values fill s^-b [c/beta - m^b/b, c/beta], of width exactly (m/s)^b / b = M^b / b. A scale
that varies with the features costs nothing.

*Any other bounded density.* 0 <= I <= M^b and 0 <= f^b <= M^b give width at most M^b (1/b + 1/beta)
= (2 beta - 1)/(beta (beta - 1)) M^b, which mixtures come arbitrarily close to.

>>> from onedraw.families import Bernoulli
>>> BetaDivergence(Bernoulli()).loss_bounds(beta=1.5).observation_sensitivity
2.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from onedraw.errors import InvalidInput
from onedraw.families.base import Derivatives, Family, LocationScale, MassFunction
from onedraw.losses.base import LossBounds
from onedraw.types import Array


@dataclass(frozen=True)
class BetaDivergence:
    """The beta-divergence loss of a family; ``beta`` > 1 is chosen by calibration."""

    family: Family

    def value(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        """loss(y, eta, scale), elementwise."""
        return self.family.beta_loss(y, eta, beta, scale)

    def derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        """The loss with derivatives up to ``order``."""
        return self.family.beta_loss_derivatives(y, eta, beta, scale, order=order)

    def loss_bounds(self, beta: float) -> LossBounds:
        """The certificate proved in the module docstring."""
        if not 1.0 < beta < math.inf:
            raise InvalidInput(f"Expected beta > 1 and finite, got beta={beta!r}.")
        b = beta - 1.0
        if isinstance(self.family, MassFunction):
            return LossBounds(
                lower=0.0,
                upper=1.0 / b,
                observation_sensitivity=1.0 / b,
                parameter_range=1.0 / b,
                lower_attained="the model is certain of the observed response",
                upper_attained="the model is certain of another response",
            )
        log_power = b * self.family.log_sup_density  # of M^b
        bound_power = math.exp(log_power)
        gap = -math.expm1(log_power) / b  # (1 - M^b)/b, accurate as b -> 0
        if isinstance(self.family, LocationScale):
            log_floor = math.log(self.family.scale_floor)
            log_integral = self.family.log_standard_power_integral(beta) - b * log_floor
            excess = math.expm1(log_integral) / beta  # -(1 - I)/beta at the smallest scale
            # A wide scale brings the loss to 1/b - 1/beta from either side; both ends lie beyond that value.
            return LossBounds(
                lower=gap + excess,
                upper=1.0 / b + excess,
                observation_sensitivity=bound_power / b,
                parameter_range=bound_power / b,
                lower_attained="residual 0 at the smallest scale",
                upper_attained="residual far in the tail at the smallest scale",
            )
        return LossBounds(
            lower=gap - 1.0 / beta,
            upper=1.0 / b + (bound_power - 1.0) / beta,
            observation_sensitivity=bound_power * (1.0 / b + 1.0 / beta),
            parameter_range=bound_power * (1.0 / b + 1.0 / beta),
            lower_attained="a spike of height M that carries no mass, seen at its top",
            upper_attained="a uniform density of height M, seen from outside",
        )
