# SPDX-License-Identifier: Apache-2.0
"""Progress of long work, on standard error: a bar where somebody looks, one line a minute where nobody does.

Work is counted in steps whose number is known before records are read, so that progress tells no more than
the clock does. It is shown to whoever runs the work, where they ask for it (``shown=True``) or inside
``showing()``, which estimators and the command use.

>>> with progress("Sampling", total=3) as advance:      # nothing is shown here
...     for _ in range(3):
...         advance(1)
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

EVERY = 60.0
"""Seconds between two lines."""
_BEFORE: ContextVar[Callable[[], None] | None] = ContextVar("onedraw_progress", default=None)
"""What to do before anything is shown; None where nothing is."""


@contextlib.contextmanager
def showing(before: Callable[[], None] | None = None) -> Iterator[None]:
    """Show the progress of everything inside; ``before`` clears the place for it, if not the outer one."""
    token = _BEFORE.set(before or _BEFORE.get() or (lambda: None))
    try:
        yield
    finally:
        _BEFORE.reset(token)


@contextlib.contextmanager
def progress(what: str, total: int, *, shown: bool = False) -> Iterator[Callable[[int], None]]:
    """A function that counts further steps of ``total``, and shows how far the work is."""
    before = _BEFORE.get()
    if not shown and before is None:
        yield lambda steps: None
    elif not sys.stderr.isatty():
        yield _Lines(what, total)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        if before is not None:
            before()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda steps: bar.advance(task, steps)


class _Lines:
    """One line a minute, with an estimate of the time left."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._first = self._last = time.monotonic()

    def __call__(self, steps: int) -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._last < EVERY:
            return
        self._last = now
        left = (now - self._first) * max(0, self._total - self._done) / max(1, self._done)
        sys.stderr.write(f"{self._what}: {self._done} of {self._total}, {in_words(left)} left\n")
        sys.stderr.flush()


def in_words(seconds: float) -> str:
    """About how long, as people say it.

    >>> in_words(20.0), in_words(100.0), in_words(3 * 3600.0)
    ('less than a minute', 'about 2 minutes', 'about 3 hours')
    """
    if seconds < 45.0:
        return "less than a minute"
    minutes = round(seconds / 60.0)
    if minutes <= 90:
        return f"about {minutes} minute{'s' if minutes > 1 else ''}"
    return f"about {round(minutes / 60.0)} hours"
