# SPDX-License-Identifier: Apache-2.0
"""One draw of a probability from its weighted Beta posterior [Geumlek, Song & Chaudhuri 2017].

The model is a regression on an intercept alone, and the draw is released as a logit. The data enter with a
weight w <= 1, the largest that meets the guarantee; w = 1 is the ordinary posterior.

Guarantee:
    (epsilon, delta)-DP through Renyi divergences [proof: ``_renyi``].

Edge cases:
    delta = 0 is refused: no weight > 0 bounds the log ratio.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=()))
>>> BetaBernoulliDraw(prior=(5.0, 5.0)).calibrate(Request(epsilon=1.0, delta=1e-5), shape).weight < 1
True
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw.mechanisms._beta_bernoulli import BetaBernoulli, counts
from onedraw.mechanisms._conjugate import EVIDENCE, ConjugateDraw
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms._renyi import ORDERS, beta_bernoulli_rdp, largest_weight, rdp_to_epsilon
from onedraw.mechanisms.base import Requirements
from onedraw.privacy.guarantee import Guarantee
from onedraw.records import Records
from onedraw.samplers.base import Evidence
from onedraw.types import Array


@functools.lru_cache(maxsize=64)
def _beta_weight(prior: tuple[float, float], guarantee: Guarantee, num_records: int | None) -> float:
    def meets(weight: float) -> bool:
        rdp = beta_bernoulli_rdp(
            ORDERS, prior=prior, weight=weight, guarantee=guarantee, num_records=num_records
        )
        return rdp_to_epsilon(rdp, ORDERS, guarantee.delta) <= guarantee.epsilon

    return largest_weight(meets, guarantee.epsilon)


@dataclass(frozen=True, kw_only=True)
class BetaBernoulliDraw(ConjugateDraw, BetaBernoulli):
    """One draw of a probability from its weighted Beta posterior, released as a logit."""

    name: ClassVar[str] = "beta_bernoulli_draw"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        delta="needed",
        intercept_only=True,
        prefer="one draw of a probability",
    )

    def _largest_weight(self, guarantee: Guarantee) -> float:
        return _beta_weight(self.prior, guarantee, self.num_records)

    def _values(self, records: Records, rng: np.random.Generator) -> tuple[Array, Evidence]:
        ones, zeros = counts(records)
        return self._logits(rng, self.weight * ones, self.weight * zeros, 1), EVIDENCE

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {"weight": self.weight}
