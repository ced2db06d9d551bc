# SPDX-License-Identifier: Apache-2.0
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import onedraw
from onedraw.mechanisms import GibbsPosterior, OnePosterior

ESTIMATORS = [
    onedraw.LogisticRegression,
    onedraw.LinearRegression,
    onedraw.PoissonRegressor,
    onedraw.NegativeBinomialRegressor,
]
SECRET = "31337"  # a value hidden in the data, which no message may repeat


def draw_data(kind, n=400, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    eta = X @ np.linspace(1.5, -1.0, d) + 0.3
    if kind is onedraw.LogisticRegression:
        return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    if kind is onedraw.LinearRegression:
        return X, eta + rng.normal(scale=0.5, size=n)
    if kind is onedraw.NegativeBinomialRegressor:  # of dispersion 1
        return X, rng.poisson(np.exp(0.7 * eta) * rng.standard_exponential(n))
    return X, rng.poisson(np.exp(0.7 * eta))


def draw_classes(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    scores = X @ np.array([[2.0, 0.0, -2.0], [0.0, 1.5, -1.5]]) + np.array([0.5, 0.0, -0.5])
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


@pytest.fixture(params=ESTIMATORS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def private_facts(release):
    """All that a release says apart from its released numbers.

    The grid of a tilted linear fit is made for the unit of the response that was found privately.
    """
    facts = release.to_dict()
    released = ["draws", "parameters", "digest", "statistics"]
    for key in [*released, "grid"] if "window_scale" in release.statistics else released:
        del facts[key]
    return facts


# -- accuracy


def test_large_epsilon_recovers_the_non_private_fit(kind):
    """epsilon = 1e6 makes beta nearly 1 and the weight nearly 1: one draw is then as far from the maximum
    likelihood fit as its
    standard error, about 0.01 here (n = 40,000). Tolerance 6 standard errors: fails for one seed in 1e8."""
    X, y = draw_data(kind, n=40_000)
    reference = {
        onedraw.LogisticRegression: linear_model.LogisticRegression(C=np.inf),
        onedraw.LinearRegression: linear_model.LinearRegression(),
        onedraw.PoissonRegressor: linear_model.PoissonRegressor(alpha=0.0),
        # The mean is log-linear too, so the Poisson fit is consistent; its standard error is twice as large.
        onedraw.NegativeBinomialRegressor: linear_model.PoissonRegressor(alpha=0.0),
    }[kind].fit(X, y)
    model = kind(epsilon=1e6, random_state=0).fit(X, y)
    assert model.coef_.shape == reference.coef_.shape
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=0.12)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=0.08)
    if kind is onedraw.LinearRegression:
        assert model.scale_ == pytest.approx(np.std(y - reference.predict(X)), abs=0.02)
    np.testing.assert_allclose(model.score(X, y), reference.score(X, y), atol=0.01)


def test_large_epsilon_recovers_the_non_private_multinomial_fit():
    """One draw, standard error about 0.03 (n = 30,000); tolerance 6 of them."""
    X, y = draw_classes(30_000)
    reference = linear_model.LogisticRegression(C=np.inf).fit(X, y)
    model = onedraw.LogisticRegression(epsilon=1e6, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=0.2)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=0.2)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), atol=0.05)
    assert np.array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[:50])), model.predict_proba(X[:50]))
    assert model.decision_function(X).shape == (len(X), 3)


def test_binary_probabilities_follow_from_the_decision_function():
    X, y = draw_data(onedraw.LogisticRegression)
    model = onedraw.LogisticRegression(epsilon=5.0, random_state=0).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_[0] + model.intercept_[0])
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-scores)))
    assert np.array_equal(model.predict(X), model.classes_[(scores > 0).astype(int)])


def test_several_draws_are_released_together_and_averaged(kind):
    X, y = draw_data(kind)
    model = kind(epsilon=5.0, draws=4, random_state=0).fit(X, y)
    draws = model.release_.parameters
    assert len(model.release_.draws) == model.guarantee_.draws == 4
    mean = model.release_.estimate
    np.testing.assert_allclose(mean.coef[0], draws.coef.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(mean.intercept[0], draws.intercept.mean(axis=0), atol=1e-12)
    # What is printed has no drift: a mean of draws lies too far out, never too far in.
    assert (np.abs(model.coef_.ravel()) <= np.abs(mean.coef.ravel()) + 1e-12).all()
    assert model.guarantee_.epsilon == 5.0
    assert model.guarantee_.bounded_range == pytest.approx(5.0 / 4)


# -- units


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_feature_bounds_only_change_the_units(kind, fit_intercept):
    X, y = draw_data(kind)
    bounds = [(-2.0, 6.0), (10.0, 20.0)]
    centre, half = np.array([2.0, 15.0]), np.array([4.0, 5.0])
    if not fit_intercept:
        centre, half = np.zeros(2), np.array([6.0, 20.0])
    options = {"epsilon": 2.0, "fit_intercept": fit_intercept, "random_state": 3}
    model = kind(feature_bounds=bounds, **options).fit(centre + half * X, y)
    scaled = kind(feature_bounds=(-1, 1), **options).fit((centre + half * X - centre) / half, y)
    np.testing.assert_allclose(model.coef_, scaled.coef_ / half, rtol=1e-9)
    np.testing.assert_allclose(model.predict(centre + half * X), scaled.predict(X), rtol=1e-6)
    if not fit_intercept:
        assert np.all(np.asarray(model.intercept_) == 0.0)


def test_feature_bounds_change_the_units_of_every_class():
    X, y = draw_classes()
    centre, half = np.array([2.0, 15.0]), np.array([4.0, 5.0])
    model = onedraw.LogisticRegression(epsilon=2.0, feature_bounds=[(-2, 6), (10, 20)], random_state=3)
    model.fit(centre + half * X, y)
    scaled = onedraw.LogisticRegression(epsilon=2.0, feature_bounds=(-1, 1), random_state=3).fit(
        (centre + half * X - centre) / half, y
    )
    np.testing.assert_allclose(model.coef_, scaled.coef_ / half, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, scaled.intercept_ - model.coef_ @ centre, rtol=1e-9)


def test_feature_bounds_take_a_pair_a_list_or_a_dict(kind):
    X, y = draw_data(kind)
    frame = pd.DataFrame(X, columns=["a", "b"])
    forms = [(-2, 2), [(-2, 2), (-2, 2)], np.array([[-2, 2], [-2, 2]]), {"b": (-2, 2), "a": [-2, 2]}]
    fits = [kind(epsilon=1.0, feature_bounds=form, random_state=0).fit(frame, y) for form in forms]
    for fit in fits:
        assert fit.release_ == fits[0].release_
    assert fits[0].release_.model.feature_bounds == ((-2.0, 2.0), (-2.0, 2.0))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 1), r"Expected feature_bounds\[0\] to be finite with low < high, got \(1, 1\)"),
        ([(0, 1), (2, 1)], r"Expected feature_bounds\[1\] to be finite with low < high, got \(2, 1\)"),
        ((0, np.inf), r"feature_bounds\[0\] to be finite"),
        ((np.nan, 1), r"feature_bounds\[0\] to be finite"),
        ((0, 5e-324), r"feature_bounds\[0\] to be finite with low < high"),
        ([(0, 1)], r"one for each of the 2, or a dict by feature name, got 1 of them"),
        ([(0, 1)] * 3, r"one for each of the 2, or a dict by feature name, got 3 of them"),
        ([(0, 1, 2), (0, 1)], r"feature_bounds\[0\] to be a pair \(low, high\), got \(0, 1, 2\)"),
        (5, r"or a dict by feature name, got 5"),
        ("ab", r"or a dict by feature name, got 'ab'"),
        ({"x0": (0, 1)}, r"missing: \['x1'\], unknown: \[\]"),
        ({"x0": (0, 1), "x1": (0, 1), "age": (0, 1)}, r"missing: \[\], unknown: \['age'\]"),
    ],
)
def test_bad_feature_bounds_are_refused(bounds, message):
    X, y = draw_data(onedraw.LogisticRegression)
    with pytest.raises(onedraw.InvalidInput, match=message):
        onedraw.LogisticRegression(epsilon=1.0, feature_bounds=bounds).fit(X, y)


def test_huge_bounds_do_not_overflow():
    X, y = draw_data(onedraw.LinearRegression)
    bounds = (-1.5e308, 1.5e308)
    model = onedraw.LinearRegression(epsilon=1.0, feature_bounds=bounds, random_state=0).fit(X * 1e300, y)
    assert np.isfinite(model.predict(X * 1e300)).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_target_bounds_only_change_the_units(fit_intercept):
    X, y = draw_data(onedraw.LinearRegression)
    centre, half = (0.0, 140.0) if not fit_intercept else (120.0, 20.0)
    options = {"epsilon": 2.0, "fit_intercept": fit_intercept, "random_state": 5}
    shifted = centre + half * y
    wide, narrow = OnePosterior(noise_floor=0.2 * half), OnePosterior(noise_floor=0.2)
    model = onedraw.LinearRegression(target_bounds=(100, 140), mechanism=wide, **options).fit(X, shifted)
    plain = onedraw.LinearRegression(mechanism=narrow, **options).fit(X, (shifted - centre) / half)
    np.testing.assert_allclose(model.coef_, half * plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, centre + half * plain.intercept_, rtol=1e-6)
    assert model.scale_ == pytest.approx(half * plain.scale_)
    assert model.scale_ >= 0.2 * half * (1 - 1e-12)


def test_the_default_floor_is_a_tenth_of_the_half_range():
    X, y = draw_data(onedraw.LinearRegression)
    options = {"target_bounds": (-50, 50), "mechanism": "one_posterior", "random_state": 0}
    model = onedraw.LinearRegression(epsilon=1.0, **options).fit(X, y)
    assert model.release_.model.scale_floor == 0.1
    assert model.scale_ >= 5.0 * (1 - 1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_bounds": (3, 1)}, r"Expected target_bounds to be finite with low < high, got \(3, 1\)"),
        ({"target_bounds": 7}, r"Expected target_bounds to be a pair \(low, high\), got 7"),
        ({"errors": "cauchy"}, r"Expected errors to be one of 'normal', 'laplace', 'student_t', got errors="),
        ({"errors": None}, r"Expected errors to be one of .*, got errors=None"),
        ({"noise_floor": 0.0}, r"Expected noise_floor > 0 and finite, got noise_floor=0.0"),
        ({"noise_floor": "small"}, r"Expected noise_floor > 0 and finite, got noise_floor='small'"),
        ({"noise_scale": -1}, r"Expected noise_scale > 0 and finite, got noise_scale=-1"),
        (
            {"noise_scale": 0.05},
            r"Expected noise_scale >= noise_floor = 0.1, got noise_scale=0.05. .* lower noise_floor",
        ),
        ({"noise_scale": 1, "target_bounds": (0, 40)}, r"noise_scale >= noise_floor = 2, got noise_scale=1"),
    ],
)
def test_bad_options_of_linear_regression_are_refused(options, message):
    X, y = draw_data(onedraw.LinearRegression)
    own = {name: options.pop(name) for name in ("noise_floor", "noise_scale") if name in options}
    model = onedraw.LinearRegression(epsilon=1.0, mechanism=OnePosterior(**own), **options)
    for use in (lambda: model.plan(X), lambda: model.fit(X, y)):
        with pytest.raises(onedraw.InvalidInput, match=message):
            use()


@pytest.mark.parametrize("option", ["noise_floor", "noise_scale"])
def test_options_of_a_residual_scale_are_for_models_that_have_one(option):
    X, y = draw_data(onedraw.LogisticRegression)
    model = onedraw.LogisticRegression(epsilon=1.0, mechanism=OnePosterior(**{option: 1.0}))
    with pytest.raises(onedraw.InvalidInput, match=rf"{option}=1.0 does not apply to a logistic model"):
        model.fit(X, y)


def test_noise_scale_only_chooses_beta():
    X, y = draw_data(onedraw.LinearRegression)
    facts = [
        onedraw.LinearRegression(epsilon=1.0, mechanism=OnePosterior(noise_scale=guess), random_state=0)
        .fit(X, y)
        .release_
        for guess in (None, 0.1, 2.0)
    ]
    assert len({fact.mechanism.numbers["beta"] for fact in facts}) == 3
    assert len({fact.guarantee for fact in facts}) == 1


# -- scikit-learn citizenship


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_keep_their_names(kind, frame):
    X, y = draw_data(kind)
    model = kind(epsilon=1.0, random_state=0).fit(frame({"age": X[:, 0], "dose": X[:, 1]}), y)
    assert model.feature_names_in_.tolist() == ["age", "dose"]
    assert model.release_.model.features == ("age", "dose")
    plain = kind(epsilon=1.0, random_state=0).fit(X, y)
    assert plain.release_.model.features == ("x0", "x1")
    assert plain.release_.draws == model.release_.draws
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({"dose": X[:, 1], "age": X[:, 0]}))


def test_parameters_need_names_of_their_own():
    X, y = draw_data(onedraw.LinearRegression)
    for names in (["a", "(scale)"], ["(intercept)", "a"]):
        with pytest.raises(onedraw.InvalidInput, match=r"a name of its own, got .* more than once. Rename"):
            onedraw.LinearRegression(epsilon=1.0).fit(pd.DataFrame(X, columns=names), y)


def test_pipeline_clone_and_cross_validation(kind):
    X, y = draw_data(kind)
    model = kind(epsilon=20.0, random_state=0)
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert np.array_equal(pipeline.fit(X, y).predict(X), clone(model).fit(X, y).predict(X))
    assert not hasattr(clone(model), "release_")
    scores = cross_val_score(pipeline, X, y, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.1
    mechanisms = [OnePosterior(prior_scale=scale) for scale in (1.0, 3.0)]
    search = GridSearchCV(model, {"mechanism": mechanisms}, cv=2).fit(X, y)
    options = search.best_estimator_.release_.mechanism.options
    assert options["prior_scale"] == search.best_params_["mechanism"].prior_scale


def test_pickle_holds_the_release_and_nothing_else_of_the_data(kind):
    X, y = draw_data(kind)
    model = kind(epsilon=1.0, random_state=0).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.release_ == model.release_
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert np.array_equal(loaded.predict(frame), model.predict(frame))
    learned = set(vars(model)) - set(model.get_params())
    extra = {onedraw.LogisticRegression: {"classes_"}, onedraw.LinearRegression: {"scale_"}}.get(kind, set())
    found = {"coef_", "intercept_", "release_", "plan_", "n_features_in_", "feature_names_in_"}
    assert learned == found | extra
    assert len(pickle.dumps(model)) < 10_000


def test_an_unfitted_model_says_so(kind):
    for use in (lambda m: m.predict(np.zeros((1, 2))), lambda m: m.guarantee_):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use(kind(epsilon=1.0))


def test_the_same_seed_gives_the_same_release_and_no_seed_another(kind):
    X, y = draw_data(kind)
    first = kind(epsilon=1.0, random_state=7).fit(X, y).release_
    assert first == kind(epsilon=1.0, random_state=7).fit(X, y).release_
    assert first.seeded
    fresh = [kind(epsilon=1.0).fit(X, y).release_ for _ in range(2)]
    assert fresh[0].draws != fresh[1].draws
    assert not fresh[0].seeded


def test_sample_weight_is_refused_with_the_reason(kind):
    X, y = draw_data(kind)
    with pytest.raises(
        onedraw.InvalidInput, match=r"beyond what epsilon allows. Leave it out; .* rows_per_person"
    ):
        kind(epsilon=1.0).fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(TypeError, match=r"fit\(\) takes X and y only, got \['weights'\]"):
        kind(epsilon=1.0).fit(X, y, weights=1)
    assert kind(epsilon=1.0, random_state=0).fit(X, y, sample_weight=None)


# -- privacy


@pytest.mark.parametrize("mechanism", ["tilted_fit", "one_posterior"])
def test_no_default_depends_on_the_data(kind, mechanism):
    X, y = draw_data(kind)
    other = X * 1e3 + 50.0
    response = 1 - y if kind is onedraw.LogisticRegression else 3 * y + 2
    first = kind(epsilon=0.5, mechanism=mechanism, random_state=0).fit(X, y).release_
    second = kind(epsilon=0.5, mechanism=mechanism, random_state=0).fit(other, response).release_
    assert private_facts(first) == private_facts(second)
    assert first.draws != second.draws


def test_rows_per_person_and_neighbours_set_the_weight(kind):
    X, y = draw_data(kind)

    def release(**options):
        model = kind(epsilon=1.0, mechanism=OnePosterior(beta=1.5), random_state=0, **options)
        if isinstance(model, onedraw.LogisticRegression):
            model.set_params(classes=np.unique(y).tolist())
        return model.fit(X, y).release_

    base = release()
    many, other = release(rows_per_person=3), release(neighbours="add_remove")
    weight = base.mechanism.numbers["weight"]
    assert many.mechanism.numbers["weight"] == pytest.approx(weight / 3)
    gain = other.mechanism.numbers["weight"] / weight
    counts = kind in (onedraw.PoissonRegressor, onedraw.NegativeBinomialRegressor)
    assert 2.0 < gain < 4.0 if counts else gain == pytest.approx(2.0)  # no count has the whole width
    assert many.guarantee.rows_per_person == 3
    assert "Each person holds at most 3 rows." in many.assumptions
    assert "Each person holds one row." in base.assumptions
    assert other.guarantee.neighbours == "add_remove"
    assert "The number of rows is public." in base.assumptions
    assert "The number of rows is public." not in other.assumptions


def test_classes_must_be_declared_where_one_person_could_be_all_of_a_class():
    X, y = draw_data(onedraw.LogisticRegression)
    with pytest.raises(
        onedraw.InvalidInput,
        match=r"Expected declared classes with neighbours='add_remove'.*Set classes=\[\.\.\.\]",
    ):
        onedraw.LogisticRegression(epsilon=1.0, neighbours="add_remove").fit(X, y)


@pytest.mark.parametrize("mechanism", ["tilted_fit", "one_posterior"])
def test_the_number_of_rows_is_private_where_people_hold_several(kind, mechanism):
    """A person with three rows may be replaced by one with two, so n must not be told in any way."""
    X, y = draw_data(kind)
    releases = [
        kind(epsilon=1.0, mechanism=mechanism, rows_per_person=3, random_state=0).fit(X[:n], y[:n]).release_
        for n in (len(y), len(y) - 2)
    ]
    assert releases[0].num_records is None
    assert private_facts(releases[0]) == private_facts(releases[1])


def test_fitting_warns_of_nothing_that_records_cause():
    """One record overflows float64 on the way; a warning would tell that it is there.

    There are enough records for no warning about their public number.
    """
    X = np.tile([[0.1], [0.2], [0.3]], (40, 1))
    y = np.append(np.tile([0.0, 1.0], 60)[:-1], 1e308)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onedraw.LinearRegression(epsilon=1.0, random_state=0).fit(X, y)


def test_delta_buys_weight_for_many_draws(kind):
    X, y = draw_data(kind)
    pure, approximate = (
        kind(epsilon=1.0, delta=delta, draws=20, mechanism=OnePosterior(beta=1.5), random_state=0)
        .fit(X, y)
        .release_
        for delta in (0.0, 1e-6)
    )
    assert approximate.mechanism.numbers["weight"] > pure.mechanism.numbers["weight"]
    assert (approximate.guarantee.epsilon, approximate.guarantee.delta) == (1.0, 1e-6)


def test_beta_paper_means_weight_one():
    X, y = draw_data(onedraw.LogisticRegression)
    paper = OnePosterior(beta="paper")
    model = onedraw.LogisticRegression(epsilon=1.0, mechanism=paper, random_state=0).fit(X, y)
    numbers = model.release_.mechanism.numbers
    assert numbers["weight"] == 1.0
    assert numbers["beta"] == pytest.approx(3.0)
    X, y = draw_data(onedraw.LinearRegression)
    with pytest.raises(onedraw.CalibrationError, match=r"7\.5") as info:
        onedraw.LinearRegression(epsilon=1.0, mechanism=paper).fit(X, y)
    assert info.value.reachable == pytest.approx(7.52, abs=0.01)


def test_prior_scale_enters_the_prior():
    X, y = draw_data(onedraw.LogisticRegression)
    narrow = OnePosterior(prior_scale=1e-3)
    model = onedraw.LogisticRegression(epsilon=1.0, mechanism=narrow, random_state=0).fit(X, y)
    assert np.abs(model.coef_).max() < 6e-3
    assert model.release_.mechanism.options["prior_scale"] == 1e-3


def test_an_empty_table_is_told_from_one_person_only_where_n_is_public(kind):
    classes = {"classes": [0, 1]} if kind is onedraw.LogisticRegression else {}
    X, y = np.zeros((0, 2)), np.zeros(0)
    with pytest.raises(ValueError, match="The table has no rows, so there is nothing to fit"):
        kind(epsilon=1.0, **classes).fit(X, y)
    empty = kind(epsilon=1.0, neighbours="add_remove", random_state=0, **classes).fit(X, y)
    single = kind(epsilon=1.0, neighbours="add_remove", random_state=0, **classes).fit(
        np.ones((1, 2)), np.ones(1)
    )
    assert private_facts(empty.release_) == private_facts(single.release_)


# -- classes


def test_classes_are_an_assumption_only_when_read_from_the_labels():
    X, y = draw_data(onedraw.LogisticRegression)
    read = onedraw.LogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    declared = onedraw.LogisticRegression(epsilon=1.0, classes=[0, 1], random_state=0).fit(X, y)
    assert any("set of classes is public" in line for line in read.release_.assumptions)
    assert not any("set of classes" in line for line in declared.release_.assumptions)
    assert declared.classes_.tolist() == read.classes_.tolist() == [0, 1]
    assert declared.release_.draws == read.release_.draws


def test_classes_keep_their_declared_order_and_the_model_is_about_the_last():
    X, y = draw_data(onedraw.LogisticRegression)
    turned = onedraw.LogisticRegression(epsilon=50.0, classes=[1, 0], random_state=0).fit(X, y)
    straight = onedraw.LogisticRegression(epsilon=50.0, classes=[0, 1], random_state=0).fit(X, y)
    assert turned.classes_.tolist() == [1, 0]
    assert (np.sign(turned.coef_) == -np.sign(straight.coef_)).all()
    assert (turned.predict(X) == straight.predict(X)).mean() > 0.9


def test_a_declared_class_may_be_absent():
    X, y = draw_data(onedraw.LogisticRegression)
    model = onedraw.LogisticRegression(epsilon=1.0, classes=[0, 1, 2], random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 2)
    single = onedraw.LogisticRegression(epsilon=1.0, classes=[0, 1], random_state=0).fit(
        X, np.zeros(len(X), int)
    )
    assert single.predict_proba(X).shape == (len(X), 2)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        ([0, 1], [0, int(SECRET)]),
        (["a", "b"], ["a", SECRET]),
        (["a", "b"], [0, int(SECRET)]),
        ([0, 1], ["a", SECRET]),
        ([0.0, 1.0], [-int(SECRET), 1]),
    ],
)
def test_an_undeclared_label_is_refused_unquoted(classes, labels):
    X = np.zeros((4, 1))
    with pytest.raises(
        onedraw.InvalidInput, match=r"among the declared classes=.*but y holds another. Declare"
    ) as info:
        onedraw.LogisticRegression(epsilon=1.0, classes=classes).fit(X, np.tile(labels, 2))
    assert SECRET not in str(info.value)
    assert str(classes) in str(info.value)


@pytest.mark.parametrize("classes", [[0], [0, 0, 1], [], 3, "ab", [0, "a"]])
def test_bad_classes_are_refused(classes):
    X, y = draw_data(onedraw.LogisticRegression)
    with pytest.raises(onedraw.InvalidInput, match=r"list two or more distinct labels.*got classes="):
        onedraw.LogisticRegression(epsilon=1.0, classes=classes).fit(X, y)


def test_a_missing_label_is_refused():
    X = np.zeros((4, 1))
    with pytest.raises(onedraw.InvalidInput, match=r"none of them missing. Recode them as text, or remove"):
        onedraw.LogisticRegression(epsilon=1.0).fit(X, np.array(["b", "a", None, "a"], dtype=object))
    with pytest.raises(ValueError, match="contains NaN"):
        onedraw.LogisticRegression(epsilon=1.0).fit(X, pd.Series(["b", "a", None, "a"]))


def test_one_class_needs_a_declaration():
    with pytest.raises(
        onedraw.InvalidInput, match=r"two classes in y, got only one class. Set classes=\[\.\.\.\]"
    ) as info:
        onedraw.LogisticRegression(epsilon=1.0).fit(np.zeros((5, 1)), np.full(5, int(SECRET)))
    assert SECRET not in str(info.value)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([3, 5]), [3, 5]),
        (np.array([3, 5], dtype=np.int8), [3, 5]),
        (np.array(["no", "yes"]), ["no", "yes"]),
        (np.array(["no", "yes"], dtype=object), ["no", "yes"]),
        (np.array([False, True]), [False, True]),
        (np.array([0.0, 2.0]), [0.0, 2.0]),
        (pd.Series(["no", "yes"]), ["no", "yes"]),
        (pd.Series(["no", "yes"], dtype="category"), ["no", "yes"]),
        (pl.Series(["no", "yes"]), ["no", "yes"]),
    ],
)
def test_labels_of_any_plain_type_come_back(labels, expected):
    X, codes = draw_data(onedraw.LogisticRegression)
    y = labels.gather(codes) if isinstance(labels, pl.Series) else labels[codes]
    model = onedraw.LogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    assert model.classes_.tolist() == expected
    assert set(model.predict(X).tolist()) <= set(expected)
    loaded = onedraw.Release.from_json(model.release_.to_json())
    assert loaded == model.release_
    assert list(loaded.model.classes) == expected
    assert [type(label) for label in loaded.model.classes] == [type(label) for label in expected]


@pytest.mark.parametrize(
    "labels", [np.array([b"no", SECRET.encode()]), np.array([b"no", SECRET.encode()], dtype=object)]
)
def test_labels_that_json_cannot_hold_are_refused_before_the_draw(labels, monkeypatch):
    monkeypatch.setattr("onedraw.samplers.RejectionSampler.sample", None)
    X, codes = draw_data(onedraw.LogisticRegression)
    with pytest.raises(onedraw.InvalidInput, match=r"labels in y to be all text.* Recode them") as info:
        onedraw.LogisticRegression(epsilon=1.0).fit(X, labels[codes])
    assert SECRET not in str(info.value)


# -- evidence


@pytest.mark.parametrize("kind", ESTIMATORS[:3])
def test_enumerated_evidence_visits_every_point_of_a_grid(kind):
    X, y = draw_data(kind, n=60, d=1)
    model = kind(epsilon=1.0, mechanism=OnePosterior(evidence="enumerated"), random_state=0).fit(X, y)
    assert model.release_.evidence.level == "proved"
    assert "enumerated" in model.release_.evidence.statement


@pytest.mark.slow
@pytest.mark.parametrize("kind", [onedraw.LogisticRegression, onedraw.PoissonRegressor])
def test_proved_evidence_truncates_the_prior_to_a_public_box(kind):
    X, y = draw_data(kind, n=200, d=1)
    model = kind(epsilon=1.0, mechanism=OnePosterior(evidence="proved"), random_state=0).fit(X, y)
    assert model.release_.evidence.level == "proved"
    assert model.release_.mechanism.numbers["prior_box"] == 6.0
    assert np.abs(np.array(model.release_.draws)).max() <= 18.0


# -- bad input


@pytest.mark.parametrize("epsilon", [0, -1, np.inf, np.nan, None, "1", True])
def test_epsilon_must_be_positive_and_finite(kind, epsilon):
    X, y = draw_data(kind)
    with pytest.raises(onedraw.InvalidInput, match="Expected epsilon > 0 and finite, got epsilon="):
        kind(epsilon=epsilon).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 1.0}, r"Expected delta in \[0, 1\), got delta=1.0. 0 gives pure"),
        ({"delta": -1e-9}, r"Expected delta in \[0, 1\), got delta=-1e-09"),
        (
            {"beta": "Auto"},
            r"Expected beta to be one of 'auto', 'paper', got beta='Auto'. Did you mean 'auto'\?",
        ),
        ({"beta": 1.0}, r"Expected beta to be 'auto', 'paper' or a number above 1 .*got beta=1.0"),
        ({"beta": None}, r"got beta=None"),
        ({"weight": 0}, r"Expected weight > 0 and finite, got weight=0. Leave weight out"),
        ({"beta": 1.5, "weight": 1e9}, r"beta=1.5 with weight=1e\+09 needs epsilon=.*Set weight="),
        (
            {"neighbours": "replace"},
            r"one of 'replace_one', 'add_remove', got neighbours='replace'. Did you mean",
        ),
        ({"rows_per_person": 0}, r"rows_per_person to be a whole number >= 1, got rows_per_person=0"),
        ({"rows_per_person": 1.5}, r"rows_per_person to be a whole number >= 1, got rows_per_person=1.5"),
        ({"draws": 0}, r"draws to be a whole number >= 1, got draws=0"),
        ({"prior_scale": 0}, r"Expected prior_scale > 0 and finite, got prior_scale=0"),
        ({"fit_intercept": "no"}, r"fit_intercept to be True or False, got fit_intercept='no'"),
        (
            {"evidence": "proven"},
            r"one of 'searched', 'proved', 'enumerated', got evidence='proven'. Did you mean 'proved'",
        ),
        ({"draws": "many"}, r"draws to be a whole number >= 1 or 'auto', got 'many'"),
        ({"mechanism": "one_posteriour"}, r"Expected mechanism to be one of .*Did you mean 'one_posterior'"),
        ({"mechanism": OnePosterior}, r"got the class OnePosterior. Call it: OnePosterior\(\.\.\.\)"),
        ({"random_state": "now"}, r"Expected random_state to be None, .*got random_state='now'"),
    ],
)
def test_bad_options_are_refused(kind, options, message):
    X, y = draw_data(kind)
    own = {name: options[name] for name in OnePosterior.option_names() if name in options}
    others = {name: value for name, value in options.items() if name not in own}
    model = kind(**{"epsilon": 1.0, **({"mechanism": OnePosterior(**own)} if own else {}), **others})
    with pytest.raises(onedraw.InvalidInput, match=message):
        model.fit(X, y)


def test_options_of_a_mechanism_are_no_options_of_an_estimator(kind):
    for option in {*OnePosterior.option_names(), *GibbsPosterior.option_names()}:
        with pytest.raises(TypeError, match="unexpected keyword"):
            kind(epsilon=1.0, **{option: 1})


def bad_data():
    hidden = float(SECRET)
    X = np.full((6, 2), hidden)
    y = np.array([0, 1, 0, 1, 0, 1])
    nan, infinite = X.copy(), X.copy()
    nan[1, 0], infinite[1, 0] = np.nan, np.inf
    text = X.astype(object)
    text[2, 1] = f"patient {SECRET}"
    return {
        "NaN in X": (nan, y, "Input X contains NaN"),
        "infinity in X": (infinite, y, "Input X contains infinity"),
        "NaN in y": (X, np.where(y == 1, np.nan, y), "Input y contains NaN"),
        "infinity in y": (X, np.where(y == 1, np.inf, y), "Input y contains infinity"),
        "text in X": (text, y, "Expected X and y to hold numbers, but some value is not one. Encode"),
        "text in a frame": (pd.DataFrame(text), y, "Expected X and y to hold numbers"),
        "X flat": (
            X[:, 0],
            y,
            r"Expected 2D array, got 1D array instead. Reshape your data .*array.reshape\(-1, 1\)",
        ),
        "X scalar": (hidden, y, "Expected 2D array, got scalar array instead. Reshape your data"),
        "X deep": (X[None], y, "Found array with dim 3"),
        "y deep": (X, np.stack([y, y], axis=1), "y should be a 1d array"),
        "y short": (X, y[:3], "inconsistent numbers of samples: X and y must have one row each"),
        "no y": (X, None, "requires y to be passed"),
        "sparse": (sparse.csr_matrix(X), y, "dense data is required"),
        "complex": (X + 1j, y, "Complex data not supported. Use real numbers."),
        "no features": (X[:, :0], y, r"0 feature\(s\) .* minimum of 1 is required"),
    }


@pytest.mark.parametrize("case", bad_data())
def test_bad_data_is_refused_unquoted(kind, case):
    X, y, message = bad_data()[case]
    with pytest.raises((ValueError, TypeError), match=message) as info:
        kind(epsilon=1.0).fit(X, y)
    assert SECRET not in str(info.value)


@pytest.mark.parametrize("kind", ESTIMATORS[1:])
@pytest.mark.parametrize("dtype", [object, str])
def test_a_textual_response_is_refused_unquoted(kind, dtype):
    y = np.array(["1", f"patient {SECRET}"], dtype=dtype)
    with pytest.raises(onedraw.InvalidInput, match="to hold numbers, but some value is not one") as info:
        kind(epsilon=1.0).fit(np.zeros((2, 1)), y)
    assert SECRET not in str(info.value)


@pytest.mark.parametrize("value", [-int(SECRET), int(SECRET) + 0.5])
@pytest.mark.parametrize("kind", [onedraw.PoissonRegressor, onedraw.NegativeBinomialRegressor])
def test_counts_must_be_whole_and_not_negative(kind, value):
    with pytest.raises(onedraw.InvalidInput, match=r"whole numbers") as info:
        kind(epsilon=1.0).fit(np.zeros((2, 1)), np.array([0, value]))
    assert SECRET not in str(info.value)


def test_a_continuous_response_is_no_class():
    X, y = draw_data(onedraw.LinearRegression)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        onedraw.LogisticRegression(epsilon=1.0).fit(X, y)


def test_prediction_checks_its_input_too(kind):
    X, y = draw_data(kind)
    model = kind(epsilon=1.0, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(onedraw.InvalidInput, match="Expected X to hold numbers"):
        model.predict(np.array([["a", SECRET]], dtype=object))


@pytest.mark.parametrize("dispersion", [0, -1, np.inf, None, "1"])
def test_a_dispersion_must_be_positive_and_finite(dispersion):
    X, y = draw_data(onedraw.NegativeBinomialRegressor)
    with pytest.raises(onedraw.InvalidInput, match="Expected dispersion > 0 and finite, got dispersion="):
        onedraw.NegativeBinomialRegressor(epsilon=1.0, dispersion=dispersion).fit(X, y)


@pytest.mark.parametrize("kind", [onedraw.PoissonRegressor, onedraw.NegativeBinomialRegressor])
def test_predicted_counts_stay_positive_and_finite(kind):
    X, y = draw_data(kind)
    model = kind(epsilon=1.0, random_state=0).fit(X, y)
    far = model.predict(np.array([[1e9, 0.0], [-1e9, 0.0]]))
    assert np.isfinite(far).all()
    assert (far > 0).all()
