# SPDX-License-Identifier: Apache-2.0
"""Pieces of HTML for notebooks and pages: every text is made visible and escaped on its way in.

A release may come from anybody, so a name like ``<script>`` must arrive as that text and as nothing else.

>>> text("<b>age & sex</b>")
'&lt;b&gt;age &amp; sex&lt;/b&gt;'
>>> element("p", "1 < 2", role="note")
'<p role="note">1 &lt; 2</p>'
>>> element("p", Markup("<em>kept</em>"))
'<p><em>kept</em></p>'
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from onedraw.release.text import visible

STYLES = {
    ("th", True): "text-align: left",
    ("td", True): "text-align: left",
    ("th", False): "text-align: right",
    ("td", False): "text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap",
}
"""By the element and whether it holds a name: notebooks have their own style sheet, which this overrides."""


class Markup(str):
    """Text that is HTML already, and made of escaped pieces."""

    __slots__ = ()


def text(value: object) -> Markup:
    """The text with everything escaped that HTML, or a terminal, would act upon."""
    return value if isinstance(value, Markup) else Markup(html.escape(visible(value), quote=True))


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """The pieces one after the other, each escaped unless it is HTML already."""
    return Markup(between.join(text(part) for part in parts))


def element(name: str, *content: object, **attributes: object) -> Markup:
    """``<name attribute="...">content</name>``; a trailing underscore of an attribute's name is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{joined(content)}</{name}>")


def items(sentences: Iterable[object]) -> Markup:
    """A list of sentences."""
    return element("ul", joined(element("li", sentence) for sentence in sentences))


def table(header: Sequence[object], rows: Sequence[Sequence[object]], *, caption: str = "") -> Markup:
    """A table with names at the left and numbers at the right, aligned wherever it is shown."""
    head = element("tr", *(_cell("th", cell, name=i == 0, scope="col") for i, cell in enumerate(header)))
    body = [
        element(
            "tr",
            _cell("th", row[0], name=True, scope="row"),
            *(_cell("td", cell, name=False) for cell in row[1:]),
        )
        for row in rows
    ]
    title = [element("caption", caption, style=STYLES["th", True])] if caption else []
    return element("table", *title, element("thead", head), element("tbody", *body))


def _cell(kind: str, content: object, *, name: bool, **attributes: object) -> Markup:
    return element(kind, content, **attributes, style=STYLES[kind, name])
