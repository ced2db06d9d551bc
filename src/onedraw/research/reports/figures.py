# SPDX-License-Identifier: Apache-2.0
"""The picture of a ``View``: panels of curves with their standard errors, each labelled by its guarantee."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from onedraw.reports.canvas import COLOURS, FAINT, new_figure
from onedraw.research.experiments.methods import PUBLISHED
from onedraw.research.experiments.named import NAMED
from onedraw.research.experiments.spec import Row, Value, View
from onedraw.research.experiments.table import distinct, select

METHOD_COLOURS = {
    "tilted": "#6d4c9f",
    "tilted-linear": "#6d4c9f",
    "tilted-random": "#b58fd6",
    "beta-auto": "#1f6f8b",
    "beta-paper": "#7fb7c9",
    "chaudhuri-vanishing": "#c8553d",
    "chaudhuri-fixed": "#e8a87c",
    "chaudhuri-code": "#7a2e1d",
    "minami": "#588157",
    "beta": "#7fb7c9",
    "dp-sgd": "#c8553d",
    "Bayes": FAINT,
    "Gibbs": "#588157",
    "β-divergence": "#7fb7c9",
}
"""By name, or by what a curve's name has before its first comma: a method has one colour in all pictures."""
PANEL_WIDTH, PANEL_HEIGHT = 2.7, 2.2
CLOSE = 1.5
"""Of two places on a logarithmic axis that are nearer than this factor, the second is labelled."""
LEGEND_HANDLE, LEGEND_CHARACTER = 0.55, 0.062
"""Inches of a legend's line and gaps, and of a character: columns are as many as fit, so that none is cut."""


def draw_view(view: View, summary: Sequence[Row], note: str = "") -> Any:
    """The picture, a Matplotlib figure; ``note`` is printed under the title."""
    rows = select(summary, **view.where)
    across = [None] if view.across is None else distinct(rows, view.across)
    down = [None] if view.down is None else distinct(rows, view.down)
    single = len(across) == len(down) == 1
    width = 7.0 if single else max(6.5, PANEL_WIDTH * len(across) + 0.6)
    height = 4.6 if single else PANEL_HEIGHT * len(down) + 1.9
    figure, _ = new_figure(width, height)
    figure.clear()  # one pair of axes is what the canvas offers; panels are many
    alone = view.across == "data"  # every data set has its own n
    panels = figure.subplots(
        len(down), len(across), squeeze=False, sharex="col" if alone else "all", sharey="row"
    )
    labels = {
        value: _label(select(rows, **{view.curve: value}), view, value)
        for value in distinct(rows, view.curve)
    }
    for i, below in enumerate(down):
        for j, beside in enumerate(across):
            kept = rows if beside is None else select(rows, **{str(view.across): beside})
            kept = kept if below is None else select(kept, **{str(view.down): below})
            _draw_panel(panels[i, j], view, kept, labels)
            title = [_panel_title(str(view.across), beside)] if i == 0 and beside is not None else []
            true = _true_line(kept, view.curve)
            if title or true:
                panels[i, j].set_title("\n".join(title + true), fontsize=8 if true else 9)
            if view.log_x:
                _mark(panels[i, j], view, select(rows, data=beside) if alone and beside is not None else rows)
            if j == 0:
                label = (
                    view.y_label
                    if below is None
                    else f"{_panel_title(str(view.down), below)}\n{view.y_label}"
                )
                panels[i, j].set_ylabel(label, fontsize=8)
            if i == len(down) - 1:
                panels[i, j].set_xlabel(view.x_label, fontsize=8)
    if view.ceiling is not None:
        for line in panels:
            _cut(line, view.ceiling)
    wide = int(15 * width)
    heading = textwrap.fill(view.title, int(11 * width))
    figure.suptitle(
        "\n".join([heading, *([textwrap.fill(note, wide)] if note else [])]), fontsize=9, x=0.01, ha="left"
    )
    handles, texts = panels[0, 0].get_legend_handles_labels()
    if handles and view.down != view.curve:  # one curve a panel is named at the left
        longest = max(len(text) for text in texts)
        columns = max(1, min(3, int(width // (LEGEND_HANDLE + LEGEND_CHARACTER * longest))))
        figure.legend(handles, texts, loc="outside lower left", ncols=columns, fontsize=8, frameon=False)
    return figure


def _panel_title(column: str, value: Value) -> str:
    if column == "method":
        return NAMED[str(value)].label
    return str(value) if column == "data" else f"{column} = {value:g}"


def _label(rows: Sequence[Row], view: View, value: Value) -> str:
    if view.curve == "method":
        method = NAMED[str(value)]
        promise = view.promises.get(str(value), method.promise)
        return f"{method.label}  [{promise.format(_true_epsilons(rows))}]"
    if view.curve == "epsilon":
        return f"epsilon {value:g}"
    guarantee = rows[0].get("guarantee")
    return str(value) if guarantee is None else f"{value}  [{guarantee}]"


def _true_line(rows: Sequence[Row], curve: str) -> list[str]:
    """The true epsilons of a panel's curves in the order of the legend, if any is not the nominal one."""
    if all(row.get("true_epsilon", row.get("epsilon")) == row.get("epsilon") for row in rows):
        return []
    ranges = [_true_epsilons(select(rows, **{curve: value})) for value in distinct(rows, curve)]
    return [f"true ε: {' | '.join(ranges)}"]


def _true_epsilons(rows: Sequence[Row]) -> str:
    """Their range, in words."""
    found = [f"{float(row['true_epsilon']):.2g}" for row in rows if "true_epsilon" in row]
    ends = [min(found, key=float), max(found, key=float)] if found else [""]
    return " to ".join(dict.fromkeys(ends))


def _draw_panel(axis: Any, view: View, rows: Sequence[Row], labels: Mapping[Value, str]) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=7)
    if view.log_x:
        axis.set_xscale("log")
    for number, (value, label) in enumerate(labels.items()):
        kept = select(rows, **{view.curve: value})
        if not kept:
            continue
        name = str(value).removesuffix(PUBLISHED).split(",")[0]
        colour = METHOD_COLOURS.get(name, COLOURS[number % len(COLOURS)])
        x = [float(row[view.x]) for row in kept]
        y = [float(row[view.y]) for row in kept]
        few = len(x) <= 12
        style = "o-" if few else "-"
        axis.plot(x, y, style, color=colour, ms=3, lw=1.3, label=label)
        errors = [float(row.get(f"{view.y}_se", math.nan)) for row in kept]
        if few and any(error > 0 for error in errors):
            low = [a - 2.0 * e for a, e in zip(y, errors, strict=True)]
            high = [a + 2.0 * e for a, e in zip(y, errors, strict=True)]
            axis.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        if view.twin is not None:
            axis.plot(x, [float(row[view.twin]) for row in kept], "--", color=colour, lw=1.0)
        if view.points:
            for a, b, row in zip(x, y, kept, strict=True):
                axis.annotate(
                    f"{float(row['epsilon']):g}",
                    (a, b),
                    fontsize=6,
                    xytext=(3, 3),
                    textcoords="offset points",
                    clip_on=True,
                )
    if view.diagonal:
        ends = [min(float(row[view.x]) for row in rows), max(float(row[view.x]) for row in rows)]
        axis.plot(ends, ends, ":", color=FAINT)


def _mark(axis: Any, view: View, rows: Sequence[Row]) -> None:
    """Label the places of the rows, all that share the axis, or the decades where there are many."""
    places = sorted({float(row[view.x]) for row in rows})
    axis.tick_params(which="minor", labelbottom=False)
    if places and places[-1] < 100.0 * places[0]:  # decades would leave one label or two
        following = [*places[1:], math.inf]
        texts = [f"{a:g}" if b > CLOSE * a else "" for a, b in zip(places, following, strict=True)]
        axis.set_xticks(places, texts)


def _cut(axes: Any, ceiling: float) -> None:
    """Limit a row of panels to what lies below the ceiling, if anything lies above it."""
    values = [float(y) for axis in axes for line in axis.get_lines() for y in line.get_ydata()]
    below = [y for y in values if y < ceiling]
    if below and len(below) < len([y for y in values if not math.isnan(y)]):
        room = 0.05 * (ceiling - min(below))
        axes[0].set_ylim(min(below) - room, ceiling)
