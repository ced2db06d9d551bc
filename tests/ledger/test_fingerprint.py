# SPDX-License-Identifier: Apache-2.0
"""The same rows under another name are recognised."""

import datetime
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onedraw.errors import DuplicateDataWarning, InvalidInput
from onedraw.ledger.fingerprint import SIZE, resemblance, sketch, table_rows


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(1000, 3)), rng.integers(0, 2, size=1000)


def test_the_same_rows_in_another_order_are_recognised(ledger, table):
    X, y = table
    ledger.create("other name", epsilon=1.0)
    assert ledger.fingerprint("adult", X, y) == ()
    order = np.random.default_rng(1).permutation(len(y))
    with pytest.warns(DuplicateDataWarning, match="of dataset 'other name' seem to be those of 'adult' too"):
        assert ledger.fingerprint("other name", X[order], y[order]) == ("adult",)


def test_different_rows_and_the_same_name_are_no_reason_to_warn(ledger, table):
    X, y = table
    ledger.create("other name", epsilon=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ledger.fingerprint("adult", X, y)
        ledger.fingerprint("adult", X, y)
        ledger.fingerprint("adult", X[:500], y[:500])
        ledger.fingerprint("other name", X + 1e-9, y)
        ledger.fingerprint("other name", [], [])
    assert [entry.kind for entry in ledger.history("adult")] == ["create", "fingerprint", "fingerprint"]


@pytest.mark.parametrize("kept", [0.9, 0.5, 0.1])
def test_resemblance_estimates_the_share_of_common_rows(table, kept):
    """64 hashes: a standard error of at most 0.0625, and 4 of them: 1 false alarm in 10,000 keys."""
    X, y = table
    some = int(len(y) * kept)
    whole, part = (sketch(b"key", table_rows(X[:n], y[:n])) for n in (len(y), some))
    assert resemblance(whole, part) == pytest.approx(kept, abs=0.25)


def test_containers_of_the_same_values_have_the_same_sketch(table):
    X, y = table
    forms = [
        (X, y),
        (X.tolist(), y.tolist()),
        (pd.DataFrame(X), pd.Series(y)),
        (X, y.astype(float)),
        (X, y.astype(bool)),
    ]
    assert len({sketch(b"key", table_rows(*form)) for form in forms}) == 1


def test_values_of_all_kinds_are_told_apart():
    numbers = [0, 1, -1, float("nan"), float("inf"), 2**60, 2**60 + 1]
    values = [*numbers, None, "", "1", "a", b"\x00", datetime.date(2026, 1, 1)]
    assert len(sketch(b"key", [[value] for value in values])) == len(values)
    assert sketch(b"key", [["ab", "c"]]) != sketch(b"key", [["a", "bc"]])
    assert sketch(b"key", [[0.0]]) == sketch(b"key", [[-0.0]])
    assert len(sketch(b"key", ([i] for i in range(1000)))) == SIZE


def test_tables_that_cannot_be_read_are_refused(ledger):
    with pytest.raises(InvalidInput, match="X and y of one length, got 2 and 1"):
        ledger.fingerprint("adult", [[1], [2]], [1])
    with pytest.raises(InvalidInput, match="got a value of type object"):
        ledger.fingerprint("adult", [[object()]])


def test_rows_are_not_stored_and_the_sketch_is_not_shown(ledger):
    ledger.fingerprint("adult", [["Ada Lovelace"]], [1])
    assert b"Ada" not in Path(ledger.path).read_bytes()
    assert "sketch" not in str(ledger.history())


def test_the_sketch_of_a_stream_is_that_of_all_distinct_rows():
    """By its definition: the smallest digests of the set of rows, repeated rows counted once."""
    rows = [(i % 500, float(i % 500) / 7.0) for i in range(2000)]
    every = {sketch(b"key", [row])[0] for row in rows}
    assert sketch(b"key", iter(rows)) == tuple(sorted(every)[:SIZE])


def test_a_dataset_has_the_sketch_of_its_rows(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    datasets = pytest.importorskip("pyarrow.dataset")
    columns = {"age": [61, 47, 33], "smoker": ["yes", None, "no"]}
    parquet.write_table(arrow.table(columns), tmp_path / "rows.parquet", row_group_size=2)
    rows = list(zip(*columns.values(), strict=True))
    assert sketch(b"key", table_rows(datasets.dataset(tmp_path))) == sketch(b"key", rows)
