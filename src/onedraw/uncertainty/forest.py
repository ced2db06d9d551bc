# SPDX-License-Identifier: Apache-2.0
"""A forest plot as data, and its drawing with Matplotlib; ``onedraw.reports`` draws the same as SVG.

The axis of ratios is logarithmic, so that 1/2 lies as far from no effect as 2 does.

>>> forest = Forest(names=("age",), private=(Range(estimate=2.0, low=1.0, high=4.0),), no_effect=1.0)
>>> forest.logarithmic, forest.limits()[0] < 1.0 < 4.0 < forest.limits()[1]
(True, True)
>>> forest.ticks()
(1.0, 1.5, 2.0, 3.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw.errors import InvalidInput
from onedraw.release.text import visible

PRIVATE, PLAIN, INK, FAINT = "#0f6b8f", "#b5651d", "#26323a", "#d5dde1"
MARGIN = 0.06
"""Of the span of all intervals, left free at either end."""
LARGEST = 1e12
"""Ends beyond this many units are drawn there."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """An estimate with the ends of its interval; without ends where only a value is known."""

    estimate: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def read(cls, value: Any) -> Range | None:
        """From a number, from (estimate, low, high), or None."""
        if value is None:
            return None
        try:
            parts = [float(part) for part in value] if hasattr(value, "__len__") else [float(value)]
        except (TypeError, ValueError):
            parts = []
        if len(parts) not in (1, 3):
            raise InvalidInput(
                "Expected a reference value to be a number or (estimate, low, high), got "
                f"{type(value).__name__} {value!r}."
            )
        if len(parts) == 1:
            return cls(estimate=parts[0])
        return cls(estimate=parts[0], low=parts[1], high=parts[2])

    def over(self, step: float, *, ratio: bool) -> Range:
        """The same effect, of a change by ``step`` units in place of one."""

        def moved(value: float | None) -> float | None:
            if value is None or step == 1.0:
                return value
            with np.errstate(over="ignore"):
                return float(np.float64(value) ** step) if ratio else value * step

        estimate = moved(self.estimate)
        assert estimate is not None
        return Range(estimate=estimate, low=moved(self.low), high=moved(self.high))

    def points(self) -> list[float]:
        """All that must be within the picture."""
        return [p for p in (self.estimate, self.low, self.high) if p is not None and abs(p) < LARGEST]


@dataclass(frozen=True, kw_only=True)
class Forest:
    """One line a parameter: its interval and, where given, a reference beside it."""

    names: tuple[str, ...]
    private: tuple[Range, ...]
    reference: tuple[Range | None, ...] | None = None
    no_effect: float = 0.0
    label: str = "estimate"
    private_label: str = "private"
    reference_label: str = "reference"

    @property
    def logarithmic(self) -> bool:
        """Whether the values are ratios."""
        return self.no_effect == 1.0

    def place(self, value: float) -> float:
        """Where a value lies on the axis, from 0 to 1."""
        low, high = (self._scaled(end) for end in self.limits())
        return (min(max(self._scaled(value), low), high) - low) / (high - low)

    def limits(self) -> tuple[float, float]:
        """The ends of the axis; the value of no effect is always on it."""
        ranges = [*self.private, *(r for r in self.reference or () if r is not None)]
        points = [self._scaled(point) for r in ranges for point in r.points()]
        points.append(self._scaled(self.no_effect))
        low, high = min(points), max(points)
        margin = MARGIN * (high - low) or 1.0
        return self._raised(low - margin), self._raised(high + margin)

    def ticks(self) -> tuple[float, ...]:
        """About five round numbers between the ends."""
        low, high = self.limits()
        if not self.logarithmic:
            return _round_numbers(low, high)
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        for steps in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,)):
            found = [s * 10.0**k for k in range(first, last + 1) for s in steps]
            found = [round(t, 12) for t in found if low <= t <= high]
            if 3 <= len(found) <= 7:
                return tuple(found)
        if len(found) <= 2:
            return _round_numbers(low, high)
        return tuple(found[:: -(-len(found) // 7)])

    def _scaled(self, value: float) -> float:
        return math.log(max(value, 1.0 / LARGEST)) if self.logarithmic else value

    def _raised(self, value: float) -> float:
        return math.exp(value) if self.logarithmic else value


def _round_numbers(low: float, high: float) -> tuple[float, ...]:
    """Multiples of 1, 2 or 5 times a power of ten, at most seven of them."""
    unit = 10.0 ** math.floor(math.log10((high - low) / 7.0))
    step = next(s * unit for s in (1.0, 2.0, 5.0, 10.0, 20.0) if (high - low) / (s * unit) <= 7.0)
    first = math.ceil(low / step)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return tuple(round(k * step, digits) + 0.0 for k in range(first, first + 8) if k * step <= high)


def draw(forest: Forest, axes: Any = None) -> Any:
    """The plot on Matplotlib's axes, new ones unless some are given; the first parameter is on top."""
    if axes is None:
        figures = optional("matplotlib.figure", "A forest plot", "plots")
        height = 1.2 + 0.42 * len(forest.names) * (1.0 if forest.reference is None else 1.3)
        axes = figures.Figure(figsize=(7.6, height), layout="constrained").subplots()
    offset = 0.0 if forest.reference is None else 0.16
    positions = range(len(forest.names) - 1, -1, -1)
    axes.set_xscale("log" if forest.logarithmic else "linear")
    axes.axvline(forest.no_effect, color=INK, linewidth=0.8, zorder=1)
    series = [(forest.private, -offset, PRIVATE, "o", forest.private_label)]
    if forest.reference is not None:
        series.insert(0, (forest.reference, offset, PLAIN, "D", forest.reference_label))  # type: ignore[arg-type]
    for ranges, shift, colour, marker, label in series:
        shown = [(r, place + shift) for r, place in zip(ranges, positions, strict=True) if r is not None]
        ended = [(r, place) for r, place in shown if r.low is not None]
        axes.hlines(
            [place for _, place in ended],
            [r.low for r, _ in ended],
            [r.high for r, _ in ended],
            color=colour,
            linewidth=2.4,
        )
        axes.plot(
            [r.estimate for r, _ in shown], [place for _, place in shown], marker, color=colour,
            markersize=6.5, markeredgecolor="white", label=label,
        )  # fmt: skip
    axes.set_xlim(*forest.limits())
    axes.set_xticks(forest.ticks(), [f"{tick:g}" for tick in forest.ticks()])
    axes.minorticks_off()
    axes.set_yticks(list(positions), [visible(name) for name in forest.names], parse_math=False)
    axes.set_ylim(-0.6, len(forest.names) - 0.4)
    axes.set_xlabel(forest.label, color=INK)
    axes.grid(axis="x", color=FAINT)
    axes.set_axisbelow(True)
    axes.tick_params(left=False, colors=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if forest.reference is not None:
        axes.legend(
            frameon=False, loc="upper left", bbox_to_anchor=(0.0, 1.0 + 0.42 / len(forest.names)), ncols=2
        )
    return axes
