# SPDX-License-Identifier: Apache-2.0
"""``onedraw check``: which lines of a table a fit would refuse. PRIVATE output, for the holder of the data.

It charges nothing and releases nothing: what it prints depends on the rows without limit, so it is not to be
published, logged or sent to whoever may not see the table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from onedraw.advice import Set, sentence
from onedraw.cli.app import common
from onedraw.cli.options import Kind
from onedraw.cli.output import aligned, say, say_json
from onedraw.cli.request import DEFAULT_CLASSES, for_exposure, for_target, has_classes
from onedraw.cli.table import odd_lines, read_header, read_table
from onedraw.columns import Columns
from onedraw.columns.check import NOT_A_CLASS, NOT_A_NUMBER, Finding, check
from onedraw.columns.names import no_such_column
from onedraw.estimators import Header
from onedraw.estimators.kinds import ESTIMATORS
from onedraw.estimators.tables import listed

PRIVATE = "PRIVATE OUTPUT about single rows, for the holder of the data: do not publish, log or send it."
REFUSED = 2
"""The exit code where a fit would be refused."""
SHOWN = 8
"""How many lines are listed of each kind."""


@click.command("check", short_help="PRIVATE: which lines of a table a fit would refuse.")
@click.argument("data", type=click.Path())
@click.option("--target", help="The column to be explained; without it, only features are checked.")
@click.option("--model", type=Kind(), help="The kind of model, which says what the target may hold.")
@click.option("--exposure", metavar="COLUMN", help="The column of exposures of counts, as given to fit.")
@click.option("--columns", type=click.Path(), help="Public facts about the columns, a TOML or YAML file.")
@common
def check_command(
    data: str,
    target: str | None,
    model: str | None,
    exposure: str | None,
    columns: str | None,
    as_json: bool,
) -> int:
    """List the lines of DATA that a fit would refuse, and those that it reads by a declared rule.

    PRIVATE output, for the holder of the data. Nothing is charged and nothing is released.
    """
    declared = for_exposure(Columns.read(columns), exposure)
    names = read_header(data, declared)
    if target is not None:
        if target not in names:
            raise no_such_column(target, names)
        declared = for_target(declared, target)
    odd = odd_lines(data, declared)
    found = [] if odd else _findings(declared, read_table(data, declared).columns, model)
    refused = bool(odd) or any(finding.refused for finding in found)
    if as_json:
        say_json(
            {
                "private": True,
                "refused": refused,
                "lines_with_other_numbers_of_fields": odd,
                "findings": [{**dataclasses.asdict(f), "refused": f.refused} for f in found],
            }
        )
        return REFUSED if refused else 0
    say(PRIVATE, style="bold red")
    if odd:
        say(
            f"Lines with more or fewer fields than the first: {_listed([line - 2 for line in odd])}. Refused."
        )
        return REFUSED
    if not found:
        say("Every value is foreseen by the declaration: a fit reads all of them as they stand.")
        return 0
    rows = [
        (
            finding.column,
            finding.what,
            str(len(finding.rows)),
            "refused" if finding.refused else f"counts as {finding.counts_as}",
            _listed(finding.rows),
        )
        for finding in found
    ]
    say(aligned(rows, header=("column", "values", "rows", "outcome", "lines"), right=False))
    if refused:
        say("A fit with a ledger is charged before it finds them. In the column file:")
        for remedy in _remedies(found, names, declared):
            say(f"  - {remedy}")
    return REFUSED if refused else 0


def _findings(columns: Columns, table: dict[str, Any], model: str | None) -> list[Finding]:
    classes, counts = None, False
    if model is not None and has_classes(model) and columns.target.classes is None:
        classes = DEFAULT_CLASSES
    elif model is not None and not has_classes(model):
        family = ESTIMATORS[model](epsilon=1.0).plan(Header(features=("x",))).model.family
        counts = not family.in_support(np.array([0.5])).all()
    return check(columns, table, classes=classes, counts=counts)


def _remedies(found: list[Finding], names: tuple[str, ...], columns: Columns) -> Iterator[str]:
    """What to declare about the columns that would be refused, those with one remedy together."""
    refused = [finding for finding in found if finding.refused]
    plain = [name for name, facts in ((n, columns.columns.get(n)) for n in names) if facts is None]
    texts = [f.column for f in refused if f.what == NOT_A_NUMBER and f.column in plain]
    if columns.target.name in texts:
        texts.remove(columns.target.name)
    if texts:
        yield (
            f"categories = [...] for {listed(texts)}, if they hold categories: from a code book, not from "
            "the lines; or ignore = [...] to leave them out."
        )
    if any(finding.what == NOT_A_CLASS for finding in refused):
        yield sentence([Set("classes").in_shell()])
    rest = list(dict.fromkeys(f.column for f in refused if f.column not in texts and f.what != NOT_A_CLASS))
    if rest:
        yield f"missing = ... or unknown = ... for {listed(rest)}; or correct the lines."


def _listed(rows: Any) -> str:
    """Lines of the file: the first holds the names."""
    shown = ", ".join(str(row + 2) for row in rows[:SHOWN])
    return shown + (f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")
