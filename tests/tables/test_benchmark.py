# SPDX-License-Identifier: Apache-2.0
"""The benchmark of large tables on a small one: what it measures agrees; a run goes on where it stopped."""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from onedraw.cli import table

pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
try:
    fits = importlib.import_module("_large_fits")
    scale = importlib.import_module("scale")
finally:
    sys.path.pop(0)


@pytest.fixture
def small(tmp_path, small_look):
    path = tmp_path / "small.parquet"
    fits.simulate(path, 6000)
    return path


def test_the_same_fit_is_measured_in_memory_and_streamed(small):
    held, streamed = fits.memory(str(small)), fits.stream(str(small))
    assert 4 <= streamed["scans"] <= 5  # a look of 2,048 records has to tell eleven parameters
    np.testing.assert_allclose(held["draws"], streamed["draws"], atol=1e-9)
    assert 0.05 < fits.peak() < 20.0


@pytest.mark.parametrize(("kind", "least", "most"), [("linear", 6, 9), ("counts", 4, 5)])
def test_other_models_take_their_passes(kind, least, most, small):
    """More than at least, where a look of 2,048 records has to tell eleven parameters."""
    assert least <= getattr(fits, kind)(str(small))["scans"] <= most


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_what_the_command_reads_is_measured_in_pieces_and_as_a_block(suffix, small, monkeypatch):
    monkeypatch.setattr(table, "LARGE", 0)
    path = str(small if suffix == ".parquet" else fits.as_csv(small))
    assert fits.arrow(path) == fits.block(path) == fits.pieces(path) == {}


def found(name, path, number):
    """What a measurement would print."""
    each = {"cpu": 2.0, "peak": 0.4, "draws": [[1.0, 2.0]], "scans": 4, "fit": 1.0, "pass": 0.5}
    return {**each, "one": [2.0], "two": [1.2], "tiny": [0.01], "one_cpu": [2.0], "two_cpu": [2.1]}


def test_a_run_prints_every_aim_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    ran = []

    def run(asked, **options):
        ran.append(asked)
        if asked[0] == "git":
            return SimpleNamespace(returncode=1)
        if len(ran) == 7:
            raise KeyboardInterrupt
        return SimpleNamespace(stdout=json.dumps(found(*asked[2:4], 0)) + "\n")

    monkeypatch.setattr(scale.subprocess, "run", run)
    with pytest.raises(KeyboardInterrupt):
        scale.report(2000, 1, tmp_path)
    scale.report(2000, 1, tmp_path)
    measured = [tuple(asked[2:]) for asked in ran if asked[0] != "git"]
    assert len(measured) == len(set(measured)) + 1  # that which was cut short
    before = len(ran)
    text = scale.report(2000, 1, tmp_path)
    assert len(ran) == before + 1  # of the history alone
    for aim in ("<= 1.3, <= 0.6 GB", "4.5 to 5.5, <= 1 GB", "<= 0.75", "<= 60 ms", "<= 1.5", "<= 1e-9"):
        assert aim in text
    assert "0.60" in text  # two workers beside one thread
