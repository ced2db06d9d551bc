# SPDX-License-Identifier: Apache-2.0
"""``onedraw fit --dry-run``: what a fit would promise, charge and give, before anything is spent.

Nothing of the table is read but its header, and the number of rows where that is public. Intervals, failures
and time come from a rehearsal on simulated tables.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from onedraw.advice import Set, sentence
from onedraw.cli.output import aligned, say, say_json, waiting
from onedraw.columns import Encoding, indicators
from onedraw.errors import InvalidInput
from onedraw.estimators.tables import cautions_of
from onedraw.planning import FORM
from onedraw.publishing import Plan, afford
from onedraw.rehearsal import Rehearsal, rehearse

REPEATS = 3
CORRELATION, COPIES, RARE = 0.7, 0.95, 0.01
"""Of further rehearsals: columns as measurements of one thing, columns that nearly repeat one another, and
the share of the people in each category but the first."""
Others = dict[str, Rehearsal]
"""Rehearsals on less convenient tables, by the words that describe them."""


def say_dry_run(estimator: Any, header: Any, plan: Plan, *, as_json: bool) -> None:
    """Print what is known before the charge; a budget that cannot pay is refused as in a fit."""
    afford(plan.guarantee, estimator.ledger, estimator.dataset)
    found, others = None, Others()
    if plan.model.form == FORM and plan.num_records is not None:
        with waiting("Rehearsing on simulated tables ..."):
            found = rehearse(estimator, header, repeats=REPEATS)
            if found.half_widths:
                others = _others(estimator, header, plan)
    cautions = cautions_in_shell(estimator, plan, header.features)
    if as_json:
        say_json(_as_dict(without_rules(estimator, header), plan, cautions, found))
        return
    say("\n".join([*plan.sentences(cautions), "Assumptions:", *(f"  - {a}" for a in plan.assumptions)]))
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
        guess = "the number of rows is private. See: onedraw plan --columns FILE --rows GUESS"
        say(f"Not rehearsed: {guess if plan.model.form == FORM else 'only regressions are.'}")
    else:
        _say_rehearsal(found, others)
    say("DRY RUN: nothing was charged, no row was read, nothing was written.", style="bold")


def cautions_in_shell(estimator: Any, plan: Plan, names: tuple[str, ...]) -> list[str]:
    """What to know before the charge, as somebody who types commands reads it."""
    found = [*plan.cautions, *(caution.in_shell() for caution in cautions_of(estimator, plan, names))]
    target = estimator.columns.target
    if plan.model.classes is not None and target.classes is None and estimator.ledger is not None:
        found.append(
            f"The classes of {target.name} are not declared, so they are 0 and 1: if there is another label, "
            f"the fit is charged and then refused. {sentence([Set('classes').in_shell()])}"
        )
    return found


def without_rules(estimator: Any, header: Any) -> list[str]:
    """The columns, the target among them, of which some value could be refused."""
    target = estimator.columns.target
    open_columns = Encoding.of(estimator.columns, header.features).without_rules
    return [*open_columns, *([] if target.is_total else [str(target.name)])]


def _others(estimator: Any, header: Any, plan: Plan) -> Others:
    """The same fit on tables whose columns go together, or whose categories are rare."""
    found = Others()
    if plan.model.num_features > 1:
        for words, correlation, repeats in (
            ("all columns are correlated", CORRELATION, REPEATS),
            ("all columns nearly repeat one another", COPIES, 1),
        ):
            many = rehearse(estimator, header, repeats=repeats, correlation=correlation)
            found[f"{words} ({correlation:g})"] = many
    if indicators(plan.model.features):
        rare = rehearse(estimator, header, repeats=1, rare_share=RARE)
        found[f"each category but the first holds {RARE:.0%} of the people"] = rare
    return found


def _say_rehearsal(found: Rehearsal, others: Others) -> None:
    say(
        f"Rehearsed on {found.repeats} simulated tables of {found.rows:,} rows: about {found.seconds:.2g} s "
        f"for a fit, {found.failed:.0%} of the fits were charged and released nothing."
    )
    if found.half_widths:
        rows = [(name, f"{width:.3g}") for name, width in found.half_widths.items()]
        say(aligned(rows, header=("coefficient", "half-width of its 95% interval")))
        if found.plan.model.feature_bounds is None:
            say(
                "No bounds are declared, so these are widths for features that fill -1 to 1, and a response "
                f"of order one. {sentence([Set('feature_bounds').in_shell()])}"
            )
        say("In real tables features fill less of their range, and intervals are wider.")
        if found.with_intervals < 1.0:
            say(f"{1.0 - found.with_intervals:.0%} of the releases had no intervals.")
        for words, other in others.items():
            say(f"If {words}: {_against(other, found)}")
        if not all(other.half_widths for other in others.values()):
            _say_in_vain(found.plan, "Then what they need is paid for in vain: who expects that saves it.")
    elif isinstance(found.refusal, InvalidInput):
        say(f"There will be no intervals: {found.refusal.for_shell()}")
        _say_in_vain(found.plan, "What they need would be paid for in vain.")


def _say_in_vain(plan: Plan, what: str) -> None:
    """How not to pay for intervals that do not come, where they are paid for."""
    if getattr(plan.mechanism, "terms_of_curvature", None) is not None:
        without = Set("inference", False, of="TiltedFit", named="tilted_fit")
        say(f"{what} {sentence([without.in_shell()])}")


def _against(found: Rehearsal, other: Rehearsal) -> str:
    """Intervals of one rehearsal in words, beside those of another."""
    if not found.half_widths:
        return "no intervals."
    ratios = [width / other.half_widths[name] for name, width in found.half_widths.items()]
    often = "" if found.with_intervals == 1.0 else f", in {found.with_intervals:.0%} of the releases"
    return f"{np.median(ratios):.2g} times as wide{often}."


def _as_dict(
    open_columns: list[str], plan: Plan, cautions: list[str], found: Rehearsal | None
) -> dict[str, Any]:
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
        "cautions": cautions,
        "assumptions": list(plan.assumptions),
        "num_records": plan.num_records,
        "columns_without_rules": open_columns,
        "rehearsal": rehearsed,
    }
