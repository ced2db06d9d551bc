# SPDX-License-Identifier: Apache-2.0
"""Coverage of the intervals of ``draws="auto"``, and their width beside the non-private interval.

Simulated data: d standard normal features, coefficients N(0, 1/d) (counts: N(0, 1/(4d))), an intercept
N(0, 1/4); residual scale 0.5 for linear, three classes for multinomial regression; no declared bounds.
Coverage is the share of all coefficients and intercepts, over all repetitions, whose interval holds the
truth. The width is relative to that of the efficient non-private interval, which is 2 * 1.96 times the
inverse root of Fisher's information.

    scripts/bench coverage --write               the table of docs/uncertainty.md; hours
    scripts/bench coverage --seconds 15 --write  ... with as many repetitions as fit into 15 seconds per row
    scripts/bench coverage --n 1000 --write      ... only these rows; the page keeps its others
    scripts/bench coverage --delta 1e-6 --write  ... under (epsilon, delta), where draws compose better
    scripts/bench coverage --size smoke          what the tests run
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from _table import markdown, read_section, write_section

import onedraw
from onedraw.estimators.base import PrivateEstimator
from onedraw.families import (
    Bernoulli,
    Categorical,
    Family,
    Gaussian,
    Laplace,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from onedraw.model import RegressionModel
from onedraw.uncertainty import intervals

PAGE = Path(__file__).parent.parent / "docs" / "uncertainty.md"
SIZES: dict[str, dict[str, tuple]] = {
    "smoke": {"families": ("logistic",), "n": (2000,), "epsilon": (0.01, 4.0), "d": (2,)},
    "paper": {
        "families": ("logistic", "multinomial", "linear", "poisson"),
        "n": (1000, 10_000, 100_000),
        "epsilon": (0.5, 1.0, 4.0),
        "d": (2, 10),
    },
}
REPEATS = {"smoke": 20, "paper": 500}
SIGMA, CLASSES = 0.5, 3


@dataclass(frozen=True)
class Design:
    """A regression to simulate and fit; ``spread`` is the standard deviation of its linear predictor."""

    family: Family
    estimator: Callable[..., PrivateEstimator]
    spread: float = 1.0
    outputs: int = 1


DESIGNS = {
    "logistic": Design(Bernoulli(), partial(onedraw.LogisticRegression, classes=range(2))),
    "multinomial": Design(
        Categorical(num_classes=CLASSES),
        partial(onedraw.LogisticRegression, classes=range(CLASSES)),
        outputs=CLASSES,
    ),
    "linear": Design(Gaussian(), onedraw.LinearRegression),
    "student_t": Design(StudentT(), partial(onedraw.LinearRegression, errors="student_t")),
    "laplace": Design(Laplace(), partial(onedraw.LinearRegression, errors="laplace")),
    "poisson": Design(Poisson(), onedraw.PoissonRegressor, spread=0.5),
    "negative_binomial": Design(
        NegativeBinomial(dispersion=1.0), onedraw.NegativeBinomialRegressor, spread=0.5
    ),
}
"""By the name of their rows, in the order of the table."""
HEADER = ["family", "features", "n", "epsilon", "draws", "90%", "95%", "scale 95%", "width", "declined"]
HEADER += ["repeats"]
POOLED = ["family", "rows", "fewest repeats", "intervals", "90%", "lowest row", "95%", "lowest row"]


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    family: str
    d: int
    n: int
    epsilon: float
    delta: float = 0.0

    @property
    def design(self) -> Design:
        return DESIGNS[self.family]


def estimator(case: Case, seed: int) -> PrivateEstimator:
    # A stream of its own for every row: with a common one, neighbouring rows would err together.
    stream = np.random.SeedSequence([seed, case.n, case.d, round(1000 * case.epsilon)]).generate_state(1)[0]
    return case.design.estimator(
        epsilon=case.epsilon,
        delta=case.delta,
        mechanism="one_posterior",
        draws="auto",
        random_state=int(stream),
    )


def simulate(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, responses and the true working parameters."""
    rng = np.random.default_rng([1, seed, case.n, case.d, round(1000 * case.epsilon)])
    family, q = case.design.family, case.design.family.num_predictors
    X = rng.standard_normal((case.n, case.d))
    coefficients = case.design.spread * rng.standard_normal((q, case.d)) / np.sqrt(case.d)
    intercepts = 0.5 * rng.standard_normal(q)
    eta = coefficients @ X.T + intercepts[:, None]
    truth = np.append(coefficients.ravel(), intercepts)
    scale = np.array(SIGMA) if family.has_scale else None
    response = family.sample(columns(family, eta), rng, scale)[:, 0]
    return X, response, np.append(truth, SIGMA) if family.has_scale else truth


def columns(family: Family, eta: np.ndarray) -> np.ndarray:
    """Linear predictors (q, n) in the shape that the family takes, one parameter value a column."""
    return eta[..., None] if family.vector_predictor else eta[0][:, None]


def curvatures(family: Family, eta: np.ndarray) -> np.ndarray:
    """Fisher's information (q, q, n) of one record in its linear predictors (q, n)."""
    q, n = eta.shape
    if family.has_scale:
        return np.full((1, 1, n), family.location_information(1.0, SIGMA))
    at = columns(family, eta)
    # Linear in the response, if it depends on it at all: its expectation is its value at the mean.
    mean = np.zeros((n, 1)) if family.vector_predictor else family.mean(at)
    second = family.log_density_derivatives(mean, at).d2_eta
    assert second is not None
    return -second.reshape(q, q, n)


def plain_errors(model: RegressionModel, X: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Non-private standard errors in original units, from Fisher's information at the truth."""
    family = model.family
    q, d = family.num_predictors, X.shape[1]
    design = np.column_stack([X, np.ones(len(X))])
    location = truth[: q * (d + 1)]
    eta = location[: q * d].reshape(q, d) @ X.T + location[q * d :, None]
    information = np.einsum("abn,ni,nj->aibj", curvatures(family, eta), design, design)
    information = information.reshape(q * (d + 1), -1)
    covariance = np.linalg.inv(information)
    # Predictors stand in blocks (coefficients, intercept); working parameters have all intercepts last.
    order = [a * (d + 1) + i for a in range(q) for i in range(d)] + [a * (d + 1) + d for a in range(q)]
    covariance = covariance[np.ix_(order, order)]
    points = np.zeros((len(order) + 1, model.dim))
    points[1:, : len(order)] = np.eye(len(order))
    flat = model.original_units(points).flat()
    flat = flat[:, :-1] if model.has_scale else flat
    rows = (flat[1:] - flat[0]).T
    return np.sqrt(np.einsum("oi,ij,oj->o", rows, covariance, rows))


def run(case: Case, repeats: int, seconds: float) -> list[str]:
    """One row: as many repetitions as asked for, or as fit into the time."""
    name = [case.family, str(case.d), f"{case.n:,}", f"{case.epsilon:g}"]
    covered: dict[float, list[np.ndarray]] = {0.9: [], 0.95: []}
    widths, draws, declined, done, start = [], 0, 0, 0, time.perf_counter()
    for seed in range(repeats):
        if seed >= 5 and time.perf_counter() - start > seconds:
            break
        X, y, truth = simulate(case, seed)
        model = estimator(case, seed)
        if seed == 0 and not model.plan(X).mechanism.draws_choice.trusted:
            return [*name, "1", "refused", "refused", "", "", "", ""]
        model.fit(X, y)
        draws, done = model.release_.guarantee.draws, done + 1
        released = model.release_.model
        target = released.original_units(truth[None, :]).flat()[0]
        try:
            found = {level: intervals(model.release_, level).array() for level in covered}
        except onedraw.InvalidInput:
            declined += 1
            continue
        for level, ends in found.items():
            covered[level].append((ends[:, 0] <= target) & (target <= ends[:, 1]))
        plain = plain_errors(released, X, truth)
        widths.append(np.median(np.diff(found[0.95])[: len(plain), 0] / (2 * 1.96 * plain)))
    scale = case.design.family.has_scale
    shares = []
    for level in covered:
        hits = np.array(covered[level]) if covered[level] else np.full((1, 2), np.nan)
        shares.append(f"{(hits[:, :-1] if scale else hits).mean():.3f}")
    last = f"{np.array(covered[0.95])[:, -1].mean():.3f}" if scale and covered[0.95] else ""
    width = f"{np.median(widths):.1f}" if widths else ""
    return [*name, str(draws), *shares, last, width, str(declined), str(done)]


def table(size: str, repeats: int, seconds: float, delta: float, keep: dict[str, tuple]) -> list[list[str]]:
    chosen = {**SIZES[size], **keep}
    rows = []
    for family in chosen["families"]:
        for d in chosen["d"]:
            for n in chosen["n"]:
                for epsilon in chosen["epsilon"]:
                    rows.append(run(Case(family, d, n, epsilon, delta), repeats, seconds))
                    print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="paper")
    parser.add_argument("--repeats", type=int, help="per row; 500 at paper size")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="per row; at least 5 repetitions")
    parser.add_argument("--families", nargs="+", choices=list(DESIGNS))
    parser.add_argument("--n", nargs="+", type=int)
    parser.add_argument("--epsilon", nargs="+", type=float)
    parser.add_argument("--d", nargs="+", type=int)
    parser.add_argument("--delta", type=float, default=0.0, help="of the guarantee; its table is another one")
    parser.add_argument("--write", action="store_true", help="write the table to docs/uncertainty.md")
    options = parser.parse_args(arguments)
    keep = {
        name: tuple(getattr(options, name))
        for name in ("families", "n", "epsilon", "d")
        if getattr(options, name) is not None
    }
    repeats = options.repeats or REPEATS[options.size]
    rows = table(options.size, repeats, options.seconds, options.delta, keep)
    if options.write:
        write(rows, "coverage-delta" if options.delta else "coverage")
    else:
        print(markdown(HEADER, rows))


def write(rows: list[list[str]], section: str) -> None:
    """Put the rows into their table of the page, and what they say together into the one above it."""
    rows = merged(read_section(PAGE, section), rows)
    write_section(PAGE, section, markdown(HEADER, rows))
    write_section(PAGE, f"{section}-pooled", markdown(POOLED, pooled(rows)))


def pooled(rows: list[list[str]]) -> list[list[str]]:
    """By family and over all: coverage, each row weighted by its intervals, and the lowest of any row."""
    given = [row for row in rows if row[5] != "refused"]
    names = [name for name in DESIGNS if any(row[0] == name for row in given)]
    lines = []
    for name in [*names, "all"]:
        chosen = [row for row in given if name in (row[0], "all")]
        outputs = np.array([DESIGNS[row[0]].outputs for row in chosen])
        fits = np.array([int(row[10]) - int(row[9]) for row in chosen])
        intervals_given = outputs * (np.array([int(row[1]) for row in chosen]) + 1) * fits
        levels = np.array([[float(row[5]), float(row[6])] for row in chosen])
        means, lowest = np.average(levels, axis=0, weights=intervals_given), levels.min(axis=0)
        fewest = min(int(row[10]) for row in chosen)
        line = [name, str(len(chosen)), f"{fewest:,}", f"{int(intervals_given.sum()):,}"]
        lines.append(line + [f"{value:.3f}" for value in (means[0], lowest[0], means[1], lowest[1])])
    return lines


def merged(old: list[list[str]], new: list[list[str]]) -> list[list[str]]:
    """The rows of the page, those of this run in the place of older ones, in the order of the study."""
    rows = {tuple(row[:4]): row for row in [*old, *new]}
    families = list(DESIGNS)

    def order(key: tuple[str, ...]) -> tuple[float, ...]:
        return families.index(key[0]), int(key[1]), int(key[2].replace(",", "")), float(key[3])

    return [rows[key] for key in sorted(rows, key=order)]


if __name__ == "__main__":
    main()
