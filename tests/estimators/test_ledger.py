# SPDX-License-Identifier: Apache-2.0
"""Estimators charge their ledger before they draw, however scikit-learn copies or distributes them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import onedraw
from onedraw.mechanisms import OnePosterior, TiltedFit


@pytest.fixture
def ledger(tmp_path: Path) -> onedraw.Ledger:
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    return ledger


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 1))
    return X, (rng.random(60) < 0.5 + 0.4 * X[:, 0]).astype(int)


def estimator(ledger: onedraw.Ledger, epsilon: float = 0.25) -> onedraw.LogisticRegression:
    return onedraw.LogisticRegression(
        epsilon=epsilon, classes=[0, 1], ledger=ledger, dataset="patients", random_state=0
    )


def spent(ledger: onedraw.Ledger) -> float:
    return float(ledger.show("patients").spent)


def test_a_fit_is_charged_and_its_release_holds_the_receipt(ledger, table) -> None:
    model = estimator(ledger).fit(*table)
    assert spent(ledger) == 0.25
    assert model.release_.receipt is not None
    assert model.release_.receipt["dataset"] == "patients"
    assert onedraw.Release.from_json(model.release_.to_json()).receipt == model.release_.receipt
    charges = [entry for entry in ledger.history("patients") if entry.kind == "charge"]
    assert [entry.mechanism for entry in charges] == [model.release_.mechanism.name] == ["tilted_fit"]


@pytest.mark.parametrize("copied", [clone, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_an_estimator_share_one_budget(ledger, table, copied) -> None:
    model = estimator(ledger)
    for _ in range(4):
        copied(model).fit(*table)
    with pytest.raises(onedraw.BudgetExceeded, match="patients"):
        copied(model).fit(*table)
    assert spent(ledger) == 1.0


def test_cross_validation_and_grid_search_charge_every_fit(ledger, table) -> None:
    cross_val_score(estimator(ledger, 0.125), *table, cv=4, error_score="raise", n_jobs=2)
    assert spent(ledger) == 0.5
    mechanisms = {"mechanism": [OnePosterior(prior_scale=scale) for scale in (1.0, 3.0)]}
    search = GridSearchCV(estimator(ledger, 0.1), mechanisms, cv=2, error_score="raise", refit=True)
    search.fit(*table)
    assert spent(ledger) == pytest.approx(1.0)


def test_a_draw_that_fails_leaves_the_budget_spent(ledger, table, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise onedraw.SamplingError("no draw")

    monkeypatch.setattr(TiltedFit, "_computed", fail)
    with pytest.raises(onedraw.SamplingError):
        estimator(ledger).fit(*table)
    assert spent(ledger) == 0.25


def test_nothing_is_drawn_beyond_the_budget(ledger, table, monkeypatch) -> None:
    monkeypatch.setattr(TiltedFit, "_computed", lambda *_: pytest.fail("computed before the charge"))
    model = estimator(ledger, 2.0)
    with pytest.raises(onedraw.BudgetExceeded):
        model.fit(*table)
    assert not hasattr(model, "release_")


class Unread:
    """A table whose names and sizes are public, and whose values may not be looked at."""

    shape = (60, 1)

    def __len__(self) -> int:
        return 60

    def __array__(self, *_: object, **__: object) -> None:
        pytest.fail("looked at the values")

    def __iter__(self) -> None:
        pytest.fail("looked at the values")

    __getitem__ = __iter__


HOPELESS = Unread(), Unread()


@pytest.mark.parametrize("options", [{}, {"draws": "auto"}, {"draws": 7}])
@pytest.mark.parametrize(
    "kind",
    [
        onedraw.LogisticRegression,
        onedraw.LinearRegression,
        onedraw.PoissonRegressor,
        onedraw.NegativeBinomialRegressor,
    ],
)
def test_who_has_no_budget_is_refused_before_the_data_are_read(ledger, kind, options) -> None:
    """With any data: the same error, so nothing can be learned about them from it."""
    if "classes" in kind().get_params():
        options = {**options, "classes": [0, 1]}
    ledger.charge("patients", onedraw.Guarantee(epsilon=0.9))
    model = kind(epsilon=0.25, ledger=ledger, dataset="patients", **options)
    with pytest.raises(
        onedraw.BudgetExceeded, match=r"epsilon=0\.25 on dataset 'patients': 0\.1 of 1 remains"
    ):
        model.fit(*HOPELESS)
    with pytest.raises(onedraw.UnknownDataset):
        model.set_params(dataset="strangers").fit(*HOPELESS)
    assert spent(ledger) == 0.9


def test_classes_are_declared_where_a_ledger_is_charged(ledger) -> None:
    """To read them from the labels would be an uncharged look; no label is read."""
    model = onedraw.LogisticRegression(epsilon=0.25, ledger=ledger, dataset="patients")
    with pytest.raises(onedraw.InvalidInput, match=r"Set classes=\[\.\.\.\]"):
        model.fit(*HOPELESS)
    assert spent(ledger) == 0.0


def test_a_fit_that_needs_less_than_its_epsilon_is_admitted(ledger, table) -> None:
    """Beta and the weight may promise more privacy than asked for; that is what counts, and is charged."""
    ledger.charge("patients", onedraw.Guarantee(epsilon=0.9))
    model = estimator(ledger, 2.0).set_params(mechanism=OnePosterior(beta=2.0, weight=0.04))
    model.fit(*table)
    assert model.guarantee_.epsilon == pytest.approx(0.08)
    assert spent(ledger) == pytest.approx(0.98)


def test_draws_chosen_later_may_cost_less_and_are_admitted(tmp_path, table) -> None:
    """One draw of epsilon 2 exceeds this budget by a little, several that share it do not."""
    ledger = onedraw.Ledger(tmp_path / "concentrated.db")
    ledger.create("patients", epsilon=1.9, delta=1e-2)
    model = onedraw.LogisticRegression(
        epsilon=2.0, classes=[0, 1], ledger=ledger, dataset="patients", draws="auto", random_state=0
    )
    with pytest.raises(onedraw.BudgetExceeded):
        ledger.check_affordable("patients", onedraw.Guarantee(epsilon=2.0, bounded_range=2.0))
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (4000, 1))
    model.fit(X, (rng.random(4000) < 0.5).astype(int))
    assert model.guarantee_.draws > 1


def test_ledger_and_dataset_come_together(ledger, table) -> None:
    with pytest.raises(onedraw.InvalidInput, match="ledger and dataset together"):
        onedraw.LinearRegression(epsilon=1.0, ledger=ledger).fit(*table)
    with pytest.raises(onedraw.InvalidInput, match="ledger and dataset together"):
        onedraw.PoissonRegressor(epsilon=1.0, dataset="patients").fit(*table)
    with pytest.raises(onedraw.InvalidInput, match=r"to be an onedraw\.Ledger, got str"):
        onedraw.LinearRegression(epsilon=1.0, ledger="budget.db", dataset="patients").fit(*table)


@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": OnePosterior(evidence="proved"), "max_features": 6},
        {"mechanism": OnePosterior(evidence="enumerated"), "max_features": 9},
        {"random_state": "x"},
        {"mechanism": "output_perturbation"},
        {"draws": "auto", "mechanism": OnePosterior(evidence="enumerated")},
    ],
)
def test_a_refusal_by_public_facts_costs_nothing(ledger, options) -> None:
    rng = np.random.default_rng(0)
    width = options.get("max_features", 1)
    options = {name: value for name, value in options.items() if name != "max_features"}
    X, y = rng.normal(size=(50, width)), rng.integers(0, 2, 50)
    with pytest.raises(onedraw.InvalidInput):
        estimator(ledger).set_params(**options).fit(X, y)
    assert spent(ledger) == 0.0
