# SPDX-License-Identifier: Apache-2.0
"""Robust and model-based errors of three classes, where the model holds and where it does not.

    python benchmarks/robust_classes.py --repeats 60
    python benchmarks/robust_classes.py --table         # or --write, into the page

Every release is made as a user would make it, at epsilon 3 under replace-one, with
``TiltedFit(inference="robust")``. Both kinds of errors are read from it, those of the model as if there were
no products of scores. A line for every batch is appended (``_batches``), so a run can be stopped and resumed.

Frozen before the run: the cells below, four sets of coefficients a cell that releases take by turns, and the
rule. Robust errors of classes stay offered if in no cell coverage is below 0.93 by more than chance (the
upper end of the Clopper-Pearson interval, its size divided by the design effect) and in every cell the median
width is at most twice that of the non-private sandwich; otherwise they are refused.

Laws: features uniform on [-1, 1] ("uniform"), or normal with pairwise correlation 0.5, cut off at the bounds
-3 and 3 ("pairwise"). "true" responses follow the model. "curved" ones have ``CURVE`` (x_0^2 - ``SHIFT``) in
the first logit beside half of the linear ones, so the first class is rare in the middle of a feature.

*The truth* are the parameters with the least mean loss of the fit (the log loss and half of Brier's score),
by Newton's method on 2^16 rows of Sobol's sequence with the true probabilities in place of classes, so means
over their law. They also give the non-private sandwich, from the slope and the products themselves.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import _batches
import numpy as np
from _batches import Batch, by_cell, design_effect
from _table import markdown, write_section
from scipy.special import ndtri, softmax
from scipy.stats import qmc

import onedraw
from onedraw.families.categorical import contrast_basis
from onedraw.inference import EfficientScore, Inference
from onedraw.inference.from_release import SEED, _mix, _sample
from onedraw.mechanisms import TiltedFit
from onedraw.release import Release
from onedraw.tilted.recipes import BRIER
from onedraw.tilted.softmax_loss import Softmax
from onedraw.uncertainty.from_curvature import original_units
from onedraw.uncertainty.released import released_of

CLASSES, EPSILON, SETS, ROWS, BLOCK, BATCH = 3, 3.0, 4, 1 << 16, 1 << 14, 10
CURVE, SHIFT = 3.0, 0.9
PAGE = Path(__file__).resolve().parents[1] / "docs" / "uncertainty.md"


@dataclass(frozen=True)
class Cell:
    """One design: whether the model holds, the law of the features, and the size."""

    holds: str
    law: str
    n: int
    d: int

    @property
    def name(self) -> str:
        return f"{self.holds} {self.law} {self.n} {self.d}"

    @property
    def bound(self) -> float:
        return 1.0 if self.law == "uniform" else 3.0

    def features(self, uniform: np.ndarray) -> np.ndarray:
        """Of numbers in (0, 1), (n, d + 1)."""
        if self.law == "uniform":
            return 2.0 * uniform[:, 1:] - 1.0
        normal = ndtri(uniform)
        return np.clip(np.sqrt(0.5) * (normal[:, 1:] + normal[:, :1]), -3.0, 3.0)

    def probabilities(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        logits = np.column_stack([x, np.ones(len(x))]) @ coefficients.T
        if self.holds == "curved":
            unit = x[:, 0] / (1.0 if self.law == "uniform" else 2.0)
            logits = 0.5 * logits
            logits[:, 0] += CURVE * (unit**2 - SHIFT)
        return softmax(logits, axis=1)


CELLS = (
    Cell("true", "uniform", 10_000, 2),
    Cell("curved", "uniform", 10_000, 2),
    Cell("true", "uniform", 30_000, 5),
    Cell("curved", "uniform", 30_000, 5),
    Cell("true", "pairwise", 30_000, 5),
    Cell("curved", "pairwise", 30_000, 5),
)


@dataclass(frozen=True)
class Truth:
    """Coefficients of the logits, the best parameters as a release reports them, and their errors at n."""

    coefficients: np.ndarray
    best: np.ndarray
    error: np.ndarray


@cache
def truth(cell: Cell, number: int) -> Truth:
    rng = np.random.default_rng([7, CELLS.index(cell), number])
    spread = np.r_[np.full(cell.d, 0.7 if cell.law == "uniform" else 0.45), 0.5]
    coefficients = spread * rng.standard_normal((CLASSES, cell.d + 1))
    x = cell.features(qmc.Sobol(cell.d + 1, rng=rng).random(ROWS))
    rows, pi = np.column_stack([x, np.ones(ROWS)]), cell.probabilities(x, coefficients)
    q, p = CLASSES - 1, cell.d + 1
    theta = np.zeros((q, p))
    for _ in range(40):
        score, slope, products = sums(theta, rows, pi)
        step = np.linalg.solve(slope, score).reshape(q, p)
        theta = theta - step * min(1.0, 1.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-8:
            break
    inverse = np.linalg.inv(slope)
    order = [c * p + j for c in range(CLASSES) for j in range(p - 1)] + [
        c * p + p - 1 for c in range(CLASSES)
    ]
    report = np.kron(contrast_basis(CLASSES), np.eye(p))[order]
    variance = report @ inverse @ products @ inverse @ report.T * ROWS / cell.n
    return Truth(coefficients, report @ theta.ravel(), np.sqrt(variance.diagonal()))


def sums(theta: np.ndarray, rows: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, ...]:
    """The score, its slope and the products of scores, means over the classes and sums over the rows."""
    loss, (q, p) = Softmax(classes=CLASSES, brier=BRIER), theta.shape
    score, slope, products = np.zeros(q * p), np.zeros((q, p, q, p)), np.zeros((q, p, q, p))
    for first in range(0, len(rows), BLOCK):
        z, chance = rows[first : first + BLOCK], pi[first : first + BLOCK]
        for y in range(CLASSES):
            s, h = loss.slope_and_curvature(np.full(len(z), float(y)), z @ theta.T)
            weight = chance[:, y]
            score += ((s * weight[:, None]).T @ z).ravel()
            for a in range(q):
                for b in range(q):
                    slope[a, :, b] += (z * (weight * h[:, a, b])[:, None]).T @ z
                    products[a, :, b] += (z * (weight * s[:, a] * s[:, b])[:, None]).T @ z
    return score, slope.reshape(q * p, q * p), products.reshape(q * p, q * p)


def run(cell: Cell, repeats: range) -> list[dict]:
    """Two records a repeat: both kinds of errors of the same release. Chains are run as one batch."""
    made = [release(cell, k) for k in repeats]
    read = [released_of(each) for each in made]
    space = read[0].layout.space(read[0].columns, count_sd=read[0].count_sd)
    rng = np.random.default_rng(SEED)
    records = []
    for k, each, known, draws in zip(repeats, made, read, _sample(read, space, rng).draws, strict=True):
        for errors, score in (("model", EfficientScore()), ("robust", known.score)):
            found = _mix(replace(known, score=score), space, draws, rng)
            records.append(judged(cell, errors, k, each, found))
    return records


def release(cell: Cell, k: int) -> Release:
    known, rng = truth(cell, k % SETS), np.random.default_rng([11, CELLS.index(cell), k])
    x = cell.features(rng.random((cell.n, cell.d + 1)))
    y = (rng.random((cell.n, 1)) > cell.probabilities(x, known.coefficients).cumsum(1)[:, :-1]).sum(1)
    model = onedraw.LogisticRegression(
        epsilon=EPSILON,
        classes=list(range(CLASSES)),
        feature_bounds=[(-cell.bound, cell.bound)] * cell.d,
        mechanism=TiltedFit(inference="robust"),
        random_state=int(rng.integers(2**31)),
    )
    return model.fit(x, y).release_


def judged(cell: Cell, errors: str, k: int, made: Release, found: Inference) -> dict:
    known, result = truth(cell, k % SETS), original_units(made, found).intervals(0.95)
    low, high = np.array(result.low), np.array(result.high)
    return {
        "cell": f"{cell.name} {errors}",
        "seed": 0,
        "repeat": k,
        "given": found.reason is None,
        "covered": [bool(v) for v in (low <= known.best) & (known.best <= high)],
        "width": float(np.mean((high - low) / (2 * 1.96 * known.error))),
        "reason": found.reason,
    }


def table(batches: list[Batch]) -> str:
    """One line a cell and kind of errors."""
    lines = []
    for errors in ("model", "robust"):
        mine = [b for b in batches if b.cell.endswith(errors)]
        effect = design_effect(mine)
        for name, each in by_cell(mine).items():
            line = [*name.split(), str(each.releases), f"{each.given / each.releases:.2f}"]
            if each.given:
                held, low, high = each.coverage(effect)
                line += [f"{held:.3f}", f"({low:.3f}, {high:.3f})", f"{each.width:.2f}"]
            lines.append(line + ["-"] * (10 - len(line)))
    lines.sort(key=lambda line: line[:4])
    header = ["responses", "law", "n", "features", "errors", "releases", "given", "coverage", "95% of it"]
    return markdown([*header, "width"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument(
        "--cell", nargs="*", type=int, choices=range(len(CELLS)), help="some cells, by number"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    parser.add_argument("--table", action="store_true", help="print the table of the file and stop")
    parser.add_argument("--write", action="store_true", help="write the table of the file into the page")
    arguments = parser.parse_args()
    if not (arguments.table or arguments.write):
        done = _batches.done(_batches.read(arguments.out))
        for first in range(0, arguments.repeats, BATCH):
            for cell in CELLS if arguments.cell is None else [CELLS[i] for i in arguments.cell]:
                repeats = range(first, min(first + BATCH, arguments.repeats))
                if (f"{cell.name} robust", 0, repeats[-1]) in done:
                    continue
                records = run(cell, repeats)
                for name in dict.fromkeys(r["cell"] for r in records):
                    _batches.append(arguments.out, Batch.of([r for r in records if r["cell"] == name]))
    batches = _batches.read(arguments.out)
    print(table(batches))
    if arguments.write:
        write_section(PAGE, "robust-classes", table(batches))


if __name__ == "__main__":
    main()
