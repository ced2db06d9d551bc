# SPDX-License-Identifier: Apache-2.0
"""What the mechanisms for linear regression share: bounded features and a bounded response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw.families import Gaussian
from onedraw.mechanisms._bounds import bounded_design, clipping_note, response_note
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.tables.base import Table
from onedraw.types import AnyArray, Array

NORMAL = (Gaussian.name,)
"""The family of the linear mechanisms."""
LINEAR_NEEDS = dict.fromkeys(
    ("feature_norm", "response_bound"), "its noise must cover the largest product a record can add."
)
EXACT_ROWS = 1 << 13
"""Rows whose products, multiples of 2^-40 of size at most 1, add up to no more than 2^53 of their units."""
BELOW_ONE = 1.0 - 2.0**-40
"""A row that was divided by its bound may be longer than 1 by rounding; it is shortened by far more."""


@dataclass(frozen=True, kw_only=True)
class BoundedLinear(GridMechanism):
    """Noisy sums of products of features of norm at most X with responses in [-Y, Y].

    ``response_bound`` is Y in units of the response, counted from the middle of its declared range;
    ``feature_norm`` is X in working units, the intercept's 1 included.
    """

    feature_norm: float | None = None
    response_bound: float | None = None

    def _bounds(self) -> tuple[float, float]:
        """X and Y, in working units."""
        return self._needed("feature_norm"), self._needed("response_bound") / self.model.target_unit

    @property
    def reads_anywhere(self) -> bool:
        """The moments are sums."""
        return True

    def _moments(self, records: Table) -> Moments:
        """The moments of the records within their bounds, in units of these; private."""
        norm, bound = self._bounds()
        kernel = MomentSums(norm=norm, bound=bound, fit_intercept=self.model.fit_intercept)
        return Moments(products=records.sum(kernel)[0])

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        norm, bound = self._bounds()
        return clipping_note(norm), response_note(bound)


@dataclass(frozen=True, kw_only=True)
class MomentSums:
    """A kernel: the ``Moments`` of a block. Whole numbers, so partitions do not change the sum by a bit."""

    norm: float
    bound: float
    fit_intercept: bool

    def __call__(self, block: Any) -> tuple[AnyArray]:
        design = bounded_design(block.features, fit_intercept=self.fit_intercept, feature_norm=self.norm)
        response = np.clip(block.response, -self.bound, self.bound)
        return (Moments.of(design / self.norm, response / self.bound).products,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """X'X (p, p) and X'y (p,) of rows with |x| <= 1 and |y| <= 1, as whole numbers of ``UNIT``. Private.

    Entries of the rows are cut to multiples of 2^-20, towards zero, so that no row grows; products and their
    sums are then multiples of 2^-40, and nothing is rounded: blocks are so short that their sums fit into the
    53 bits of a float, and they are added up as whole numbers. So one row moves the sums by exactly what the
    proofs say, whatever the other rows are.
    """

    products: AnyArray
    """(p, p + 1) Python integers: X'X, and X'y in the last column."""

    UNIT: ClassVar[float] = 2.0**-40

    @classmethod
    def of(cls, design: Array, response: Array) -> Moments:
        """The moments of rows (n, p) of length at most 1, up to rounding, and responses within [-1, 1]."""
        width = design.shape[1]
        total = np.zeros((width, width + 1), dtype=object)
        for first in range(0, len(design), EXACT_ROWS):
            block = slice(first, first + EXACT_ROWS)
            rows = np.trunc(np.column_stack([design[block], response[block]]) * (2.0**20 * BELOW_ONE))
            total += (rows[:, :width].T @ rows).astype(np.int64)
        return cls(products=total)

    @property
    def second(self) -> Array:
        """X'X in units of one, rounded to floats."""
        return np.asarray(self.products[:, :-1] * self.UNIT, dtype=np.float64)

    def noisy(self, of_second: list[int], of_products: list[int]) -> tuple[Array, Array]:
        """X'X and X'y with noise on the upper half of the former and on the latter: both may be released."""
        width = len(self.products)
        second, upper = self.products[:, :-1].copy(), np.triu_indices(width)
        second[upper] += np.array(of_second, dtype=object)
        second.T[upper] = second[upper]
        products = self.products[:, -1] + np.array(of_products, dtype=object)
        return (
            np.asarray(second * self.UNIT, dtype=np.float64),
            np.asarray(products * self.UNIT, dtype=np.float64),
        )
