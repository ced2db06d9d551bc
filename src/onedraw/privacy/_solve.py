# SPDX-License-Identifier: Apache-2.0
"""Solving for beta at a given weight, on the safe side of rounding.

With M the bound of a density and b = beta - 1, the width of its loss is M^b/b. For M <= 1 that falls from
infinity to 0, so every range has one solution. For M > 1 it has its minimum e log M at b = 1/log M: below
it there is no solution, above it there are two.

Guarantee:
    The beta returned needs no more than the range asked for; where none does, an error names the smallest
    epsilon that can be had.

>>> from onedraw.families import Bernoulli
>>> from onedraw.losses import BetaDivergence
>>> price = Price(loss=BetaDivergence(Bernoulli()), neighbours="replace_one", rows=1)
>>> solve_beta(price, weight=1.0, target=4.0, epsilon=4.0, delta=0.0, draws=1)
1.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import optimize

from onedraw.advice import Set
from onedraw.errors import CalibrationError
from onedraw.losses import Loss
from onedraw.privacy.composition import compose_bounded_range, compose_pure
from onedraw.privacy.reference import Width
from onedraw.types import Neighbours

SMALLEST_B, LARGEST_B = 1e-8, 1e3
"""beta - 1 stays between these: nearer to 1 a float64 has too few digits, further away the loss is flat."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """The bounded range of one draw at weight 1, as a function of beta."""

    loss: Loss
    neighbours: Neighbours
    rows: int

    @property
    def multiple(self) -> float:
        return self.rows * (2.0 if self.neighbours == "replace_one" else 1.0)

    @property
    def width(self) -> Width:
        return "observation_sensitivity" if self.neighbours == "replace_one" else "parameter_range"

    def __call__(self, beta: float) -> float:
        try:
            return self.multiple * float(getattr(self.loss.loss_bounds(beta), self.width))
        except OverflowError:
            return math.inf


def solve_beta(price: Price, weight: float, target: float, epsilon: float, delta: float, draws: int) -> float:
    """The smallest beta at which a draw with this weight has range ``target``, never above it."""

    def log_ratio(log_b: float) -> float:
        return math.log(max(weight * price(1.0 + math.exp(log_b)) / target, 1e-300))

    low, high = math.log(SMALLEST_B), math.log(LARGEST_B)
    while math.isinf(price(1.0 + math.exp(high))):
        high -= 0.5
    # The price falls and then, if the density may exceed 1, rises: the smaller root lies left of its minimum.
    if log_ratio(high) > log_ratio(high - 1e-3):
        high = float(optimize.minimize_scalar(log_ratio, bounds=(low, high), method="bounded").x)
    if log_ratio(high) > 0.0:
        raise _unreachable(price, weight, target, 1.0 + math.exp(high), epsilon, delta, draws)
    if log_ratio(low) <= 0.0:  # even the nearest beta to 1 asks for no more
        return 1.0 + SMALLEST_B
    root = optimize.brentq(log_ratio, low, high, xtol=1e-15, rtol=1e-15)
    beta = 1.0 + math.exp(root)
    step = math.ulp(beta)
    while weight * price(beta) > target:
        beta, step = beta + step, 2.0 * step
    slack = 1e-9 + 4.0 * math.ulp(beta) / (beta - 1.0)
    if weight * price(beta) < target * (1.0 - slack):
        raise CalibrationError(
            f"No beta was found for epsilon={epsilon:g}.", advice=Set("beta", "auto"), requested=epsilon
        )
    return beta


def _unreachable(
    price: Price, weight: float, target: float, beta: float, epsilon: float, delta: float, draws: int
) -> CalibrationError:
    """Say which epsilon is the smallest at this weight, and what to do about it."""
    reachable = total_epsilon(weight * price(beta), delta, draws)
    advice = [Set("beta", "auto", note=" without a weight, which reaches every epsilon")]
    family = price.loss.family
    if family.scale_floor is not None:
        # S = M^b/b has minimum e log M, so log M = target/(weight * multiple * e) still has a solution; and M
        # is inversely proportional to the floor.
        log_bound = target / (weight * price.multiple * math.e)
        floor = family.scale_floor * math.exp(family.log_sup_density - log_bound)
        noisy = " or more if the response is that noisy"
        advice.append(Set("noise_floor", float(f"{_round_up(floor):g}"), note=noisy))
    return CalibrationError(
        f"No beta reaches epsilon={epsilon:g} at weight={weight:g}: "
        f"the smallest is {reachable:.4g}, at beta={beta:.5g}.",
        advice=advice,
        requested=epsilon,
        reachable=reachable,
    )


def total_epsilon(reached: float, delta: float, draws: int) -> float:
    """The epsilon of all draws together, given the range of each."""
    if delta == 0.0:
        return compose_pure(reached, draws=draws)
    # A delta above the total variation needs no epsilon at all; then state the sum, which says something.
    return compose_bounded_range(reached, draws=draws, delta=delta) or compose_pure(reached, draws=draws)


def at_most(weight: float, unit: float, target: float) -> float:
    """The weight, lowered by the last bit or two where weight * unit would exceed the target."""
    while weight * unit > target:
        weight = math.nextafter(weight, 0.0)
    return weight


def _round_up(value: float) -> float:
    """The next number with four digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return math.ceil(value / unit) * unit
