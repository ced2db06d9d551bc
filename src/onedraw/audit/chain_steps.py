# SPDX-License-Identifier: Apache-2.0
"""The law of one step of a private chain from a public start, by enumeration.

A chain that makes one step ends at its start, if the move was rejected, or at the proposal. With q the
density of proposals and s(theta) the probability of accepting theta, the release has an atom at the start of
mass E_q[1 - s] and the density q s elsewhere. On the nodes of a quadrature rule both data sets' laws are
numbers, and so is the privacy loss.

>>> from onedraw.audit.pairs import neighbours_of
>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> model = RegressionModel(family=Bernoulli(), features=("x",), fit_intercept=False)
>>> mechanism = PrivateBarker(steps=1, first_stage=0.0).calibrate(Request(epsilon=1.0), Shape(model=model))
>>> laws = one_step_laws(mechanism, neighbours_of([], ([50.0], 1.0), ([50.0], 0.0)))
>>> 0.45 < laws.epsilon() <= 1.0
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from onedraw.audit.exact import Laws
from onedraw.audit.pairs import Pair
from onedraw.mechanisms import PrivateBarker
from onedraw.records import Records
from onedraw.types import Array

NODES = {1: 4001, 2: 201}
REACH = 9.0
"""Standard deviations of the proposal either way."""


def is_one_barker_step(mechanism: Any) -> bool:
    """Whether it makes one step of Barker's rule from a public start, in at most two parameters."""
    if not isinstance(mechanism, PrivateBarker) or mechanism.steps != 1 or mechanism.model.dim not in NODES:
        return False
    return mechanism.start is not None or mechanism.first_stage == 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class OneStep:
    """An atom at ``location`` and a density elsewhere, for normal proposals of standard deviations
    ``scales``.

    The acceptance probability is written down here from the log density alone, not taken from the rule.
    """

    target: Any
    location: Array
    scales: Array

    def _log_accepted(self, thetas: Array, sign: float = 1.0) -> Array:
        """The log probability of accepting; with ``sign`` -1, of rejecting."""
        at_start = self.target.log_density(self.location[None, :])
        return np.asarray(-np.logaddexp(0.0, sign * (at_start - self.target.log_density(thetas))))

    def _log_proposed(self, thetas: Array) -> Array:
        standard = (thetas - self.location) / self.scales
        constant = np.log(self.scales).sum() + 0.5 * len(self.scales) * math.log(2.0 * math.pi)
        return np.asarray(-0.5 * np.square(standard).sum(axis=1) - constant)

    def nodes(self) -> tuple[Array, float]:
        """Evenly spaced proposals (m, p), and the log of the volume between them."""
        axis = np.linspace(-REACH, REACH, NODES[len(self.scales)])
        grids = np.meshgrid(
            *[at + scale * axis for at, scale in zip(self.location, self.scales, strict=True)]
        )
        volume = np.log(self.scales * (axis[1] - axis[0])).sum()
        return np.stack([grid.ravel() for grid in grids], axis=1), float(volume)

    def log_atom(self) -> float:
        """The log probability of staying."""
        nodes, volume = self.nodes()
        rejected = self._log_accepted(nodes, -1.0)
        return float(special.logsumexp(self._log_proposed(nodes) + rejected + volume))

    def log_density(self, thetas: Array) -> Array:
        """The log mass of the start, and the log density of every other point."""
        stayed = (thetas == self.location).all(axis=1)
        moved = self._log_proposed(thetas) + self._log_accepted(thetas)
        return np.where(stayed, self.log_atom(), moved)


def one_step(mechanism: PrivateBarker, records: Records) -> OneStep:
    """The law of a release on the records."""
    start = np.zeros(mechanism.model.dim) if mechanism.start is None else np.array(mechanism.start)
    proposal = mechanism._proposal()
    return OneStep(target=mechanism.target(records), location=start, scales=proposal.scales)


def one_step_laws(mechanism: PrivateBarker, pair: Pair) -> Laws:
    """Both laws on the start and the nodes of the rule."""
    steps = [one_step(mechanism, data) for data in (pair.first, pair.second)]
    nodes, volume = steps[0].nodes()
    inner = nodes[(nodes != steps[0].location).any(axis=1)]
    logs = []
    for step in steps:
        log = np.append(step.log_atom(), step.log_density(inner) + volume)
        logs.append(log - special.logsumexp(log))
    return Laws(nodes=np.vstack([steps[0].location, inner]), log_first=logs[0], log_second=logs[1])
