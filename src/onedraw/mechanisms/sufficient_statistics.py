# SPDX-License-Identifier: Apache-2.0
"""Sufficient-statistic perturbation: a conjugate posterior from noisy sums [Foulds et al. 2016].

The posterior given noisy statistics is a function of them, so all of it is released, as ``draws`` draws. It
takes the noisy sums at their word: for small n or epsilon its intervals are too short. The posterior that
knows about the noise is in ``noise_aware.py``.

Guarantee:
    epsilon-DP (pure), for the whole posterior, with m rows a person:

    * ``BetaBernoulliSSP``: the number of ones plus Laplace noise of scale 1/epsilon where n is public
      (replace-one, m = 1); elsewhere both counts, each with noise of scale m c/epsilon, c = 2 (replace-one)
      or 1 (add/remove). *Proof.* A row is in one count. Replacing one moves the number of ones by at most 1;
      m rows removed and up to m others added move the two counts by 2m in L1, and m rows added by m. []
    * ``LinearSSP``: with x divided by X and y by Y (both clipped), the distinct entries of X'X and X'y plus
      Laplace noise of scale m c/epsilon, c = (p + 1)/2 + sqrt(p) under add/remove and ``replaced_row(p)``
      under replace-one. *Proof.* For |x|_2 <= 1 the distinct entries of xx' have L1 norm (|x|_1^2 +
      |x|_2^2)/2 <= (p + 1)/2, and |xy|_1 <= sqrt(p). A replaced row: see ``replaced_row``. []

    Sums and noise are whole numbers, of units of 2^-40 for the regression, and nothing of them is computed in
    floating point (``onedraw.noise``, ``_linear.Moments``): entries of a row are cut to multiples of 2^-20.

Edge cases:
    Noisy counts are moved into [0, n], noisy moments to the nearest positive semi-definite matrix: functions
    of released numbers. n = 0 gives the prior, plus noise.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=()))
>>> mechanism = BetaBernoulliSSP(draws=3).calibrate(Request(epsilon=1.0), shape)
>>> mechanism.guarantee.draws, mechanism.noise_scale
(3, 1.0)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from onedraw._validate import positive, whole
from onedraw.mechanisms._beta_bernoulli import BetaBernoulli, counts
from onedraw.mechanisms._linear import LINEAR_NEEDS, NORMAL, BoundedLinear, Moments
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms.base import Requirements
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.noise import discrete_laplace, rounded_up
from onedraw.privacy.guarantee import Guarantee
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence
from onedraw.tables.base import Table
from onedraw.types import Array

EVIDENCE = Evidence(
    level="accounted",
    statement=(
        "Discrete Laplace noise of a known scale was added to whole-number sums over bounded records; the "
        "draws are computed from the noisy sums alone, so privacy rests on no sampler."
    ),
)


@dataclass(frozen=True, kw_only=True)
class NoisyPosterior(GridMechanism):
    """What mechanisms that release a whole posterior share: the number of draws that represent it."""

    draws: int = 1000

    def _draws(self, request: Request) -> int:
        return whole(draws=self.draws)


@dataclass(frozen=True, kw_only=True)
class NoisyCounts(NoisyPosterior, BetaBernoulli):
    """A probability from noisy counts, released as logits."""

    @property
    def noise_scale(self) -> float:
        """The scale of the Laplace noise on each count."""
        return self._moved / self.guarantee.epsilon

    @property
    def _moved(self) -> float:
        """By how much one person moves the counts that are released, a whole number."""
        return 1.0 if self.guarantee.num_records_is_public else changed_rows(self.guarantee)

    def _values(self, records: Records, rng: np.random.Generator) -> tuple[Array, Evidence]:
        ones, zeros = counts(records)
        scale = Fraction(self._moved) / Fraction(self.guarantee.epsilon)
        more_ones, more_zeros = discrete_laplace(scale, 2, rng)
        noisy_ones = ones + more_ones
        if self.guarantee.num_records_is_public:
            return self._draw_posterior(noisy_ones, len(records.response), rng), EVIDENCE
        noisy_zeros = zeros + more_zeros
        return self._logits(rng, max(noisy_ones, 0.0), max(noisy_zeros, 0.0), self.draws), EVIDENCE

    @abstractmethod
    def _draw_posterior(self, noisy_ones: float, num_records: int, rng: np.random.Generator) -> Array:
        """Logits (draws, 1) given the noisy count and the public number of records."""

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {"noise_scale": self.noise_scale}


@dataclass(frozen=True, kw_only=True)
class BetaBernoulliSSP(NoisyCounts):
    """The Beta posterior of a probability from noisy counts taken at their word."""

    name: ClassVar[str] = "beta_bernoulli_ssp"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        intercept_only=True,
        floating="",
        prefer="comparison; its intervals are too short",
    )

    def _draw_posterior(self, noisy_ones: float, num_records: int, rng: np.random.Generator) -> Array:
        ones = min(max(noisy_ones, 0.0), float(num_records))
        return self._logits(rng, ones, num_records - ones, self.draws)


@dataclass(frozen=True, kw_only=True)
class NoisyLinear(NoisyPosterior, BoundedLinear):
    """Linear coefficients from noisy moments, with a known residual scale.

    ``residual_scale`` is a public guess in units of the response, one working unit by default;
    ``prior_scale`` is in working units.
    """

    residual_scale: float | None = None
    prior_scale: float = 3.0

    def _check_options(self) -> None:
        if self.residual_scale is not None:
            positive(residual_scale=self.residual_scale)
        positive(prior_scale=self.prior_scale)

    @property
    def _residual(self) -> float:
        """The residual scale in working units."""
        return 1.0 if self.residual_scale is None else self.residual_scale / float(self.model.target_unit)

    def sensitivity(self, dim: int) -> float:
        """In L1, of the distinct entries of X'X and X'y in units of X^2 and X Y."""
        one = self.guarantee.neighbours == "add_remove"
        return self.guarantee.rows_per_person * (added_row(dim) if one else replaced_row(dim))

    @property
    def noise_scale(self) -> float:
        """The scale of the Laplace noise on each entry, in the units of ``sensitivity``."""
        return self.sensitivity(self.model.dim) / self.guarantee.epsilon

    def _values(self, records: Table, rng: np.random.Generator) -> tuple[Array, Evidence]:
        dim = self.model.dim
        norm, bound = self._bounds()
        scale, unit = self.noise_scale, bound / norm
        upper = dim * (dim + 1) // 2
        noise = discrete_laplace(rounded_up(scale / Moments.UNIT), upper + dim, rng)
        moments, products = self._moments(records).noisy(noise[:upper], noise[upper:])
        noisy = NoisyMoments(
            moments=moments,
            products=products,
            noise_scale=scale,
            residual=self._residual / bound,
            prior=self.prior_scale / unit,
        )
        # From here on the data are not touched again. Coefficients in units of Y/X.
        return self._draw_posterior(noisy, rng) * unit, EVIDENCE

    @abstractmethod
    def _draw_posterior(self, noisy: NoisyMoments, rng: np.random.Generator) -> Array:
        """Coefficients (draws, p) given noisy moments."""

    @property
    def grid(self) -> Grid:
        """2^-40 of the prior scale."""
        return Grid(coefficient=coefficient_step(self.prior_scale))

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {"noise_scale": self.noise_scale}


@dataclass(frozen=True, kw_only=True)
class LinearSSP(NoisyLinear):
    """The posterior of linear coefficients from noisy moments taken at their word."""

    name: ClassVar[str] = "linear_ssp"
    requirements: ClassVar[Requirements] = Requirements(
        families=NORMAL, needs=LINEAR_NEEDS, floating="", prefer="comparison; its intervals are too short"
    )

    def _draw_posterior(self, noisy: NoisyMoments, rng: np.random.Generator) -> Array:
        dim = len(noisy.products)
        precision = nearest_psd(noisy.moments) / noisy.residual**2 + np.eye(dim) / noisy.prior**2
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, noisy.products / noisy.residual**2)
        normal = rng.standard_normal((dim, self.draws))
        return np.asarray(mean + np.linalg.solve(root.T, normal).T)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments:
    """Noisy X'X (p, p) and X'y (p,) in units of the bounds, with what is publicly known about them."""

    moments: Array
    products: Array
    noise_scale: float
    residual: float
    prior: float


def added_row(dim: int) -> float:
    """The L1 norm of what one row with |x| <= 1 and |y| <= 1 adds to the distinct entries of X'X and X'y."""
    return 0.5 * (dim + 1) + math.sqrt(dim)


def replaced_row(dim: int) -> float:
    """The largest L1 distance between what two such rows add.

    *Proof.* Let D = xx' - zz', with v the difference of the products and c = |x'z|. The distinct entries of
    D have the L1 norm (sum |D_ij| + sum |D_ii|)/2. By Cauchy-Schwarz it is at most A |D|_F with A = sqrt(p^2
    + 3p)/2; and also at most p |D|_F/2 + |x - z| |x + z|/2. Products add at most sqrt(p) |v|_2. For rows of
    length 1, |D|_F^2 = 2 (1 - c^2), |x - z| |x + z| = 2 sqrt(1 - c^2) and |v|^2 <= 2 + 2c. So the sum is at
    most

        a sqrt(1 - c^2) + sqrt(2p) sqrt(1 + c),   a = min(sqrt((p^2 + 3p)/2), p/sqrt(2) + 1),

    which is 2 a s sqrt(1 - s^2) + 2 sqrt(p) s for s^2 = (1 + c)/2, largest where a (1 - 2 s^2) = -sqrt(p)
    sqrt(1 - s^2). Shorter rows do no more: scaling both up until one has length 1 only helps. If |z|^2 = u <
    1, rows of length 1 with the product k = c - (1 - u)/2 have the same |v| bound, as 2 + 2k = 1 + u + 2c,
    and no smaller others: 2 (1 - k^2) - (1 + u^2 - 2c^2) = (1 - u)(1/2 + 3u/2 + 2c) >= 0, and 4 (1 - k^2) -
    (1 + u)^2 + 4c^2 = 2 (1 - u^2) + 4c (1 - u) >= 0. In one dimension c = |x z| and the sum is 1 - q^2 + 1 +
    q for |z| = q, at most 9/4. A row without a counterpart, of a person with fewer rows, adds less. []

    >>> round(replaced_row(1), 2), round(replaced_row(10) / (2 * added_row(10)), 2)
    (2.25, 0.74)
    """
    if dim == 1:
        return 2.25
    p = float(dim)
    a = min(math.sqrt(0.5 * (p * p + 3.0 * p)), p / math.sqrt(2.0) + 1.0)
    squared = (4.0 * a * a - p + math.sqrt(p * p + 8.0 * a * a * p)) / (8.0 * a * a)
    s = math.sqrt(min(squared, 1.0))
    return 2.0 * a * s * math.sqrt(1.0 - s * s) + 2.0 * math.sqrt(p) * s


def changed_rows(guarantee: Guarantee) -> float:
    """How many rows one person can change: a replaced row is one removed and one added."""
    return guarantee.rows_per_person * (2.0 if guarantee.neighbours == "replace_one" else 1.0)


def nearest_psd(matrix: Array) -> Array:
    """The nearest positive semi-definite matrix in Frobenius norm."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
