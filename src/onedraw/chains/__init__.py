# SPDX-License-Identifier: Apache-2.0
"""Private Markov chains and perfect sampling: the engine, and what mechanisms are put together from."""

from onedraw.chains.accounting import Filter, Sensitivity, Steps
from onedraw.chains.engine import DiagonalNormal, Move, Trajectory, run
from onedraw.chains.minibatch import BatchBarker
from onedraw.chains.proposals import Langevin, NoisyLeapfrog, RandomWalk
from onedraw.chains.rules import Always, Barker, Penalty
from onedraw.chains.thinned import Thinned

__all__ = [
    "Always",
    "Barker",
    "BatchBarker",
    "DiagonalNormal",
    "Filter",
    "Langevin",
    "Move",
    "NoisyLeapfrog",
    "Penalty",
    "RandomWalk",
    "Sensitivity",
    "Steps",
    "Thinned",
    "Trajectory",
    "run",
]
