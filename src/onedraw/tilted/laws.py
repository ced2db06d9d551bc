# SPDX-License-Identifier: Apache-2.0
"""Laws of the random tilt b: density proportional to exp(-||b||/scale) for a norm ||.||, or Gaussian.

A norm of dimension m with unit ball K has the law: radius Gamma(m + 1, scale) times a point uniform in K
[Hardt & Talwar 2010]. (Its radius ||b|| is Gamma(m, scale), since a uniform point's norm is Beta(m, 1).)

Guarantee:
    At two points whose difference has norm at most D, the log densities of a norm law differ by at most
    D/scale: the triangle inequality. The Gaussian's curve stands in ``onedraw.privacy.gaussian``.

*Several classes.* The gradient of a softmax record is (pi - e_y) (x) w = sum over k of pi_k (e_k - e_y) (x)
w: a mixture of differences of two classes, all times *one* row w. So the tilt is a sum of independent ones,
each of a law for rows, sum_i v_i (x) b_i: along v = e_k - e_l for every pair of classes, or along v = 2 e_k
for every class, whichever has the smaller variance.

Guarantee:
    For |w| <= 1 in the norm of the parts, the log density of the sum changes by at most a/scale, a = 1 -
    pi_y.

*Proof.* Moving part (k, y) by pi_k w for each k != y moves the sum by the gradient and the log density of
all parts together, point by point, by at most sum pi_k/scale = a/scale. With 2 e_k the parts move by (pi_k -
[k = y]) w/2, in all by (a + a)/2. A bound that holds point by point holds for the law of a sum. [] The
covariance in the orthonormal contrasts is sum v v' times that of a part: K times the identity for pairs, 4
times for classes. A law whose ball is a product over columns would forget that all columns have one pi: its
variance is 1.4 times that of pairs at three classes and six columns, 2.6 times that of classes at ten.

>>> import numpy as np
>>> law = CubeLaw(dim=6, scale=2.0)
>>> round(law.variance, 3), law.sample(np.random.default_rng(0)).shape
(74.667, (6,))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from onedraw._validate import positive, whole
from onedraw.families.categorical import contrast_basis
from onedraw.types import Array


class Law(Protocol):
    """A symmetric law on ``dim`` coordinates whose covariance is a multiple of the identity."""

    @property
    def dim(self) -> int: ...

    @property
    def variance(self) -> float:
        """The variance of each coordinate."""
        ...

    def sample(self, rng: np.random.Generator) -> Array:
        """One point (dim,)."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Scaled:
    dim: int
    scale: float

    def __post_init__(self) -> None:
        whole(dim=self.dim)
        positive(scale=self.scale)


@dataclass(frozen=True, kw_only=True)
class CubeLaw(_Scaled):
    """Density proportional to exp(-max|b_j|/scale)."""

    @property
    def variance(self) -> float:
        return self.scale**2 * (self.dim + 1) * (self.dim + 2) / 3.0

    def norm(self, b: Array) -> float:
        return float(np.abs(b).max())

    def sample(self, rng: np.random.Generator) -> Array:
        return rng.gamma(self.dim + 1, self.scale) * rng.uniform(-1.0, 1.0, self.dim)


@dataclass(frozen=True, kw_only=True)
class BallLaw(_Scaled):
    """Density proportional to exp(-|b|_2/scale)."""

    @property
    def variance(self) -> float:
        return self.scale**2 * (self.dim + 1)

    def norm(self, b: Array) -> float:
        return float(np.linalg.norm(b))

    def sample(self, rng: np.random.Generator) -> Array:
        direction = rng.standard_normal(self.dim)
        return np.asarray(rng.gamma(self.dim, self.scale) * direction / np.linalg.norm(direction))


@dataclass(frozen=True, kw_only=True)
class GaussianLaw(_Scaled):
    """Independent normal coordinates with standard deviation ``scale``."""

    @property
    def variance(self) -> float:
        return self.scale**2

    def sample(self, rng: np.random.Generator) -> Array:
        return rng.normal(0.0, self.scale, self.dim)


@dataclass(frozen=True, kw_only=True)
class ClassLaw:
    """A sum of independent laws for rows of ``columns`` entries, along differences of classes or classes.

    Points are (classes - 1, ``columns``), flattened predictor by predictor, in the contrasts.
    """

    classes: int
    columns: int
    scale: float
    geometry: Literal["cube", "ball"] = "cube"

    def __post_init__(self) -> None:
        whole(minimum=2, classes=self.classes)
        _ = self.part

    @property
    def part(self) -> CubeLaw | BallLaw:
        """The law of each term, for the rows."""
        law = CubeLaw if self.geometry == "cube" else BallLaw
        return law(dim=self.columns, scale=self.scale)

    @property
    def directions(self) -> Array:
        """What the terms go along (r, classes)."""
        own = np.eye(self.classes)
        if self.classes >= 4:  # at four both have the same covariance, and classes are fewer
            return 2.0 * own
        first, second = np.triu_indices(self.classes, 1)
        return np.asarray(own[first] - own[second])

    @property
    def dim(self) -> int:
        return (self.classes - 1) * self.columns

    @property
    def variance(self) -> float:
        return min(self.classes, 4) * self.part.variance

    def sample(self, rng: np.random.Generator) -> Array:
        along = self.directions @ contrast_basis(self.classes)
        terms = np.array([self.part.sample(rng) for _ in along])
        return np.asarray(along.T @ terms).ravel()
