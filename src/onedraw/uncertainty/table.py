# SPDX-License-Identifier: Apache-2.0
"""The table of estimates and intervals that every method of this package ends in.

>>> print(Intervals(names=("age",), estimate=(0.5,), standard_error=(0.1,), low=(0.3,), high=(0.7,),
...                 level=0.95, notes=("By hand.",), p_value=(1e-9,)))
     estimate  std. error  95% low    high        p
age    0.5000      0.1000   0.3000  0.7000  <0.0001
By hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw.errors import InvalidInput
from onedraw.types import Array


def check_level(level: Any) -> float:
    """The nominal coverage of an interval, or an error."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0.0 < level < 1.0:
        raise InvalidInput(f"Expected level between 0 and 1, got level={level!r}. For example 0.95.")
    return float(level)


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Estimates with standard errors and intervals, in original units; ``str`` is an aligned table.

    An interval need not be centred on its estimate. ``p_value`` is that of a parameter of zero, where the
    method has one; ``notes`` say what the numbers come from.
    """

    names: tuple[str, ...]
    estimate: tuple[float, ...]
    standard_error: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float
    notes: tuple[str, ...]
    p_value: tuple[float, ...] | None = None
    caveats: tuple[str, ...] = ()

    def array(self) -> Array:
        """(p, 2): low and high of each parameter."""
        return np.stack([self.low, self.high], axis=1).astype(np.float64)

    def to_frame(self) -> Any:
        """A pandas frame with one row per parameter (pandas must be installed)."""
        pd = optional("pandas", "A table as a pandas frame", "all")
        columns = {
            "estimate": self.estimate,
            "standard error": self.standard_error,
            "low": self.low,
            "high": self.high,
            **({} if self.p_value is None else {"p": self.p_value}),
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="parameter"))

    def rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the cells of the table, as text."""
        header = ("", "estimate", "std. error", f"{100 * self.level:.6g}% low", "high")
        columns = zip(self.estimate, self.standard_error, self.low, self.high, strict=True)
        cells = [
            (name, *(f"{value:#.4g}" for value in values))
            for name, values in zip(self.names, columns, strict=True)
        ]
        if self.p_value is None:
            return header, cells
        shown = ("<0.0001" if p < 1e-4 else f"{p:.4f}" for p in self.p_value)
        return (*header, "p"), [(*row, p) for row, p in zip(cells, shown, strict=True)]

    def __str__(self) -> str:
        header, rows = self.rows()
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (header, *rows)
        ]
        return "\n".join([*lines, *self.notes, *(f"Caveat: {caveat}" for caveat in self.caveats)])
