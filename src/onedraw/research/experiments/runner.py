# SPDX-License-Identifier: Apache-2.0
"""The one runner: cells in parallel, each on disk as soon as it is done, in a table that no order changes.

Finished cells are lines of an append-only file. After a kill, the same call reads them, drops a half-written
last line, and computes only what is missing: at most the cells that were under way are computed again.

With a limit of time a run ends early, and reports the repetitions that are complete: cells are computed in
the order of their repetitions, so that what there is spans the whole grid.

Cells go through joblib, so ``with joblib.parallel_config(backend=...)`` around the call sends them to
threads, processes, or a Dask or Ray cluster; ``docs/reproduction.md`` shows how.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy
import scipy
import sklearn
from threadpoolctl import threadpool_limits

from onedraw._validate import one_of, positive, whole
from onedraw._version import __version__
from onedraw.errors import InvalidInput, MissingExtra
from onedraw.research.datasets import load
from onedraw.research.experiments.spec import SEED, SIZES, VERSIONS, Cell, Experiment, Row, Verdict
from onedraw.research.experiments.table import summarise, to_csv

OPTIONAL = ("jax", "blackjax", "jax-privacy", "dp-accounting")
"""What networks need beside the core; named where installed."""
Progress = Callable[[int, int], None]
"""Called with the number of cells done and of all cells."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """All rows in the order of the cells, their summary, and where they come from."""

    experiment: Experiment
    version: str
    rows: list[Row]
    summary: list[Row]
    about: dict[str, Any]
    seconds: float
    """Of computation, on all workers and in all attempts together."""
    cells: int
    """How many the rows come from: fewer than the specification has if time was up."""

    @property
    def verdicts(self) -> list[tuple[str, Verdict]]:
        """Every claim of the experiment, and whether these numbers bear it out."""
        return [
            (claim.statement, claim.check(self.rows if claim.by_repetition else self.summary))
            for claim in self.experiment.claims
        ]


def run(
    experiment: Experiment,
    *,
    version: str = "corrected",
    size: str = "paper",
    folder: str | os.PathLike[str],
    jobs: int = 1,
    minutes: float | None = None,
    progress: Progress = lambda done, total: None,
) -> Results:
    """Compute what is missing, and return everything. ``folder`` holds finished cells and the full table.

    No cell is begun after so many ``minutes``, if they are given; what is returned then are the repetitions
    of which every cell is finished.
    """
    one_of(VERSIONS, version=version)
    one_of(SIZES, size=size)
    whole(jobs=jobs)
    end = math.inf if minutes is None else time.monotonic() + 60.0 * positive(minutes=minutes)
    check_extra(experiment)
    cells = experiment.listed(version, size)
    keys = [_key(experiment, cell) for cell in cells]
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    path = home / f"{experiment.name}.jsonl"  # of both versions: cells that they share are computed once
    done = read_finished(path)
    missing = [(key, cell) for key, cell in zip(keys, cells, strict=True) if key not in done]
    missing.sort(key=lambda pair: _repetition(pair[1]))
    for name in sorted({str(cell["data"]) for _, cell in missing if "data" in cell}):
        load(name)  # what is not at hand is said before anything is computed
    progress(len(cells) - len(missing), len(cells))
    with open(path, "ab", buffering=0) as file:
        for finished in _compute(experiment, missing, jobs):
            # One write, one line: whatever happens next, this cell is done.
            file.write(json.dumps(finished).encode() + b"\n")
            done[finished["key"]] = finished
            progress(sum(key in done for key in keys), len(cells))
            if time.monotonic() > end:
                break
        os.fsync(file.fileno())
    keys = _complete(keys, cells, done)
    rows = [row for key in keys for row in done[key]["rows"]]
    about = {
        "experiment": experiment.name,
        "version": version,
        "size": size,
        "seed": SEED,
        "spec": experiment.fingerprint(version, size),
        "versions": versions(),
    }
    (home / f"{experiment.name}.{version}.csv").write_text(to_csv(rows, about), encoding="utf-8")
    return Results(
        experiment=experiment,
        version=version,
        rows=rows,
        summary=summarise(rows, by=experiment.by, values=experiment.values),
        about=about,
        seconds=sum(done[key]["seconds"] for key in keys),
        cells=len(keys),
    )


def _repetition(cell: Cell) -> float:
    return float(cell.get("repetition", 0))


def _complete(keys: list[str], cells: list[Cell], done: Mapping[str, Any]) -> list[str]:
    """The keys of the repetitions that have every cell."""
    lacking = {_repetition(cell) for key, cell in zip(keys, cells, strict=True) if key not in done}
    found = [key for key, cell in zip(keys, cells, strict=True) if _repetition(cell) not in lacking]
    if not found:
        raise InvalidInput(
            f"Time was up after {sum(key in done for key in keys)} of {len(keys)} cells, before one "
            "repetition was complete, so there is nothing to report. The cells are kept: the same run goes "
            "on with them."
        )
    return found


def check_extra(experiment: Experiment) -> None:
    """Refuse an experiment whose extra is not installed before anything is computed."""
    if experiment.extra is not None and _installed(experiment.extra) is None:
        raise MissingExtra(f"The experiment {experiment.name}", experiment.extra)


def versions() -> dict[str, str]:
    """Of everything that decides the numbers."""
    return {
        "onedraw": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        **{name: found for name in OPTIONAL if (found := _installed(name)) is not None},
    }


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _key(experiment: Experiment, cell: Cell) -> str:
    content = {"experiment": experiment.name, "revision": experiment.revision, "cell": dict(cell)}
    return json.dumps(content, sort_keys=True)


def read_finished(path: Path) -> dict[str, dict[str, Any]]:
    """Finished cells by key. A last line that a kill cut short is removed from the file."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    if len(complete) < len(content):
        os.truncate(path, len(complete))
    lines = [json.loads(line) for line in complete.splitlines()]
    return {line["key"]: line for line in lines if line["onedraw"] == __version__}


def _compute(experiment: Experiment, missing: list[tuple[str, Cell]], jobs: int) -> Iterator[dict[str, Any]]:
    if not missing:
        return
    tasks = (joblib.delayed(compute_cell)(experiment.run, key, cell) for key, cell in missing)
    # In batches of one, handed back as they end: a finished cell never waits for others to be written.
    parallel = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
    )
    with contextlib.closing(parallel(tasks)) as finished:
        yield from finished


def compute_cell(compute: Callable[[Cell], list[Row]], key: str, cell: Cell) -> dict[str, Any]:
    """One cell, in a worker."""
    start = time.process_time()
    with threadpool_limits(limits=1):  # sums in one order, whatever the machine
        rows = [{**cell, **row} for row in compute(cell)]
    return {"key": key, "onedraw": __version__, "rows": rows, "seconds": time.process_time() - start}
