# SPDX-License-Identifier: Apache-2.0
"""Error of private regressions over the error of the non-private fit on the same data.

Cells, designs, competitors and aims are fixed here, before the study is run. Pure epsilon = 1, replace-one,
default options (competitors with the bounds that they need, AdaSSP also with delta = 1e-6). A number is the
root of the mean squared error over repetitions and parameters, intercept included, divided by that of the
non-private fit; the interval is a bootstrap over repetitions.

    scripts/bench accuracy                       the full table (100 repetitions, draws fewer)
    scripts/bench accuracy --write               ... and written to docs/benchmarks.md
    scripts/bench accuracy --models linear --sizes 1000 --repeats 20
    scripts/bench accuracy --methods "tilted fit" --first 1000     one method, on other data sets
    scripts/bench accuracy --diffprivlib PYTHON  ... beside diffprivlib, which PYTHON has: it needs an older
                                                 scikit-learn, so an environment of its own
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _table import markdown, write_section
from joblib import Parallel, delayed
from sklearn import linear_model

import onedraw
from onedraw.mechanisms import AdaSSP, OnePosterior, OutputPerturbation

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
EPSILON, DELTA = 1.0, 1e-6
DRAWS = 5
"""One in so many repetitions is also fitted by a draw, which takes longer, and by diffprivlib."""
CLASSES = 3


@dataclass(frozen=True)
class Cell:
    """A design with ``features`` columns and ``rows`` rows, and the ratio that is aimed at."""

    model: str
    features: int
    rows: int
    aim: float | None
    normal: bool = False
    """Standard normal features with nothing declared; otherwise uniform on [-1, 1]."""

    @property
    def declared(self) -> bool:
        return not self.normal and self.model != "linear"


CELLS = (
    *(Cell("logistic", d, 1_000, aim) for d, aim in ((2, 1.3), (5, 1.8), (10, 2.9))),
    *(Cell("logistic", d, 10_000, aim) for d, aim in ((2, 1.05), (5, 1.10), (10, 1.30))),
    *(Cell("logistic", d, 100_000, aim) for d, aim in ((2, 1.01), (5, 1.03), (10, 1.06))),
    *(Cell("logistic", 5, n, aim, normal=True) for n, aim in ((10_000, 1.3), (100_000, 1.05))),
    *(Cell("multinomial", d, 1_000, aim) for d, aim in ((2, 1.5), (5, 2.3))),
    *(Cell("multinomial", d, 10_000, aim) for d, aim in ((2, 1.25), (5, 1.5))),
    *(Cell("linear", d, 1_000, aim) for d, aim in ((2, 1.6), (5, None))),
    *(Cell("linear", d, 10_000, aim) for d, aim in ((2, 1.05), (5, 1.25), (10, 1.45))),
    *(Cell("linear", d, 100_000, aim) for d, aim in ((2, 1.02), (5, 1.03), (10, 1.06))),
    *(Cell("poisson", d, 1_000, aim) for d, aim in ((2, 2.1), (5, None))),
    *(Cell("poisson", d, 10_000, aim) for d, aim in ((2, 1.25), (5, 1.4))),
    *(Cell("poisson", d, 100_000, aim) for d, aim in ((2, 1.05), (5, 1.10))),
)
METHODS = ("tilted fit", "draw", "AdaSSP", "output perturbation", "diffprivlib")
BESIDE = Path(__file__).with_name("_diffprivlib.py")


def simulate(cell: Cell, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, response and the true coefficients and intercepts."""
    n, d = cell.rows, cell.features
    X = rng.standard_normal((n, d)) if cell.normal else rng.uniform(-1, 1, (n, d))
    if cell.model == "multinomial":
        slopes, centre = 0.7 * rng.standard_normal((CLASSES, d)), 0.5 * rng.standard_normal(CLASSES)
        slopes, centre = slopes - slopes.mean(axis=0), centre - centre.mean()
        scores = X @ slopes.T + centre
        return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1), np.append(slopes, centre)
    size, spread = {"logistic": (0.7, 0.5), "linear": (1.0, 1.0), "poisson": (0.5, 0.5)}[cell.model]
    slopes, centre = size * rng.standard_normal(d), spread * rng.standard_normal()
    eta = X @ slopes + centre
    response = {
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
        "linear": lambda: eta + 0.5 * rng.standard_normal(n),
        "poisson": lambda: rng.poisson(np.exp(eta)),
    }[cell.model]()
    return X, response, np.append(slopes, centre)


def plain(cell: Cell) -> object:
    """The non-private fit."""
    return {
        "logistic": lambda: linear_model.LogisticRegression(C=np.inf, max_iter=500),
        "multinomial": lambda: linear_model.LogisticRegression(C=np.inf, max_iter=500),
        "linear": lambda: linear_model.LinearRegression(),
        "poisson": lambda: linear_model.PoissonRegressor(alpha=0.0, max_iter=500),
    }[cell.model]()


def private(cell: Cell, seed: int) -> Iterator[tuple[str, object]]:
    """Estimators by the name of the method."""
    kind = {"linear": onedraw.LinearRegression, "poisson": onedraw.PoissonRegressor}.get(
        cell.model, onedraw.LogisticRegression
    )
    options = {"epsilon": EPSILON, "random_state": seed}
    if cell.declared:
        options["feature_bounds"] = (-1, 1)
    if kind is onedraw.LogisticRegression:
        options["classes"] = list(range(CLASSES if cell.model == "multinomial" else 2))
    norm = math.sqrt(cell.features + 1)
    yield "tilted fit", kind(**options)
    if seed % DRAWS == 0:
        yield "draw", kind(**options, mechanism=OnePosterior())
    if cell.model == "linear":
        bounded = AdaSSP(feature_norm=norm, response_bound=response_bound(cell))
        yield "AdaSSP", kind(**options, delta=DELTA, mechanism=bounded)
    if cell.model == "logistic" and cell.declared:
        yield "output perturbation", kind(**options, mechanism=OutputPerturbation(feature_norm=norm))


def response_bound(cell: Cell) -> float:
    """What methods that need a bound of a linear model's response are given."""
    return 1.0 + 3.0 * math.sqrt(cell.features)


def data_set(cell: Cell, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The data set of a repetition."""
    return simulate(cell, np.random.default_rng([seed, *map(ord, cell.model), cell.rows, cell.features]))


def squared_errors(cell: Cell, seed: int, methods: Sequence[str]) -> dict[str, float]:
    """Mean squared error over the parameters, by method; NaN where a fit failed."""
    X, y, truth = data_set(cell, seed)

    def error(model: object) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fitted = model.fit(X, y)
            except onedraw.SamplingError:
                return math.nan
        return float(np.mean((np.append(np.ravel(fitted.coef_), fitted.intercept_) - truth) ** 2))

    found = {"plain": error(plain(cell))}
    return found | {name: error(model) for name, model in private(cell, seed) if name in methods}


def errors_of_diffprivlib(cell: Cell, seeds: Sequence[int], interpreter: str) -> dict[int, float]:
    """Mean squared errors by seed, of fits by another interpreter; none for models that it has not."""
    if cell.normal or cell.model not in ("logistic", "linear"):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        truths = {}
        for seed in seeds:
            X, y, truths[seed] = data_set(cell, seed)
            options = {"epsilon": EPSILON, "seed": seed, "response_bound": response_bound(cell)}
            np.savez(Path(folder) / f"{seed}.npz", X=X, y=y, model=cell.model, **options)
        subprocess.run([interpreter, str(BESIDE), folder], check=True)
        found = {seed: np.load(Path(folder) / f"{seed}.npy") for seed in seeds}
    return {seed: float(np.mean((found[seed] - truths[seed]) ** 2)) for seed in seeds}


def row(cell: Cell, seeds: range, jobs: int, methods: Sequence[str], interpreter: str | None) -> list[str]:
    """One line of the table."""
    found = Parallel(n_jobs=jobs)(delayed(squared_errors)(cell, seed, methods) for seed in seeds)
    if interpreter is not None:
        chosen = [seed for seed in seeds if seed % DRAWS == 0]
        for seed, error in errors_of_diffprivlib(cell, chosen, interpreter).items():
            found[seed - seeds[0]]["diffprivlib"] = error
    cells = []
    for name in METHODS:
        pairs = np.array([(one[name], one["plain"]) for one in found if name in one]).reshape(-1, 2)
        cells.append(_ratio(pairs, interval=name == METHODS[0]))
    what = "N(0, 1), nothing declared" if cell.normal else "declared" if cell.declared else "nothing declared"
    aim = "-" if cell.aim is None else f"{cell.aim:.2f}"
    return [cell.model, what, f"{cell.features}", f"{cell.rows:,}", aim, *cells]


def _ratio(pairs: np.ndarray, *, interval: bool) -> str:
    failed = int(np.isnan(pairs[:, 0]).sum()) if len(pairs) else 0
    pairs = pairs[~np.isnan(pairs[:, 0])] if len(pairs) else pairs
    if not len(pairs):
        return f"{failed} failed" if failed else "-"
    ratio = math.sqrt(pairs[:, 0].mean() / pairs[:, 1].mean())
    text = f"{ratio:.2f}" if ratio < 1000.0 else f"{ratio:.0e}"
    if interval:
        rng = np.random.default_rng(0)
        picks = rng.integers(0, len(pairs), (1000, len(pairs)))
        means = pairs[picks].mean(axis=1)
        low, high = np.quantile(np.sqrt(means[:, 0] / means[:, 1]), [0.025, 0.975])
        text += f" ({low:.2f} to {high:.2f})"
    return text + (f", {failed} failed" if failed else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="*", default=sorted({cell.model for cell in CELLS}))
    parser.add_argument("--sizes", nargs="*", type=int, default=sorted({cell.rows for cell in CELLS}))
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="an interpreter that has diffprivlib")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    rows = []
    for cell in CELLS:
        if cell.model in options.models and cell.rows in options.sizes:
            seeds = range(options.first, options.first + options.repeats)
            rows.append(row(cell, seeds, options.jobs, options.methods, options.diffprivlib))
            print(" | ".join(rows[-1]), flush=True)
    table = markdown(["model", "features", "d", "n", "aim", *METHODS], rows)
    print(table)
    if options.write:
        write_section(PAGE, "accuracy", table)


if __name__ == "__main__":
    main()
