# SPDX-License-Identifier: Apache-2.0
"""Planted bugs fit the tree and leave no mechanism or family out; the page of claims is what the code says.

That the tests catch them is found out by ``scripts/mutate``, a sample of which runs in CI.
"""

import ast
import importlib
import sys
from collections import Counter
from pathlib import Path

import pytest

from onedraw.families import FAMILIES
from onedraw.registry import MECHANISMS

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    mutate = importlib.import_module("mutate")
    claims = importlib.import_module("claims")
finally:
    sys.path.pop(0)
BUGS = mutate.bugs()
PARTS = (
    "ledger",
    "publishing",
    "release grid",
    "noise",
    "auditor",
    "composition",
    "rows per person",
    "relation",
    "random",
)
"""What has bugs planted in it besides mechanisms and families."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_an_entry_applies_once_still_compiles_and_names_tests_that_exist(bug):
    text = (ROOT / bug.file).read_text(encoding="utf-8")
    assert text.count(bug.find) == 1, f"{bug.name}: {text.count(bug.find)} times in {bug.file}: {bug.find}"
    planted = bug.planted(text)
    assert planted != text
    ast.parse(planted)
    assert bug.why
    assert bug.tests
    for test in bug.tests:
        file, _, name = test.partition("::")
        assert name.partition("[")[0] in mutate.defined_tests(ROOT / file), test


def test_names_are_unique():
    assert [name for name, times in Counter(bug.name for bug in BUGS).items() if times > 1] == []


@pytest.mark.parametrize("part", [*MECHANISMS, *FAMILIES, *PARTS])
def test_every_mechanism_family_and_part_has_two_bugs_planted(part):
    planted = [bug.name for bug in BUGS if part in bug.of]
    assert len(planted) >= 2, f"{part} has {planted}: add entries to tests/mutations/*.toml"


def test_no_more_than_one_in_twenty_is_missed_and_each_miss_is_explained():
    assert len(BUGS) >= 60
    assert sum(bool(bug.missed) for bug in BUGS) <= 0.05 * len(BUGS)


def test_samples_of_many_turns_hold_every_quick_bug():
    quick = {bug.name for bug in BUGS if not bug.slow and not bug.missed}
    seen = {bug.name for turn in range(len(quick)) for bug in mutate.sample(BUGS, 10, turn)}
    assert seen == quick
    assert all(len(mutate.sample(BUGS, 10, turn)) == 10 for turn in range(len(quick)))


def test_a_bug_that_no_longer_applies_is_an_error():
    with pytest.raises(SystemExit, match="0 times"):
        BUGS[0].planted("another text")


# -- the page of claims


@pytest.mark.parametrize(
    ("section", "table"), [("mechanisms", claims.mechanism_table), ("evidence", claims.evidence_table)]
)
def test_the_page_of_claims_is_written_from_the_code(section, table):
    page = claims.PAGE.read_text(encoding="utf-8")
    held = page.split(f"<!-- {section} -->\n")[1].split(f"\n<!-- /{section} -->")[0]
    assert held == table(), "run python benchmarks/claims.py --write"


def test_no_claim_is_without_a_theorem_a_bug_and_an_assumption(mechanism_name):
    kind = MECHANISMS[mechanism_name]
    assert claims.theorem(kind)
    assert claims.rests_on(kind)
    assert f"| `{mechanism_name}` |" in claims.mechanism_table()
