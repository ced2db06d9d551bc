# SPDX-License-Identifier: Apache-2.0
"""A forest plot as one inline SVG, written without a plotting library, so that any installation can.

Places along the axis are percentages and heights are pixels: the picture takes whatever width it is given,
and its text keeps its size. Names are escaped.

>>> from onedraw.uncertainty.forest import Range
>>> picture = forest_svg(Forest(names=("<age>",), private=(Range(estimate=0.5, low=0.2, high=0.8),)))
>>> picture.startswith("<svg"), "<age>" in picture, "&lt;age&gt;" in picture
(True, False, True)
"""

from __future__ import annotations

from onedraw.release.html import Markup, element, joined
from onedraw.uncertainty.forest import FAINT, INK, PLAIN, PRIVATE, Forest, Range

TOP, LINE, BAR, AXIS = 8, 44, 30, 46
"""Pixels above the first line, of each line, from its top to its bar, and of the axis."""
SIDE = 3.0
"""Per cent left free at either side, for the numbers of the axis."""


def forest_svg(forest: Forest) -> Markup:
    """The plot: a line a parameter, its name above its interval."""
    bottom = TOP + LINE * len(forest.names)
    label = f"Forest plot: {forest.label}"
    return element(
        "svg",
        element("title", label),
        *_grid(forest, bottom),
        *(_line(forest, i) for i in range(len(forest.names))),
        element("text", forest.label, x="50%", y=bottom + 38, text_anchor="middle", fill=INK, font_size=13),
        xmlns="http://www.w3.org/2000/svg",
        class_="forest",
        role="img",
        aria_label=label,
        width="100%",
        height=bottom + AXIS,
    )


def _across(forest: Forest, value: float) -> str:
    return f"{SIDE + (100.0 - 2.0 * SIDE) * forest.place(value):.3f}%"


def _grid(forest: Forest, bottom: int) -> list[Markup]:
    parts = []
    for tick in forest.ticks():
        x = _across(forest, tick)
        parts.append(element("line", x1=x, x2=x, y1=TOP, y2=bottom, stroke=FAINT, stroke_width=1))
        number = element("text", f"{tick:g}".replace("-", "−"), x=x, y=bottom + 17, text_anchor="middle")
        parts.append(element("g", number, fill=INK, font_size=12))
    x = _across(forest, forest.no_effect)
    parts.append(element("line", x1=x, x2=x, y1=TOP, y2=bottom, stroke=INK, stroke_width=1.2))
    return parts


def _line(forest: Forest, i: int) -> Markup:
    top = TOP + LINE * i
    name = element("text", forest.names[i], x=0, y=top + 17, class_="name", fill=INK, font_size=13)
    beside = None if forest.reference is None else forest.reference[i]
    shift = 0 if beside is None else 4
    parts = [name, _interval(forest, forest.private[i], top + BAR + shift, PRIVATE, forest.private_label)]
    if beside is not None:
        parts.append(_interval(forest, beside, top + BAR - shift, PLAIN, forest.reference_label))
    return element("g", *parts)


def _interval(forest: Forest, found: Range, y: int, colour: str, label: str) -> Markup:
    """A bar from end to end and a dot at the estimate; hovering shows the numbers."""
    told, bar = f"{label}: {found.estimate:.4g}", []
    if found.low is not None and found.high is not None:
        told += f" ({found.low:.4g} to {found.high:.4g})"
        ends = _across(forest, found.low), _across(forest, found.high)
        width = {"stroke": colour, "stroke_width": 4, "stroke_linecap": "round"}
        bar = [element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, **width)]
    dot = element("circle", cx=_across(forest, found.estimate), cy=y, r=6, fill=colour, stroke="#fff")
    return element("g", element("title", told), joined(bar), dot)
