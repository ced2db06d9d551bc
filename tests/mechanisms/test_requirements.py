# SPDX-License-Identifier: Apache-2.0
"""The table of the documentation says what the mechanisms declare."""

import re
from pathlib import Path

from onedraw.registry import MECHANISMS, requirement_row, requirement_table

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "mechanisms.md").read_text(encoding="utf-8")


def test_the_page_holds_the_table_of_the_declarations():
    assert requirement_table() in PAGE


def test_a_row_has_no_empty_cell_but_options_and_a_reason_for_every_need(mechanism_name):
    kind = MECHANISMS[mechanism_name]
    row = requirement_row(kind)
    assert all(text for column, text in row.items() if column != "you may set")
    for need, why in kind.requirements.needs.items():
        assert need in kind.option_names()
        assert why.endswith(".")


def test_the_page_names_only_options_that_there_are():
    """``Class(option=...)`` in the text and the examples."""
    kinds = {kind.__name__: kind for kind in MECHANISMS.values()}
    for name, arguments in re.findall(r"\b([A-Z]\w+)\(([^()]*)\)", PAGE):
        if name in kinds:
            assert set(re.findall(r"(\w+)=", arguments)) <= set(kinds[name].option_names()), (name, arguments)
