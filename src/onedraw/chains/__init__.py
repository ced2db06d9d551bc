# SPDX-License-Identifier: Apache-2.0
"""Private Markov chains and perfect sampling: the engine, and what mechanisms are put together from."""

from onedraw.chains.accounting import Filter, Sensitivity, Steps
from onedraw.chains.engine import DiagonalNormal, Move, Trajectory, run
from onedraw.chains.proposals import Langevin, NoisyLeapfrog, RandomWalk
from onedraw.chains.rules import Always, Barker, Penalty

__all__ = [
    "Always",
    "Barker",
    "DiagonalNormal",
    "Filter",
    "Langevin",
    "Move",
    "NoisyLeapfrog",
    "Penalty",
    "RandomWalk",
    "Sensitivity",
    "Steps",
    "Trajectory",
    "run",
]
