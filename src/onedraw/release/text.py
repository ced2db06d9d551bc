# SPDX-License-Identifier: Apache-2.0
"""Text that somebody else wrote, made safe to show: names, labels and sentences of a release file.

A release may come from anybody. Its names and class labels must neither steer the terminal that shows them
(escape sequences), nor change the order or the lines in which they are read (bidirectional controls, line
breaks), nor become formulas when a table of predictions is opened in a spreadsheet.

Edge cases:
    The joiners of Persian and Indic words and of emoji (U+200C, U+200D) are kept. A text that is a number,
    like "-1", is no formula and stays as it is.

>>> print(visible("a\\x1b[2Jb\\u202ec\\nd"))
a\\x1b[2Jb\\u202ec\\nd
>>> cell('=HYPERLINK("http://example.org")'), cell("-1"), cell(-0.5)
('\\'=HYPERLINK("http://example.org")', '-1', -0.5)
"""

from __future__ import annotations

import re
from typing import Any

JOINERS = "\u200c\u200d"
_BEGINS_FORMULA = re.compile("(^|[,;|])(\\s*)(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])")
"""Also after a separator: a program that splits at semicolons takes what follows one for a cell."""


def visible(text: object) -> str:
    """The text with everything that does not show, line breaks included, written as an escape."""
    return "".join(c if c.isprintable() or c in JOINERS else _escape(c) for c in str(text))


def cell(value: Any) -> Any:
    """A cell of a table for spreadsheets: numbers as they are, text visible and never a formula.

    A text that a spreadsheet would calculate gets an apostrophe in front of it.
    """
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return shown if _is_number(shown) else _BEGINS_FORMULA.sub("\\1\\2'", shown)


def shortened(text: object, length: int = 300) -> str:
    """The text visible, and no longer than a message should be."""
    shown = str(text)
    return visible(shown if len(shown) <= length else shown[:length] + "...")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
