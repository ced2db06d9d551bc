# SPDX-License-Identifier: Apache-2.0
"""Noisy sums for inference: the curvature sum_i omega_i f''_i (x) z_i z_i', and the total of squared scores.

f'' is taken at the record's own predictor, its offset included; its bounds hold for every predictor.
One record adds a positive semidefinite D with trace at most c (``trace``) and, for rows in the cube, with all
entries at most e (``entry``) in size and diagonal ones in [0, e]. A person has up to m rows, so m c and m e.
Of rows with columns of categories most entries are zero, and a row that is replaced, or added, moves those of
the upper triangle by at most t in all (``moved``).

Guarantee (epsilon, or (epsilon, delta) for the Gaussian), of the law with the least noise in all:
    * Cube, entries known: a point of the cube law of scale m e/epsilon for the entries of the triangle, those
      off the diagonal times 2 (1 for add/remove). The difference of two persons is at most m e on the
      diagonal, where both lie in [0, m e], and 2 m e off it.
    * Wishart, trace known: N = s (A A' - B B'), A and B p x (p+1) standard normal, s = m c/epsilon, half of
      it for add/remove. Where entries are known too, ``DIAGONAL_SHARE`` of epsilon goes to the diagonal by
      itself: the cube law of scale m e/epsilon for both relations; the Wishart's is a second reading.
    * Laplace, t known: independent entries of scale m t/epsilon.
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
>>> law = curvature_law(dim=4, trace=1.0, entry=None, epsilon=0.5)
>>> round(law.off_diagonal_sd**2, 6), round(law.diagonal_sd**2, 6)     # 2 and 4 times (p+1) (c/0.5)^2
(40.0, 80.0)
>>> law.release(np.eye(4), np.random.default_rng(0)).matrix.shape
(4, 4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onedraw._validate import one_of, positive, probability, whole
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
    """Noise for a symmetric matrix; the scale is that of the guarantee."""

    dim: int
    kind: Literal["cube", "wishart", "laplace", "gaussian"]
    scale: float
    off_diagonal: float = 1.0
    """Of the cube: how many times as large the noise off the diagonal is."""
    own: CubeLaw | None = None
    """Beside the Wishart: a reading of the diagonal by itself."""

    @property
    def diagonal_sd(self) -> float:
        if self.own is not None:
            return math.sqrt(self.own.variance * (1.0 - self._second))
        return self._only_diagonal_sd

    @property
    def off_diagonal_sd(self) -> float:
        if self.kind in ("wishart", "gaussian"):
            return self._only_diagonal_sd / math.sqrt(2.0)
        return self._only_diagonal_sd * self.off_diagonal

    @property
    def _only_diagonal_sd(self) -> float:
        """Without the diagonal's own reading."""
        if self.kind == "cube":
            return math.sqrt(self._cube.variance)
        factor = {"wishart": 4.0 * (self.dim + 1), "laplace": 2.0, "gaussian": 1.0}[self.kind]
        return self.scale * math.sqrt(factor)

    @property
    def _second(self) -> float:
        """The weight of the Wishart's reading of the diagonal, by inverse variances: 1 without another."""
        if self.own is None:
            return 1.0
        return self.own.variance / (self.own.variance + self._only_diagonal_sd**2)

    @property
    def total_variance(self) -> float:
        """Of all entries together."""
        p = self.dim
        return p * self.diagonal_sd**2 + p * (p - 1) * self.off_diagonal_sd**2

    @property
    def _cube(self) -> CubeLaw:
        return CubeLaw(dim=self.dim * (self.dim + 1) // 2, scale=self.scale)

    def release(self, curvature: Array, rng: np.random.Generator) -> NoisyCurvature:
        """The matrix with noise: what is published."""
        return NoisyCurvature(
            matrix=0.5 * (curvature + curvature.T) + self.noise(rng),
            diagonal_sd=self.diagonal_sd,
            off_diagonal_sd=self.off_diagonal_sd,
        )

    def noise(self, rng: np.random.Generator) -> Array:
        """Symmetric (p, p)."""
        p = self.dim
        if self.kind == "wishart":
            first, second = _wishart_root(p, rng), _wishart_root(p, rng)
            wishart = self.scale * (first @ first.T - second @ second.T)
            if self.own is not None:
                own = (1.0 - self._second) * self.own.sample(rng)
                wishart[np.diag_indices(p)] = own + self._second * wishart.diagonal()
            return np.asarray(wishart)
        noise, upper = np.zeros((p, p)), np.triu_indices(p)
        if self.kind == "cube":
            noise[upper] = self._cube.sample(rng)
        else:
            draw = rng.laplace if self.kind == "laplace" else rng.normal
            noise[upper] = draw(0.0, self.scale, len(upper[0]))
        above = self.off_diagonal_sd / self.diagonal_sd * np.triu(noise, 1)
        return np.asarray(np.diag(noise.diagonal()) + above + above.T)


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
) -> CurvatureLaw:
    """The law with the least noise. ``entry`` is None where only the trace is bounded, ``moved`` where a row
    may have all entries."""
    p, m = whole(dim=dim), whole(rows_per_person=rows_per_person)
    positive(epsilon=epsilon)
    probability(delta=delta)
    one_of(("replace_one", "add_remove"), neighbours=neighbours)
    both = 2.0 if neighbours == "replace_one" else 1.0
    c = m * positive(trace=trace)
    rounded = 1.0 + 1e-12
    wishart = rounded * 0.5 * both * c / epsilon
    if entry is None:
        laws = [CurvatureLaw(dim=p, kind="wishart", scale=wishart)]
    else:
        e = rounded * m * positive(entry=entry) / epsilon
        own = CubeLaw(dim=p, scale=e / DIAGONAL_SHARE)
        laws = [
            CurvatureLaw(dim=p, kind="cube", scale=e, off_diagonal=both),
            CurvatureLaw(dim=p, kind="wishart", scale=wishart / (1.0 - DIAGONAL_SHARE), own=own),
        ]
    if moved is not None:
        scale = m * positive(moved=moved) / epsilon
        laws.append(CurvatureLaw(dim=p, kind="laplace", scale=rounded * scale))
    if delta > 0.0:
        sigma = math.sqrt(both) * c / gaussian_parameter(epsilon, delta)
        laws.append(CurvatureLaw(dim=p, kind="gaussian", scale=rounded * sigma))
    return min(laws, key=lambda law: law.total_variance)


def total_scale(*, epsilon: float, rows_per_person: int = 1) -> float:
    """The scale of the Laplace noise of a sum over records of numbers in [0, 1].

    >>> total_scale(epsilon=0.5, rows_per_person=3) / 6.0 < 1.0 + 1e-9
    True
    """
    return (1.0 + 1e-12) * whole(rows_per_person=rows_per_person) / positive(epsilon=epsilon)
