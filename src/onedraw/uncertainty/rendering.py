# SPDX-License-Identifier: Apache-2.0
"""A table of text as aligned lines, as HTML and as LaTeX; names of a hostile release stay names in each.

>>> print(lines(("", "estimate"), [("age", number(0.5, 0.01)), ("(intercept)", number(-12.34, 1.5))]))
             estimate
age            0.5000
(intercept)  -12.34
>>> print(latex(("", "p"), [("50% of x_1", "<0.001")], foot=["By hand."]))
\\begin{tabular}{lr}
\\toprule
 & p \\\\
\\midrule
50\\% of x\\_1 & $<$0.001 \\\\
\\bottomrule
\\multicolumn{2}{p{0.9\\linewidth}}{\\footnotesize By hand.} \\\\
\\end{tabular}
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from onedraw.release.html import Markup, element, items, table, text
from onedraw.release.text import visible

Header = Sequence[str]
Rows = Sequence[Sequence[str]]
SMALLEST, LARGEST = 1e-8, 1e9
"""Numbers beyond these are written with a power of ten."""
PAD = "\0"
"""Stands for the width of a digit; no visible text holds it."""
FIGURE_SPACE = "\u2007"
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "_": r"\_",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "|": "$|$",
    }
)


def number(value: float, spread: float) -> str:
    """The value to a hundredth of ``spread``, a standard error or so: more digits would be noise.

    >>> number(1.23456, 0.045), number(1234.5, 300.0), number(1e-12, 1e-13)
    ('1.2346', '1234', '1.00e-12')
    """
    if not (math.isfinite(value) and SMALLEST < spread < LARGEST and abs(value) < LARGEST):
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(spread)))}f}"


def lines(header: Header, rows: Rows) -> str:
    """Names at the left, numbers under one another by their decimal points."""
    shown = [[visible(cell) for cell in header], *_at_point(rows, pad=" ")]
    widths = [max(len(row[i]) for row in shown) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    )


def markup(header: Header, rows: Rows, *, title: str, foot: Sequence[str]) -> Markup:
    """A table with what it is of above it and what it rests on below it."""
    return element("div", cells(header, rows, title=title), element("small", items(foot)), class_="onedraw")


def cells(header: Header, rows: Rows, *, title: str = "") -> Markup:
    """The table alone, as HTML."""
    padded = [
        [name, *(Markup(text(_signed(cell.rstrip(PAD))) + FIGURE_SPACE * cell.count(PAD)) for cell in rest)]
        for name, *rest in _at_point(rows, pad=PAD)
    ]
    return table(header, padded, caption=title)


def _at_point(rows: Rows, *, pad: str) -> list[list[str]]:
    """The cells with ``pad`` behind them until all decimal points of a column are one below the other."""
    shown = [[visible(cell) for cell in row] for row in rows]
    behind = [[0 if i == 0 else _behind(cell) for i, cell in enumerate(row)] for row in shown]
    most = [max(column) for column in zip(*behind, strict=True)]
    return [
        [cell + pad * (most[i] - own) for i, (cell, own) in enumerate(zip(row, lengths, strict=True))]
        for row, lengths in zip(shown, behind, strict=True)
    ]


def _signed(cell: str) -> str:
    """With a minus sign in place of a hyphen."""
    return f"\u2212{cell[1:]}" if cell[:1] == "-" else cell


def _behind(cell: str) -> int:
    """How many characters stand behind the units: the decimal point and all that follows."""
    return len(cell) - cell.find(".") if "." in cell else 0


def latex(header: Header, rows: Rows, *, foot: Sequence[str]) -> str:
    """A ``tabular`` with the rules of the package booktabs."""

    def row(cells: Sequence[str]) -> str:
        shown = [cell.rstrip(PAD).translate(LATEX) + r"\phantom{0}" * cell.count(PAD) for cell in cells]
        shown[1:] = [f"$-${cell[1:]}" if cell.startswith("-") else cell for cell in shown[1:]]
        return " & ".join(shown) + r" \\"

    width = len(header)
    notes = [
        rf"\multicolumn{{{width}}}{{p{{0.9\linewidth}}}}{{\footnotesize {visible(note).translate(LATEX)}}} \\"
        for note in foot
    ]
    named = [visible(cell) for cell in header]
    head = [rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}", r"\toprule", row(named), r"\midrule"]
    body = [row(cells) for cells in _at_point(rows, pad=PAD)]
    return "\n".join([*head, *body, r"\bottomrule", *notes, r"\end{tabular}"])
