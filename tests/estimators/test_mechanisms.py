# SPDX-License-Identifier: Apache-2.0
"""Another mechanism under the same estimator: same data, same release, same ledger, same checks."""

import dataclasses
import functools
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import onedraw
from onedraw.estimators import from_release
from onedraw.estimators.kinds import ESTIMATORS
from onedraw.mechanisms import (
    AdaSSP,
    AtomSampler,
    DefensiveRejection,
    FastMH,
    GibbsPosterior,
    LinearNoiseAware,
    LinearSSP,
    LipschitzGibbs,
    MinibatchBarker,
    OnePosterior,
    OutputPerturbation,
    PenaltyChain,
    PrivateBarker,
    PrivateHMC,
    PrivateSGLD,
    ProposalDraw,
    Shape,
    TiltedFit,
)
from onedraw.private import opened
from onedraw.publishing import Private, make_plan, publish
from onedraw.registry import MECHANISMS

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 2))
LABELS = np.where(RNG.random(300) < 1 / (1 + np.exp(-3 * X[:, 0])), "yes", "no")
RESPONSE = 10 + 5 * X[:, 0] + RNG.normal(size=300)
CLASSES = {"classes": ["no", "yes"]}
NORM = {"feature_norm": 3**0.5}
BOUNDS = {**NORM, "response_bound": 10.0}

DRIVEN = {
    "tilted_fit": TiltedFit(curvature_share=0.3, cut=2.0),
    "one_posterior": OnePosterior(beta=2.5, prior_scale=2.0),
    "gibbs_posterior": GibbsPosterior(**NORM, prior_scale=2.0),
    "lipschitz_gibbs": LipschitzGibbs(**NORM, prior_scale=2.0, formula="published"),
    "output_perturbation": OutputPerturbation(**NORM, regularisation=0.1, noise="laplace", tolerance=1e-4),
    "proposal_draw": ProposalDraw(prior_scale=2.0, proposals=512),
    "defensive_rejection": DefensiveRejection(prior_scale=2.0, defence=0.002),
    "atom_sampler": AtomSampler(prior_scale=2.0, defence=0.005),
    "private_barker": PrivateBarker(**NORM, prior_scale=2.0, first_stage=0.3, most_passes=300),
    "minibatch_barker": MinibatchBarker(**NORM, prior_scale=2.0, batch=100, most_passes=50),
    "fast_mh": FastMH(**NORM, prior_scale=2.0, overhead=0.3, most_passes=100),
    "penalty_chain": PenaltyChain(**NORM, prior_scale=2.0, most_passes=300),
    "private_hmc": PrivateHMC(**NORM, prior_scale=2.0, most_passes=300, leapfrog=3),
    "private_sgld": PrivateSGLD(**NORM, prior_scale=2.0, most_passes=300),
    "adassp": AdaSSP(**BOUNDS, failure=0.2),
    "linear_ssp": LinearSSP(**BOUNDS, residual_scale=1.0, draws=20),
    "linear_noise_aware": LinearNoiseAware(**BOUNDS, residual_scale=1.0, prior_scale=2.0, warm_up=50),
}
"""Each with options of its own, none of them the default."""
every = pytest.mark.parametrize("name", DRIVEN)
every_but_the_chain = pytest.mark.parametrize(
    "name", [name for name in DRIVEN if name != "linear_noise_aware"]
)
"""The noise-aware chain is slow, and reads its records as "linear_ssp" does."""


def estimator(name, mechanism=None, **options):
    mechanism = mechanism or DRIVEN[name]
    required = mechanism.requirements
    options = {
        "epsilon": 2.0,
        "delta": 1e-6 if required.delta == "needed" else 0.0,
        "draws": 2 if required.draws != "one" else 1,
        "mechanism": mechanism,
        "random_state": 0,
        **options,
    }
    if "bernoulli" not in required.families and "gaussian" in required.families:
        return onedraw.LinearRegression(**{"target_bounds": (0, 20), **options})
    return onedraw.LogisticRegression(**{**CLASSES, **options})


@functools.cache
def fitted(name):
    """Fitted once; nothing below changes it."""
    return estimator(name).fit(*table(name))


def table(name):
    """One feature for the noise-aware chain, whose time grows fast with their number."""
    features = X[:, :1] if name == "linear_noise_aware" else X
    logistic = not isinstance(estimator(name), onedraw.LinearRegression)
    return features, LABELS if logistic else RESPONSE


def test_every_mechanism_with_features_is_driven():
    expected = {
        name
        for name, kind in MECHANISMS.items()
        if "regression" in kind.requirements.forms and not kind.requirements.intercept_only
    }
    assert set(DRIVEN) == expected


@every
def test_a_pair_from_ledger_to_rebuilt_estimator(name, tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=3.0, delta=1e-5, delta_for_charges=1e-5)
    model = estimator(name, ledger=ledger, dataset="patients").fit(*table(name))
    release = model.release_
    assert ledger.show("patients").spent == 2.0
    assert [row.mechanism for row in ledger.history("patients") if row.kind == "charge"] == [name]
    assert release.receipt["dataset"] == "patients"
    assert release.draws == fitted(name).release_.draws
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (2.0, model.delta)
    assert release.mechanism.name == name
    if "feature_norm" in model.mechanism.option_names():
        assert any(f"feature_norm={3**0.5:g}" in line for line in release.assumptions)
    assert "Each person holds one row." in release.assumptions
    reread = onedraw.Release.from_json(release.to_json())
    assert reread == release
    rebuilt = from_release(reread)
    assert rebuilt.mechanism == DRIVEN[name]
    features = table(name)[0]
    for copied in (rebuilt, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copied.predict(features), model.predict(features))
        np.testing.assert_array_equal(copied.coef_, model.coef_)
    again = clone(rebuilt).set_params(random_state=0).fit(*table(name))
    assert again.release_.draws == release.draws
    assert again.release_.mechanism == release.mechanism
    with pytest.raises(onedraw.BudgetExceeded):
        model.fit(*table(name))


@every
def test_the_estimator_is_an_adapter_of_publish(name):
    """The release equals that of a plan and records in working units, made by hand."""
    model = estimator(name)
    features, target = table(name)
    described = fitted(name).plan_.model
    plain = dataclasses.replace(described, has_scale=False) if described.has_scale else described
    plan = make_plan(model._request(), model.mechanism, Shape(model=plain, num_records=300))
    model._see(features, target)
    data = opened(model._read(features, target, described))
    assert publish(plan, lambda: Private(data), random_state=0) == fitted(name).release_
    np.testing.assert_array_equal(data.features, features)
    expected = (target - 10) / 10 if target is RESPONSE else (target == "yes").astype(float)
    np.testing.assert_allclose(data.response, expected)
    assert plan == fitted(name).plan_


@every
def test_a_plan_is_what_a_fit_keeps(name):
    """Before the fit, from the table's names and size alone."""
    features, _ = table(name)
    plan = estimator(name).plan(features)
    assert plan == fitted(name).plan_
    assert plan.guarantee == fitted(name).guarantee_
    assert plan.assumptions == fitted(name).release_.assumptions
    assert plan.mechanism.made == fitted(name).release_.mechanism
    assert str(plan.guarantee)[1:] in str(plan)
    assert f"Mechanism: {name}" in str(plan)
    assert "A ledger would be charged epsilon 2" in str(plan)


@every
def test_the_options_reach_the_mechanism_and_are_told_by_the_release(name):
    release = onedraw.Release.from_json(fitted(name).release_.to_json())
    assert release.mechanism.options == DRIVEN[name].options
    assert len(release.draws) == DRIVEN[name].options.get("draws", estimator(name).draws)


@every
def test_a_name_stands_for_the_mechanism_with_its_defaults(name):
    mechanism = MECHANISMS[name]()
    if mechanism.requirements.needs:
        first = next(iter(mechanism.requirements.needs))
        with pytest.raises(onedraw.InvalidInput, match=rf"needs {first}: .*needs no bound on the data"):
            estimator(name).set_params(mechanism=name).fit(*table(name))
    else:
        models = [estimator(name).set_params(mechanism=given) for given in (name, mechanism)]
        assert models[0].fit(*table(name)).release_ == models[1].fit(*table(name)).release_


def test_what_auto_means_is_told_by_the_release():
    model = onedraw.PoissonRegressor(epsilon=1.0, random_state=0).fit(X, np.ones(300))
    assert model.mechanism == "auto"
    assert model.release_.mechanism.name in MECHANISMS
    assert from_release(model.release_).mechanism == MECHANISMS[model.release_.mechanism.name]()


@every_but_the_chain
def test_a_large_epsilon_finds_the_direction(name):
    """Utility, coarsely: the first feature matters, and more than the second."""
    exact = {"lipschitz_gibbs": LipschitzGibbs(**NORM)}  # the published formula does not hold there
    coefficients = np.ravel(estimator(name, exact.get(name), epsilon=1000.0).fit(*table(name)).coef_)
    assert coefficients[0] > 2 * abs(coefficients[1])


@every
def test_a_missing_bound_is_explained_by_plan_and_fit(name):
    for bound in DRIVEN[name].requirements.needs:
        model = estimator(name, dataclasses.replace(DRIVEN[name], **{bound: None}))
        for use in (lambda model=model: model.plan(X), lambda model=model: model.fit(*table(name))):
            with pytest.raises(onedraw.InvalidInput, match=rf"needs {bound}: .*needs no bound"):
                use()


THREE = RNG.integers(0, 3, 300)


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (onedraw.LogisticRegression(mechanism="adasp"), LABELS, "one of 'auto', .* mean 'adassp'"),
        (onedraw.LogisticRegression(mechanism=AdaSSP(**BOUNDS), delta=1e-6), LABELS, "got a logistic model"),
        (onedraw.PoissonRegressor(mechanism=GibbsPosterior(**NORM)), np.ones(300), "got a poisson model"),
        (
            onedraw.LinearRegression(mechanism=AdaSSP(**BOUNDS), delta=1e-6, errors="laplace"),
            RESPONSE,
            "is for these models: gaussian",
        ),
        (
            onedraw.LogisticRegression(mechanism=OutputPerturbation(**NORM)),
            THREE,
            "got a multinomial model",
        ),
        (
            onedraw.LogisticRegression(mechanism=GibbsPosterior(**NORM), draws="auto"),
            LABELS,
            "GibbsPosterior does not choose the number of draws",
        ),
        (
            onedraw.LinearRegression(mechanism=LinearSSP(**BOUNDS), draws=3),
            RESPONSE,
            r"makes one release, got draws=3. Leave draws out, or set LinearSSP\(draws=...\)",
        ),
        (
            onedraw.LogisticRegression(mechanism=OutputPerturbation(**NORM), rows_per_person=2),
            LABELS,
            "rows_per_person=1 only",
        ),
        (
            onedraw.LogisticRegression(mechanism="beta_bernoulli_ssp"),
            LABELS,
            "estimates one number: describe it as a model with an intercept and no features, got 2",
        ),
        (
            onedraw.LogisticRegression(mechanism=3),
            LABELS,
            "Expected mechanism to be one of .*, got mechanism=3",
        ),
    ],
)
def test_what_a_mechanism_cannot_do_is_refused(model, y, message):
    with pytest.raises(onedraw.InvalidInput, match=message):
        model.set_params(epsilon=1.0).fit(X, y)


@every_but_the_chain
def test_features_beyond_the_bound_are_clipped(name):
    """A million times too long or clipped by hand: the same draw."""
    if "feature_norm" not in DRIVEN[name].option_names():
        pytest.skip("its features need no bound")
    mechanism = dataclasses.replace(DRIVEN[name], feature_norm=1.0)
    model = estimator(name, mechanism, fit_intercept=False)
    directions = X / np.linalg.norm(X, axis=1, keepdims=True)
    draws = [clone(model).fit(scale * directions, table(name)[1]).release_.draws for scale in (1e6, 2.0)]
    np.testing.assert_allclose(draws[0], draws[1], rtol=1e-6, atol=1e-9)


def test_linear_regression_has_a_scale_only_where_one_is_released():
    model = onedraw.LinearRegression(epsilon=1.0, mechanism="one_posterior", random_state=0).fit(X, RESPONSE)
    assert model.scale_ > 0
    model.set_params(mechanism=AdaSSP(feature_norm=2.0, response_bound=20.0), delta=1e-6).fit(X, RESPONSE)
    assert not hasattr(model, "scale_")
    assert "(scale)" not in model.release_.named_parameters()


def test_grid_search_compares_mechanisms():
    candidates = [
        *(OutputPerturbation(feature_norm=2.0, regularisation=strength) for strength in (0.01, 1.0)),
        *(TiltedFit(cut=cut) for cut in (1.0, 3.0)),
    ]
    search = GridSearchCV(
        onedraw.LogisticRegression(epsilon=5.0, random_state=0, **CLASSES),
        {"mechanism": candidates},
        cv=2,
        error_score="raise",
    )
    assert search.fit(X, LABELS).best_params_["mechanism"] in candidates


@pytest.mark.parametrize(
    "name", [name for name in DRIVEN if name not in ("tilted_fit", "one_posterior", "linear_noise_aware")]
)
def test_a_mechanism_without_known_intervals_says_so(name):
    with pytest.raises(onedraw.InvalidInput, match=r"has no intervals"):
        fitted(name).conf_int()


def test_the_noise_aware_posterior_gives_intervals_in_original_units():
    """Its quantiles, with the true coefficients well within them. Coverage is tested with the mechanism."""
    model = fitted("linear_noise_aware")
    found = model.conf_int(0.9)
    draws = model.release_.parameters.flat()
    np.testing.assert_allclose(found, np.quantile(draws, [0.05, 0.95], axis=0).T)
    wide = model.conf_int(0.999)
    assert ((wide[:, 0] < [5, 10]) & (wide[:, 1] > [5, 10])).all()
    np.testing.assert_array_equal(from_release(model.release_).conf_int(0.9), found)
    assert model.summary().names == ("x0", "(intercept)")
    with pytest.raises(onedraw.InvalidInput, match=r"got level=2\.0"):
        model.conf_int(2.0)


# -- what every family has once it is registered


def test_every_kind_has_one_estimator_that_names_it(kind_name):
    assert kind_name in ESTIMATORS[kind_name].kinds


def test_a_family_is_fitted_released_and_rebuilt(family_name, examples):
    """From the registry alone: an estimator, a plan, a release file, and an estimator from it."""
    family = examples.family(family_name)
    table = examples.table(family, n=200)
    model = examples.estimator(family, mechanism=OnePosterior())
    plan = model.plan(table[0])
    fitted = clone(model).fit(*table)
    assert plan == fitted.plan_
    assert (plan.model.kind, type(plan.model.family)) == (family.kind, type(family))
    assert fitted.release_.model.has_scale == family.has_scale
    release = onedraw.Release.from_json(fitted.release_.to_json())
    assert release == fitted.release_
    np.testing.assert_array_equal(from_release(release).predict(table[0]), fitted.predict(table[0]))
    assert from_release(release).release_.model.family == fitted.release_.model.family


def test_a_family_refuses_what_is_none_of_its_responses_unquoted(family_name, examples):
    family = examples.family(family_name)
    X, y = examples.table(family)
    wrong = y.astype(object)
    wrong[3] = "patient 31337"
    with pytest.raises((ValueError, TypeError)) as info:
        examples.estimator(family).fit(X, wrong)
    assert "31337" not in str(info.value)
    if not family.has_scale:
        with pytest.raises(onedraw.InvalidInput) as info:
            examples.estimator(family).fit(X, np.where(np.arange(len(y)) == 3, -31337, y))
        assert "31337" not in str(info.value)


def test_a_draw_of_a_response_without_a_declared_range_is_announced_by_the_plan():
    def reason(**options):
        return onedraw.LinearRegression(epsilon=1.0, **options).plan(X).reason

    assert "taken to be of order one" in reason(errors="laplace")
    assert "taken to be of order one" in reason(draws=4)
    assert "order one" not in reason(errors="laplace", target_bounds=(0.0, 300.0))
    assert "order one" not in reason()


def test_units_that_nobody_declared_are_warned_about_before_anything_is_charged(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "ledger.db")
    ledger.create("study", epsilon=1.0)
    few, y = np.ones((50, 3)), np.arange(50) % 2

    def fit(X=few, y=y, **options):
        options = {"epsilon": 1.0, "classes": [0, 1], "ledger": ledger, "dataset": "study"} | options
        return onedraw.LogisticRegression(**options).fit(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("error", onedraw.UnitsWarning)
        with pytest.raises(onedraw.UnitsWarning, match=r"too few .* Set feature_bounds"):
            fit()
        with pytest.raises(onedraw.UnitsWarning, match="order one"):
            fit(mechanism="one_posterior")
        assert ledger.show("study").spent == 0.0
        fit(feature_bounds=(-1, 1), ledger=None, dataset=None)  # says nothing
        many = np.random.default_rng(0).normal(size=(4000, 3))
        fit(many, np.arange(4000) % 2, ledger=None, dataset=None)  # a unit is found for each
    assert "one unit will serve all" in str(onedraw.LinearRegression(epsilon=1.0).plan(few)).lower()


def test_a_fit_warns_where_zero_would_come_closer_before_anything_is_charged(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "ledger.db")
    ledger.create("study", epsilon=1.0)
    options = {"epsilon": 1.0, "classes": [0, 1], "feature_bounds": (-1, 1)}
    few, enough = np.zeros((79, 3)), np.zeros((80, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", onedraw.NoiseWarning)
        with pytest.raises(onedraw.NoiseWarning, match="coefficients of zero come closer"):
            onedraw.LogisticRegression(**options, ledger=ledger, dataset="study").fit(few, np.arange(79) % 2)
        assert ledger.show("study").spent == 0.0
        onedraw.LogisticRegression(**options).fit(enough, np.arange(80) % 2)  # says nothing
