# SPDX-License-Identifier: Apache-2.0
"""The tables of the documentation say what the mechanisms and the estimators declare."""

import re
from pathlib import Path

import pytest

from onedraw.estimators.offered import DEFAULT, DEFAULT_OPTIONS, OFFERS
from onedraw.mechanisms import OnePosteriorSample
from onedraw.mechanisms.requirements import all_mechanisms, requirement_row, requirement_table

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "mechanisms.md").read_text(encoding="utf-8")


def test_the_page_holds_the_table_of_the_declarations():
    assert requirement_table() in PAGE


@pytest.mark.parametrize("kind", all_mechanisms())
def test_a_row_has_no_empty_cell_and_a_reason_for_every_need(kind):
    assert all(requirement_row(kind).values())
    for need, why in kind.requirements.needs.items():
        assert hasattr(kind, need)
        assert why.endswith(".")


def test_the_page_lists_the_names_that_estimators_take_with_their_options():
    row = r'^\| `"(\w+)"`[^|]*\|[^|]*\| `(\w+)` \| (.*) \|$'
    rows = re.findall(row, PAGE, re.MULTILINE)
    found = {name: (kind, tuple(re.findall(r"`(\w+`\*?)", options))) for name, kind, options in rows}
    expected = {
        name: (
            offer.mechanism.__name__,
            (*(f"{o}`" for o in offer.options), *(f"{setting}`*" for setting in offer.settings)),
        )
        for name, offer in OFFERS.items()
    }
    default = tuple(f"{option}`" for option in DEFAULT_OPTIONS)
    assert found == {DEFAULT: (OnePosteriorSample.__name__, default), **expected}
