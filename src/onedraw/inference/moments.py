# SPDX-License-Identifier: Apache-2.0
"""Second-moment matrices in free coordinates, with a weak prior: LKJ correlations of unknown shape.

M = S C S with scales S and correlations C = L L', rows of L being (w_j, 1)/sqrt(1 + |w_j|^2), w_j in R^j.

*Prior of the correlations.* LKJ(eta), density proportional to |C|^(eta-1) [Lewandowski, Kurowicka & Joe 2009].
C is also the correlation matrix of a Wishart matrix with identity scale and nu = p - 1 + 2 eta degrees of freedom,
whose Cholesky rows are j standard normals and a chi with nu - j degrees [Bartlett]. Their ratios w_j are
multivariate t, so the prior is explicit in free coordinates, constant included:

    p(w_j) = Gamma(nu/2)/(Gamma((nu-j)/2) pi^(j/2)) (1 + |w_j|^2)^(-nu/2).

*Shape.* Under LKJ(eta) the tolerance 1 - R_j^2 of every feature (the part of it that the other columns do not explain,
the inverse of its variance inflation factor) is Beta(eta, (p-1)/2), of mean x = 2 eta/(2 eta + p - 1). The typical
tolerance x is uniform on (0, 1) here, whatever p; nu = (p - 1)/(1 - x). So neither orthogonal nor collinear features are
assumed, and the release itself says how far it must be shrunk.

*Scales.* log M_jj ~ N(log(1/3), 1): working rows lie in [-1, 1] or thereabouts, and 1/3 is the mean square of a uniform.
*Count.* log(effective number of records/n) ~ N(0, count_sd^2): weights below 1 and rows that are not
normal change it a little; a private n makes it wide.

Free coordinates, in this order: w (p(p-1)/2, by rows), log M_jj (of the p - 1 features, or p without an
intercept), log count ratio (1), logit x (1; only if p > 1).

>>> import numpy as np
>>> space = MomentSpace(dim=3, intercept=True, count_sd=0.1)
>>> space.size
7
>>> point = space.read(np.zeros((1, 7)))
>>> point.moments[0].diagonal().round(3).tolist()
[1.0, 1.0, 1.0]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from onedraw.types import Array

SCALE_CENTRE, SCALE_SD = math.log(1.0 / 3.0), 1.0


@dataclass(frozen=True, kw_only=True)
class MomentPoint:
    """A batch of points: everything that the density and its gradient need."""

    ratios: Array  # (B, p, p), w in the strict lower triangle
    radius: Array  # (B, p), sqrt(1 + |w_j|^2)
    scale: Array  # (B, p), sqrt(M_jj)
    factor: Array  # (B, p, p), the Cholesky factor of M
    log_count: Array  # (B,)
    shape: Array  # (B,), logit of the typical tolerance x

    @property
    def moments(self) -> Array:
        return np.asarray(self.factor @ self.factor.transpose(0, 2, 1))


@dataclass(frozen=True, kw_only=True)
class MomentSpace:
    """The free coordinates of M, the count and the shape, and their prior."""

    dim: int
    intercept: bool
    count_sd: float

    @property
    def pairs(self) -> int:
        return self.dim * (self.dim - 1) // 2

    @property
    def scales(self) -> int:
        return self.dim - int(self.intercept)

    @property
    def size(self) -> int:
        return self.pairs + self.scales + 1 + int(self.dim > 1)

    def read(self, free: Array) -> MomentPoint:
        """The matrices at free coordinates (B, size)."""
        batch, p = len(free), self.dim
        rows, columns = np.tril_indices(p, -1)
        ratios = np.zeros((batch, p, p))
        ratios[:, rows, columns] = free[:, : self.pairs]
        radius = np.sqrt(1.0 + (ratios**2).sum(2))
        scale = np.ones((batch, p))
        scale[:, p - self.scales :] = np.exp(0.5 * free[:, self.pairs : self.pairs + self.scales])
        factor = ratios + np.eye(p)
        factor *= (scale / radius)[:, :, None]
        return MomentPoint(
            ratios=ratios,
            radius=radius,
            scale=scale,
            factor=factor,
            log_count=free[:, self.pairs + self.scales],
            shape=free[:, -1] if p > 1 else np.zeros(batch),
        )

    def log_prior(self, free: Array, point: MomentPoint) -> tuple[Array, Array]:
        """The log prior density (B,), up to a constant, and its gradient (B, size)."""
        gradient = np.zeros_like(free)
        scales = slice(self.pairs, self.pairs + self.scales)
        off = free[:, scales] - SCALE_CENTRE
        gradient[:, scales] = -off / SCALE_SD**2
        value = -0.5 * (off**2).sum(1) / SCALE_SD**2
        value -= 0.5 * (point.log_count / self.count_sd) ** 2
        gradient[:, self.pairs + self.scales] = -point.log_count / self.count_sd**2
        if self.dim > 1:
            value += self._log_correlations(gradient, point)
        return value, gradient

    def _log_correlations(self, gradient: Array, point: MomentPoint) -> Array:
        p = self.dim
        odds = np.exp(np.minimum(point.shape, 30.0))
        nu = (p - 1.0) * (1.0 + odds)
        log_radius = np.log(point.radius[:, 1:])
        order = np.arange(1.0, p)
        half = 0.5 * (nu[:, None] - order)
        constants = special.gammaln(0.5 * nu)[:, None] - special.gammaln(half)
        value = (constants - nu[:, None] * log_radius).sum(1)
        tolerance = special.expit(point.shape)
        value += np.log(tolerance) + np.log1p(-tolerance)
        by_nu = (0.5 * special.digamma(0.5 * nu)[:, None] - 0.5 * special.digamma(half) - log_radius).sum(1)
        gradient[:, -1] = by_nu * (p - 1.0) * odds + 1.0 - 2.0 * tolerance
        rows, columns = np.tril_indices(p, -1)
        pulled = -nu[:, None, None] * point.ratios / point.radius[:, :, None] ** 2
        gradient[:, : self.pairs] = pulled[:, rows, columns]
        return np.asarray(value)

    def pullback(self, point: MomentPoint, by_moments: Array, by_count: Array) -> Array:
        """The gradient (B, size) from those with respect to M (B, p, p; symmetric) and the log count (B,)."""
        by_factor = 2.0 * np.tril(by_moments @ point.factor)
        along = (by_factor * point.factor).sum(2)
        rows, columns = np.tril_indices(self.dim, -1)
        # d L_j/d w_j = scale/radius (I - l l') on the unit row l = L_j/scale.
        by_ratios = (point.scale / point.radius)[:, :, None] * by_factor
        by_ratios -= point.ratios * (along / point.radius**2)[:, :, None]
        out = np.zeros((len(by_count), self.size))
        out[:, : self.pairs] = by_ratios[:, rows, columns]
        out[:, self.pairs : self.pairs + self.scales] = 0.5 * along[:, self.dim - self.scales :]
        out[:, self.pairs + self.scales] = by_count
        return out
