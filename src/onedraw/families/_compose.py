# SPDX-License-Identifier: Apache-2.0
"""The derivatives of the beta loss, from those of the log density and of the power integral.

With l = log f, b = beta - 1 and I the power integral, loss = (1 - exp(b l))/b - (1 - I)/beta, so for any
two of its arguments u and v (predictors or scale)

    loss_u  = I_u / beta  - f^b l_u,
    loss_uv = I_uv / beta - f^b (l_uv + b l_u l_v).

One rule serves every family: each supplies l and I with their derivatives and nothing else.

>>> import numpy as np
>>> eta = np.array([0.4])                      # an exponential variable at 1, with rate exp(eta)
>>> rate = np.exp(eta)
>>> log_density = Derivatives(value=eta - rate, d_eta=1 - rate, d2_eta=-rate)
>>> integral = Derivatives(value=rate / 2, d_eta=rate / 2, d2_eta=rate / 2)      # of f^2
>>> loss = compose_beta_loss(1 - np.exp(eta - rate) - 0.5 + rate / 4, log_density, integral, beta=2.0)
>>> bool(np.isclose(loss.d_eta, rate / 4 - np.exp(eta - rate) * (1 - rate)))
True
"""

from __future__ import annotations

import numpy as np

from onedraw.families.base import Derivatives
from onedraw.types import Array


def compose_beta_loss(
    value: Array, log_density: Derivatives, integral: Derivatives, *, beta: float, order: int = 2
) -> Derivatives:
    """The loss ``value`` with its derivatives up to ``order``, by the rule of the module docstring.

    ``log_density`` and ``integral`` hold the derivatives that were asked for; those in the scale are composed
    where ``log_density`` has them. With several predictors ``d_eta`` has one more axis than ``value``.
    """
    b = beta - 1.0
    f_power = np.exp(b * log_density.value)

    def first(slope: Array, integral_slope: Array) -> Array:
        return integral_slope / beta - f_power * slope

    def second(curvature: Array | None, product: Array, integral_curvature: Array | None) -> Array:
        assert curvature is not None
        assert integral_curvature is not None
        return integral_curvature / beta - f_power * (curvature + b * product)

    l_eta, l_scale = log_density.d_eta, log_density.d_scale
    d_eta = first(l_eta, integral.d_eta)
    d_scale = d2_eta = d2_scale = d_eta_scale = None
    if l_scale is not None and integral.d_scale is not None:
        d_scale = first(l_scale, integral.d_scale)
    if order >= 2:
        several = l_eta.ndim > log_density.value.ndim
        outer = l_eta[:, np.newaxis] * l_eta if several else l_eta * l_eta
        d2_eta = second(log_density.d2_eta, outer, integral.d2_eta)
        if l_scale is not None:
            d2_scale = second(log_density.d2_scale, l_scale * l_scale, integral.d2_scale)
            d_eta_scale = second(log_density.d_eta_scale, l_eta * l_scale, integral.d_eta_scale)
    return Derivatives(
        value=value, d_eta=d_eta, d2_eta=d2_eta, d_scale=d_scale, d2_scale=d2_scale, d_eta_scale=d_eta_scale
    )
