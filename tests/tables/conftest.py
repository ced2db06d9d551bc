# SPDX-License-Identifier: Apache-2.0
import logging
import time

import numpy as np
import pandas as pd
import pytest

from onedraw.columns import Columns
from onedraw.estimators import LogisticRegression, PoissonRegressor
from onedraw.records import Records
from onedraw.tables import base
from onedraw.tables.cluster import Cluster

FEATURES = ("age", "dose", "weight")


def _patients(n=6000, seed=0):
    """Columns by name: three features in [-1, 1] and whether a patient died."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 3))
    died = rng.random(n) < 1.0 / (1.0 + np.exp(-(x @ [1.0, -0.5, 2.0] + 0.3)))
    return {**{name: x[:, i] for i, name in enumerate(FEATURES)}, "died": died.astype(np.int64)}


@pytest.fixture
def patients():
    return _patients


@pytest.fixture
def exposed(patients):
    """A table of visits in proportion to years, and a seeded estimator of it."""
    table = patients()
    rng = np.random.default_rng(1)
    table["years"] = rng.uniform(0.2, 4.0, len(table["died"]))
    table["died"] = rng.poisson(table["years"] * np.exp(table["age"] - 0.5))
    facts = {**dict.fromkeys(FEATURES, (-1, 1)), "years": (0.1, 10)}

    def made(**options):
        columns = Columns(facts, {"name": "died"}, exposure="years")
        return PoissonRegressor(**{"epsilon": 3.0, "columns": columns, "random_state": 3, **options})

    return table, made


@pytest.fixture
def logistic():
    """A seeded estimator of the patients' model."""

    def made(**options):
        bounds = dict.fromkeys(FEATURES, (-1.0, 1.0))
        given = {"epsilon": 1.0, "classes": [0, 1], "feature_bounds": bounds, "random_state": 3, **options}
        return LogisticRegression(**given)

    return made


@pytest.fixture
def in_memory(logistic):
    """The fit of the patients in memory."""

    def fitted(**options):
        frame = pd.DataFrame(_patients())
        return logistic(**options).fit(frame[list(FEATURES)], frame["died"]).release_

    return fitted


@pytest.fixture
def folder(tmp_path):
    """The patients in three files of row groups of 500, one of them without rows."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table, place = arrow.table(_patients()), tmp_path / "patients"
    place.mkdir()
    for i, part in enumerate([table.slice(0, 2500), table.slice(2500, 0), table.slice(2500)]):
        parquet.write_table(part, place / f"part{i}.parquet", row_group_size=500)
    return place


@pytest.fixture
def small_look(monkeypatch):
    """A look of so few records that a small table is a large one."""
    monkeypatch.setattr(base, "LOOK", 2048)


# -- a cluster


@pytest.fixture(scope="package")
def processes():
    """Two workers of one thread, and a nanny for each that brings a new one if it dies."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, silence_logs=logging.CRITICAL) as local:
        yield local


@pytest.fixture
def client(processes):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes) as connected:
        connected.wait_for_workers(2)
        yield connected


@pytest.fixture
def frame(folder):
    """The folder of patients; a file without rows is a partition without rows."""
    return pytest.importorskip("dask.dataframe").read_parquet(folder)


@pytest.fixture
def table(client, frame):
    """The patients on the workers."""

    def read(part):  # a local function is sent by value: workers cannot import this file
        return Records(
            features=part[["age", "dose", "weight"]].to_numpy(), response=part["died"].to_numpy(float)
        )

    return Cluster.of(frame.to_delayed(), read, Records(features=np.empty((0, 3)), response=np.empty(0)))


@pytest.fixture
def kernel():
    """Sums of the features, which take their time."""

    def made(seconds):
        def summed(block):
            time.sleep(seconds)
            return (block.features.sum(axis=0),)

        return summed

    return made
