# SPDX-License-Identifier: Apache-2.0
"""The mechanisms side by side, as a table written from their own declarations.

``python -m onedraw.mechanisms.requirements`` prints the table of docs/mechanisms.md; a test compares the two.

>>> print(requirement_table().splitlines()[0])
| mechanism | models | guarantee | neighbours | privacy rests on | you must declare | you may set | ...
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable

from onedraw import mechanisms
from onedraw.mechanisms._base import Mechanism

COLUMNS = (
    "mechanism",
    "models",
    "guarantee",
    "neighbours",
    "privacy rests on",
    "you must declare",
    "you may set",
    "prefer it when",
)
INTERNAL = ("calibration", "promise")
GUARANTEES = {"unused": "ε", "needed": "(ε, δ)", "composition": "ε; (ε, δ) for several draws"}


def all_mechanisms() -> tuple[type[Mechanism], ...]:
    """Every mechanism of the package: the one for most models first, those for a single number last."""
    public = (getattr(mechanisms, name) for name in mechanisms.__all__)
    kinds = [
        kind
        for kind in public
        if isinstance(kind, type) and issubclass(kind, Mechanism) and not inspect.isabstract(kind)
    ]

    def place(kind: type[Mechanism]) -> tuple[bool, int, tuple[str, ...]]:
        declared = kind.requirements
        return declared.intercept_only, -len(declared.kinds), declared.kinds

    return tuple(sorted(kinds, key=place))


def requirement_row(kind: type[Mechanism]) -> dict[str, str]:
    """What one mechanism declares, by column, as Markdown."""
    declared = kind.requirements
    models = ", ".join([*declared.kinds, *(["intercept only"] if declared.intercept_only else [])])
    relation = "replace-one, one row per person" if declared.count else "both"
    exact = "an exact draw (evidence stated)" if declared.exact_draw else "its own randomness"
    bounds = any(need != "num_parameters" for need in declared.needs)
    fields = [field.name for field in dataclasses.fields(kind) if field.name not in INTERNAL]
    cells = (
        f"`{kind.__name__}`",
        models,
        GUARANTEES[declared.delta],
        relation,
        exact + (", bounded records" if bounds else ""),
        _code(declared.needs) or "nothing",
        _code(name for name in fields if name not in declared.needs),
        declared.prefer,
    )
    return dict(zip(COLUMNS, cells, strict=True))


def requirement_table() -> str:
    """All mechanisms as a Markdown table."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS)]
    rows += [tuple(requirement_row(kind).values()) for kind in all_mechanisms()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(requirement_table())
