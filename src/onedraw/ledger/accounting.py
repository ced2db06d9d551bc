# SPDX-License-Identifier: Apache-2.0
"""When is a charge within the budget? The rule of the ledger, in exact arithmetic, with its proof.

A data set has a budget (E, delta), fixed for good when it is registered. Its charges come one after another,
each of a size that may depend on everything released before: what is needed is a *privacy filter*, not a
composition theorem for sizes fixed in advance.

Guarantee:
    All releases whose charges were accepted are together (E, delta)-differentially private, whatever the
    order, the number and the sizes of the charges, and however these depend on earlier releases. A set of
    charges is accepted if and only if, with sums over all charges of the data set,

    * sum of d_i <= ``delta_for_charges``, and
    * sum of p_i <= E, **or** sum of min(p_i, a rho_i) <= C.

    Here (p_i, rho_i, d_i) is the cost of a charge, see ``cost_of``; the order a > 1 was fixed with the
    budget; and C = E - log(1 - 1/a) + log(a (delta - delta_for_charges))/(a - 1).

*Proof.* Let P and Q be the laws of all that is released, for two neighbouring data sets, and S any event.

1. *Charges with a delta of their own.* Replace each such law P_i by min(P_i, e^p_i Q_i), which takes away at
   most d_i of its mass. Composed, the measure P^ so obtained lacks at most the expectation of sum d_i, hence
   at most ``delta_for_charges``: P(S) <= delta_for_charges + P^(S).
2. *Outcomes with sum p_i <= E.* At each of them P^ <= e^E Q, because P^_i <= e^p_i Q_i at every step. They
   add nothing to the integral of (P^ - e^E Q)_+.
3. *Other outcomes* have sum min(p_i, a rho_i) <= C. Follow the analyst, but stop in front of the first
   charge that would break this. Along that shortened history (P^/Q)^(a-1) exp(-(a-1) sum min(p_i, a rho_i))
   is a supermartingale under P^, for each step has Renyi divergence of order a at most p_i, and at most a
   rho_i where rho_i is given. So its expectation at the end is at most 1, and as the sum never exceeds C,
   the Renyi divergence of the shortened history is at most C [the filter of Feldman & Zrnic 2021, for a
   single order]. By the choice of C the integral of (P^ - e^E Q)_+ over it is at most delta -
   delta_for_charges [Canonne, Kamath & Steinke 2020]. The sums only grow, so no outcome of this third kind
   was shortened: they contribute no more than that.

Together P(S) <= e^E Q(S) + delta. []

*Why one order, fixed in advance.* Taking the best of several orders at the end is right for sizes fixed in
advance. Stopped by an analyst who sees results, the union of several filters, each with a delta of its own,
may cost the sum of the deltas. A pure sum is different: by step 2 it costs no delta at all, and joins for
free. Nothing is lost on a budget spent through Renyi accounting: the order is the one that admits the
largest rho.

*Why order and timing of the releases do not matter.* Whatever was released at any time was charged before, so
the sums over releases never exceed those over charges. A release that never came only helps.

*Exactness.* A float stands for the decimal it prints as: ten charges of 0.1 are exactly 1. Sums are
fractions. The logarithms of C are computed to 60 digits and rounded down. No decision is made in floating
point.

Edge cases:
    delta = 0 means pure sums only, and a charge with a delta is refused. With ``delta_for_charges`` = delta
    there is no order: p_i and d_i are added up. The decimals of a float differ from its bits by less than
    one part in 10^15, and so does the guarantee.

>>> from onedraw.privacy import Guarantee
>>> budget = Budget.plan(epsilon=1.0)
>>> tenth = cost_of(Guarantee(epsilon=0.1))
>>> budget.admits([tenth] * 10), budget.admits([tenth] * 11)
(True, False)
>>> budget = Budget.plan(epsilon=1.0, delta=1e-6)
>>> draw = cost_of(Guarantee(epsilon=0.05, bounded_range=0.05))
>>> next(k for k in range(1000) if not budget.admits([draw] * (k + 1)))
77
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from onedraw._validate import positive, probability
from onedraw.errors import InvalidInput, LedgerError
from onedraw.privacy import Guarantee, compose_bounded_range

_DIGITS = Context(prec=60)
_ROUNDING = Fraction(1, 10**50)
_TOLERANCE = 1e-6
_WORTHWHILE = 1e-3  # a total smaller by less is not worth its delta


def exact(value: float) -> Fraction:
    """The decimal that a float prints as.

    >>> exact(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(value)))


def float_at_most(value: Fraction) -> float:
    """The nearest float that stands for no more than ``value``, and is not negative."""
    number = max(0.0, float(value))
    while number > 0.0 and exact(number) > value:
        number = math.nextafter(number, 0.0)
    return number


def float_at_least(value: Fraction) -> float:
    """The nearest float that stands for no less than ``value``."""
    number = float(value)
    while exact(number) < value:
        number = math.nextafter(number, math.inf)
    return number


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one charge adds to each of the sums.

    ``pure`` is p: the charge is (p, d)-DP. ``rho``, if given, says that it is rho-zero-concentrated DP.
    ``delta`` is d.
    """

    pure: Fraction
    rho: Fraction | None
    delta: Fraction

    def renyi(self, order: Fraction) -> Fraction:
        """A bound of the Renyi divergence of that order."""
        return self.pure if self.rho is None else min(self.pure, order * self.rho)

    def to_dict(self) -> dict[str, str | None]:
        """Exact values as text, for the history."""
        rho = None if self.rho is None else str(self.rho)
        return {"pure": str(self.pure), "rho": rho, "delta": str(self.delta)}

    @classmethod
    def from_dict(cls, content: dict[str, str | None]) -> Cost:
        """The inverse of ``to_dict``."""
        return _read_cost(content["pure"], content["rho"], content["delta"])


@functools.lru_cache(maxsize=1024)
def _read_cost(pure: str | None, rho: str | None, delta: str | None) -> Cost:
    cost = Cost(
        pure=Fraction(str(pure)), rho=None if rho is None else Fraction(rho), delta=Fraction(str(delta))
    )
    if cost.pure <= 0 or cost.delta < 0 or (cost.rho is not None and cost.rho <= 0):
        raise ValueError("a charge costs more than nothing")
    return cost


def cost_of(guarantee: Guarantee) -> Cost:
    """The cost of a release with that guarantee.

    * A delta that is just the price of composing ``draws`` draws of a bounded range r is not charged: the
      ranges are, k r as pure and k r^2/8 as rho [Cesar & Rogers 2021].
    * Pure guarantees cost epsilon and epsilon^2/2, or k r^2/8 if that is less.
    * Any other (epsilon, delta) is charged as it stands, and has no rho.

    >>> cost_of(Guarantee(epsilon=0.4, bounded_range=0.4))
    Cost(pure=Fraction(2, 5), rho=Fraction(1, 50), delta=Fraction(0, 1))
    """
    epsilon, delta = exact(guarantee.epsilon), exact(guarantee.delta)
    if guarantee.bounded_range is None:
        if delta:
            return Cost(pure=epsilon, rho=None, delta=delta)
        return Cost(pure=epsilon, rho=epsilon**2 / 2, delta=delta)
    width, draws = positive(bounded_range=guarantee.bounded_range), guarantee.draws
    if guarantee.epsilon > draws * width * (1.0 + _TOLERANCE):
        raise LedgerError(
            f"The guarantee contradicts itself: {draws} draws of bounded range {width:g} are "
            f"{draws * width:g}-private, but it states epsilon={guarantee.epsilon:g}. Nothing was charged."
        )
    ranges = draws * exact(width)
    rho = draws * exact(width) ** 2 / 8
    if not delta:
        return Cost(pure=epsilon, rho=min(rho, epsilon**2 / 2), delta=delta)
    # A delta for another reason, such as an approximate sampler, must not be forgotten.
    composed = compose_bounded_range(width, draws=draws, delta=guarantee.delta)
    if guarantee.epsilon <= composed * (1.0 + _TOLERANCE):
        return Cost(pure=ranges, rho=rho, delta=Fraction(0))
    return Cost(pure=epsilon, rho=None, delta=delta)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A total budget and the rule by which charges are admitted; see the module for the proof.

    ``delta_for_charges`` is the part of delta set aside for charges that bring a delta of their own; the rest
    pays for Renyi accounting at the fixed ``order``.
    """

    epsilon: float
    delta: float = 0.0
    delta_for_charges: float = 0.0
    order: float | None = None

    @classmethod
    def plan(cls, *, epsilon: float, delta: float = 0.0, delta_for_charges: float = 0.0) -> Budget:
        """A budget with the order that admits the largest rho."""
        epsilon, delta = positive(epsilon=epsilon), probability(delta=delta)
        aside = probability(delta_for_charges=delta_for_charges)
        if aside > delta:
            raise InvalidInput(
                f"Expected delta_for_charges <= delta={delta:g}, got delta_for_charges={aside:g}. "
                "It is the part of delta set aside for charges with a delta of their own."
            )
        slack = exact(delta) - exact(aside)
        order = _best_order(epsilon, float(slack)) if slack > 0 else None
        return cls(epsilon=epsilon, delta=delta, delta_for_charges=aside, order=order)

    @property
    def limit(self) -> Fraction | None:
        """C: what the Renyi divergences of the fixed order may add up to."""
        if self.order is None:
            return None
        return _renyi_limit(self.epsilon, self.order, exact(self.delta) - exact(self.delta_for_charges))

    def admits(self, costs: Iterable[Cost]) -> bool:
        """Whether charges of these costs are within the budget."""
        groups = Counter(costs)
        if _total(groups, lambda cost: cost.delta) > exact(self.delta_for_charges):
            return False
        if _total(groups, lambda cost: cost.pure) <= exact(self.epsilon):
            return True
        limit = self.limit
        return limit is not None and self._renyi(groups) <= limit

    def spent(self, costs: Sequence[Cost]) -> tuple[float, float, str]:
        """The smallest (epsilon, delta) that these charges add up to, and the composition that shows it.

        It holds for charges of sizes that do not depend on earlier releases. For others the guarantee is the
        budget.
        """
        groups = Counter(costs)
        pure, delta = _total(groups, lambda cost: cost.pure), _total(groups, lambda cost: cost.delta)
        slack = exact(self.delta) - exact(self.delta_for_charges)
        best = (float_at_least(pure), float_at_least(delta), "pure")
        if self.order is None or not groups:
            return best
        flat = [(float(c.pure), None if c.rho is None else float(c.rho), n) for c, n in groups.items()]

        def total(log_excess: float) -> float:
            order = 1.0 + math.exp(log_excess)
            renyi = sum(n * (p if rho is None else min(p, order * rho)) for p, rho, n in flat)
            return renyi + _conversion(log_excess, float(slack))

        # Any order gives a valid total, so an inexact minimiser costs accuracy and nothing else.
        found = min(total(_minimiser(total)), total(math.log(self.order - 1.0))) * (1.0 + 1e-12)
        if self.admits(costs):
            found = min(found, self.epsilon)
        if found < best[0] * (1.0 - _WORTHWHILE):
            return (max(0.0, found), float_at_least(delta + slack), "renyi")
        return best

    def remaining(self, costs: Sequence[Cost]) -> float:
        """The largest epsilon of one more draw (of that bounded range) that would be admitted.

        >>> Budget.plan(epsilon=1.0).remaining([])
        1.0
        """
        groups = Counter(costs)
        room = exact(self.epsilon) - _total(groups, lambda cost: cost.pure)
        limit = self.limit
        if self.order is not None and limit is not None:
            left = limit - self._renyi(groups)
            if left > 0:  # the largest r with min(r, order r^2/8) <= left
                square = 8 * left / exact(self.order)
                room = max(room, left, _root_at_most(square))
        return float_at_most(room)

    def remaining_delta(self, costs: Iterable[Cost]) -> float:
        """What is left of ``delta_for_charges``."""
        return float_at_most(exact(self.delta_for_charges) - _total(Counter(costs), lambda cost: cost.delta))

    def _renyi(self, groups: Counter[Cost]) -> Fraction:
        order = exact(self.order or 1.0)
        return _total(groups, lambda cost: cost.renyi(order))


def _total(groups: Counter[Cost], part: Callable[[Cost], Fraction]) -> Fraction:
    return sum((count * part(cost) for cost, count in groups.items()), Fraction(0))


def _root_at_most(square: Fraction) -> Fraction:
    """A rational square root, rounded down at the 30th significant digit or so."""
    scale = 10**60
    return Fraction(math.isqrt(square.numerator * scale // square.denominator), 10**30)


@functools.lru_cache(maxsize=256)
def _renyi_limit(epsilon: float, order: float, delta: Fraction) -> Fraction:
    """epsilon - log(1 - 1/order) + log(order delta)/(order - 1), rounded down."""
    c = _DIGITS  # not the context of the calling program, which may round coarsely
    a = Decimal(repr(order))
    excess = c.subtract(a, Decimal(1))
    first = c.ln(c.divide(excess, a))
    scaled = Fraction(repr(order)) * delta
    second = c.divide(c.ln(c.divide(Decimal(scaled.numerator), Decimal(scaled.denominator))), excess)
    slack = _ROUNDING * (1 + abs(Fraction(first)) + abs(Fraction(second)))
    # Fractions add without rounding.
    return exact(epsilon) - Fraction(first) + Fraction(second) - slack


def _conversion(log_excess: float, delta: float) -> float:
    """What the conversion from Renyi divergence of order 1 + exp(log_excess) adds to epsilon."""
    excess = math.exp(log_excess)
    log_order = math.log1p(excess)
    return log_excess - log_order - (math.log(delta) + log_order) / excess


def _best_order(epsilon: float, delta: float) -> float:
    """The order at which the largest rho converts to (epsilon, delta), to twelve digits."""
    log_excess = _minimiser(lambda x: -(epsilon - _conversion(x, delta)) / (1.0 + math.exp(x)))
    return float(f"{1.0 + math.exp(log_excess):.12g}")


def _minimiser(function: Callable[[float], float], low: float = -13.0, high: float = 60.0) -> float:
    """Where a function of log(order - 1) is smallest: a coarse scan, then golden sections around its best."""
    step = 0.25
    points = [low + step * i for i in range(round((high - low) / step) + 1)]
    middle = min(points, key=function)
    left, right = middle - step, middle + step
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    while right - left > 1e-9:
        inner, outer = right - ratio * (right - left), left + ratio * (right - left)
        if function(inner) <= function(outer):
            right = outer
        else:
            left = inner
    return 0.5 * (left + right)
