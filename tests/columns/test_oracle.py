# SPDX-License-Identifier: Apache-2.0
"""Refusals are no free oracles. The attack: declare everything but one value, and look how the fit ends."""

import numpy as np
import pytest

import onedraw
from onedraw.columns import Column, Columns, Target

N = 60


def table(**first):
    """Harmless people, and one whose values are asked about."""
    rng = np.random.default_rng(0)
    people = {
        "age": rng.integers(18, 90, N).astype(float).tolist(),
        "virus": rng.choice(["a", "b"], N).tolist(),
        "status": rng.choice(["alive", "dead"], N).tolist(),
        "visits": rng.poisson(2.0, N).tolist(),
    }
    for name, value in first.items():
        people[name][0] = value
    return people


# By what the attacker asks: the two neighbouring tables, the model and its target, the rule that settles it.
QUESTIONS = {
    "a category": (table(), table(virus="c"), onedraw.LogisticRegression, "status"),
    "a class": (table(), table(status="unborn"), onedraw.LogisticRegression, "status"),
    "a missing number": (table(), table(age=float("nan")), onedraw.LogisticRegression, "status"),
    "a number that is none": (table(), table(age="old"), onedraw.LogisticRegression, "status"),
    "a missing class": (table(), table(status=None), onedraw.LogisticRegression, "status"),
    "a negative count": (table(), table(visits=-1), onedraw.PoissonRegressor, "visits"),
    "a fraction": (table(), table(visits=2.5), onedraw.PoissonRegressor, "visits"),
    "a missing count": (table(), table(visits=None), onedraw.PoissonRegressor, "visits"),
    "a response that is no number": (table(), table(visits="x"), onedraw.LinearRegression, "visits"),
}


def declared(target, *, rules):
    """Every value of the harmless table and nothing else; with or without a rule for what else may be."""
    age = {"missing": "middle"} if rules else {}
    virus = {"unknown": "b"} if rules else {}
    response = {"name": target}
    if target == "status":
        response |= {"classes": ("alive", "dead"), **({"unknown": "alive"} if rules else {})}
    elif rules:
        response |= {"unknown": 0, "missing": 0}
    return Columns(
        {"age": Column(bounds=(18, 100), **age), "virus": Column(categories=("a", "b"), **virus)},
        Target(**response),
        use=["age", "virus"],
    )


@pytest.fixture
def ledger(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    return ledger


def answer(kind, people, **options):
    """What the attacker sees: how the fit ended."""
    try:
        kind(epsilon=0.5, **options).fit(people)
    except onedraw.OnedrawError as error:
        return str(error)
    return "released"


@pytest.mark.parametrize("question", QUESTIONS)
def test_with_a_rule_for_every_value_nothing_can_be_asked(question):
    without, with_it, kind, target = QUESTIONS[question]
    columns = declared(target, rules=True)
    assert answer(kind, without, columns=columns) == answer(kind, with_it, columns=columns) == "released"


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_value_that_is_not_foreseen_is_released_as_the_one_it_counts_as(question):
    """The map of a record: for one seed, the release is that of the table with the value of the rule."""
    _, asked, kind, target = QUESTIONS[question]
    settled = {"age": 59.0, "virus": "b", "status": "alive", "visits": 0}
    (name,) = [
        name for name in settled if asked[name][0] != table()[name][0] or asked[name][0] != asked[name][0]
    ]
    options = {"epsilon": 0.5, "columns": declared(target, rules=True), "random_state": 3}
    found = [kind(**options).fit(people).release_.draws for people in (asked, table(**{name: settled[name]}))]
    assert found[0] == found[1]


@pytest.mark.parametrize("question", QUESTIONS)
def test_without_a_rule_every_answer_is_charged_for_and_the_questions_run_out(question, ledger):
    without, with_it, kind, target = QUESTIONS[question]
    columns = declared(target, rules=False)
    paying = {"columns": columns, "ledger": ledger, "dataset": "patients"}
    refused = answer(kind, with_it, **paying)
    assert "The charge stands" in refused
    assert "estimator.check(X, y)" in refused
    assert ledger.show("patients").spent == 0.5
    assert answer(kind, without, **paying) == "released"
    assert ledger.show("patients").unreleased == 1
    assert "0 of 1 remains" in answer(kind, with_it, **paying) == answer(kind, without, **paying)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_owner_finds_such_rows_before_a_fit(question, ledger):
    without, with_it, kind, target = QUESTIONS[question]
    model = kind(epsilon=0.5, columns=declared(target, rules=False), ledger=ledger, dataset="patients")
    model.check(without)
    with pytest.raises(onedraw.InvalidInput) as found:
        model.check(with_it)
    assert "charge" not in str(found.value)
    assert ledger.show("patients").spent == 0.0


def test_plain_arrays_are_charged_for_before_they_are_read(ledger):
    X, y = np.full((20, 1), np.nan), np.arange(20) % 2
    model = onedraw.LogisticRegression(epsilon=0.5, classes=[0, 1], ledger=ledger, dataset="patients")
    with pytest.raises(onedraw.InvalidInput, match="The charge stands"):
        model.fit(X, y)
    with pytest.raises(onedraw.InvalidInput, match="inconsistent"):
        model.fit(np.zeros((20, 1)), y[1:])  # lengths are public here, and cost nothing
    assert ledger.show("patients").spent == 0.5
