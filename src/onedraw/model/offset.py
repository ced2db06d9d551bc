# SPDX-License-Identifier: Apache-2.0
"""What is public about an offset: a number of each record that is added to its linear predictor as it is.

Counts in proportion to an *exposure* (years at risk, inhabitants, trials) have the offset log(exposure): the
coefficients are then those of the rate per unit of exposure. The range of the exposures is declared, and
positive. It does two things: an exposure below it, zero included, counts as its lower end, so every number is
a possible exposure and none is refused; and its middle (that of the logarithms) is the working unit, in
which a rate of about one is a working intercept of about zero, where the fit starts and its ridge pulls to.

Guarantee:
    ``working`` maps each record by itself, by public numbers only.

>>> import numpy as np
>>> years = Offset(name="years", bounds=(0.25, 4.0))
>>> years.working(np.array([1.0, 4.0, 0.0]), fit_intercept=True).round(3)
array([ 0.   ,  1.386, -1.386])
>>> Offset(name="years", bounds=(0.0, 4.0))
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected a positive range of the exposure 'years', got (0, 4). ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.model.base import Bounds
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Offset:
    """The column of the offset: an exposure, or the offset itself (``is_log``), and its plausible range."""

    name: str
    bounds: Bounds
    is_log: bool = False

    def __post_init__(self) -> None:
        low, high = self.bounds
        if not self.is_log and low <= 0.0:
            raise InvalidInput(
                f"Expected a positive range of the exposure {self.name!r}, got ({low:g}, {high:g}). What "
                "lies below it counts as its lower end, so choose the smallest exposure that makes sense."
            )
        if not -math.inf < low < high < math.inf:
            raise InvalidInput(
                f"Expected finite bounds of the offset {self.name!r} with low < high, got {self.bounds!r}."
            )

    @property
    def exposures(self) -> Bounds:
        """The range of the exposures; of a very large offset as far as floats go."""
        if not self.is_log:
            return self.bounds
        low, high = (math.exp(min(max(end, -700.0), 700.0)) for end in self.bounds)
        return low, high

    def centre(self, fit_intercept: bool) -> float:
        """The offset that is 0 in working units; without an intercept to come back from, 0 itself."""
        if not fit_intercept:
            return 0.0
        low, high = self.bounds if self.is_log else (math.log(end) for end in self.bounds)
        return 0.5 * low + 0.5 * high

    def working(self, values: Array, fit_intercept: bool) -> Array:
        """The offsets in working units, of finite values of the column."""
        found = values if self.is_log else np.log(np.maximum(values, self.bounds[0]))
        return np.asarray(found - self.centre(fit_intercept))

    @property
    def told(self) -> str:
        """What the means of the model are, for a sentence; a name from a file is quoted."""
        return f"with offset {self.name!r}" if self.is_log else f"rates per unit of {self.name!r}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"name": self.name, "is_log": self.is_log, "bounds": list(self.bounds)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Offset:
        """The inverse of ``to_dict``."""
        low, high = (float(end) for end in values["bounds"])
        return cls(name=str(values["name"]), is_log=bool(values["is_log"]), bounds=(low, high))
