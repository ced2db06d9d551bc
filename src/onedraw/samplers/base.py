# SPDX-License-Identifier: Apache-2.0
"""What a sampler returns: private draws, and public evidence that they are exact.

``Draws`` depend on the data in every part (values, acceptance, passes over the data) and never leave the
process; ``Evidence`` is a statement made of public facts only, so it may be printed beside the released draw.

>>> print(Evidence(level="proved", statement="The envelope holds on every cell of the public box."))
proved: The envelope holds on every cell of the public box.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from onedraw._validate import one_of
from onedraw.posterior import Posterior
from onedraw.types import Array

EVIDENCE_LEVELS = ("proved", "searched", "diagnosed", "accounted")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Why the draw may be taken as exact. Holds nothing that depends on the data."""

    level: str
    statement: str

    def __post_init__(self) -> None:
        one_of(EVIDENCE_LEVELS, level=self.level)

    def __str__(self) -> str:
        return f"{self.level}: {self.statement}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """Draws of the working parameters, (k, p). Private, like the ``diagnostics`` beside them."""

    values: Array
    evidence: Evidence
    diagnostics: Mapping[str, float] = field(default_factory=dict)


class Sampler(Protocol):
    """Draws exactly (to the stated evidence) from a posterior."""

    def check(self, posterior: Posterior) -> None:
        """Refuse what public facts alone rule out (family, size, options), before any budget is spent."""

    def sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws: ...
