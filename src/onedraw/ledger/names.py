# SPDX-License-Identifier: Apache-2.0
"""Texts in a ledger: names of data sets and people, and numbers side by side.

>>> distinct(0.3, 0.1), distinct(0.30000001, 0.3)
(('0.3', '0.1'), ('0.30000001', '0.3'))
"""

from __future__ import annotations

import getpass
import unicodedata

from onedraw.errors import InvalidInput

LONGEST_TEXT = 500


def name_of(dataset: object) -> str:
    """The name in one spelling of its accents, or an error."""
    if not isinstance(dataset, str) or not dataset or not dataset.isprintable() or dataset != dataset.strip():
        raise InvalidInput(
            f"Expected dataset to be a name without line breaks or spaces around it, got dataset={dataset!r}."
        )
    return unicodedata.normalize("NFC", text_of(dataset=dataset))


def text_of(**values: object) -> str:
    """The one keyword given, if it is a text that is not too long."""
    ((name, value),) = values.items()
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise InvalidInput(f"Expected {name} to be a text of at most {LONGEST_TEXT} characters.")
    return value


def person(who: str | None) -> str:
    """The person responsible, by default the name of the user."""
    if who is not None:
        return text_of(who=who)
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a user without a name, as in some containers
        return "unknown"


def distinct(left: float, right: float) -> tuple[str, str]:
    """Two numbers, short, but with the digits in which they differ."""
    short = f"{left:.6g}", f"{right:.6g}"
    return short if short[0] != short[1] else (repr(left), repr(right))
