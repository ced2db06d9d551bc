# SPDX-License-Identifier: Apache-2.0
"""The page on networks runs. Its blocks are marked ``py``, because they need an extra."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "networks.md"

pytest.importorskip("numpyro")
pytest.importorskip("blackjax")
pytestmark = [pytest.mark.jax, pytest.mark.slow]


def test_the_blocks_of_the_page_run_in_sequence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    scope = {"__name__": "__docs__"}
    for match in re.finditer(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, match.start()) + 1
        exec(compile("\n" * line + match[1], str(PAGE), "exec"), scope)
    assert "3.7" in capsys.readouterr().out
