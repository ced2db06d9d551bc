# SPDX-License-Identifier: Apache-2.0
"""Networks fitted by noisy gradients under the estimators: same data, same release, same ledger."""

import functools

import numpy as np
import pytest
from sklearn.base import clone

import onedraw
from onedraw.estimators import from_release
from onedraw.nn import DPSGD, DPVI, BetaSGD
from onedraw.registry import MECHANISMS, read_mechanism
from onedraw.release import Made

pytest.importorskip("jax")
pytest.importorskip("jax_privacy")
pytestmark = pytest.mark.jax

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, size=(300, 2))
LABELS = np.where(X[:, 0] > 5, "yes", "no")
RESPONSE = 20 + 3 * X[:, 0] + RNG.normal(size=300)
COMMON = {
    "epsilon": 40.0,
    "delta": 1e-5,
    "feature_bounds": (0, 10),
    "random_state": 0,
    "hidden_layer_sizes": (),
}
FAST = {"epochs": 20, "learning_rate": 0.1}
PAIRS = {
    "dp_sgd": onedraw.MLPRegressor(
        **COMMON, target_bounds=(20, 50), mechanism=DPSGD(**FAST, noise_floor=0.5)
    ),
    "beta_sgd": onedraw.MLPClassifier(
        **COMMON, classes=["no", "yes"], mechanism=BetaSGD(**FAST, beta=2.0, feature_norm=1.8)
    ),
    "dp_vi": onedraw.MLPClassifier(
        **COMMON, classes=["no", "yes"], mechanism=DPVI(**FAST, prior_scale=3.0, draws=7, clip=2.0)
    ),
}
every = pytest.mark.parametrize("name", PAIRS)


def table(name):
    return X, RESPONSE if name == "dp_sgd" else LABELS


@functools.cache
def fitted(name):
    return clone(PAIRS[name]).fit(*table(name))


def test_every_pair_is_driven():
    networks = {name for name, kind in MECHANISMS.items() if "network" in kind.requirements.forms}
    assert set(PAIRS) == networks - {"network_draw"}


@every
def test_the_fit_is_useful_and_says_how_it_was_made(name):
    model, (features, target) = fitted(name), table(name)
    assert model.score(features, target) > 0.8
    release = model.release_
    assert release.mechanism.name == name
    assert release.mechanism.numbers["declared_num_records"] == release.num_records == 300
    assert len(release.draws) == getattr(PAIRS[name].mechanism, "draws", 1) == release.guarantee.draws
    assert "Each person holds one row." in release.assumptions


@every
def test_a_release_is_rebuilt_and_its_options_fit_it_again(name):
    model, (features, target) = fitted(name), table(name)
    rebuilt = from_release(onedraw.Release.from_json(model.release_.to_json()))
    np.testing.assert_array_equal(rebuilt.predict(features), model.predict(features))
    again = clone(rebuilt).set_params(random_state=0).fit(features, target)
    np.testing.assert_allclose(again.release_.draws, model.release_.draws, rtol=1e-9, atol=1e-9)
    assert again.release_.mechanism == model.release_.mechanism
    assert rebuilt.mechanism == PAIRS[name].mechanism


def test_a_fit_is_charged_before_it_is_made(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=50.0, delta=1e-4, delta_for_charges=1e-4)
    model = clone(PAIRS["dp_vi"]).set_params(ledger=ledger, dataset="patients").fit(X, LABELS)
    assert ledger.show("patients").spent == 40.0
    with pytest.raises(onedraw.BudgetExceeded):
        model.fit(np.full_like(X, np.nan), ["what is here", "does not matter"] * 150)


@pytest.mark.parametrize("ledger_exists", [True, False])
def test_labels_are_not_read_without_budget_where_the_schedule_needs_the_number_of_rows(
    ledger_exists, tmp_path
):
    """Undeclared classes would be read from the labels: where a ledger is charged they must be declared."""
    model = onedraw.MLPClassifier(**{**COMMON, "mechanism": DPSGD(epochs=1)})
    if ledger_exists:
        ledger = onedraw.Ledger(tmp_path / "budget.db")
        ledger.create("patients", epsilon=1.0, delta=1e-4, delta_for_charges=1e-4)
        model.set_params(ledger=ledger, dataset="patients")
    why = "declared classes where a ledger is charged" if ledger_exists else "class"
    with pytest.raises(onedraw.InvalidInput, match=why):
        model.fit(X, ["all of them are of one class"] * 300)


def test_the_paper_schedule_is_the_default():
    model = onedraw.MLPClassifier(epsilon=1.0, delta=1e-5, mechanism="dp_sgd", random_state=0).fit(X, LABELS)
    told = model.release_.mechanism.numbers
    assert (told["epochs"], told["batch_size"], told["learning_rate"], told["gradient_norm"]) == (
        15,
        100,
        0.01,
        1,
    )
    assert (told["steps"], told["sampling_rate"]) == (45, 1 / 3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dp_sgd", {"mechanism": "dpsgd"}, "Did you mean 'dp_sgd'"),
        ("dp_sgd", {"delta": 0.0}, "no guarantee at delta=0"),
        ("dp_sgd", {"draws": 2}, "DPSGD makes one release, got draws=2"),
        ("dp_sgd", {"mechanism": DPSGD(beta="paper")}, "Expected beta > 1"),
        ("dp_sgd", {"mechanism": BetaSGD(feature_norm=2.0)}, "two classes.*got a regression"),
        ("dp_sgd", {"neighbours": "add_remove"}, "needs num_records: .* Set DPSGD"),
        ("beta_sgd", {"mechanism": "beta_sgd"}, "needs feature_norm: without clipping"),
        ("beta_sgd", {"mechanism": DPSGD(noise_floor=0.5)}, "does not apply to a network model"),
    ],
)
def test_what_cannot_be_is_refused(name, options, message):
    with pytest.raises(onedraw.InvalidInput, match=message):
        clone(PAIRS[name]).set_params(**options).fit(*table(name))


def test_an_unknown_option_in_a_file_names_the_nearest_known_one():
    with pytest.raises(onedraw.InvalidInput, match="Did you mean 'epochs'"):
        read_mechanism(Made(name="dp_sgd", options={"epoch": 3}))


def test_a_declared_number_of_records_serves_where_the_true_one_is_private():
    mechanism = BetaSGD(num_records=250, feature_norm=1.8, epochs=2)
    model = clone(PAIRS["beta_sgd"]).set_params(neighbours="add_remove", mechanism=mechanism)
    release = model.fit(X, LABELS).release_
    assert (release.num_records, release.mechanism.numbers["declared_num_records"]) == (None, 250)
    assert any("num_records=250 was declared" in line for line in release.assumptions)
