# SPDX-License-Identifier: Apache-2.0
"""The one way to publish: a plan made of public facts, and one function that turns records into a release.

Guarantee:
    ``publish`` is the only place in the package where private records become a ``Release``. Its order is the
    guarantee's: (1) a budget that cannot pay is refused before any record is read, so that who has none left
    learns nothing from errors about the data; (2) records are read and checked, and errors quote none of
    them; (3) the ledger is charged, and the charge commits: if what follows fails, budget is lost, but no
    release goes unrecorded; (4) the mechanism computes, silently; (5) its values are rounded to public grids,
    and only these become part of the release.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw._random import generator
from onedraw.advice import LeaveOut, Set
from onedraw.errors import InvalidInput
from onedraw.ledger import Ledger
from onedraw.mechanisms.base import Mechanism, Shape
from onedraw.privacy.guarantee import Guarantee
from onedraw.privacy.request import Request
from onedraw.private import Private, opened
from onedraw.records import Records
from onedraw.release import Release

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

    def __str__(self) -> str:
        lines = [str(self.guarantee), f"Mechanism: {self.mechanism.name} (evidence: {self._evidence})."]
        if self.reason:
            lines.append(self.reason)
        charge = f"epsilon {self.guarantee.epsilon:g}"
        if self.guarantee.delta:
            charge += f" and delta {self.guarantee.delta:g}"
        lines.append(f"A ledger would be charged {charge}.")
        lines.append("Assumptions:")
        lines += [f"  - {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)

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
    return Plan(
        mechanism=calibrated,
        assumptions=(*standing_assumptions(request, blindly), *assumptions, *calibrated.own_assumptions),
        reason=" ".join(filter(None, [reason, "" if choice is None else str(choice)])),
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
    """Afford, read, check, charge, compute, round, release: see the module docstring."""
    mechanism, guarantee = plan.mechanism, plan.guarantee
    made = mechanism.made  # public numbers: what cannot be solved for fails here, before a charge
    afford(guarantee, ledger, dataset)
    rng, seeded = generator(random_state)
    records = read()
    _check(plan, records)
    receipt = None
    if ledger is not None and dataset is not None:
        receipt = ledger.charge(dataset, guarantee, mechanism=mechanism.name).to_dict()
    with _charge_stands(receipt):
        with silent():
            found = mechanism.compute(records, rng)
        if found.evidence.level != mechanism.evidence_level:
            raise AssertionError(f"{mechanism.name} planned {mechanism.evidence_level} evidence")
        return Release(
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
            receipt=receipt,
        )


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


def _check(plan: Plan, records: Private[Any]) -> None:
    with silent():
        held = opened(records)
        plan.mechanism.check_records(held)
    if plan.num_records is not None and len(held) != plan.num_records:
        raise InvalidInput(
            f"Expected the {plan.num_records} records that the plan was made for, got {len(held)}. "
            "Plan again for this table."
        )


@contextlib.contextmanager
def _charge_stands(receipt: object) -> Iterator[None]:
    """Whatever happens behind a charge, an interrupt included, knows of it: see ``errors.CHARGE_STANDS``."""
    try:
        yield
    except BaseException as error:
        error.charged = receipt is not None  # type: ignore[attr-defined]
        raise


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """No warnings while private data are read: an overflow or a rare class would tell about a record."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
