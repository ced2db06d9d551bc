# SPDX-License-Identifier: Apache-2.0
"""Names of features through pipelines: from the table to the release, its summary and new rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import onedraw

NAMES = ("age", "bmi", "smoker_yes")
BOUNDS = {"age": (18, 90), "bmi": (15, 45), "smoker_yes": (0, 1)}


def table(n=3000):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"bmi": rng.uniform(18, 40, n), "age": rng.uniform(18, 90, n)})
    frame["smoker"] = rng.choice(["no", "yes"], n)
    return frame, (rng.random(n) < 0.2 + 0.006 * (frame["age"] - 18)).astype(int)


def encoder(output):
    levels = OneHotEncoder(categories=[["no", "yes"]], drop="first", sparse_output=False)
    steps = [("numbers", "passthrough", ["age", "bmi"]), ("levels", levels, ["smoker"])]
    return ColumnTransformer(steps, verbose_feature_names_out=False).set_output(transform=output)


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_names_survive_a_column_transformer(output):
    frame, y = table()
    private = onedraw.LogisticRegression(epsilon=4.0, classes=[0, 1], feature_bounds=BOUNDS, random_state=0)
    fitted = make_pipeline(encoder(output), private).fit(frame, y)
    found = fitted[-1]
    assert found.release_.model.features == NAMES == tuple(fitted[:-1].get_feature_names_out())
    assert tuple(found.feature_names_in_) == NAMES
    assert found.release_.model.feature_bounds == ((18.0, 90.0), (15.0, 45.0), (0.0, 1.0))  # by name
    assert found.summary().names[:3] == NAMES
    np.testing.assert_array_equal(fitted.predict(frame), fitted.predict(frame[["smoker", "age", "bmi"]]))
    again = clone(fitted).fit(frame, y)
    np.testing.assert_array_equal(again[-1].coef_, found.coef_)


def test_declared_columns_describe_what_a_transformer_hands_on():
    frame, y = table(200)
    columns = onedraw.Columns(BOUNDS, {"classes": [0, 1]})
    fitted = make_pipeline(encoder("pandas"), onedraw.LogisticRegression(epsilon=1.0, columns=columns))
    assert fitted.fit(frame, y)[-1].release_.model.features == NAMES
    fitted["columntransformer"].set_output(transform="default")
    with pytest.raises(onedraw.InvalidInput, match=r"Expected a table with named columns.*got ndarray"):
        fitted.fit(frame, y)
