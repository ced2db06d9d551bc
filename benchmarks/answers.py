# SPDX-License-Identifier: Apache-2.0
"""Do the intervals of onedraw.mean, proportion, rate and compare cover? Simulated tables say.

    python benchmarks/answers.py --repeats 200

Each repetition makes a table, asks once, and looks whether the 95% interval holds the truth; "width" is the
median ratio to the usual interval without privacy, "none" counts answers without an interval.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field

import numpy as np

import onedraw
from onedraw.inference import Inference, infer_many
from onedraw.uncertainty.from_curvature import original_units
from onedraw.uncertainty.released import released_of

GROUPS = ("a", "b")
BATCH = 25


@dataclass
class Tally:
    """What became of the answers to one question."""

    covered: int = 0
    given: int = 0
    none: int = 0
    widths: list[float] = field(default_factory=list)


def _halves(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    group = np.array(GROUPS)[rng.integers(0, 2, n)]
    return group, group == "b"


def _error(values: np.ndarray, second: np.ndarray | None = None) -> float:
    """The standard error of a mean, or of the difference of two."""
    parts = [values] if second is None else [values[second], values[~second]]
    return float(np.sqrt(sum(part.var() / len(part) for part in parts)))


def proportion(rng, n, share=0.3, **options):
    values = rng.random(n) < share
    return onedraw.proportion(values, random_state=rng, **options), share, _error(values)


def counts(rng, n, rate=1.5, **options):
    values = rng.poisson(rate, n)
    return onedraw.rate(values, random_state=rng, **options), rate, _error(values)


def skewed_mean(rng, n, high=100.0, **options):
    """A gamma law held to [0, 100]: the mean of what is held is 20 to three digits."""
    values = np.minimum(rng.gamma(2.0, 10.0, n), 100.0)
    return onedraw.mean(values, bounds=(0.0, high), random_state=rng, **options), 20.0, _error(values)


def symmetric_mean(rng, n, **options):
    values = rng.normal(170.0, 8.0, n)
    return onedraw.mean(values, symmetric=True, random_state=rng, **options), 170.0, _error(values)


def difference(rng, n, **options):
    group, second = _halves(rng, n)
    values = rng.random(n) < np.where(second, 0.35, 0.3)
    found = onedraw.compare(values, group, of="proportion", groups=GROUPS, random_state=rng, **options)
    return found, 0.05, _error(values, second)


def difference_of_rates(rng, n, **options):
    group, second = _halves(rng, n)
    values = rng.poisson(np.where(second, 2.0, 1.5))
    found = onedraw.compare(values, group, of="rate", groups=GROUPS, random_state=rng, **options)
    return found, 0.5, _error(values, second)


def difference_of_means(rng, n, **options):
    group, second = _halves(rng, n)
    values = rng.beta(np.where(second, 3.0, 2.0), 4.0)
    truth = 3.0 / 7.0 - 2.0 / 6.0
    found = onedraw.compare(
        values, group, of="mean", bounds=(0, 1), groups=GROUPS, random_state=rng, **options
    )
    return found, truth, _error(values, second)


QUESTIONS = {
    "proportion 0.3": proportion,
    "proportion 0.05": lambda rng, n, **o: proportion(rng, n, share=0.05, **o),
    "proportion, add/remove": lambda rng, n, **o: proportion(rng, n, neighbours="add_remove", **o),
    "rate 1.5": counts,
    "mean, skewed": skewed_mean,
    "mean, skewed, range 0 to 500": lambda rng, n, **o: skewed_mean(rng, n, high=500.0, **o),
    "mean, symmetric": symmetric_mean,
    "difference of proportions": difference,
    "difference of rates": difference_of_rates,
    "difference of means, add/remove": lambda rng, n, **o: difference_of_means(
        rng, n, neighbours="add_remove", **o
    ),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    tallies = {name: Tally() for name in QUESTIONS}
    for first in range(0, options.repeats, BATCH):
        for place, (name, ask) in enumerate(QUESTIONS.items()):
            asked = []
            for repeat in range(first, min(first + BATCH, options.repeats)):
                rng = np.random.default_rng([options.seed, place, repeat])
                asked.append(ask(rng, options.records, epsilon=options.epsilon))
            count(tallies[name], asked)
        print(table(tallies), file=sys.stderr, flush=True)
    print(table(tallies))
    return 0


def count(tally: Tally, asked: list[tuple[onedraw.Answer, float, float]]) -> None:
    """Intervals of several answers, their inferences sampled as one batch to save time."""
    released = [released_of(answer.release) for answer, _, _ in asked]
    for one, law in zip(asked, infer_many(released), strict=True):
        add(tally, *one, law)


def add(tally: Tally, answer: onedraw.Answer, truth: float, error: float, law: Inference) -> None:
    """Count one answer."""
    if law.reason is not None:
        tally.none += 1
        return
    found = answer.read(original_units(answer.release, law))
    main = 0 if answer.groups is None else 2
    tally.given += 1
    tally.covered += found.low[main] <= truth <= found.high[main]
    tally.widths.append((found.high[main] - found.low[main]) / (2.0 * 1.96 * error))


def table(tallies: dict[str, Tally]) -> str:
    lines = ["| question | answers | coverage of 95% | width | none |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, t in tallies.items():
        share = t.covered / t.given if t.given else float("nan")
        width = float(np.median(t.widths)) if t.widths else float("nan")
        lines.append(f"| {name} | {t.given} | {share:.3f} | {width:.2f} | {t.none} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
