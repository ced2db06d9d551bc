# SPDX-License-Identifier: Apache-2.0
"""What the command prints: plain lines, aligned tables, or one JSON object; a spinner where somebody waits.

Lines are the same with and without a terminal; only colour differs, and NO_COLOR turns it off. Text from a
file is printed without control characters, so that a release cannot rewrite what the reader sees.

>>> print(aligned([("age", "0.25"), ("(intercept)", "-1")], header=("parameter", "value")))
parameter    value
age           0.25
(intercept)     -1
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from onedraw._progress import showing
from onedraw.release.text import visible

WAIT = 2.0
"""Seconds before a spinner shows."""


def aligned(rows: Sequence[Sequence[str]], header: Sequence[str], *, right: bool = True) -> str:
    """A table with the first column at the left and, if ``right``, the others at the right."""
    lines = [[visible(text) for text in line] for line in (header, *rows)]  # a cell is one line
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right and i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def say(text: str = "", *, style: str = "", err: bool = False) -> None:
    """Print lines; ``style`` is for terminals only."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=err, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(Text(printable(text), style=style), soft_wrap=True)


def say_json(content: Any, *, err: bool = False) -> None:
    """Print one JSON object."""
    print(json.dumps(content, indent=2, allow_nan=False), file=sys.stderr if err else sys.stdout)


def printable(text: str) -> str:
    """Without control characters other than line breaks.

    >>> printable("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


@contextlib.contextmanager
def waiting(message: str, *, after: float = WAIT) -> Iterator[None]:
    """A spinner on stderr once the block takes longer than ``after``, until the block shows its progress.

    Where nobody looks, progress is a line a minute.
    """
    if not sys.stderr.isatty():
        with showing():
            yield
        return
    from rich.console import Console

    status = Console(stderr=True).status(message)
    timer = threading.Timer(after, status.start)
    timer.daemon = True
    timer.start()

    def stop() -> None:
        timer.cancel()
        timer.join()
        status.stop()

    try:
        with showing(before=stop):
            yield
    finally:
        stop()
