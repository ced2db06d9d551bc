# SPDX-License-Identifier: Apache-2.0
"""From the rows of the history, how every data set stands.

The history is the only record. Totals are not stored but added up anew each time, so they cannot disagree
with it.

>>> replay([]).books
{}
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onedraw._validate import positive
from onedraw.errors import LedgerError
from onedraw.ledger import chain
from onedraw.ledger.accounting import Budget, Cost, cost_of
from onedraw.ledger.records import Account, Entry, Receipt
from onedraw.privacy import Guarantee
from onedraw.types import Neighbours

NO_RELEASE = "no release"
"""What became of a charge whose fit failed, was stopped, or is still running."""


class Unreadable(Exception):
    """A history that no version of this package can have written."""


@dataclass(kw_only=True)
class Book:
    """What the history says about one data set."""

    dataset: str
    created: str
    content: Mapping[str, Any]
    budget: Budget
    neighbours: Neighbours
    rows_per_person: int
    costs: list[Cost] = field(default_factory=list)
    charges: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    sketches: list[tuple[str, ...]] = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)

    def agrees(self, content: Mapping[str, Any]) -> bool:
        """Whether a second registration asks for the same."""
        terms = (key for key in content if key not in ("who", "order"))
        return all(self.content[key] == content[key] for key in terms)

    def account(self) -> Account:
        """How the data set stands."""
        spent, spent_delta, composition = self.budget.spent(self.costs)
        return Account(
            dataset=self.dataset,
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            delta_for_charges=self.budget.delta_for_charges,
            neighbours=self.neighbours,
            rows_per_person=self.rows_per_person,
            charges=len(self.costs),
            unreleased=len(self.awaited - self.released),
            spent=spent,
            spent_delta=spent_delta,
            remaining=self.budget.remaining(self.costs),
            composition=composition,
            created=self.created,
        )

    def problems(self) -> Iterator[str]:
        """What this package would not have charged, or not so."""
        for (number, values), cost in zip(self.charges, self.costs, strict=True):
            try:
                guarantee, stated = _stated(*(values[key] for key in _TERMS))
            except (KeyError, TypeError, ValueError, LedgerError) as error:
                yield f"row {number} holds no guarantee ({type(error).__name__})"
                continue
            if stated != cost:
                yield f"row {number} charges another cost than its guarantee has"
            if guarantee.neighbours != self.neighbours or guarantee.rows_per_person < self.rows_per_person:
                yield f"row {number} charges for other neighbours than its data set has"
        if not self.budget.admits(self.costs):
            yield f"the charges of dataset {self.dataset!r} exceed its budget"


@dataclass(frozen=True, kw_only=True)
class Books:
    """A ledger, read: its identity, its rows, and a book for each data set."""

    id: str
    rows: Sequence[chain.Row]
    books: dict[str, Book]


def replay(rows: Sequence[chain.Row]) -> Books:
    """From the rows, how every data set stands."""
    identity, books = "", dict[str, Book]()
    row: chain.Row | None = None
    try:
        for row in rows:
            values = row.values
            if row.kind == "ledger":
                identity = str(values["id"])
            elif row.kind == "create":
                if row.dataset in books:
                    raise ValueError("a data set is created once")
                books[row.dataset] = _opened(row, values)
            elif row.kind == "charge":
                books[row.dataset].costs.append(Cost.from_dict(values["cost"]))
                books[row.dataset].charges.append((row.number, values))
                if values.get("awaited"):
                    books[row.dataset].awaited.add(row.hash)
            elif row.kind == "release":
                books[row.dataset].released.add(str(values["charge"]))
            elif row.kind == "fingerprint":
                books[row.dataset].sketches.append(tuple(map(str, values["sketch"])))
            elif row.kind != "migrate":
                raise ValueError(f"unknown kind {row.kind!r}")
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, LedgerError) as error:
        number = row.number if row is not None else 0
        raise Unreadable(f"row {number} cannot be read ({type(error).__name__}: {error})") from error
    return Books(id=identity, rows=rows, books=books)


def _opened(row: chain.Row, values: Mapping[str, Any]) -> Book:
    return Book(
        dataset=row.dataset,
        created=row.date,
        content=values,
        budget=Budget(
            epsilon=positive(epsilon=float(values["epsilon"])),
            delta=float(values["delta"]),
            delta_for_charges=float(values["delta_for_charges"]),
            order=None if values["order"] is None else float(values["order"]),
        ),
        neighbours=values["neighbours"],
        rows_per_person=int(values["rows_per_person"]),
    )


_TERMS = ("epsilon", "delta", "neighbours", "rows_per_person", "draws", "bounded_range")


@functools.lru_cache(maxsize=1024)
def _stated(
    epsilon: str,
    delta: str,
    neighbours: Neighbours,
    rows_per_person: int,
    draws: int,
    bounded_range: str | None,
) -> tuple[Guarantee, Cost]:
    """The guarantee of a charge and its cost; remembered, because charges come in few sizes."""
    guarantee = Guarantee(
        epsilon=float(epsilon),
        delta=float(delta),
        neighbours=neighbours,
        rows_per_person=int(rows_per_person),
        draws=int(draws),
        bounded_range=None if bounded_range is None else float(bounded_range),
    )
    return guarantee, cost_of(guarantee)


def receipt_of(identity: str, row: chain.Row) -> Receipt:
    """The receipt for a charge, which can be made out again at any time."""
    values = row.values
    return Receipt(
        ledger=identity,
        dataset=row.dataset,
        date=row.date,
        epsilon=float(values["epsilon"]),
        delta=float(values["delta"]),
        hash=row.hash,
    )


def entry_of(row: chain.Row, released: Collection[str] = ()) -> Entry:
    """A row as a reader of the history sees it; ``released`` are the charges that led to a release."""
    values = row.values
    outcome = ""
    if values.get("awaited"):
        outcome = "released" if row.hash in released else NO_RELEASE
    return Entry(
        number=row.number,
        date=row.date,
        kind=row.kind,
        dataset=row.dataset,
        epsilon=float(values["epsilon"]) if "epsilon" in values else None,
        delta=float(values["delta"]) if "delta" in values else None,
        draws=values.get("draws"),
        mechanism=values.get("mechanism", ""),
        who=values.get("who", ""),
        outcome=outcome,
        hash=row.hash,
    )
