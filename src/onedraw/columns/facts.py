# SPDX-License-Identifier: Apache-2.0
"""What is publicly known about one column, and the rules for values that its declaration does not foresee.

Guarantee:
    A rule maps one value to another and looks at nothing else. Where every column of a table has its rules
    (``is_total``), no record can make the reading of the table fail, so whether it fails tells nothing about
    anybody.

>>> Column(bounds=(18, 100), missing="middle").is_total
True
>>> Column(categories=("no", "yes", "other"), unknown="other").is_total
True
>>> Column(categories=("no", "yes"), unknown="other")
Traceback (most recent call last):
onedraw.errors.InvalidInput: A column: expected unknown to be one of its categories, got 'other'. Add it ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from onedraw.columns.values import Reader
from onedraw.errors import InvalidInput
from onedraw.model import Bounds

VERSUS = " (vs "
"""Stands in the names of indicator features, ``smoker=yes (vs no)``, and so in no category."""
MIDDLE = "middle"
"""The rule that puts the middle of the declared range in the place of a missing number."""
DROP = "drop"
"""The rule that leaves the row out."""
NEAREST = "nearest"
"""The rule that puts the nearest possible count in the place of an impossible one."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """Public facts of a feature's column.

    Args:
        bounds: a plausible range (low, high) of numbers; no clip.
        categories: the labels that a value may have, the first being the reference.
        missing: what a missing value counts as: a number or "middle" (of the bounds), a category, or "drop"
            to leave its row out, where the number of rows is private.
        unknown: what a value counts as that is not foreseen, a text in place of a number or a category that
            is not declared; as ``missing``. Where only one of the two is given, it serves for both.
    """

    bounds: Bounds | None = None
    categories: tuple[str, ...] | None = None
    missing: float | str | None = None
    unknown: float | str | None = None

    def __post_init__(self) -> None:
        self.check("A column")

    def check(self, where: str) -> None:
        """Make the values canonical, or say what is wrong with them at this place of the declaration."""
        if self.bounds is not None and self.categories is not None:
            raise InvalidInput(f"{where} has bounds and categories. Keep one of them.")
        if self.categories is not None:
            self._set(categories=checked_categories(self.categories, where))
        if self.bounds is not None:
            self._set(bounds=checked_bounds(self.bounds, where))
        self._set(missing=self._rule("missing", where), unknown=self._rule("unknown", where))

    @property
    def rules(self) -> tuple[float | str | None, float | str | None]:
        """What a missing and what an unknown value count as."""
        return _each_other(self.missing, self.unknown)

    @property
    def is_total(self) -> bool:
        """Whether every value that a record may hold is read as something."""
        return None not in self.rules

    def _rule(self, name: str, where: str) -> float | str | None:
        rule = getattr(self, name)
        if rule is None or (rule == DROP and DROP not in (self.categories or ())):
            return rule  # type: ignore[no-any-return]
        if self.categories is not None:
            if str(rule) not in self.categories:
                raise InvalidInput(
                    f"{where}: expected {name} to be one of its categories, got {rule!r}. Add it to them."
                )
            return str(rule)
        if rule == MIDDLE:
            if self.bounds is None:
                raise InvalidInput(f'{where}: {name} = "middle" needs bounds, whose middle it is.')
            return 0.5 * self.bounds[0] + 0.5 * self.bounds[1]
        return checked_number(rule, f"{where}: {name}")

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Public facts of the response.

    Args:
        name: of its column; needed where the table that is fitted holds it.
        classes: its labels, in the order in which the model has them; a logistic model is about the last.
        bounds: a plausible range of numbers; no clip.
        missing: what a missing response counts as: a class or a number, or "drop".
        unknown: what a response counts as that is not foreseen: likewise, or "nearest", the nearest count.
    """

    name: str | None = None
    classes: tuple[str | int | float, ...] | None = None
    bounds: Bounds | None = None
    missing: Any = None
    unknown: Any = None

    def __post_init__(self) -> None:
        self.check("The target")

    def check(self, where: str) -> None:
        """As for a column."""
        if self.name is not None and not isinstance(self.name, str):
            raise InvalidInput(f"{where}: expected name to be the name of a column, got {self.name!r}.")
        if self.classes is not None:
            classes = checked_labels(self.classes, f"{where}: classes")
            if len({isinstance(label, str) for label in classes}) > 1:
                raise InvalidInput(f"{where}: expected classes to be all text or all numbers.")
            object.__setattr__(self, "classes", classes)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", checked_bounds(self.bounds, where))
        for name in ("missing", "unknown"):
            object.__setattr__(self, name, self._rule(name, where))

    @property
    def facts(self) -> dict[str, Any]:
        """What options of an estimator may say as well, by their names."""
        return {"classes": self.classes, "target_bounds": self.bounds}

    @property
    def rules(self) -> tuple[Any, Any]:
        """What a missing and what an unknown response count as; "nearest" does not say for a missing one."""
        missing, unknown = _each_other(self.missing, self.unknown)
        return None if missing == NEAREST else missing, unknown

    @property
    def is_total(self) -> bool:
        """Whether every value that a record may hold is read as something."""
        return None not in self.rules

    def _rule(self, name: str, where: str) -> Any:
        rule = getattr(self, name)
        if rule is None or (rule in (DROP, NEAREST) and rule not in (self.classes or ())):
            if rule == NEAREST and (name == "missing" or self.classes is not None):
                raise InvalidInput(f'{where}: "nearest" is a rule for unknown counts, not for {name} labels.')
            return rule
        if self.classes is not None:
            keys = {Reader().key(label): label for label in self.classes}
            if Reader().key(rule) not in keys:
                raise InvalidInput(f"{where}: expected {name} to be one of its classes, got {rule!r}.")
            return keys[Reader().key(rule)]
        if isinstance(rule, str):  # a class of a model whose classes are known elsewhere
            return rule
        return checked_number(rule, f"{where}: {name}")


def _each_other(missing: Any, unknown: Any) -> tuple[Any, Any]:
    return (unknown if missing is None else missing), (missing if unknown is None else unknown)


# -- checks of a declaration


def checked_categories(values: Any, where: str) -> tuple[str, ...]:
    """Distinct labels that can stand in the name of an indicator."""
    labels = tuple(str(label) for label in checked_labels(values, f"{where}: categories"))
    mark = VERSUS.strip()
    if any(mark in label or not label or label != label.strip() for label in labels):
        raise InvalidInput(
            f"{where}: expected distinct categories, not empty, without spaces around them or {mark!r}."
        )
    return labels


def checked_labels(values: Any, what: str) -> tuple[str | int | float, ...]:
    """Two or more distinct texts or numbers. YAML reads a bare no as False, so booleans are refused."""
    if not isinstance(values, list | tuple) or len(values) < 2:
        raise InvalidInput(f"{what}: expected a list of two or more distinct labels.")
    for label in values:
        if isinstance(label, bool) or not isinstance(label, str | int | float):
            raise InvalidInput(
                f'{what}: expected texts or numbers, got {label!r}. Put texts such as "no" in quotes.'
            )
        if isinstance(label, float) and not math.isfinite(label):
            raise InvalidInput(f"{what}: expected finite numbers, got {label!r}.")
    if len({Reader().key(label) for label in values}) < len(values):
        raise InvalidInput(
            f"{what}: expected a list of two or more distinct labels; numbers are compared as numbers, 1 "
            "being 01."
        )
    return tuple(values)


def checked_bounds(pair: Any, where: str) -> Bounds:
    """A finite (low, high) with low < high."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise InvalidInput(f"{where}: expected bounds = [low, high], got {pair!r}.")
    low, high = (checked_number(value, f"{where}: bounds") for value in pair)
    if not 0.0 < 0.5 * high - 0.5 * low < math.inf:
        raise InvalidInput(f"{where}: expected bounds with low < high, got {pair!r}.")
    return low, high


def checked_number(value: Any, what: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInput(f"{what}: expected a finite number, got {value!r}.")
    return float(value)
