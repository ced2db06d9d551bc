# SPDX-License-Identifier: Apache-2.0
"""What an experiment is: cells to compute, how to compute one, which pictures and claims follow.

A cell is a flat mapping of names to plain values and holds all that decides its result: method, epsilon, n,
data, repetition, seed. Nothing else enters, so a cell computed once need not be computed again, and any
number of workers gives the same table.

Every experiment comes in two versions. ``corrected`` claims only what is true: valid noise, public bounds.
``as-published`` keeps the errors of the published experiments, with every curve labelled by the guarantee
that it really has.

>>> stream("data", 7).random() == stream("data", 7).random() != stream("data", 8).random()
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Value = str | int | float
Row = dict[str, Value]
Cell = Mapping[str, Value]

VERSIONS = ("corrected", "as-published")
SIZES = ("paper", "smoke")
SEED = 2023


@dataclass(frozen=True, kw_only=True)
class View:
    """A picture as data: one column against another, curves by ``curve``, panels by two more.

    ``twin`` is the column of the non-private counterpart, drawn dashed. ``points`` labels points by epsilon,
    for two measured columns against each other. ``where`` keeps the rows that have these values.
    """

    name: str
    title: str
    x: str
    y: str
    x_label: str
    y_label: str
    curve: str = "method"
    twin: str | None = None
    across: str | None = None
    down: str | None = None
    log_x: bool = False
    points: bool = False
    ceiling: float | None = None
    diagonal: bool = False
    where: Mapping[str, Value] = field(default_factory=dict)
    promises: Mapping[str, str] = field(default_factory=dict)
    """What methods guarantee in this picture, where that is not what they guarantee in general."""


@dataclass(frozen=True)
class Verdict:
    """How many of the cases that a claim is about bear it out, and the numbers that say so.

    ``ties`` are the cases where the difference is within noise: they neither bear out the claim nor speak
    against it.

    >>> print(Verdict(3, 5, "some numbers.", ties=2))
    Holds or ties (3 of 5, 2 ties): some numbers.
    """

    right: int
    cases: int
    numbers: str
    ties: int = 0

    @property
    def word(self) -> str:
        """Whether the claim holds, in a word or two."""
        if not self.cases:
            return "Undecided"
        if self.right == self.cases:
            return "Holds"
        if self.ties == self.cases:
            return "No difference"
        if self.right + self.ties == self.cases:
            return "Holds or ties" if self.right >= self.ties else "Mostly ties"
        return "Holds in part" if self.right else "Does not hold"

    @property
    def count(self) -> str:
        """The numbers of cases, in brackets; nothing if there are none."""
        if not self.cases:
            return ""
        ties = f", {self.ties} {'tie' if self.ties == 1 else 'ties'}" if self.ties else ""
        return f"({self.right} of {self.cases}{ties})"

    def about(self, what: str) -> Verdict:
        """The same verdict whose numbers begin with what they are."""
        return replace(self, numbers=f"{what}, {self.numbers}")

    def __str__(self) -> str:
        return f"{' '.join(filter(None, (self.word, self.count)))}: {self.numbers}"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of the paper, and how the rows decide it.

    ``check`` is given the summarised rows or, for a comparison of methods on the same data sets, the rows of
    every repetition (``by_repetition``).
    """

    statement: str
    check: Callable[[Sequence[Row]], Verdict]
    by_repetition: bool = False


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A declarative experiment. ``cells`` and ``run`` are functions of a module, so that workers find them.

    ``by`` are the columns that tell summarised rows apart; ``values`` are averaged over all others.
    """

    name: str
    figures: str
    title: str
    sizes: Mapping[str, Mapping[str, Any]]
    cells: Callable[..., list[Cell]]
    run: Callable[[Cell], list[Row]]
    by: tuple[str, ...]
    values: tuple[str, ...]
    views: tuple[View, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    extra: str | None = None
    """The extra that ``run`` needs, if any. An extra has the name of the package that it installs."""
    revision: int = 1
    """To be raised when ``run`` changes what it computes: older cells are then computed again."""

    def listed(self, version: str, size: str) -> list[Cell]:
        """All cells of a version at a size."""
        return [{**cell, "seed": SEED} for cell in self.cells(version, **self.sizes[size])]

    def fingerprint(self, version: str, size: str) -> str:
        """The hash of the specification: name, revision and every cell."""
        content = [self.name, self.revision, [dict(cell) for cell in self.listed(version, size)]]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def stream(*parts: Value) -> np.random.Generator:
    """A generator of its own for every combination of values."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
