# SPDX-License-Identifier: Apache-2.0
"""The study of docs/chains.md at a small size: every mechanism runs, and it goes on where it stopped."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import chains


def test_the_study_runs_and_goes_on_where_it_was(tmp_path, monkeypatch):
    offered = chains.mechanisms
    monkeypatch.setattr(chains, "PASSES", 150)
    monkeypatch.setattr(chains, "mechanisms", lambda d, passes=150: offered(d, passes))
    results = tmp_path / "chains.jsonl"
    chains.study("smoke", 0.0, results)
    assert not results.exists()
    chains.study("smoke", 60.0, results)
    first = results.read_text()
    chains.study("smoke", 60.0, results)
    assert results.read_text() == first
    rows = chains.summary(results)
    assert [row["name"] for row in rows] == list(offered(2))
    assert all(row["error"] > 0 and row["repeats"] == 1 for row in rows)
    assert "best chain, times that" in chains.winners(rows)
    chains.draw(rows, tmp_path / "chains.png")
    assert (tmp_path / "chains.png").stat().st_size > 1000
