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
from typing import ClassVar, Protocol

import numpy as np

from onedraw._validate import one_of
from onedraw.losses.base import Loss
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.private import Withheld
from onedraw.types import Array

EVIDENCE_LEVELS: Mapping[str, tuple[str, str]] = {
    "proved": (
        "the draw has the law of the proof: every point of a finite space was enumerated, or an upper bound "
        "of the density holds on every cell of a public box",
        "rounding of sums over records, which bounds of the cells allow for",
    ),
    "searched": (
        "the draw has the law of the proof if a search found the supremum of a density ratio; a number of "
        "proposals found nothing above it",
        "that the search missed no peak of the posterior: epsilon is conditional on it",
    ),
    "diagnosed": (
        "several chains agreed by the usual diagnostics, on the data at hand",
        "that the chain has converged for every data set, or that its stated error holds; an error that is "
        "stated is priced into delta",
    ),
    "accounted": (
        "noise of a known law was added, or a loss was tilted by it; the constants follow from a theorem",
        "nothing about a sampler",
    ),
}
"""Every level, with what is known at it and what it leaves to be assumed."""
CONDITIONS = {"searched": "the search found every peak of the posterior"}
"""On what a guarantee is conditional, by the level of its evidence."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Why the draw may be taken as exact. Holds nothing that depends on the data."""

    level: str
    statement: str

    def __post_init__(self) -> None:
        one_of(EVIDENCE_LEVELS, level=self.level)

    @property
    def condition(self) -> str:
        """What the guarantee is conditional on; empty if on nothing but the listed assumptions."""
        return CONDITIONS.get(self.level, "")

    def __str__(self) -> str:
        return f"{self.level}: {self.statement}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Draws(Withheld):
    """Draws of the working parameters, (k, p), with ``diagnostics``. None of it may leave unrounded."""

    values: Array
    evidence: Evidence
    diagnostics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PosteriorFacts:
    """What is publicly known of a posterior before there are records."""

    loss: Loss
    prior: Prior
    dim: int
    weight: float = 1.0
    num_records: int | None = None


class Sampler(Protocol):
    """Draws exactly (to the stated evidence) from a posterior."""

    evidence_level: ClassVar[str]
    """The level of the evidence that its draws come with."""
    continuous: ClassVar[bool]
    """Whether it draws from a density, and not from the points of a grid."""

    def check(self, posterior: PosteriorFacts | Posterior) -> None:
        """Refuse what public facts alone rule out (family, size, options), before any budget is spent."""

    def sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws: ...
