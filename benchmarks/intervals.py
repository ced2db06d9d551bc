# SPDX-License-Identifier: Apache-2.0
"""Coverage, width and share of intervals from a tilted fit and its noisy curvature, release by release.

Every release is made by the estimators as a user would make it, under pure epsilon and replace-one, with
``TiltedFit(inference=True)``; everything else is the package's default. One line for every batch of releases
is appended to a file (``_batches``), so a run can be stopped and resumed, by several processes with cells of
their own; the tables are made from the file. That of the study is kept beside this one.

    python benchmarks/intervals.py --grid study --repeats 500 --models poisson
    python benchmarks/intervals.py --grid study --table           # or --write, into the page

Rules frozen before the run: the priors, the sampler's schedule, the budget shares and the refusals are
constants of the package; this file sets none of them. The designs (``_interval_designs``) and the grid below
are the other half. Reported are all releases of the file.

Laws of the features: uniform on [-1, 1]; normal, pairwise correlation 0.5, AR 0.7 and t with 3 degrees
("heavy"), without declared bounds; dummies of +-1 with probabilities uniform on (0.1, 0.9); "rare" is uniform
with about 5% of outcomes. Linear regressions have normal errors, under "heavy" t with 3 degrees. The grid
"settings" has those of ``_interval_designs`` (private number of rows, two rows a person, robust errors), the
grid "categories" a declared column of 3 to 20 categories (``_category_designs``), the grid "tables" the
features of public tables (``_public_tables``). The grid "aligned" has these and some of the study, with
``TiltedFit(inference=True, align=True)``.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import _batches
import numpy as np
from _batches import Batch, Together, by_cell, design_effect
from _interval_designs import BOUNDED, LAWS, MODELS, Cell, Table, simulate
from _public_tables import OPEN, TABLES
from _table import markdown, write_section

import onedraw
from onedraw.errors import InvalidInput
from onedraw.inference import infer_many
from onedraw.mechanisms import TiltedFit
from onedraw.release import Release
from onedraw.uncertainty import categories
from onedraw.uncertainty.from_curvature import original_units
from onedraw.uncertainty.readings import READINGS
from onedraw.uncertainty.released import released_of

SIZES = {
    "smoke": ((2000, 2, 1.0),),
    "study": (
        (1000, 2, 1.0),
        (3000, 5, 3.0),
        (10_000, 5, 0.3),
        (10_000, 5, 1.0),
        (10_000, 10, 1.0),
        (10_000, 20, 3.0),
        (100_000, 10, 1.0),
    ),
}
CATEGORIES = (
    *((8, 1, 10_000), (12, 3, 30_000), (5, 3, 10_000), (20, 1, 30_000)),
    *((3, 1, 10_000), (12, 0, 30_000), (8, 3, 30_000), (20, 3, 30_000)),
    *((5, 1, 10_000), (12, 1, 10_000), (8, 0, 10_000)),
)
"""Categories, numeric columns and records, at epsilon 1, of the grid "categories"."""
WITH_CATEGORIES = ("logistic", "linear", "poisson")
WITHOUT_RANGES = ("adult", "bank", "wine", "abalone")
FEWER = ((1000, 2, 1.0), (10_000, 5, 1.0), (10_000, 10, 1.0))
"""The sizes at which laws other than uniform and pairwise are studied."""
STUDIED = ("logistic", "linear", "poisson", "softmax")
OPTIONS = {"private": {"neighbours": "add_remove"}, "clustered": {"rows_per_person": 2}}
ROBUST = ("spreading",)
"""The settings with robust errors; overdispersed counts had them once, and are refused them since."""
PAGE = Path(__file__).resolve().parents[1] / "docs" / "uncertainty.md"
ALIGNED = "aligned"
KEPT = {name: name for name in ("categories", "tables", "settings", ALIGNED)} | {"study": "intervals"}
"""The grids that are kept, and the sections of the page: their files stand beside this one."""
AIM = (0.93, 0.98)


def cells(grid: str) -> list[Cell]:
    """The designs of a grid; of "categories" the laws by turns, each with three models."""
    if grid == "tables":
        return _table_cells()
    if grid == "settings":
        return _setting_cells()
    if grid == ALIGNED:
        return _table_cells() + _simulated_cells()
    if grid != "categories":
        return _plain_cells(grid)
    laws = ("uneven", "equal", "rare")
    sizes = ((5, 10_000), (8, 30_000))
    several = [Cell(model, f"two{k}", n, 1, 1.0) for k, n in sizes for model in WITH_CATEGORIES]
    return several + [
        Cell(model, f"{laws[(k + turn) % 3]}{levels}", n, d, 1.0)
        for turn in range(3)
        for k, (levels, d, n) in enumerate(CATEGORIES)
        for model in WITH_CATEGORIES
    ]


def _table_cells() -> list[Cell]:
    """All tables with declared ranges, 10,000 and 100,000 records; some without, 100,000 records."""
    sizes = (10_000, 100_000)
    wanted = [Cell(m, law, n, d, 1.0) for n in sizes for law, d in TABLES.items() for m in STUDIED]
    return wanted + [
        Cell(model, law + OPEN, 100_000, TABLES[law], 1.0)
        for law in WITHOUT_RANGES
        for model in ("logistic", "linear")
    ]


def _simulated_cells() -> list[Cell]:
    """What an alignment costs where columns have nothing to do with one another, and gains elsewhere."""
    sizes = ((10_000, 5, 1.0), (10_000, 10, 1.0), (100_000, 10, 1.0))
    laws = ("uniform", "normal", "dummies", "heavy", "ar")
    return [Cell(m, law, *size) for size in sizes for law in laws for m in ("logistic", "linear")]


def _setting_cells() -> list[Cell]:
    """A private number of rows, two rows a person, robust errors, the patients of the README."""
    both = [Cell(m, law, 10_000, 5, 1.0) for law in ("private", "clustered") for m in ("logistic", "linear")]
    return [*both, Cell("linear", "spreading", 10_000, 5, 1.0), Cell("linear", "patients", 442, 3, 6.0)]


def _plain_cells(grid: str) -> list[Cell]:
    """First the sizes that all laws have, so that a run cut short has looked at all of them."""
    common = [sizes for sizes in SIZES[grid] if grid != "study" or sizes in FEWER]
    wanted = [(law, sizes) for sizes in common for law in LAWS]
    wanted += [
        (law, sizes) for sizes in SIZES[grid] if sizes not in common for law in ("uniform", "pairwise")
    ]
    return [
        Cell(model, law, *sizes)
        for law, sizes in wanted
        for model in STUDIED
        if law != "rare" or model in ("logistic", "poisson")
    ]


def release(cell: Cell, table: Table, seed: int, *, align: bool = False) -> Release:
    kinds = {
        "logistic": (onedraw.LogisticRegression, {"classes": [0, 1]}),
        "softmax": (onedraw.LogisticRegression, {"classes": [0, 1, 2]}),
        "linear": (onedraw.LinearRegression, {}),
        "poisson": (onedraw.PoissonRegressor, {}),
    }
    kind, options = kinds[cell.model]
    bounds = [(-1.0, 1.0)] * cell.d if cell.law in BOUNDED else None
    mechanism = TiltedFit(inference="robust" if cell.law in ROBUST else True, align=align)
    options |= OPTIONS.get(cell.law, {})
    x = table.x
    if cell.categories is None:
        options["feature_bounds"] = bounds
    else:
        options["columns"], x = cell.categories.columns(cell.d), cell.categories.frame(table.x)
    fitted = kind(epsilon=cell.epsilon, mechanism=mechanism, random_state=seed, **options)
    return fitted.fit(x, table.y).release_


@contextmanager
def described() -> Iterator[None]:
    """Whatever the package thinks of them, categories are described by cells: that is studied."""
    before, categories.STUDIED = categories.STUDIED, tuple(READINGS)
    try:
        yield
    finally:
        categories.STUDIED = before


def run(cell: Cell, seed: int, repeats: range, *, align: bool = False) -> list[dict[str, object]]:
    """One record for each release."""
    with described():
        return _run(cell, seed, repeats, align)


def _run(cell: Cell, seed: int, repeats: range, align: bool) -> list[dict[str, object]]:
    groups, records = defaultdict(list), []
    for k in repeats:
        rng = np.random.default_rng(cell.stream(seed, k))
        table = simulate(cell, rng)
        made = release(cell, table, int(rng.integers(2**31)), align=align)
        record = {"cell": cell.name, "seed": seed, "repeat": k, "given": False}
        raw = np.concatenate([made.estimate.coef.ravel(), made.estimate.intercept.ravel()])
        record["raw"] = float(np.mean(((raw - table.truth) / table.error) ** 2))
        record["plain"] = float(np.mean(((table.plain - table.truth) / table.error) ** 2))
        records.append(record)
        try:
            read = released_of(made)
        except InvalidInput:  # rows that may have been weighted away
            continue
        groups[read.dim, read.count_sd].append((record, table, made, read))
    for group in groups.values():
        for (record, table, made, _), found in zip(group, infer_many([g[3] for g in group]), strict=True):
            record |= judged(table, made, found)
    return records


def judged(table: Table, made: Release, found: object) -> dict[str, object]:
    """What an inference got right, whether it would have been given or not."""
    seen = original_units(made, found)
    result = seen.intervals(0.95)
    low, high = np.array(result.low), np.array(result.high)
    width = float(np.mean((high - low) / (2 * 1.96 * table.error)))
    features = [n for n in seen.names if not n.startswith("(intercept)")]
    if table.truth.size > len(seen.names) or len(features) > table.x.shape[1]:
        features = features[: 2 * table.x.shape[1]]  # the coefficients of the last class follow
    values = table.truth[: len(features)]
    total = dict.fromkeys(features, 1.0)
    return {
        "given": found.reason is None,
        "covered": [bool(v) for v in (low <= table.truth) & (table.truth <= high)],
        "width": width,
        "inflation": float(found.inflation.max()),
        "reason": found.reason,
        "estimate": float(np.mean(((np.array(result.estimate) - table.truth) / table.error) ** 2)),
        "joint": seen.wald_test(features, values).p_value,
        "sum": seen.wald_test([total], values.sum()).p_value,
    }


def rate(cell: str) -> float:
    """n epsilon over the number of parameters."""
    model, law, n, d, epsilon = cell.split()
    return int(n) * float(epsilon) / Cell(model, law, int(n), int(d), float(epsilon)).parameters


def table(batches: list[Batch]) -> str:
    """One line a cell; "low" and "high" mark a coverage that is outside the aim by more than chance."""
    effect, lines = design_effect(batches), []
    for name, mine in by_cell(batches).items():
        line = [*name.split(), f"{rate(name):.0f}", str(mine.releases), f"{mine.given / mine.releases:.2f}"]
        if mine.given:
            value, low, high = mine.coverage(effect)
            outside = "low" if high < AIM[0] else "high" if low > AIM[1] else ""
            line += [
                f"{value:.3f}",
                f"({low:.3f}, {high:.3f}) {outside}".rstrip(),
                f"{mine.width:.2f}",
                *(f"{mine.size(test)[0]:.3f}" for test in ("joint", "sum")),
                *(f"{mine.error(name):.2f}" for name in ("estimate", "raw")),
            ]
        lines.append(line + ["-"] * (15 - len(line)))
    header = ["model", "law", "n", "features", "epsilon", "n eps/p", "releases", "given", "coverage"]
    return markdown([*header, "95% of it", "width", "joint", "sum", "estimate", "released"], lines)


def pooled(batches: list[Batch]) -> str:
    """By model: cells within the aim, pooled coverage, sizes of tests, cells given above n eps = 1,000 p."""
    effect, lines = design_effect(batches), []
    models = [m for m in MODELS if any(b.cell.startswith(m) for b in batches)]
    for model in [*models, "all"]:
        mine = [b for b in batches if model == "all" or b.cell.startswith(model)]
        cells, total = by_cell(mine), Together(mine)
        found = [cell.coverage(effect) for cell in cells.values() if cell.given]
        rich = [cell for name, cell in cells.items() if rate(name) >= 1000]
        often = sum(cell.given >= 0.5 * cell.releases for cell in rich)
        line = [model, str(len(cells)), str(total.releases), str(total.given)]
        if total.given:
            line += [
                "{:.3f} ({:.3f}, {:.3f})".format(*total.coverage(effect)),
                f"{sum(AIM[0] <= v[0] <= AIM[1] for v in found)} of {len(found)}",
                f"{sum(v[2] < AIM[0] for v in found)}, {sum(v[1] > AIM[1] for v in found)}",
                f"{often} of {len(rich)}",
                *("{:.3f} ({:.3f}, {:.3f})".format(*total.size(test)) for test in ("joint", "sum")),
            ]
        lines.append(line + ["-"] * (10 - len(line)))
    header = ["model", "cells", "releases", "given", "coverage", "cells in [.93, .98]"]
    header += ["below, above by more than chance", "given where n eps >= 1000 p", "joint test"]
    note = (
        "Intervals of one release share its noise: in the Clopper-Pearson intervals of coverage their number "
        f"counts as if it were {effect:.2f} times smaller."
    )
    return f"{markdown([*header, 'test of a sum'], lines)}\n\n{note}"


def kept(path: Path, wanted: list[Cell]) -> list[Batch]:
    """The batches of a file, cells in the order of the grid."""
    found, order = _batches.read(path), [cell.name for cell in wanted]
    last = len(order)
    return sorted(found, key=lambda b: (order.index(b.cell) if b.cell in order else last, b.first))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", choices=("smoke", *KEPT), default="smoke")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument("--cell", nargs="*", help="cells by name instead: 'linear ar 3000 10 1'")
    parser.add_argument("--repeats", type=int, default=_batches.SIZE)
    parser.add_argument("--seed", type=int, default=1, help="rules were chosen with releases of 0 and 7")
    parser.add_argument("--out", type=Path, help="smoke.csv, or what is kept of the grid beside this script")
    parser.add_argument("--table", action="store_true", help="print the tables of the file and stop")
    parser.add_argument("--write", action="store_true", help="write the tables of the file into the page")
    arguments = parser.parse_args()
    whole = cells(arguments.grid)
    section = KEPT.get(arguments.grid)
    path = arguments.out or (Path(__file__).with_name(f"{section}.csv") if section else Path("smoke.csv"))
    if not (arguments.table or arguments.write):
        wanted = [cell for cell in whole if cell.model in arguments.models]
        if arguments.cell:
            words = [name.split() for name in arguments.cell]
            wanted = [Cell(model, law, int(n), int(d), float(epsilon)) for model, law, n, d, epsilon in words]
        done, align = _batches.done(_batches.read(path)), arguments.grid == ALIGNED
        for first in range(0, arguments.repeats, _batches.SIZE):
            for cell in wanted:
                repeats = range(first, min(first + _batches.SIZE, arguments.repeats))
                if (cell.name, arguments.seed, repeats[-1]) not in done:
                    _batches.append(path, Batch.of(run(cell, arguments.seed, repeats, align=align)))
    batches = kept(path, whole)
    print(pooled(batches), table(batches), sep="\n\n")
    if arguments.write and section:
        write_section(PAGE, f"{section}-pooled", pooled(batches))
        write_section(PAGE, section, table(batches))


if __name__ == "__main__":
    main()
