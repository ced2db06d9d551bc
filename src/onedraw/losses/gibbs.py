# SPDX-License-Identifier: Apache-2.0
"""The Gibbs loss, -log f: ordinary Bayes, bounded only where the linear predictor is.

Guarantee:
    Bernoulli with |eta| <= B: loss = log(1 + exp(-m)), |m| <= B, lies in [log(1 + e^-B), log(1 + e^B)], of
    width exactly B.

    Categorical with K classes and every logit in [-B, B], which a Euclidean norm |eta| <= B implies:
    loss = log sum_k exp(logit_k - logit_y) with logits that sum to zero. It is smallest at logit_y = B, where
    Jensen's inequality makes the others equal: log(1 + (K-1) e^(-B K/(K-1))). It is convex in the logits, so
    it is largest at a vertex of their polytope, where half of them are B and half -B (and one is 0 if K is
    odd), the observed one -B: log(h + o e^B + h e^2B), h = floor(K/2), o = K - 2h. Both ends are attained.

    Every other family, or no bound on the predictor: the loss is at least -log M and has no upper bound, the
    widths are infinite, and calibration refuses.

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

from onedraw.families.base import Derivatives, Family
from onedraw.families.bernoulli import Bernoulli
from onedraw.families.categorical import Categorical
from onedraw.losses.base import LossBounds
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
        """The certificate proved in the module docstring."""
        bound = self.predictor_bound
        if math.isinf(bound) or not isinstance(self.family, Bernoulli | Categorical):
            lower, upper = -self.family.log_sup_density, math.inf
        elif isinstance(self.family, Bernoulli):
            lower = math.log1p(math.exp(-bound))
            upper = bound + lower
        else:
            classes = self.family.num_classes
            half, odd = divmod(classes, 2)
            lower = math.log1p((classes - 1) * math.exp(-bound * classes / (classes - 1)))
            upper = 2.0 * bound + math.log(half + odd * math.exp(-bound) + half * math.exp(-2.0 * bound))
        return LossBounds(
            lower=lower,
            upper=upper,
            observation_sensitivity=upper - lower,
            parameter_range=upper - lower,
            lower_attained="the linear predictor at its bound, agreeing with the response",
            upper_attained="the linear predictor at its bound, against the response",
        )
