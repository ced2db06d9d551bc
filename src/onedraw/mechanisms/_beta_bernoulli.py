# SPDX-License-Identifier: Apache-2.0
"""What the mechanisms for a single probability share: the Beta prior, the logit, its grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw._validate import positive
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.records import Records
from onedraw.release import Grid, coefficient_step
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class BetaBernoulli(GridMechanism):
    """A probability with prior Beta(ones, zeros), released as logits. Nothing is clipped: y is 0 or 1."""

    prior: tuple[float, float] = (1.0, 1.0)

    def _check_options(self) -> None:
        for count in self.prior:
            positive(prior=count)

    @property
    def grid(self) -> Grid:
        """2^-40 of a unit of the logit."""
        return Grid(coefficient=coefficient_step(1.0))

    def _logits(self, rng: np.random.Generator, ones: float | Array, zeros: float | Array, num: int) -> Array:
        """Draws (num, 1) from the posterior given weighted counts."""
        return logit_beta(rng, self.prior[0] + ones, self.prior[1] + zeros, num)


def counts(records: Records) -> tuple[float, float]:
    """How many responses are one, and how many zero."""
    ones = float(records.response.sum())
    return ones, len(records.response) - ones


def logit_beta(rng: np.random.Generator, a: float | Array, b: float | Array, num: int) -> Array:
    """Logits (num, 1) of Beta(a, b) draws, finite for any a, b > 0."""
    # log of a Gamma(a) variable, as that of a Gamma(a + 1) variable times U^(1/a): nothing underflows.
    logs = [
        np.log(rng.standard_gamma(np.asarray(x) + 1.0, size=num)) - rng.standard_exponential(num) / x
        for x in (a, b)
    ]
    return np.asarray(logs[0] - logs[1])[:, None]
