# SPDX-License-Identifier: Apache-2.0
"""The law of one step of a private chain from a public start, by enumeration.

A chain that makes one step ends at its start, if the move was rejected, or at the proposal. With q the
density of proposals and s(theta) the probability of accepting theta, the release has an atom at the start of
mass E_q[1 - s] and the density q s elsewhere. On the nodes of a quadrature rule both data sets' laws are
numbers, and so is the privacy loss.

What a rule does with randomness of its own is summed over as well: the counts of thinned records, all
batches, the momenta and the noise of a leapfrog step. The probabilities are written down here from log
densities and losses of records, not taken from the rules.

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

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special, stats

from onedraw.audit.closed_forms import NormalDensity
from onedraw.audit.exact import Laws
from onedraw.audit.pairs import Pair
from onedraw.mechanisms import FastMH, MinibatchBarker, PenaltyChain, PrivateBarker, PrivateHMC, PrivateSGLD
from onedraw.records import Records
from onedraw.types import Array

NODES = {1: 2001, 2: 201}
REACH = 9.0
"""Standard deviations of the proposal either way."""
TAIL = 1e-13
"""Counts beyond which less than this is left are not summed over."""
HERMITE = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One step on given records: the proposal's location and standard deviations (p,) from ``start``, and
    what a move to ``thetas`` (m, p) is accepted and rejected with, as logarithms."""

    start: Array
    proposed: Array
    scales: Array
    decided: Callable[[Array], tuple[Array, Array]]

    def _log_proposed(self, thetas: Array) -> Array:
        standard = (thetas - self.proposed) / self.scales
        constant = np.log(self.scales).sum() + 0.5 * len(self.scales) * math.log(2.0 * math.pi)
        return np.asarray(-0.5 * np.square(standard).sum(axis=1) - constant)

    @cached_property
    def nodes(self) -> tuple[Array, float]:
        """Evenly spaced proposals (m, p) around the start, and the log of the volume between them."""
        axis = np.linspace(-REACH, REACH, NODES[len(self.scales)])
        grids = np.meshgrid(*[at + scale * axis for at, scale in zip(self.start, self.scales, strict=True)])
        volume = np.log(self.scales * (axis[1] - axis[0])).sum()
        return np.stack([grid.ravel() for grid in grids], axis=1), float(volume)

    @cached_property
    def log_atom(self) -> float:
        """The log probability of staying."""
        nodes, volume = self.nodes
        return float(special.logsumexp(self._log_proposed(nodes) + self.decided(nodes)[1] + volume))

    def log_density(self, thetas: Array) -> Array:
        """The log mass of the start, and the log density of every other point."""
        stayed = (thetas == self.start).all(axis=1)
        return np.where(stayed, self.log_atom, self._log_proposed(thetas) + self.decided(thetas)[0])


def one_step_laws(mechanism: Any, pair: Pair) -> Laws:
    """Both laws on the start and the nodes of the rule."""
    steps = [one_step(mechanism, data) for data in (pair.first, pair.second)]
    nodes, volume = steps[0].nodes
    inner = nodes[(nodes != steps[0].start).any(axis=1)]
    logs = []
    for step in steps:
        log = np.append(step.log_atom, step.log_density(inner) + volume)
        logs.append(log - special.logsumexp(log))
    return Laws(nodes=np.vstack([steps[0].start, inner]), log_first=logs[0], log_second=logs[1])


def one_step(mechanism: Any, records: Records) -> Any:
    """The law of a release on the records."""
    start = np.zeros(mechanism.model.dim) if mechanism.start is None else np.array(mechanism.start)
    return ONE_STEP[mechanism.name](mechanism, mechanism.target(records), start)


def is_one_chain_step(mechanism: Any) -> bool:
    """Whether it makes one step that is known here from a public start."""
    if mechanism.name not in ONE_STEP or mechanism.steps != 1:
        return False
    if mechanism.name == PrivateSGLD.name and mechanism.passes < 1.0:
        return False  # a mixture over the records taken, of which there are too many subsets
    few = mechanism.model.dim in NODES and (mechanism.model.dim == 1 or mechanism.name in PLANE)
    return few and (mechanism.start is not None or mechanism.first_stage == 0.0)


# -- how each mechanism moves and decides


def barker_step(mechanism: PrivateBarker, target: Any, start: Array) -> Step:
    """Accepted with the logistic probability of the log ratio."""

    def decided(thetas: Array) -> tuple[Array, Array]:
        u = _log_ratio(target, start, thetas)
        return special.log_expit(u), special.log_expit(-u)

    return Step(start=start, proposed=start, scales=mechanism._proposal().scales, decided=decided)


def penalty_step(mechanism: PenaltyChain, target: Any, start: Array) -> Step:
    """Accepted if log U is below a normal variable around the log ratio less half of its variance."""
    walk, rule = _kernel(mechanism)

    def decided(thetas: Array) -> tuple[Array, Array]:
        sd = mechanism._moved(np.linalg.norm(thetas - start, axis=1)) / rule.mu
        return _both(_penalised(_log_ratio(target, start, thetas), sd))

    return Step(start=start, proposed=start, scales=walk.scales, decided=decided)


def thinned_step(mechanism: FastMH, target: Any, start: Array) -> Step:
    """Summed over the counts of each kind of record."""
    rows = np.column_stack([target.source.features, target.source.response])
    _, kinds, many = np.unique(rows, axis=0, return_index=True, return_counts=True)

    def decided(thetas: Array) -> tuple[Array, Array]:
        length = np.linalg.norm(thetas - start, axis=1)
        b = mechanism._moved(length) / mechanism._moved.multiple
        least = b / mechanism.overhead
        added = _added(target, start, thetas, kinds)  # (m, kinds)
        u = (target.prior.log_density(thetas) - target.prior.log_density(start[None, :]))[:, None]
        mass = np.ones_like(u)
        for kind, count in enumerate(many):
            f = 0.5 * (b + added[:, kind])
            rate = (count * (least + f))[:, None]
            counts = np.arange(int(stats.poisson.isf(TAIL, rate.max())) + 2)
            weight = np.where(b > 0.0, np.log((least + b - f) / np.maximum(least + f, 1e-300)), 0.0)
            u = (u[:, :, None] + (weight[:, None] * counts)[:, None, :]).reshape(len(thetas), -1)
            mass = (mass[:, :, None] * stats.poisson.pmf(counts, rate)[:, None, :]).reshape(len(thetas), -1)
        logs = [np.log((mass * special.expit(sign * u)).sum(axis=1)) for sign in (1.0, -1.0)]
        return logs[0], logs[1]

    return Step(start=start, proposed=start, scales=mechanism._proposal().scales, decided=decided)


def batched_step(mechanism: MinibatchBarker, target: Any, start: Array) -> Step:
    """Averaged over all batches, which must be few."""
    n, m = target.num_records, int(mechanism.tuning.setting[1])
    batches = list(itertools.combinations(range(n), m))

    def decided(thetas: Array) -> tuple[Array, Array]:
        ratios = -_added(target, start, thetas, np.arange(n))
        prior = target.prior.log_density(thetas) - target.prior.log_density(start[None, :])
        logs = []
        for batch in batches:
            some = ratios[:, batch]
            t, bend = prior + n * some.mean(axis=1), np.tanh(0.5 * (prior + n * some.mean(axis=1)))
            v = np.minimum(0.5, (1.0 - m / n) * n**2 * some.var(axis=1) / m)
            u = t + bend * (v / 2.0 + np.square(v) * (1.0 - np.square(bend)) / 4.0)
            logs.append([special.log_expit(u), special.log_expit(-u)])
        accepted, rejected = special.logsumexp(logs, axis=0) - math.log(len(batches))
        return accepted, rejected

    return Step(start=start, proposed=start, scales=mechanism._proposal().scales, decided=decided)


def leapfrog_step(mechanism: PrivateHMC, target: Any, start: Array) -> Step:
    """One leapfrog step in one parameter, averaged over the momenta and the noise that lead to the same
    end."""
    leapfrog, rule = _kernel(mechanism)
    scale, h, noise = float(leapfrog.scales[0]), leapfrog.step, leapfrog.noise
    kick = 0.5 * h * scale
    spread = kick * noise
    first = kick * float(target.log_density_and_gradient(start[None, :])[1][0, 0])
    at, mass = np.polynomial.hermite_e.hermegauss(HERMITE)
    mass = mass / mass.sum()

    def decided(thetas: Array) -> tuple[Array, Array]:
        half = (thetas[:, 0] - start[0]) / (h * scale)  # the momentum between the kicks
        values, gradients = target.log_density_and_gradient(thetas)
        # Of half = p + first + spread xi the momentum p is normal given half.
        p = ((half - first) / (1.0 + spread**2))[:, None] + spread / math.sqrt(1.0 + spread**2) * at
        last = (half + kick * gradients[:, 0])[:, None] + spread * at
        u = (values - target.log_density(start[None, :]))[:, None, None]
        u = u + 0.5 * np.square(p)[:, :, None] - 0.5 * np.square(last)[:, None, :]
        sd = (mechanism._moved(np.abs(thetas[:, 0] - start[0])) / rule.mu)[:, None, None]
        return _both(np.log(np.exp(_penalised(u, sd)) @ mass @ mass))

    return Step(
        start=start,
        proposed=start + h * scale * first,
        scales=np.array([h * scale * math.sqrt(1.0 + spread**2)]),
        decided=decided,
    )


def langevin_step(mechanism: PrivateSGLD, target: Any, start: Array) -> NormalDensity:
    """A normal law around a gradient step, in one parameter."""
    langevin, _ = _kernel(mechanism)
    scale, h = float(langevin.scales[0]), langevin.step
    gradient = target.log_density_and_gradient(start[None, :])[1][0]
    return NormalDensity(location=start + 0.5 * h * scale**2 * gradient, scale=scale * math.sqrt(h))


ONE_STEP: Mapping[str, Callable[[Any, Any, Array], Any]] = {
    PrivateBarker.name: barker_step,
    PenaltyChain.name: penalty_step,
    FastMH.name: thinned_step,
    MinibatchBarker.name: batched_step,
    PrivateHMC.name: leapfrog_step,
    PrivateSGLD.name: langevin_step,
}
"""By the name of the mechanism."""
PLANE = (PrivateBarker.name, PenaltyChain.name)
"""Those that are known for two parameters too."""


def _kernel(mechanism: Any) -> tuple[Any, Any]:
    found = mechanism.tuning
    return mechanism._kernel(  # type: ignore[no-any-return]
        found.setting, np.array(found.sds), mechanism._moved, mechanism._request(), found.steps
    )


def _log_ratio(target: Any, start: Array, thetas: Array) -> Array:
    return np.asarray(target.log_density(thetas) - target.log_density(start[None, :]))


def _added(target: Any, start: Array, thetas: Array, rows: Any) -> Array:
    """What a move to each of ``thetas`` adds to the weighted losses of some records, (m, rows)."""
    at_start = target.record_losses(start[None, :], rows)
    return np.asarray(target.weight * (target.record_losses(thetas, rows) - at_start))


def _penalised(u: Array, sd: Array) -> Array:
    """The log of E min(1, e^v) for v normal with mean u - sd^2/2."""
    safe = np.maximum(sd, 1e-12)
    m = u - 0.5 * np.square(safe)
    both = np.logaddexp(special.log_ndtr(m / safe), u + special.log_ndtr(-safe - m / safe))
    return np.asarray(np.minimum(both, 0.0))


def _both(log_accepted: Array) -> tuple[Array, Array]:
    """With the log probability of the opposite."""
    with np.errstate(divide="ignore"):
        return log_accepted, np.log(-np.expm1(np.minimum(log_accepted, 0.0)))
