# SPDX-License-Identifier: Apache-2.0
"""What public facts tell is told before the ledger is charged, in Python: names and units."""

import warnings

import pandas as pd
import pytest

import onedraw
from onedraw.errors import UnitsWarning
from onedraw.mechanisms import TiltedFit
from onedraw.privacy.request import Request

PEOPLE = pd.DataFrame({"age": [61.0, 47.0] * 60, "smoker": ["yes", "no"] * 60, "died": [1, 0] * 60})
COLUMNS = onedraw.Columns({"age": (18, 100), "smoker": ["no", "yes"]}, {"name": "died", "classes": [0, 1]})


@pytest.fixture
def ledger(tmp_path):
    made = onedraw.Ledger(tmp_path / "b.db")
    made.create("people", epsilon=2.0)
    return made


def model(columns, **options):
    return onedraw.LogisticRegression(epsilon=1.0, columns=columns, **options)


def test_a_response_that_is_not_there_is_refused_before_the_charge(ledger):
    frame = PEOPLE.rename(columns={"died": "dead"})
    with pytest.raises(onedraw.InvalidInput, match=r"no column 'died'. It has 3: 'age', 'smoker', 'dead'"):
        model(COLUMNS, ledger=ledger, dataset="people").fit(frame)
    with pytest.raises(onedraw.InvalidInput, match=r"no column 'deid'. .* Did you mean 'died'\?"):
        onedraw.fit("deid ~ age", PEOPLE, columns=onedraw.Columns({"age": (18, 100)}), epsilon=1.0)
    assert ledger.show("people").charges == 0


def test_a_column_that_new_rows_do_not_have_is_named():
    fitted = model(COLUMNS).fit(PEOPLE)
    with pytest.raises(
        onedraw.InvalidInput, match=r"no column 'age'. It has 3: 'Age', .* Did you mean 'Age'\?"
    ):
        fitted.predict(PEOPLE.rename(columns={"age": "Age"}))


def test_a_column_without_bounds_beside_others_with_them_is_a_caution(ledger):
    part = onedraw.Columns({"age": (18, 100)}, {"name": "died", "classes": [0, 1]}, ignore=("smoker",))
    frame = PEOPLE.assign(income=5e4)
    with pytest.warns(
        UnitsWarning, match=r"age|income not, so values between -1 and 1 .*Column\(bounds="
    ) as said:
        model(part).fit(frame)
    assert len(said) == 1  # of what is not declared only a ledger is a reason to speak
    with pytest.warns(UnitsWarning, match=r"Nothing is declared about income.*charged and then refused"):
        model(part, ledger=ledger, dataset="people").fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # where all is declared there is nothing to say
        model(COLUMNS, ledger=ledger, dataset="people").fit(PEOPLE)


def test_a_table_that_is_read_where_it_lies_has_the_cautions_of_any_other():
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(
        PEOPLE.assign(income=5e4)[["age", "income", "died"]]
    )
    with pytest.warns(UnitsWarning, match="too few to find a unit"):
        onedraw.LogisticRegression(epsilon=1.0, classes=[0, 1]).fit(arrow, target="died")


def curvature(levels, records, epsilon=1.0):
    """Whether the default pays for intervals of a column with so many categories."""
    columns = onedraw.Columns({"job": [f"j{i}" for i in range(levels)]}, {"classes": [0, 1]})
    header = onedraw.estimators.Header(features=("job",), num_records=records)
    plan = model(columns).plan(header)
    assert isinstance(plan.mechanism, TiltedFit)
    assert plan.guarantee == Request(epsilon=epsilon).guarantee()
    return plan.mechanism.terms_of_curvature is not None


@pytest.mark.parametrize(("levels", "each"), [(2, 400), (4, 400), (8, 400), (20, 400)])
def test_intervals_of_categories_are_paid_for_where_they_usually_follow(levels, each):
    assert curvature(levels, each * levels)
    assert not curvature(levels, each * levels - 1)


@pytest.mark.parametrize("levels", [21, 30])
def test_intervals_of_more_categories_than_were_studied_are_never_paid_for(levels):
    assert not curvature(levels, 10_000_000)
