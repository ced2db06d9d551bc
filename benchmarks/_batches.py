# SPDX-License-Identifier: Apache-2.0
"""What a study keeps of its releases: a line for every batch, in a file that is small enough to commit.

So a study goes on where it ended, on any machine. Of a batch everything is kept that the tables add up;
widths are medians of a batch, and averaged over batches.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from scipy import stats

SIZE = 20
"""Releases of a batch, which are inferred from together."""


@dataclass(frozen=True)
class Batch:
    """Releases ``first``, ``first`` + 1, ... of a cell; all but their number and ``given`` is of those given.

    intervals: of one release. held: intervals that held the truth, and ``squares`` the sum of the squared
    shares of releases. joint, sum: tests of 5% that rejected. estimate, raw, plain: sums of mean squared
    errors of the table's estimates, of the released and of the non-private ones, in non-private errors.
    """

    cell: str
    seed: int
    first: int
    releases: int
    given: int
    intervals: int
    held: int
    squares: float
    width: float
    joint: int = 0
    sum: int = 0
    estimate: float = 0.0
    raw: float = 0.0
    plain: float = 0.0

    @classmethod
    def of(cls, records: list[dict]) -> Batch:
        """Of the records of one cell."""
        given = [r for r in records if r["given"]]
        held = [sum(r["covered"]) for r in given]
        intervals = len(given[0]["covered"]) if given else 1
        return cls(
            cell=records[0]["cell"],
            seed=records[0]["seed"],
            first=records[0]["repeat"],
            releases=len(records),
            given=len(given),
            intervals=intervals,
            held=sum(held),
            squares=round(sum((h / intervals) ** 2 for h in held), 4),
            width=round(float(np.median([r["width"] for r in given])), 4) if given else 0.0,
            joint=sum(r.get("joint", 1.0) < 0.05 for r in given),
            sum=sum(r.get("sum", 1.0) < 0.05 for r in given),
            **{k: round(sum(r.get(k, 0.0) for r in given), 4) for k in ("estimate", "raw", "plain")},
        )


@dataclass(frozen=True)
class Together:
    """Batches of one or more cells, added up."""

    batches: list[Batch]

    def total(self, name: str) -> float:
        return sum(getattr(b, name) for b in self.batches)

    @property
    def releases(self) -> int:
        return int(self.total("releases"))

    @property
    def given(self) -> int:
        return int(self.total("given"))

    @property
    def width(self) -> float:
        return sum(b.given * b.width for b in self.batches) / self.given

    def coverage(self, effect: float) -> tuple[float, float, float]:
        """The share of intervals that held the truth, and its Clopper-Pearson interval at the effective
        size."""
        of = sum(b.given * b.intervals for b in self.batches)
        share = self.total("held") / of
        return (share, *clopper_pearson(share * of / effect, of / effect))

    def size(self, test: str) -> tuple[float, float, float]:
        """The share of releases whose test of 5% rejected, and its Clopper-Pearson interval."""
        return (self.total(test) / self.given, *clopper_pearson(self.total(test), self.given))

    def error(self, name: str) -> float:
        """Over that of the non-private fit."""
        return float(np.sqrt(self.total(name) / self.total("plain")))


def by_cell(batches: list[Batch]) -> dict[str, Together]:
    found = defaultdict(list)
    for batch in batches:
        found[batch.cell].append(batch)
    return {cell: Together(mine) for cell, mine in found.items()}


def design_effect(batches: list[Batch]) -> float:
    """How many times more the shares of releases vary about those of their cells than if every interval were
    a trial of its own: intervals of one release share its noise. At least 1; all cells together."""
    spread = expected = 0.0
    for cell in by_cell(batches).values():
        if cell.given > 1:
            intervals = max(b.intervals for b in cell.batches if b.given)
            mean = cell.total("held") / (cell.given * intervals)
            spread += cell.total("squares") - cell.given * mean**2
            expected += (cell.given - 1) * mean * (1.0 - mean) / intervals
    return max(1.0, spread / expected) if expected > 0.0 else 1.0


def clopper_pearson(hits: float, size: float) -> tuple[float, float]:
    """The exact 95% interval of a proportion; sizes need not be whole."""
    low = stats.beta.ppf(0.025, hits, size - hits + 1.0) if hits > 0.0 else 0.0
    high = stats.beta.ppf(0.975, hits + 1.0, size - hits) if hits < size else 1.0
    return float(low), float(high)


def read(path: Path) -> list[Batch]:
    """The batches of a file, each once: a run that was cut short may have been repeated."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        found = [_parsed(row) for row in csv.DictReader(file)]
    return list({(b.cell, b.seed, b.first): b for b in found}.values())


def append(path: Path, batch: Batch) -> None:
    """One line more; two processes may share a file."""
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Batch)], lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        writer.writerow(asdict(batch))


def done(batches: list[Batch]) -> set[tuple[str, int, int]]:
    """The releases that there are: cell, seed and place."""
    return {(b.cell, b.seed, k) for b in batches for k in range(b.first, b.first + b.releases)}


def _parsed(row: dict[str, str]) -> Batch:
    kinds = {"str": str, "int": int, "float": float}
    return Batch(**{f.name: kinds[str(f.type)](row[f.name]) for f in fields(Batch)})
