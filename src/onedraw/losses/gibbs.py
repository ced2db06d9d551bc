# SPDX-License-Identifier: Apache-2.0
"""The Gibbs loss, -log f: ordinary Bayes, bounded only where the linear predictor is.

Guarantee:
    With a bound on the linear predictor the loss lies in [lower, upper], as the family states and proves
    (``Family.log_loss_range``; two or more classes have finite ranges).

    Without a bound, or for any other family, the loss is at least -log M and has no upper bound, the widths
    are infinite, and calibration refuses.

>>> from onedraw.families import Bernoulli
>>> Gibbs(Bernoulli(), predictor_bound=3.0).loss_bounds().observation_sensitivity
3.0...
>>> Gibbs(Bernoulli()).loss_bounds().observation_sensitivity
inf
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from onedraw.families import Derivatives, Family, LossBounds
from onedraw.types import Array


@dataclass(frozen=True)
class Gibbs:
    """The negative log density; ``beta`` is accepted and ignored so that all losses are called alike."""

    family: Family
    predictor_bound: float = math.inf

    def value(self, y: Array, eta: Array, beta: float = 1.0, scale: Array | None = None) -> Array:
        """-log f, elementwise, held within the certificate: a predictor beyond its bound counts as at it."""
        value = -self.family.log_density(y, eta, scale)
        if math.isinf(self.predictor_bound):
            return value
        bounds = self.loss_bounds()
        return np.clip(value, bounds.lower, bounds.upper)

    def derivatives(
        self, y: Array, eta: Array, beta: float = 1.0, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        """-log f with derivatives, which are 0 where the value is held."""
        log_density = self.family.log_density_derivatives(y, eta, scale)
        negated = {k: -v for k, v in vars(log_density).items() if v is not None}
        value = self.value(y, eta, beta, scale)
        free = value == negated.pop("value")
        return replace(log_density, value=value, **{k: np.where(free, v, 0.0) for k, v in negated.items()})

    def loss_bounds(self, beta: float = 1.0) -> LossBounds:
        """The certificate, with both widths equal to the length of the range."""
        lower, upper = self.family.log_loss_range(self.predictor_bound)
        return LossBounds(
            lower=lower,
            upper=upper,
            observation_sensitivity=upper - lower,
            parameter_range=upper - lower,
            lower_attained="the linear predictor at its bound, agreeing with the response",
            upper_attained="the linear predictor at its bound, against the response",
        )
