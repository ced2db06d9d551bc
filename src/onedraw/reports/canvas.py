# SPDX-License-Identifier: Apache-2.0
"""Where pictures are drawn: Matplotlib without a screen, imported when the first one is."""

from __future__ import annotations

import importlib
import io
import os
from typing import Any

from onedraw._extras import optional
from onedraw.errors import InvalidInput

PRIVATE, PLAIN, FAINT = "#1f6f8b", "#c8553d", "#9a9a9a"
COLOURS = (PRIVATE, PLAIN, "#588157", "#7b5ea7", "#b08900", "#444444")
"""Of several curves, in this order."""
DPI = 110
FORMATS = ("png", "svg", "pdf")
NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
REPEATABLE = {"svg.fonttype": "none", "svg.hashsalt": "onedraw"}
"""Text as text instead of outlines of letters, which are most of the file, and identifiers by content."""


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A figure and its axes (one, or an array of ``columns``), drawn in memory."""
    figures = optional("matplotlib.figure", "A picture", "plots")
    figure = figures.Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, columns)
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def picture_format(path: str) -> str:
    """The format that the ending of ``path`` names.

    >>> picture_format("plan.svg")
    'svg'
    """
    ending = os.path.splitext(path)[1].lstrip(".").lower()
    if ending not in FORMATS:
        raise InvalidInput(
            f"Expected a picture that ends in {', '.join('.' + name for name in FORMATS)}, got {path!r}."
        )
    return ending


def as_bytes(figure: Any, form: str) -> bytes:
    """The figure as a file of this format: equal figures give equal bytes, with no date in them."""
    buffer = io.BytesIO()
    with importlib.import_module("matplotlib").rc_context(REPEATABLE):
        figure.savefig(buffer, format=form, metadata=NO_DATE.get(form))
    return buffer.getvalue()
