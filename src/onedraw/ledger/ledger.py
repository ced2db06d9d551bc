# SPDX-License-Identifier: Apache-2.0
"""A budget that cannot be spent twice: one file that every process charges before it releases anything.

Guarantee:
    All releases of a data set for which ``charge`` returned a receipt are together private with the epsilon
    and delta given to ``create``, under its neighbouring relation [proof: ``onedraw.ledger.accounting``].
    This presumes that nothing was released without a charge, and that the guarantees charged are true.
    A ledger of which ``verify()`` finds something takes no charge: a charge makes the same checks first.

A charge is on disk before ``charge`` returns. So a crash may cost budget, but never leaves a release
without a charge. The ``Ledger`` object holds a path and nothing else: copies of it, in any process, spend
from the same file.

Edge cases:
    Refused, with the ledger unchanged: a charge beyond the budget, under another neighbouring relation, for
    persons with fewer rows than the data set declares, or with a delta where the budget has none set aside
    for it.

>>> import os, tempfile
>>> from onedraw.privacy import Guarantee
>>> folder = tempfile.TemporaryDirectory()
>>> ledger = Ledger(os.path.join(folder.name, "budget.db"))
>>> account = ledger.create("adult", epsilon=1.0)
>>> receipt = ledger.charge("adult", Guarantee(epsilon=0.9), mechanism="logistic regression")
>>> receipt.dataset, receipt.epsilon
('adult', 0.9)
>>> ledger.show("adult").remaining
0.1
>>> ledger.charge("adult", Guarantee(epsilon=0.3))
Traceback (most recent call last):
onedraw.errors.BudgetExceeded: Cannot spend epsilon=0.3 on dataset 'adult': 0.1 of 1 remains. See: Ledger(...
>>> ledger.verify().ok
True
>>> folder.cleanup()
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sqlite3
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onedraw._validate import one_of, positive, whole
from onedraw.advice import AskLedger, LeaveOut, Set
from onedraw.errors import BudgetExceeded, DuplicateDataWarning, InvalidInput, LedgerError, UnknownDataset
from onedraw.ledger import chain, storage
from onedraw.ledger.accounting import Budget, Cost, cost_of
from onedraw.ledger.books import Book, Books, Unreadable, entry_of, receipt_of, replay
from onedraw.ledger.fingerprint import ALIKE, resemblance, sketch, table_rows
from onedraw.ledger.names import distinct, name_of, person, text_of
from onedraw.ledger.records import Account, Entry, Receipt, Table, Verification
from onedraw.privacy import Guarantee
from onedraw.privacy.guarantee import NEIGHBOURS
from onedraw.types import Neighbours

NEW_PEOPLE = "register it, if these people are in none of them (two budgets for the same people add up)"


@dataclass(frozen=True, init=False)
class Ledger:
    """The budgets of data sets, in the file at ``path``.

    A value: two ledgers are equal if their absolute paths are, and a copy, a pickle or a scikit-learn clone
    is as good as the original. Nothing is opened or created until a method is called.

    Args:
        path: the file. ``create`` makes it; a relative path is resolved now, against the current folder.
        timeout: seconds to wait while another process is charging.
    """

    path: str
    timeout: float = field(compare=False, repr=False)

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        text = os.fspath(path)
        if not isinstance(text, str) or text in ("", ":memory:") or text.startswith("file:") or "\0" in text:
            raise InvalidInput(f"Expected path to name a file, got path={text!r}. It is kept on disk.")
        object.__setattr__(self, "path", os.path.abspath(text))
        object.__setattr__(self, "timeout", positive(timeout=timeout))

    # -- spending

    def create(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float = 0.0,
        neighbours: Neighbours = "replace_one",
        rows_per_person: int = 1,
        delta_for_charges: float = 0.0,
        who: str | None = None,
        exist_ok: bool = False,
    ) -> Account:
        """Register a data set with its total budget, for good: a budget is never raised.

        Args:
            dataset: a name. Names that differ only by case are taken for a mistake and refused.
            epsilon: total privacy loss of all releases.
            delta: probability with which that loss may be exceeded. Above 0 many small charges cost less.
            neighbours: "replace_one" or "add_remove"; every charge must be for the same.
            rows_per_person: how many records one person may hold; every charge must cover as many, or more.
            delta_for_charges: the part of delta kept for charges with a delta of their own that does not
                come from composing draws, as with Gaussian noise. Posterior draws have none.
            who: the person responsible, by default the name of the user.
            exist_ok: accept a data set that is there already, with exactly this budget.
        """
        dataset = name_of(dataset)
        budget = Budget.plan(epsilon=epsilon, delta=delta, delta_for_charges=delta_for_charges)
        one_of(NEIGHBOURS, neighbours=neighbours)
        rows_per_person = whole(rows_per_person=rows_per_person)
        content = {
            "epsilon": repr(budget.epsilon),
            "delta": repr(budget.delta),
            "delta_for_charges": repr(budget.delta_for_charges),
            "order": None if budget.order is None else repr(budget.order),
            "neighbours": neighbours,
            "rows_per_person": rows_per_person,
            "who": person(who),
        }
        with self._transaction(create=True) as connection:
            books = self._books(connection).books
            same = [name for name in books if name.casefold() == dataset.casefold()]
            if same and not (exist_ok and same == [dataset] and books[dataset].agrees(content)):
                raise LedgerError(
                    f"Dataset {dataset!r} cannot be created: {same[0]!r} exists, with epsilon="
                    f"{books[same[0]].budget.epsilon:g}. A budget is fixed for good.",
                    advice=self._ask("show", same[0]),
                )
            if not same:
                chain.append(connection, kind="create", dataset=dataset, content=content)
                books = self._books(connection).books
            return books[dataset].account()

    def charge(
        self,
        dataset: str,
        guarantee: Guarantee,
        *,
        mechanism: str = "",
        who: str | None = None,
        awaited: bool = False,
    ) -> Receipt:
        """Spend the guarantee of a release that is about to be made; only then look at the data.

        The receipt exists only once the charge is on disk. It belongs into the release. ``awaited``: that
        ``released`` will be told when there is a release, and that there was none if it never is.

        Raises:
            BudgetExceeded: the budget does not allow it; ``remaining`` says what it does.
            LedgerError: the charge does not fit the data set, or the file cannot be used.
        """
        dataset, cost = name_of(dataset), _cost(guarantee)
        content = {
            "epsilon": repr(float(guarantee.epsilon)),
            "delta": repr(float(guarantee.delta)),
            "neighbours": guarantee.neighbours,
            "rows_per_person": int(guarantee.rows_per_person),
            "draws": int(guarantee.draws),
            "bounded_range": None
            if guarantee.bounded_range is None
            else repr(float(guarantee.bounded_range)),
            "cost": cost.to_dict(),
            "mechanism": text_of(mechanism=mechanism),
            "who": person(who),
            "awaited": bool(awaited),
        }
        with self._transaction() as connection:
            ledger = self._books(connection)
            self._check_charge(self._book(ledger.books, dataset), guarantee, cost)
            row = chain.append(connection, kind="charge", dataset=dataset, content=content)
        # Not before the block has ended: that is the commit.
        return receipt_of(ledger.id, row)

    def released(self, receipt: Receipt) -> None:
        """Note that the release of an awaited charge was made; a charge without this note has none.

        Whether a fit ends with a release depends on the data: the note is for their holder.
        """
        with self._transaction() as connection:
            self._book(self._books(connection).books, receipt.dataset)
            chain.append(
                connection, kind="release", dataset=receipt.dataset, content={"charge": receipt.hash}
            )

    def check_affordable(self, dataset: str, guarantee: Guarantee) -> None:
        """Raise what ``charge`` would raise now, and charge nothing.

        For a look before the data are read: who has no budget left learns nothing from error messages about
        them. It reserves nothing; only the charge decides.
        """
        cost = _cost(guarantee)
        with self._transaction(write=False) as connection:
            book = self._book(self._books(connection).books, name_of(dataset))
            self._check_charge(book, guarantee, cost)

    # -- reading

    def show(self, dataset: str) -> Account:
        """How a data set stands: its budget, what is spent and what remains."""
        with self._transaction(write=False) as connection:
            return self._book(self._books(connection).books, name_of(dataset)).account()

    def datasets(self) -> Table[Account]:
        """All data sets, in the order of their registration."""
        with self._transaction(write=False) as connection:
            return Table(book.account() for book in self._books(connection).books.values())

    def history(self, dataset: str | None = None) -> Table[Entry]:
        """What happened, in order: of one data set, or of all."""
        with self._transaction(write=False) as connection:
            ledger = self._books(connection)
            if dataset is not None:
                dataset = self._book(ledger.books, name_of(dataset)).dataset
            rows = [row for row in ledger.rows if row.kind != "release" and dataset in (None, row.dataset)]
            made = {charge for book in ledger.books.values() for charge in book.released}
            return Table(entry_of(row, made) for row in rows)

    def verify(self, receipts: Iterable[Receipt | Mapping[str, str]] = ()) -> Verification:
        """Whether the history is as it was written, and holds these receipts (``release.receipt``).

        Found: rows edited, deleted, moved, inserted; an end cut off; tables or triggers altered; charges
        beyond their budget. Found with receipts only: a file restored from an old copy, or rewritten with
        all its hashes.
        """
        given = [r if isinstance(r, Receipt) else Receipt.from_dict(r) for r in receipts]
        with self._transaction(write=False, check=False) as connection:
            problems = [f"{name} is not as onedraw made it" for name in storage.altered_schema(connection)]
            problems += [f"database: {line}" for line in storage.damage(connection, self.path)]
            rows, (head_number, head_hash) = chain.read(connection), chain.head(connection)
        problems += chain.contradictions(rows, head_number, head_hash)
        identity = ""
        try:
            ledger = replay(rows)
            identity = ledger.id
            problems += [problem for book in ledger.books.values() for problem in book.problems()]
        except Unreadable as error:
            problems.append(str(error))
        by_hash = {row.hash: row for row in rows if row.kind == "charge"}
        for receipt in given:
            row, short = by_hash.get(receipt.hash), receipt.hash[:16]
            if receipt.ledger != identity:
                problems.append(f"receipt {short} is of another ledger ({receipt.ledger})")
            elif row is None:
                problems.append(f"the charge of receipt {short} on {receipt.dataset!r} is missing")
            elif receipt_of(identity, row) != receipt:
                problems.append(f"receipt {short} was edited")
        return Verification(
            ledger=identity, rows=len(rows), head=head_hash, receipts=len(given), problems=tuple(problems)
        )

    # -- identity

    def fingerprint(self, dataset: str, X: Any, y: Any = None, *, who: str | None = None) -> tuple[str, ...]:
        """Remember a keyed sketch of the rows; warn if they seem to be registered under another name too.

        Returns the other names. The sketch makes the ledger file as sensitive as the data; see
        ``onedraw.ledger.fingerprint``. The warning depends on the data and is meant for their holder only.
        """
        dataset = name_of(dataset)
        with self._transaction(write=False) as connection:
            self._book(self._books(connection).books, dataset)
            (key,) = connection.execute("SELECT value FROM meta WHERE key = 'fingerprint_key'").fetchone()
        taken = sketch(bytes.fromhex(key), table_rows(X, y))
        content = {"sketch": list(taken), "who": person(who)}
        with self._transaction() as connection:
            books = self._books(connection).books
            if taken not in self._book(books, dataset).sketches:
                chain.append(connection, kind="fingerprint", dataset=dataset, content=content)
        shares = {
            name: max((resemblance(taken, old) for old in book.sketches), default=0.0)
            for name, book in books.items()
            if name != dataset
        }
        alike = tuple(name for name, share in shares.items() if share >= ALIKE)
        if alike:
            warnings.warn(
                f"The rows of dataset {dataset!r} seem to be those of {', '.join(map(repr, alike))} too. "
                "Two budgets for the same rows add up: charge only one of the names.",
                DuplicateDataWarning,
                stacklevel=2,
            )
        return alike

    # -- inside

    def _transaction(
        self, *, write: bool = True, create: bool = False, check: bool = True
    ) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return storage.transaction(self.path, write=write, create=create, check=check, timeout=self.timeout)

    def _books(self, connection: sqlite3.Connection) -> Books:
        """All that the history says, read anew: there is no second copy of it that could disagree."""
        rows = chain.read(connection)
        problem = next(chain.contradictions(rows, *chain.head(connection)), None)
        try:
            if problem is None:
                ledger = replay(rows)
                problem = next((line for book in ledger.books.values() for line in book.problems()), None)
                if problem is None:
                    return ledger
        except Unreadable as error:
            problem = str(error)
        raise LedgerError(
            f"The history of the ledger {self.path!r} was altered: {problem}. {storage.NO_RECEIPT}",
            advice=AskLedger("restore a copy, and see", self.path, "verify"),
        )

    def _book(self, books: Mapping[str, Book], dataset: str) -> Book:
        if dataset in books:
            return books[dataset]
        close = difflib.get_close_matches(dataset, books, n=1)
        known = ", ".join(map(repr, books)) or "none"
        raise UnknownDataset(
            f"The ledger has no dataset {dataset!r}; it has: {known}."
            + (f" Did you mean {close[0]!r}?" if close else ""),
            advice=() if close else self._ask("create", dataset, why=NEW_PEOPLE),
            dataset=dataset,
        )

    def _check_charge(self, book: Book, guarantee: Guarantee, cost: Cost) -> None:
        self._check_terms(book, guarantee)
        self._check_budget(book, guarantee, cost)

    def _check_terms(self, book: Book, guarantee: Guarantee) -> None:
        """A charge is for the neighbours of the budget, and for persons with as many rows or more."""
        if guarantee.neighbours != book.neighbours:
            raise LedgerError(
                f"Dataset {book.dataset!r} has a budget for neighbours={book.neighbours!r}, the charge is "
                f"for {guarantee.neighbours!r}. Relations are never mixed.",
                advice=Set("neighbours", book.neighbours),
            )
        if guarantee.rows_per_person < book.rows_per_person:
            raise LedgerError(
                f"Dataset {book.dataset!r} declares rows_per_person={book.rows_per_person}, the charge "
                f"covers {guarantee.rows_per_person}.",
                advice=Set("rows_per_person", book.rows_per_person),
            )
        if guarantee.delta > 0.0 and book.budget.delta == 0.0:
            raise LedgerError(
                f"Dataset {book.dataset!r} has a budget with delta=0, the charge has "
                f"delta={guarantee.delta:g}.",
                advice=LeaveOut("delta"),
            )

    def _check_budget(self, book: Book, guarantee: Guarantee, cost: Cost) -> None:
        budget = book.budget
        if budget.admits([*book.costs, cost]):
            return
        see, remark = self._ask("show", book.dataset), ""
        left = budget.remaining_delta(book.costs)
        if cost.delta > 0 and guarantee.delta > left:
            raise BudgetExceeded(
                f"Cannot spend delta={guarantee.delta:g} on dataset {book.dataset!r}: {left:g} of the "
                f"delta_for_charges={budget.delta_for_charges:g} remains.",
                advice=see,
                requested=guarantee.delta,
                remaining=left,
                dataset=book.dataset,
                quantity="delta",
            )
        remaining = budget.remaining(book.costs)
        asked, rest = distinct(guarantee.epsilon, remaining)
        one = " for one draw" if budget.order is not None else ""
        if guarantee.delta > 0.0 and cost.delta == 0:
            remark = (
                " Draws with a delta are counted by their ranges, which takes a little more than their own "
                "epsilon and leaves the delta to the budget: fit with a smaller epsilon."
            )
        elif guarantee.epsilon <= remaining and cost.rho is not None:
            remark = " A fit that is no draw takes more of a budget with a delta: half of it is allowed."
        raise BudgetExceeded(
            f"Cannot spend epsilon={asked} on dataset {book.dataset!r}: "
            f"{rest} of {budget.epsilon:g} remains{one}.{remark}",
            advice=see,
            requested=guarantee.epsilon,
            remaining=remaining,
            dataset=book.dataset,
        )

    def _ask(self, verb: str, dataset: str, *, why: str = "see") -> AskLedger:
        return AskLedger(why, self.path, verb, dataset)


def _cost(guarantee: object) -> Cost:
    if not isinstance(guarantee, Guarantee):
        raise InvalidInput(
            f"Expected guarantee to be a Guarantee, got {type(guarantee).__name__}. "
            "Use mechanism.guarantee, or Guarantee(epsilon=...)."
        )
    return cost_of(guarantee)
