# SPDX-License-Identifier: Apache-2.0
"""A declaration of columns: one object for Python and the file, and a map of each record by itself."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import onedraw
from onedraw.columns import Column, Columns, Encoding, Reader, Target, encode_response

PATIENTS = Columns(
    {
        "age": Column(bounds=(18, 100), missing="middle"),
        "smoker": Column(categories=("no", "yes", "other"), unknown="other"),
    },
    Target(name="died", classes=("alive", "dead"), unknown="alive"),
    missing=["?"],
)
AGES = ["61", " 47", "?", "", "old", "inf", "1_000", "1e2", "True", None]
READ = [61.0, 47.0, 59.0, 59.0, 59.0, 59.0, 59.0, 100.0, 1.0, 59.0]


def containers(values):
    """The same values as every kind of column has them."""
    return {
        "list": list(values),
        "numpy": np.array(values, dtype=object),
        "pandas": pd.Series(values, dtype=object),
        "strings": pd.Series(values, dtype="str"),
        "categorical": pd.Series(values).astype("category"),
        "polars": pl.Series(values),
        "arrow": pa.array(values),
        "dictionary": pa.array(values).dictionary_encode(),
        "chunked": pa.chunked_array([values[:4], values[4:]]),
        "coded chunks": pa.chunked_array([pa.array(values[:4]), pa.array(values[4:])]).dictionary_encode(),
    }


@pytest.mark.parametrize("kind", containers(["a", "b", "c", "d", "e"]))
def test_text_reads_alike_in_every_container(kind):
    encoding = Encoding.of(PATIENTS, ("age", "died", "smoker"))
    smokers = ["no", "yes", "YES", " yes ", None, "?", "maybe", "other", "no", "yes"]
    table = {"age": containers(AGES)[kind], "smoker": containers(smokers)[kind]}
    features, keep = encoding.encode(table)
    assert features[:, 0].tolist() == READ
    assert features[:, 1].tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0, 1]
    assert features[:, 2].tolist() == [0, 0, 1, 0, 1, 1, 1, 1, 0, 0]
    assert keep.all()


NUMBERS = {
    "whole": np.array([1, 2, 3]),
    "float": np.array([1.0, 2.0, 3.0]),
    "half": np.array([1, 2, 3], dtype=np.float16),
    "list": [1, 2.0, "3"],
    "text": ["1", "02", "3.0"],
    "pandas": pd.Series([1, 2, 3], dtype="Int64"),
    "polars": pl.Series([1, 2, 3]),
    "arrow": pa.array([1, 2, 3]),
    "chunked": pa.chunked_array([[1.0, 2.0], [3.0]]),
    "dictionary": pa.array([1, 2, 3]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_read_alike_as_numbers_and_as_labels(kind):
    assert Reader().numbers(NUMBERS[kind]).values.tolist() == [1.0, 2.0, 3.0]
    assert Reader().positions(NUMBERS[kind], ("3", "1", "2")).values.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    "values",
    [
        [True, False, None],
        pa.array([True, False, None]),
        pl.Series([True, False, None]),
        pd.Series([True, False, None], dtype="boolean"),
        ["TRUE", "false", ""],
    ],
    ids=lambda values: type(values).__module__,
)
def test_truth_values_are_one_and_zero_or_the_labels_true_and_false(values):
    np.testing.assert_array_equal(Reader().numbers(values).values, [1.0, 0.0, np.nan])
    assert Reader().positions(values, ("false", "true")).values.tolist() == [1, 0, -1]


def test_each_record_is_encoded_by_itself():
    """Whatever the other records are, and wherever a block ends: 300 tables of odd values, fixed seed."""
    encoding = Encoding.of(PATIENTS, ("age", "smoker"))
    rng = np.random.default_rng(0)
    pool = ["61", 47, 47.0, "47.0", True, "true", None, float("nan"), "?", "x", "", "yes", " no", 1, "1"]
    alone = {}
    for value in pool:
        row, _ = encoding.encode({"age": [value], "smoker": [value]})
        alone[repr(value)] = row[0]
    for _ in range(300):
        chosen = [pool[i] for i in rng.integers(0, len(pool), 6)]
        together, _ = encoding.encode({"age": chosen, "smoker": chosen})
        np.testing.assert_array_equal(together, [alone[repr(value)] for value in chosen])


def test_a_number_may_stand_for_a_missing_value():
    reader = Columns(missing=["999"]).reader
    for values in ([1, 999], np.array([1.0, 999.0]), ["1", "999.0"], pa.array([1, 999])):
        np.testing.assert_array_equal(reader.numbers(values).values, [1.0, np.nan])
        assert reader.numbers(values).missing.tolist() == [False, True]


def test_a_decimal_comma_is_declared():
    reader = Columns(decimal=",").reader
    assert reader.numbers(["1,5", "2"]).values.tolist() == [1.5, 2.0]
    assert reader.numbers(["1.500"]).unknown.tolist() == [True]
    assert Reader().numbers(["1,5"]).unknown.tolist() == [True]


# -- the response


def response(values, target, **more):
    return encode_response(values, target, Reader(), "y", **more)


def test_classes_keep_their_order_and_unknown_ones_count_as_declared():
    target = Target(classes=("yes", "no"), unknown="no", missing="drop")
    found, keep = response(["yes", "perhaps", None, "no"], target, classes=target.classes)
    assert found[keep].tolist() == ["yes", "no", "no"]
    assert keep.tolist() == [True, True, False, True]


def test_impossible_counts_are_the_nearest_possible():
    found, _ = response([3, -2, 1.4, 2.6, "x", None], Target(unknown="nearest", missing=0), counts=True)
    assert found.tolist() == [3, 0, 1, 3, 0, 0]
    with pytest.raises(
        onedraw.InvalidInput, match=r"Declare columns=Columns\(target=Target\(unknown='nearest'"
    ):
        response([-2], Target(), counts=True)
    assert response([-2.5], Target(), counts=False)[0].tolist() == [-2.5]


def test_numbers_of_the_response_have_rules_too():
    assert response(["1.5", "x", ""], Target(unknown=7, missing=0))[0].tolist() == [1.5, 7.0, 0.0]
    for values in (["x"], [None], [np.inf]):
        with pytest.raises(onedraw.InvalidInput):
            response(values, Target())


# -- declarations


def test_the_file_and_python_say_the_same(tmp_path):
    path = tmp_path / "columns.toml"
    path.write_text(
        'missing = ["?"]\n[target]\nname = "died"\nclasses = ["alive", "dead"]\nunknown = "alive"\n'
        '[columns.age]\nbounds = [18, 100]\nmissing = "middle"\n'
        '[columns.smoker]\ncategories = ["no", "yes", "other"]\nunknown = "other"\n'
    )
    assert Columns.read(str(path)) == PATIENTS


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Columns({"age": [18, 100]}), r"expected \(low, high\) or a list of texts"),
        (lambda: Columns({"age": {"bound": (1, 2)}}), "unknown key 'bound'"),
        (lambda: Columns({"x": Column(missing="middle")}), '"middle" needs bounds'),
        (lambda: Column(categories=["1", "01"]), "distinct labels; numbers are compared as numbers"),
        (lambda: Column(categories=["a", "b"], unknown="c"), "unknown to be one of its categories"),
        (lambda: Target(classes=(0, 1), unknown=2), "unknown to be one of its classes"),
        (lambda: Target(missing="nearest"), "is a rule for unknown counts"),
        (lambda: Columns(separator=";;"), "one character"),
        (lambda: Columns(decimal=";"), 'decimal to be "." or ","'),
        (lambda: Columns(encoding="utf-88"), "no encoding is called 'utf-88'"),
        (lambda: Columns(missing=[None]), "missing to list texts"),
        (lambda: Columns.from_frame([[1]]), "Expected a pandas or polars frame, got list"),
    ],
)
def test_a_mistake_in_a_declaration_is_named(made, message):
    with pytest.raises(onedraw.InvalidInput, match=message):
        made()


def test_categories_come_from_declared_types_and_from_no_value():
    smoker = pd.CategoricalDtype(["no", "yes"])
    frame = pd.DataFrame({"age": [1.0], "smoker": pd.Series(["yes"], dtype=smoker)})
    assert Columns.from_frame(frame, {"age": (0, 9)}) == Columns({"age": (0, 9), "smoker": ["no", "yes"]})
    lazy = pl.DataFrame({"smoker": pl.Series(["yes"], dtype=pl.Enum(["no", "yes"]))})
    assert Columns.from_frame(lazy).columns["smoker"].categories == ("no", "yes")
    with pytest.raises(onedraw.InvalidInput, match="whose categories are those of the data"):
        Columns.from_frame(pl.DataFrame({"smoker": pl.Series(["yes"], dtype=pl.Categorical)}))


# -- estimators


def people(n=300):
    rng = np.random.default_rng(1)
    age, smoker = rng.integers(18, 90, n), rng.choice(["no", "yes"], n)
    died = np.where(rng.random(n) < 0.2 + 0.005 * age, "dead", "alive")
    return {"age": age.tolist(), "smoker": smoker.tolist(), "died": died.tolist()}


FRAMES = {"dict": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("kind", FRAMES)
def test_an_estimator_takes_a_table_as_it_stands(kind):
    table = people()
    model = onedraw.LogisticRegression(epsilon=1.0, columns=PATIENTS, random_state=0).fit(FRAMES[kind](table))
    X = np.column_stack([table["age"], np.array(table["smoker"]) == "yes", np.zeros(300)])
    X = pd.DataFrame(X, columns=["age", "smoker=yes (vs no)", "smoker=other (vs no)"])  # names tell
    plain = onedraw.LogisticRegression(
        epsilon=1.0, classes=["alive", "dead"], feature_bounds=[(18, 100), (0, 1), (0, 1)], random_state=0
    ).fit(X, table["died"])
    assert model.release_.draws == plain.release_.draws
    assert model.release_.model.features == ("age", "smoker=yes (vs no)", "smoker=other (vs no)")
    assert (model.predict(FRAMES[kind](table)) == plain.predict(X)).all()


def test_the_response_may_be_given_apart():
    table = people()
    columns = Columns({"age": (18, 100), "smoker": ["no", "yes"]}, Target(classes=["alive", "dead"]))
    frame = pd.DataFrame({"age": table["age"], "smoker": table["smoker"]})
    model = onedraw.LogisticRegression(epsilon=1.0, columns=columns).fit(frame, table["died"])
    assert model.feature_names_in_.tolist() == ["age", "smoker"]
    with pytest.raises(onedraw.InvalidInput, match="inconsistent numbers of samples"):
        onedraw.LogisticRegression(epsilon=1.0, columns=columns).fit(frame, table["died"][1:])


def test_rows_are_dropped_only_where_their_number_is_private():
    table = people()
    table["age"][0] = None
    columns = Columns({"age": Column(bounds=(18, 100), missing="drop"), "smoker": ["no", "yes"]},
                      Target(name="died", classes=["alive", "dead"]))  # fmt: skip
    with pytest.raises(onedraw.InvalidInput, match="Set neighbours='add_remove'"):
        onedraw.LogisticRegression(epsilon=1.0, columns=columns).fit(table)
    for private in ({"neighbours": "add_remove"}, {"rows_per_person": 2}):
        options = {"epsilon": 1.0, "columns": columns, "random_state": 0, **private}
        dropped = onedraw.LogisticRegression(**options).fit(table)
        without = onedraw.LogisticRegression(**options).fit({k: v[1:] for k, v in table.items()})
        assert dropped.release_.draws == without.release_.draws
    with pytest.raises(onedraw.InvalidInput, match="has no prediction"):
        dropped.predict(table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_bounds": (0, 1)}, "Leave feature_bounds out"),
        ({"classes": ["a", "b"]}, "Leave classes out"),
        ({"columns": {"age": (0, 1)}}, "Expected columns to be an onedraw.Columns, got dict"),
    ],
)
def test_one_way_of_declaring_is_enough(options, message):
    with pytest.raises(onedraw.InvalidInput, match=message):
        onedraw.LogisticRegression(**{"epsilon": 1.0, "columns": PATIENTS, **options}).fit(people(), [])


def test_facts_that_a_model_has_no_use_for_are_refused():
    with pytest.raises(onedraw.InvalidInput, match="LinearRegression has no use for classes"):
        onedraw.LinearRegression(epsilon=1.0, columns=PATIENTS).fit(people())
    with pytest.raises(onedraw.InvalidInput, match="Expected a table with named columns"):
        onedraw.LogisticRegression(epsilon=1.0, columns=PATIENTS).fit(np.zeros((3, 3)), [0, 1, 0])


# -- files


def write(folder, name, text, encoding="utf-8"):
    (folder / name).write_bytes(text.encode(encoding))
    return str(folder / name)


def test_files_are_read_as_declared(tmp_path):
    from onedraw.cli.table import read_header, read_table

    wine = write(tmp_path, "wine.csv", '"fixed acidity";"pH"\n7.4;3.5\n')
    assert read_header(wine) == ("fixed acidity", "pH")
    assert read_table(wine).columns == {"fixed acidity": ["7.4"], "pH": ["3.5"]}
    odd = write(tmp_path, "odd.data", "größe|n\n1,5|2\n", "latin-1")
    form = Columns(separator="|", decimal=",", encoding="latin-1")
    assert read_table(odd, form).columns["größe"] == ["1,5"]
    with pytest.raises(onedraw.InvalidInput, match=r"ends in \.csv, \.tsv"):
        read_table(odd)
    with pytest.raises(onedraw.InvalidInput, match="is not a CSV file in UTF-8"):
        read_table(odd, Columns(separator="|"))


def test_a_declaration_is_plain_and_can_be_cloned():
    from sklearn.base import clone

    model = onedraw.LogisticRegression(epsilon=1.0, columns=PATIENTS)
    assert clone(model).columns == PATIENTS
    assert json.dumps(PATIENTS.columns["age"].bounds) == "[18.0, 100.0]"
