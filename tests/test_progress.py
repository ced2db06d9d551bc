# SPDX-License-Identifier: Apache-2.0
"""Long work shows how far it is: a line a minute without a terminal, nothing unless asked for."""

import numpy as np
import pytest

from onedraw import LogisticRegression, _progress
from onedraw._progress import progress, showing
from onedraw.mechanisms import TiltedFit


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


def test_a_fit_inside_the_command_still_clears_the_place_first(clock, capsys, monkeypatch):
    cleared = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with showing(before=lambda: cleared.append(True)), showing():
        work(clock, 60.0)
    assert cleared == [True]


def test_who_fits_in_python_sees_how_far_a_long_fit_is(clock, capsys, monkeypatch):
    def slow(*_):
        work(clock, 60.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(TiltedFit, "_computed", slow)
    with pytest.raises(KeyboardInterrupt):
        LogisticRegression(epsilon=1.0, classes=[0, 1]).fit(np.zeros((50, 1)), np.arange(50) % 2)
    assert "Sampling: 5 of 10, about 5 minutes left" in capsys.readouterr().err


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress("Sampling", total=3, shown=True) as advance:
        advance(3)
    assert "Sampling" in capsys.readouterr().err
