# SPDX-License-Identifier: Apache-2.0
"""Aligned Markdown tables, and writing one between two markers of a page."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns align in plain text too."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * (width - 1) + ":" for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def write_section(page: Path, name: str, text: str) -> None:
    """Replace what stands between <!-- name --> and <!-- /name --> in the page."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = page.read_text(encoding="utf-8").split(opening)
    after = rest.split(closing)[1]
    page.write_text(f"{before}{opening}\n{text}\n{closing}{after}", encoding="utf-8")


def machine() -> str:
    """The machine in a few words."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def read_section(page: Path, name: str) -> list[list[str]]:
    """The rows of the table between the markers, as text."""
    text = page.read_text(encoding="utf-8")
    inside = text.split(f"<!-- {name} -->", 1)[1].split(f"<!-- /{name} -->", 1)[0]
    lines = [line for line in inside.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def read_notes(page: Path, name: str) -> list[str]:
    """The paragraphs between the markers that are not the table."""
    text = page.read_text(encoding="utf-8")
    inside = text.split(f"<!-- {name} -->", 1)[1].split(f"<!-- /{name} -->", 1)[0]
    return [
        part.strip() for part in inside.split("\n\n") if part.strip() and not part.strip().startswith("|")
    ]
