# SPDX-License-Identifier: Apache-2.0
"""Coverage, width and share of intervals from a tilted fit and its noisy curvature, release by release.

Every release is made by the estimators as a user would make it, under pure epsilon and replace-one, with
``TiltedFit(inference=True)``; everything else is the package's default. One line of JSON per release is
appended to a file, so a run can be stopped and resumed; the tables are made from the file.

    python benchmarks/intervals.py --grid study --repeats 500 --out intervals.jsonl
    python benchmarks/intervals.py --out intervals.jsonl --table           # or --write, into the page

Rules frozen before the run: the priors, the sampler's schedule, the budget shares and the refusals are
constants of the package; this file sets none of them. The designs (``_interval_designs``) and the grid below
are the other half. Reported are all releases of the file.

Laws of the features: uniform on [-1, 1]; normal, pairwise correlation 0.5, AR 0.7 and t with 3 degrees
("heavy"), without declared bounds; dummies of +-1 with probabilities uniform on (0.1, 0.9); "rare" is uniform
with about 5% of outcomes. Linear regressions have normal errors, under "heavy" t with 3 degrees. The settings
of ``_interval_designs`` (private number of rows, two rows a person, robust errors) are cells by name. The
grid "categories" has a declared column of 3 to 20 categories (``_category_designs``).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from _interval_designs import BOUNDED, LAWS, MODELS, Cell, Table, simulate
from _table import markdown, write_section
from scipy import stats

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
FEWER = ((1000, 2, 1.0), (10_000, 5, 1.0), (10_000, 10, 1.0))
"""The sizes at which laws other than uniform and pairwise are studied."""
STUDIED = ("logistic", "linear", "poisson", "softmax")
OPTIONS = {"private": {"neighbours": "add_remove"}, "clustered": {"rows_per_person": 2}}
ROBUST = ("spreading",)
"""The settings with robust errors; overdispersed counts had them once, and are refused them since."""
BATCH = 20
PAGE = Path(__file__).resolve().parents[1] / "docs" / "uncertainty.md"
AIM = (0.93, 0.98)


def cells(grid: str) -> list[Cell]:
    """The designs of a grid; of "categories" the laws by turns, each with three models."""
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


def release(cell: Cell, table: Table, seed: int) -> Release:
    kinds = {
        "logistic": (onedraw.LogisticRegression, {"classes": [0, 1]}),
        "softmax": (onedraw.LogisticRegression, {"classes": [0, 1, 2]}),
        "linear": (onedraw.LinearRegression, {}),
        "poisson": (onedraw.PoissonRegressor, {}),
    }
    kind, options = kinds[cell.model]
    bounds = [(-1.0, 1.0)] * cell.d if cell.law in BOUNDED else None
    mechanism = TiltedFit(inference="robust" if cell.law in ROBUST else True)
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


def run(cell: Cell, seed: int, repeats: range) -> list[dict[str, object]]:
    """One record for each release."""
    with described():
        return _run(cell, seed, repeats)


def _run(cell: Cell, seed: int, repeats: range) -> list[dict[str, object]]:
    groups, records = defaultdict(list), []
    for k in repeats:
        rng = np.random.default_rng(cell.stream(seed, k))
        table = simulate(cell, rng)
        made = release(cell, table, int(rng.integers(2**31)))
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


def clopper_pearson(hits: float, size: float) -> tuple[float, float]:
    """The exact 95% interval of a proportion; sizes need not be whole."""
    low = stats.beta.ppf(0.025, hits, size - hits + 1.0) if hits > 0.0 else 0.0
    high = stats.beta.ppf(0.975, hits + 1.0, size - hits) if hits < size else 1.0
    return float(low), float(high)


def design_effect(given: list[dict]) -> float:
    """How many times more the shares of releases vary about those of their cells than if every interval were
    a trial of its own: intervals of one release share its noise. At least 1; all cells together."""
    spread = expected = 0.0
    for rs in by_cell(given).values():
        if len(rs) > 1:
            shares = np.array([np.mean(r["covered"]) for r in rs])
            mean, size = shares.mean(), len(rs[0]["covered"])
            spread += float(((shares - mean) ** 2).sum())
            expected += (len(rs) - 1) * mean * (1.0 - mean) / size
    return max(1.0, spread / expected) if expected > 0.0 else 1.0


def by_cell(records: list[dict]) -> dict[str, list[dict]]:
    found = defaultdict(list)
    for r in records:
        found[r["cell"]].append(r)
    return dict(found)


def coverage(given: list[dict], effect: float) -> tuple[float, float, float]:
    """The share of intervals that held the truth, and its Clopper-Pearson interval at the effective size."""
    held = [v for r in given for v in r["covered"]]
    size = len(held) / effect
    return (float(np.mean(held)), *clopper_pearson(float(np.mean(held)) * size, size))


def size_of(given: list[dict], test: str) -> str:
    low, high = clopper_pearson(sum(r[test] < 0.05 for r in given), len(given))
    return f"{np.mean([r[test] < 0.05 for r in given]):.3f} ({low:.3f}, {high:.3f})"


def table(records: list[dict]) -> str:
    """One line a cell; "low" and "high" mark a coverage that is outside the aim by more than chance."""
    effect, lines = design_effect([r for r in records if r["given"]]), []
    for name, mine in by_cell(records).items():
        given = [r for r in mine if r["given"]]
        line = [*name.split(), f"{rate(name):.0f}", str(len(mine)), f"{len(given) / len(mine):.2f}"]
        if given:
            value, low, high = coverage(given, effect)
            outside = "low" if high < AIM[0] else "high" if low > AIM[1] else ""
            plain = np.sqrt(np.mean([r["plain"] for r in given]))
            line += [
                f"{value:.3f}",
                f"({low:.3f}, {high:.3f}) {outside}".rstrip(),
                f"{np.median([r['width'] for r in given]):.2f}",
                f"{np.mean([r['joint'] < 0.05 for r in given]):.3f}",
                f"{np.mean([r['sum'] < 0.05 for r in given]):.3f}",
                *(f"{np.sqrt(np.mean([r[k] for r in given])) / plain:.2f}" for k in ("estimate", "raw")),
            ]
        lines.append(line + ["-"] * (15 - len(line)))
    header = ["model", "law", "n", "features", "epsilon", "n eps/p", "releases", "given", "coverage"]
    return markdown([*header, "95% of it", "width", "joint", "sum", "estimate", "released"], lines)


def pooled(records: list[dict]) -> str:
    """By model: cells within the aim, pooled coverage, sizes of tests, cells given above n eps = 1,000 p."""
    effect, lines = design_effect([r for r in records if r["given"]]), []
    models = [m for m in MODELS if any(r["cell"].startswith(m) for r in records)]
    for model in [*models, "all"]:
        cells = by_cell([r for r in records if model == "all" or r["cell"].startswith(model)])
        held = {c: [r for r in rs if r["given"]] for c, rs in cells.items()}
        given = [r for rs in held.values() for r in rs]
        found = {c: coverage(rs, effect) for c, rs in held.items() if rs}
        rich = [c for c in cells if rate(c) >= 1000]
        often = sum(len(held[c]) >= 0.5 * len(cells[c]) for c in rich)
        line = [model, str(len(cells)), str(sum(map(len, cells.values()))), str(len(given))]
        if given:
            value, low, high = coverage(given, effect)
            line += [
                f"{value:.3f} ({low:.3f}, {high:.3f})",
                f"{sum(AIM[0] <= v[0] <= AIM[1] for v in found.values())} of {len(found)}",
                f"{sum(v[2] < AIM[0] for v in found.values())}, {sum(v[1] > AIM[1] for v in found.values())}",
                f"{often} of {len(rich)}",
                size_of(given, "joint"),
                size_of(given, "sum"),
            ]
        lines.append(line + ["-"] * (10 - len(line)))
    header = ["model", "cells", "releases", "given", "coverage", "cells in [.93, .98]"]
    header += ["below, above by more than chance", "given where n eps >= 1000 p", "joint test"]
    note = (
        "Intervals of one release share its noise: in the Clopper-Pearson intervals of coverage their number "
        f"counts as if it were {effect:.2f} times smaller."
    )
    return f"{markdown([*header, 'test of a sum'], lines)}\n\n{note}"


def read(path: Path) -> list[dict]:
    """The records of a file, each once: a run that was cut short may have been repeated."""
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return list({(r["cell"], r["seed"], r["repeat"]): r for r in found}.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", choices=(*SIZES, "categories"), default="smoke")
    parser.add_argument("--cell", nargs="*", help="cells by name instead: 'linear ar 3000 10 1'")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("intervals.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the tables of the file and stop")
    parser.add_argument("--write", action="store_true", help="write the tables of the file into the page")
    arguments = parser.parse_args()
    if not (arguments.table or arguments.write):
        wanted = cells(arguments.grid)
        if arguments.cell:
            words = [name.split() for name in arguments.cell]
            wanted = [Cell(model, law, int(n), int(d), float(epsilon)) for model, law, n, d, epsilon in words]
        done = {(r["cell"], r["seed"], r["repeat"]) for r in read(arguments.out)}
        for first in range(0, arguments.repeats, BATCH):
            for cell in wanted:
                repeats = range(first, min(first + BATCH, arguments.repeats))
                if (cell.name, arguments.seed, repeats[-1]) in done:
                    continue
                with arguments.out.open("a", encoding="utf-8") as file:
                    file.writelines(
                        json.dumps(record) + "\n" for record in run(cell, arguments.seed, repeats)
                    )
    records = read(arguments.out)
    print(pooled(records), table(records), sep="\n\n")
    if arguments.write:
        section = "categories" if arguments.grid == "categories" else "intervals"
        write_section(PAGE, f"{section}-pooled", pooled(records))
        write_section(PAGE, section, table(records))


if __name__ == "__main__":
    main()
