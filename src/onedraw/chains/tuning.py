# SPDX-License-Identifier: Apache-2.0
"""The weight of the loss and the size of the steps, from public numbers alone.

*The reference.* With n records, features uniform on [-1, 1] and the public reference of the family
(``onedraw.privacy.reference``), the posterior is about normal with precision n w H m_j + 1/s^2 in coordinate
j: H the curvature of the loss in its linear predictor, m_j = 1/3 for a coefficient and 1 for an intercept, s
the prior scale. Steps are a multiple of these standard deviations.

*The effective number of states* is T (1 - r)/(1 + r) for T steps whose standardised coordinates have
autocorrelation r from one step to the next. r is measured by making one step of the chain itself, with its
rule, from many states of the reference; ``Candidate.autocorrelation`` does so with a fixed seed. Nothing of
the data enters, and a bad reference costs accuracy, never privacy.

*The search.* Of the settings offered, the one with most effective states; then the largest weight, at most 1,
at which there are as many as are wanted. A smaller weight means wider posteriors, longer steps that cost
less, and so more of them: the error of the *mean* of all states hardly depends on the weight, but a chain
with fewer effective states than ``ENOUGH`` has not forgotten its start.

>>> sds = reference_sds(
...     curvature=0.1, weight=1.0, num_records=1000, coefficients=2, intercepts=1, prior_scale=3.0
... )
>>> sds.round(3)
array([0.173, 0.173, 0.1  ])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onedraw.chains.engine import DiagonalNormal, Proposal, Rule, run
from onedraw.families import Family
from onedraw.types import AnyArray, Array

ENOUGH = 5.0
"""Effective states after the burn-in, below which a chain is not taken to have forgotten its start."""
BURN_IN = 0.25
"""The share of the steps before the first state that is released."""
SPREAD = 1.0 / 3.0
"""The variance of a feature of the reference."""
ATTAINABLE = 0.9
"""Where no weight has as many effective states, this part of the most there can be is asked for."""
CHAINS = 1000
SMALLEST_WEIGHT = 1e-7
SEED = 20_231


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """Settings of a chain on the reference: what it proposes, how it decides, how often it may."""

    proposal: Proposal
    rule: Rule
    sds: Array
    allowed: Callable[[Array], float]
    """The number of steps that the budget pays for, given lengths (m,) of steps."""
    passes: float = 1.0
    """Passes over the records in a step."""
    setting: tuple[float, ...] = ()

    def measured(self) -> tuple[float, float]:
        """The autocorrelation from one step to the next, and the number of steps."""
        rng = np.random.default_rng(SEED)
        start = self.sds * rng.standard_normal((CHAINS, len(self.sds)))
        meter = _OneStep()
        chain = run(
            DiagonalNormal(self.sds), start, proposal=self.proposal, rule=self.rule, meter=meter, rng=rng
        )
        moved = float(np.square((chain.states[1] - start) / self.sds).mean())
        return 1.0 - 0.5 * moved, self.allowed(meter.length)


class _OneStep:
    """One step, whose lengths are noted."""

    most_steps = 1

    def __init__(self) -> None:
        self.length: Array = np.zeros(1)

    def admits(self, length: Array) -> AnyArray:
        self.length = length
        return np.ones(np.shape(length), dtype=bool)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The weight, the setting of the proposal, about how many steps, and what they are worth."""

    weight: float
    setting: tuple[float, ...]
    steps: int
    effective: float
    sds: tuple[float, ...]


def search(
    candidates: Callable[[float], Sequence[Candidate]],
    *,
    weight: float | None,
    wanted: float,
    steps: int | None,
    most_passes: int,
) -> Tuned:
    """The best candidate at the weight given, or at the largest weight with enough effective states.

    With ``steps`` their number is given, and the weight is the largest that pays for them.
    """

    def best(at: float) -> Tuned:
        found = [_judged(candidate, at, steps, most_passes) for candidate in candidates(at)]
        return max(found, key=lambda tuned: tuned.effective)

    def serves(tuned: Tuned) -> bool:
        return tuned.steps >= steps if steps is not None else tuned.effective >= wanted

    if weight is not None:
        return best(weight)
    most = best(1.0)
    if serves(most):
        return most
    low, high = math.log(SMALLEST_WEIGHT), 0.0
    found = best(SMALLEST_WEIGHT)
    wanted = min(wanted, ATTAINABLE * found.effective)  # passes may run out before the budget does
    while high - low > 0.05:  # `found` is at the largest weight known to serve
        middle = 0.5 * (low + high)
        tried = best(math.exp(middle))
        if serves(tried):
            low, found = middle, tried
        else:
            high = middle
    return found


def _judged(candidate: Candidate, weight: float, steps: int | None, most_passes: int) -> Tuned:
    autocorrelation, allowed = candidate.measured()
    most = steps if steps is not None else max(1, int(most_passes / candidate.passes))
    count = int(min(allowed, most))
    kept = (1.0 - BURN_IN) * count
    slack = max(1.0 - autocorrelation, 1e-12)
    return Tuned(
        weight=weight,
        setting=candidate.setting,
        steps=count,
        effective=min(kept, kept * slack / (1.0 + max(autocorrelation, -0.99))),
        sds=tuple(candidate.sds.tolist()),
    )


def reference_curvature(family: Family, beta: float) -> float:
    """H: the average curvature of the loss in its linear predictor under the family's public reference."""
    curvature, _, weights = _reference(family, beta)
    return float(np.average(curvature, weights=weights))


def reference_squared_slope(family: Family, beta: float) -> float:
    """K: the average square of the loss's slope in its linear predictor, under the same reference."""
    _, squared, weights = _reference(family, beta)
    return float(np.average(squared, weights=weights))


def _reference(family: Family, beta: float) -> tuple[Array, Array, Array]:
    """H and K at each point of the reference, and the weights of the points.

    The variance of a draw at weight w is K/H^2 + 1/(w H), so both are found from two weights.
    """
    scale = family.reference_scale()
    drawn, weights = family.reference_log_variances(beta, 1.0, scale)
    fitted, _ = family.reference_log_variances(beta, 0.0, scale)
    curvature = 1.0 / np.maximum(np.exp(drawn) - np.exp(fitted), 1e-12)
    return curvature, np.exp(fitted) * np.square(curvature), weights


def reference_sds(
    *,
    curvature: float,
    weight: float,
    num_records: int,
    coefficients: int,
    intercepts: int,
    prior_scale: float,
    others: int = 0,
) -> Array:
    """The standard deviations of the reference posterior: coefficients, intercepts, then a residual scale."""
    spread = reference_spread(coefficients, intercepts, others)
    return np.asarray(1.0 / np.sqrt(num_records * weight * curvature * spread + prior_scale**-2))


def reference_spread(coefficients: int, intercepts: int, others: int = 0) -> Array:
    """m_j of the module docstring: what a coordinate adds to the variance of the predictor."""
    return np.concatenate([np.full(coefficients, SPREAD), np.ones(intercepts), np.full(others, 2.0)])


def kept_states(steps: int, draws: int) -> Array:
    """Which of the states 0..steps of a chain are released: evenly spaced after the burn-in, the last too."""
    first = math.ceil(BURN_IN * steps)
    return np.asarray(np.linspace(steps, first, draws + 1)[:-1][::-1].round().astype(int))
