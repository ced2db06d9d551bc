# SPDX-License-Identifier: Apache-2.0
"""Publish a breast-cancer classifier with differential privacy, beside the one that is not private.

    scripts/demo                          # epsilon 1, secure random numbers
    scripts/demo --epsilon 0.5 --out out  # a smaller epsilon, files into the folder out
    scripts/demo --seed 1                 # the same numbers each time; the release says that it is seeded

The data ship with scikit-learn: 569 biopsies, measured from images of cell nuclei, benign or malignant. They
are public, which is why this script may show what a real release must not: held-out accuracy, and many fits
to the same table.

It publishes a tilted fit, the default of the package.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import onedraw

# What is plausible for such a measurement, in round numbers from outside the table: a radius in units of the
# image, the spread of grey values, and an index of shape that starts at 0. Computing them from the table
# would leak it. They only set units: nothing is clipped, and values beyond them count for less.
BOUNDS = {
    "mean radius": (5.0, 30.0),
    "mean texture": (5.0, 40.0),
    "mean concavity": (0.0, 0.5),
}
CLASSES = ["benign", "malignant"]
PRIOR_SCALE = 3.0
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
PRIVATE, PLAIN, INK, FAINT = "#0f6b8f", "#d9822b", "#26323a", "#dfe5e8"


def main(arguments: list[str] | None = None) -> int:
    """Fit, print, write."""
    options = _options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    # The import of matplotlib is tried first, so that a missing extra costs no release.
    pyplot = None if options.no_plot else import_pyplot()
    X_train, X_test, y_train, y_test = load()

    private = fit_private(X_train, y_train, options.epsilon, options.seed)
    plain = fit_plain(X_train, y_train)
    private.release_.to_json(options.out / "release.json")

    print_guarantee(private)
    print_coefficients(private, plain)
    print_accuracy(private, plain, X_test, y_test)
    print_small_print(private)
    print(f"\nWrote {options.out / 'release.json'}", end="")
    if pyplot is not None:
        fits = refit(X_train, y_train, options)
        draw(pyplot, options, private, plain, fits, X_test, y_test)
        print(f" and {options.out / 'demo.png'}", end="")
    print(".")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--epsilon", type=float, default=1.0, help="the privacy loss, the only number to choose"
    )
    parser.add_argument("--seed", type=int, help="for a reproducible run; never for a real release")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for release.json and demo.png")
    parser.add_argument("--repeats", type=int, default=12, help="fits per epsilon behind the picture")
    parser.add_argument("--no-plot", action="store_true", help="write no picture")
    return parser.parse_args(arguments)


def import_pyplot() -> Any:
    """matplotlib.pyplot on a canvas without a window, or an error that says how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise onedraw.MissingExtra("The picture (or run with --no-plot)", "plots") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


# -- data and models -----------------------------------------------------------------------------------------


def load() -> list[Any]:
    """Train and test parts of three public features; the class is a word."""
    data = load_breast_cancer()
    columns = [list(data.feature_names).index(name) for name in BOUNDS]
    labels = np.where(data.target == 0, "malignant", "benign")
    return list(
        train_test_split(data.data[:, columns], labels, test_size=0.3, random_state=0, stratify=labels)
    )


def fit_private(X: Any, y: Any, epsilon: float, seed: Any) -> onedraw.LogisticRegression:
    model = onedraw.LogisticRegression(
        epsilon=epsilon,
        classes=CLASSES,
        feature_bounds=list(BOUNDS.values()),
        random_state=seed,
    )
    return model.fit(X, y)


def fit_plain(X: Any, y: Any) -> Any:
    """scikit-learn's fit in the same working units and with a normal prior (C is its variance)."""
    return LogisticRegression(C=PRIOR_SCALE**2, max_iter=10_000).fit(to_working(X), y)


def to_working(X: Any) -> Any:
    low, high = np.array(list(BOUNDS.values())).T
    return (2.0 * X - low - high) / (high - low)


def half_ranges() -> Any:
    low, high = np.array(list(BOUNDS.values())).T
    return 0.5 * (high - low)


def score_both(private: Any, plain: Any, X: Any, y: Any) -> list[tuple[str, float, float]]:
    malignant = y == "malignant"
    return [
        ("accuracy", private.score(X, y), plain.score(to_working(X), y)),
        (
            "area under ROC",
            roc_auc_score(malignant, private.decision_function(X)),
            roc_auc_score(malignant, plain.decision_function(to_working(X))),
        ),
    ]


# -- text ----------------------------------------------------------------------------------------------------


def say(text: str, indent: str = "") -> None:
    print(textwrap.fill(text, width=88, initial_indent=indent, subsequent_indent=" " * len(indent)))


def print_guarantee(private: Any) -> None:
    print("The guarantee")
    say(str(private.guarantee_))


def print_coefficients(private: Any, plain: Any) -> None:
    plain_coef = plain.coef_[0] / half_ranges()
    low, high = np.array(list(BOUNDS.values())).T
    plain_intercept = plain.intercept_[0] - plain_coef @ (0.5 * (low + high))
    rows = [*zip(BOUNDS, private.coef_[0], plain_coef, strict=True)]
    rows.append(("(intercept)", private.intercept_[0], plain_intercept))
    print("\nCoefficients (log-odds of malignant, per unit of the feature)")
    print(f"  {'':<18}{'private':>12}{'not private':>14}")
    for name, ours, theirs in rows:
        print(f"  {name:<18}{ours:>12.3f}{theirs:>14.3f}")


def print_accuracy(private: Any, plain: Any, X: Any, y: Any) -> None:
    print(f"\nOn {len(y)} held-out biopsies")
    print(f"  {'':<18}{'private':>12}{'not private':>14}")
    for name, ours, theirs in score_both(private, plain, X, y):
        print(f"  {name:<18}{ours:>12.3f}{theirs:>14.3f}")
    say("For demonstration, on public data: scores on private records are not part of the release.")


def print_small_print(private: Any) -> None:
    release = private.release_
    print("\nEvidence")
    say(str(release.evidence))
    print("\nWhat the guarantee assumes")
    for assumption in release.assumptions:
        say(assumption, indent="  - ")
    if release.seeded:
        print()
        say("SEEDED: whoever knows the seed can undo the privacy. Never publish such a release.")


# -- picture -------------------------------------------------------------------------------------------------


def refit(X: Any, y: Any, options: argparse.Namespace) -> dict[float, list[Any]]:
    """Many releases of one table, to show their spread. On private data each would cost its epsilon."""
    seeds = np.random.SeedSequence(options.seed) if options.seed is not None else None
    epsilons = sorted({*EPSILONS, options.epsilon})
    fits: dict[float, list[Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onedraw.NoiseWarning)  # the picture shows the noise
        for epsilon in epsilons:
            states = [None] * options.repeats if seeds is None else seeds.spawn(options.repeats)
            fits[epsilon] = [fit_private(X, y, epsilon, state) for state in states]
    return fits


def draw(pyplot: Any, options: Any, private: Any, plain: Any, fits: Any, X_test: Any, y_test: Any) -> None:
    style = {
        "font.size": 10.5,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with pyplot.rc_context(style):
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(10.4, 4.3), gridspec_kw={"width_ratios": [1.0, 1.12], "wspace": 0.22}
        )
        draw_coefficients(left, private, plain, fits[options.epsilon])
        draw_accuracy(right, options, private, plain, fits, X_test, y_test)
        seeded = (
            f"seed {options.seed}: a seeded demonstration on public data" if options.seed is not None else ""
        )
        figure.text(0.995, 0.012, seeded, ha="right", va="bottom", fontsize=8, color="#7b8a93")
        figure.subplots_adjust(left=0.105, right=0.985, top=0.84, bottom=0.15)
        figure.savefig(options.out / "demo.png", dpi=120, metadata={"Software": None})
        pyplot.close(figure)


def draw_coefficients(axes: Any, private: Any, plain: Any, fits: list[Any]) -> None:
    unit = half_ranges()
    height = np.arange(len(BOUNDS))[::-1]
    dot = {"color": PRIVATE, "markersize": 6, "markeredgewidth": 0}
    for fit in fits:
        axes.plot(fit.coef_[0] * unit, height, "o", alpha=0.18, zorder=2, **dot)
    axes.plot([], [], "o", alpha=0.25, label="other releases", **dot)
    axes.hlines(height, private.coef_[0] * unit, plain.coef_[0], color="#b8c4ca", linewidth=1.6, zorder=1)
    ours, theirs = "private, this release", "not private"
    axes.plot(private.coef_[0] * unit, height, "o", color=PRIVATE, markersize=10, label=ours, zorder=4)
    axes.plot(plain.coef_[0], height, "D", color=PLAIN, markersize=8, label=theirs, zorder=3)
    axes.axvline(0.0, color="#9fadb5", linewidth=1.0, zorder=0)
    axes.set_yticks(height, [name.replace("mean ", "") for name in BOUNDS])
    axes.set_ylim(-0.6, len(BOUNDS) - 0.4)
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("log-odds of malignant per half of the public range")
    axes.set_title("Coefficients", loc="left", fontsize=12.5, fontweight="bold", pad=30)
    handles, labels = axes.get_legend_handles_labels()
    order = [1, 2, 0]
    axes.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=3,
        frameon=False,
        fontsize=9,
        handletextpad=0.2,
        columnspacing=1.2,
        borderaxespad=0.1,
    )


def draw_accuracy(axes: Any, options: Any, private: Any, plain: Any, fits: Any, X: Any, y: Any) -> None:
    epsilons = list(fits)
    scores = np.array([[100.0 * fit.score(X, y) for fit in fits[epsilon]] for epsilon in epsilons])
    majority = 100.0 * max(np.mean(y == name) for name in CLASSES)
    reference = 100.0 * plain.score(to_working(X), y)
    spread = np.exp(np.linspace(-0.09, 0.09, scores.shape[1])) if scores.shape[1] > 1 else np.ones(1)
    for epsilon, row in zip(epsilons, scores, strict=True):
        axes.plot(epsilon * spread, row, "o", color=PRIVATE, alpha=0.28, markersize=5.5, markeredgewidth=0)
    axes.plot(epsilons, np.median(scores, axis=1), "-", color=PRIVATE, linewidth=2.0, label="median")
    here = 100.0 * private.score(X, y)
    axes.plot([options.epsilon], [here], "o", color=PRIVATE, markersize=10, markeredgecolor="white", zorder=5)
    axes.axhline(reference, color=PLAIN, linewidth=1.8)
    axes.axhline(majority, color="#9fadb5", linewidth=1.2, linestyle=(0, (4, 3)))
    edge = epsilons[-1] * 1.35
    axes.set_xscale("log")
    axes.set_xlim(epsilons[0] / 1.35, edge)
    lowest = min(float(scores.min()), majority)
    axes.set_ylim(min(lowest, majority) - 4.0, 101.5)
    label = {"ha": "right", "fontsize": 9.5}
    axes.text(edge, reference + 3.0, f"not private {reference:.1f}%", va="bottom", color=PLAIN, **label)
    axes.text(edge, majority - 1.0, f"always “benign” {majority:.0f}%", va="top", color="#6d7c85", **label)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f}%" if value <= 100 else "")
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("epsilon (smaller is more private)")
    axes.set_title("Held-out accuracy", loc="left", fontsize=12.5, fontweight="bold", pad=30)
    note = f"each dot is one release; large dot: this one, {here:.1f}%; line: median"
    axes.text(0.0, 1.035, note, transform=axes.transAxes, fontsize=9, color="#56646c")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except onedraw.OnedrawError as error:
        sys.exit(f"error: {error}")
