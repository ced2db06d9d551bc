# SPDX-License-Identifier: Apache-2.0
"""What a loss must answer: its values, its derivatives, and a certificate of how far it can move.

Three widths are kept apart because three kinds of accounting need them:

* ``observation_sensitivity`` S: the largest |loss(z, theta) - loss(z', theta)| over records z, z' at one
  theta (replace-one accounting);
* ``parameter_range`` R: the largest |loss(z, theta) - loss(z, theta')| over parameters at one record
  (add/remove accounting);
* ``lower`` and ``upper``: the interval that holds every value of the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from onedraw.families.base import Derivatives, Family
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class LossBounds:
    """A certificate: no record and no parameter can move the loss further than this."""

    lower: float
    upper: float
    observation_sensitivity: float
    parameter_range: float
    lower_attained: str
    upper_attained: str


class Loss(Protocol):
    """The loss of one record under a family. ``beta`` is passed in, because calibration chooses it."""

    @property
    def family(self) -> Family: ...

    def value(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array: ...

    def derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives: ...

    def loss_bounds(self, beta: float) -> LossBounds: ...
