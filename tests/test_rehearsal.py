# SPDX-License-Identifier: Apache-2.0
"""Rehearsals and the tables that they and plans simulate, against fits of tables made by hand."""

import numpy as np
import pytest

import onedraw
from onedraw import Columns
from onedraw.estimators import Header
from onedraw.formulas import with_formula
from onedraw.planning import Simulator
from onedraw.rehearsal import rehearse
from onedraw.simulated import Design
from onedraw.tilted.one_hot import one_hot_of
from onedraw.uncertainty.categories import too_many_levels

TOWNS = ["a", "b", "c", "d"]
COLUMNS = {"age": (18, 100), "town": TOWNS, "sex": ["f", "m"]}
NAMES = ("age", "town", "sex")


def simulated_like(model, **more):
    """What a simulation of such a model plans, and the design of its tables."""
    design = Design.like(model.features, model.feature_bounds, **more)
    options = {"fit_intercept": model.fit_intercept}
    if model.classes is not None:
        options["classes"] = [*range(len(model.classes))]
    simulator = Simulator(
        kind=model.kind, num_rows=3000, design=design, effect_size=None, noise=0.5, options=options
    )
    return simulator, simulator.planned(1.0)


@pytest.mark.parametrize(
    "columns",
    [
        Columns(COLUMNS, {"name": "y", "classes": [0, 1]}),
        Columns({"town": [*"zyxwv"], "age": (-5, 5), "years": (0, 1), "job": TOWNS}, {"classes": ["n", "p"]}),
        Columns({"age": (18, 100)}, {"classes": [0, 1]}),
    ],
)
def test_the_mechanism_of_declared_columns_is_rehearsed(columns):
    fit = onedraw.LogisticRegression(epsilon=1.0, columns=columns)
    real = fit.plan(Header(features=(*columns.columns, columns.target.name or "y"), num_records=3000))
    _, planned = simulated_like(real.model)
    assert planned.model.feature_bounds is not None
    assert one_hot_of(planned.model) == one_hot_of(real.model)
    assert planned.mechanism.made == real.mechanism.made


def test_formulas_and_named_features_are_rehearsed_as_what_they_are():
    pytest.importorskip("formulaic")
    columns = with_formula("y ~ C(town) * age + sex", Columns(COLUMNS, {"classes": [0, 1]}))
    real = onedraw.LogisticRegression(epsilon=1.0, columns=columns).plan(
        Header(features=(*NAMES, "y"), num_records=3000)
    )
    simulator, planned = simulated_like(real.model)
    assert sorted(simulator.design.levels) == [0, 0, 0, 0, 2, 4]  # age, three products, sex, town
    assert one_hot_of(planned.model) == one_hot_of(real.model) is not None
    twisted = with_formula("y ~ bs(age, df=5) + sex * town", Columns({**COLUMNS, "town": [*"abcdefg"]}))
    features = twisted.encoder((*NAMES, "y"))
    design = Design.like(features.features, features.feature_bounds)
    model = onedraw.LinearRegression(epsilon=1.0, columns=design.columns).plan(Header(features=design.names))
    assert "multiplies a column" in too_many_levels(model.model)  # so no intervals follow, as in the fit
    parted = Design.like(("u=b (vs a)", "x", "u=c (vs a)"), ((0, 1), (0, 1), (0, 1)))  # not side by side
    other = Design.like(("u=b (vs a)", "u=c (vs a)"), ((0, 1), (-1, 1)))  # not the range of an indicator
    bare = Design.like(("x", "u=b (vs a)", "u=c (vs a)"), None)
    assert (parted.levels, other.levels, bare.levels) == ((0, 0, 0), (0, 0), (0, 3))
    assert parted.declared
    assert parted.names == ("x0", "x", "x2")  # a declaration could not name its columns so
    assert bare.columns is None
    assert set(np.unique(bare.table(bare.draw(50, np.random.default_rng(0)))[:, 1:])) == {0.0, 1.0}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_truth_as_released_is_that_of_the_simulated_columns(fit_intercept, classes):
    """The predictor of the table's columns at the truth is that of working features at the location."""
    columns = Columns(COLUMNS, {"classes": [*range(classes)]})
    fit = onedraw.LogisticRegression(epsilon=1.0, columns=columns, fit_intercept=fit_intercept)
    simulator, planned = simulated_like(fit.plan(Header(features=NAMES, num_records=3000)).model)
    model, rng = planned.model, np.random.default_rng(0)
    table = simulator.table(model, rng)
    encoded, _ = simulator.design.columns.encoder(simulator.design.names).encode(table.columns)
    outputs = 1 if classes == 2 else classes
    coef, intercept = table.truth[: 5 * outputs].reshape(outputs, 5), table.truth[5 * outputs :]
    predictors = model.family.num_predictors
    working = table.features @ table.location[: 5 * predictors].reshape(predictors, 5).T
    if fit_intercept:
        working = working + table.location[5 * predictors :]
    if predictors > 1:
        working = working @ model.family.contrasts.T
    np.testing.assert_allclose(encoded @ coef.T + intercept, working, atol=1e-12)
    np.testing.assert_allclose(intercept, 0.0, atol=1e-12)
    np.testing.assert_array_equal(model.scale_features(encoded), table.features)
    assert table.columns["town"].max() == 3  # by its place


def test_coefficients_give_every_column_its_share_of_a_predictor_of_variance_one():
    design, rng = Design(levels=(0, 2, 6), declared=True), np.random.default_rng(1)
    features = design.draw(500, rng)
    coefficients = design.sizes * rng.standard_normal((3000, 7))
    shares = [
        np.mean(np.var(features[:, block] @ coefficients[:, block].T, axis=0))
        for block in (slice(0, 1), slice(1, 2), slice(2, 7))
    ]
    # The first two are 1/3 times a mean of 3000 squared normals, relative standard error 2.6%; the features
    # add 3%: those of the number, of which 500 have a variance known to 4%, and less of the others.
    np.testing.assert_allclose(shares, 1 / 3, rtol=0.15)


def test_exposures_are_a_column_of_the_simulated_table():
    columns = Columns({**COLUMNS, "years": (0.5, 8.0)}, exposure="years")
    fit = onedraw.PoissonRegressor(epsilon=2.0, columns=columns)
    real = fit.plan(Header(features=(*NAMES, "years", "y"), num_records=3000))
    simulator, planned = simulated_like(real.model, exposures=real.model.offset.exposures)
    table = simulator.table(planned.model, np.random.default_rng(0))
    years = table.columns["exposure"]
    assert 0.5 <= years.min() < 0.52 < 7.8 < years.max() <= 8.0
    assert planned.model.offset.bounds == (0.5, 8.0)
    assert one_hot_of(planned.model) == one_hot_of(real.model) is not None
    bare = onedraw.PoissonRegressor(epsilon=5.0, exposure_bounds=(0.5, 8.0))
    assert rehearse(bare, Header(features=("u", "v"), num_records=4000), repeats=1, seed=0).failed == 0.0


def test_a_refusal_names_the_column():
    columns = Columns({"age": (18, 100), "town": [*"abcdefg"]}, {"classes": [0, 1, 2]})
    fit = onedraw.LogisticRegression(epsilon=2.0, columns=columns)
    found = rehearse(fit, Header(features=("age", "town"), num_records=9000), repeats=1, seed=0)
    assert not found.half_widths
    assert "Column 'town' has 7 categories" in str(found.refusal)


@pytest.mark.statistical
def test_rehearsed_intervals_are_as_wide_as_those_of_fits():
    """Linear models of one residual scale: half-widths vary by about 2% from one table to another, so medians
    of three differ with a standard error of 1.9%, and by more than 10% once in 10^6 times.
    """
    columns = Columns({"age": (18, 100), "town": TOWNS}, {"name": "y", "bounds": [10.0, 30.0]})
    header = Header(features=("age", "town", "y"), num_records=6000)
    options = {"epsilon": 2.0, "columns": columns}
    found = rehearse(onedraw.LinearRegression(**options), header, repeats=3, seed=0)
    widths = []
    for seed in range(3):
        rng = np.random.default_rng(50 + seed)
        age, town = rng.uniform(18, 100, 6000), rng.choice(4, 6000)
        effects = np.array([0.0, *rng.normal(size=3)])
        mean = (age - 59) / 41 * rng.normal() + effects[town]
        table = {"age": age, "town": np.array(TOWNS)[town], "y": 20 + 10 * rng.normal(mean, 0.5)}
        model = onedraw.LinearRegression(**options, random_state=seed).fit(table)
        widths.append(np.diff(model.conf_int(), axis=1)[:4, 0] / 2)
    assert [*found.half_widths] == ["age", *(f"town={town} (vs a)" for town in "bcd")]
    np.testing.assert_allclose([*found.half_widths.values()], np.median(widths, axis=0), rtol=0.1)
