# SPDX-License-Identifier: Apache-2.0
"""How summarised numbers decide a statement of the paper: comparisons, each with its numbers in a sentence.

The paper's method is the draw with weight 1 (``beta-paper``), and it is compared with the paper's other
methods. ``beta-auto`` is this library's choice and has statements of its own.

>>> rows = [{"method": "beta-paper", "epsilon": 1.0, "n": 100, "auc": 0.9},
...         {"method": "minami", "epsilon": 1.0, "n": 100, "auc": 0.8}]
>>> print(best(rows, "auc", by=("epsilon",), lowest=False, n=100))
Holds (1 of 1): epsilon 1: 0.900 against 0.800 (Minami).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from onedraw.experiments.methods import METHODS
from onedraw.experiments.spec import Row, Value, Verdict
from onedraw.experiments.table import distinct, one, select

PAPER = "beta-paper"
OURS = "beta-auto"
SHOWN = 8
LEVEL = 5e-4
"""Differences below what is printed count as none, and for the claim."""


def cases(rows: Sequence[Row], by: Sequence[str]) -> list[dict[str, Value]]:
    """The combinations of values of the columns ``by`` that occur."""
    combinations = product(*(distinct(rows, column) for column in by))
    listed = [dict(zip(by, values, strict=True)) for values in combinations]
    return [case for case in listed if select(rows, **case)]


def best(
    rows: Sequence[Row], column: str, *, by: Sequence[str], lowest: bool, method: str = PAPER, **where: Value
) -> Verdict:
    """Whether ``method`` has the lowest (or highest) mean in every case; the runner-up is named."""
    sign = 1.0 if lowest else -1.0
    right, parts = 0, []
    kept = select(rows, **where)
    others = [name for name in distinct(kept, "method") if name not in (PAPER, OURS)]
    found = cases(kept, by)
    for case in found:
        own = one(kept, column, method=method, **case)
        scores = {name: one(kept, column, method=name, **case) for name in others}
        scores = {name: score for name, score in scores.items() if not math.isnan(score)}
        rival = min(scores, key=lambda name: sign * scores[name])
        lead = sign * (scores[rival] - own)
        right += lead >= -LEVEL
        verb = "against" if lead > LEVEL else "level with" if lead >= -LEVEL else "behind"
        parts.append(f"{_named(case)}: {own:.3f} {verb} {scores[rival]:.3f} ({METHODS[str(rival)].label})")
    return Verdict(right, len(found), _joined(parts))


def no_worse(rows: Sequence[Row], column: str, *, by: Sequence[str], lowest: bool, **where: Value) -> Verdict:
    """Whether this library's choice is no worse than weight 1, within two standard errors."""
    sign = 1.0 if lowest else -1.0
    kept = select(rows, **where)
    if OURS not in distinct(kept, "method"):
        return Verdict(0, 0, "not part of this version.")
    right, parts = 0, []
    found = cases(kept, by)
    for case in found:
        ours, paper = (one(kept, column, method=name, **case) for name in (OURS, PAPER))
        errors = [one(kept, f"{column}_se", method=name, **case) for name in (OURS, PAPER)]
        slack = 2.0 * math.hypot(*(0.0 if math.isnan(error) else error for error in errors))
        right += sign * (ours - paper) <= slack
        parts.append(f"{_named(case)}: {ours:.3f} against {paper:.3f}")
    return Verdict(right, len(found), _joined(parts))


def near_twin(
    rows: Sequence[Row], column: str, *, method: str, within: float, by: Sequence[str], **where: Value
) -> Verdict:
    """Whether the private mean is within ``within`` of its non-private twin's.

    Logarithms are compared as what they are logarithms of: a draw is a constant factor worse than its mean,
    at every n, and still approaches it.
    """
    kept = select(rows, method=method, **where)
    right, parts = 0, []
    found = cases(kept, by)
    for case in found:
        private, twin = (one(kept, name, **case) for name in (column, f"twin_{column}"))
        if column.startswith("log_"):
            private, twin = math.exp(private), math.exp(twin)
        right += abs(private - twin) <= within
        parts.append(f"{_named(case)}: {private:.3f}, twin {twin:.3f}")
    return Verdict(right, len(found), f"within {within:g}: {_joined(parts)}")


def gap(rows: Sequence[Row], column: str, *, lowest: bool, **where: Value) -> float:
    """How far the paper's method leads the best of the others; negative if it is behind."""
    kept = select(rows, **where)
    own = one(kept, column, method=PAPER)
    others = [float(row[column]) for row in kept if row["method"] not in (PAPER, OURS)]
    return min(others) - own if lowest else own - max(others)


def _named(case: dict[str, Value]) -> str:
    values = [value if name == "data" else f"{name} {value:g}" for name, value in case.items()]
    return " ".join(map(str, values))


def _joined(parts: list[str]) -> str:
    rest = f"; and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return "; ".join(parts[:SHOWN]) + rest + "."
