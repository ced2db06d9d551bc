# SPDX-License-Identifier: Apache-2.0
"""The beta-divergence loss and the certificate of its range.

Guarantee:
    For every record and every parameter the loss lies in [lower, upper], as the family certifies;
    ``onedraw.families.certificate`` has the proofs.

>>> from onedraw.families import Bernoulli
>>> BetaDivergence(Bernoulli()).loss_bounds(beta=1.5).observation_sensitivity
2.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from onedraw.errors import InvalidInput
from onedraw.families import Derivatives, Family, LossBounds
from onedraw.types import Array


@dataclass(frozen=True)
class BetaDivergence:
    """The beta-divergence loss of a family; ``beta`` > 1 is chosen by calibration."""

    family: Family

    def value(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        """loss(y, eta, scale), elementwise."""
        return self.family.beta_loss(y, eta, beta, scale)

    def derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        """The loss with derivatives up to ``order``."""
        return self.family.beta_loss_derivatives(y, eta, beta, scale, order=order)

    def loss_bounds(self, beta: float) -> LossBounds:
        """The certificate of the family at this beta."""
        if not 1.0 < beta < math.inf:
            raise InvalidInput(f"Expected beta > 1 and finite, got beta={beta!r}.")
        return self.family.loss_bounds(beta)
