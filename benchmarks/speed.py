# SPDX-License-Identifier: Apache-2.0
"""Private fit against scikit-learn's non-private fit on the same data, as ratios measured in one run.

Fits are interleaved, so that a noisy machine slows both; the ratio is that of the fastest of each. Memory is
the peak of NumPy's allocations during the fit over the size of the data. Acceptance and passes (log
densities, each a pass over the data) are read from the private diagnostics, which no release contains.

    scripts/bench                              all sizes, printed
    scripts/bench --write                      ... and written to docs/benchmarks.md
    scripts/bench --sizes 1000x2               one size
    scripts/bench --mechanism tilted_fit       another mechanism; only a draw has passes and an acceptance
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import sklearn.linear_model
from _table import machine, markdown, write_section

import onedraw
from onedraw._random import secure_generator
from onedraw.mechanisms import OnePosterior
from onedraw.records import Records
from onedraw.registry import MECHANISMS

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
SIZES = ("1000x2", "45000x10", "45000x100", "1000000x10")


def simulate(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A logistic regression whose linear predictor has standard deviation 1.5 at every d."""
    rng = np.random.default_rng(n + d)
    features = rng.standard_normal((n, d))
    eta = features @ rng.standard_normal(d) * 1.5 / np.sqrt(d)
    return features, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)


def measure(n: int, d: int, repeats: int, mechanism: str) -> list[str]:
    """One row of the table."""
    features, labels = simulate(n, d)
    private = onedraw.LogisticRegression(epsilon=1.0, mechanism=mechanism, classes=[0, 1])
    plain = sklearn.linear_model.LogisticRegression()
    times: dict[str, list[float]] = {"private": [], "plain": []}
    for _ in range(repeats):
        for name, model in (("plain", plain), ("private", private)):
            start = time.perf_counter()
            model.fit(features, labels)
            times[name].append(time.perf_counter() - start)
    tracemalloc.start()
    private.fit(features, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    best = {name: min(values) for name, values in times.items()}
    return [
        f"{n:,}",
        f"{d}",
        f"{1e3 * best['plain']:.1f} ms",
        f"{1e3 * best['private']:.1f} ms",
        f"{best['private'] / best['plain']:.1f}",
        f"{peak / features.nbytes:.2f}",
        *work(private, features, labels),
    ]


def work(private: onedraw.LogisticRegression, features: np.ndarray, labels: np.ndarray) -> list[str]:
    """Passes of one draw and acceptance of many, where there is a posterior to draw from. Private."""
    drawn = private.plan(features).mechanism
    if not isinstance(drawn, OnePosterior):
        return ["-", "-"]
    records = Records(features=features, response=labels.astype(float))
    many = drawn.draws(records, 200 if features.shape[1] < 50 else 20, secure_generator())
    one = drawn.draws(records, 1, secure_generator())
    return [f"{one.diagnostics['passes']:.0f}", f"{many.diagnostics['acceptance']:.3f}"]


def import_ratio(repeats: int = 5) -> float:
    """Time of importing onedraw over that of scikit-learn's linear_model, fastest of interleaved runs."""
    best = {"onedraw": np.inf, "sklearn.linear_model": np.inf}
    for _ in range(repeats):
        for name in best:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
            best[name] = min(best[name], time.perf_counter() - start)
    return float(best["onedraw"] / best["sklearn.linear_model"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="NxD")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--mechanism", choices=list(MECHANISMS), default=OnePosterior.name, metavar="NAME")
    parser.add_argument("--write", action="store_true", help="write the table to docs/benchmarks.md")
    options = parser.parse_args()
    header = ["n", "d", "scikit-learn", "private", "ratio", "memory / data", "passes", "acceptance"]
    rows = []
    for size in options.sizes:
        n, d = (int(part) for part in size.split("x"))
        rows.append(measure(n, d, options.repeats, options.mechanism))
        print("  ".join(rows[-1]), flush=True)
    table = markdown(header, rows)
    note = f"Importing onedraw takes {import_ratio():.2f} times as long as importing `sklearn.linear_model`."
    text = f"{table}\n\n{note} Measured on {machine()}."
    print(f"\n{text}")
    if options.write:
        write_section(PAGE, "speed", text)


if __name__ == "__main__":
    main()
