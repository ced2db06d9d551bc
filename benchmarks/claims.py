# SPDX-License-Identifier: Apache-2.0
"""What is claimed, and what each claim rests on: the tables of docs/claims.md, written from the code.

A mechanism enters by being registered: its theorem is the docstring of its module, its bugs and the tests
that catch them are the entries of tests/mutations that name it, its audit is its row of docs/audit.md, and
its assumptions are what it declares.

    python benchmarks/claims.py            print the tables
    python benchmarks/claims.py --write    write them to docs/claims.md; a test compares
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import mutate
from _table import read_section, write_section

from onedraw.mechanisms import Mechanism
from onedraw.registry import GUARANTEES, MECHANISMS
from onedraw.samplers.base import EVIDENCE_LEVELS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "claims.md"
MECHANISM_COLUMNS = (
    "mechanism",
    "guarantee",
    "neighbours",
    "theorem",
    "evidence",
    "planted bugs",
    "tests that fail with them",
    "audit: exact, shown",
    "rests on, besides the standing assumptions",
)


def theorem(kind: type[Mechanism]) -> str:
    """The module whose docstring states and proves the guarantee."""
    text = importlib.import_module(kind.__module__).__doc__ or ""
    if "Guarantee" not in text:
        raise SystemExit(f"{kind.__module__} states no Guarantee: write it into the module's docstring.")
    return f"`{kind.__module__}`"


def evidence(kind: type[Mechanism]) -> str:
    """The levels that releases of the mechanism may have."""
    if not kind.requirements.exact_draw:
        return "accounted"
    if "network" in kind.requirements.forms or "sites" in kind.requirements.forms:
        return "diagnosed"
    return "searched, proved" if "evidence" in kind.option_names() else "searched"


def rests_on(kind: type[Mechanism]) -> str:
    """What a reader must grant, from the declarations."""
    declared = kind.requirements
    parts = [f"`{need}` declared without a look at the data" for need in declared.needs]
    if declared.count:
        parts.append("the number of records is public")
    if declared.exact_draw:
        parts.append("the draw is exact, as far as its evidence goes")
    if declared.floating:
        parts.append(f"floating point for {declared.floating}")
    return "; ".join(parts) or "nothing"


def audited(name: str) -> str:
    """The largest exact epsilon and lower bound of the audit at a claim of 1, over variants and relations."""
    rows = [row for row in read_section(DOCS / "audit.md", "audit") if row[0].partition(":")[0] == name]
    if not rows:
        return "not run"
    exact = [float(row[4]) for row in rows if row[4] != "-"]
    worst = f"{max(exact):.3f}" if exact else "-"
    return f"{worst}, {max(float(row[5]) for row in rows):.3f}"


def mechanism_table() -> str:
    """One row a mechanism."""
    rows = [MECHANISM_COLUMNS, tuple("---" for _ in MECHANISM_COLUMNS)]
    every = mutate.bugs()
    for name, kind in MECHANISMS.items():
        planted = [bug for bug in every if name in bug.of]
        files = dict.fromkeys(file.removeprefix("tests/") for bug in planted for file in bug.test_files)
        rows.append(
            (
                f"`{name}`",
                GUARANTEES[kind.requirements.delta],
                "replace-one, one row" if kind.requirements.count else "both",
                theorem(kind),
                evidence(kind),
                ", ".join(bug.name for bug in planted),
                ", ".join(f"`{file}`" for file in files),
                audited(name),
                rests_on(kind),
            )
        )
    return _markdown(rows)


def evidence_table() -> str:
    """One row a level of evidence."""
    rows: list[tuple[str, ...]] = [("evidence", "what is known", "what is left to assume"), ("---",) * 3]
    rows += [(f"`{level}`", known, left) for level, (known, left) in EVIDENCE_LEVELS.items()]
    return _markdown(rows)


def _markdown(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> int:
    """The command."""
    tables = {"mechanisms": mechanism_table(), "evidence": evidence_table()}
    for name, table in tables.items():
        if "--write" in sys.argv:
            write_section(PAGE, name, table)
        else:
            print(table, end="\n\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
