# SPDX-License-Identifier: Apache-2.0
"""Proposal densities for exact rejection: mixtures of multivariate t laws and the prior.

Each component knows its normalised log density and how to draw from it; so does the mixture. The prior is
always among the components: it covers whatever the others miss, so the ratio of posterior to proposal is
bounded everywhere.

>>> import numpy as np
>>> t = StudentT(location=np.zeros(2), precision=np.eye(2), df=5.0)
>>> float(t.log_density(np.zeros((1, 2)))[0])           # log 1/(2 pi)
-1.837...
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg, special

from onedraw.priors import Prior
from onedraw.private import Withheld
from onedraw.types import Array


class Component(Protocol):
    """A density that can be evaluated and drawn from."""

    def log_density(self, thetas: Array) -> Array: ...

    def gradient(self, thetas: Array) -> Array: ...

    def hessian(self, theta: Array) -> Array: ...

    def sample(self, rng: np.random.Generator, num: int) -> Array: ...


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StudentT(Withheld):
    """Multivariate t with shape matrix ``precision``^-1."""

    location: Array
    precision: Array
    df: float

    @cached_property
    def _root(self) -> Array:
        """Upper triangular U with U'U = precision."""
        scale = np.sqrt(np.diag(self.precision))
        unit = self.precision / scale[:, None] / scale[None, :]
        try:
            root = linalg.cholesky(unit, lower=False)
        except linalg.LinAlgError:  # indefinite by rounding: any nearby law will do, as long as it is one
            values, vectors = linalg.eigh(0.5 * (unit + unit.T))
            halves = np.sqrt(np.maximum(values, 1e-12))[:, None] * vectors.T
            (root,) = linalg.qr(halves, mode="r")
            root *= np.where(np.diag(root) < 0.0, -1.0, 1.0)[:, None]
        return np.asarray(root) * scale[None, :]

    @cached_property
    def _log_norm(self) -> float:
        p, nu = len(self.location), self.df
        return float(
            special.gammaln(0.5 * (nu + p))
            - special.gammaln(0.5 * nu)
            - 0.5 * p * math.log(nu * math.pi)
            + np.log(np.diag(self._root)).sum()
        )

    def _white(self, thetas: Array) -> Array:
        return (thetas - self.location) @ self._root.T

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row."""
        with np.errstate(over="ignore"):  # infinitely far: the prior's part of the envelope is what is left
            squared = np.square(self._white(thetas)).sum(axis=1)
        power = 0.5 * (self.df + len(self.location))
        return self._log_norm - power * np.log1p(squared / self.df)  # type: ignore[no-any-return]

    def gradient(self, thetas: Array) -> Array:
        """Gradient of the log density at each row."""
        white = self._white(thetas)
        with np.errstate(over="ignore"):
            squared = np.square(white).sum(axis=1, keepdims=True)
        return -(self.df + len(self.location)) / (self.df + squared) * (white @ self._root)  # type: ignore[no-any-return]

    def hessian(self, theta: Array) -> Array:
        """Second derivatives of the log density at one point."""
        pull = self._root.T @ self._white(theta[None, :])[0]
        heavy = self.df + float(np.square(self._white(theta[None, :])).sum())
        bend = self._root.T @ self._root - (2.0 / heavy) * np.outer(pull, pull)
        return -(self.df + len(self.location)) / heavy * bend

    def sample(self, rng: np.random.Generator, num: int) -> Array:
        """``num`` draws, (num, p)."""
        normal = rng.standard_normal((num, len(self.location)))
        stretch = np.sqrt(self.df / (2.0 * rng.standard_gamma(0.5 * self.df, size=(num, 1))))
        white = linalg.solve_triangular(self._root, (normal * stretch).T, lower=False)
        return np.asarray(self.location + np.asarray(white).T)


@dataclass(frozen=True, kw_only=True)
class PriorComponent:
    """The prior as a component."""

    prior: Prior
    dim: int

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row."""
        return self.prior.log_density(thetas)

    def gradient(self, thetas: Array) -> Array:
        """Gradient of the log density at each row."""
        return self.prior.gradient(thetas)

    def hessian(self, theta: Array) -> Array:
        """Second derivatives of the log density at one point."""
        return -np.diag(self.prior.negative_hessian_diagonal(theta))

    def sample(self, rng: np.random.Generator, num: int) -> Array:
        """``num`` draws, (num, p)."""
        return self.prior.sample(rng, num, self.dim)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Mixture(Withheld):
    """A finite mixture of components; weights sum to one."""

    components: Sequence[Component]
    weights: Array

    def _log_terms(self, thetas: Array) -> Array:
        return np.stack(
            [math.log(w) + c.log_density(thetas) for w, c in zip(self.weights, self.components, strict=True)]
        )

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row."""
        return np.logaddexp.reduce(self._log_terms(thetas), axis=0)  # type: ignore[no-any-return]

    def gradient(self, thetas: Array) -> Array:
        """Gradient of the log density at each row."""
        terms = self._log_terms(thetas)
        shares = np.exp(terms - np.logaddexp.reduce(terms, axis=0))
        gradients = np.stack([c.gradient(thetas) for c in self.components])
        return np.einsum("km,kmp->mp", shares, gradients)  # type: ignore[no-any-return]

    def hessian(self, theta: Array) -> Array:
        """Second derivatives of the log density at one point."""
        terms = self._log_terms(theta[None, :])[:, 0]
        shares = np.exp(terms - np.logaddexp.reduce(terms))
        slopes = np.stack([c.gradient(theta[None, :])[0] for c in self.components])
        bends = np.stack([c.hessian(theta) for c in self.components])
        slope = shares @ slopes
        mean = np.einsum("k,kij->ij", shares, bends) + (slopes.T * shares) @ slopes
        return np.asarray(mean - np.outer(slope, slope))

    def sample(self, rng: np.random.Generator, num: int) -> Array:
        """``num`` independent draws in random order, (num, p)."""
        counts = rng.multinomial(num, self.weights)
        parts = [c.sample(rng, int(k)) for c, k in zip(self.components, counts, strict=True) if k]
        return rng.permutation(np.concatenate(parts), axis=0)
