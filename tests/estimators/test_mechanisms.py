# SPDX-License-Identifier: Apache-2.0
"""Another mechanism under the same estimator: same data, same release, same ledger, same checks."""

import functools
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import onedraw
from onedraw.estimators import from_release
from onedraw.estimators.offered import DEFAULT, OFFERS, offered

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 2))
LABELS = np.where(RNG.random(300) < 1 / (1 + np.exp(-3 * X[:, 0])), "yes", "no")
RESPONSE = 10 + 5 * X[:, 0] + RNG.normal(size=300)
CLASSES = {"classes": ["no", "yes"]}
LINEAR = {"target_bounds": (0, 20), "feature_norm": 3**0.5, "response_bound": 10.0}

FINE = {
    "lipschitz_gibbs": {"draw": "exact", "formula": "published"},
    "output_perturbation": {"noise": "laplace", "tolerance": 1e-4},
    "objective_perturbation": {"solver_share": 0.02, "tolerance": 1e-5},
    "adassp": {"failure": 0.2},
    "sufficient_statistics": {"draws": 20},
    "noise_aware": {"draws": 5, "warm_up": 10, "thin": 2},
}

PAIRS = {
    "gibbs": onedraw.LogisticRegression(epsilon=2.0, feature_norm=3**0.5, prior_box=1.0, draws=2, **CLASSES),
    "lipschitz_gibbs": onedraw.LogisticRegression(
        epsilon=2.0, delta=1e-6, feature_norm=3**0.5, prior_scale=2.0, **CLASSES
    ),
    "output_perturbation": onedraw.LogisticRegression(
        epsilon=2.0, feature_norm=3**0.5, regularisation=0.1, **CLASSES
    ),
    "objective_perturbation": onedraw.LogisticRegression(epsilon=2.0, feature_norm=3**0.5, **CLASSES),
    "adassp": onedraw.LinearRegression(epsilon=2.0, delta=1e-6, **LINEAR),
    "sufficient_statistics": onedraw.LinearRegression(epsilon=2.0, noise_scale=1.0, **LINEAR),
    "noise_aware": onedraw.LinearRegression(epsilon=2.0, noise_scale=1.0, prior_scale=2.0, **LINEAR),
}
for name, estimator in PAIRS.items():
    estimator.set_params(mechanism=name, random_state=0)
every = pytest.mark.parametrize("name", PAIRS)
every_but_the_chain = pytest.mark.parametrize("name", [name for name in PAIRS if name != "noise_aware"])
"""The noise-aware chain is slow, and reads its records as "sufficient_statistics" does."""


@functools.cache
def fitted(name):
    """Fitted once; nothing below changes it."""
    return clone(PAIRS[name]).fit(*table(name))


def target(name):
    return LABELS if isinstance(PAIRS[name], onedraw.LogisticRegression) else RESPONSE


def table(name):
    """One feature for the noise-aware chain, whose time grows fast with their number."""
    return (X[:, :1] if name == "noise_aware" else X), target(name)


def test_every_pair_is_driven():
    assert set(PAIRS) == set(OFFERS)
    assert set(offered(("logistic", "multinomial"))) | set(offered(("linear",))) == {DEFAULT, *OFFERS}
    assert offered(("poisson",)) == (DEFAULT,)


@every
def test_a_pair_from_ledger_to_rebuilt_estimator(name, tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=3.0, delta=1e-5, delta_for_charges=1e-5)
    model = clone(PAIRS[name]).set_params(ledger=ledger, dataset="patients").fit(*table(name))
    release = model.release_
    assert ledger.show("patients").spent == 2.0
    assert release.receipt["dataset"] == "patients"
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (2.0, PAIRS[name].delta)
    assert release.mechanism["name"] == OFFERS[name].mechanism.name
    assert any(f"feature_norm={3**0.5:g}" in line for line in release.assumptions)
    assert "Each person holds one row." in release.assumptions
    reread = onedraw.Release.from_json(release.to_json())
    assert reread == release
    rebuilt = from_release(reread)
    features = table(name)[0]
    for copied in (rebuilt, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copied.predict(features), model.predict(features))
        np.testing.assert_array_equal(copied.coef_, model.coef_)
    again = clone(rebuilt).set_params(random_state=0).fit(*table(name))
    np.testing.assert_allclose(again.release_.draws, release.draws, rtol=1e-9, atol=1e-9)
    assert again.release_.mechanism == pytest.approx(release.mechanism)
    with pytest.raises(onedraw.BudgetExceeded):
        model.fit("what is here", "does not matter")


@every
def test_the_estimator_passes_its_options_to_the_mechanism(name):
    """The release equals that of the mechanism by itself, given the same records in working units."""
    mechanism, described, data, assumptions = clone(PAIRS[name])._prepare(*table(name))
    alone = mechanism.release(data, model=described, random_state=0, assumptions=assumptions)
    assert alone.draws == fitted(name).release_.draws
    assert getattr(mechanism, "response_bound", 1.0) == 1.0  # ten units of y are one working unit
    assert getattr(mechanism, "residual_scale", 0.1) == 0.1
    assert mechanism.guarantee.draws == (
        1000 if "residual_scale" in mechanism.description else PAIRS[name].draws
    )


@pytest.mark.parametrize("name", FINE)
def test_finer_settings_reach_the_mechanism_and_are_told_by_the_release(name):
    assert set(FINE[name]) == set(OFFERS[name].settings)
    model = clone(PAIRS[name]).set_params(mechanism_options=FINE[name])
    mechanism = model._prepare(*table(name))[0]
    assert {setting: getattr(mechanism, setting) for setting in FINE[name]} == FINE[name]
    release = onedraw.Release.from_json(model.fit(*table(name)).release_.to_json())
    assert len(release.draws) == FINE[name].get("draws", 1)
    rebuilt = from_release(release)
    assert rebuilt.mechanism_options == FINE[name]
    again = clone(rebuilt).set_params(random_state=0).fit(*table(name))
    np.testing.assert_allclose(again.release_.draws, release.draws, rtol=1e-9, atol=1e-9)


def test_settings_that_a_mechanism_does_not_have_are_refused():
    for name, given, message in (
        ("adassp", {"draws": 3}, "Expected option to be one of 'failure', got option='draws'"),
        ("noise_aware", {"draw": 3}, "Did you mean 'draws'"),
        ("noise_aware", {"draws": 0}, "got draws=0"),
        ("output_perturbation", "laplace", "Expected mechanism_options to be a dict"),
        ("gibbs", {"noise": "laplace"}, "mechanism_options=.* is not used by mechanism='gibbs'"),
    ):
        with pytest.raises(onedraw.InvalidInput, match=message):
            clone(PAIRS[name]).set_params(mechanism_options=given).fit(*table(name))
    with pytest.raises(onedraw.InvalidInput, match="is not used by mechanism='beta_divergence'"):
        onedraw.PoissonRegressor(epsilon=1.0, mechanism_options={"draws": 3}).fit(X, np.ones(300))


@every_but_the_chain
def test_a_large_epsilon_finds_the_direction(name):
    """Utility, coarsely: the first feature matters, and more than the second."""
    coefficients = np.ravel(clone(PAIRS[name]).set_params(epsilon=1000.0).fit(*table(name)).coef_)
    assert coefficients[0] > 2 * abs(coefficients[1])


@every
@pytest.mark.parametrize("bound", ["feature_norm", "response_bound", "prior_box"])
def test_a_missing_bound_is_explained(name, bound):
    if bound not in OFFERS[name].options:
        return
    with pytest.raises(
        onedraw.InvalidInput, match=rf"needs .*{bound}=\.\.\..*beta-divergence.*needs no bound"
    ):
        clone(PAIRS[name]).set_params(**{bound: None}).fit(*table(name))


@every
def test_an_option_that_it_would_ignore_is_refused(name):
    changes = {
        "beta": 1.5,
        "weight": 0.1,
        "engine": "grid",
        "evidence": "proved",
        "draws": 3,
        "prior_scale": 1.0,
        "regularisation": 0.2,
        "prior_box": 2.0,
        "response_bound": 1.0,
        "noise_floor": 0.2,
        "noise_scale": 0.2,
    }
    for option, value in changes.items():
        if option in OFFERS[name].options or option not in PAIRS[name].get_params():
            continue
        with pytest.raises(
            onedraw.InvalidInput, match=rf"{option}={value!r} is not used .*{name}.* it uses feature_norm"
        ):
            clone(PAIRS[name]).set_params(**{option: value}).fit(*table(name))


def test_the_default_refuses_bounds_that_it_does_not_need():
    with pytest.raises(
        onedraw.InvalidInput, match=r"feature_norm=1\.0 is not used by mechanism='beta_diverg"
    ):
        onedraw.LogisticRegression(epsilon=1.0, feature_norm=1.0).fit(X, LABELS)
    with pytest.raises(onedraw.InvalidInput, match=r"which needs no bound on the data; it uses beta, weight"):
        onedraw.LinearRegression(epsilon=1.0, response_bound=1.0).fit(X, RESPONSE)


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (onedraw.LogisticRegression(mechanism="adassp"), LABELS, "mechanism to be one of 'beta_divergence'"),
        (onedraw.LinearRegression(mechanism="gibs"), RESPONSE, "mechanism to be one of"),
        (onedraw.PoissonRegressor(mechanism="gibbs"), np.ones(300), "mechanism to be one of 'beta_diver"),
        (
            onedraw.LogisticRegression(mechanism="output_perturbation", feature_norm=1.0),
            RNG.integers(0, 3, 300),
            "is for logistic models, got a multinomial one",
        ),
        (
            onedraw.LogisticRegression(mechanism="gibbs", draws="auto", feature_norm=1.0, prior_box=1.0),
            LABELS,
            "draws='auto' is for mechanism='beta_divergence'",
        ),
        (
            onedraw.LogisticRegression(mechanism="output_perturbation", feature_norm=1.0, rows_per_person=2),
            LABELS,
            "rows_per_person=1 only",
        ),
    ],
)
def test_what_a_mechanism_cannot_do_is_refused(model, y, message):
    with pytest.raises(onedraw.InvalidInput, match=message):
        model.set_params(epsilon=1.0).fit(X, y)


@every_but_the_chain
def test_features_beyond_the_bound_are_clipped(name):
    """A million times too long or clipped by hand: the same draw."""
    model = clone(PAIRS[name]).set_params(fit_intercept=False, feature_norm=1.0)
    directions = X / np.linalg.norm(X, axis=1, keepdims=True)
    draws = [clone(model).fit(scale * directions, target(name)).release_.draws for scale in (1e6, 2.0)]
    np.testing.assert_allclose(draws[0], draws[1], rtol=1e-6, atol=1e-9)


def test_linear_regression_has_a_scale_only_where_one_is_released():
    model = onedraw.LinearRegression(epsilon=1.0, random_state=0).fit(X, RESPONSE)
    assert model.scale_ > 0
    model.set_params(mechanism="adassp", delta=1e-6, feature_norm=2.0, response_bound=20.0).fit(X, RESPONSE)
    assert not hasattr(model, "scale_")
    assert "(scale)" not in model.release_.named_parameters()


def test_grid_search_compares_mechanisms():
    search = GridSearchCV(
        onedraw.LogisticRegression(epsilon=5.0, feature_norm=2.0, random_state=0, **CLASSES),
        {"mechanism": ["output_perturbation", "objective_perturbation"], "regularisation": [0.01, 1.0]},
        cv=2,
        error_score="raise",
    )
    assert search.fit(X, LABELS).best_params_["regularisation"] in (0.01, 1.0)


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "noise_aware"])
def test_a_mechanism_without_known_intervals_says_so(name):
    with pytest.raises(onedraw.InvalidInput, match=r"has no intervals.*mechanism='beta_divergence'"):
        fitted(name).conf_int()


def test_the_noise_aware_posterior_gives_intervals_in_original_units():
    """Its quantiles, with the true coefficients well within them. Coverage is tested with the mechanism."""
    model = fitted("noise_aware")
    found = model.conf_int(0.9)
    draws = model.release_.parameters.flat()
    np.testing.assert_allclose(found, np.quantile(draws, [0.05, 0.95], axis=0).T)
    wide = model.conf_int(0.999)
    assert ((wide[:, 0] < [5, 10]) & (wide[:, 1] > [5, 10])).all()
    np.testing.assert_array_equal(from_release(model.release_).conf_int(0.9), found)
    assert model.summary().names == ("x0", "(intercept)")
    with pytest.raises(onedraw.InvalidInput, match=r"got level=2\.0"):
        model.conf_int(2.0)
