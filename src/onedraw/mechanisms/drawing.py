# SPDX-License-Identifier: Apache-2.0
"""Mechanisms that release draws and nothing else: on a grid known beforehand, maybe by a sampler."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.mechanisms.base import Computed, Mechanism
from onedraw.release import Grid
from onedraw.samplers.base import Draws, Evidence
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class GridMechanism(Mechanism):
    """A mechanism that releases draws and nothing else, on a grid that is known before the records are."""

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The public grid that releases are rounded to."""

    @abstractmethod
    def _values(self, records: Any, rng: np.random.Generator) -> tuple[Array, Evidence]:
        """Values (k, p) before rounding, with the evidence for them. Nothing of them may leave unrounded."""

    def _computed(self, records: Any, rng: np.random.Generator) -> Computed:
        return Computed.rounded(*self._values(records, rng), grid=self.grid)


@dataclass(frozen=True, kw_only=True)
class SamplerMechanism(GridMechanism):
    """A mechanism whose releases are draws by a sampler, with the sampler's evidence."""

    @property
    @abstractmethod
    def drawn_by(self) -> Any:
        """What draws."""

    @abstractmethod
    def draws(self, records: Any, num_draws: int, rng: np.random.Generator) -> Draws:
        """Draws of the parameters as they are released: private, not on the grid."""

    def _values(self, records: Any, rng: np.random.Generator) -> tuple[Array, Evidence]:
        drawn = self.draws(records, self.guarantee.draws, rng)
        return drawn.values, drawn.evidence

    @property
    def evidence_level(self) -> str:
        """That of the sampler."""
        return str(self.drawn_by.evidence_level)
