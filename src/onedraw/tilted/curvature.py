# SPDX-License-Identifier: Apache-2.0
"""Noisy sums for inference: the curvature sum_i omega_i f''_i (x) z_i z_i', and the total of squared scores.

f'' is taken at the record's own predictor, its offset included; its bounds hold for every predictor.
One record adds a positive semidefinite D with trace at most c (``trace``) and, for rows in the cube, with all
entries at most e (``entry``) in size and diagonal ones in [0, e]. A person has up to m rows, so m c and m e.
Of rows with columns of categories most entries are zero, and a row that is replaced, or added, moves those of
the upper triangle by at most t in all (``moved``).

Guarantee (``epsilon`` = diagonal part + off-diagonal part, or (epsilon, delta) for the Gaussian):
    * Diagonal, entries known: the cube law of scale m e/epsilon_d, for both relations: the difference of two
      vectors of [0, m e]^p is in [-m e, m e]^p.
    * Diagonal, trace only: independent Laplace of scale 2 m c/epsilon_d, m c/epsilon_d for add/remove: the
      sums of the absolute entries are traces.
    * Off-diagonal, entries known: the cube law over p (p-1)/2 entries of scale 2 m e/epsilon_o, m e/epsilon_o
      for add/remove.
    * Off-diagonal, trace only (and wherever it is smaller): the symmetrised Wishart N = s (A A' - B B'), A
      and B p x (p+1) standard normal, s = m c/epsilon_o, half of it for add/remove. Its diagonal is a second
      reading.
    * All entries, t known: independent Laplace of scale m t/epsilon, which needs no parts.
    * A total of squared scores sum omega a^2, a = |f'|/score bound in [0, 1] (``total_scale``): Laplace of
      scale m/epsilon, for both relations, as a person moves it by m at most.
    * delta > 0: Gaussian on the whole matrix, of Frobenius sensitivity sqrt(2) m c, m c for add/remove.

*Proof for the Wishart.* A A' with p + 1 degrees of freedom has density proportional to exp(-tr W/2) on the
cone of positive definite matrices: the power of det W is zero. So N has density f(N), a constant times the
integral over {W >= 0, W + N/s >= 0} of exp(-tr(2 W + N/s)/2). For D >= 0 the domain of N + D contains that
of N, so f(N + D) >= exp(-tr D/(2 s)) f(N); f is even, so f(N) >= exp(-tr D/(2 s)) f(N + D) as well. A
person replaced moves N by D - D', traces at most m c each: by at most 2 m c/(2 s); a person added by half
of that. [] (A single Wishart would not do: its support moves with the data.)
*For the Gaussian:* |D - D'|^2 = |D|^2 + |D'|^2 - 2 tr(D D') <= 2 (m c)^2, as tr(D D') >= 0 and |D| <= tr D.
The isotropic law in the Frobenius norm has standard deviation sigma on the diagonal, sigma/sqrt(2) off it.

>>> import numpy as np
>>> law = curvature_law(dim=4, trace=1.0, entry=None, epsilon=1.0, diagonal_share=0.5)
>>> round(law.off_diagonal_sd**2, 6)                              # 2 (p+1) (c/0.5)^2
40.0
>>> law.release(np.eye(4), np.random.default_rng(0)).matrix.shape
(4, 4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onedraw._validate import one_of, positive, probability, whole
from onedraw.errors import InvalidInput
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.tilted.laws import CubeLaw
from onedraw.types import Array, Neighbours

DIAGONAL_SHARE = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCurvature:
    """A published matrix and the standard deviations of its noise."""

    matrix: Array
    diagonal_sd: float
    off_diagonal_sd: float


@dataclass(frozen=True, kw_only=True)
class CurvatureLaw:
    """Noise for a symmetric matrix; scales are those of the guarantee."""

    dim: int
    diagonal: Literal["cube", "laplace", "gaussian"]
    diagonal_scale: float
    off_diagonal: Literal["cube", "wishart", "laplace", "gaussian"]
    off_diagonal_scale: float

    @property
    def own_diagonal_sd(self) -> float:
        """The standard deviation of the diagonal's own noise, before a second reading."""
        if self.diagonal == "cube":
            return math.sqrt(CubeLaw(dim=self.dim, scale=self.diagonal_scale).variance)
        return self.diagonal_scale * (math.sqrt(2.0) if self.diagonal == "laplace" else 1.0)

    @property
    def second_weight(self) -> float:
        """The weight of the Wishart's reading of the diagonal, by inverse variances."""
        if self.off_diagonal != "wishart":
            return 0.0
        own, second = self.own_diagonal_sd**2, 4.0 * (self.dim + 1) * self.off_diagonal_scale**2
        return own / (own + second)

    @property
    def diagonal_sd(self) -> float:
        return self.own_diagonal_sd * math.sqrt(1.0 - self.second_weight)

    @property
    def off_diagonal_sd(self) -> float:
        if self.off_diagonal == "wishart":
            return self.off_diagonal_scale * math.sqrt(2.0 * (self.dim + 1))
        if self.off_diagonal == "gaussian":
            return self.off_diagonal_scale
        if self.off_diagonal == "laplace":
            return self.off_diagonal_scale * math.sqrt(2.0)
        entries = self.dim * (self.dim - 1) // 2
        return math.sqrt(CubeLaw(dim=max(entries, 1), scale=self.off_diagonal_scale).variance)

    def release(self, curvature: Array, rng: np.random.Generator) -> NoisyCurvature:
        """The matrix with noise: what is published."""
        noise = self._off_diagonal_noise(rng)
        second = self.second_weight
        diagonal = (1.0 - second) * self._diagonal_noise(rng) + second * np.diag(noise)
        noise[np.diag_indices(self.dim)] = diagonal
        matrix = 0.5 * (curvature + curvature.T) + noise
        return NoisyCurvature(
            matrix=matrix, diagonal_sd=self.diagonal_sd, off_diagonal_sd=self.off_diagonal_sd
        )

    def _diagonal_noise(self, rng: np.random.Generator) -> Array:
        if self.diagonal == "cube":
            return CubeLaw(dim=self.dim, scale=self.diagonal_scale).sample(rng)
        if self.diagonal == "laplace":
            return rng.laplace(0.0, self.diagonal_scale, self.dim)
        return rng.normal(0.0, self.diagonal_scale, self.dim)

    def _off_diagonal_noise(self, rng: np.random.Generator) -> Array:
        p = self.dim
        if self.off_diagonal == "wishart":
            first, second = _wishart_root(p, rng), _wishart_root(p, rng)
            return np.asarray(self.off_diagonal_scale * (first @ first.T - second @ second.T))
        noise, upper = np.zeros((p, p)), np.triu_indices(p, 1)
        entries = len(upper[0])
        if self.off_diagonal == "gaussian":
            noise[upper] = rng.normal(0.0, self.off_diagonal_scale, entries)
        elif self.off_diagonal == "laplace":
            noise[upper] = rng.laplace(0.0, self.off_diagonal_scale, entries)
        elif entries:
            noise[upper] = CubeLaw(dim=entries, scale=self.off_diagonal_scale).sample(rng)
        return noise + noise.T


def _wishart_root(dim: int, rng: np.random.Generator) -> Array:
    """L (p, p) with L L' of the law of A A', A p x (p+1) standard normal, from half as many numbers.

    Bartlett's decomposition: L is lower triangular, with standard normal entries below its diagonal and the
    roots of chi-square numbers of p + 1, p, ..., 2 degrees of freedom on it.
    """
    root = np.zeros((dim, dim))
    root[np.tril_indices(dim, -1)] = rng.standard_normal(dim * (dim - 1) // 2)
    root[np.diag_indices(dim)] = np.sqrt(rng.chisquare(np.arange(dim + 1, 1, -1)))
    return root


def curvature_law(
    *,
    dim: int,
    trace: float,
    entry: float | None,
    epsilon: float,
    moved: float | None = None,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    diagonal_share: float = DIAGONAL_SHARE,
) -> CurvatureLaw:
    """The law with the least off-diagonal noise. ``entry`` is None where only the trace is bounded, ``moved``
    where a row may have all entries."""
    p, m = whole(dim=dim), whole(rows_per_person=rows_per_person)
    positive(epsilon=epsilon)
    probability(delta=delta)
    one_of(("replace_one", "add_remove"), neighbours=neighbours)
    if not 0.0 < diagonal_share < 1.0:
        raise InvalidInput(f"Expected 0 < diagonal_share < 1, got diagonal_share={diagonal_share!r}.")
    both = 2.0 if neighbours == "replace_one" else 1.0
    on, off = diagonal_share * epsilon, (1.0 - diagonal_share) * epsilon
    c = m * positive(trace=trace)
    laws = [("laplace", both * c / on, "wishart", 0.5 * both * c / off)]
    if entry is not None:
        e = m * positive(entry=entry)
        laws[0] = ("cube", e / on, "wishart", 0.5 * both * c / off)
        laws.append(("cube", e / on, "cube", both * e / off))
    if moved is not None:
        scale = m * positive(moved=moved) / epsilon
        laws.append(("laplace", scale, "laplace", scale))
    if delta > 0.0:
        sigma = math.sqrt(both) * c / gaussian_parameter(epsilon, delta)
        laws.append(("gaussian", sigma, "gaussian", sigma / math.sqrt(2.0)))
    options = [
        CurvatureLaw(
            dim=p,
            diagonal=diagonal,  # type: ignore[arg-type]
            diagonal_scale=(1.0 + 1e-12) * diagonal_scale,
            off_diagonal=off_diagonal,  # type: ignore[arg-type]
            off_diagonal_scale=(1.0 + 1e-12) * off_scale,
        )
        for diagonal, diagonal_scale, off_diagonal, off_scale in laws
    ]
    return min(options, key=lambda law: law.off_diagonal_sd)


def total_scale(*, epsilon: float, rows_per_person: int = 1) -> float:
    """The scale of the Laplace noise of a sum over records of numbers in [0, 1].

    >>> total_scale(epsilon=0.5, rows_per_person=3) / 6.0 < 1.0 + 1e-9
    True
    """
    return (1.0 + 1e-12) * whole(rows_per_person=rows_per_person) / positive(epsilon=epsilon)
