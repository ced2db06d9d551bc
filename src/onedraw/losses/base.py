# SPDX-License-Identifier: Apache-2.0
"""What a loss must answer: its values, its derivatives, and a certificate of how far it can move.

The certificate is a ``LossBounds``; ``onedraw.families.certificate`` says what its widths are for.
"""

from __future__ import annotations

from typing import Protocol

from onedraw.families import Derivatives, Family, LossBounds
from onedraw.types import Array


class Loss(Protocol):
    """The loss of one record under a family. ``beta`` is passed in, because calibration chooses it."""

    @property
    def family(self) -> Family: ...

    def value(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array: ...

    def derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives: ...

    def loss_bounds(self, beta: float) -> LossBounds: ...
