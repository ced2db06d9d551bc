# SPDX-License-Identifier: Apache-2.0
"""Laws of the random tilt b: density proportional to exp(-||b||/scale) for a norm ||.||, or Gaussian.

That for several classes stands in ``class_law``, that for columns of categories in ``one_hot``.

A norm of dimension m with unit ball K has the law: radius Gamma(m + 1, scale) times a point uniform in K
[Hardt & Talwar 2010]. (Its radius ||b|| is Gamma(m, scale), since a uniform point's norm is Beta(m, 1).)

Guarantee:
    At two points whose difference has norm at most D, the log densities of a norm law differ by at most
    D/scale: the triangle inequality. The Gaussian's curve stands in ``onedraw.privacy.gaussian``.

>>> import numpy as np
>>> law = CubeLaw(dim=6, scale=2.0)
>>> round(law.variance, 3), law.sample(np.random.default_rng(0)).shape
(74.667, (6,))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from onedraw._validate import positive, whole
from onedraw.types import Array


class Law(Protocol):
    """A symmetric law on ``dim`` coordinates, which are uncorrelated."""

    @property
    def dim(self) -> int: ...

    @property
    def scale(self) -> float:
        """What its length is in proportion to."""
        ...

    @property
    def variance(self) -> float:
        """The variance of each coordinate; where they differ, their mean."""
        ...

    @property
    def covariance(self) -> Array:
        """(dim, dim)."""
        ...

    def sample(self, rng: np.random.Generator) -> Array:
        """One point (dim,)."""
        ...

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Independent points (count, dim)."""
        ...


class OneByOne(ABC):
    """Points that are drawn one after another."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Array:
        """One point."""

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Independent points, one a row."""
        return np.stack([self.sample(rng) for _ in range(count)])


class Uneven(OneByOne):
    """What follows from the variances of coordinates that are uncorrelated and not alike."""

    @property
    @abstractmethod
    def variances(self) -> Array:
        """Of each coordinate (dim,)."""

    @property
    def variance(self) -> float:
        """The mean of those of the coordinates."""
        return float(self.variances.mean())

    @property
    def covariance(self) -> Array:
        return np.diag(self.variances)


@dataclass(frozen=True, kw_only=True)
class _Scaled(OneByOne):
    dim: int
    scale: float

    @property
    @abstractmethod
    def variance(self) -> float:
        """Of each coordinate."""

    @property
    def covariance(self) -> Array:
        return self.variance * np.eye(self.dim)

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
