# SPDX-License-Identifier: Apache-2.0
"""How sure is each coefficient? Private intervals beside non-private ones, as a forest plot.

    python examples/forest.py                    # writes forest.png
    python examples/forest.py --epsilon 8 --out docs/images

The data ship with scikit-learn: 442 diabetes patients, and how far the disease had progressed a year later.
The private intervals come from the released draws alone, so they cost no privacy beyond epsilon.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes

import onedraw

# Plausible ranges, known without the table, and a step that a reader can picture.
FEATURES = {
    "bmi": ((15.0, 45.0), 5.0, "+5 kg/m² of body mass index"),
    "bp": ((60.0, 140.0), 10.0, "+10 mmHg of blood pressure"),
    "s5": ((3.0, 6.5), 0.5, "+0.5 of log triglycerides"),
}
TARGET, NOISE_FLOOR, NOISE = (0.0, 350.0), 40.0, 60.0
PRIVATE, PLAIN, INK, FAINT = "#0f6b8f", "#d9822b", "#26323a", "#dfe5e8"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0, help="harmless: the data are public")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for forest.png")
    options = parser.parse_args(arguments)

    data = load_diabetes(as_frame=True, scaled=False)
    X, y = data.data[list(FEATURES)], data.target
    model = onedraw.LinearRegression(
        epsilon=options.epsilon,
        draws="auto",
        feature_bounds={name: bounds for name, (bounds, _, _) in FEATURES.items()},
        target_bounds=TARGET,
        mechanism=onedraw.mechanisms.OnePosterior(noise_floor=NOISE_FLOOR, noise_scale=NOISE),
        random_state=options.seed,
    ).fit(X, y)
    try:
        found = model.summary()
    except onedraw.InvalidInput as error:
        parser.error(str(error))
    print(model.guarantee_, model.plan_.reason, "", found, sep="\n")
    steps = np.array([step for _, step, _ in FEATURES.values()])
    private = np.column_stack([found.estimate, found.array()])[: len(steps)] * steps[:, None]
    plain = least_squares(X.to_numpy(), y.to_numpy()) * steps[:, None]
    options.out.mkdir(parents=True, exist_ok=True)
    draw(options.out / "forest.png", private, plain, options.epsilon, len(y))
    print(f"Written to {options.out / 'forest.png'}")
    return 0


def least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Estimate, low and high of each coefficient, not private."""
    design = np.column_stack([X, np.ones(len(X))])
    solution = np.linalg.lstsq(design, y, rcond=None)[0]
    freedom = len(y) - design.shape[1]
    variance = np.square(y - design @ solution).sum() / freedom
    error = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    half = stats.t.ppf(0.975, freedom) * error
    return np.column_stack([solution, solution - half, solution + half])[:-1]


def draw(path: Path, private: np.ndarray, plain: np.ndarray, epsilon: float, n: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.2, 3.6), layout="constrained")
    axes.axvline(0.0, color=INK, linewidth=0.8)
    rows = np.arange(len(private))[::-1]
    for values, offset, colour, name in (
        (plain, 0.14, PLAIN, "not private (least squares)"),
        (private, -0.14, PRIVATE, f"private, ε = {epsilon:g}"),
    ):
        axes.hlines(rows + offset, values[:, 1], values[:, 2], color=colour, linewidth=3)
        axes.plot(values[:, 0], rows + offset, "o", color=colour, markersize=7, label=name)
    axes.set_yticks(rows, [label for _, _, label in FEATURES.values()])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("change in disease progression after a year, with 95% interval", color=INK)
    axes.grid(axis="x", color=FAINT)
    axes.set_axisbelow(True)
    axes.tick_params(left=False, colors=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(f"What {n} diabetes patients say, with and without privacy", loc="left", color=INK)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, labelcolor=INK)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    raise SystemExit(main())
