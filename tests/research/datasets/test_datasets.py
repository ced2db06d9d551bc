# SPDX-License-Identifier: Apache-2.0
"""The registry's records, reading from a folder, the checked download, and preparation."""

import csv
import dataclasses
import hashlib
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from onedraw.errors import InvalidInput
from onedraw.research.datasets import DATASETS, Categories, DataSet, Number, Table, load, prepare
from onedraw.research.datasets.loading import checked, content_checksum, parse

needs_data = pytest.mark.skipif("ONEDRAW_DATA" not in os.environ, reason="needs ONEDRAW_DATA")
CSV = "b,2,x\na,4,y\na,8,x\n?,6,y\n"


def small(content: str = CSV, **changes) -> DataSet:
    options = {
        "name": "small",
        "title": "A small table",
        "task": "classification",
        "file": "small.csv",
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "content": "",
        "rows": 4,
        "source": "nowhere",
        "licence": "none",
        "columns": (Categories("kind", ("a", "b")), Number("size", 0, 10), Categories("y", ("x", "y"))),
        "target": "y",
        "response": lambda text: float(text == "y"),
        "meaning": "y",
    }
    return DataSet(**{**options, **changes})


@pytest.fixture
def registered(monkeypatch, tmp_path):
    """Registers a data set and writes its file."""

    def register(content=CSV, **changes):
        data = small(content, **changes)
        monkeypatch.setitem(DATASETS, data.name, data)
        (tmp_path / data.file).write_text(CSV)
        return data

    monkeypatch.delenv("ONEDRAW_DATA", raising=False)
    return register


def test_categories_become_columns_and_missing_ones_zeros(registered, tmp_path):
    registered()
    table = load("small", data_home=tmp_path)
    assert table.names == ("kind=b", "size")
    assert table.features.tolist() == [[1, 2], [0, 4], [0, 8], [0, 6]]
    assert table.response.tolist() == [0, 1, 0, 1]
    assert table.bounds == ((0, 1), (0, 10))


def test_the_environment_names_the_folder(registered, tmp_path, monkeypatch):
    registered()
    monkeypatch.setenv("ONEDRAW_DATA", str(tmp_path))
    assert len(load("small").response) == 4


def test_a_changed_file_is_refused(registered, tmp_path):
    registered(CSV.replace("8", "9"))
    with pytest.raises(InvalidInput, match=r"not the published 'small'.*SHA-256"):
        load("small", data_home=tmp_path)


def test_a_missing_file_names_both_ways_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEDRAW_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"no 'abalone.data'.*data_home.*ONEDRAW_DATA.*OpenML"):
        load("abalone")


def test_a_data_set_without_a_checked_copy_elsewhere_says_so(monkeypatch):
    monkeypatch.delenv("ONEDRAW_DATA", raising=False)
    with pytest.raises(InvalidInput, match=r"'raisin' is not at hand.*data_home.*ONEDRAW_DATA"):
        load("raisin")


def test_a_failed_download_names_the_other_way(monkeypatch):
    monkeypatch.delenv("ONEDRAW_DATA", raising=False)

    def fail(**options):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    with pytest.raises(InvalidInput, match=r"could not be downloaded.*data_home"):
        load("abalone")


def rings(rows):
    """OpenML's abalone with these rows."""
    pandas = pytest.importorskip("pandas")
    openml = DATASETS["abalone"].openml
    frame = pandas.DataFrame(rows, columns=list(openml.columns))[list(reversed(openml.columns))]
    return lambda **options: SimpleNamespace(frame=frame if options["data_id"] == 183 else None)


def test_a_download_is_the_same_table_whatever_its_order(monkeypatch):
    monkeypatch.delenv("ONEDRAW_DATA", raising=False)
    rows = [["M", 0.455, 0.365, 0.095, 0.514, 0.2245, 0.101, 0.15, 15], ["F", *[0.2] * 7, 7]]
    data = dataclasses.replace(DATASETS["abalone"], rows=2)
    published = parse(data, [[str(cell) for cell in row] for row in rows])
    monkeypatch.setitem(DATASETS, "abalone", dataclasses.replace(data, content=content_checksum(published)))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", rings(rows[::-1]))
    table = load("abalone")
    assert table.response.tolist() == [0, 1]
    assert table.features[1].tolist() == published.features[0].tolist()


def test_a_download_with_another_content_is_refused(monkeypatch):
    monkeypatch.delenv("ONEDRAW_DATA", raising=False)
    monkeypatch.setitem(DATASETS, "abalone", dataclasses.replace(DATASETS["abalone"], rows=1))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", rings([["F", *[0.2] * 7, 7]]))
    with pytest.raises(InvalidInput, match="is not the published table"):
        load("abalone")


def test_records_are_complete_and_travel_to_workers():
    for name, data in DATASETS.items():
        assert data.name == name
        assert {data.sha256, data.content} & {""} == set()
        assert data.target in {column.name for column in data.columns}
        assert data.source
        assert data.licence
        assert pickle.loads(pickle.dumps(data)).response("10.5") == data.response("10.5")


def table_of(features: np.ndarray, bounds) -> Table:
    response = np.arange(len(features)) % 2.0
    names = tuple(f"x{i}" for i in range(features.shape[1]))
    return Table(data=small(), features=features, response=response, names=names, bounds=bounds)


def test_public_scaling_clips_each_record_by_itself():
    """Changing one record changes no other: what scaling by private extremes gets wrong."""
    features = np.random.default_rng(0).uniform(0.0, 10.0, (40, 2))
    other = features.copy()
    other[3] = [1e6, -1e6]
    bounds = ((0.0, 10.0), (0.0, 10.0))
    prepared = [
        prepare(table_of(x, bounds), scaling="public", rng=np.random.default_rng(1))
        for x in (features, other)
    ]
    changed = (prepared[0].features != prepared[1].features).any(axis=1)
    assert changed.sum() + (prepared[0].test_features != prepared[1].test_features).any(axis=1).sum() == 1
    assert prepared[1].features.min() >= 0.0
    assert prepared[1].features.max() <= 1.0
    assert prepared[0].features.tolist() != features[:36].tolist()


def test_published_scaling_uses_the_extremes_of_the_training_rows_and_drops_constants():
    features = np.column_stack([np.arange(20.0), np.full(20, 3.0)])
    found = prepare(table_of(features, ((0, 1), (0, 1))), scaling="extremes", rng=np.random.default_rng(0))
    assert found.names == ("x0",)
    assert found.features.min() == 0.0
    assert found.features.max() == 1.0
    assert len(found.test_response) == 2


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", [name for name in DATASETS if name != "adult"])
def test_the_published_file_is_read_whole(name):
    table = load(name)
    assert len(table.response) == DATASETS[name].rows
    assert content_checksum(table) == DATASETS[name].content
    assert checked(table) is table
    assert np.isfinite(table.features).all()


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "ones"),
    [
        ("abalone", 1447),
        ("adult", 7841),
        ("bank", 610),
        ("vertebral", 210),
        ("breast-cancer", 85),
        ("raisin", 450),
    ],
)
def test_classes_are_as_many_as_documented(name, ones):
    assert load(name).response.sum() == ones


@pytest.mark.data
@needs_data
def test_checksums_are_those_of_the_manifest():
    with open(Path(os.environ["ONEDRAW_DATA"]) / "MANIFEST.csv", encoding="utf-8") as file:
        listed = {row["name"]: row for row in csv.DictReader(file)}
    for name, data in DATASETS.items():
        assert (data.sha256, data.file, data.rows) == (
            listed[name]["sha256"],
            listed[name]["file"],
            int(listed[name]["rows"]),
        )


@pytest.mark.data
@needs_data
def test_public_bounds_are_wide_enough_and_not_the_extremes_of_the_data():
    """A bound of a measured quantity that equals an extreme of the data would have been read off them."""
    coded = {"education_num", "age", "hours_per_week", "deg_malig", "chas", "zn", "rad", "compressor_decay"}
    coded |= {"eccentricity", "extent", "capital_gain", "capital_loss", "citric_acid"}
    for name in DATASETS:
        table = load(name)
        for column, feature, (low, high) in zip(table.names, table.features.T, table.bounds, strict=True):
            assert np.mean((feature < low) | (feature > high)) < 0.01, (name, column)
            if "=" not in column and column not in coded:
                assert (low, high) != (feature.min(), feature.max()), (name, column)
