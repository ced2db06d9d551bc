# SPDX-License-Identifier: Apache-2.0
"""Every exception onedraw raises on purpose, as one tree.

::

    OnedrawError
    ├── InvalidInput (ValueError)        a value breaks a stated requirement
    │   └── CalibrationError             no beta or weight gives the requested guarantee
    ├── SamplingError (RuntimeError)     no exact draw was made, so nothing is released
    │   ├── AcceptanceTooLow             the envelope fits too badly to finish
    │   ├── ConvergenceError             a Markov chain did not pass its diagnostics
    │   └── NonFiniteDensity             the log density is not a number somewhere
    ├── ReleaseFormatError (ValueError)  a release file is truncated, edited or of another version
    ├── LedgerError (RuntimeError)       the budget ledger gave no receipt, so nothing may be released
    │   ├── BudgetExceeded               the charge would exceed the budget of its data set
    │   └── UnknownDataset               the ledger has no data set of that name
    └── MissingExtra (ImportError)       an optional dependency is not installed

Warnings with classes of their own, to be filtered by: ``DuplicateDataWarning``, ``NoiseWarning`` and
``UnitsWarning`` (UserWarning).

A message names the value, the requirement and the remedy. None of them quotes a private record.

An error holds facts, which read alike everywhere, and advice as data: which option to set, which question to
ask the ledger (``onedraw.advice``). ``str(error)`` words the advice for Python, ``error.for_shell()`` for the
command. Several pieces of advice are alternatives.

>>> from onedraw.advice import LeaveOut, Set
>>> error = InvalidInput("A delta of 0 is not enough.", advice=[Set("delta", 1e-6), LeaveOut("mechanism")])
>>> print(error)
A delta of 0 is not enough. Set delta=1e-06, or leave mechanism out.
>>> print(error.for_shell())
A delta of 0 is not enough. Set --delta 1e-06, or leave --mechanism out.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from onedraw.advice import Advice, Flags, sentence

CHARGE_STANDS = (
    "The charge stands: whether a fit fails depends on the data, so giving the charge back would be a leak."
)


class OnedrawError(Exception):
    """Base of all errors raised on purpose by this package.

    Attributes:
        facts: what is wrong; full sentences that read alike in Python and in a shell.
        advice: what to do about it, one of these.
        charged: whether a budget was charged before it happened; the charge stands.
    """

    def __init__(self, facts: str = "", *, advice: Advice | Iterable[Advice] = ()) -> None:
        super().__init__(facts)
        self.facts = facts
        self.advice: tuple[Advice, ...] = (advice,) if isinstance(advice, Advice) else tuple(advice)
        self.charged = False

    def __str__(self) -> str:
        return self._worded(piece.in_python() for piece in self.advice)

    def for_shell(self, flags: Flags = None) -> str:
        """The message for somebody who types commands; ``flags`` are those of the command, if known."""
        return self._worded(piece.in_shell(flags) for piece in self.advice)

    def _worded(self, clauses: Iterable[str]) -> str:
        last = CHARGE_STANDS if self.charged else ""
        return " ".join(filter(None, [self.facts, sentence(clauses), last]))


class InvalidInput(OnedrawError, ValueError):
    """A value breaks a stated requirement."""


class CalibrationError(InvalidInput):
    """No beta or weight gives the requested guarantee.

    Attributes:
        requested: the epsilon that was asked for.
        reachable: the smallest epsilon that can be reached, if one exists.
    """

    def __init__(
        self,
        facts: str = "",
        *,
        advice: Advice | Iterable[Advice] = (),
        requested: float | None = None,
        reachable: float | None = None,
    ) -> None:
        super().__init__(facts, advice=advice)
        self.requested = requested
        self.reachable = reachable


class SamplingError(OnedrawError, RuntimeError):
    """No exact draw was made, so nothing is released."""


class AcceptanceTooLow(SamplingError):
    """The envelope fits the posterior too badly to finish in a reasonable number of proposals."""


class ConvergenceError(SamplingError):
    """A Markov chain did not pass its convergence diagnostics, so none of its states may be released."""


class NonFiniteDensity(SamplingError):
    """The log density is not a number somewhere, so no draw can be trusted."""


class TableError(OnedrawError, RuntimeError):
    """A table could not be read to its end, or changed between two passes, so nothing is released."""


class ReleaseFormatError(OnedrawError, ValueError):
    """A release file is truncated, edited by hand, or written by another schema version."""


class LedgerError(OnedrawError, RuntimeError):
    """The budget ledger gave no receipt, so nothing may be released."""


class BudgetExceeded(LedgerError):
    """The charge would exceed the budget of its data set; the ledger is unchanged.

    Attributes:
        requested: the epsilon (or, if ``quantity`` says so, the delta) that was asked for.
        remaining: the largest that one more charge of a single draw could have.
        dataset: the name of the data set.
        quantity: "epsilon" or "delta".
    """

    def __init__(
        self,
        facts: str = "",
        *,
        advice: Advice | Iterable[Advice] = (),
        requested: float | None = None,
        remaining: float | None = None,
        dataset: str | None = None,
        quantity: str = "epsilon",
    ) -> None:
        super().__init__(facts, advice=advice)
        self.requested = requested
        self.remaining = remaining
        self.dataset = dataset
        self.quantity = quantity


class UnknownDataset(LedgerError):
    """The ledger has no data set of that name.

    Attributes:
        dataset: the name that was asked for.
    """

    def __init__(
        self, facts: str = "", *, advice: Advice | Iterable[Advice] = (), dataset: str | None = None
    ) -> None:
        super().__init__(facts, advice=advice)
        self.dataset = dataset


class UnitsWarning(UserWarning):
    """Features without declared bounds will be taken in units that may not suit them; nothing is read yet."""


class NoiseWarning(UserWarning):
    """A release would be mostly noise: coefficients of zero would come closer; nothing is read yet."""


class DuplicateDataWarning(UserWarning):
    """The same rows seem to be registered under two names, each with a budget of its own."""


def installed_from() -> str:
    """What pip finds this package by: the folder that it was installed from or runs in, or else its name."""
    root = Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        return str(root)
    with contextlib.suppress(metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        address = json.loads(metadata.distribution("onedraw").read_text("direct_url.json") or "null")["url"]
        if str(address).startswith("file://"):
            return str(address).removeprefix("file://")
    return "onedraw"


class MissingExtra(OnedrawError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra: pip install '{installed_from()}[{extra}]'.")
        self.what, self.extra = what, extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.extra)
