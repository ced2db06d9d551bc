# SPDX-License-Identifier: Apache-2.0
"""Root mean squared error of the released parameters: beta="auto" against beta="paper" (weight 1).

The simulated design of the paper: normal features clipped to [-4, 4] and mapped to [0, 1], two of them and
an intercept, coefficients N(0, 3^2). Both choices see the same data. ``centred`` moves the intercept so that
the mean linear predictor is zero, as the paper's code does; otherwise it is drawn like the coefficients.

A release is one draw; its expected squared error on a data set is estimated by the mean over several
independent draws, so that the comparison of the two choices is one of posteriors and not of luck.

    scripts/bench choice_of_beta                       the full table (50 repetitions, n up to 100,000)
    scripts/bench choice_of_beta --write               ... and written to docs/benchmarks.md
    scripts/bench choice_of_beta --sizes 1000 --repeats 5
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from _table import markdown, write_section
from joblib import Parallel, delayed

import onedraw

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
EPSILONS = (0.2, 0.5, 1.0, 2.0, 5.0)
DRAWS = 24


def simulate(n: int, seed: int, *, centred: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and the true (coefficients, intercept)."""
    rng = np.random.default_rng(seed)
    features = np.clip(rng.standard_normal((n, 2)), -4, 4) / 8 + 0.5
    truth = 3.0 * rng.standard_normal(3)
    if centred:
        truth[2] = -0.5 * truth[:2].sum()
    eta = features @ truth[:2] + truth[2]
    return features, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int), truth


def squared_errors(n: int, seed: int, *, centred: bool) -> np.ndarray:
    """Expected squared error of one draw, mean over the parameters, (epsilons, 2): auto and paper."""
    features, labels, truth = simulate(n, seed, centred=centred)
    errors = np.empty((len(EPSILONS), 2))
    for i, epsilon in enumerate(EPSILONS):
        for j, beta in enumerate(("auto", "paper")):
            mechanism = onedraw.mechanisms.OnePosterior(beta=beta)
            model = onedraw.LogisticRegression(epsilon=epsilon, mechanism=mechanism, classes=[0, 1])
            draws = onedraw.unsafe.posterior_draws(model, features, labels, draws=DRAWS, random_state=seed)
            errors[i, j] = np.mean((draws - truth) ** 2)
    return errors


def compare(n: int, repeats: int, *, centred: bool, jobs: int = 2) -> np.ndarray:
    """Squared errors, (repeats, epsilons, 2)."""
    tasks = (delayed(squared_errors)(n, seed, centred=centred) for seed in range(repeats))
    return np.stack(list(Parallel(n_jobs=jobs)(tasks)))


def summarise(errors: np.ndarray) -> list[list[str]]:
    """One row per epsilon: RMSE of both, their ratio with a bootstrap interval, and the ratio of medians."""
    rng = np.random.default_rng(0)
    rows = []
    for i, epsilon in enumerate(EPSILONS):
        auto, paper = errors[:, i, 0], errors[:, i, 1]
        picks = rng.integers(0, len(auto), (2000, len(auto)))
        ratios = np.sqrt(auto[picks].mean(axis=1) / paper[picks].mean(axis=1))
        low, high = np.quantile(ratios, [0.025, 0.975])
        rows.append(
            [
                f"{epsilon:g}",
                f"{np.sqrt(auto.mean()):.3f}",
                f"{np.sqrt(paper.mean()):.3f}",
                f"{np.sqrt(auto.mean() / paper.mean()):.2f} ({low:.2f} to {high:.2f})",
                f"{np.sqrt(np.median(auto) / np.median(paper)):.2f}",
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=(1000, 10_000, 100_000), metavar="N")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--write", action="store_true", help="write the tables to docs/benchmarks.md")
    options = parser.parse_args()
    header = ["intercept", "n", "epsilon", "auto", "paper", "auto / paper (95%)", "medians"]
    rows = []
    for centred in (False, True):
        for n in options.sizes:
            errors = compare(n, options.repeats, centred=centred)
            name = "centred" if centred else "N(0, 3^2)"
            rows += [[name, f"{n:,}", *row] for row in summarise(errors)]
            print(*("  ".join(row) for row in rows[-len(EPSILONS) :]), sep="\n", flush=True)
    table = markdown(header, rows)
    if options.write:
        said = f"{options.repeats} repetitions, {DRAWS} draws of each posterior."
        write_section(PAGE, "choice_of_beta", f"{table}\n\n{said}")


if __name__ == "__main__":
    main()
