# SPDX-License-Identifier: Apache-2.0
"""A logistic fit of large tables: in memory, streamed from Parquet, on a Dask cluster; and the command.

Each measurement is a process of its own, so that its peak of memory is its own. Times are processor seconds,
which a busy machine changes little; those of the cluster are by the clock. Tables are simulated into a
temporary folder and deleted.

    scripts/bench scale                          20 million rows of 10 columns, printed
    scripts/bench scale --rows 100e6             more; 8.4 GB of disk for each 100 million rows
    scripts/bench scale --write                  ... and written to docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _table import machine, markdown, write_section

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
COLUMNS = 10
NAMES = [f"x{i}" for i in range(COLUMNS)]
CHUNK = 1_000_000


def simulate(path: Path, rows: int) -> None:
    """Uniform features and a logistic response, in row groups of half a million."""
    import pyarrow
    import pyarrow.parquet

    rng, truth, writer = np.random.default_rng(5), np.linspace(-1.5, 1.5, COLUMNS), None
    for first in range(0, rows, CHUNK):
        x = rng.uniform(-1.0, 1.0, (min(CHUNK, rows - first), COLUMNS))
        died = rng.random(len(x)) < 1.0 / (1.0 + np.exp(-(x @ truth + 0.3)))
        columns = {name: np.ascontiguousarray(x[:, i]) for i, name in enumerate(NAMES)}
        part = pyarrow.table({**columns, "died": died.astype(np.int8)})
        writer = writer or pyarrow.parquet.ParquetWriter(
            path, part.schema, compression="none", use_dictionary=False
        )
        writer.write_table(part, row_group_size=500_000)
    if writer is not None:
        writer.close()


def estimator() -> Any:
    import onedraw
    from onedraw.mechanisms import TiltedFit

    return onedraw.LogisticRegression(
        epsilon=1.0,
        classes=[0, 1],
        feature_bounds=(-1.0, 1.0),
        mechanism=TiltedFit(inference=True),
        random_state=3,
    )


# -- what one process measures


def memory(path: str) -> dict[str, Any]:
    """Load everything, then fit."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    x = np.column_stack([table.column(name).to_numpy() for name in NAMES])
    y = table.column("died").to_numpy()
    del table
    loaded = time.process_time()
    fitted = estimator().fit(x, y)
    return {"fit": time.process_time() - loaded, "draws": fitted.release_.draws}


def stream(path: str) -> dict[str, Any]:
    """Fit from Parquet, piece by piece."""
    return streamed(path, estimator(), "died")


def linear(path: str) -> dict[str, Any]:
    """A linear tilted fit with what intervals need, streamed; features have no declared bounds."""
    import onedraw

    return streamed(path, onedraw.LinearRegression(epsilon=1.0, random_state=3), NAMES[-1])


def counts(path: str) -> dict[str, Any]:
    """A Poisson tilted fit, likewise."""
    import onedraw

    return streamed(path, onedraw.PoissonRegressor(epsilon=1.0, random_state=3), "died")


def draw(path: str) -> dict[str, Any]:
    """One draw of the posterior, streamed."""
    return streamed(path, estimator().set_params(mechanism="one_posterior"), "died")


def streamed(path: str, model: Any, target: str) -> dict[str, Any]:
    """The fit of a model, and its passes."""
    import pyarrow.dataset

    from onedraw.tables.stream import Stream

    passes, plain = [0], Stream._blocks

    def counted(self: Any) -> Any:
        passes[0] += 1
        return plain(self)

    Stream._blocks = counted  # type: ignore[method-assign]
    fitted = model.fit(pyarrow.dataset.dataset(path), target=target)
    return {"scans": passes[0], "draws": fitted.release_.draws}


def arrow(path: str) -> dict[str, Any]:
    """What pyarrow takes to read the file."""
    import pyarrow.csv
    import pyarrow.parquet

    if path.endswith(".csv"):
        pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(use_threads=False))
    else:
        pyarrow.parquet.read_table(path, use_threads=False)
    return {}


def command_reads(path: str) -> dict[str, Any]:
    """What the command takes to read and encode the file into one block."""
    from onedraw.cli.table import open_table
    from onedraw.columns import Columns, Encoding
    from onedraw.estimators.large import Place

    declared = Columns(dict.fromkeys(NAMES, (-1.0, 1.0)), {"name": "died", "classes": [0, 1]})
    place = Place.of(open_table(path, declared), None, declared)
    made = estimator().set_params(columns=declared, classes=None, feature_bounds=None)
    plan = made.plan(place.header(public=True))
    place.read(type(made), Encoding.of(declared, place.names), plan.model, memory=1 << 40)
    return {}


def cluster(path: str) -> dict[str, Any]:
    """Passes of 64 log densities over blocks on two workers, and over one block on one thread."""
    import dask.dataframe
    import distributed
    import pyarrow.dataset

    from onedraw import design
    from onedraw.columns import Encoding
    from onedraw.design import Designing, InCache, Losses
    from onedraw.estimators import Header
    from onedraw.estimators.large import Place
    from onedraw.families import Bernoulli
    from onedraw.losses import BetaDivergence

    loss = BetaDivergence(Bernoulli())
    thetas = np.random.default_rng(0).normal(size=(64, 1, COLUMNS + 1))
    kernel = InCache(terms=Losses(loss=loss, beta=2.0, stacked=thetas, scale=None), columns=64)
    tiny = InCache(terms=Losses(loss=loss, beta=2.0, stacked=thetas[:1], scale=None), columns=1)
    made = estimator()
    plan = made.plan(Header(features=tuple(NAMES), num_records=CHUNK))

    def timed(table: Any, ask: Any) -> float:
        ready, times = table.map(Designing(loss=loss, fit_intercept=True)), []
        for _ in range(6):
            start = time.perf_counter()
            ready.sum(ask)
            times.append(time.perf_counter() - start)
        return min(times[1:])

    def read(frame: Any) -> Any:
        place = Place.of(frame, "died", None)
        return place.read(type(made), Encoding.of(place.columns, place.names), plan.model, memory=1 << 40)

    design.PARALLEL_CELLS = 1 << 62  # one thread
    found: dict[str, Any] = {"one": timed(read(pyarrow.dataset.dataset(path)), kernel)}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local),
    ):
        frame = dask.dataframe.read_parquet(path, split_row_groups=2)
        found["two"] = timed(read(frame), kernel)
        found["tiny"] = timed(read(frame.partitions[:2].map_partitions(lambda part: part[:100])), tiny)
    return found


MEASURES = {f.__name__: f for f in (memory, stream, linear, counts, draw, arrow, command_reads, cluster)}


STREAMED = {
    "stream": "from Parquet",
    "linear": "a linear model, no bounds",
    "counts": "counts, no bounds",
    "draw": "a draw of the posterior",
}


def measured(name: str, path: Path) -> dict[str, Any]:
    """The measurement in a fresh process: processor seconds, peak of memory in GB, and what it returns."""
    found = subprocess.run(
        [sys.executable, __file__, "--measure", name, str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(found.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def report(rows: int, folder: Path) -> str:
    """The table of one run."""
    whole = folder / "table.parquet"
    simulate(whole, rows)
    held = measured("memory", whole)
    lines = [["in memory: load and fit", f"{held['cpu']:.1f} s", f"{held['peak']:.2f} GB", "1"]]
    apart = 0.0
    for name, words in STREAMED.items():
        found = measured(name, whole)
        if name == "stream":
            apart = float(np.abs(np.subtract(held["draws"], found["draws"])).max())
        line = [f"{words}, {found['scans']} passes", f"{found['cpu']:.1f} s", f"{found['peak']:.2f} GB"]
        lines.append([*line, f"{found['cpu'] / held['cpu']:.2f}"])
    part = folder / "part.parquet"
    simulate(part, min(rows, 5_000_000))
    for path in (part, _csv(part)):
        plain, read = measured("arrow", path), measured("command_reads", path)
        kind = path.suffix[1:]
        lines.append([f"pyarrow reads {kind}", f"{plain['cpu']:.1f} s", f"{plain['peak']:.2f} GB", "1"])
        ratio = f"{read['cpu'] / plain['cpu']:.2f}"
        lines.append(
            [f"the command reads and encodes {kind}", f"{read['cpu']:.1f} s", f"{read['peak']:.2f} GB", ratio]
        )
    spread = measured("cluster", part)
    lines.append(["a pass of 64 parameters, one thread", f"{spread['one']:.2f} s (clock)", "", "1"])
    ratio = f"{spread['two'] / spread['one']:.2f}"
    lines.append(["the same on two Dask workers", f"{spread['two']:.2f} s (clock)", "", ratio])
    lines.append(["a pass over 200 rows there", f"{1000 * spread['tiny']:.0f} ms (clock)", "", ""])
    header = ["", "time", "peak", "ratio"]
    below = f"{min(rows, 5_000_000):,} where pyarrow and Dask are compared"
    note = f"{rows:,} rows of {COLUMNS} columns ({below}), {machine()}; "
    return f"{markdown(header, lines)}\n\n{note}the first two releases differ by {apart:.1e}."


def _csv(path: Path) -> Path:
    import pyarrow.csv
    import pyarrow.parquet

    out = path.with_suffix(".csv")
    pyarrow.csv.write_csv(pyarrow.parquet.read_table(path), out)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=20_000_000)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        start = time.process_time()
        found = MEASURES[given.measure[0]](given.measure[1])
        found["cpu"] = time.process_time() - start
        found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = report(given.rows, Path(folder))
    print(text)
    if given.write:
        write_section(PAGE, "scale", text)


if __name__ == "__main__":
    main()
