# SPDX-License-Identifier: Apache-2.0
"""How far the mean of a skewed posterior lies from its mode: the bias that limits the number of draws.

The draws are centred on the posterior mean, intervals are about the loss minimiser. With n records of
weight w, expected loss L, one linear predictor eta = theta'x, V(x) = x'A^-1 x its posterior variance and A
= n w E[L'' x x'], the expansion of the log posterior to third order gives

    mean - mode = -1/2 A^-1 n w E[ L'''(eta) V(x) x ] + O((n w)^-2).

The loss is bounded, so it flattens away from its minimum: coefficients of a logistic regression drift
outwards. V(x) averages p / (n w E[L'']), the *variance of the predictor*, which is what must be small. The
drift falls like 1/(n w) and the noise of a mean of k draws like (n w k)^-1/2, so each doubling of k at
constant k w doubles the drift against an unchanged standard error.

Under normal features only the direction z of the linear predictor matters, eta = intercept + spread * z:
the integral is over one dimension, and the d - 1 others contribute (d - 1)/(n w E[L'']) to V. For q
predictors (the categorical family) curvatures are q x q matrices and L''' a tensor.

The location of a symmetric response has no such drift; its scale does, see ``residual_scale``.

>>> from onedraw.families import Bernoulli
>>> rate = drift_rate(Bernoulli(), 2.0, num_features=2, intercept=[0.0], spread=[1.0])
>>> round(rate.curvature, 4), round(rate.growth, 1)
(0.0897, 36.4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onedraw.families import Family
from onedraw.types import Array

NODES = 15
SMALLEST_SPREAD = 0.1
_STEP = 1e-3


@dataclass(frozen=True, kw_only=True)
class DriftRate:
    """Curvature per record and weight, and the drift times n w: a public function of a few public numbers.

    ``curvature`` is the harmonic mean over predictors of E[L'']; ``growth`` is relative to the coefficients,
    ``shift`` (q,) is of the intercepts.
    """

    curvature: float
    growth: float
    shift: tuple[float, ...]


def drift_rate(
    family: Family, beta: float, *, num_features: int, intercept: Sequence[float], spread: Sequence[float]
) -> DriftRate:
    """The drift under normal features whose linear predictor is intercept + spread * N(0, 1).

    Args:
        family: in working units; its scale is irrelevant here.
        beta: of the divergence.
        num_features: d; the number of directions that the posterior varies in.
        intercept: (q,), the predictor at the mean of the features.
        spread: (q,), its standard deviation, with sign.
    """
    # Rounded so that equal questions share an entry; drift needs no more than three digits.
    rounded = [tuple(round(float(value), 4) for value in values) for values in (intercept, spread)]
    return _drift_rate(family, beta, num_features, *rounded)


@lru_cache(maxsize=4096)
def _drift_rate(
    family: Family, beta: float, num_features: int, intercept: tuple[float, ...], spread: tuple[float, ...]
) -> DriftRate:
    z, weight = np.polynomial.hermite_e.hermegauss(NODES)
    weight = weight / weight.sum()
    q = family.num_predictors
    along = np.array(spread)
    size = float(np.linalg.norm(along))
    if size < SMALLEST_SPREAD:  # the growth has a limit there, but not one that 0/0 would show
        along = np.full(q, SMALLEST_SPREAD / np.sqrt(q)) if size == 0.0 else along * (SMALLEST_SPREAD / size)
    eta = np.array(intercept)[:, None] + along[:, None] * z  # (q, nodes)
    curvature, third = _expected_curvature(family, beta, eta)

    basis = np.stack([np.ones_like(z), z])  # (2, nodes)
    matrix = np.einsum("n,nab,in,jn->iajb", weight, curvature, basis, basis).reshape(2 * q, 2 * q)
    inverse = np.linalg.inv(matrix)
    mean_inverse = np.linalg.inv(np.einsum("n,nab->ab", weight, curvature))
    blocks = inverse.reshape(2, q, 2, q)
    variance = np.einsum("in,iajb,jn->nab", basis, blocks, basis) + max(num_features - 1, 0) * mean_inverse
    slope = np.einsum("nabc,nbc->na", third, variance)
    drift = -0.5 * inverse @ np.einsum("n,na,in->ia", weight, slope, basis).reshape(2 * q)
    shift, along_z = drift[:q], drift[q:]
    return DriftRate(
        curvature=q / float(np.trace(mean_inverse)),
        growth=float(along_z @ along / (along @ along)),
        shift=tuple(shift.tolist()),
    )


def _expected_curvature(family: Family, beta: float, eta: Array) -> tuple[Array, Array]:
    """E[L''] (nodes, q, q) and E[L'''] (nodes, q, q, q), over responses of the model at eta (q, nodes)."""
    q, nodes = eta.shape
    y, eta = family.drift_support(eta)

    def predictor(values: Array) -> Array:
        tiled = np.broadcast_to(values[:, None, :], (q, len(y), nodes))
        return np.ascontiguousarray(tiled if family.vector_predictor else tiled[0])

    probability = np.exp(family.log_density(y[:, None], predictor(eta)))  # (responses, nodes)

    def hessian(values: Array) -> Array:
        d2 = family.beta_loss_derivatives(y[:, None], predictor(values), beta, order=2).d2_eta
        assert d2 is not None
        return np.asarray(np.einsum("yn,abyn->nab", probability, d2.reshape(q, q, len(y), nodes)))

    axes = _STEP * np.eye(q)[:, :, None]
    third = np.stack([(hessian(eta + e) - hessian(eta - e)) / (2 * _STEP) for e in axes], axis=1)
    return hessian(eta), third
