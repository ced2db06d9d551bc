# SPDX-License-Identifier: Apache-2.0
"""One vocabulary for checking values: each check names the value, the requirement and the remedy.

>>> positive(epsilon=1.0)
1.0
>>> positive(epsilon=-1)
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected epsilon > 0 and finite, got epsilon=-1.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real

from onedraw.advice import Advice
from onedraw.errors import InvalidInput


def _one(values: dict[str, object]) -> tuple[str, object]:
    ((name, value),) = values.items()
    return name, value


def _complain(name: str, value: object, requirement: str, remedy: str | Advice) -> InvalidInput:
    facts = f"Expected {name} {requirement}, got {name}={value!r}."
    if isinstance(remedy, Advice):
        return InvalidInput(facts, advice=remedy)
    return InvalidInput(f"{facts} {remedy}".rstrip())


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def positive(*, remedy: str | Advice = "", **values: object) -> float:
    """Return the one keyword given as a float, or say that it must be positive and finite."""
    name, value = _one(values)
    if not _is_number(value) or not 0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise _complain(name, value, "> 0 and finite", remedy)
    return float(value)  # type: ignore[arg-type]


def probability(*, remedy: str | Advice = "", **values: object) -> float:
    """Return the one keyword given as a float in [0, 1)."""
    name, value = _one(values)
    if not _is_number(value) or not 0 <= float(value) < 1:  # type: ignore[arg-type]
        raise _complain(name, value, "in [0, 1)", remedy)
    return float(value)  # type: ignore[arg-type]


def whole(*, minimum: int = 1, remedy: str | Advice = "", **values: object) -> int:
    """Return the one keyword given as an int that is at least ``minimum``."""
    name, value = _one(values)
    is_int = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_int or int(value) < minimum:  # type: ignore[call-overload]
        raise _complain(name, value, f"to be a whole number >= {minimum}", remedy)
    return int(value)  # type: ignore[call-overload, no-any-return]


def one_of(options: Iterable[str], *, remedy: str | Advice = "", **values: object) -> str:
    """Return the one keyword given if it is among ``options``; suggest the nearest otherwise."""
    name, value = _one(values)
    known = list(options)
    if not isinstance(value, str) or value not in known:
        listed = ", ".join(repr(o) for o in known)
        close = difflib.get_close_matches(str(value), known, n=1)
        if close and isinstance(remedy, str):
            remedy = f"Did you mean {close[0]!r}? {remedy}".rstrip()
        raise _complain(name, value, f"to be one of {listed}", remedy)
    return value
