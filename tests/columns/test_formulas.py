# SPDX-License-Identifier: Apache-2.0
"""Formulas whose levels and knots come from the declaration, and whose design is a map of each record."""

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BSpline

import onedraw
from onedraw.columns import Column, Columns, Target
from onedraw.formulas import with_formula

COLUMNS = Columns(
    {
        "age": Column(bounds=(18, 98), missing="middle"),
        "income": Column(bounds=(1, 100), missing=10),
        "sex": Column(categories=("f", "m", "x"), unknown="x"),
        "smoker": Column(categories=("no", "yes"), unknown="no"),
    },
    Target(classes=("alive", "dead"), unknown="alive"),
)
NAMES = ("age", "income", "sex", "smoker", "died")


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 98, n),
            "income": rng.uniform(1, 100, n),
            "sex": rng.choice(["f", "m"], n),
            "smoker": rng.choice(["no", "yes"], n),
        }
    )
    risk = -2.0 + 0.04 * (frame["age"] - 58) + 1.5 * (frame["smoker"] == "yes")
    frame["died"] = np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "dead", "alive")
    return frame


def design(formula, frame):
    encoding = with_formula(formula, COLUMNS).encoder(NAMES)
    return encoding, encoding.encode(frame)[0]


def test_levels_come_from_the_declaration():
    """Nobody in the table is "x", and one person is "q": both are as declared."""
    frame = people()
    frame.loc[0, "sex"] = "q"
    encoding, matrix = design("died ~ age + C(sex) * smoker", frame)
    assert encoding.features == (
        "age",
        "C(sex)[T.m]",
        "C(sex)[T.x]",
        "smoker[T.yes]",
        "C(sex)[T.m]:smoker[T.yes]",
        "C(sex)[T.x]:smoker[T.yes]",
    )
    male, smokes = (frame["sex"] == "m").to_numpy(), (frame["smoker"] == "yes").to_numpy()
    other = frame["sex"].to_numpy() == "q"
    expected = [frame["age"], male, other, smokes, male & smokes, other & smokes]
    np.testing.assert_array_equal(matrix, np.stack(expected, axis=1).astype(float))
    assert encoding.feature_bounds == [(18.0, 98.0)] + [(0.0, 1.0)] * 5


def test_another_reference_level_is_chosen_in_the_formula():
    encoding, _ = design('died ~ C(sex, contr.treatment(base="m"))', people())
    assert [name[-4:] for name in encoding.features] == ["T.f]", "T.x]"]


@pytest.mark.parametrize(
    ("term", "inner"),
    [("bs(age, df=5)", (44.0 + 2 / 3, 71 + 1 / 3)), ("bs(age, knots=[40, 60])", (40.0, 60.0))],
)
def test_splines_are_those_of_scipy_with_public_knots(term, inner):
    ages = np.array([18.0, 30.0, 44.0, 70.5, 98.0, 5.0, 120.0])
    _, matrix = design(f"died ~ {term}", pd.DataFrame({"age": ages}))
    knots = np.r_[[18.0] * 4, inner, [98.0] * 4]
    basis = BSpline.design_matrix(np.clip(ages, 18.0, 98.0), knots, 3).toarray()
    np.testing.assert_allclose(matrix, basis[:, 1:], atol=1e-9)


def test_a_logarithm_holds_what_lies_below_the_range():
    _, matrix = design("died ~ log(income)", pd.DataFrame({"income": [1.0, np.e, -5.0, None]}))
    np.testing.assert_allclose(matrix[:, 0], [0.0, 1.0, 0.0, np.log(10.0)])


@pytest.mark.parametrize(
    "formula",
    ["died ~ C(sex) * smoker + bs(age, df=4) + log(income)", "died ~ age:smoker + sex:smoker - 1"],
)
def test_each_record_is_encoded_by_itself(formula):
    frame = people(60)
    frame.loc[3, "sex"] = "q"
    encoding, together = design(formula, frame)
    for i in range(0, 60, 7):
        alone, _ = encoding.encode(frame.iloc[i : i + 1])
        np.testing.assert_array_equal(alone[0], together[i])


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("died ~ scale(age)", "may look at other records"),
        ("died ~ poly(age, 2)", "may look at other records"),
        ("died ~ I(age - age.mean())", "may look at other records"),
        ("died ~ bs(age, df=sex.nunique())", "may look at other records"),
        ("died ~ C(sex, levels=[print('x')])", "may look at other records"),
        ("died ~ C(age)", r"Declare columns=Columns\(\{'age': Column\(categories=\.\.\.\)\}\)"),
        ("died ~ bs(weight, df=4)", r"needs a declared range. Declare columns=Columns\(\{'weight'"),
        ("died ~ log(weight)", "needs a declared positive range"),
        ("died ~ age + offset(weight)", "The offset 'weight' needs a declared range"),
        ("died ~ age + offset(log(weight))", "The exposure 'weight' needs a declared positive range"),
        ("died ~ age + offset(income) + offset(age)", "one offset"),
        ("died ~ age:offset(income)", "one offset"),
        ("died ~ age + offset(scale(income))", "Expected offset"),
        ("died ~ age + exposure(income)", "written offset"),
        ("died ~ height", "which the table does not have"),
        ("died ~ C(sexx)", "which the table does not have.*Did you mean 'sex'"),
        ("died ~ age + offset(log(incomes))", "which the table does not have.*Did you mean 'income'"),
        ("died ~ bs(age, df=4, lower_bound=10)", "Options of bs are df, knots, degree, got 'lower_bound'"),
        ("died ~ 1", "no term but an intercept"),
        ("died ~ age +", "Cannot read the formula"),
        ("age + sex", "Expected a formula 'response ~ terms'"),
        ("log(died) ~ age", "Expected the name of a column before ~"),
    ],
)
def test_what_is_no_map_of_one_record_is_refused(formula, message):
    with pytest.raises(onedraw.InvalidInput, match=message):
        with_formula(formula, COLUMNS).encoder([*NAMES, "weight"])


@pytest.mark.parametrize("term", ["offset(log(years))", "offset(log_years)"])
def test_an_offset_has_the_coefficient_one(term):
    """The same fit as with the exposure beside the features; the column of the offset is no feature."""
    rng, frame = np.random.default_rng(1), people(3000)
    frame["years"] = rng.uniform(0.2, 5.0, 3000)
    frame["log_years"] = np.log(frame["years"])
    frame["claims"] = rng.poisson(frame["years"] * np.exp(0.02 * (frame["age"] - 58)))
    facts = {"age": (18, 98), "years": (0.1, 10.0), "log_years": tuple(np.log([0.1, 10.0]).tolist())}
    options = {"epsilon": 3.0, "random_state": 0}
    found = onedraw.fit(
        f"claims ~ age + {term}", data=frame, columns=Columns(facts), model="poisson", **options
    )
    assert found.release_.model.features == ("age",)
    assert found.release_.model.offset.name == term.strip("()").split("(")[-1]
    array = onedraw.PoissonRegressor(feature_bounds=(18, 98), exposure_bounds=(0.1, 10.0), **options)
    array.fit(frame[["age"]].to_numpy(), frame["claims"], exposure=frame["years"])
    assert found.coef_ == pytest.approx(array.coef_)
    assert found.intercept_ == pytest.approx(array.intercept_)
    assert found.predict(frame.head(3), exposure=2.0) == pytest.approx(2.0 * found.predict(frame.head(3)))


def test_offsets_keep_the_rest_of_a_formula():
    columns = Columns({"age": (18, 98), "sex": ["f", "m"], "years": (0.1, 10.0)})
    names = ("age", "sex", "years", "claims")
    plain = with_formula("claims ~ 0 + C(sex) * age", columns)
    offset = with_formula("claims ~ 0 + offset(log(years)) + C(sex) * age", columns)
    assert offset.encoder(names).features == plain.encoder(names).features
    assert not offset.has_intercept
    assert plain.exposure is None
    assert with_formula("claims ~ age + offset(log(years))", columns).has_intercept
    with pytest.raises(onedraw.InvalidInput, match="Keep one"):
        with_formula("claims ~ age + offset(log(years))", Columns({"years": (0.1, 10.0)}, exposure="years"))
    with pytest.raises(onedraw.InvalidInput, match="names 'years', which the table does not have"):
        offset.encoder(("age", "sex", "claims"))


def test_a_formula_is_fitted_and_predicts():
    frame = people(4000)
    model = onedraw.fit(
        "died ~ age + C(sex) + smoker", data=frame, columns=COLUMNS, epsilon=50.0, random_state=0
    )
    found = model.release_.named_parameters()
    assert found["age"] == pytest.approx(0.04, abs=0.02)
    assert found["smoker[T.yes]"] == pytest.approx(1.5, abs=0.5)
    assert model.classes_.tolist() == ["alive", "dead"]
    assert (model.predict(frame) == frame["died"]).mean() > 0.7
    assert model.predict_proba(people(3)).shape == (3, 2)


def test_an_intercept_is_taken_away_by_the_formula():
    frame = people()
    model = onedraw.fit("died ~ 0 + age", data=frame, columns=COLUMNS, epsilon=1.0, random_state=0)
    assert model.release_.model.fit_intercept is False
    counts = Columns(COLUMNS.columns, Target(unknown="nearest", missing=0))
    frame["visits"] = np.arange(400) % 5 - 1
    poisson = onedraw.fit("visits ~ age", data=frame, columns=counts, model="poisson", epsilon=1.0)
    assert poisson.release_.model.kind == "poisson"


def test_a_ledger_is_charged_and_the_estimator_can_be_cloned(tmp_path):
    from sklearn.base import clone

    ledger = onedraw.Ledger(tmp_path / "b.db")
    ledger.create("people", epsilon=1.0)
    model = onedraw.fit(
        "died ~ age", data=people(), columns=COLUMNS, epsilon=0.5, ledger=ledger, dataset="people"
    )
    assert ledger.show("people").spent == 0.5
    assert clone(model).columns == model.columns


def test_without_formulaic_the_error_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(onedraw.MissingExtra, match="formulas"):
        with_formula("died ~ age", COLUMNS).encoder(NAMES)
