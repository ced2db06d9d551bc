# SPDX-License-Identifier: Apache-2.0
"""The private table that every mechanism takes, in working units.

Guarantee:
    Numbers beyond 2^53 count as 2^53 of their sign. This is a map of each record by itself, fixed in advance,
    so a mechanism that is private for all records stays private; and it leaves no finite record that could
    overflow a sum of squares and thereby suppress a release, which anyone could observe.

    The same holds of an *offset*, a number that is added to the linear predictor of its record: beyond
    +-``FARTHEST`` it counts as that.

Edge cases:
    From 2^53 on a float64 cannot tell neighbouring whole numbers apart. Features of that size have no use for
    a coefficient of ordinary size: bring them to order one with public ``feature_bounds``.

>>> import numpy as np
>>> Records(features=np.array([[1.0], [-1e300]]), response=np.array([0.0, 1.0])).features / LARGEST
array([[ 1.11022302e-16],
       [-1.00000000e+00]])
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.tables.base import Block, Rows
from onedraw.types import Array

LARGEST = 2.0**53
"""What larger working numbers count as."""
FARTHEST = 40.0
"""What larger working offsets count as: a rate of e^40 is beyond all counts, and rounding stays known."""
PART = 1 << 16


def held(values: Array) -> Array:
    """The values, not beyond +-``LARGEST``. Where none is, the array itself: it may be a large memory map."""
    size = _size(values)
    if math.isnan(size):
        raise _not_finite()
    return np.clip(values, -LARGEST, LARGEST) if size > LARGEST else values


def _size(values: Array) -> float:
    """The largest size of a value; not a number if one is not. In parts that stay in cache for both looks."""
    flat = values.ravel() if values.flags.c_contiguous else values
    parts = [flat[first : first + PART] for first in range(0, len(flat), PART)]
    found = [max(float(part.max()), -float(part.min())) for part in parts if part.size]
    return float(np.max(found)) if found else 0.0


def _not_finite() -> InvalidInput:
    return InvalidInput("Expected finite records, got NaN or infinite values. Remove or impute them.")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Records(Block):
    """Private records in working units: features (n, d) and response (n,), finite and ``held``.

    ``offset`` (n,) is what is added to the predictor of each record, None if there is nothing to add.
    """

    features: Array
    response: Array
    offset: Array | None = None
    known: InitVar[bool] = False
    """Whether features and response are known to be finite and held, as those of other records are."""

    def __post_init__(self, known: bool) -> None:
        if self.features.ndim != 2 or self.response.shape != self.features.shape[:1]:
            raise InvalidInput(
                f"Expected features (n, d) and response (n,), got shapes {self.features.shape} and "
                f"{self.response.shape}."
            )
        if self.offset is not None and self.offset.shape != self.response.shape:
            raise InvalidInput(f"Expected an offset for each record, got shape {self.offset.shape}.")
        limits = {"offset": FARTHEST} | ({} if known else {"features": LARGEST, "response": LARGEST})
        for name, largest in limits.items():
            values = getattr(self, name)
            if values is None:
                continue
            if not math.isfinite(size := _size(values)):
                raise _not_finite()
            if size > largest:
                object.__setattr__(self, name, np.clip(values, -largest, largest))

    def __len__(self) -> int:
        """How many there are; private where neighbours may differ in it."""
        return len(self.response)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.response), int(self.features.shape[1])

    def take(self, rows: Rows) -> Records:
        offset = None if self.offset is None else self.offset[rows]
        return Records(features=self.features[rows], response=self.response[rows], offset=offset, known=True)
