# SPDX-License-Identifier: Apache-2.0
"""Private data are read without a word about them: no error message quotes a record.

>>> with unquoted("X"):
...     _ = np.asarray(["41", "secret"], dtype=float)
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected X to hold numbers, but some value is not one. ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from onedraw.advice import Do, Set
from onedraw.errors import InvalidInput
from onedraw.types import AnyArray, Array

READERS = ("onedraw", "numpy", "sklearn", "scipy", "pandas", "polars", "pyarrow", "narwhals")
"""Packages that read tables; what their errors quote is known below."""
NAMED = 6
"""Columns that a message names."""


@contextlib.contextmanager
def unquoted(name: str, table: Any = None) -> Iterator[None]:
    """Keep records out of error messages: some that NumPy and scikit-learn raise would quote them.

    Of a data frame (``table``) the columns that are not of a numeric type are named.
    """
    try:
        yield
    except Exception as error:
        if _is_of_a_value(error):
            raise no_number(name, table) from None
        if not isinstance(error, ValueError):
            raise
        message = str(error)
        if "inconsistent numbers of samples" in message:
            raise inconsistent() from None
        if message.startswith("Found array with 0 sample"):
            raise InvalidInput("The table has no rows, so there is nothing to fit.") from None
        if "could not convert" in message:
            raise no_number(name, table) from None
        if message.startswith("Input ") and (" contains " in message):
            # The first line says where; scikit-learn's advice would lead to estimators that are not private.
            raise InvalidInput(
                f"{message.splitlines()[0].rstrip('.')}. Every number must be finite: remove such rows, or "
                "put values in their place by a rule that does not look at the data."
            ) from None
        for quoting in (
            "Complex data not supported",
            "Expected 2D array, got scalar",
            "Expected 2D array, got 1D",
        ):
            if message.startswith(quoting):
                # The first line says what is wrong and the last what to do; the array stands between them.
                first, *_, last = [line for line in message.splitlines() if line]
                remedy = last if last.startswith("Reshape") else "Use real numbers."
                raise InvalidInput(f"{first.rstrip(':')}. {remedy}") from None
        raise


def no_number(name: str, table: Any = None) -> InvalidInput:
    """The error about a value that cannot be read as a number."""
    return InvalidInput(
        f"Expected {name} to hold numbers, but some value is not one{_with_text(table)}.",
        advice=[Do("encode categories as numbers first"), Set("columns", note=", which declares them")],
    )


def _with_text(table: Any) -> str:
    """The columns of a data frame of pandas that are of no numeric type, in words."""
    types: Any = getattr(table, "dtypes", None)
    kinds = types.items() if hasattr(types, "items") else ()
    names = [repr(str(name)) for name, kind in kinds if getattr(kind, "kind", "O") not in "biuf"]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f": look at the columns {', '.join(names[:NAMED])}{more}" if names else ""


def _is_of_a_value(error: Exception) -> bool:
    """Whether code of a value itself raised it, such as its ``__float__``: it may say anything about it."""
    trace, module = error.__traceback__, ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return module.partition(".")[0] not in READERS


def numbers(y: AnyArray, name: str = "y") -> Array:
    """The response as floats."""
    with unquoted(name):
        return np.asarray(y, dtype=np.float64)


def inconsistent() -> InvalidInput:
    """The error about a table and a response of different lengths, in the words of scikit-learn."""
    return InvalidInput(
        "Found input variables with inconsistent numbers of samples: X and y must have one row each per "
        "record."
    )
