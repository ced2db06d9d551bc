# SPDX-License-Identifier: Apache-2.0
"""A logistic fit of large tables as ratios: in memory, streamed from Parquet, on a Dask cluster; the command.

Each measurement is a process of its own, so that its peak of memory is its own; those that are compared run
in turn. Times are processor seconds, which a busy machine changes little; those of the cluster are by the
clock. A run that was cut short goes on where it stopped, if it is given the same folder.

    scripts/bench scale                          a million rows of 10 columns, and five times as many
    scripts/bench scale --rows 20e6 --folder D   the real one: 20 and 100 million; 13 GB of disk in D
    scripts/bench scale ... --write              ... and written to docs/benchmarks.md

"Before" is the library as it stood before it knew tables, taken from the history of the checkout; without a
history that line is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from _large_fits import COLUMNS, as_csv, simulate
from _table import machine, markdown, write_section

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEFORE = "92304b2"
"""The last commit without tables."""
TIMES = 5
"""As many rows has the longest table."""
COMMAND_ROWS, BLOCK_ROWS = 5_000_000, 1_000_000
STREAMED = {
    "linear": "a linear model from Parquet, no bounds",
    "counts": "counts from Parquet, no bounds",
    "draw": "a draw of the posterior from Parquet",
}
Line = list[str]


class Cells:
    """Measurements by name, kept in a file as they come."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "results.jsonl"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.known: dict[str, Any] = dict(json.loads(line) for line in lines)

    def table(self, rows: int) -> Path:
        path = self.folder / f"{rows}.parquet"
        if not path.exists():
            simulate(path, rows)
        return path

    def each(self, names: tuple[str, ...], path: Path, rounds: int, **source: Path) -> list[list[Any]]:
        """The measurements of each name, in turn; ``source`` is another library for one of them."""
        found: list[list[Any]] = [[] for _ in names]
        for number in range(rounds):
            for held, name in zip(found, names, strict=True):
                held.append(self._one(name, path, number, source.get(name)))
        return found

    def _one(self, name: str, path: Path, number: int, source: Path | None) -> Any:
        key = f"{name} {path.name} {number}"
        if key not in self.known:
            print(f"  {key}", file=sys.stderr, flush=True)
            asked = [sys.executable, str(HERE / "_large_fits.py"), name.partition("-")[0], str(path)]
            alone = dict(os.environ)
            if source is not None:
                alone["PYTHONPATH"] = str(source)
            done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True, env=alone)
            self.known[key] = json.loads(done.stdout.splitlines()[-1])
            with self.file.open("a") as out:
                out.write(json.dumps([key, self.known[key]]) + "\n")
        return self.known[key]


def middle(found: list[Any], name: str = "cpu") -> float:
    return statistics.median(one[name] for one in found)


def peak(found: list[Any]) -> str:
    return f"{max(one['peak'] for one in found):.2f} GB"


def line(words: str, found: list[Any], to: float | None, aim: str = "") -> Line:
    """Processor seconds, memory, ratio to ``to`` seconds and what it should be."""
    ratio = "1" if to is None else f"{middle(found) / to:.2f}"
    return [words, f"{middle(found):.1f} s", peak(found), ratio, aim]


def before_and_after(cells: Cells, rows: int, rounds: int) -> Iterator[Line]:
    """A fit in memory, and one pass, with the library of before and of now."""
    older = cells.folder / "before"
    if not older.exists():
        asked = ["git", "-C", str(HERE.parent), "archive", BEFORE, "src"]
        done = subprocess.run(asked, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            return
        with tarfile.open(fileobj=BytesIO(done.stdout)) as packed:
            packed.extractall(older, filter="data")
    path = cells.table(min(rows, BLOCK_ROWS))
    was, now = cells.each(("again-before", "again"), path, rounds, **{"again-before": older / "src"})
    for what, words in (("fit", "fit in memory"), ("pass", "64 log densities in memory")):
        first, second = (min(one[what] for one in found) for found in (was, now))
        yield [f"{words}, before there were tables", f"{first:.2f} s", "", "1", ""]
        yield [f"{words}, now", f"{second:.2f} s", "", f"{second / first:.2f}", "<= 1.05"]


def large_fits(cells: Cells, rows: int, rounds: int, apart: dict[str, float]) -> Iterator[Line]:
    """In memory, streamed, and streamed from a table five times as long."""
    path = cells.table(rows)
    held, streamed = cells.each(("memory", "stream"), path, rounds)
    apart["from memory to Parquet"] = distance(held, streamed)
    yield line("in memory: load and fit", held, None)
    passes = f"{streamed[0]['scans']} passes"
    yield line(f"from Parquet, {passes}", streamed, middle(held), "<= 1.3, <= 0.6 GB")
    (long,) = cells.each(("stream",), cells.table(TIMES * rows), 1)
    ratio = f"{middle(long) / middle(streamed):.2f} of the last line"
    words = f"from Parquet, {TIMES * rows:,} rows, {long[0]['scans']} passes"
    yield [words, f"{middle(long):.1f} s", peak(long), ratio, "4.5 to 5.5, <= 1 GB"]
    for name, words in STREAMED.items():
        (found,) = cells.each((name,), path, 1)
        yield line(f"{words}, {found[0]['scans']} passes", found, middle(held))


def command_lines(cells: Cells, rows: int, rounds: int) -> Iterator[Line]:
    """What the command takes to read and encode, and in all."""
    part = cells.table(min(rows, COMMAND_ROWS))
    for path in (part, as_csv(part)):
        kind = {".csv": "CSV"}.get(path.suffix, "Parquet")
        plain, whole, pieces = cells.each(("arrow", "block", "pieces"), path, rounds)
        (fit,) = cells.each(("command",), path, 1)
        yield line(f"pyarrow reads {kind}", plain, None)
        yield line("the command reads and encodes it, piece by piece", pieces, middle(plain), "<= 1.5")
        yield line("the same into one block", whole, middle(plain), "<= 1.5")
        yield line("the whole command", fit, middle(plain), "<= 1 GB")


def cluster_lines(cells: Cells, rows: int, apart: dict[str, float]) -> Iterator[Line]:
    """Passes on two workers by the clock."""
    path = cells.table(min(rows, COMMAND_ROWS))
    held, spread = cells.each(("memory", "cluster"), path, 1)
    apart["from memory to Dask"] = distance(held, spread)
    names = ("one", "two", "tiny", "one_cpu", "two_cpu")
    one, two, tiny, one_cpu, two_cpu = (min(spread[0][name]) for name in names)
    yield ["a pass of 64 parameters on one thread", f"{one:.2f} s (clock)", "", "1", ""]
    yield ["the same on two Dask workers", f"{two:.2f} s (clock)", "", f"{two / one:.2f}", "<= 0.75"]
    yield ["its processor seconds on the workers", f"{two_cpu:.2f} s", "", f"{two_cpu / one_cpu:.2f}", ""]
    yield ["a pass over 200 rows there", f"{1000 * tiny:.0f} ms (clock)", "", "", "<= 60 ms"]


def distance(one: list[Any], other: list[Any]) -> float:
    """By how much two releases of one seed differ at most."""
    return float(np.abs(np.subtract(one[0]["draws"], other[0]["draws"])).max())


def report(rows: int, rounds: int, folder: Path) -> str:
    """The table of one run."""
    cells, apart = Cells(folder), dict[str, float]()
    lines = [
        *before_and_after(cells, rows, rounds),
        *large_fits(cells, rows, rounds, apart),
        *command_lines(cells, rows, rounds),
        *cluster_lines(cells, rows, apart),
    ]
    differ = ", ".join(f"{way} {gap:.1e}" for way, gap in apart.items())
    lines.append(["one seed, largest difference of the release", differ, "", "", "<= 1e-9"])
    table = markdown(["", "time", "peak", "ratio", "aim"], lines)
    part, small = min(rows, COMMAND_ROWS), min(rows, BLOCK_ROWS)
    sizes = f"{rows:,} rows of {COLUMNS} columns ({part:,} for the command and Dask, {small:,} for before)"
    return f"{table}\n\n{sizes}. Rounds of {rounds}, {machine()}."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="of measurements that are compared, in turn")
    parser.add_argument("--folder", type=Path, help="keeps tables and results; goes on where it stopped")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        text = report(given.rows, given.rounds, folder)
    print(text)
    if given.write:
        write_section(PAGE, "scale", text)


if __name__ == "__main__":
    main()
