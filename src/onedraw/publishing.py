# SPDX-License-Identifier: Apache-2.0
"""The one way to publish: a plan made of public facts, and one function that turns records into a release.

Guarantee:
    ``publish`` is the only place in the package where private records become a ``Release``. Its order is the
    guarantee's: (1) a budget that cannot pay is refused before any record is read; (2) the ledger is charged,
    and the charge commits: if what follows fails, budget is lost, but no release goes unrecorded; (3) records
    are read and checked, and errors quote none of them; (4) the mechanism computes, silently; (5) its values
    are rounded to public grids, and only these become part of the release.

    *What an attacker sees* is the release, or that there is none and why. An error that depends on a value is
    an output like any other, and a deterministic one: with one record replaced it appears with probability 1
    in place of 0, so it has no epsilon, and no charge pays for it. What is guaranteed, and when:

    * *A rule for every value* (``onedraw.Columns``, of which target and all columns are ``is_total``): each
      record is mapped by itself to a possible record of the model [``onedraw.columns.encoding``]. Two
      neighbouring tables are mapped to tables that are neighbours or equal, so a mechanism that is private
      for all tables of the model stays private with the same epsilon, and neither (3) nor any message can
      tell one table from another. This case has the whole guarantee, as far as the file is a table at all.
    * *Otherwise, with a ledger*: the charge stands before a value is looked at. A refusal still tells that
      some record breaks the declaration, so the guarantee is for who sees releases and not refusals. But
      nobody learns it for nothing: each question costs an epsilon, at most budget / epsilon of them are
      answered, and each of them is on record.
    * *Otherwise, without a ledger*: the caller has the data, and gets the error. Nothing limits or records
      how often it is asked for.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms import OnePosterior
>>> from onedraw.model import RegressionModel
>>> model = RegressionModel(family=Bernoulli(), features=("x",))
>>> plan = make_plan(Request(epsilon=1.0), OnePosterior(), Shape(model=model, num_records=3))
>>> print(plan.guarantee)
Replacing all the data of any one person by any other changes the probability of any outcome of this release
by a factor of at most 2.72 (epsilon = 1, delta = 0).
>>> import numpy as np
>>> records = Records(features=np.array([[0.1], [0.5], [0.9]]), response=np.array([0.0, 1.0, 1.0]))
>>> release = publish(plan, lambda: Private(records), random_state=0)
>>> release.seeded, sorted(release.named_parameters())
(True, ['(intercept)', 'x'])
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw._random import generator
from onedraw.advice import CheckData, LeaveOut, Set
from onedraw.cautions import may_fail, of_mechanism, unusual_promise
from onedraw.errors import CHARGE_STANDS, InvalidInput, LedgerError, OnedrawError
from onedraw.ledger import Ledger
from onedraw.mechanisms.base import Mechanism, Shape
from onedraw.privacy.guarantee import Guarantee
from onedraw.privacy.request import Request
from onedraw.private import Private, opened
from onedraw.records import Records
from onedraw.release import Release
from onedraw.release.html import Markup, element, items
from onedraw.samplers.base import CONDITIONS
from onedraw.tables import base

__all__ = ["Plan", "Private", "Records", "make_plan", "publish", "silent", "standing_assumptions"]

CHOSEN_BLINDLY = (
    "The names and number of the features, and every option of the fit, were chosen without looking at the "
    "data."
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What would be released, promised and charged; made of public facts, before any record is read.

    ``reason`` says why this mechanism, and how many draws, where the choice was left to the package.
    """

    mechanism: Mechanism
    """Calibrated."""
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    cautions: tuple[str, ...] = ()
    """What to know before a budget is spent, ``onedraw.cautions``."""

    @property
    def guarantee(self) -> Guarantee:
        """What the release will promise, and what a ledger will be charged for."""
        return self.mechanism.guarantee

    @property
    def model(self) -> Any:
        """The public description of what will be released."""
        return self.mechanism.model

    @property
    def num_records(self) -> int | None:
        """The number of records, where it is public and known."""
        shape = self.mechanism.shape
        return None if shape is None else shape.num_records

    def sentences(self, cautions: Iterable[str] | None = None) -> list[str]:
        """All but the assumptions; ``cautions`` stand in place of its own, which are worded for Python."""
        told = (*self.cautions, *(caution.in_python() for caution in self.mechanism.cautions))
        charge = f"epsilon {self.guarantee.epsilon:g}"
        if self.guarantee.delta:
            charge += f" and delta {self.guarantee.delta:g}"
        return [
            self.guarantee.sentence(CONDITIONS.get(self._evidence, "")),
            f"Mechanism: {self.mechanism.name} (evidence: {self._evidence}).",
            *([self.reason] if self.reason else []),
            *(f"CAUTION: {caution}" for caution in (told if cautions is None else cautions)),
            f"A ledger would be charged {charge}.",
        ]

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), "Assumptions:", *(f"  - {a}" for a in self.assumptions)])

    def _repr_html_(self) -> Markup:
        promise, *rest = self.sentences()
        return element(
            "div",
            element("p", element("strong", promise)),
            *(element("p", sentence) for sentence in rest),
            element("p", "Assumptions:"),
            items(self.assumptions),
            class_="onedraw",
        )

    @property
    def _evidence(self) -> str:
        return self.mechanism.evidence_level


def make_plan(
    request: Request,
    mechanism: Mechanism,
    shape: Shape,
    *,
    assumptions: tuple[str, ...] = (),
    reason: str = "",
    blindly: str = CHOSEN_BLINDLY,
) -> Plan:
    """The mechanism calibrated for the request; ``assumptions`` are added to the standing ones.

    ``blindly`` says what must have been chosen without a look at the data.
    """
    known = shape.num_records if request.num_records_is_public else None
    calibrated = mechanism.calibrate(request, Shape(model=shape.model, num_records=known))
    choice = getattr(calibrated, "draws_choice", None)
    # Draws are chosen for intervals: that there will be none is what to know before the charge.
    chosen, vain = ("", "") if choice is None else (str(choice), "") if choice.trusted else ("", str(choice))
    return Plan(
        mechanism=calibrated,
        assumptions=(*standing_assumptions(request, blindly), *assumptions, *calibrated.own_assumptions),
        reason=" ".join(filter(None, [reason, chosen, calibrated.outlook])),
        cautions=tuple(filter(None, [vain, *cautions_of(calibrated, known)])),
    )


def cautions_of(mechanism: Mechanism, num_records: int | None) -> tuple[str, ...]:
    """What to know before this calibrated mechanism is paid for."""
    promise = mechanism.guarantee
    return (
        of_mechanism(mechanism),
        *unusual_promise(epsilon=promise.epsilon, delta=promise.delta, num_records=num_records),
        may_fail(evidence=mechanism.evidence_level, num_parameters=mechanism.model.dim),
    )


def standing_assumptions(request: Request, blindly: str = CHOSEN_BLINDLY) -> tuple[str, ...]:
    """What every release rests on."""
    rows = request.rows_per_person
    person = "Each person holds one row." if rows == 1 else f"Each person holds at most {rows} rows."
    size = ("The number of rows is public.",) if request.num_records_is_public else ()
    return (person, blindly, *size, "The running time of the fit is not observed by an attacker.")


def publish(
    plan: Plan,
    read: Callable[[], Private[Any]],
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    random_state: Any = None,
) -> Release:
    """Afford, charge, read, check, compute, round, release: see the module docstring."""
    mechanism, guarantee = plan.mechanism, plan.guarantee
    made = mechanism.made  # public numbers: what cannot be solved for fails here, before a charge
    afford(guarantee, ledger, dataset)
    rng, seeded = generator(random_state)
    receipt = None
    if ledger is not None and dataset is not None:
        mechanism.check_plan()
        receipt = ledger.charge(dataset, guarantee, mechanism=mechanism.name, awaited=True)
    with _charge_stands(receipt), contextlib.ExitStack() as at_the_end:
        with _found_before(receipt):
            given = read()
            at_the_end.callback(_release, given)
            records = checked_records(plan, given, rng)
        with silent():
            found = mechanism.compute(records, rng)
        if found.evidence.level != mechanism.evidence_level:
            raise AssertionError(f"{mechanism.name} planned {mechanism.evidence_level} evidence")
        release = Release(
            model=plan.model,
            draws=found.draws,
            grid=found.grid,
            mechanism=made,
            guarantee=guarantee,
            assumptions=plan.assumptions,
            evidence=found.evidence,
            statistics=found.statistics,
            seeded=seeded,
            num_records=plan.num_records,
            receipt=None if receipt is None else receipt.to_dict(),
        )
        if ledger is not None and receipt is not None:
            with contextlib.suppress(LedgerError):  # the release is paid for; not to note it harms nobody
                ledger.released(receipt)
        return release


def afford(guarantee: Guarantee, ledger: Ledger | None, dataset: str | None) -> None:
    """Refuse what the ledger could not pay for; charges nothing and reserves nothing."""
    if (ledger is None) != (dataset is None):
        given, other = ("dataset", "ledger") if ledger is None else ("ledger", "dataset")
        raise InvalidInput(
            "Expected ledger and dataset together: the ledger holds the budget, and dataset names whose "
            "it is.",
            advice=[Set(other), LeaveOut(given)],
        )
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InvalidInput(f"Expected ledger to be an onedraw.Ledger, got {type(ledger).__name__}.")
    if ledger is not None and dataset is not None:
        ledger.check_affordable(dataset, guarantee)


def checked_records(plan: Plan, records: Private[Any], rng: np.random.Generator) -> Private[Any]:
    """The records, once the mechanism has refused none of them; of a large table, in one pass."""
    held = opened(records)
    if plan.num_records is not None and len(held) != plan.num_records:
        raise InvalidInput(
            f"Expected the {plan.num_records} records that the plan was made for, got {len(held)}. "
            "Plan again for this table."
        )
    with silent():
        if not hasattr(held, "settled"):  # of a form that is no table
            plan.mechanism.check_records(held)
            return records
        if not isinstance(held, base.Block) and len(held) > base.LOOK:
            plan.mechanism.check_place()
        held.check(plan.mechanism.check_records, rng)
        return Private(held.settled())


def _release(records: Private[Any]) -> None:
    """Have other processes forget the records, also where a traceback keeps those of this one."""
    held = opened(records)
    if hasattr(held, "release"):  # of a form that is no table, all are here
        held.release()


@contextlib.contextmanager
def _charge_stands(receipt: object) -> Iterator[None]:
    """Whatever happens behind a charge, an interrupt included, knows of it: see ``errors.CHARGE_STANDS``."""
    try:
        yield
    except BaseException as error:
        error.charged = receipt is not None  # type: ignore[attr-defined]
        if receipt is not None and not isinstance(error, OnedrawError):
            if not error.args:  # a bare KeyboardInterrupt
                error.args = (CHARGE_STANDS,)
            elif hasattr(error, "add_note"):  # Python 3.11
                error.add_note(CHARGE_STANDS)
        raise


@contextlib.contextmanager
def _found_before(receipt: object) -> Iterator[None]:
    """What is wrong with the records could have been found before the charge: the error says how."""
    try:
        yield
    except OnedrawError as error:
        if receipt is not None:
            error.advice = (*error.advice, CheckData())
        raise


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """No warnings while private data are read: an overflow or a rare class would tell about a record."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
