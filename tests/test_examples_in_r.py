# SPDX-License-Identifier: Apache-2.0
"""The reader of releases in base R finds the numbers that Python wrote."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import onedraw

READER = Path(__file__).resolve().parents[1] / "examples" / "read_release.R"


def test_the_reader_is_short():
    assert len(READER.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r_reads_every_number_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(300, 2)), np.where(rng.random(300) < 0.5, "no", 'ja "é"\n')
    model = onedraw.LogisticRegression(epsilon=1.0, classes=["no", 'ja "é"\n'], random_state=0).fit(X, y)
    model.release_.to_json(tmp_path / "release.json")
    run = subprocess.run(
        ["Rscript", READER, tmp_path / "release.json"], capture_output=True, text=True, check=True
    )
    first, *rest = run.stdout.splitlines()
    assert first == "epsilon 1, delta 0, replace_one; evidence: accounted"
    found = {name: float(value) for name, value in (line.split("\t") for line in rest)}
    assert found == model.release_.named_parameters()


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
@pytest.mark.parametrize("text", ['{"schema": "onedraw.release/1"}', '{"schema": "onedraw.', "[1, 2"])
def test_r_refuses_what_is_no_release(tmp_path, text):
    (tmp_path / "release.json").write_text(text)
    run = subprocess.run(["Rscript", READER, tmp_path / "release.json"], capture_output=True, text=True)
    assert run.returncode != 0
    assert "Error" in run.stderr
