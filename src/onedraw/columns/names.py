# SPDX-License-Identifier: Apache-2.0
"""The error about a column that is not there: which there are, and which one may have been meant.

Names are listed only where all of them look like names: in a file without a first line of names they would be
somebody's record.

>>> print(no_such_column("agee", ("age", "smoker")))
The table has no column 'agee'. It has 2: 'age', 'smoker'. Did you mean 'age'?
>>> print(no_such_column("age", ("61", "yes")))
The table has no column 'age'. Check the spelling; the first line must hold the names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from onedraw.errors import InvalidInput

SHOWN = 20
"""How many columns an error lists."""


def no_such_column(name: str, names: Iterable[str], *, told: str = "") -> InvalidInput:
    """An error that begins with ``told``, by default that the table has no such column."""
    there = tuple(names)
    close = difflib.get_close_matches(name, there, n=1)
    known, hint = "", "Check the spelling; the first line must hold the names."
    if all(_looks_like_a_name(text) for text in there):
        shown = ", ".join(map(repr, there[:SHOWN])) + (", ..." if len(there) > SHOWN else "")
        known, hint = f" It has {len(there)}: {shown}.", "Check the spelling."
    if close:
        hint = f"Did you mean {close[0]!r}?"
    return InvalidInput(f"{told or f'The table has no column {name!r}.'}{known} {hint}")


def _looks_like_a_name(text: str) -> bool:
    return all(part.isidentifier() for part in text.replace("-", " ").replace(".", " ").split())
