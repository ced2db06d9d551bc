# SPDX-License-Identifier: Apache-2.0
"""The paper's theory by simulation: consistency, the sandwich variance, and normality of one draw.

Logistic regression with two standard normal features, which are not bounded, and an intercept. With weight w
and the unweighted loss, sqrt(n) (draw - truth) tends to N(0, V), V = H^-1 K H^-1 + (1/w) H^-1: the first
term is that of the estimate, the second that of a draw around it. With p the model's probability of a one,
v = p(1 - p) and c = p^(beta-2) + (1-p)^(beta-2), H = E[v^2 c xx'] and K = E[v^3 c^2 xx'].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from onedraw.records import Records
from onedraw.research.experiments.measures import log_rmse
from onedraw.research.experiments.methods import beta_mechanism
from onedraw.research.experiments.simulate import draw_labels
from onedraw.research.experiments.spec import Cell, Claim, Experiment, Row, Verdict, View, stream
from onedraw.research.experiments.table import distinct, one, select
from onedraw.types import Array

TRUTH = np.array([1.0, -0.5, 0.25])
EPSILON = 1.0
REFERENCE_ROWS = 400_000
PROBABILITIES = tuple(float(p) for p in np.linspace(0.02, 0.98, 49))


def _records(n: int, rng: np.random.Generator) -> Records:
    features = rng.standard_normal((n, len(TRUTH) - 1))
    return Records(features=features, response=draw_labels(features, TRUTH, rng))


def sandwich(beta: float, weight: float, rng: np.random.Generator) -> Array:
    """V (p, p), its expectations by a large simulated design. Independent of the library's own."""
    features = rng.standard_normal((REFERENCE_ROWS, len(TRUTH) - 1))
    design = np.column_stack([features, np.ones(REFERENCE_ROWS)])
    p = special.expit(design @ TRUTH)
    v, c = p * (1.0 - p), p ** (beta - 2.0) + (1.0 - p) ** (beta - 2.0)
    hessian = (design * (v**2 * c)[:, None]).T @ design / REFERENCE_ROWS
    outer = (design * (v**3 * c**2)[:, None]).T @ design / REFERENCE_ROWS
    inverse = np.linalg.inv(hessian)
    return np.asarray(inverse @ outer @ inverse + inverse / weight)


# -- consistency


def consistency_cells(
    version: str, *, betas: Sequence[float], sizes: Sequence[int], repetitions: int, draws: int
) -> list[Cell]:
    """Beta by n by repetition."""
    return [
        {"beta": beta, "n": n, "repetition": repetition, "draws": draws}
        for n in sizes
        for beta in betas
        for repetition in range(repetitions)
    ]


def run_consistency(cell: Cell) -> list[Row]:
    """The expected error of a draw at that beta and n, epsilon 1."""
    n, repetition, seed = int(cell["n"]), int(cell["repetition"]), int(cell["seed"])
    data = _records(n, stream("consistency", n, repetition, seed))
    mechanism = beta_mechanism(EPSILON, float(cell["beta"]), len(TRUTH) - 1)
    rng = stream("consistency draws", *(cell[name] for name in sorted(cell)))
    draws = mechanism.draws(data, int(cell["draws"]), rng).values
    return [{"log_rmse": float(log_rmse(draws, TRUTH).mean()), "curve": f"β = {float(cell['beta']):g}"}]


def _root_n(rows: Sequence[Row]) -> Verdict:
    right, parts, betas = 0, [], distinct(rows, "beta")
    for beta in betas:
        curve = select(rows, beta=beta)[-3:]
        x = [math.log(float(row["n"])) for row in curve]
        slope = float(np.polyfit(x, [float(row["log_rmse"]) for row in curve], 1)[0])
        right += abs(slope + 0.5) < 0.1
        last = one(rows, "log_rmse", beta=beta, n=curve[-1]["n"])
        parts.append(
            f"beta {beta:g}: slope {slope:.3f}, log RMSE {last:.2f} at n = {float(curve[-1]['n']):g}"
        )
    return Verdict(
        right, len(betas), f"slope of log RMSE in log n over the last three n, {'; '.join(parts)}."
    )


CONSISTENCY = Experiment(
    name="consistency",
    figures="theory",
    title="Consistency: the error of one draw against n",
    sizes={
        "paper": {
            "betas": (1.2, 1.5, 2.0, 3.0),
            "sizes": (100, 1000, 10_000, 100_000, 1_000_000),
            "repetitions": 4,
            "draws": 5,
        },
        "smoke": {"betas": (1.5, 3.0), "sizes": (400, 1600, 6400), "repetitions": 4, "draws": 5},
    },
    cells=consistency_cells,
    run=run_consistency,
    by=("beta", "curve", "n"),
    values=("log_rmse",),
    views=(
        View(
            name="error",
            title="Consistency at epsilon 1: error of the parameters",
            x="n",
            y="log_rmse",
            x_label="n",
            y_label="log RMSE",
            curve="curve",
            log_x=True,
        ),
    ),
    claims=(
        Claim(statement="One draw is consistent: its error falls like 1/√n for every beta.", check=_root_n),
    ),
    notes={
        "as-published": "The theorem holds as published.",
        "corrected": "Weight for epsilon 1 at each beta.",
    },
)


# -- variance and normality


def asymptotics_cells(
    version: str, *, betas: Sequence[float], sizes: Sequence[int], tables: int
) -> list[Cell]:
    """Beta by n; every cell has many data sets."""
    return [{"beta": beta, "n": n, "tables": tables} for n in sizes for beta in betas]


def run_asymptotics(cell: Cell) -> list[Row]:
    """One draw on each of many data sets, whitened by V/n: quantiles, mean square, distance from normal."""
    n, seed, tables = int(cell["n"]), int(cell["seed"]), int(cell["tables"])
    mechanism = beta_mechanism(EPSILON, float(cell["beta"]), len(TRUTH) - 1)
    rng = stream("asymptotics", *(cell[name] for name in sorted(cell)))
    variance = sandwich(float(cell["beta"]), mechanism.calibrated.weight, stream("design", seed))
    root = np.linalg.cholesky(variance / n)
    draws = np.array([mechanism.draws(_records(n, rng), 1, rng).values[0] for _ in range(tables)])
    whitened = np.linalg.solve(root, (draws - TRUTH).T).ravel()
    ratio, away = float(np.mean(np.square(whitened))), kolmogorov_distance(whitened)
    quantiles = np.quantile(whitened, PROBABILITIES)
    return [
        {
            "curve": f"β = {float(cell['beta']):g}",
            "normal": float(special.ndtri(p)),
            "quantile": float(q),
            "variance_ratio": ratio,
            "kolmogorov": away,
            "numbers": len(whitened),
        }
        for p, q in zip(PROBABILITIES, quantiles, strict=True)
    ]


def kolmogorov_distance(values: Array) -> float:
    """The largest distance between the empirical distribution function and the normal one."""
    below = special.ndtr(np.sort(values))
    steps = np.arange(len(values) + 1) / len(values)
    return float(max(np.max(steps[1:] - below), np.max(below - steps[:-1])))


def _largest_n(rows: Sequence[Row]) -> list[Row]:
    n = max(float(row["n"]) for row in rows)
    return [select(rows, n=n, beta=beta)[0] for beta in distinct(rows, "beta")]


def _variance(rows: Sequence[Row]) -> Verdict:
    last, right, parts = _largest_n(rows), 0, []
    for row in last:
        error = math.sqrt(2.0 / float(row["numbers"]))
        right += abs(float(row["variance_ratio"]) - 1.0) <= 3.0 * error
        parts.append(f"beta {float(row['beta']):g}: {float(row['variance_ratio']):.3f} ± {error:.3f}")
    return Verdict(
        right, len(last), f"mean square over the formula at n = {last[0]['n']:g}, {'; '.join(parts)}."
    )


def _normal(rows: Sequence[Row]) -> Verdict:
    last, right, parts = _largest_n(rows), 0, []
    for row in last:
        limit = 1.63 / math.sqrt(float(row["numbers"]))  # exceeded by one normal sample in a hundred
        right += float(row["kolmogorov"]) <= limit
        parts.append(f"beta {float(row['beta']):g}: {float(row['kolmogorov']):.3f}, 1% limit {limit:.3f}")
    return Verdict(right, len(last), f"distance from normal at n = {last[0]['n']:g}, {'; '.join(parts)}.")


ASYMPTOTICS = Experiment(
    name="asymptotics",
    figures="theory",
    title="Sandwich variance and normality of one draw",
    sizes={
        "paper": {"betas": (1.5, 2.5), "sizes": (200, 2000, 20_000), "tables": 200},
        "smoke": {"betas": (2.0,), "sizes": (4000,), "tables": 40},
    },
    cells=asymptotics_cells,
    run=run_asymptotics,
    by=("beta", "curve", "n", "normal"),
    values=("quantile", "variance_ratio", "kolmogorov", "numbers"),
    views=(
        View(
            name="normality",
            title="Quantiles of one draw, whitened by the sandwich variance, against the normal's",
            x="normal",
            y="quantile",
            x_label="normal quantile",
            y_label="quantile of the draws",
            curve="curve",
            across="n",
            diagonal=True,
        ),
    ),
    claims=(
        Claim(statement="The asymptotic variance of a draw is the sandwich plus (1/w) H⁻¹.", check=_variance),
        Claim(statement="A draw is asymptotically normal.", check=_normal),
    ),
    notes={
        "as-published": "K is printed as a product of expectations, zero; E[∂ℓ ∂ℓᵀ] is meant and used.",
        "corrected": "K = E[∂ℓ ∂ℓᵀ]. Epsilon 1.",
    },
)
