# SPDX-License-Identifier: Apache-2.0
"""What a ledger answers: plain values that print as tables.

>>> receipt = Receipt(ledger="b1", dataset="adult", date="2026-01-01", epsilon=0.1, delta=0.0, hash="9c")
>>> receipt.to_dict()["epsilon"], Receipt.from_dict(receipt.to_dict()) == receipt
('0.1', True)
>>> print(Table([receipt]))
ledger  dataset  date        epsilon  delta  hash
b1      adult    2026-01-01  0.1      0      9c
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from onedraw.errors import LedgerError
from onedraw.release.text import visible
from onedraw.types import Neighbours

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Proof that a charge is on record: it names the row of the history by its hash.

    It goes into the release, so it holds nothing private. It has a date and no time, and no number: two
    receipts with times tell how long the first fit ran, and the gap between two numbers tells how much was
    charged by others in between.
    """

    ledger: str
    dataset: str
    date: str
    epsilon: float
    delta: float
    hash: str

    def to_dict(self) -> dict[str, str]:
        """Texts only, as ``Release.receipt`` wants them."""
        return {
            field.name: value if isinstance(value := getattr(self, field.name), str) else repr(value)
            for field in dataclasses.fields(self)
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, str]) -> Receipt:
        """The inverse of ``to_dict``."""
        try:
            return cls(
                ledger=str(content["ledger"]),
                dataset=str(content["dataset"]),
                date=str(content["date"]),
                epsilon=float(content["epsilon"]),
                delta=float(content["delta"]),
                hash=str(content["hash"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(
                f"This is not a receipt ({type(error).__name__}: {error}). Give release.receipt as it is."
            ) from error


@dataclass(frozen=True, kw_only=True)
class Account:
    """How a data set stands.

    ``spent`` and ``spent_delta`` are the smallest total of all charges, ``composition`` how it was found: a
    "pure" sum or "renyi" accounting. ``remaining`` is the largest epsilon that one more draw could have;
    in a budget without a delta, one more release of any kind. ``unreleased`` counts the charges of fits that
    failed, were stopped or are still running: they stand.
    Where the sizes of charges were chosen in view of earlier releases, the guarantee is the budget, not
    what is spent.
    """

    dataset: str
    epsilon: float
    delta: float
    delta_for_charges: float
    neighbours: Neighbours
    rows_per_person: int
    charges: int
    unreleased: int
    spent: float
    spent_delta: float
    remaining: float
    composition: str
    created: str

    @property
    def remaining_for(self) -> str:
        """What ``remaining`` could be spent on: a delta helps draws, whose range is bounded, most."""
        if self.delta == 0.0:
            return "for one more release"
        return "for one more draw, at least half of it for another fit of delta 0"

    def __str__(self) -> str:
        aside = f" ({self.delta_for_charges:g} of it for charges)" if self.delta_for_charges else ""
        lost = f", {self.unreleased} of them without a release" if self.unreleased else ""
        rows = {
            "dataset": self.dataset,
            "budget": f"epsilon {self.epsilon:g}, delta {self.delta:g}{aside}",
            "spent": f"epsilon {self.spent:.7g}, delta {self.spent_delta:g} "
            f"({self.composition} composition, charges: {self.charges}{lost})",
            "remaining": f"epsilon {self.remaining:.7g} {self.remaining_for}",
            "neighbours": self.neighbours,
            "rows per person": f"{self.rows_per_person}",
            "created": self.created,
        }
        return "\n".join(f"{name:<17}{value}" for name, value in rows.items())


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of the history: a data set created, a charge, a fingerprint taken, the file migrated."""

    number: int
    date: str
    kind: str
    dataset: str
    epsilon: float | None = None
    delta: float | None = None
    draws: int | None = None
    mechanism: str = ""
    who: str = ""
    outcome: str = ""
    hash: str = ""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What ``verify`` found. ``problems`` is empty if the history is sound."""

    ledger: str
    rows: int
    head: str
    receipts: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts the history."""
        return not self.problems

    def __str__(self) -> str:
        found = "sound" if self.ok else "ALTERED"
        lines = [f"{found}: {self.rows} rows, {self.receipts} receipts compared, head {self.head[:16]}"]
        return "\n".join([*lines, *(f"  - {visible(problem)}" for problem in self.problems)])


class Table(tuple[T, ...]):
    """A tuple of records of one kind, printed with a line for each and a column for each field."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "(none)"
        names = [field.name for field in dataclasses.fields(self[0])]  # type: ignore[arg-type]
        lines = [names, *([_cell(getattr(row, name)) for name in names] for row in self)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
        return "\n".join(
            "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else visible(value)
