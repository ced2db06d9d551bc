# SPDX-License-Identifier: Apache-2.0
"""Long work shows how far it is: a line a minute without a terminal, nothing unless asked for."""

import pytest

from onedraw import _progress
from onedraw._progress import progress, showing


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves when told."""
    now = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def work(clock, seconds, **options):
    with progress("Sampling", total=10, **options) as advance:
        for _ in range(10):
            clock[0] += seconds
            advance(1)


def test_nothing_is_shown_unless_asked_for(clock, capsys):
    work(clock, 100.0)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_one_line_a_minute_says_how_much_is_left(clock, capsys):
    work(clock, 30.0, shown=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "Sampling: 2 of 10, about 4 minutes left",
        "Sampling: 4 of 10, about 3 minutes left",
        "Sampling: 6 of 10, about 2 minutes left",
        "Sampling: 8 of 10, about 1 minute left",
        "Sampling: 10 of 10, less than a minute left",
    ]


def test_short_work_says_nothing(clock, capsys):
    work(clock, 1.0, shown=True)
    assert capsys.readouterr().err == ""


def test_the_command_shows_the_progress_of_all_that_it_calls(clock, capsys):
    with showing():
        work(clock, 60.0)
    assert len(capsys.readouterr().err.splitlines()) == 10
    work(clock, 60.0)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress("Sampling", total=3, shown=True) as advance:
        advance(3)
    assert "Sampling" in capsys.readouterr().err
