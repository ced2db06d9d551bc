# SPDX-License-Identifier: Apache-2.0
"""Second-moment matrices in free coordinates, with a weak prior: a unique part and common correlations.

M = S C S with scales S and correlations C = psi I + (1 - psi) G. G is a correlation matrix; psi in (0, 1) is
the part of every column that the others cannot explain: all eigenvalues of C are at least psi, and no
variance inflation factor is above 1/psi.

*Why a unique part.* Noise of operator norm t hides all eigenvalues below t. A prior on C that is flat up to
the boundary (LKJ of shape 1) or of unknown shape then puts most of its mass at nearly singular matrices, and
intervals become absurdly long. That strongly correlated features still have unique parts is what factor
analysis assumes; psi = 1 is orthogonality, and correlated blocks, common factors and chains are all in reach
of G.

*Prior.* psi ~ Beta(2, 1): variance inflation above 5 in every direction has prior probability 4%, above 10,
1%. G ~ LKJ(2), density proportional to |G| [Lewandowski, Kurowicka & Joe 2009]. In free coordinates: G = L
L', rows of L being (w_j, 1)/sqrt(1 + |w_j|^2), w_j in R^j. LKJ(eta) is the law of the correlations of a
Wishart matrix with identity scale and nu = p - 1 + 2 eta degrees of freedom, whose Cholesky rows are j
standard normals and a chi with nu - j degrees [Bartlett 1933]; the ratios w_j are therefore multivariate t,
p(w_j) proportional to (1 + |w_j|^2)^(-nu/2).

*Tried and dropped* (simulated logistic regressions, few repetitions): LKJ for C itself, of unknown or fixed
shape, gave intervals 4 to 200 times the non-private width under correlations of 0.5 or an autoregression of
0.7 with ten features, where this prior gives about 3. With psi uniform or G ~ LKJ(1) intervals were up to 1.7
times as long and covered no better; with psi ~ Beta(3, 1) or Beta(4, 2) they covered 0.88 to 0.93 of two
correlated features.

*Scales.* log M_jj ~ N(log(1/3), 1): working rows lie in [-1, 1] or thereabouts, and 1/3 is the mean square of
a uniform. *Count.* log(effective number of records/n) ~ N(0, count_sd^2): weights below 1 and rows that are
not normal change it a little; a private n makes it wide.

Free coordinates, in this order: w (p(p-1)/2, by rows), log M_jj (of the p - 1 features, or p without an
intercept), log count ratio (1), logit psi (1; only if p > 1).

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
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from onedraw.types import Array

ETA = 2.0
ALPHA, BETA = 2.0, 1.0
SCALE_CENTRE, SCALE_SD = math.log(1.0 / 3.0), 1.0


@dataclass(frozen=True, kw_only=True)
class MomentPoint:
    """A batch of points: everything that the density and its gradient need."""

    ratios: Array  # (B, p, p), w in the strict lower triangle
    radius: Array  # (B, p), sqrt(1 + |w_j|^2)
    scale: Array  # (B, p), sqrt(M_jj)
    factor: Array  # (B, p, p), the Cholesky factor of the common part's correlations
    unique: Array  # (B,), psi
    log_count: Array  # (B,)

    @cached_property
    def common(self) -> Array:
        """Correlations of the common part (B, p, p)."""
        return np.asarray(self.factor @ self.factor.transpose(0, 2, 1))

    @cached_property
    def moments(self) -> Array:
        """M (B, p, p)."""
        out = (1.0 - self.unique)[:, None, None] * self.common
        p = out.shape[1]
        out[:, np.arange(p), np.arange(p)] += self.unique[:, None]
        return np.asarray(self.scale[:, :, None] * out * self.scale[:, None, :])


@dataclass(frozen=True, kw_only=True)
class MomentSpace:
    """The free coordinates of M and the count, and their prior."""

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
        rows, columns = lower_pairs(p)
        ratios = np.zeros((batch, p, p))
        ratios[:, rows, columns] = free[:, : self.pairs]
        radius = np.sqrt(1.0 + (ratios**2).sum(2))
        scale = np.ones((batch, p))
        scale[:, p - self.scales :] = np.exp(0.5 * free[:, self.pairs : self.pairs + self.scales])
        factor = (ratios + np.eye(p)) / radius[:, :, None]
        return MomentPoint(
            ratios=ratios,
            radius=radius,
            scale=scale,
            factor=factor,
            unique=special.expit(free[:, -1]) if p > 1 else np.ones(batch),
            log_count=free[:, self.pairs + self.scales],
        )

    def of_correlations(self, correlations: Array) -> tuple[Array, Array, Array]:
        """Coordinates w (B, pairs) and logit psi (B,) of correlations C (B, p, p), and the radii (B, p).

        Many psi give the same C; this one is half of its smallest eigenvalue.
        """
        unique = 0.5 * np.linalg.eigvalsh(correlations)[:, 0]
        common = (correlations - unique[:, None, None] * np.eye(self.dim)) / (1.0 - unique)[:, None, None]
        factor = np.linalg.cholesky(common)
        ratios = factor / np.diagonal(factor, axis1=1, axis2=2)[:, :, None]
        rows, columns = np.tril_indices(self.dim, -1)
        return ratios[:, rows, columns], special.logit(unique), np.sqrt((ratios**2).sum(2))

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
            nu = self.dim - 1.0 + 2.0 * ETA
            value -= nu * np.log(point.radius).sum(1)
            # Beta(ALPHA, BETA) for psi, in its logit.
            value += ALPHA * special.log_expit(free[:, -1]) + BETA * special.log_expit(-free[:, -1])
            rows, columns = lower_pairs(self.dim)
            pulled = -nu * point.ratios / point.radius[:, :, None] ** 2
            gradient[:, : self.pairs] = pulled[:, rows, columns]
            gradient[:, -1] = ALPHA - (ALPHA + BETA) * point.unique
        return value, gradient

    def pullback(self, point: MomentPoint, by_moments: Array, by_count: Array) -> Array:
        """The gradient (B, size) from those with respect to M (B, p, p; symmetric) and the log count (B,)."""
        by_correlation = point.scale[:, :, None] * by_moments * point.scale[:, None, :]
        common = point.common
        out = np.zeros((len(by_count), self.size))
        out[:, self.pairs + self.scales] = by_count
        by_scale = (by_moments * point.moments).sum(2)
        out[:, self.pairs : self.pairs + self.scales] = by_scale[:, self.dim - self.scales :]
        if self.dim > 1:
            shared = (1.0 - point.unique)[:, None, None]
            trace = by_correlation.trace(axis1=1, axis2=2) - (by_correlation * common).sum((1, 2))
            out[:, -1] = point.unique * (1.0 - point.unique) * trace
            by_factor = 2.0 * np.tril(shared * by_correlation @ point.factor)
            along = (by_factor * point.factor).sum(2)
            # A row of the factor is a unit vector l = (w, 1)/radius: dl/dw = (I - l l')/radius.
            by_ratios = by_factor / point.radius[:, :, None]
            by_ratios -= point.ratios * (along / point.radius**2)[:, :, None]
            rows, columns = lower_pairs(self.dim)
            out[:, : self.pairs] = by_ratios[:, rows, columns]
        return out


@lru_cache(maxsize=64)
def lower_pairs(size: int) -> tuple[NDArray[np.intp], ...]:
    """Rows and columns of the strict lower triangle."""
    return tuple(np.asarray(side, dtype=np.intp) for side in np.tril_indices(size, -1))
