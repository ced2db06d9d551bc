# SPDX-License-Identifier: Apache-2.0
"""What ``scale.py`` measures, each in a process of its own: `python _large_fits.py NAME PATH` prints JSON.

Processor seconds are those of all threads of the process, from after its imports on; the peak of memory is
the largest resident size that the operating system has seen.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 10
NAMES = [f"x{i}" for i in range(COLUMNS)]
CHUNK = 1_000_000
GROUP = 500_000
Found = dict[str, Any]


def simulate(path: Path, rows: int) -> None:
    """Uniform features and a logistic response, in row groups of half a million."""
    import pyarrow
    import pyarrow.parquet

    rng, truth, writer = np.random.default_rng(5), np.linspace(-1.5, 1.5, COLUMNS), None
    unfinished = path.with_suffix(".part")
    for first in range(0, rows, CHUNK):
        x = rng.uniform(-1.0, 1.0, (min(CHUNK, rows - first), COLUMNS))
        died = rng.random(len(x)) < 1.0 / (1.0 + np.exp(-(x @ truth + 0.3)))
        columns = {name: np.ascontiguousarray(x[:, i]) for i, name in enumerate(NAMES)}
        part = pyarrow.table({**columns, "died": died.astype(np.int8)})
        writer = writer or pyarrow.parquet.ParquetWriter(
            unfinished, part.schema, compression="none", use_dictionary=False
        )
        writer.write_table(part, row_group_size=GROUP)
    if writer is not None:
        writer.close()
    unfinished.rename(path)


def as_csv(path: Path) -> Path:
    """The same table as text, beside it."""
    import pyarrow.csv
    import pyarrow.parquet

    out = path.with_suffix(".csv")
    if not out.exists():
        pyarrow.csv.write_csv(pyarrow.parquet.read_table(path), out.with_suffix(".part"))
        out.with_suffix(".part").rename(out)
    return out


def estimator() -> Any:
    """A default logistic fit of a long table: with its curvature, from which intervals follow."""
    import onedraw
    from onedraw.mechanisms import TiltedFit

    return onedraw.LogisticRegression(
        epsilon=1.0,
        classes=[0, 1],
        feature_bounds=(-1.0, 1.0),
        mechanism=TiltedFit(inference=True),
        random_state=3,
    )


def arrays(path: str) -> tuple[Any, Any]:
    """The table in memory, row group by row group: no other way of loading it was quicker or smaller."""
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    x, y = np.empty((file.metadata.num_rows, COLUMNS)), np.empty(file.metadata.num_rows, dtype=np.int8)
    first = 0
    for batch in file.iter_batches(batch_size=1 << 16, use_threads=False):
        last = first + batch.num_rows
        x[first:last] = np.column_stack([batch.column(name).to_numpy() for name in NAMES])
        y[first:last] = batch.column("died").to_numpy()
        first = last
    return x, y


# -- fits


def memory(path: str) -> Found:
    """Load everything, then fit."""
    x, y = arrays(path)
    loaded = time.process_time()
    fitted = estimator().fit(x, y)
    return {"fit": time.process_time() - loaded, "draws": fitted.release_.draws}


def again(path: str) -> Found:
    """The fit in memory, and a pass of 64 log densities on one thread, at their best of five.

    It also runs on the library of before there were tables.
    """
    from onedraw import posterior
    from onedraw.families import Bernoulli
    from onedraw.losses import BetaDivergence
    from onedraw.priors import Prior

    x, y = arrays(path)
    thetas = np.random.default_rng(0).normal(size=(64, COLUMNS + 1))
    known: dict[str, Any] = {"loss": BetaDivergence(Bernoulli()), "beta": 2.0, "weight": 0.5}
    held = posterior.Posterior(**known, prior=Prior(scale=3.0), features=x, response=y.astype(float))
    return {
        "fit": _best(lambda: estimator().fit(x, y)),
        "pass": _best(lambda: held.log_density(thetas)),
    }


def _best(work: Callable[[], Any], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def stream(path: str) -> Found:
    """Fit from Parquet, piece by piece."""
    return _streamed(path, estimator(), "died")


def linear(path: str) -> Found:
    """A linear tilted fit with what intervals need, streamed; features have no declared bounds."""
    import onedraw

    return _streamed(path, onedraw.LinearRegression(epsilon=1.0, random_state=3), NAMES[-1])


def counts(path: str) -> Found:
    """A Poisson tilted fit, likewise."""
    import onedraw

    return _streamed(path, onedraw.PoissonRegressor(epsilon=1.0, random_state=3), "died")


def draw(path: str) -> Found:
    """One draw of the posterior, streamed."""
    return _streamed(path, estimator().set_params(mechanism="one_posterior"), "died")


def _streamed(path: str, model: Any, target: str) -> Found:
    """The fit of a model, and its passes."""
    import pyarrow.dataset

    from onedraw.tables.stream import Stream

    passes, plain = [0], Stream._blocks

    def counted(self: Any) -> Any:
        passes[0] += 1
        return plain(self)

    Stream._blocks = counted  # type: ignore[method-assign]
    start = time.perf_counter()
    fitted = model.fit(pyarrow.dataset.dataset(path), target=target)
    clock = time.perf_counter() - start
    return {"scans": passes[0], "draws": fitted.release_.draws, "clock": clock}


# -- the command


def arrow(path: str) -> Found:
    """What pyarrow takes to read the file."""
    import pyarrow.csv
    import pyarrow.parquet

    if path.endswith(".csv"):
        pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(use_threads=False))
    else:
        pyarrow.parquet.read_table(path, use_threads=False)
    return {}


def block(path: str) -> Found:
    """What the command takes to read and encode the file into one block, given the memory."""
    _read(path, 1 << 40)
    return {}


def pieces(path: str) -> Found:
    """What it takes piece by piece, as it does by default: read, encode, verify and look."""
    _read(path, 0).check(lambda block: None, np.random.default_rng(0))
    return {}


def _read(path: str, bytes_of_memory: int) -> Any:
    from onedraw.cli.table import open_table
    from onedraw.columns import Columns, Encoding
    from onedraw.estimators.large import Place

    declared = Columns(dict.fromkeys(NAMES, (-1.0, 1.0)), {"name": "died", "classes": [0, 1]})
    place = Place.of(open_table(path, declared), None, declared)
    made = estimator().set_params(columns=declared, classes=None, feature_bounds=None)
    plan = made.plan(place.header(public=True))
    return place.read(type(made), Encoding.of(declared, place.names), plan.model, memory=bytes_of_memory)


def command(path: str) -> Found:
    """The whole command with its default memory: `onedraw fit`."""
    from onedraw.cli import main

    out = Path(path).with_suffix(".release.json")
    declared = out.with_suffix(".toml")
    bounds = "".join(f"[columns.{name}]\nbounds = [-1, 1]\n" for name in NAMES)
    declared.write_text(bounds + "[target]\nclasses = [0, 1]\n")
    out.unlink(missing_ok=True)
    asked = f"fit {path} --target died --model logistic --epsilon 1 --seed 3 --columns {declared} --out {out}"
    with contextlib.suppress(SystemExit):
        main(asked.split())
    return {"draws": json.loads(out.read_text())["draws"]}


# -- the cluster


def cluster(path: str) -> Found:
    """Passes over blocks on two workers and over one block on one thread, in turn; and a fit there.

    By the clock, and in processor seconds: of this process, and of the workers. Workers have their matrix
    products on one thread, so this process has them so too. The first round, in which both prepare their
    blocks, is left out.
    """
    import dask.dataframe
    import distributed
    import pyarrow.dataset
    from threadpoolctl import threadpool_limits

    from onedraw.columns import Encoding
    from onedraw.design import Designing, InCache, Losses
    from onedraw.estimators import Header
    from onedraw.estimators.large import Place
    from onedraw.families import Bernoulli
    from onedraw.losses import BetaDivergence
    from onedraw.tables.base import one_thread

    loss = BetaDivergence(Bernoulli())
    thetas = np.random.default_rng(0).normal(size=(64, 1, COLUMNS + 1))
    many = InCache(terms=Losses(loss=loss, beta=2.0, stacked=thetas, scale=None), columns=64)
    single = InCache(terms=Losses(loss=loss, beta=2.0, stacked=thetas[:1], scale=None), columns=1)
    made = estimator()
    plan = made.plan(Header(features=tuple(NAMES), num_records=CHUNK))

    def read(frame: Any) -> Any:
        place = Place.of(frame, "died", None)
        table = place.read(type(made), Encoding.of(place.columns, place.names), plan.model, memory=1 << 40)
        return table.map(Designing(loss=loss, fit_intercept=True))

    def clocked(table: Any, kernel: Any) -> float:
        start = time.perf_counter()
        table.sum(kernel)
        return time.perf_counter() - start

    here = read(pyarrow.dataset.dataset(path))
    local = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)

    def measured() -> tuple[float, ...]:
        """Seconds of a pass here, there and over little; processor seconds of the first two."""
        before = time.process_time()
        one, own = clocked(here, many), time.process_time() - before
        before = sum(client.run(time.process_time).values())
        two, workers = clocked(there, many), sum(client.run(time.process_time).values()) - before
        return one, two, clocked(tiny, single), own, workers

    with local, distributed.Client(local) as client, one_thread(), threadpool_limits(1):
        frame = dask.dataframe.read_parquet(path, split_row_groups=2)
        there = read(frame)
        tiny = read(frame.partitions[:2].map_partitions(lambda part: part[:100]))
        rounds = [measured() for _ in range(9)]
        found = estimator().fit(frame, target="died").release_.draws
    names = ("one", "two", "tiny", "one_cpu", "two_cpu")
    return {**dict(zip(names, np.array(rounds[1:]).T.tolist(), strict=True)), "draws": found}


MEASURES: dict[str, Callable[[str], Found]] = {
    f.__name__: f
    for f in (memory, again, stream, linear, counts, draw, arrow, block, pieces, command, cluster)
}


def peak() -> float:
    """The largest resident size so far, in GB."""
    status = Path("/proc/self/status")
    if status.exists():  # ``ru_maxrss`` of a child begins with what its parent had
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    import onedraw.estimators  # noqa: F401  what is measured is work, not imports

    start = time.process_time()
    result = MEASURES[sys.argv[1]](sys.argv[2])
    result["cpu"] = time.process_time() - start
    result["peak"] = peak()
    print(json.dumps(result))
