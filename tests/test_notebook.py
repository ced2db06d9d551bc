# SPDX-License-Identifier: Apache-2.0
"""The tutorial notebook runs from top to bottom, and is kept without outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "tutorial.ipynb"


def test_the_notebook_is_kept_without_outputs():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in cells)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    copy = tmp_path / NOTEBOOK.name
    copy.write_bytes(NOTEBOOK.read_bytes())
    start = "from nbclient.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", start, "--inplace", copy], capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr[-3000:]
    shown = json.dumps(json.loads(copy.read_text(encoding="utf-8"))["cells"])
    assert "changes the probability of any outcome of this release by a factor of at most 403" in shown
    assert "Cannot spend epsilon=6" in shown
    assert "image/png" in shown
