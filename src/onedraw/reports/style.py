# SPDX-License-Identifier: Apache-2.0
"""How pages look: one style sheet and one frame; nothing is loaded from elsewhere.

>>> page("A title", element("p", "Text")).splitlines()[0]
'<!doctype html>'
"""

from __future__ import annotations

import base64
import hashlib

from onedraw.release.html import Markup, element, joined, text

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""For the browser: even a mistake in the escaping could load and run nothing."""
STYLE = """
:root { color-scheme: light; --ink: #1c2a33; --soft: #55656f; --line: #d5dde1; --wash: #f3f7f8;
  --blue: #0f6b8f; --alarm: #9c2f12; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", "Noto Sans",
  "DejaVu Sans", sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 54rem; margin: 0 auto; padding: 2.5rem 1.5rem 3rem; }
header { border-top: 5px solid var(--blue); padding-top: 1rem; }
h1, h2 { font-family: Georgia, "Noto Serif", "DejaVu Serif", serif; font-weight: 600; line-height: 1.25;
  margin: 0; overflow-wrap: anywhere; }
h1 { font-size: 1.9rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .7rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p { margin: .6rem 0; }
.kind { color: var(--blue); font-size: .82rem; font-weight: 600; letter-spacing: .08em;
  text-transform: uppercase; margin: 0 0 .3rem; }
.lead { color: var(--soft); overflow-wrap: anywhere; }
.alarm { border-left: 4px solid var(--alarm); color: var(--alarm); font-weight: 600; padding: .5rem .9rem;
  background: #fbf1ee; }
.promise { background: var(--wash); border-left: 4px solid var(--blue); padding: .9rem 1.2rem;
  margin: 1.4rem 0 0; }
.promise p:first-child { font-size: 1.08rem; margin-top: 0; }
.promise p:last-child { margin-bottom: 0; }
.facts { display: grid; grid-template-columns: repeat(4, 1fr); gap: 1px;
  margin: 1.2rem 0 0; background: var(--line); border: 1px solid var(--line); }
.facts div { background: #fff; padding: .6rem .9rem; display: flex; flex-direction: column;
  justify-content: space-between; }
.facts dt { color: var(--soft); font-size: .82rem; }
.facts dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; font-variant-numeric: tabular-nums; }
thead th { vertical-align: bottom; border-bottom: 2px solid var(--ink); border-top: 2px solid var(--ink);
  font-weight: 600; }
th, td { padding: .38rem .7rem; vertical-align: baseline; }
th:first-child, td:first-child { padding-left: 0; }
tbody th { font-weight: 400; overflow-wrap: anywhere; min-width: 7rem; }
tbody tr + tr > * { border-top: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 2px solid var(--ink); }
.pairs { width: auto; }
.pairs tbody td { text-align: left !important; white-space: normal !important; overflow-wrap: anywhere; }
.pairs tbody th { color: var(--soft); }
.notes { color: var(--soft); font-size: .9rem; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
li { margin: .25rem 0; overflow-wrap: anywhere; }
.sliders { display: grid; gap: .9rem 2rem; grid-template-columns: repeat(3, 1fr); margin: 1.6rem 0; }
.sliders label { display: grid; grid-template-columns: 1fr auto; gap: .2rem; font-size: .95rem; }
.sliders output { font-weight: 600; font-variant-numeric: tabular-nums; }
.sliders input { grid-column: 1 / -1; width: 100%; accent-color: var(--blue); }
figure { margin: 1.6rem 0 0; }
svg.forest { display: block; overflow: visible; font-family: inherit; }
svg.forest .name { paint-order: stroke; stroke: #fff; stroke-width: 4px; }
code { font: .85em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
footer { border-top: 1px solid var(--line); color: var(--soft); font-size: .85rem; margin-top: 2.6rem;
  padding-top: .8rem; }
@media (max-width: 36rem) {
  main { padding: 1.2rem 1rem 2rem; }
  h1 { font-size: 1.45rem; }
  .sliders { grid-template-columns: 1fr; }
  .facts { grid-template-columns: repeat(2, 1fr); }
  table { font-size: .8rem; }
  th, td { padding: .34rem .3rem; }
  tbody th { min-width: 5rem; }
}
@media print {
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  h2 { break-after: avoid; }
  figure, tr, .promise { break-inside: avoid; }
  .promise, .alarm { background: none; }
  .wide { overflow: visible; }
}
"""


def page(title: str, *content: object, script: str = "") -> str:
    """A complete HTML document; ``script`` must not hold text of others, and is the only one to run."""
    allowed = POLICY if not script else f"{POLICY}; script-src 'sha256-{_digest(script)}'"
    head = joined(
        [
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{text(allowed)}">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            element("title", title),
            Markup(f"<style>{STYLE}</style>"),
        ],
        "\n",
    )
    running = [Markup(f"<script>{script}</script>")] if script else []
    body = element("body", element("main", joined(content, "\n")), *running)
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n{body}\n</html>\n'


def _digest(script: str) -> str:
    """What a browser compares a script with before it runs it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
