# SPDX-License-Identifier: Apache-2.0
"""``onedraw fit --dry-run``: what a fit would promise, charge and give, before anything is spent.

Nothing of the table is read but its header, and the number of rows where that is public. Intervals, failures
and time come from a rehearsal on simulated tables.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from onedraw.cli.output import aligned, say, say_json, waiting
from onedraw.columns import Encoding
from onedraw.errors import InvalidInput
from onedraw.planning import FORM
from onedraw.publishing import Plan, afford
from onedraw.rehearsal import Rehearsal, rehearse

REPEATS = 3


def say_dry_run(estimator: Any, header: Any, plan: Plan, *, as_json: bool) -> None:
    """Print what is known before the charge; a budget that cannot pay is refused as in a fit."""
    afford(plan.guarantee, estimator.ledger, estimator.dataset)
    found: Rehearsal | None = None
    if plan.model.form == FORM and plan.num_records is not None:
        with waiting("Rehearsing on simulated tables ..."):
            found = rehearse(estimator, header, repeats=REPEATS)
    if as_json:
        say_json(_as_dict(without_rules(estimator, header), plan, found))
        return
    say(str(plan))
    if estimator.ledger is not None:
        account = estimator.ledger.show(estimator.dataset)
        say(f"The ledger can pay: {account.remaining:.6g} of epsilon {account.epsilon:g} remains.")
    open_columns = without_rules(estimator, header)
    if open_columns:
        say(
            f"No rule says what unforeseen values of {', '.join(open_columns)} count as: a fit that meets "
            "one is charged and refused. Find them with onedraw check, or declare missing and unknown."
        )
    say()
    if found is None:
        why = "only regressions are" if plan.model.form != FORM else "the number of rows is private"
        say(f"Not rehearsed: {why}. See: onedraw plan --columns FILE --rows GUESS")
    else:
        _say_rehearsal(found)
    say("DRY RUN: nothing was charged, no row was read, nothing was written.", style="bold")


def cautions_in_shell(plan: Plan) -> list[str]:
    """What to know before the charge, as somebody who types commands reads it."""
    return [*plan.cautions, *(caution.in_shell() for caution in plan.mechanism.cautions)]


def without_rules(estimator: Any, header: Any) -> list[str]:
    """The columns, the target among them, of which some value could be refused."""
    target = estimator.columns.target
    open_columns = Encoding.of(estimator.columns, header.features).without_rules
    return [*open_columns, *([] if target.is_total else [str(target.name)])]


def _say_rehearsal(found: Rehearsal) -> None:
    say(
        f"Rehearsed on {found.repeats} simulated tables of {found.rows:,} rows: about {found.seconds:.2g} s "
        f"for a fit, {found.failed:.0%} of the fits were charged and released nothing."
    )
    if found.half_widths:
        rows = [(name, f"{width:.3g}") for name, width in found.half_widths.items()]
        say(aligned(rows, header=("coefficient", "half-width of its 95% interval")))
        say("In real tables features fill less of their range, and intervals are wider.")
        if found.with_intervals < 1.0:
            say(f"{1.0 - found.with_intervals:.0%} of the releases had no intervals.")
    elif isinstance(found.refusal, InvalidInput):
        say(f"There will be no intervals: {found.refusal.for_shell()}")


def _as_dict(open_columns: list[str], plan: Plan, found: Rehearsal | None) -> dict[str, Any]:
    rehearsed = None
    if found is not None:
        rehearsed = {
            part.name: getattr(found, part.name)
            for part in dataclasses.fields(found)
            if part.name not in ("plan", "refusal")
        }
        if math.isnan(found.with_intervals):
            rehearsed["with_intervals"] = None
    return {
        "dry_run": True,
        "guarantee": plan.guarantee.to_dict(),
        "mechanism": plan.mechanism.name,
        "reason": plan.reason,
        "cautions": cautions_in_shell(plan),
        "assumptions": list(plan.assumptions),
        "num_records": plan.num_records,
        "columns_without_rules": open_columns,
        "rehearsal": rehearsed,
    }
