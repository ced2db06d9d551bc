# SPDX-License-Identifier: Apache-2.0
"""The comparison with NumPyro runs, at a size that says nothing about speed."""

import importlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numpyro")
jax = pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytestmark = [pytest.mark.jax, pytest.mark.slow]


def test_both_engines_follow_the_same_density(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    networks = importlib.import_module("networks")
    target = networks.posterior(40)
    theirs = networks.Theirs(target, 30, 20)
    theta = np.random.default_rng(0).normal(size=target.dim)
    with jax.enable_x64(True):
        potential = float(theirs.kernel._potential_fn(theta))
        assert potential == pytest.approx(-float(target.density(theta, target.data)), rel=1e-12)
    row = networks.measure(40, repeats=1, warmup=30, kept=20)
    assert row[0] == "40"
    assert len(row) == 11
    for per_iteration in row[3:5]:
        assert 1 <= float(per_iteration) <= 2**networks.DEPTH
