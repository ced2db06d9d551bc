# SPDX-License-Identifier: Apache-2.0
"""The column specification: public facts about a table, from a TOML or YAML file.

Everything in it is published or could be, so it must come from a code book and not from the table. Misspelt
keys and columns are errors: a fact that is silently ignored would be worse.

>>> facts = {"age": {"bounds": [0, 100]}, "smoker": {"categories": ["no", "yes"]}}
>>> spec = Specification.parse({"columns": facts})
>>> spec.columns["age"].bounds, spec.columns["smoker"].categories
((0.0, 100.0), ('no', 'yes'))
>>> Specification.parse({"colums": {}})
Traceback (most recent call last):
onedraw.errors.InvalidInput: The column specification has an unknown key 'colums'. Known: columns, ignore, ...
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onedraw._extras import optional
from onedraw.errors import InvalidInput
from onedraw.model import Bounds

VERSUS = " (vs "
"""Stands in the names of indicator features, ``smoker=yes (vs no)``, and so in no category."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """Public facts of one column: a range or categories, and the value that stands for a missing one."""

    bounds: Bounds | None = None
    categories: tuple[str, ...] | None = None
    missing: float | str | None = None


@dataclass(frozen=True, kw_only=True)
class Target:
    """Public facts of the response."""

    classes: tuple[str | int | float, ...] | None = None
    bounds: Bounds | None = None

    @property
    def facts(self) -> dict[str, tuple[str, Any]]:
        """By key in the file: the option of an estimator that it is, and its value."""
        return {"classes": ("classes", self.classes), "bounds": ("target_bounds", self.bounds)}


@dataclass(frozen=True, kw_only=True)
class Specification:
    """Which columns are used, and what is publicly known about them."""

    use: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    columns: Mapping[str, Column] = field(default_factory=dict)
    target: Target = field(default_factory=Target)

    @classmethod
    def read(cls, path: str | None) -> Specification:
        """From a .toml, .yaml or .yml file; without a path, nothing is known."""
        if path is None:
            return cls()
        return cls.parse(_load(path))

    @classmethod
    def parse(cls, content: Any) -> Specification:
        """From plain values."""
        content = _mapping(content, "The column specification")
        _known(content, ("columns", "ignore", "target", "use"), "The column specification")
        columns = {
            str(name): _column(str(name), facts)
            for name, facts in _mapping(content.get("columns", {}), "[columns]").items()
        }
        use = content.get("use")
        return cls(
            use=None if use is None else _names(use, "use"),
            ignore=_names(content.get("ignore", []), "ignore"),
            columns=columns,
            target=_target(content.get("target", {})),
        )


def _load(path: str) -> Any:
    suffix = Path(path).suffix.lower()
    if suffix not in (".toml", ".yaml", ".yml"):
        raise InvalidInput(f"Expected --columns to name a .toml or .yaml file, got {path!r}.")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise InvalidInput(f"Cannot read the column specification {path!r} ({reason}).") from None
    if suffix == ".toml":
        loads, broken = _toml()
    else:
        loads, broken = _yaml()
    try:
        return loads(text)
    except broken as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"The column specification {path!r} is not valid: {first}.") from None


def _toml() -> tuple[Any, type[Exception]]:
    for name in ("tomllib", "tomli"):  # the standard library has it since Python 3.11
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return module.loads, module.TOMLDecodeError
    raise InvalidInput(
        "A TOML specification needs Python 3.11 or later (or: pip install tomli). Or write it as YAML."
    )


def _yaml() -> tuple[Any, type[Exception]]:
    module = optional("yaml", "A YAML specification", "all")
    return module.safe_load, module.YAMLError


def _column(name: str, facts: Any) -> Column:
    where = f"Column {name!r} of the specification"
    facts = _mapping(facts, where)
    _known(facts, ("bounds", "categories", "missing"), where)
    bounds = None if facts.get("bounds") is None else _bounds(facts["bounds"], where)
    categories = None if facts.get("categories") is None else _categories(facts["categories"], where)
    missing = facts.get("missing")
    if categories is None:
        if missing is not None:
            missing = _number(missing, f"{where}: missing")
    else:
        if bounds is not None:
            raise InvalidInput(f"{where} has bounds and categories. Keep one of them.")
        if "=" in name:
            raise InvalidInput(f"{where}: a column with categories cannot have '=' in its name. Rename it.")
        if missing is not None and str(missing) not in categories:
            raise InvalidInput(f"{where}: expected missing to be one of its categories. Add it to them.")
        missing = None if missing is None else str(missing)
    return Column(bounds=bounds, categories=categories, missing=missing)


def _target(facts: Any) -> Target:
    where = "[target] of the specification"
    facts = _mapping(facts, where)
    _known(facts, ("bounds", "classes"), where)
    classes = facts.get("classes")
    if classes is not None:
        classes = _labels(classes, f"{where}: classes")
        if len({isinstance(label, str) for label in classes}) > 1:
            raise InvalidInput(f"{where}: expected classes to be all text or all numbers.")
    bounds = None if facts.get("bounds") is None else _bounds(facts["bounds"], where)
    return Target(classes=classes, bounds=bounds)


def _categories(values: Any, where: str) -> tuple[str, ...]:
    labels = tuple(str(label) for label in _labels(values, f"{where}: categories"))
    mark = VERSUS.strip()
    if len(set(labels)) < len(labels) or any(
        mark in label or not label or label != label.strip() for label in labels
    ):
        raise InvalidInput(
            f"{where}: expected distinct categories, not empty, without spaces around them or {mark!r}."
        )
    return labels


def _labels(values: Any, what: str) -> tuple[str | int | float, ...]:
    """Two or more distinct texts or numbers. YAML reads a bare no as False, so booleans are refused."""
    if not isinstance(values, list) or len(values) < 2 or len(set(map(str, values))) < len(values):
        raise InvalidInput(f"{what}: expected a list of two or more distinct labels.")
    for label in values:
        if isinstance(label, bool) or not isinstance(label, str | int | float):
            raise InvalidInput(
                f'{what}: expected texts or numbers, got {label!r}. Put texts such as "no" in quotes.'
            )
        if isinstance(label, float) and not math.isfinite(label):
            raise InvalidInput(f"{what}: expected finite numbers, got {label!r}.")
    return tuple(values)


def _bounds(pair: Any, where: str) -> Bounds:
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidInput(f"{where}: expected bounds = [low, high], got {pair!r}.")
    low, high = (_number(value, f"{where}: bounds") for value in pair)
    if not low < high:
        raise InvalidInput(f"{where}: expected bounds with low < high, got {pair!r}.")
    return low, high


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInput(f"{what}: expected a finite number, got {value!r}.")
    return float(value)


def _names(values: Any, key: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise InvalidInput(f"The column specification: expected {key} to be a list of column names.")
    if len(set(values)) < len(values):
        raise InvalidInput(f"The column specification: {key} names a column twice.")
    return tuple(values)


def _mapping(content: Any, what: str) -> dict[Any, Any]:
    if content is None:  # an empty YAML file or section
        return {}
    if not isinstance(content, dict):
        raise InvalidInput(f"{what}: expected names with values, got {type(content).__name__}.")
    return content


def _known(content: Mapping[Any, Any], keys: tuple[str, ...], what: str) -> None:
    for key in content:
        if key not in keys:
            raise InvalidInput(f"{what} has an unknown key {str(key)!r}. Known: {', '.join(keys)}.")
