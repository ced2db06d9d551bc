# SPDX-License-Identifier: Apache-2.0
"""Coverage, width and share of intervals from a tilted fit and its noisy curvature, release by release.

Logistic regression under pure epsilon, replace-one; 20% of epsilon goes to the curvature. One line of JSON
per release is appended to a file, so a run can be stopped and resumed; the table is made from the file.

    python benchmarks/intervals.py --grid small --repeats 20 --seed 5 --out intervals.jsonl
    python benchmarks/intervals.py --out intervals.jsonl --table

Rules frozen before the confirming run: the prior (psi ~ Beta(2, 1), LKJ(2)), the sampler's schedule and the
two refusals (``from_release.INFLATION`` = 1.5, ``Released.useful`` = 3) are constants of the package. This
file sets none of them. The design below (laws, coefficients, shares) is the other half.

Laws of the features: uniform on [-1, 1]; normal, pairwise correlation 0.5 and AR 0.7 (no bounds: divided by
1.5, L2 weights); dummies of +-1 with probabilities uniform on (0.1, 0.9); "rare" is uniform with about 5%
of outcomes.
Coefficients: N(0, 0.7^2) for features (0.42^2 for dummies), N(0, 0.5^2) for the intercept, in units of the
working rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _shrinkage_intervals import shrinkage_intervals
from _table import markdown
from scipy.special import expit

from onedraw.inference import Released, infer_many

LAWS = ("uniform", "normal", "pairwise", "ar", "dummies", "rare")
BOUNDED = ("uniform", "dummies", "rare")
CURVATURE_SHARE = 0.2
DIAGONAL_SHARE = 0.3  # of the curvature's, for bounded rows; others get one symmetrised Wishart matrix
RARE_INTERCEPT = -3.2
GRIDS = {
    "smoke": ((1000,), (2,), (1.0,)),
    "small": ((1000, 3000, 10_000), (2, 5), (1.0,)),
    "full": ((1000, 3000, 10_000), (2, 5, 10, 20), (0.3, 1.0, 3.0)),
}
BATCH = 20


@dataclass(frozen=True)
class Cell:
    """One design of the study."""

    law: str
    n: int
    d: int
    epsilon: float

    @property
    def name(self) -> str:
        return f"{self.law} {self.n} {self.d} {self.epsilon:g}"


@dataclass(frozen=True)
class Tilt:
    """The law of b: radius Gamma times a uniform point of the cube, or a direction on the sphere."""

    dim: int
    scale: float
    cube: bool

    @property
    def variance(self) -> float:
        p = self.dim
        return self.scale**2 * ((p + 1) * (p + 2) / 3 if self.cube else p * (p + 1))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        p = self.dim
        if self.cube:
            return rng.gamma(p + 1, self.scale) * rng.uniform(-1, 1, p)
        direction = rng.standard_normal(p)
        return rng.gamma(p, self.scale * np.sqrt(p)) * direction / np.linalg.norm(direction)


def features(law: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    if law in ("uniform", "rare"):
        return rng.uniform(-1, 1, (n, d))
    if law == "dummies":
        return np.where(rng.random((n, d)) < rng.uniform(0.1, 0.9, d), 1.0, -1.0)
    x = rng.standard_normal((n, d))
    if law == "pairwise":
        x = np.sqrt(0.5) * (x + rng.standard_normal((n, 1)))
    if law == "ar":
        for j in range(1, d):
            x[:, j] = 0.7 * x[:, j - 1] + np.sqrt(0.51) * x[:, j]
    return x


def minimise(
    rows: np.ndarray, weight: np.ndarray, y: np.ndarray, ridge: float, tilt: np.ndarray
) -> np.ndarray:
    """Newton's method with steps of bounded length."""
    theta = np.zeros(rows.shape[1])
    for _ in range(60):
        mean = expit(rows @ theta)
        gradient = rows.T @ (weight * (mean - y)) + ridge * theta + tilt
        step = np.linalg.solve(information(rows, weight, theta) + ridge * np.eye(len(theta)), gradient)
        theta = theta - step * min(1.0, 4.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    return theta


def information(rows: np.ndarray, weight: np.ndarray, theta: np.ndarray) -> np.ndarray:
    mean = expit(rows @ theta)
    return (rows * (weight * mean * (1 - mean))[:, None]).T @ rows


def curvature_noise(
    p: int, epsilon: float, cube: bool, rng: np.random.Generator
) -> tuple[np.ndarray, float, float]:
    """A symmetric noise matrix and its standard deviations on and off the diagonal."""
    bound, pairs = 0.25, p * (p - 1) // 2
    off_epsilon = (1 - DIAGONAL_SHARE) * epsilon if cube else epsilon
    scale = p * bound / off_epsilon
    factors = rng.standard_normal((2, p, p + 1))
    wishart = scale * (factors[0] @ factors[0].T - factors[1] @ factors[1].T)
    wishart_off, wishart_diagonal = scale * np.sqrt(2 * (p + 1)), scale * np.sqrt(4 * (p + 1))
    if not cube:
        return wishart, wishart_diagonal, wishart_off
    unit = bound / (DIAGONAL_SHARE * epsilon)
    diagonal = rng.gamma(p + 1, unit) * rng.uniform(-1, 1, p)
    diagonal_sd = unit * np.sqrt((p + 1) * (p + 2) / 3)
    cube_unit = 2 * bound / off_epsilon
    cube_off = cube_unit * np.sqrt((pairs + 1) * (pairs + 2) / 3)
    if cube_off <= wishart_off:
        noise = np.zeros((p, p))
        noise[np.tril_indices(p, -1)] = rng.gamma(pairs + 1, cube_unit) * rng.uniform(-1, 1, pairs)
        noise = noise + noise.T
        np.fill_diagonal(noise, diagonal)
        return noise, diagonal_sd, cube_off
    share = diagonal_sd**-2 / (diagonal_sd**-2 + wishart_diagonal**-2)
    np.fill_diagonal(wishart, share * diagonal + (1 - share) * wishart.diagonal())
    return wishart, (diagonal_sd**-2 + wishart_diagonal**-2) ** -0.5, wishart_off


def simulate(cell: Cell, stream: list[int]) -> tuple[Released, np.ndarray, np.ndarray]:
    """A release, the true parameters and the non-private standard errors."""
    rng = np.random.default_rng(stream)
    n, d, cube = cell.n, cell.d, cell.law in BOUNDED
    p = d + 1
    x = features(cell.law, n, d, rng)
    rows = np.column_stack([np.ones(n), x if cube else x / 1.5])
    weight = np.ones(n) if cube else np.minimum(1.0, p / (rows**2).sum(1))
    truth = np.r_[0.5, np.full(d, 0.42 if cell.law == "dummies" else 0.7)] * rng.standard_normal(p)
    if cell.law == "rare":
        truth[0] = RARE_INTERCEPT
    y = (rng.random(n) < expit(rows @ truth)).astype(float)
    epsilon = (1 - CURVATURE_SHARE) * cell.epsilon
    tilt, ridge = Tilt(p, 2 / epsilon, cube), 2 * p / epsilon
    theta = minimise(rows, weight, y, ridge, tilt.sample(rng))
    noise, diagonal_sd, offdiagonal_sd = curvature_noise(p, CURVATURE_SHARE * cell.epsilon, cube, rng)
    released = Released(
        theta=theta,
        ridge=ridge,
        tilt=tilt,
        curvature=information(rows, weight, theta) + noise,
        diagonal_sd=diagonal_sd,
        offdiagonal_sd=offdiagonal_sd,
        count=float(n),
    )
    plain = minimise(rows, np.ones(n), y, 1e-3, np.zeros(p))
    return released, truth, np.sqrt(np.linalg.inv(information(rows, np.ones(n), plain)).diagonal())


def stream(cell: Cell, seed: int, repeat: int) -> list[int]:
    return [seed, LAWS.index(cell.law), cell.n, cell.d, round(1000 * cell.epsilon), repeat]


def run(cell: Cell, seed: int, repeats: range) -> list[dict[str, object]]:
    """One record for each release."""
    cases = [simulate(cell, stream(cell, seed, k)) for k in repeats]
    records = []
    for k, (released, truth, error), result in zip(
        repeats, cases, infer_many([case[0] for case in cases]), strict=True
    ):
        ends = result.interval(0.95)
        rival = shrinkage_intervals(released, np.random.default_rng([1, *stream(cell, seed, k)]))
        features_only = np.eye(len(truth))[1:]
        records.append(
            {
                "cell": cell.name,
                "seed": seed,
                "repeat": k,
                "covered": [bool(v) for v in (ends[:, 0] <= truth) & (truth <= ends[:, 1])],
                "width": float(np.mean((ends[:, 1] - ends[:, 0]) / (3.92 * error))),
                "half": float(np.max(ends[:, 1] - ends[:, 0]) / 2),
                "inflation": float(result.inflation.max()),
                "given": result.reason is None,
                "joint": result.wald(features_only, truth[1:]).p_value,
                "sum": result.wald(features_only.sum(0), truth[1:].sum()).p_value,
                "rival": [bool(v) for v in (rival.interval[:, 0] <= truth) & (truth <= rival.interval[:, 1])],
                "rival_width": float(np.mean(np.diff(rival.interval)[:, 0] / (3.92 * error))),
                "rival_floor": bool(rival.by_floor),
                "rival_ratio": bool(rival.by_ratio),
            }
        )
    return records


def cells(grid: str) -> list[Cell]:
    n, d, epsilon = GRIDS[grid]
    return [Cell(law, *sizes) for law in LAWS for sizes in itertools.product(n, d, epsilon)]


def table(records: list[dict]) -> str:
    """Coverage / median width / share given, for the inference and for its rival under one and both rules."""
    lines = []
    for name in dict.fromkeys(r["cell"] for r in records):
        mine = [r for r in records if r["cell"] == name]
        given = [r for r in mine if r["given"]]
        sets = [
            ([r["covered"] for r in given], [r["width"] for r in given]),
            *(
                ([r["rival"] for r in kept], [r["rival_width"] for r in kept])
                for kept in (
                    [r for r in mine if not r["rival_floor"]],
                    [r for r in mine if not r["rival_floor"] and not r["rival_ratio"]],
                )
            ),
        ]
        line = [*name.split(), str(len(mine))]
        for covered, width in sets:
            share = len(covered) / len(mine)
            coverage = f"{np.mean(covered):.3f} / {np.median(width):.2f}" if covered else "- / -"
            line.append(f"{coverage} / {share:.2f}")
        for test in ("joint", "sum"):
            line.append(f"{np.mean([r[test] < 0.05 for r in given]):.3f}" if given else "-")
        lines.append(line)
    header = ["law", "n", "d", "epsilon", "releases", "inference", "rival, floor", "rival, both"]
    header += ["joint", "sum"]
    return markdown(header, lines)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", choices=GRIDS, default="smoke")
    parser.add_argument("--cell", nargs="*", help="cells by name instead of a grid: 'ar 3000 10 1'")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("intervals.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table of the file and stop")
    arguments = parser.parse_args()
    if not arguments.table:
        wanted = cells(arguments.grid)
        if arguments.cell:
            words = [name.split() for name in arguments.cell]
            wanted = [Cell(law, int(n), int(d), float(epsilon)) for law, n, d, epsilon in words]
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
    print(table(read(arguments.out)))


if __name__ == "__main__":
    main()
