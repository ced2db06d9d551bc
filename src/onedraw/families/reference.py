# SPDX-License-Identifier: Apache-2.0
"""Tables of the public reference models under which beta is chosen, see ``onedraw.privacy.reference``.

A table lists responses, linear predictors and intercepts of a reference in standard units, with weights that
integrate over them. From it follow, for one linear predictor with score s = d log f/d eta,

    H = integral f^beta s^2,      K = integral f^(2 beta - 1) s^2 - (integral f^beta s)^2,

and the variance V = K/H^2 + 1/(w H) of one draw with weight w. Several classes have matrices instead, and a
module of their own (``_class_reference``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from onedraw.types import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class ReferenceTable:
    """Log density and score (responses, nodes, intercepts) of a reference, and what integrates over them.

    ``measure`` sums over responses, ``nodes`` average over linear predictors around an intercept, and
    ``intercepts`` over those.
    """

    log_density: Array
    score: Array
    measure: Array
    nodes: Array
    intercepts: Array

    def log_variances(self, beta: float, inverse_weight: float) -> Array:
        """log V at each intercept."""
        power = self.measure * np.exp(beta * self.log_density)
        squared = np.exp((beta - 1.0) * self.log_density) * power  # f^(2 beta - 1)
        noise = np.sum(squared * self.score**2, axis=0) - np.sum(power * self.score, axis=0) ** 2
        curvature, noise = self.nodes @ np.sum(power * self.score**2, axis=0), self.nodes @ noise
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return np.asarray(np.log(noise / curvature**2 + inverse_weight / curvature))


class HasTable(Protocol):
    """What is asked of a family here."""

    def reference_table(self, scale: float) -> ReferenceTable: ...


@lru_cache(maxsize=64)
def reference_table(family: HasTable, scale: float) -> ReferenceTable:
    """The family's table; families are frozen, so it is built once for each pair."""
    return family.reference_table(scale)


def gauss_hermite(count: int) -> tuple[Array, Array]:
    """Nodes and weights that average over a standard normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


@lru_cache(maxsize=1)
def half_line() -> tuple[Array, Array]:
    """Nodes and weights of the double-exponential rule on (0, inf), read-only.

    It is accurate for light and heavy tails; used on each side of 0 apart, for a kink at 0 too.
    """
    u = np.linspace(-3.2, 3.2, 129)
    half: Array = np.exp(0.5 * math.pi * np.sinh(u))
    step: Array = (u[1] - u[0]) * 0.5 * math.pi * np.cosh(u) * half
    half.flags.writeable = step.flags.writeable = False
    return half, step
