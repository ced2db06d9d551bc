# SPDX-License-Identifier: Apache-2.0
"""What a fit may spend, under which relation, and what is publicly known of the size of the data.

The number of records decides how much of epsilon the first stages of a fit need, and how far features and
residuals may reach before they count for less. It is used only where it is public; elsewhere n epsilon =
``ASSUMED`` is taken, whatever the data are. No guarantee rests on it.

*The solver's residual grows with n*, since the rounding of a sum does: eight times its bound at parameters
of length ``LENGTH``, where that is more than ``RESIDUAL``; the noise that pays for the solver grows with it.
Where n is private, a number above it is found for ``COUNT_SHARE`` of epsilon: n plus Laplace noise plus forty
times its scale, rounded up to a power of two. It is below n in one of 10^17 releases.

Guarantee:
    ``counted`` is COUNT_SHARE epsilon-DP: a person moves n by at most m = ``rows_per_person``, and the noise
    has scale m/(COUNT_SHARE epsilon).

>>> Terms(epsilon=0.5, num_records=20_000).information, Terms(epsilon=0.5).information
(10000.0, 5000.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from onedraw.noise import discrete_laplace
from onedraw.tilted.calibration import RESIDUAL, Calibration, calibrate
from onedraw.tilted.losses import Loss
from onedraw.tilted.sums import can_be_precise, rounding
from onedraw.tilted.weights import Geometry
from onedraw.types import Neighbours

RAW_PRICES = ((150.0, 0.1), (0.0, 0.04))
"""Of epsilon, for a smaller ridge where the minimiser is reported as it is, for each predictor, by n epsilon
for each entry of a row from which on it is taken. With little information a larger ridge keeps the estimate
near zero, which is closer to coefficients of order one; the largest, at no price, loses too much of large
ones."""
LARGEST_RAW_PRICE = 0.2
"""However many predictors: a share that grew with the classes would leave nothing at eleven. Of 10, 15, 20,
25 and 30%, 20% was the best or within a few per mille of it for three classes with two and five features and
1,000 records."""
CORRECTED_PRICE = 0.05
CORRECTED_FROM = 0.05
"""Of epsilon, for a smaller ridge where a released curvature undoes its pull, and the noise (``Terms.noise``)
from which on it is taken: there the curvature's own noise leaves part of the pull. Below it is taken only by
losses whose curvature is never free."""
CLASSES_PRICES = (0.15, 0.2)
CLASSES_FROM = 0.007
"""The same for three classes and for more, whose matrix is larger, and its noise too. Of 5, 10, 15, 20 and
25%, 15% was the best or within 3% of it in four simulated cells of three classes with more noise than this,
and 5% in two with less. In five cells of four to seven classes 20% had 0.95 to 1.01 of the error of 15%."""
ASSUMED = 5000.0
"""n epsilon where the number of records is private."""
LEAST = 100.0
"""n epsilon at the least: below, no share of it would be enough for a first stage."""
COUNT_SHARE = 0.002
LENGTH = 64.0
"""Of parameters, in units of the largest score: what the residual allows rounding for."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a fit may spend, under which relation."""

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours = "replace_one"
    rows_per_person: int = 1
    raw: bool = False
    """Whether the minimiser is reported as it is. Then its ridge pulls it to the centre, and it pays to spend
    a little of epsilon on a smaller ridge."""
    num_records: int | None = None
    """Where it is public."""
    count_epsilon: float = 0.0
    """For a number of records at the most, where their number is private."""
    at_most: float = 0.0
    """That number, once it was found."""

    def paying_for_a_count(self) -> Terms:
        """The same, less what a count will cost if the number of records is private."""
        if self.num_records is not None:
            return self
        spent = COUNT_SHARE * self.epsilon
        return replace(self, epsilon=self.epsilon - spent, count_epsilon=spent)

    def counted(self, num_records: int, rng: np.random.Generator) -> Terms:
        """With a number of records at the most."""
        if self.num_records is not None:
            return replace(self, at_most=float(self.num_records))
        if not self.count_epsilon:
            return self
        scale = Fraction(self.rows_per_person) / Fraction(self.count_epsilon)  # a person moves it by m rows
        above = num_records + discrete_laplace(scale, 1, rng)[0] + 40.0 * float(scale)
        return replace(self, at_most=2.0 ** math.ceil(math.log2(max(1.0, above))))

    @property
    def information(self) -> float:
        """n epsilon for one row a person: what the choices of a first stage can tell."""
        return max(LEAST, self._known)

    @property
    def _known(self) -> float:
        if self.num_records is None:
            return ASSUMED
        return self.num_records * self.epsilon / self.rows_per_person

    def noise(self, dim: int) -> float:
        """About the variance that the tilt adds over that of least squares, for residuals of scale 1."""
        return 4.0 * dim * (dim + 1) * self.rows_per_person / (self.information * self.epsilon)

    def part(self, share: float) -> Terms:
        """A share of epsilon and delta, the same otherwise."""
        return replace(self, epsilon=share * self.epsilon, delta=share * self.delta)

    def calibrated(
        self, loss: Loss, dim: int, geometry: Geometry, *, price: float | None = None
    ) -> Calibration:
        """The tilt of one fit that spends all of it."""
        if price is None:
            price = self._price(loss, dim)
        return calibrate(
            loss,
            dim=dim,
            geometry=geometry,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            rows_per_person=self.rows_per_person,
            price=price,
            residual=self._residual(loss, dim),
        )

    def _price(self, loss: Loss, dim: int) -> float:
        """The share of epsilon that buys a smaller ridge."""
        noise = self.noise(dim)
        if not self.raw:
            if loss.num_predictors > 1 and noise >= CLASSES_FROM:
                return CLASSES_PRICES[loss.num_predictors > 2]
            return CORRECTED_PRICE if loss.price or noise >= CORRECTED_FROM else 0.0
        each = next(price for least, price in RAW_PRICES if self._known >= least * dim)
        return max(loss.price, min(each * loss.num_predictors, LARGEST_RAW_PRICE))

    def _residual(self, loss: Loss, dim: int) -> float:
        """Relative to the largest score."""
        bound = rounding(loss, dim, LENGTH * loss.score_bound, precise=can_be_precise(loss))
        return max(RESIDUAL, 8.0 * self.at_most * bound / loss.score_bound)
