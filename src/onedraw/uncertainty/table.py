# SPDX-License-Identifier: Apache-2.0
"""The table of estimates and intervals that every method of this package ends in.

>>> print(Intervals(names=("age",), estimate=(0.5,), standard_error=(0.1,), low=(0.3,), high=(0.7,),
...                 level=0.95, notes=("By hand.",), p_value=(1e-9,)))
     estimate  std. error     z        p  95% low   high
age     0.500       0.100  6.11  <0.0001    0.300  0.700
By hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from onedraw._extras import optional
from onedraw.errors import InvalidInput
from onedraw.release.html import Markup
from onedraw.release.text import visible
from onedraw.types import Array
from onedraw.uncertainty import rendering
from onedraw.uncertainty.forest import Forest, Range, draw

LEAST_P = 1e-300
"""Smaller p-values are taken for this one where a z is made of them."""
QUARTERS = 4.0
"""An interval is about as many standard errors long; numbers are shown to a hundredth of one."""
NONE = "–"
"""In place of a number where there is none to give."""


def check_level(level: Any) -> float:
    """The nominal coverage of an interval, or an error."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0.0 < level < 1.0:
        raise InvalidInput(f"Expected level between 0 and 1, got level={level!r}. For example 0.95.")
    return float(level)


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Estimates with standard errors and intervals, in original units; ``str`` is an aligned table.

    An interval need not be centred on its estimate. ``p_value`` is that of a parameter of zero, where the
    method has one, and None for a parameter that cannot be zero, such as a residual scale; ``notes`` say what
    the numbers come from. ``quantity`` is what the estimates are: coefficients, or their exponentials, such
    as odds ratios, for which no effect is 1 and standard errors are those of the logarithms.
    """

    names: tuple[str, ...]
    estimate: tuple[float, ...]
    standard_error: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float
    notes: tuple[str, ...]
    p_value: tuple[float | None, ...] | None = None
    caveats: tuple[str, ...] = ()
    quantity: str = "estimate"
    no_effect: float = 0.0
    title: str = ""
    """Which model the numbers are of."""
    guarantee: str = ""
    """What the release promises, as a sentence."""
    ranges: tuple[tuple[float, float] | None, ...] = ()
    """The declared range of each parameter's feature, for the picture; empty where none were declared."""

    # -- numbers

    @property
    def z(self) -> tuple[float | None, ...] | None:
        """The normal deviate of each p-value, with the sign of the effect; |z| > 1.96 is p < 0.05."""
        if self.p_value is None:
            return None
        signs = [-1.0 if value < self.no_effect else 1.0 for value in self.estimate]
        return tuple(
            None if p is None else sign * float(-special.ndtri(0.5 * max(p, LEAST_P)))
            for sign, p in zip(signs, self.p_value, strict=True)
        )

    def array(self) -> Array:
        """(p, 2): low and high of each parameter."""
        return np.stack([self.low, self.high], axis=1).astype(np.float64)

    def exponentiated(self, quantity: str) -> Intervals:
        """The table of the exponentials, which are ``quantity``; standard errors stay those of the logs."""

        def raised(values: tuple[float, ...]) -> tuple[float, ...]:
            with np.errstate(over="ignore"):  # an interval without an end stays one
                return tuple(np.exp(values).tolist())

        return replace(
            self,
            estimate=raised(self.estimate),
            low=raised(self.low),
            high=raised(self.high),
            quantity=quantity,
            no_effect=1.0,
        )

    def to_frame(self) -> Any:
        """A pandas frame with one row per parameter (pandas must be installed)."""
        pd = optional("pandas", "A table as a pandas frame", "all")
        tests = {} if self.p_value is None else {"z": self.z, "p": self.p_value}
        columns = {
            self.quantity: self.estimate,
            self._error_name("standard error"): self.standard_error,
            **tests,
            "low": self.low,
            "high": self.high,
        }
        values = {name: np.array(column, dtype=np.float64) for name, column in columns.items()}
        return pd.DataFrame(values, index=pd.Index(self.names, name="parameter"))

    # -- tables

    def rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the cells of the table, as text."""
        ends = (f"{100 * self.level:.6g}% low", "high")
        tested = self.p_value is not None
        header = ("", self.quantity, self._error_name("std. error"), *(("z", "p") if tested else ()), *ends)
        return header, list(self._cells())

    def _cells(self) -> Iterator[tuple[str, ...]]:
        zs, ps = self.z, self.p_value
        columns = (self.names, self.estimate, self.standard_error, self.low, self.high)
        for i, (name, *numbers) in enumerate(zip(*columns, strict=True)):
            estimate, error, low, high = numbers
            shown = [rendering.number(value, (high - low) / QUARTERS) for value in (estimate, low, high)]
            tests = () if zs is None or ps is None else (_deviate(zs[i]), _probability(ps[i]))
            yield (str(name), shown[0], rendering.number(error, error), *tests, *shown[1:])

    def _error_name(self, error: str) -> str:
        return error if self.no_effect == 0.0 else f"{error} of log"

    def foot(self) -> list[str]:
        """What the numbers rest on: notes, caveats and the guarantee, a sentence each."""
        return [
            *self.notes,
            *(f"Caveat: {caveat}" for caveat in self.caveats),
            *([f"Guarantee: {self.guarantee}"] if self.guarantee else []),
        ]

    def __str__(self) -> str:
        title = [f"Model: {visible(self.title)}"] if self.title else []
        return "\n".join([*title, rendering.lines(*self.rows()), *self.foot()])

    def to_html(self) -> str:
        """The table as HTML, with what it rests on; names are escaped."""
        return str(self._repr_html_())

    def to_latex(self) -> str:
        """The table as a LaTeX ``tabular`` for the package booktabs, with what it rests on."""
        return rendering.latex(*self.rows(), foot=self.foot())

    def _repr_html_(self) -> Markup:
        title = f"Model: {self.title}" if self.title else ""
        return rendering.markup(*self.rows(), title=title, foot=self.foot())

    # -- picture

    def forest(
        self,
        *,
        names: Sequence[str] | None = None,
        reference: Any = None,
        per: Mapping[str, float] | None = None,
    ) -> Forest:
        """The intervals as the data of a forest plot; see ``plot``."""
        chosen = self._chosen(names)
        steps, labels, change = self._steps(chosen, per)
        ratio = self.no_effect == 1.0
        ranges = [Range(estimate=self.estimate[i], low=self.low[i], high=self.high[i]) for i in chosen]
        others = None if reference is None else self._reference(reference, chosen)
        return Forest(
            names=tuple(labels),
            private=tuple(r.over(step, ratio=ratio) for r, step in zip(ranges, steps, strict=True)),
            reference=None
            if others is None
            else tuple(r and r.over(step, ratio=ratio) for r, step in zip(others, steps, strict=True)),
            no_effect=self.no_effect,
            label=f"{self.quantity}{change}, with {100 * self.level:.6g}% interval",
        )

    def plot(
        self,
        *,
        ax: Any = None,
        names: Sequence[str] | None = None,
        reference: Any = None,
        per: Mapping[str, float] | None = None,
    ) -> Any:
        """A forest plot (extra ``plots``): each estimate with its interval. Returns Matplotlib's axes.

        Args:
            ax: the axes to draw on; new ones by default.
            names: the parameters to draw, in this order; by default all but intercepts and a scale.
            reference: values to draw beside, such as a public fit: a table like this one, or by parameter
                name a number or (estimate, low, high), in the units of this table.
            per: the change of each feature that its effect is drawn for, by parameter name, such as
                {"age": 10}; one unit for all others. By default the whole declared range, or one unit where
                ranges were not declared.
        """
        return draw(self.forest(names=names, reference=reference, per=per), ax)

    def _steps(
        self, chosen: Sequence[int], per: Mapping[str, float] | None
    ) -> tuple[list[float], list[str], str]:
        """For each line the change of its feature, its label, and what the axis says of the changes."""
        names = [self.names[i] for i in chosen]
        if per is None and any(self.ranges):
            ranges = [self.ranges[i] for i in chosen]
            steps = [1.0 if r is None else r[1] - r[0] for r in ranges]
            labels = [
                name if r is None else f"{name}, {r[0]:g} to {r[1]:g}"
                for name, r in zip(names, ranges, strict=True)
            ]
            return steps, labels, " over the declared range"
        given = {} if per is None else dict(per)
        unknown = [name for name in given if name not in self.names]
        wrong = [step for step in given.values() if not np.isfinite(step) or step == 0.0]
        if unknown or wrong:
            raise InvalidInput(
                f"Expected per to give a change other than 0 for names among {list(self.names)}, got {given}."
            )
        steps = [float(given.get(name, 1.0)) for name in names]
        labels = [
            name if step == 1.0 else f"{name}, {step:+g}" for name, step in zip(names, steps, strict=True)
        ]
        return steps, labels, ""

    def _chosen(self, names: Sequence[str] | None) -> list[int]:
        if names is None:
            effects = [
                i for i, name in enumerate(self.names) if not name.startswith(("(intercept)", "(scale)"))
            ]
            return effects or list(range(len(self.names)))
        missing = [name for name in names if name not in self.names]
        if missing or not names:
            raise InvalidInput(f"Expected names among {list(self.names)}, got {list(names)}.")
        return [self.names.index(name) for name in names]

    def _reference(self, reference: Any, chosen: Sequence[int]) -> tuple[Range | None, ...]:
        if isinstance(reference, Intervals):
            values = zip(reference.estimate, reference.low, reference.high, strict=True)
            reference = dict(zip(reference.names, values, strict=True))
        return tuple(Range.read(reference.get(self.names[i])) for i in chosen)


def _deviate(z: float | None) -> str:
    return NONE if z is None else f"{z:.2f}"


def _probability(p: float | None) -> str:
    return NONE if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
