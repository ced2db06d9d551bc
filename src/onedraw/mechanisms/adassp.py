# SPDX-License-Identifier: Apache-2.0
"""AdaSSP: linear regression from noisy second moments with an adaptive ridge [Wang 2018].

Releases theta = (A + lambda I)^-1 b, where A and b are X'X and X'y with Gaussian noise and lambda follows
from a noisy smallest eigenvalue of X'X: where the data determine the coefficients well, there is no ridge.

Guarantee:
    (epsilon, delta)-DP for features of norm at most X and responses in [-Y, Y] (both clipped). Three
    Gaussian mechanisms, each a/sqrt(3)-GDP, compose to a-GDP exactly, and a is the largest with
    Phi(-epsilon/a + a/2) - e^epsilon Phi(-epsilon/a - a/2) <= delta. With m rows a person, the L2
    sensitivities are m times

                          add/remove   replace-one
        lambda_min(X'X)   X^2          X^2
        X'X (upper half)  X^2          sqrt(2) X^2
        X'y               X Y          2 X Y

*Proof.* Let A_0 hold the common records. (1) By Weyl's inequality adding m rows moves lambda_min from that
of A_0 upwards by at most m X^2, so the values of two neighbours lie in one interval of that length. (2) The
distinct entries of a symmetric matrix have an L2 norm of at most its Frobenius norm, and
|xx' - zz'|_F^2 = |x|^4 + |z|^4 - 2 (x.z)^2 <= 2 X^4, while |xx'|_F <= X^2; m rows add up. (3) |xy| <= X Y.
The ridge and the solution are functions of the noisy values. X'X and X'y are sums of whole numbers, and the
noise on all three is discrete and exact (``onedraw.noise``); the eigenvalue is computed in floating point
and moved to the grid, for which its sensitivity is raised by ``COMPUTED`` X^2. []

The original splits epsilon and delta in three and uses add/remove sensitivities; composing the three curves
exactly needs less noise, and replace-one costs more, as the table says.

Edge cases:
    n = 0 is noise through the same formula. Noisy eigenvalues below the noise's own standard deviation are
    raised to it (a function of released numbers).

>>> from onedraw.families import Gaussian
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Gaussian(), features=("x",), fit_intercept=False))
>>> mechanism = AdaSSP(feature_norm=1.0, response_bound=1.0)
>>> mechanism = mechanism.calibrate(Request(epsilon=5.0, delta=1e-6), shape)
>>> [round(sd, 2) for sd in mechanism.noise_scales()]
[1.7, 2.4, 3.39]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw._validate import positive
from onedraw.mechanisms._linear import LINEAR_NEEDS, NORMAL, BoundedLinear, Moments
from onedraw.mechanisms.base import Requirements
from onedraw.noise import discrete_gaussian, gaussian_ratio, on_grid, rounded_up
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence
from onedraw.tables.base import Table
from onedraw.types import Array

COMPUTED = 2.0**-20
"""What rounding may add to the eigenvalue's move: its error is about p n 2^-52, so for n p up to 1e9."""
MOST_NUMBERS = 1e9
EVIDENCE = Evidence(
    level="accounted",
    statement=(
        "Discrete Gaussian noise of a known variance was added to statistics of bounded records; nothing "
        "rests on a sampler."
    ),
)


@dataclass(frozen=True, kw_only=True)
class AdaSSP(BoundedLinear):
    """Noisy least squares. ``failure`` is the probability at which the ridge covers the noise in X'X."""

    name: ClassVar[str] = "adassp"
    requirements: ClassVar[Requirements] = Requirements(
        families=NORMAL,
        needs=LINEAR_NEEDS,
        delta="needed",
        floating="the smallest eigenvalue, up to a rounding error that the noise covers for n p up to 1e9",
        prefer="linear regression: the strongest simple baseline",
    )

    failure: float = 0.05

    def _check_options(self) -> None:
        positive(failure=self.failure)

    def sensitivities(self) -> tuple[float, float, float]:
        """Of the smallest eigenvalue, of X'X and of X'y, in L2."""
        x, y = self._bounds()
        rows = self.guarantee.rows_per_person
        replaced = self.guarantee.neighbours == "replace_one"
        return (
            (rows + COMPUTED) * x * x,
            rows * x * x * (math.sqrt(2.0) if replaced else 1.0),
            rows * x * y * (2.0 if replaced else 1.0),
        )

    def noise_scales(self) -> tuple[float, float, float]:
        """The standard deviations of the noise on the three statistics."""
        dim, root = self.model.dim, math.sqrt(3.0)
        length = root * self.guarantee.rows_per_person / Moments.UNIT  # the shortest of the three
        numbers = 1 + dim * (dim + 1) // 2 + dim
        terms = self.guarantee.epsilon, self.guarantee.delta
        each = gaussian_ratio(*terms, dim=numbers, length=length) / root
        eigenvalue, moments, products = self.sensitivities()
        return eigenvalue / each, moments / each, products / each

    @property
    def reads_anywhere(self) -> bool:
        """As far as the rounding of the eigenvalue is known to be covered."""
        known = None if self.shape is None else self.shape.num_records
        return known is not None and known * self.model.dim <= MOST_NUMBERS

    def _values(self, records: Table, rng: np.random.Generator) -> tuple[Array, Evidence]:
        dim = self.model.dim
        norm, bound = self._bounds()
        eigenvalue_sd, moment_sd, product_sd = self.noise_scales()
        moments = self._moments(records)
        smallest = np.maximum(np.linalg.eigvalsh(moments.second)[:1], 0.0)
        more = (
            discrete_gaussian(rounded_up(sd / (unit * Moments.UNIT)) ** 2, size, rng)
            for sd, unit, size in (
                (eigenvalue_sd, norm * norm, 1),
                (moment_sd, norm * norm, dim * (dim + 1) // 2),
                (product_sd, norm * bound, dim),
            )
        )
        noisy_smallest = float(on_grid(smallest, Moments.UNIT, next(more))[0]) * norm * norm
        noisy_moments, noisy_products = moments.noisy(next(more), next(more))
        # From here on the data are not touched again.
        noisy_moments, noisy_products = noisy_moments * norm * norm, noisy_products * norm * bound
        ridge = self.ridge(noisy_smallest, dim)
        values, vectors = np.linalg.eigh(noisy_moments)
        values = np.maximum(values + ridge, moment_sd)
        return (vectors @ ((vectors.T @ noisy_products) / values))[None, :], EVIDENCE

    def ridge(self, noisy_smallest: float, dim: int) -> float:
        """What the smallest eigenvalue lacks, at a cautious guess, to exceed the noise in X'X."""
        eigenvalue_sd, moment_sd, _ = self.noise_scales()
        cautious = max(0.0, noisy_smallest - math.sqrt(math.log(6.0 / self.guarantee.delta)) * eigenvalue_sd)
        return max(0.0, moment_sd * math.sqrt(dim * math.log(2.0 * dim**2 / self.failure)) - cautious)

    @property
    def grid(self) -> Grid:
        """2^-40 of the unit of the coefficients, Y/X."""
        norm, bound = self._bounds()
        return Grid(coefficient=coefficient_step(bound / norm))

    def _numbers(self) -> Mapping[str, str | float | None]:
        return dict(zip(("eigenvalue_sd", "moment_sd", "product_sd"), self.noise_scales(), strict=True))
