# SPDX-License-Identifier: Apache-2.0
"""The rival of ``onedraw.inference`` in the study: intervals by shrinkage with constants set by eye.

The noisy curvature is shrunk to the shape that normal rows would give, matrices are drawn around it with 0.6
of the noise, and errors are simulated. Refused if more than 20% of the matrices hit a floor of the
eigenvalues, or if the noise is too large beside the smallest diagonal entry (r > 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.inference import LogisticWeight, Released

DRAWS, FACTOR, LOW, RATIO = 400, 0.6, 0.2, 2.0


@dataclass(frozen=True)
class ShrinkageIntervals:
    """Intervals (p, 2) and what its two rules of refusal say."""

    interval: np.ndarray
    by_floor: bool
    by_ratio: bool


def _shrink(values: np.ndarray, sd: float, floor: float) -> float:
    total = float((values**2).sum())
    return max(floor, 1.0 - values.size * sd**2 / total) if total > 0 else floor


def shrinkage_intervals(released: Released, rng: np.random.Generator) -> ShrinkageIntervals:
    """Intercept first, logistic weight, centre 0."""
    H, theta, n = released.curvature, released.theta, released.count
    sd, so, p = released.diagonal_sd, released.offdiagonal_sd, released.dim
    d = p - 1
    D = np.maximum(H.diagonal(), sd / 2)
    mean = D[1:].mean()
    share_d = _shrink(D[1:] - mean, sd, 0.3)
    D = np.r_[D[0], mean + share_d * (D[1:] - mean)]
    m = np.full(d, 1 / 3)
    for _ in range(6):
        moments = LogisticWeight().normal_means(theta[:1], np.array([(m * theta[1:] ** 2).sum()]))[:, 0]
        v, v1, v2 = moments[1:4]
        m = D[1:] / (n * np.maximum(v + v2 * m * theta[1:] ** 2, 0.2 * v))
        m = np.clip(m, 1e-3, 2.0)
    target0 = n * v1 * m * theta[1:]
    residual0 = H[0, 1:] - target0
    share_0 = _shrink(residual0, so, 0.05)
    mu = share_0 * residual0 / D[0]
    slope = m * theta[1:]
    target = n * v2 * np.outer(slope, slope) + D[0] * np.outer(mu, mu)
    rows, columns = np.tril_indices(d, -1)
    residual = (H[1:, 1:] - target)[rows, columns]
    share_o = _shrink(residual, so, 0.02) if residual.size else 1.0
    centre = np.diag(D)
    centre[0, 1:] = centre[1:, 0] = target0 + share_0 * residual0
    block = np.zeros((d, d))
    block[rows, columns] = target[rows, columns] + share_o * residual
    centre[1:, 1:] += block + block.T
    G = np.zeros((DRAWS, p, p))
    G[:, 0, 1:] = FACTOR * so * np.sqrt(share_0) * rng.standard_normal((DRAWS, d))
    off = np.zeros((DRAWS, d, d))
    off[:, rows, columns] = FACTOR * so * np.sqrt(share_o) * rng.standard_normal((DRAWS, rows.size))
    G[:, 1:, 1:] = off + off.transpose(0, 2, 1)
    G[:, 1:, 0] = G[:, 0, 1:]
    diagonal = sd * np.sqrt(share_d) * rng.standard_normal((DRAWS, p))
    diagonal[:, 1:] += sd * np.sqrt((1 - share_d) / d) * rng.standard_normal((DRAWS, 1))
    G[:, np.arange(p), np.arange(p)] = diagonal
    floor = 0.1 * D.min()
    values, vectors = np.linalg.eigh(centre + G)
    low = float((values[:, 0] < floor).mean())
    Hk = (vectors * np.maximum(values, floor)[:, None, :]) @ vectors.transpose(0, 2, 1)
    values0, vectors0 = np.linalg.eigh(centre)
    hit = bool(values0[0] < floor)
    centre = (vectors0 * np.maximum(values0, floor)) @ vectors0.T
    pull = released.pull
    point = theta + np.linalg.solve(centre, pull)
    b = np.stack([released.tilt.sample(rng) for _ in range(DRAWS)])
    S = np.einsum("kij,kj->ki", np.linalg.cholesky(Hk), rng.standard_normal((DRAWS, p)))
    errors = np.linalg.solve(Hk, (S + b + pull)[:, :, None])[:, :, 0] - np.linalg.solve(centre, pull)
    half = np.quantile(np.abs(errors), 0.95, axis=0)
    ratio = 2.0 * np.sqrt(p) * so / max(float(H.diagonal().min()), 1e-9)
    return ShrinkageIntervals(np.stack([point - half, point + half], 1), hit or low > LOW, ratio > RATIO)
