# SPDX-License-Identifier: Apache-2.0
"""The options of an estimator as options of the command: one set, spelt the same way.

They are read off the fields of the estimators, so a field added to one of them, or a kind of model added to
the registry, is an option or a choice of the command without a line here. What says something about columns
(``feature_bounds``, ``target_bounds``, ``classes``) comes from the column file instead.

>>> from onedraw.estimators.kinds import ESTIMATORS
>>> found = {option.name: option.opts for option in estimator_options(tuple(ESTIMATORS.values()))}
>>> found["rows_per_person"], found["random_state"], "classes" in found
(['--rows-per-person'], ['--seed'], False)
>>> read_value("0.5", float), read_value("auto", int | str), read_value("10,5", tuple)
(0.5, 'auto', (10, 5))
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Sequence
from dataclasses import Field, fields
from types import UnionType
from typing import Any

import click

from onedraw.advice import COLUMN_FILE, LeaveOut, flag
from onedraw.errors import InvalidInput
from onedraw.estimators.kinds import ESTIMATORS
from onedraw.ledger import Ledger

SEED = click.IntRange(0, 2**32 - 1)
READ = {Ledger: Ledger, bool: bool}
"""Types that are made from a text by calling them."""


class Kind(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A kind of model; dashes and underscores are alike. ``form`` leaves out models of another form."""

    name = "kind"

    def __init__(self, form: str | None = None) -> None:
        self.form = form

    def known(self) -> list[str]:
        """The kinds in the registry."""
        return [name for name, kind in ESTIMATORS.items() if self.form in (None, kind.form)]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "|".join(self.known())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as the registry has it."""
        for name in self.known():
            if _dashed(str(value)) == _dashed(name):
                return name
        return self.fail(f"{value!r} is not one of {', '.join(self.known())}.", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        found = [name for name in self.known() if _dashed(name).startswith(_dashed(incomplete))]
        return [click.shell_completion.CompletionItem(name) for name in found]


class Value(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A value of a field, by its type."""

    def __init__(self, hint: Any, name: str) -> None:
        self.hint, self.name = hint, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return read_value(value, self.hint)
        except ValueError:
            return self.fail(f"{value!r} cannot be read. Expected: {self.name}.", param, ctx)


class EstimatorCommand(click.Command):
    """A command with the options of every estimator, less those named ``without``."""

    def __init__(self, *args: Any, without: Sequence[str] = (), form: str | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.without, self.form = tuple(without), form

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Arguments, the options of the estimators, the command's own."""
        kinds = tuple(kind for kind in ESTIMATORS.values() if self.form in (None, kind.form))
        made = [o for o in estimator_options(kinds) if o.name not in self.without]
        own = super().get_params(ctx)
        first = [p for p in own if isinstance(p, click.Argument) or p.required]
        return [*first, *made, *(p for p in own if p not in first)]


@functools.cache
def estimator_options(kinds: tuple[type[Any], ...]) -> list[click.Option]:
    """One option per field of any of the estimators, None where it is not given."""
    found: dict[str, click.Option] = {}
    for kind in kinds:
        hints = typing.get_type_hints(kind)
        for part in fields(kind):
            if part.name not in (*COLUMN_FILE, "columns") and part.name not in found:
                found[part.name] = _option(part, hints[part.name])
    return list(found.values())


def given_options(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; one that this kind of model does not have is refused."""
    chosen = {name: value for name, value in given.items() if value is not None}
    names = {part.name for part in fields(ESTIMATORS[kind])}
    for name in chosen:
        if name not in names:
            raise InvalidInput(f"{flag(name)} does not apply to the {kind} model.", advice=LeaveOut(name))
    return chosen


def read_value(text: str, hint: Any) -> Any:
    """The value that a text stands for; ValueError if it is none of that type."""
    kinds = _kinds(hint)
    for kind, read in READ.items():
        if kind in kinds:
            return read(text)
    if tuple in kinds:
        return () if text.strip() == "none" else tuple(int(part) for part in text.split(","))
    for kind in (int, float):
        try:
            if Any in kinds or kind in kinds:
                return kind(text)
        except ValueError:
            continue
    if Any in kinds or str in kinds:
        return text
    raise ValueError(text)


def _option(part: Field[Any], hint: Any) -> click.Option:
    default, known = part.default, part.metadata
    help_text, shown = known.get("help", ""), default
    if isinstance(default, tuple):
        hint, shown = tuple, ",".join(map(str, default)) or "none"
    if shown is not None and not isinstance(default, bool):
        help_text += f" [default: {shown}]"
    spelling: list[str] = [flag(part.name), part.name]
    kind: Any = Value(hint, _metavar(hint))
    if "choices" in known:
        kind = click.Choice(known["choices"])
    elif flag(part.name) == "--seed":
        kind = SEED
    elif bool in _kinds(hint):
        spelling, kind = [f"{flag(part.name)}/{flag(part.name, False)}", part.name], None
        help_text += f" [default: {'yes' if default else 'no'}]"
    required = part.name == "epsilon"
    return click.Option(spelling, type=kind, default=None, help=help_text, required=required)


def _kinds(hint: Any) -> set[Any]:
    union = isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union
    return {typing.get_origin(kind) or kind for kind in (typing.get_args(hint) if union else (hint,))}


def _metavar(hint: Any) -> str:
    kinds = _kinds(hint)
    words = {tuple: "number,...", int: "whole number", float: "number", Ledger: "file", str: "name"}
    return "|".join(word for kind, word in words.items() if kind in kinds) or "value"


def _dashed(name: str) -> str:
    return name.replace("_", "-")


class Size(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A number of bytes such as 500MB or 2GB.

    >>> Size().convert("500MB", None, None)
    500000000
    """

    name = "SIZE"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """As a whole number of bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", str(value).strip())
        if found is None:
            self.fail(f"Expected a size such as 500MB or 2GB, got {value!r}.", param, ctx)
        return int(float(found[1]) * 1000.0 ** " kMGT".index(found[2] or " "))
