# SPDX-License-Identifier: Apache-2.0
"""How sure is each coefficient? Private intervals beside non-private ones, as a forest plot.

    python examples/forest.py                    # writes forest.png
    python examples/forest.py --epsilon 8 --out docs/images

The data ship with scikit-learn: 442 diabetes patients, and how far the disease had progressed a year later.
The private intervals come from the release alone, so they cost no privacy beyond epsilon.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes

import onedraw
from onedraw.uncertainty import Intervals

# Where most patients are, known without the table (nothing is clipped there: a record outside counts for
# less), and a step that a reader can picture. Triglycerides of 45 to 270 mg/dl have logarithms of 3.8 to 5.6.
FEATURES = {
    "bmi": ((18.0, 35.0), 5.0, "+5 kg/m² of body mass index"),
    "bp": ((70.0, 120.0), 10.0, "+10 mmHg of blood pressure"),
    "s5": ((3.8, 5.6), 0.5, "+0.5 of log triglycerides"),
}
TARGET, NOISE_FLOOR, NOISE = (0.0, 350.0), 40.0, 60.0
INK = "#26323a"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0, help="harmless: the data are public")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for forest.png")
    options = parser.parse_args(arguments)

    data = load_diabetes(as_frame=True, scaled=False)
    X, y = data.data[list(FEATURES)], data.target
    try:
        found = private(X, y, epsilon=options.epsilon, seed=options.seed)
    except onedraw.InvalidInput as error:
        parser.error(str(error))
    plain = least_squares(X.to_numpy(), y.to_numpy())
    axes = found.plot(
        names=list(FEATURES),
        per={name: step for name, (_, step, _) in FEATURES.items()},
        reference=dict(zip(FEATURES, plain, strict=True)),
    )
    label(axes, options.epsilon, len(y))
    options.out.mkdir(parents=True, exist_ok=True)
    axes.figure.savefig(options.out / "forest.png", dpi=110)
    print(f"Written to {options.out / 'forest.png'}")
    return 0


def private(X: Any, y: Any, *, epsilon: float, seed: int) -> Intervals:
    """The summary of a private fit by default, or of several draws where that has no intervals."""
    common = {
        "epsilon": epsilon,
        "feature_bounds": {name: bounds for name, (bounds, _, _) in FEATURES.items()},
        "target_bounds": TARGET,
        "random_state": seed,
    }
    model = onedraw.LinearRegression(**common).fit(X, y)
    try:
        found = model.summary()
    except onedraw.InvalidInput as error:
        print(f"The default fit has no intervals here, so several draws are released instead. {error}")
        draws = onedraw.mechanisms.OnePosterior(noise_floor=NOISE_FLOOR, noise_scale=NOISE)
        model = onedraw.LinearRegression(**common, draws="auto", mechanism=draws).fit(X, y)
        found = model.summary()
    print(model.plan_.reason, found, sep="\n")
    return found


def least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Estimate, low and high of each coefficient, not private."""
    design = np.column_stack([X, np.ones(len(X))])
    solution = np.linalg.lstsq(design, y, rcond=None)[0]
    freedom = len(y) - design.shape[1]
    variance = np.square(y - design @ solution).sum() / freedom
    error = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    half = stats.t.ppf(0.975, freedom) * error
    return np.column_stack([solution, solution - half, solution + half])[:-1]


def label(axes: Any, epsilon: float, n: int) -> None:
    """Say what is drawn, in words that need no context."""
    axes.figure.set_size_inches(8.2, 3.7)
    axes.set_yticks(axes.get_yticks(), [name for _, _, name in FEATURES.values()])
    axes.set_xlabel("change in disease progression after a year, with 95% interval", color=INK)
    axes.set_title(f"What {n} diabetes patients say, with and without privacy", loc="left", color=INK)
    handles, _ = axes.get_legend_handles_labels()
    named = ["not private (least squares)", f"private, ε = {epsilon:g}"]
    axes.legend(handles, named, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


if __name__ == "__main__":
    raise SystemExit(main())
