# SPDX-License-Identifier: Apache-2.0
"""Rigorous bounds of the beta-divergence loss over a cell of parameters, for the proving sampler.

Over a cell, the linear predictor of a record moves in an interval and the scale in another. Two kinds of
bound are given, elementwise:

* ``loss_minimum``: a number below the loss everywhere in the cell;
* ``loss_concavity``: a, c >= 0 such that the Hessian of the loss in (eta, log scale) is at least -diag(a, c)
  in the cell. A second-order expansion at the centre is then a bound too, and a far better one near a mode,
  where gradients cancel.

Proofs stand with each family. Families without an entry are refused by the sampler.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Family, Gaussian, Poisson
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """Intervals: the linear predictor (rows, cells), and the scale (1, cells) for families that have one."""

    eta_low: Array
    eta_high: Array
    scale_low: Array | None = None
    scale_high: Array | None = None


def is_supported(family: Family) -> bool:
    """Whether proved bounds exist for the family."""
    return type(family) in loss_minimum.registry and type(family) in loss_concavity.registry


@functools.singledispatch
def loss_minimum(family: Family, y: Array, cell: Cell, beta: float) -> Array:
    """A lower bound of the loss over the cell."""
    raise InvalidInput(f"No proved bound is known for the {family.name} family; use evidence='searched'.")


@functools.singledispatch
def loss_concavity(family: Family, y: Array, cell: Cell, beta: float) -> tuple[Array, Array | None]:
    """(a, c) with Hessian of the loss >= -diag(a, c) in (eta, log scale) over the cell."""
    raise InvalidInput(f"No proved bound is known for the {family.name} family; use evidence='searched'.")


# -- Bernoulli: the loss falls with the margin (its derivative is -(q^2 p^b + p q^beta) < 0)


@loss_minimum.register
def _(family: Bernoulli, y: Array, cell: Cell, beta: float) -> Array:
    return family.beta_loss(y, np.where(y > 0.5, cell.eta_high, cell.eta_low), beta)


@loss_concavity.register
def _(family: Bernoulli, y: Array, cell: Cell, beta: float) -> tuple[Array, Array | None]:
    return np.full(cell.eta_low.shape, bernoulli_concavity(beta)), None


@functools.lru_cache(maxsize=256)
def bernoulli_concavity(beta: float) -> float:
    """sup of minus the second derivative in the margin, by interval arithmetic over p in [0, 1].

    With q = 1 - p, minus the second derivative is b q^3 p^b + p q^(beta+1) - 2 p q^2 p^b - beta p^2 q^beta.
    Each factor is monotone in p, so on [u, v] the first two terms are bounded above, and the last two below,
    at mixed ends.

    >>> round(bernoulli_concavity(2.0), 3)
    0.12
    """
    b = beta - 1.0
    edges = np.linspace(0.0, 1.0, 20_001)
    p_low, p_high = edges[:-1], edges[1:]
    q_low, q_high = 1.0 - p_high, 1.0 - p_low
    upper = b * q_high**3 * p_high**b + p_high * q_high ** (beta + 1.0)
    lower = 2.0 * p_low ** (1.0 + b) * q_low**2 + beta * p_low**2 * q_low**beta
    return float((upper - lower).max() * (1.0 + 1e-9))


# -- Poisson: f peaks at log y; I falls with eta
# --------------------------------------------------------------------- I falls because Poisson(mu + d) =
# Poisson(mu) * Poisson(d) and Young's inequality gives |f*g|_beta <= |f|_beta |g|_1.


@loss_minimum.register
def _(family: Poisson, y: Array, cell: Cell, beta: float) -> Array:
    b = beta - 1.0
    peak = np.clip(np.log(np.maximum(y, 1e-300)), cell.eta_low, cell.eta_high)
    highest = family.log_density(y, peak) + _rounding(y, peak)
    return (
        -np.expm1(b * np.minimum(highest, 0.0)) / b
        - (1.0 - family.power_integral(cell.eta_high, beta)) / beta
    )


def _rounding(y: Array, eta: Array) -> Array:
    """More than the terms y eta, exp(eta) and log y! of a Poisson log density lose in double precision."""
    size = np.abs(y * eta) + np.exp(np.minimum(eta, 300.0)) + y * np.log(y + 2.0)
    return 16.0 * np.finfo(float).eps * size


@loss_concavity.register
def _(family: Poisson, y: Array, cell: Cell, beta: float) -> tuple[Array, Array | None]:
    # -(loss)'' = f^b [b (y - mu)^2 - mu] - I''/beta, and I'' = beta sum f^beta [beta (k - mu)^2 - mu] >=
    # -beta mu I.
    b = beta - 1.0
    peak = np.clip(np.log(np.maximum(y, 1e-300)), cell.eta_low, cell.eta_high)
    highest = np.exp(b * np.minimum(family.log_density(y, peak) + _rounding(y, peak), 0.0))
    mean_low, mean_high = np.exp(np.minimum(cell.eta_low, 300.0)), np.exp(np.minimum(cell.eta_high, 300.0))
    farthest = np.maximum(np.square(y - mean_low), np.square(y - mean_high))
    spread = highest * np.maximum(b * farthest - mean_low, 0.0)
    return spread + mean_high * family.power_integral(cell.eta_low, beta), None


# -- Gaussian


@loss_minimum.register
def _(family: Gaussian, y: Array, cell: Cell, beta: float) -> Array:
    # At a given residual r the density is unimodal in the scale, with its peak at scale = |r|; I falls with
    # the scale.
    assert cell.scale_low is not None
    assert cell.scale_high is not None
    b = beta - 1.0
    residual = np.maximum(np.maximum(y - cell.eta_high, cell.eta_low - y), 0.0)
    best_scale = np.clip(residual, cell.scale_low, cell.scale_high)
    highest = family.log_density(residual, np.zeros_like(residual), best_scale)
    log_integral = family.log_standard_power_integral(beta) - b * np.log(cell.scale_high)
    return -np.expm1(b * highest) / b + np.expm1(log_integral) / beta


@loss_concavity.register
def _(family: Gaussian, y: Array, cell: Cell, beta: float) -> tuple[Array, Array | None]:
    """With z = (y - eta)/scale and t^2 = b z^2, f^b = K scale^-b exp(-t^2/2), K = (2 pi)^(-b/2), whose
    second derivatives are

        eta eta: K scale^-(b+2) b (t^2 - 1) e,              at most 2 b e^(-3/2);
        eta log scale: K scale^-(b+1) sqrt(b) t (t^2 - b - 2) e,  at most sqrt(b) max(3^(3/2) e^(-3/2), (b +
        2) e^(-1/2)) in size; log scale twice: K scale^-b (b^2 - 2 (b + 1) t^2 + t^4) e,      at most b^2 +
        16 e^-2,

    with e = exp(-t^2/2). The loss is -f^b/b plus the power integral, which is convex in the log scale. The
    cross term is split by 2 |uv| <= u^2/scale + v^2 scale.
    """
    assert cell.scale_low is not None
    b = beta - 1.0
    constant = (2.0 * math.pi) ** (-0.5 * b) / b
    cross = math.sqrt(b) * max(3.0**1.5 * math.exp(-1.5), (b + 2.0) * math.exp(-0.5))
    a = constant * (2.0 * b * math.exp(-1.5) + cross) * cell.scale_low ** -(b + 2.0)
    c = constant * (b * b + 16.0 * math.exp(-2.0) + cross) * cell.scale_low**-b
    return np.broadcast_to(a, cell.eta_low.shape), np.broadcast_to(c, cell.eta_low.shape)
