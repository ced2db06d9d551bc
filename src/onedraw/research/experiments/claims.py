# SPDX-License-Identifier: Apache-2.0
"""How numbers decide a statement of the paper: comparisons, each with its numbers in a sentence.

Methods are compared on the same data sets: the difference is taken repetition by repetition, and counts only
if its mean is beyond two standard errors. Less than that, or less than is printed, is a tie.

The paper's method is the draw with weight 1 (``beta-paper``), and it is compared with the paper's other
methods. ``beta-auto`` and ``tilted`` are this library's and have statements of their own.

>>> rows = [{"method": name, "epsilon": 1.0, "n": 100, "repetition": i, "auc": auc + 0.01 * i}
...         for name, auc in (("beta-paper", 0.9), ("minami", 0.8)) for i in range(3)]
>>> print(best(rows, "auc", by=("epsilon",), lowest=False, n=100))
Holds (1 of 1): epsilon 1: 0.910 against 0.810 (Minami).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from onedraw.research.experiments.named import NAMED
from onedraw.research.experiments.spec import Row, Value, Verdict
from onedraw.research.experiments.table import distinct, one, select
from onedraw.types import Array

PAPER = "beta-paper"
OURS = "beta-auto"
LIBRARY = (OURS, "tilted")
"""What is not compared in the paper."""
SHOWN = 8
LEVEL = 5e-4
"""Differences below what is printed count as none."""
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Lead:
    """By how much one method is better than another on average, and the standard error of that."""

    mean: float
    error: float

    @classmethod
    def of(cls, differences: Array) -> Lead:
        """From one difference per repetition; of a single one the error is not known."""
        finite = differences[np.isfinite(differences)]
        if not len(finite):
            return cls(math.nan, math.nan)
        error = float(finite.std(ddof=1) / math.sqrt(len(finite))) if len(finite) > 1 else math.nan
        return cls(float(finite.mean()), error)

    @property
    def noise(self) -> float:
        """What the mean must exceed, either way, to count. Without an error nothing does."""
        return math.inf if math.isnan(self.error) else max(LEVEL, STANDARD_ERRORS * self.error)

    @property
    def right(self) -> bool:
        """Whether the method is better beyond noise."""
        return self.mean > self.noise

    @property
    def wrong(self) -> bool:
        """Whether it is worse beyond noise."""
        return self.mean < -self.noise

    @property
    def verb(self) -> str:
        """Between the two numbers."""
        return "against" if self.right else "behind" if self.wrong else "level with"


@dataclass
class Tally:
    """Cases as they are decided."""

    right: int = 0
    ties: int = 0
    parts: list[str] = field(default_factory=list)

    def add(self, lead: Lead, text: str) -> None:
        """One more case."""
        self.right += lead.right
        self.ties += not (lead.right or lead.wrong)
        self.parts.append(text)

    @property
    def verdict(self) -> Verdict:
        """Of all cases."""
        return Verdict(self.right, len(self.parts), joined(self.parts), self.ties)


def cases(rows: Sequence[Row], by: Sequence[str]) -> list[dict[str, Value]]:
    """The combinations of values of the columns ``by`` that occur."""
    combinations = product(*(distinct(rows, column) for column in by))
    listed = [dict(zip(by, values, strict=True)) for values in combinations]
    return [case for case in listed if select(rows, **case)]


def scores(rows: Sequence[Row], column: str, method: str) -> dict[Value, float]:
    """The number of each repetition."""
    return {row["repetition"]: float(row[column]) for row in select(rows, method=method)}


def mean(rows: Sequence[Row], column: str, method: str) -> float:
    """Over the repetitions that have a number; NaN if none has."""
    found = np.array(list(scores(rows, column, method).values()))
    finite = found[np.isfinite(found)]
    return float(finite.mean()) if len(finite) else math.nan


def differences(rows: Sequence[Row], column: str, method: str, rival: str, *, lowest: bool) -> Array:
    """By how much ``method`` is better in each repetition that both have."""
    own, other = scores(rows, column, method), scores(rows, column, rival)
    sign = 1.0 if lowest else -1.0
    return np.array([sign * (other[key] - own[key]) for key in own if key in other])


def runner_up(rows: Sequence[Row], column: str, *, lowest: bool) -> str | None:
    """The best of the methods that the paper compares with, by its mean."""
    others = [str(name) for name in distinct(rows, "method") if name not in (PAPER, *LIBRARY)]
    found = {name: mean(rows, column, name) for name in others}
    found = {name: score if lowest else -score for name, score in found.items() if not math.isnan(score)}
    return min(found, key=lambda name: found[name]) if found else None


def better(
    rows: Sequence[Row],
    column: str,
    method: str,
    rival: str | None,
    *,
    by: Sequence[str],
    lowest: bool,
    **where: Value,
) -> Verdict:
    """Whether ``method`` beats ``rival``, or without one the best of the others, in every case."""
    kept, tally = select(rows, **where), Tally()
    for case in cases(kept, by):
        here = select(kept, **case)
        against = rival if rival is not None else runner_up(here, column, lowest=lowest)
        if against is None:
            continue
        lead = Lead.of(differences(here, column, method, against, lowest=lowest))
        own, other = (mean(here, column, name) for name in (method, against))
        tally.add(lead, f"{in_words(case)}: {own:.3f} {lead.verb} {other:.3f} ({NAMED[against].label})")
    return tally.verdict


def best(rows: Sequence[Row], column: str, *, by: Sequence[str], lowest: bool, **where: Value) -> Verdict:
    """Whether the paper's method beats all others in every case; the runner-up is named."""
    return better(rows, column, PAPER, None, by=by, lowest=lowest, **where)


def no_worse(rows: Sequence[Row], column: str, *, by: Sequence[str], lowest: bool, **where: Value) -> Verdict:
    """Whether this library's choice is no worse than weight 1, within two standard errors."""
    kept = select(rows, **where)
    if OURS not in distinct(kept, "method"):
        return Verdict(0, 0, "not part of this version.")
    right, parts = 0, []
    found = cases(kept, by)
    for case in found:
        here = select(kept, **case)
        right += not Lead.of(differences(here, column, OURS, PAPER, lowest=lowest)).wrong
        ours, paper = (mean(here, column, name) for name in (OURS, PAPER))
        parts.append(f"{in_words(case)}: {ours:.3f} against {paper:.3f}")
    return Verdict(right, len(found), joined(parts))


def gained(
    rows: Sequence[Row],
    column: str,
    *,
    by: Sequence[str],
    lowest: bool,
    method: str = LIBRARY[1],
    rival: str = PAPER,
) -> Verdict:
    """Whether ``method``, by default the tilted fit, beats ``rival`` in every case.

    The cases are many, so they are told by the first column of ``by``: how often better, level and worse.
    """
    if method not in distinct(rows, "method"):
        return Verdict(0, 0, "not part of this version.")
    first, found, parts = by[0], [], []
    for value in distinct(rows, first):
        kept = select(rows, **{first: value})
        told = better(kept, column, method, rival, by=by[1:], lowest=lowest)
        each = [
            differences(select(kept, **case), column, method, rival, lowest=lowest)
            for case in cases(kept, by[1:])
        ]
        lead = Lead.of(np.concatenate(each)).mean
        worse = told.cases - told.right - told.ties
        parts.append(
            f"{in_words({first: value})}: better {told.right}, level {told.ties}, worse {worse}, "
            f"{lead:+.3f} on average"
        )
        found.append(told)
    right, ties, total = (sum(getattr(v, name) for v in found) for name in ("right", "ties", "cases"))
    return Verdict(right, total, f"lead over {NAMED[rival].label}, {joined(parts)}", ties)


def near_twin(
    rows: Sequence[Row], column: str, *, method: str, within: float, by: Sequence[str], **where: Value
) -> Verdict:
    """Whether the private mean is within ``within`` of its non-private twin's; of summarised rows.

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
        parts.append(f"{in_words(case)}: {private:.3f}, twin {twin:.3f}")
    return Verdict(right, len(found), f"within {within:g}: {joined(parts)}")


def in_words(case: Mapping[str, Value]) -> str:
    """A case in words."""
    values = [value if isinstance(value, str) else f"{name} {value:g}" for name, value in case.items()]
    return " ".join(map(str, values))


def joined(parts: Sequence[str]) -> str:
    """The first cases as a sentence."""
    rest = f"; and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ("; ".join(parts[:SHOWN]) or "nothing to compare") + rest + "."
