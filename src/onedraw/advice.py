# SPDX-License-Identifier: Apache-2.0
"""Advice as data: which option to set, which question to ask the ledger, worded for Python or for a shell.

Every option has one name. Python sets it by that name, the command by a flag, by ``--mechanism-option`` or in
the column file. Which of them it is, is known here: who raises an error need not know who reads it.

>>> Set("delta", 1e-6).in_python(), Set("delta", 1e-6).in_shell()
('set delta=1e-06', 'set --delta 1e-06')
>>> Set("classes").in_python(), Set("classes").in_shell()
('set classes=[...]', 'declare classes = [...] under [target] of the column file')
>>> sentence(piece.in_shell() for piece in (Set("draws", "auto"), LeaveOut("mechanism")))
'Set --draws auto, or leave --mechanism out.'
"""

from __future__ import annotations

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

Flags = Collection[str] | None
ANY = "..."
"""In place of a value that the reader must choose."""
CREATE = "create"
"""The question to a ledger that needs an epsilon as well."""
FLAGS = {"random_state": "--seed"}
"""Options that the command spells otherwise; all others are ``--name-with-dashes``."""
COLUMN_FILE = {
    "classes": ("classes = {}", "[target]"),
    "target_bounds": ("bounds = {}", "[target]"),
    "feature_bounds": ("bounds = {}", "[columns.NAME]"),
    "exposure_bounds": ("bounds = {}", "[columns.NAME]"),
}
"""Options that the command takes from the column file (--columns): key and section."""


class Advice(ABC):
    """Something to do, as a clause: no capital at the start and no full stop at the end."""

    @abstractmethod
    def in_python(self) -> str:
        """For somebody who writes Python."""

    @abstractmethod
    def in_shell(self, flags: Flags = None) -> str:
        """For somebody who types commands; ``flags`` are those of the command in question, if known."""


@dataclass(frozen=True)
class Do(Advice):
    """What reads alike everywhere."""

    what: str

    def in_python(self) -> str:
        return self.what

    def in_shell(self, flags: Flags = None) -> str:
        return self.what


@dataclass(frozen=True)
class Set(Advice):
    """Give an option a value; ``of`` is the class of the mechanism whose option it is.

    >>> Set("feature_norm", 2.0, of="AdaSSP").in_python(), Set("feature_norm", 2.0, of="AdaSSP").in_shell()
    ('set AdaSSP(feature_norm=2.0)', 'set --mechanism-option feature_norm=2.0')

    ``named`` is the name of that mechanism, where the reader may not have asked for it yet:

    >>> Set("inference", True, of="TiltedFit", named="tilted_fit").in_shell()
    'set --mechanism tilted_fit --mechanism-option inference=true'
    """

    option: str
    value: Any = field(default=ANY)
    of: str | None = None
    named: str | None = None
    lead: str = "set"
    note: str = ""
    """What more there is to say, such as how to choose the value."""

    def in_python(self) -> str:
        value = ANY if self.value is ANY else repr(self.value)
        if value is ANY and self.of is None and self.option in COLUMN_FILE:
            value = "[...]"
        setting = f"{self.option}={value}"
        if self.of is not None:
            setting = f"{'' if self.named is None else 'mechanism='}{self.of}({setting})"
        return f"{self.lead} {setting}{self.note}"

    def in_shell(self, flags: Flags = None) -> str:
        if self.of is None and self.option in COLUMN_FILE:
            key, section = COLUMN_FILE[self.option]
            value = "[...]" if self.value is ANY else json.dumps(self.value)
            return f"declare {key.format(value)} under {section} of the column file{self.note}"
        if isinstance(self.value, bool) and self.of is None:
            return f"{self.lead} {flag(self.option, self.value)}{self.note}"
        value = "VALUE" if self.value is ANY else shlex.quote(_plain(self.value))
        if _is_flag(self, flags):
            return f"{self.lead} {flag(self.option)} {value}{self.note}"
        mechanism = "" if self.named is None else f"{flag('mechanism')} {self.named} "
        return f"{self.lead} {mechanism}--mechanism-option {self.option}={value}{self.note}"


@dataclass(frozen=True)
class LeaveOut(Advice):
    """Do not give an option; ``of`` is the class of the mechanism whose option it is."""

    option: str
    of: str | None = None

    def in_python(self) -> str:
        return f"leave {self.option} out"

    def in_shell(self, flags: Flags = None) -> str:
        if self.of is None and self.option in COLUMN_FILE:
            key, section = COLUMN_FILE[self.option]
            return f"take {key.partition(' ')[0]} out of {section} of the column file"
        name = flag(self.option) if _is_flag(self, flags) else f"--mechanism-option {self.option}"
        return f"leave {name} out"


@dataclass(frozen=True)
class Declare(Advice):
    """Say something about a column of the table, or about the target.

    >>> print(Declare("missing", column="age").in_python())
    declare columns=Columns({'age': Column(missing=...)})
    >>> print(Declare("missing", column="age").in_shell())
    declare missing = ... under [columns.age] of the column file
    >>> print(Declare("unknown", "nearest").in_python())
    declare columns=Columns(target=Target(unknown='nearest'))
    """

    key: str
    value: Any = field(default=ANY)
    column: str | None = None
    note: str = ""

    def in_python(self) -> str:
        setting = f"{self.key}={ANY if self.value is ANY else repr(self.value)}"
        place = f"target=Target({setting})"
        if self.column is not None:
            place = f"{{{self.column!r}: Column({setting})}}"
        return f"declare columns=Columns({place}){self.note}"

    def in_shell(self, flags: Flags = None) -> str:
        value = ANY if self.value is ANY else json.dumps(self.value)
        section = "[target]"
        if self.column is not None:
            bare = self.column.replace("-", "").replace("_", "").isalnum() and self.column.isascii()
            section = f"[columns.{self.column if bare else json.dumps(self.column)}]"
        return f"declare {self.key} = {value} under {section} of the column file{self.note}"


@dataclass(frozen=True)
class CheckData(Advice):
    """Look for values that a fit would refuse, before it is charged for.

    >>> CheckData().in_python()
    'look for such rows before a fit: estimator.check(X, y)'
    """

    why: str = "look for such rows before a fit"

    def in_python(self) -> str:
        return f"{self.why}: estimator.check(X, y)"

    def in_shell(self, flags: Flags = None) -> str:
        return f"{self.why}: onedraw check DATA"


@dataclass(frozen=True)
class AskLedger(Advice):
    """Call a method of the ledger in a file.

    >>> AskLedger("see", "a b.db", "show", "adult").in_shell()
    "see: onedraw ledger show 'a b.db' adult"
    """

    why: str
    path: str
    verb: str
    dataset: str | None = None

    def in_python(self) -> str:
        values = [] if self.dataset is None else [repr(self.dataset)]
        values += ["epsilon=..."] if self.verb == CREATE else []
        return f"{self.why}: Ledger({self.path!r}).{self.verb}({', '.join(values)})"

    def in_shell(self, flags: Flags = None) -> str:
        words = ["onedraw ledger", self.verb, shlex.quote(self.path)]
        words += [] if self.dataset is None else [shlex.quote(self.dataset)]
        words += ["--epsilon ..."] if self.verb == CREATE else []
        return f"{self.why}: {' '.join(words)}"


@dataclass(frozen=True)
class Caution:
    """What is likely to disappoint, known before anything is read or charged, and what to do about it.

    >>> Caution("Units are unknown.", Set("feature_bounds")).in_python()
    'Units are unknown. Set feature_bounds=[...].'
    """

    facts: str
    remedy: Advice

    def in_python(self) -> str:
        """For somebody who writes Python."""
        return f"{self.facts} {sentence([self.remedy.in_python()])}"

    def in_shell(self, flags: Flags = None) -> str:
        """For somebody who types commands."""
        return f"{self.facts} {sentence([self.remedy.in_shell(flags)])}"


def _is_flag(advice: Set | LeaveOut, flags: Flags) -> bool:
    """Whether the option is a flag; otherwise it is an option of a mechanism."""
    if advice.of is not None:
        return False
    return flags is None or "--mechanism-option" not in flags or flag(advice.option) in flags


def flag(option: str, value: bool = True) -> str:
    """How the command spells an option.

    >>> flag("rows_per_person"), flag("fit_intercept", False)
    ('--rows-per-person', '--no-fit-intercept')
    """
    known = FLAGS.get(option, "--" + option.replace("_", "-"))
    return known if value else f"--no-{known.removeprefix('--')}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and not value.is_integer() else str(value)


def sentence(clauses: Iterable[str]) -> str:
    """Alternatives as one sentence; nothing if there are none."""
    text = ", or ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
