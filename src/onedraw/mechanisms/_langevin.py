# SPDX-License-Identifier: Apache-2.0
"""Unadjusted Langevin draws with a proved distance from the posterior, known before the chain is run.

The chain theta' = theta - h grad f(theta) + sqrt(2 h) xi, xi standard normal, makes K steps from a normal law
of covariance I/M around the minimiser of f = -log density, m I <= Hessian of f <= M I.

Guarantee:
    With T = K h, M h < 2, p parameters and a start off the minimiser by c, the law of the last state is, in
    total variation, no farther from the posterior than

        (1/2) sqrt(kappa^(p/2) e^(M c^2) - 1) e^(-m T)  +  sqrt(KL/2),      kappa = M/m,
        KL = (M^2/4) [p h T + (h^2/3) (p/2 + M c^2/2 + M p T)/(1 - M h/2)].

*Proof* (after Dalalyan 2017, Theorem 2, with the sharp rate m for his m/2). *The diffusion* dL = -grad f dt +
sqrt(2) dW leaves the posterior invariant, whose Poincare constant is 1/m, so the chi-square divergence falls
as e^(-2 m t), and total variation is at most half its root. At the start f(theta) <= f* + M |theta -
theta*|^2/2 and the normaliser is at most e^(-f*) (2 pi/m)^(p/2): chi-square + 1 <= kappa^(p/2) e^(M c^2).
*The chain* is a diffusion D whose drift is frozen for a time h. By Girsanov's theorem its divergence from L
is a quarter of the integral of E |grad f(D_t) - grad f(D_kh)|^2, at most M^2 E |D_t - D_kh|^2 =
M^2 [(t - kh)^2 E |grad f|^2 + 2 p (t - kh)]. In expectation f falls by at least h (1 - M h/2) |grad f|^2 -
M p h a step, so h times the sum of E |grad f|^2 is at most (p/2 + M c^2/2 + M p T)/(1 - M h/2). Pinsker. []
Rounding moves a step by less than 1e-12 of its noise, which adds less than 1e-9 here.

The fewest K grow as p kappa^2 log^2(1/error)/error^2. For 1000 records, 2 features and an intercept, epsilon
= 1 and delta = 1e-5, they are 2.5e18: no computer runs them. With ten records, one parameter and delta = 0.1
they are 91,000. The chain is here for who wants to see it; draw exactly.

Edge cases:
    n = 0 draws from the prior, as closely.

>>> plan = schedule(curvature=1.0, smoothness=1.94, dim=1, error=0.0134)
>>> 85_000 < plan.steps < 95_000, plan.error <= 0.0134
(True, True)
>>> f"{schedule(curvature=1 / 9, smoothness=168 / 9, dim=3, error=1.34e-6).steps:.1e}"
'2.5e+18'
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from onedraw._validate import positive, whole
from onedraw.advice import Set
from onedraw.errors import InvalidInput
from onedraw.mechanisms._logistic import minimise
from onedraw.posterior import Posterior
from onedraw.samplers.base import Draws, Evidence, PosteriorFacts
from onedraw.types import Array

MOST_STEPS = 10**6
"""About ten seconds a draw for few records."""
OFFSET = 1e-6
"""The largest M c^2 of the start."""
BLOCK = 4096


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A step size and a number of steps, and the total variation distance that they prove."""

    step: float
    steps: int
    error: float


def distance(
    *, step: float, steps: int, curvature: float, smoothness: float, dim: int, offset: float = OFFSET
) -> float:
    """The bound of the module's guarantee; ``offset`` is M c^2."""
    time = step * steps
    log_chi = 0.5 * dim * math.log(smoothness / curvature) + offset
    diffusion = 0.5 * math.sqrt(math.expm1(log_chi)) * math.exp(-curvature * time)
    slopes = (0.5 * dim + 0.5 * offset + smoothness * dim * time) / (1.0 - 0.5 * smoothness * step)
    divergence = 0.25 * smoothness**2 * (dim * step * time + step * step * slopes / 3.0)
    return diffusion + math.sqrt(0.5 * divergence)


def schedule(*, curvature: float, smoothness: float, dim: int, error: float) -> Schedule:
    """The fewest steps that bring the distance below ``error``, over shares of it for the two terms."""
    positive(error=error)
    log_chi = 0.5 * dim * math.log(smoothness / curvature) + OFFSET
    start = 0.5 * math.sqrt(math.expm1(log_chi))

    def reached(step: float, steps: int) -> float:
        return distance(step=step, steps=steps, curvature=curvature, smoothness=smoothness, dim=dim)

    best: Schedule | None = None
    for share in np.linspace(0.01, 0.5, 50):
        time = max(math.log(start / (share * error)), 1e-3) / curvature
        largest, smallest = 1.0 / smoothness, 0.0
        for _ in range(60):  # the largest step whose share of the divergence is left over
            step = 0.5 * (largest + smallest)
            near = reached(step, math.ceil(time / step)) <= error
            largest, smallest = (largest, step) if near else (step, smallest)
        if smallest == 0.0:
            continue
        steps = math.ceil(time / smallest)
        if best is None or steps < best.steps:
            best = Schedule(step=smallest, steps=steps, error=reached(smallest, steps))
    assert best is not None  # a small enough step always serves
    return best


@dataclass(frozen=True, kw_only=True)
class LangevinSampler:
    """Independent chains, each within ``error`` of a logistic posterior with rows within ``feature_norm``."""

    error: float
    feature_norm: float

    evidence_level: ClassVar[str] = "accounted"
    continuous: ClassVar[bool] = True

    def planned(self, facts: PosteriorFacts | Posterior) -> Schedule:
        """The schedule, from public numbers: sizes, weight, prior scale and bounds."""
        curvature = facts.prior.scale**-2
        bend = 0.25 * facts.weight * (facts.num_records or 0) * self.feature_norm**2
        return schedule(curvature=curvature, smoothness=curvature + bend, dim=facts.dim, error=self.error)

    def check(self, facts: PosteriorFacts | Posterior) -> None:
        """Refuse what no computer runs, before any budget is spent."""
        steps = self.planned(facts).steps
        if steps > MOST_STEPS:
            raise InvalidInput(
                f"A Langevin chain within {self.error:.2g} of the posterior takes {steps:.2g} steps here, "
                f"more than {MOST_STEPS:.0g}: its error bound needs fewer records, a smaller prior scale or "
                "a much larger delta.",
                advice=Set("draw", "exact", of="LipschitzGibbs", note=", which needs no chain"),
            )

    def sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws:
        """``num_draws`` last states of as many chains."""
        self.check(posterior)
        records: Any = posterior.source  # in memory: no other table gets here
        plan, design, weight = self.planned(posterior), records.features, posterior.weight
        signs, curvature = 2.0 * records.response - 1.0, posterior.prior.scale**-2
        smoothness = curvature + 0.25 * weight * len(design) * self.feature_norm**2
        centre = minimise(
            design,
            signs,
            ridge=curvature / weight,
            tilt=np.zeros(design.shape[1]),
            feature_norm=self.feature_norm,
            residual=curvature / weight * math.sqrt(OFFSET / smoothness),
        )
        shape = (whole(num_draws=num_draws), design.shape[1])
        states = centre + rng.standard_normal(shape) / math.sqrt(smoothness)
        pull, noise = signs[:, None] * design, math.sqrt(2.0 * plan.step)
        for first in range(0, plan.steps, BLOCK):
            for xi in rng.standard_normal((min(BLOCK, plan.steps - first), *shape)):
                slope: Array = curvature * states - weight * special.expit(-(states @ pull.T)) @ pull
                states = states - plan.step * slope + noise * xi
        return Draws(values=states, evidence=self.evidence(plan), diagnostics={})

    def evidence(self, plan: Schedule) -> Evidence:
        """What a release of a draw says."""
        return Evidence(
            level="accounted",
            statement=(
                f"{plan.steps} steps of size {plan.step:.4g} of the unadjusted Langevin algorithm, whose "
                f"last state is proved to be within {self.error:.4g} of the posterior in total variation, "
                "for every data set; delta includes the price of that error."
            ),
        )
