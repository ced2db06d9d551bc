# SPDX-License-Identifier: Apache-2.0
"""How far one record can move the loss: the certificates that privacy rests on, and their proofs.

Three widths are kept apart because three kinds of accounting need them:

* ``observation_sensitivity`` S: the largest |loss(z, theta) - loss(z', theta)| over records z, z' at one
  theta (replace-one accounting);
* ``parameter_range`` R: the largest |loss(z, theta) - loss(z, theta')| over parameters at one record
  (add/remove accounting);
* ``lower`` and ``upper``: the interval that holds every value of the loss.

Guarantee:
    For every record and every parameter the beta-divergence loss lies in [lower, upper]. The observation
    sensitivity is attained in the limit for mass functions and location-scale families, and so is the
    parameter range; that of counts is smaller than 1/b, because no mean makes a positive count certain, and
    attained to a hundredth (``_count_range``).

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

>>> mass_function_bounds(1.5).observation_sensitivity
2.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LossBounds:
    """A certificate: no record and no parameter can move the loss further than this."""

    lower: float
    upper: float
    observation_sensitivity: float
    parameter_range: float
    lower_attained: str
    upper_attained: str


def mass_function_bounds(beta: float) -> LossBounds:
    """The certificate of a family of discrete responses."""
    width = 1.0 / (beta - 1.0)
    return LossBounds(
        lower=0.0,
        upper=width,
        observation_sensitivity=width,
        parameter_range=width,
        lower_attained="the model is certain of the observed response",
        upper_attained="the model is certain of another response",
    )


def location_scale_bounds(beta: float, log_sup_density: float, log_largest_integral: float) -> LossBounds:
    """The certificate of a location-scale family; I is largest at the smallest scale, and so given there."""
    b = beta - 1.0
    log_power = b * log_sup_density  # of M^b
    width = math.exp(log_power) / b
    excess = math.expm1(log_largest_integral) / beta  # -(1 - I)/beta at the smallest scale
    # A wide scale brings the loss to 1/b - 1/beta from either side; both ends lie beyond that value.
    return LossBounds(
        lower=-math.expm1(log_power) / b + excess,  # (1 - M^b)/b, accurate as b -> 0
        upper=1.0 / b + excess,
        observation_sensitivity=width,
        parameter_range=width,
        lower_attained="residual 0 at the smallest scale",
        upper_attained="residual far in the tail at the smallest scale",
    )


def bounded_density_bounds(beta: float, log_sup_density: float) -> LossBounds:
    """The certificate of any density that is bounded by M."""
    b = beta - 1.0
    log_power = b * log_sup_density
    bound_power = math.exp(log_power)
    width = bound_power * (1.0 / b + 1.0 / beta)
    return LossBounds(
        lower=-math.expm1(log_power) / b - 1.0 / beta,
        upper=1.0 / b + (bound_power - 1.0) / beta,
        observation_sensitivity=width,
        parameter_range=width,
        lower_attained="a spike of height M that carries no mass, seen at its top",
        upper_attained="a uniform density of height M, seen from outside",
    )
