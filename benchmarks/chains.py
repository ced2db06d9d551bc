# SPDX-License-Identifier: Apache-2.0
"""Private Markov chains, perfect sampling, the exact draw and the tilted fit on the same logistic posteriors.

Rules, fixed before the study was run. Features uniform on [-1, 1]^d with that range declared, coefficients
N(0, 1), an intercept N(0, 1/4); delta 1e-6, replace-one. Every mechanism runs with its defaults, apart from
``feature_norm`` = sqrt(d + 1) where it has one, at most 500 passes for a chain, and 512 proposals for
``ProposalDraw``. Mechanisms that release several states release 20 and the estimate is their mean; the others
release one. Pure mechanisms get no delta.

* error: root mean squared error of the estimate over parameters and repetitions, against the truth; and
  against the mean of the non-private posterior at beta 1.5 and weight 1 (200 exact draws).
* coverage: the share of true parameters within the central 90% of the 20 released states; for the tilted fit,
  its 90% intervals where it gives them (``inference=True``, with a fifth of epsilon: a row of its own).
* passes: evaluations of the log posterior or its gradient, in passes over all records; those of the tilted
  fit, a handful, are not counted. Seconds are those of the processor.
* The best of a cell has the smallest error against the truth; what is within a factor 1.1 of it is as good.

* Repetition k of all cells comes before repetition k + 1 of any, and only whole repetitions are told, so that
  all mechanisms and cells have equally many. A mechanism that refuses (``fast_mh`` without a gain, intervals
  with too few records) has no row.

The table of errors over the tilted fit's was added when the first repetition had been seen; it has the same
numbers.

``private_sgld, sampled`` takes a tenth of the records in a step. The rules are those of an earlier study of
fewer repetitions, which was looked at; what has changed since are the decisions and the accounting of
``minibatch_barker``, sampled Langevin steps, the order of the runs, and the mechanisms themselves. All was
begun anew.

Each repetition is written down at once:

    scripts/bench chains --minutes 60 --write     table and picture of docs/chains.md; goes on where it was
    scripts/bench chains --size smoke             what the tests run
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _table import machine, markdown, write_section

import onedraw
from onedraw.families import Bernoulli
from onedraw.losses import BetaDivergence
from onedraw.mechanisms import (
    AtomSampler,
    DefensiveRejection,
    FastMH,
    MinibatchBarker,
    OnePosterior,
    PenaltyChain,
    PrivateBarker,
    PrivateHMC,
    PrivateSGLD,
    ProposalDraw,
    Shape,
    TiltedFit,
)
from onedraw.model import RegressionModel
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.privacy import Request
from onedraw.samplers import RejectionSampler

ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "docs" / "chains.md", ROOT / "docs" / "images" / "chains.png"
SIZES: dict[str, dict[str, tuple]] = {
    "smoke": {"n": (300,), "d": (2,), "epsilon": (2.0,)},
    "paper": {"n": (1000, 10_000, 100_000), "d": (2, 10), "epsilon": (0.5, 1.0, 5.0)},
}
REPEATS = {"smoke": 1, "paper": 20}
DELTA, STATES, PASSES, PROPOSALS, SAMPLED = 1e-6, 20, 500, 512, 0.1
CHAINS = ("private", "penalty", "minibatch", "fast")
"""How the names of chains begin."""
HEADER = [
    "features",
    "n",
    "epsilon",
    "mechanism",
    "error",
    "from posterior",
    "coverage",
    "passes",
    "seconds",
    "repeats",
]


def mechanisms(d: int, passes: int = PASSES) -> dict[str, tuple[Any, int]]:
    """By name, with the number of states to release."""
    chain: dict[str, Any] = {"feature_norm": math.sqrt(d + 1), "most_passes": passes}
    return {
        "tilted_fit": (TiltedFit(inference=False), 1),
        "tilted_fit, intervals": (TiltedFit(inference=True), 1),
        "one_posterior": (OnePosterior(), 1),
        "one_posterior, 20": (OnePosterior(), STATES),
        "proposal_draw": (ProposalDraw(proposals=PROPOSALS), 1),
        "defensive_rejection": (DefensiveRejection(), 1),
        "atom_sampler": (AtomSampler(), 1),
        "private_barker": (PrivateBarker(**chain), STATES),
        "minibatch_barker": (MinibatchBarker(**chain), STATES),
        "fast_mh": (FastMH(**chain), STATES),
        "penalty_chain": (PenaltyChain(**chain), STATES),
        "private_hmc": (PrivateHMC(**chain), STATES),
        "private_sgld": (PrivateSGLD(**chain), STATES),
        "private_sgld, sampled": (PrivateSGLD(**chain, sampling_rate=SAMPLED), STATES),
    }


def simulate(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([7, n, d, seed])
    truth = rng.standard_normal(d + 1) * np.append(np.ones(d), 0.5)
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ truth[:d] - truth[d]))).astype(int), truth


@functools.lru_cache(maxsize=64)
def posterior_mean(n: int, d: int, seed: int) -> np.ndarray:
    X, y, _ = simulate(n, d, seed)
    posterior = Posterior(
        loss=BetaDivergence(Bernoulli()),
        beta=1.5,
        weight=1.0,
        prior=Prior(scale=3.0),
        features=X,
        response=y.astype(float),
    )
    draws = RejectionSampler(num_proposals=64).sample(posterior, 200, np.random.default_rng([8, seed]))
    return np.asarray(draws.values.mean(axis=0))


@contextlib.contextmanager
def counted_passes() -> Iterator[list[float]]:
    """Passes over the records of every posterior that is made inside; some are made of a few of them."""
    made, settle = [], Posterior.__init__

    def noting(self: Any, *args: Any, **named: Any) -> None:
        settle(self, *args, **named)
        made.append(self)

    passes: list[float] = []
    Posterior.__init__ = noting  # type: ignore[method-assign]
    try:
        yield passes
    finally:
        Posterior.__init__ = settle  # type: ignore[method-assign]
        most = max((posterior.num_records for posterior in made), default=1)
        passes += [posterior.passes[0] * posterior.num_records / most for posterior in made]


def measure(name: str, n: int, d: int, epsilon: float, seed: int, centre: np.ndarray) -> dict[str, Any]:
    """One repetition: squared errors, coverage, passes and seconds."""
    X, y, truth = simulate(n, d, seed)
    mechanism, states = mechanisms(d)[name]
    pure = mechanism.requirements.delta == "unused" or (states == 1 and not name.startswith("tilted"))
    model = onedraw.LogisticRegression(
        epsilon=epsilon,
        delta=0.0 if pure else DELTA,
        draws=states,
        mechanism=mechanism,
        classes=[0, 1],
        feature_bounds=(-1.0, 1.0),
        random_state=int(np.random.SeedSequence([9, n, d, seed, round(100 * epsilon)]).generate_state(1)[0]),
    )
    with counted_passes() as passes:
        start = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - start
    found = model.release_.parameters.flat()
    estimate, covered = found.mean(axis=0), None
    if name == "tilted_fit, intervals":
        try:
            ends = np.asarray(model.conf_int(0.9))
        except onedraw.InvalidInput:  # it declines where the noise hides the curvature
            ends = None
    elif states > 1:
        ends = np.quantile(found, [0.05, 0.95], axis=0).T
    else:
        ends = None
    if ends is not None:
        covered = float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))
    return {
        "error": float(np.mean((estimate - truth) ** 2)),
        "from_posterior": float(np.mean((estimate - centre) ** 2)),
        "coverage": covered,
        "passes": sum(passes) or None,
        "seconds": seconds,
    }


def study(size: str, minutes: float, path: Path) -> None:
    """Run what is not yet in the file, in the order of the rules, until the time is up."""
    cells = SIZES[size]
    done = (
        {tuple(json.loads(line)["key"]) for line in path.read_text().splitlines()} if path.exists() else set()
    )
    runs = [
        (n, d, epsilon, seed)
        for n in cells["n"]
        for d in cells["d"]
        for epsilon in cells["epsilon"]
        for seed in range(REPEATS[size])
    ]
    start = time.monotonic()
    for n, d, epsilon, seed in sorted(runs, key=lambda run: (run[3], run)):
        names = [name for name in mechanisms(d) if (name, n, d, epsilon, seed) not in done]
        if not names:
            continue
        centre = posterior_mean(n, d, seed)
        for name in names:
            if time.monotonic() - start > 60.0 * minutes:
                return
            try:
                found = measure(name, n, d, epsilon, seed, centre)
            except (onedraw.CalibrationError, onedraw.InvalidInput):
                found = {"refused": True}
            with path.open("a") as file:
                file.write(json.dumps({"key": (name, n, d, epsilon, seed), **found}) + "\n")


def summary(path: Path) -> list[dict[str, Any]]:
    """One row for each cell and mechanism."""
    groups: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    found_rows = [json.loads(line) for line in path.read_text().splitlines()]
    by_seed = Counter(row["key"][-1] for row in found_rows)
    whole = {seed for seed, count in by_seed.items() if count == max(by_seed.values())}
    for row in found_rows:
        name, n, d, epsilon, seed = row["key"]
        if "refused" in row or seed not in whole:
            continue
        groups[d, n, epsilon, name].append(row)
    rows = []
    for (d, n, epsilon, name), found in groups.items():
        mean: dict[str, float | None] = {}
        for key in ("error", "from_posterior", "coverage", "passes", "seconds"):
            known = [row[key] for row in found if row[key] is not None]
            mean[key] = float(np.mean(known)) if known else None
        rows.append({"d": d, "n": n, "epsilon": epsilon, "name": name, "repeats": len(found), **mean})
    order = list(mechanisms(2))
    return sorted(rows, key=lambda row: (row["d"], row["n"], row["epsilon"], order.index(row["name"])))


def table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        lines.append(
            [
                str(row["d"]),
                f"{row['n']:,}",
                f"{row['epsilon']:g}",
                row["name"],
                f"{math.sqrt(row['error']):.3f}",
                f"{math.sqrt(row['from_posterior']):.3f}",
                "" if row["coverage"] is None else f"{row['coverage']:.2f}",
                "" if row["passes"] is None else f"{row['passes']:,.0f}",
                f"{row['seconds']:.1f}",
                str(row["repeats"]),
            ]
        )
    return markdown(HEADER, lines)


def winners(rows: list[dict[str, Any]]) -> str:
    """The best of each cell by the rules, and what is as good."""
    cells = defaultdict(list)
    for row in rows:
        cells[row["d"], row["n"], row["epsilon"]].append(row)
    lines = []
    for (d, n, epsilon), found in cells.items():
        best = min(row["error"] for row in found)
        good = [row["name"] for row in found if row["error"] <= 1.21 * best]
        chains = [row for row in found if row["name"].startswith(CHAINS)]
        chain = min(chains, key=lambda row: row["error"], default=None)
        told = "" if chain is None else f"{chain['name']}: {math.sqrt(chain['error'] / best):.1f}"
        repeats = str(min(row["repeats"] for row in found))
        lines.append(
            [str(d), f"{n:,}", f"{epsilon:g}", ", ".join(good), f"{math.sqrt(best):.3f}", told, repeats]
        )
    header = ["features", "n", "epsilon", "best, or as good", "error", "best chain, times that", "repeats"]
    return markdown(header, lines)


def against_the_default(rows: list[dict[str, Any]]) -> str:
    """Errors over that of the tilted fit: geometric means over epsilon, moved less by chance in one cell."""
    error = {(row["name"], row["d"], row["n"], row["epsilon"]): row["error"] for row in rows}
    cells = sorted({(row["d"], row["n"]) for row in rows})
    epsilons = sorted({row["epsilon"] for row in rows})
    lines = []
    for name in mechanisms(2):
        line = [name]
        for d, n in cells:
            found = [e for e in epsilons if (name, d, n, e) in error and ("tilted_fit", d, n, e) in error]
            logs = [0.5 * math.log(error[name, d, n, e] / error["tilted_fit", d, n, e]) for e in found]
            line.append(f"{math.exp(float(np.mean(logs))):.1f}" if logs else "")
        lines.append(line)
    return markdown(["mechanism", *(f"{d} features, n = {n:,}" for d, n in cells)], lines)


def planned() -> str:
    """What ``plan`` says of each chain, without any data: weight of the loss, and independent states."""
    kinds = [name for name in mechanisms(2) if name.startswith(CHAINS)]
    lines = []
    for epsilon, d, n in itertools.product((1.0, 5.0), SIZES["paper"]["d"], SIZES["paper"]["n"]):
        model = RegressionModel(family=Bernoulli(), features=tuple(f"x{j}" for j in range(d)))
        line = [f"{epsilon:g}", str(d), f"{n:,}"]
        for name in kinds:
            request = Request(epsilon=epsilon, delta=DELTA, draws=STATES)
            found = mechanisms(d)[name][0].calibrate(request, Shape(model=model, num_records=n)).tuning
            line.append(f"{found.weight:.3g} ({found.effective:.0f})")
        lines.append(line)
    return markdown(["epsilon", "features", "n", *kinds], lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Errors against the truth by n, a panel for each number of features and epsilon."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    widths, epsilons = sorted({r["d"] for r in rows}), sorted({r["epsilon"] for r in rows})
    figure, axes = plt.subplots(
        len(widths), len(epsilons), figsize=(11, 6.5), sharex=True, sharey=True, squeeze=False
    )
    for i, d in enumerate(widths):
        for j, epsilon in enumerate(epsilons):
            panel = axes[i, j]
            for place, name in enumerate(mechanisms(2)):
                line = [r for r in rows if (r["d"], r["epsilon"], r["name"]) == (d, epsilon, name)]
                style = "o-" if name.startswith(CHAINS) else "s--"
                panel.loglog(
                    [r["n"] for r in line],
                    [math.sqrt(r["error"]) for r in line],
                    style,
                    color=plt.get_cmap("tab20")(place),
                    ms=3,
                    lw=1,
                    label=name,
                )
            panel.set_title(f"{d} features, epsilon {epsilon:g}", fontsize=9)
            panel.grid(alpha=0.3)
    axes[-1, 0].set_xlabel("records")
    axes[0, 0].set_ylabel("error against the truth")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=7, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="paper")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=Path("chains.jsonl"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    study(options.size, options.minutes, options.results)
    rows = summary(options.results)
    text = f"{winners(rows)}\n\n{against_the_default(rows)}\n\n{table(rows)}\n\nRun on {machine()}."
    print(text)
    if options.write:
        write_section(PAGE, "chains", text)
        write_section(PAGE, "chain plans", planned())
        draw(rows, PICTURE)
    return rows


if __name__ == "__main__":
    main()
