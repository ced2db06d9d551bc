# SPDX-License-Identifier: Apache-2.0
"""The covariance K of the score at the truth: how much the sampling of the records moves a fit.

The score of a record is omega f' z. Weights omega are at most 1 and depend on the features alone, so
sum omega^2 Var(f'|z) z z' <= sum omega Var(f'|z) z z', and every law below may take weights to the first
power: too wide by no more than the weights lose.

*Model.* Var(f'|z) is a function V of the predictor. Two classes: s (1 + 2 c s)^2, s = pi (1 - pi), for a loss
with c times Brier's score; v = s + 2 c s^2 is the mean of f'' over y at the truth, and the released curvature
is that of the responses seen. For c = 0 both are s, K = H.
*Classes*, three or more: I = sum V (x) z z' is released, H = sum (V + c V^2) (x) z z', and K = sum V (1 + c
V)^2 (x) z z'. H^-1 K H^-1 is at least I^-1 [Gauss, Markov] and at most (1 + m)^2/(4 m) of it, m = 1 + c/2 the
largest eigenvalue of 1 + c V [Kantorovich; Marshall & Olkin 1990]: for c = 1/2 standard errors are at most
0.6% more, and were 0.3% more at the most in simulated tables. So K = H I^-1 H, and rows that are not normal
cost nothing there: I is what the release shows.
*Counts*: V = E f'^2, which is at most v = E f'' for Poisson counts (``tilted.count_loss``); for the negative
binomial it may be more.

*Dispersion.* Linear regression: f' = c tanh(r/c) for residuals r that do not depend on z, so K = c^2 t M with
t = sum omega tanh^2, a released total, and M the second moments of the rows.

*Robust.* K is not taken from the model: its own noisy release is sampled like a curvature (``sampling``), as
the moments of rows that count by their squared scores. Right for spreads that depend on the features; not for
counts that vary more than the model says, whose fit is another one (``tilted.recipes``).
Of three or more classes K = sum omega^2 (s s') (x) (z z') is taken as the moments of rows of q p columns, and
H = sum (V + c V^2) (x) z z' still from the information. Where the fit has the probabilities pi and the truth
others, pi + d, a record's mean slope is V + c V^2 - c sum over j of pi_j (d_j - pi.d)(e_j - pi)(e_j - pi)':
off by at most 2 c max|d| V, for c = 1/2 by the share max|d|, and the mean over records usually by much less,
as d is orthogonal to the rows. On simulated tables (three classes; a missing square, product or mixture; 2
and 5 features) with max|d| = 0.2 errors were off by at most 1.5%, with 0.35 by 3% and with 0.6 by 6%, too
short where a class is rare in the middle of a feature; those of the model were then too short by 6%, 12% and
35%. What is inferred are the parameters of the least mean loss, with Brier's score in it.
A prior about the K of the model, so that noise that hides K leaves the model's errors, was tried and dropped:
intervals were shorter under correlated features, but also where the model was wrong.

A person with m rows adds m scores that may be alike: (s_1 + ... + s_m)^2 <= m (s_1^2 + ... + s_m^2). So K is
taken m times, ``Released.noise_ratio``.

>>> import numpy as np
>>> from onedraw.inference.curvature import row_law
>>> from onedraw.inference.rows import Rows
>>> from onedraw.inference.weight import ConstantWeight
>>> rows = Rows.of_moments(np.eye(2)[None], intercept=True)
>>> law = row_law(ConstantWeight(), rows, np.zeros((1, 2)))
>>> truth = Solved(point=np.zeros((1, 2)), law=law, count=np.array([50.0]))
>>> ModelScore().covariances(truth, np.random.default_rng(0))[0].tolist()
[[50.0, 0.0], [0.0, 50.0]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from onedraw._validate import positive
from onedraw.inference.components import Solved
from onedraw.inference.curvature import row_law
from onedraw.inference.layout import Layout
from onedraw.inference.noisy import NoisyCurvature
from onedraw.inference.sampling import sample_moments
from onedraw.inference.weight import ConstantWeight, Weight
from onedraw.types import Array

MEAN_SQUARE = 1.0 / 3.0
"""Of a typical working feature, where no intercept tells the number of records."""


class ScoreLaw(Protocol):
    """The covariance of the score, one draw of it for each draw of the moments."""

    def covariances(self, truth: Solved, rng: np.random.Generator) -> Array:
        """K (B, n, n) at the true parameters."""
        ...

    def errors(self, truth: Solved, rng: np.random.Generator) -> Array:
        """H^-1 K H^-1 (B, n, n)."""
        return np.asarray(truth.inverse @ self.covariances(truth, rng) @ truth.inverse)


@dataclass(frozen=True, kw_only=True)
class ModelScore(ScoreLaw):
    """K as the model says: ``variance`` is V, that of the curvature itself unless given."""

    variance: Weight | None = None

    def covariances(self, truth: Solved, rng: np.random.Generator) -> Array:
        if self.variance is None:
            return truth.curvature
        law = row_law(self.variance, truth.law.rows, truth.point)
        return np.asarray(truth.count[:, None, None] * law.curvature)


@dataclass(frozen=True)
class EfficientScore(ScoreLaw):
    """K = H I^-1 H: estimates vary by the inverse of the information I, the released curvature."""

    def covariances(self, truth: Solved, rng: np.random.Generator) -> Array:
        return np.asarray(truth.slope @ self.errors(truth, rng) @ truth.slope)

    def errors(self, truth: Solved, rng: np.random.Generator) -> Array:
        return np.asarray(np.linalg.inv(truth.curvature))


@dataclass(frozen=True, kw_only=True)
class DispersedScore(ScoreLaw):
    """K = unit * t * M, t known from a released total with Laplace noise of scale ``noise``."""

    total: float
    noise: float
    unit: float

    def __post_init__(self) -> None:
        positive(noise=self.noise)
        positive(unit=self.unit)

    def covariances(self, truth: Solved, rng: np.random.Generator) -> Array:
        total = positive_laplace(self.total, self.noise, rng.random(len(truth.count)))
        return np.asarray((self.unit * total)[:, None, None] * truth.law.rows.moments)


@dataclass(frozen=True, kw_only=True, eq=False)
class RobustScore(ScoreLaw):
    """K = unit * (what a released matrix (q p, q p) was before its noise); ``layout`` is that of the rows.

    Of several predictors the matrix has the prior of one whose columns are all plain.
    """

    matrix: Array
    diagonal_sd: float
    offdiagonal_sd: float
    unit: float
    layout: Layout
    predictors: int = 1

    def covariances(self, truth: Solved, rng: np.random.Generator) -> Array:
        size = len(self.matrix)
        order = self.layout.order(size // self.predictors, predictors=self.predictors)
        matrix = self.matrix[np.ix_(order, order)]
        layout = self.layout if self.predictors == 1 else Layout(intercept=self.layout.intercept)
        space = layout.space(size, count_sd=1.0)
        noisy = NoisyCurvature(
            matrix=matrix[None],
            diagonal_sd=np.array([self.diagonal_sd]),
            offdiagonal_sd=np.array([self.offdiagonal_sd]),
        )
        diagonal = np.maximum(matrix.diagonal(), self.diagonal_sd)
        total = diagonal.mean() / MEAN_SQUARE if self.layout.intercept is None else diagonal[0]
        flat = ConstantWeight()
        chains = sample_moments(noisy, space, flat, np.zeros((1, size)), np.array([total]), rng)
        point = space.read(chains.draws.reshape(-1, space.size))
        draws = (self.unit * total * np.exp(point.log_count))[:, None, None] * point.rows.moments
        return np.concatenate([draws] * (len(truth.count) // len(draws)))


def positive_laplace(centre: float, scale: float, probability: Array) -> Array:
    """Quantiles of the Laplace law given that it is positive: the posterior of a positive total.

    >>> positive_laplace(-5.0, 2.0, np.array([0.5])).round(3)    # the tail of an exponential law
    array([1.386])
    """
    below = 0.5 * np.exp(-abs(centre) / scale)
    below = below if centre > 0.0 else 1.0 - below
    # The survival function is used above the centre: 1 - u would lose the digits of a small tail.
    left = (1.0 - below) * (1.0 - probability)
    lower = below + (1.0 - below) * probability
    upper = centre - scale * np.log(np.maximum(2.0 * left, 1e-300))
    return np.asarray(np.where(left < 0.5, upper, centre + scale * np.log(2.0 * np.minimum(lower, 0.5))))
