# SPDX-License-Identifier: Apache-2.0
"""The pages of the reference, written from the code when the site is built.

``python scripts/reference_pages.py`` prints the names of the pages and how long they are.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GROUPS = {
    "Estimators": ("Regression", "Regressor", "Classifier", "PrivateModel"),
    "Errors and warnings": ("Error", "Warning", "Exceeded", "TooLow", "Input", "Extra", "Density", "Dataset"),
}
"""Endings of names that belong together; whatever has another name is listed under OTHERS."""
OTHERS = "Releases, guarantees, tables and budgets"
FIELDS = ("Args:", "Attributes:")


# -- docstrings


def as_markdown(docstring: str) -> str:
    """A docstring as Markdown: sections, lists of arguments, examples."""
    lines = inspect.cleandoc(docstring).replace("``", "`").splitlines()
    out: list[str] = []
    while lines:
        line = lines.pop(0)
        if line.startswith(">>>"):
            block = [line]
            while lines and lines[0].strip():
                block.append(lines.pop(0))
            out += ["```pycon", *block, "```"]
        elif re.fullmatch(r"[A-Z][a-z ]+:", line) and lines and lines[0].startswith("    "):
            block = []
            while lines and (not lines[0].strip() or lines[0].startswith("    ")):
                block.append(lines.pop(0))
            body = textwrap.dedent("\n".join(block)).strip("\n")
            out += ["", f"**{line}**", "", _listed(body) if line in FIELDS else body, ""]
        else:
            out.append(line)
    return "\n".join(out)


def _listed(body: str) -> str:
    """``name: text`` entries as a list."""
    return "\n".join(
        re.sub(r"^(\w[\w, ]*): ", r"- `\1`: ", line) if not line.startswith(" ") else line
        for line in body.splitlines()
    )


def signature(thing: Any, name: str) -> str:
    """How it is called, one argument a line if that is long."""
    try:
        arguments = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    shown = [
        re.sub(r"^(\w+): .*? = ", r"\1=", str(parameter)).split(": ")[0]
        for parameter in arguments.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    flat = f"{name}({', '.join(shown)})"
    return flat if len(flat) <= 90 else f"{name}(\n    " + ",\n    ".join(shown) + ",\n)"


def described(thing: Any, name: str, level: int = 3) -> Iterator[str]:
    """One class or function with its public methods."""
    yield f"{'#' * level} {name.rpartition('.')[2]}\n"
    yield f"```python\n{signature(thing, name)}\n```\n"
    yield as_markdown(inspect.getdoc(thing) or "") + "\n"
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return
    for method, found in sorted(vars(thing).items()):
        function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        if method.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        heading = f"`{method}`" if isinstance(found, property) else f"`{signature_of_method(function)}`"
        yield f"{heading}\n\n{textwrap.indent(as_markdown(function.__doc__), '    ')}\n"


def signature_of_method(function: Any) -> str:
    """On one line, without ``self``."""
    names = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    return f"{function.__name__}({', '.join(names)})"


# -- pages


def python_page() -> str:
    """Everything in ``onedraw.__all__``."""
    import onedraw

    public = [name for name in onedraw.__all__ if not name.startswith("_")]
    names = [name for name in public if not inspect.ismodule(getattr(onedraw, name))]
    grouped: dict[str, list[str]] = {group: [] for group in (*list(GROUPS)[:1], OTHERS, *list(GROUPS)[1:])}
    for name in names:
        group = next((g for g, endings in GROUPS.items() if name.endswith(endings)), OTHERS)
        grouped[group].append(name)
    parts = ["# Python reference\n", "Written from the docstrings; `import onedraw` first.\n"]
    for group, members in grouped.items():
        parts.append(f"## {group}\n")
        for name in members:
            parts += described(getattr(onedraw, name), f"onedraw.{name}")
    return "\n".join(parts)


def mechanisms_page() -> str:
    """Every registered mechanism: what it guarantees and its options."""
    from onedraw.registry import MECHANISMS

    parts = [
        "# Mechanisms, one by one\n",
        "Which one to choose is the subject of [another page](../mechanisms.md). Each has a name for "
        '`mechanism="..."`, a class in `onedraw.mechanisms` or `onedraw.nn` for options of its own, and '
        "the proof of its guarantee here.\n",
    ]
    for name, kind in MECHANISMS.items():
        module = inspect.getmodule(kind)
        parts += [f"## {kind.__name__}\n", f'`mechanism="{name}"`\n']
        parts.append(as_markdown(getattr(module, "__doc__", "") or "") + "\n")
        options = ", ".join(f"`{option}`" for option in kind.option_names()) or "none"
        parts.append(f"Options: {options}.\n")
        if "Args:" in (kind.__doc__ or ""):
            parts.append(as_markdown(kind.__doc__ or "") + "\n")
    return "\n".join(parts)


def command_page() -> str:
    """Every command with its options, as ``--help`` has them."""
    import click

    from onedraw.cli.app import main

    parts = ["# Command reference\n", "What `--help` says of each command; [how to use it](../command.md).\n"]

    def walk(command: Any, path: str) -> None:
        own = click.Context(command, info_name=path, parent=None)
        parts.extend([f"## {path}\n", f"```text\n{command.get_help(own)}\n```\n"])
        if isinstance(command, click.Group):
            for name in command.list_commands(own):
                walk(command.get_command(own, name), f"{path} {name}")

    walk(main, "onedraw")
    return "\n".join(parts)


PAGES = {
    "reference/python.md": python_page,
    "reference/mechanisms.md": mechanisms_page,
    "reference/command.md": command_page,
}


def write(folder: Path) -> None:
    """Write the pages below ``folder``; what has not changed is left alone."""
    for name, page in PAGES.items():
        path, content = folder / name, page()
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    for name, page in PAGES.items():
        print(f"{name}: {len(page().splitlines())} lines")
