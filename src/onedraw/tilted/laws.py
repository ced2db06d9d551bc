# SPDX-License-Identifier: Apache-2.0
"""Laws of the random tilt b: density proportional to exp(-||b||/scale) for a norm ||.||, or Gaussian.

A norm of dimension m with unit ball K has the law: radius Gamma(m + 1, scale) times a point uniform in K
[Hardt & Talwar 2010]. (Its radius ||b|| is Gamma(m, scale), since a uniform point's norm is Beta(m, 1).)

Guarantee:
    At two points whose difference has norm at most D, the log densities of a norm law differ by at most
    D/scale: the triangle inequality. The Gaussian's curve stands in ``onedraw.privacy.gaussian``.

*The class simplex times the cube* is the body of softmax gradients. Its points are K x p matrices whose
columns sum to zero and have positive parts of sum at most 1; columns are independent under the uniform law.
One column: the faces are simplex(S) x -simplex(complement), |S| = j; volume sqrt(j (K-j))/((j-1)! (K-j-1)!)
times height sqrt(K/(j (K-j))), so a face has probability proportional to 1/((j-1)! (K-j-1)!), and the radius
within its cone is U^(1/(K-1)). Columns are given in the K - 1 orthonormal sum-to-zero contrasts.

>>> import numpy as np
>>> law = CubeLaw(dim=6, scale=2.0)
>>> round(law.variance, 3), law.sample(np.random.default_rng(0)).shape
(74.667, (6,))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

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
class ClassCubeLaw:
    """Density proportional to exp(-||b||/scale), ||Z|| = the largest sum of positive parts of a column.

    Points are (classes - 1) columns times ``columns``, flattened predictor by predictor, in the contrasts.
    """

    classes: int
    columns: int
    scale: float

    def __post_init__(self) -> None:
        whole(minimum=2, classes=self.classes)
        whole(columns=self.columns)
        positive(scale=self.scale)

    @property
    def dim(self) -> int:
        return (self.classes - 1) * self.columns

    @property
    def variance(self) -> float:
        radius = self.scale**2 * (self.dim + 1) * (self.dim + 2)
        return radius * self._mean_square / (self.classes - 1)

    @property
    def _mean_square(self) -> float:
        """E |z|^2 of a column: Dirichlet(1, ..., 1) of j entries has mean square 2/(j + 1)."""
        sizes = np.arange(1, self.classes)
        squares = 2.0 / (sizes + 1.0) + 2.0 / (self.classes - sizes + 1.0)
        shell = (self.classes - 1.0) / (self.classes + 1.0)  # E U^(2/(K-1))
        return float(shell * (self._sizes @ squares))

    @property
    def _sizes(self) -> Array:
        """The probability of j = 1, ..., K - 1 positive entries in a column."""
        k = self.classes
        logs = [math.log(math.comb(k, j)) - math.lgamma(j) - math.lgamma(k - j) for j in range(1, k)]
        weights = np.exp(np.array(logs) - max(logs))
        return np.asarray(weights / weights.sum())

    def norm(self, b: Array) -> float:
        columns = contrast_basis(self.classes) @ b.reshape(self.classes - 1, self.columns)
        return float(np.maximum(columns, 0.0).sum(axis=0).max())

    def sample(self, rng: np.random.Generator) -> Array:
        k, p = self.classes, self.columns
        sizes = rng.choice(np.arange(1, k), size=p, p=self._sizes)
        order = np.argsort(rng.random((k, p)), axis=0)
        positive_part = order < sizes
        weights = rng.standard_exponential((k, p))
        up, down = weights * positive_part, weights * ~positive_part
        columns = up / up.sum(axis=0) - down / down.sum(axis=0)
        columns *= rng.random(p) ** (1.0 / (k - 1)) * rng.gamma(self.dim + 1, self.scale)
        return np.asarray(contrast_basis(k).T @ columns).ravel()
