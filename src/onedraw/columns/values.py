# SPDX-License-Identifier: Apache-2.0
"""One column of a table, read value by value: numbers, or positions in a public list of labels.

Guarantee:
    What a value is read as depends on that value and on the declaration, and on no other value of its column:
    a text, a whole number, a float and a dictionary entry that mean the same are read the same, so it does
    not matter which type the rest of the column gave its container. That is what makes the encoding of a
    table a map of each record by itself.

Distinct values are looked at once, in Python; everything that is done for each record is an array operation
on typed columns (NumPy, Arrow, pandas, polars), or a loop inside the interpreter for plain lists.

>>> from onedraw.columns.values import Reader
>>> Reader().numbers(["61", " 47 ", "old", "", None]).values
array([61., 47., nan, nan, nan])
>>> Reader().positions([1, 2.0, "02", "x", None], ("1", "2")).values.tolist()
[0, 1, 1, -1, -1]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.types import AnyArray, Array

ALWAYS_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "nat"})
"""How files write a missing value, in lower case; a declared category of that name comes first."""
TRUTH = {"true": 1.0, "false": 0.0}
NOWHERE = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """The values of a column, and where there was none: ``missing``, or one that means nothing: ``unknown``.

    Values there are NaN (of numbers) or -1 (of positions).
    """

    values: AnyArray
    missing: AnyArray
    unknown: AnyArray


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How values are written: what stands for a missing one, the decimal sign, whether spaces count."""

    missing: frozenset[str] = frozenset()
    decimal: str = "."
    trim: bool = True

    def numbers(self, values: Any) -> Reading:
        """The column as finite numbers; truth values are 1 and 0, what else is no number is unknown."""
        found = as_numbers(values)
        missing = None if found is None else np.isnan(found)
        if found is None or (self.missing and self._marks_numbers()):
            codes, distinct = as_codes(values if found is None else found)
            known = np.array([self._number(value) for value in distinct] + [math.nan])
            gone = np.array([self.is_missing(value) for value in distinct] + [True], dtype=bool)
            found, missing = known[codes], gone[codes]
        assert missing is not None
        unknown = ~missing & ~np.isfinite(found)
        return Reading(values=np.where(unknown | missing, np.nan, found), missing=missing, unknown=unknown)

    def positions(self, values: Any, labels: tuple[Any, ...]) -> Reading:
        """The place of each value among the labels; numbers are compared as numbers, 1.0 being "01"."""
        places = {self.key(label): place for place, label in enumerate(labels)}
        codes, distinct = as_codes(values)
        found = np.array([places.get(self.key(value), NOWHERE) for value in distinct] + [NOWHERE])
        gone = np.array([self.is_missing(value) for value in distinct] + [True], dtype=bool) & (found < 0)
        missing, place = gone[codes], found[codes]
        return Reading(values=place, missing=missing, unknown=(place < 0) & ~missing)

    def key(self, value: Any) -> Any:
        """What a value is compared by: its number, where it has one, and its text otherwise."""
        number = _finite(value, ".")
        if number is not None and not isinstance(value, bool | np.bool_):
            return number
        text = str(value).strip() if self.trim else str(value)
        return text.lower() if text.lower() in TRUTH else text

    def is_missing(self, value: Any) -> bool:
        """Whether the value says that there is none."""
        if value is None or value != value:  # NaN; pandas.NA cannot say
            return True
        text = str(value).strip()
        return text.lower() in ALWAYS_MISSING or text in self.missing or self.key(value) in self._marks()

    def _marks(self) -> set[Any]:
        return {self.key(mark) for mark in self.missing}

    def _marks_numbers(self) -> bool:
        """Whether some number stands for a missing value, such as 999."""
        return any(isinstance(mark, float) for mark in self._marks())

    def _number(self, value: Any) -> float:
        if isinstance(value, str) and value.strip().lower() in TRUTH:
            return TRUTH[value.strip().lower()]
        if self.is_missing(value):
            return math.nan
        number = _finite(value, self.decimal)
        return math.inf if number is None else number  # not missing, and no number: unknown


def _finite(value: Any, decimal: str) -> float | None:
    """The finite number that a value is or spells; None if there is none."""
    if isinstance(value, str):
        if "_" in value:
            return None
        value = value.replace(".", "x").replace(",", ".") if decimal == "," else value
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_numbers(values: Any) -> Array | None:
    """A typed column of numbers as floats, NaN where there is none; None for any other column."""
    kind = _container(values)
    if kind == "arrow":
        arrow = _pyarrow()
        kinds = arrow.types
        if kinds.is_integer(values.type) or kinds.is_floating(values.type) or kinds.is_boolean(values.type):
            return np.asarray(values.cast(arrow.float64(), safe=False).to_numpy(**_whole(values)))
        return None
    if kind == "polars":
        return np.asarray(values.cast(float).to_numpy()) if _is_polars_number(values) else None
    if kind == "pandas":
        if values.dtype.kind in "biuf":
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return None
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return values.astype(np.float64, copy=False)
    return None


def as_codes(values: Any) -> tuple[AnyArray, list[Any]]:
    """Positions in a list of distinct values, which follow it; a missing one is at the list's end."""
    kind = _container(values)
    if kind == "arrow":
        coded = values if _pyarrow().types.is_dictionary(values.type) else values.dictionary_encode()
        if hasattr(coded, "combine_chunks") and hasattr(coded, "unify_dictionaries"):
            coded = coded.unify_dictionaries().combine_chunks()
        codes = coded.indices.cast("int64").fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
        return np.asarray(codes), coded.dictionary.to_pylist()
    if kind == "polars":
        return _factorised(values.to_list())
    if kind == "pandas" and hasattr(values, "cat"):
        codes, distinct = values.cat.codes.to_numpy(), values.cat.categories.tolist()
        return np.where(codes < 0, len(distinct), codes), distinct
    array = np.asarray(values, dtype=object) if kind == "list" else np.asarray(values)
    if array.dtype.kind in "biufU" and array.ndim == 1:
        found, codes = np.unique(array, return_inverse=True)
        return codes.reshape(-1), found.tolist()
    return _factorised(array.tolist())


def _factorised(values: list[Any]) -> tuple[AnyArray, list[Any]]:
    """Distinct objects by type and value: True, 1 and 1.0 are equal, but not written alike."""
    try:
        places = {
            key: place for place, key in enumerate(dict.fromkeys(zip(map(type, values), values, strict=True)))
        }
        find: Callable[[Any], int] = places.__getitem__
        keys = zip(map(type, values), values, strict=True)
        codes = np.fromiter(map(find, keys), dtype=np.intp, count=len(values))
    except TypeError:  # lists and the like, which mean nothing here
        return _factorised([str(value) for value in values])
    return codes, [_plain(value) for _, value in places]


def _plain(value: Any) -> Any:
    """A value that says whether it is missing: pandas.NA and NaT do not."""
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _container(values: Any) -> str:
    module = type(values).__module__.partition(".")[0]
    if module == "pyarrow":
        return "arrow"
    if module in ("pandas", "polars"):
        return module
    return "numpy" if isinstance(values, np.ndarray) else "list"


def _pyarrow() -> Any:
    import pyarrow

    return pyarrow


def _whole(values: Any) -> dict[str, bool]:
    """How an Arrow array is asked for a copy; a chunked one always makes one."""
    return {} if hasattr(values, "chunks") else {"zero_copy_only": False}


def _is_polars_number(values: Any) -> bool:
    return bool(values.dtype.is_numeric()) or str(values.dtype) == "Boolean"
