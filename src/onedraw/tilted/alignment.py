# SPDX-License-Identifier: Apache-2.0
"""A public change of coordinates of features in their units: x -> A x + c.

Guarantee:
    None of its own. Where A and c are public, a record's own row is a function of its features alone, so rows
    may be weighted as any others. ``aligning`` finds A and c privately.

>>> import numpy as np
>>> turned = Alignment.none(2).then(np.array([[0.5, 0.5], [0.5, -0.5]]), np.array([1.0, 0.0]))
>>> turned.rows(np.array([[1.0, 1.0]])), turned.statistic.values
(array([[2., 0.]]), (0.5, 0.5, 1.0, 0.5, -0.5, 0.0))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.release import Statistic
from onedraw.types import Array

ALIGNED = "aligned_"
"""Before the names of released numbers of such rows, so that none is taken for one of the working rows."""
PIECE = 1 << 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment:
    """The map x -> A x + c of features, to be published: ``matrix`` (d, d) and ``shift`` (d,)."""

    matrix: Array
    shift: Array

    def __post_init__(self) -> None:
        d = len(self.shift)
        if self.matrix.shape != (d, d) or not (
            np.isfinite(self.matrix).all() and np.isfinite(self.shift).all()
        ):
            raise InvalidInput(f"Expected a finite matrix and shift of {d} features, got others.")

    @classmethod
    def none(cls, num_features: int) -> Alignment:
        """Features as they are."""
        return cls(matrix=np.eye(num_features), shift=np.zeros(num_features))

    @classmethod
    def of_numbers(cls, numbers: Array, num_features: int) -> Alignment:
        """From what a release states."""
        both = numbers.reshape(num_features, num_features + 1)
        return cls(matrix=both[:, :-1], shift=both[:, -1])

    def then(self, matrix: Array, shift: Array) -> Alignment:
        """This map, and x -> ``matrix`` x + ``shift`` after it; rounded as it will be published."""
        both = Alignment(matrix=matrix @ self.matrix, shift=matrix @ self.shift + shift)
        return Alignment.of_numbers(both.statistic.array(), len(shift))

    @property
    def statistic(self) -> Statistic:
        """A and c, row by row, as they are published."""
        return Statistic.rounded(self.frame[:-1].ravel(), unit=1.0)

    @cached_property
    def frame(self) -> Array:
        """C (d + 1, d + 1), with u = C z."""
        d = len(self.shift)
        frame = np.eye(d + 1)
        frame[:d, :d], frame[:d, d] = self.matrix, self.shift
        return frame

    def rows(self, features: Array) -> Array:
        """A x + c (n, d). A record's own depends on nothing but the record, to the last bit."""
        found = np.empty(features.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # such rows are far out, and get weight 0
            for first in range(0, len(features), PIECE):
                part = features[first : first + PIECE]
                into = found[first : first + PIECE]
                into[:] = self.shift
                # Column by column: a product of matrices may add in an order that depends on the other rows.
                for j, column in enumerate(self.matrix.T):
                    into += part[:, j, None] * column
        return found
