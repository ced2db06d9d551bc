# SPDX-License-Identifier: Apache-2.0
"""The rule by which charges are admitted, against independent answers."""

import decimal
import functools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from onedraw.errors import InvalidInput, LedgerError
from onedraw.ledger.accounting import Budget, Cost, cost_of, exact, float_at_least, float_at_most
from onedraw.privacy import Guarantee, calibrate, compose_bounded_range, zcdp_to_epsilon

BUDGETS = [(0.1, 1e-9), (1.0, 1e-6), (3.0, 1e-6), (10.0, 1e-5), (100.0, 1e-6), (1.0, 0.3)]


def draw(width, *, draws=1, delta=0.0):
    epsilon = draws * width if delta == 0 else compose_bounded_range(width, draws=draws, delta=delta)
    return Guarantee(epsilon=epsilon, delta=delta, draws=draws, bounded_range=width)


# -- exact sums


def test_ten_times_a_tenth_is_exactly_one():
    assert 0.1 + 0.1 + 0.1 > 0.3  # why floats will not do
    budget, tenth = Budget.plan(epsilon=1.0), cost_of(Guarantee(epsilon=0.1))
    assert budget.admits([tenth] * 10)
    assert budget.spent([tenth] * 10) == (1.0, 0.0, "pure")
    assert budget.remaining([tenth] * 10) == 0.0
    assert budget.remaining([tenth] * 9) == 0.1
    assert not budget.admits([tenth] * 10 + [cost_of(Guarantee(epsilon=5e-324))])


@given(st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=30), st.floats(1e-3, 20.0))
def test_pure_sums_agree_with_decimals(epsilons, total):
    with decimal.localcontext(decimal.Context(prec=200)):
        expected = sum(decimal.Decimal(repr(e)) for e in epsilons) <= decimal.Decimal(repr(total))
    costs = [cost_of(Guarantee(epsilon=e)) for e in epsilons]
    assert Budget.plan(epsilon=total).admits(costs) is expected


@given(st.fractions(0, 1000))
def test_floats_are_rounded_to_the_safe_side(value):
    assert exact(float_at_most(value)) <= value <= exact(float_at_least(value))
    assert float_at_least(value) <= math.nextafter(math.nextafter(float_at_most(value), math.inf), math.inf)


def test_the_limit_does_not_depend_on_the_decimal_context_of_the_program():
    budget = Budget.plan(epsilon=1.5, delta=1e-7)
    with decimal.localcontext(decimal.Context(prec=2)):
        coarse = Budget.plan(epsilon=1.5, delta=1e-7).limit
    assert coarse == budget.limit


# -- what a charge costs


@pytest.mark.parametrize(
    ("guarantee", "pure", "rho", "delta"),
    [
        (Guarantee(epsilon=0.5), "0.5", "0.125", "0"),
        (Guarantee(epsilon=0.5, bounded_range=0.5), "0.5", "0.03125", "0"),
        (Guarantee(epsilon=0.5, bounded_range=0.9), "0.5", "0.10125", "0"),
        (Guarantee(epsilon=2.0, draws=4, bounded_range=0.5), "2", "0.125", "0"),
        (Guarantee(epsilon=0.5, delta=1e-7), "0.5", None, "0.0000001"),
        (draw(0.1, draws=100, delta=1e-6), "10", "0.125", "0"),
        # A delta that composition does not explain is charged: here an approximate sampler's.
        (Guarantee(epsilon=0.5, delta=1e-7, bounded_range=0.5), "0.5", None, "0.0000001"),
        (Guarantee(epsilon=10.0, delta=1e-7, draws=100, bounded_range=0.1), "10", None, "0.0000001"),
    ],
)
def test_costs(guarantee, pure, rho, delta):
    expected = Cost(pure=Fraction(pure), rho=None if rho is None else Fraction(rho), delta=Fraction(delta))
    assert cost_of(guarantee) == expected
    assert Cost.from_dict(expected.to_dict()) == expected


@pytest.mark.parametrize(
    ("draws", "delta"), [(1, 0.0), (3, 0.0), (7, 0.0), (1, 1e-6), (20, 1e-6), (300, 1e-9)]
)
def test_calibrated_guarantees_are_charged_by_their_range(draws, delta):
    guarantee = calibrate("bernoulli", epsilon=1.0, delta=delta, draws=draws).guarantee
    cost = cost_of(guarantee)
    assert cost.delta == 0
    assert cost.rho == draws * exact(guarantee.bounded_range) ** 2 / 8
    assert cost.pure == (exact(1.0) if delta == 0 else draws * exact(guarantee.bounded_range))


def test_a_guarantee_that_contradicts_itself_is_refused():
    with pytest.raises(LedgerError, match=r"contradicts itself: 2 draws of bounded range 0\.1 are 0\.2"):
        cost_of(Guarantee(epsilon=0.5, draws=2, bounded_range=0.1))
    with pytest.raises(InvalidInput, match="bounded_range > 0 and finite"):
        cost_of(Guarantee(epsilon=0.5, bounded_range=math.nan))


@pytest.mark.parametrize("text", ["0", "-1", "1/0", "nan"])
def test_a_cost_that_was_never_charged_is_not_read(text):
    with pytest.raises((ValueError, ZeroDivisionError)):
        Cost.from_dict({"pure": text, "rho": None, "delta": "0"})


# -- the limit against an independent conversion


def renyi_to_epsilon(renyi, order, delta):
    """Canonne, Kamath & Steinke 2020, Proposition 12, in the form printed there."""
    return renyi + math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_limit_converts_back_to_the_budget(epsilon, delta):
    budget = Budget.plan(epsilon=epsilon, delta=delta)
    assert renyi_to_epsilon(float(budget.limit), budget.order, delta) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_fixed_order_admits_as_much_rho_as_the_best(epsilon, delta):
    best = optimize.brentq(lambda rho: zcdp_to_epsilon(rho, delta=delta) - epsilon, 1e-9, 1e4, xtol=1e-14)
    budget = Budget.plan(epsilon=epsilon, delta=delta)
    assert float(budget.limit) / budget.order == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("parts", [3, 40])
def test_many_draws_are_admitted_up_to_the_larger_of_both_accounts(epsilon, delta, parts):
    width = epsilon / parts
    budget, cost = Budget.plan(epsilon=epsilon, delta=delta), cost_of(draw(width))
    by_sum = math.floor(exact(epsilon) / exact(width))
    by_renyi = math.floor(budget.limit / (exact(budget.order) * exact(width) ** 2 / 8))
    largest = max(by_sum, by_renyi)
    assert budget.admits([cost] * largest)
    assert not budget.admits([cost] * (largest + 1))


@pytest.mark.parametrize("count", [1, 5, 60, 400])
def test_spent_is_the_smaller_of_the_sum_and_the_concentrated_bound(count):
    budget, costs = Budget.plan(epsilon=5.0, delta=1e-6), [cost_of(draw(0.1))] * count
    concentrated = zcdp_to_epsilon(count * 0.1**2 / 8, delta=1e-6)
    spent, delta, how = budget.spent(costs)
    assert spent == pytest.approx(min(0.1 * count, concentrated), rel=1e-6)
    assert (delta, how) == ((0.0, "pure") if 0.1 * count < concentrated else (1e-6, "renyi"))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 2.0), st.booleans()), max_size=25),
    st.floats(0.1, 5.0),
    st.sampled_from([0.0, 1e-9, 1e-6, 1e-2]),
)
def test_what_remains_is_admitted_and_a_little_more_is_not(charges, epsilon, delta):
    budget, costs = Budget.plan(epsilon=epsilon, delta=delta), []
    for size, ranged in charges:
        cost = cost_of(draw(size) if ranged else Guarantee(epsilon=size))
        if budget.admits([*costs, cost]):
            costs.append(cost)
    assert budget.spent(costs)[0] <= epsilon
    left = budget.remaining(costs)
    if left > 0:
        assert budget.admits([*costs, cost_of(draw(left))])
    assert not budget.admits([*costs, cost_of(draw(max(left * (1 + 1e-9), 1e-9)))])


def test_charges_with_their_own_delta_are_added_on_top():
    budget = Budget.plan(epsilon=2.0, delta=1e-6, delta_for_charges=4e-7)
    other = cost_of(Guarantee(epsilon=0.5, delta=2e-7))
    draws = [cost_of(draw(0.05))] * 20
    spent, delta, how = budget.spent([*draws, other, other])
    assert how == "renyi"
    assert spent == pytest.approx(1.0 + zcdp_to_epsilon(20 * 0.05**2 / 8, delta=6e-7), rel=1e-6)
    assert delta == 1e-6
    assert budget.admits([*draws, other, other])
    assert not budget.admits([other, other, cost_of(Guarantee(epsilon=1e-9, delta=1e-300))])
    assert budget.remaining_delta([other]) == 2e-7


def test_a_delta_all_set_aside_leaves_plain_sums():
    budget = Budget.plan(epsilon=1.0, delta=1e-6, delta_for_charges=1e-6)
    half = cost_of(Guarantee(epsilon=0.5, delta=5e-7))
    assert budget.order is None
    assert budget.limit is None
    assert budget.admits([half, half])
    assert budget.spent([half, half]) == (1.0, 1e-6, "pure")
    assert not budget.admits([half, half, cost_of(Guarantee(epsilon=0.01))])


def test_more_cannot_be_set_aside_than_there_is():
    with pytest.raises(InvalidInput, match=r"delta_for_charges <= delta=1e-06, got delta_for_charges=1e-05"):
        Budget.plan(epsilon=1.0, delta=1e-6, delta_for_charges=1e-5)


# -- the theorem itself: the worst analyst, by backward induction


def two_point(width, top):
    """Privacy losses and their probabilities under P: the extreme mechanism of bounded range ``width``."""
    high = math.expm1(width - top) / math.expm1(width)  # under Q
    return ((top, high * math.exp(top)), (top - width, (1 - high) * math.exp(top - width)))


RESPONSE = 0.35
MECHANISMS = {
    # randomised response: pure, of bounded range twice its epsilon
    "response": (
        cost_of(Guarantee(epsilon=RESPONSE)),
        ((RESPONSE, 1 / (1 + math.exp(-RESPONSE))), (-RESPONSE, 1 / (1 + math.exp(RESPONSE)))),
    ),
    "draw, low": (cost_of(draw(0.5)), two_point(0.5, 0.15)),
    "draw, middle": (cost_of(draw(0.5)), two_point(0.5, 0.25)),
    "draw, high": (cost_of(draw(0.5)), two_point(0.5, 0.4)),
    # tells all with probability 0.02, and is 0.2-private otherwise
    "approximate": (
        cost_of(Guarantee(epsilon=0.2, delta=0.02)),
        ((math.inf, 0.02), (0.2, 0.98 / (1 + math.exp(-0.2))), (-0.2, 0.98 / (1 + math.exp(0.2)))),
    ),
}


def worst_delta(budget):
    """The delta at the budget's epsilon that the cleverest analyst reaches.

    The analyst sees each result in turn, then charges what the rule admits, or stops. Exact, for the
    mechanisms above.
    """
    names = list(MECHANISMS)

    @functools.cache
    def admitted(counts):
        costs = [MECHANISMS[n][0] for n, c in zip(names, counts, strict=True) for _ in range(c)]
        return budget.admits(costs)

    @functools.cache
    def value(counts, loss):
        if loss == math.inf:
            return 1.0
        best = max(0.0, -math.expm1(budget.epsilon - loss))
        for i, name in enumerate(names):
            more = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
            if admitted(more):
                outcomes = MECHANISMS[name][1]
                best = max(best, sum(p * value(more, round(loss + step, 9)) for step, p in outcomes))
        return best

    return value((0,) * len(names), 0.0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "aside"),
    [(0.6, 0.0, 0.0), (0.6, 0.1, 0.0), (0.6, 0.1, 0.04), (1.0, 0.02, 0.02), (1.2, 0.05, 0.0)],
)
def test_no_analyst_exceeds_the_budget(epsilon, delta, aside):
    budget = Budget.plan(epsilon=epsilon, delta=delta, delta_for_charges=aside)
    assert worst_delta(budget) <= delta + 1e-9


class Wrong(Budget):
    """A rule that counts a fourth of each rho, as if ranges were half as wide."""

    def admits(self, costs):
        return super().admits([replace(c, rho=None if c.rho is None else c.rho / 4) for c in costs])


class Forgetful(Budget):
    """A rule that forgets the deltas of the charges."""

    def admits(self, costs):
        return super().admits([replace(c, delta=Fraction(0)) for c in costs])


class Loose(Budget):
    """A pure sum that lets one charge too many pass."""

    def admits(self, costs):
        return super().admits(list(costs)[1:])


@pytest.mark.parametrize(
    ("rule", "epsilon", "delta"), [(Wrong, 0.4, 0.1), (Forgetful, 1.0, 0.01), (Loose, 0.7, 0.0)]
)
def test_a_rule_that_is_too_kind_is_caught(rule, epsilon, delta):
    sound = Budget.plan(epsilon=epsilon, delta=delta)
    wrong = rule(epsilon=epsilon, delta=delta, order=sound.order)
    assert worst_delta(wrong) > delta * 1.05
