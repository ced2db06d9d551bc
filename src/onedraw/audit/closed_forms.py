# SPDX-License-Identifier: Apache-2.0
"""Laws of outputs in closed form: noise around a location, and the logit of a Beta variable.

>>> density = NormalDensity(location=np.zeros(2), scale=2.0)
>>> bool(np.isclose(density.log_density(np.zeros((1, 2)))[0], -np.log(2.0 * np.pi * 4.0)))
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy import special

from onedraw._validate import one_of, positive
from onedraw.types import Array


class Density(Protocol):
    """A log density of outputs, up to a constant of its own. A ``Posterior`` is one."""

    def log_density(self, thetas: Array) -> Array: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseDensity:
    """Noise around a location (p,): density proportional to exp(-|theta - location|/scale).

    ``spherical`` takes the Euclidean length, ``laplace`` the sum of absolute values.
    """

    location: Array
    scale: float
    noise: Literal["spherical", "laplace"] = "spherical"

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        one_of(("spherical", "laplace"), noise=self.noise)

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row of ``thetas``."""
        away = thetas - self.location
        dim = thetas.shape[1]
        if self.noise == "laplace":
            return np.asarray(-np.abs(away).sum(axis=1) / self.scale - dim * math.log(2.0 * self.scale))
        # The radius is Gamma(p, scale) in a uniform direction: |S^(p-1)| = 2 pi^(p/2)/Gamma(p/2).
        log_sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)
        constant = math.lgamma(dim) + dim * math.log(self.scale) + log_sphere
        return np.asarray(-np.linalg.norm(away, axis=1) / self.scale - constant)


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalDensity:
    """Independent normal noise of standard deviation ``scale`` around a location (p,)."""

    location: Array
    scale: float

    def __post_init__(self) -> None:
        positive(scale=self.scale)

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row of ``thetas``."""
        squares = np.square((thetas - self.location) / self.scale).sum(axis=1)
        return np.asarray(-0.5 * squares - thetas.shape[1] * math.log(self.scale * math.sqrt(2.0 * math.pi)))


@dataclass(frozen=True, kw_only=True, eq=False)
class LogitBetaDensity:
    """The logit of a Beta(ones, zeros) variable."""

    ones: float
    zeros: float

    @property
    def location(self) -> Array:
        """Its mean, (1,)."""
        return np.array([special.digamma(self.ones) - special.digamma(self.zeros)])

    @property
    def scale(self) -> float:
        """Its standard deviation."""
        return math.sqrt(special.zeta(2.0, self.ones) + special.zeta(2.0, self.zeros))

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row of ``thetas``."""
        logit = thetas[:, 0]
        logs = self.ones * special.log_expit(logit) + self.zeros * special.log_expit(-logit)
        return np.asarray(logs - special.betaln(self.ones, self.zeros))


AroundLocation = NoiseDensity | NormalDensity | LogitBetaDensity
