# SPDX-License-Identifier: Apache-2.0
"""Whether a tilted fit on public random units should be offered in place of a network: a frozen comparison.

The cells and this rule were fixed before the comparison was run. It is offered if, by mean differences over
repetitions beyond two standard errors, it beats the network draw and DP-SGD in at least half of the cells
each, loses to neither of them in any, and beats the tilted fit without a hidden layer in at least two cells
without losing to it in any: otherwise a linear model does as well, and says more.

Data are the paper's simulated networks with two features, and two data sets: one that no linear model fits
(kin8nm) and one that a linear model ranks well (abalone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onedraw.research.experiments.network_claims import RANDOM_CLAIMS
from onedraw.research.experiments.network_methods import LINEAR, RANDOM
from onedraw.research.experiments.network_trial import TASKS
from onedraw.research.experiments.networks import SMOKE, VALUES, against, run_simulated, run_uci
from onedraw.research.experiments.spec import VERSIONS, Cell, Experiment, Row

METHODS = ("beta-auto", "dp-sgd", LINEAR, RANDOM)
FROZEN_WARMUP = 250
"""As it was when the cells were fixed."""
DATA = {"kin8nm": "regression", "abalone": "classification"}


def random_cells(
    version: str,
    *,
    sizes: Sequence[int],
    uci_sizes: Sequence[int],
    epsilons: Sequence[float],
    repetitions: int,
    uci_repetitions: int,
    releases: int,
    warmup: int,
    data: Mapping[str, str] = DATA,
) -> list[Cell]:
    """Simulated and real tables, the same in both versions."""
    tables: list[tuple[dict[str, str | int], Sequence[int], int]] = [
        ({"task": task, "d": 2}, sizes, repetitions) for task in TASKS
    ]
    tables += [
        ({"task": task, "data": name, "scaling": "public"}, uci_sizes, uci_repetitions)
        for name, task in data.items()
    ]
    return [
        {
            **table,
            "method": method,
            "epsilon": epsilon,
            "n": n,
            "repetition": repetition,
            "releases": releases,
            "warmup": warmup,
        }
        for table, listed, number in tables
        for n in listed
        for repetition in range(number)
        for epsilon in epsilons
        for method in METHODS
    ]


def run_random(cell: Cell) -> list[Row]:
    """One method on one table."""
    (row,) = run_uci(cell) if "data" in cell else run_simulated(cell)
    missing = {name: float("nan") for task in TASKS for name in VALUES[task]}
    return [{"data": cell.get("data", "simulated"), **missing, **row}]


RANDOM_UNITS = Experiment(
    name="random-units",
    figures="ours",
    title="A tilted fit on random units in place of a network",
    sizes={
        "paper": {
            "sizes": (200, 1000),
            "uci_sizes": (1000, 3000),
            "epsilons": (1.0, 5.0),
            "repetitions": 10,
            "uci_repetitions": 5,
            "releases": 5,
            "warmup": FROZEN_WARMUP,
        },
        "smoke": {**SMOKE, "uci_sizes": (50,), "uci_repetitions": 2, "data": {"kin8nm": "regression"}},
    },
    cells=random_cells,
    run=run_random,
    extra="jax",
    by=("task", "data", "method", "guarantee", "epsilon", "n"),
    values=tuple(dict.fromkeys(name for task in TASKS for name in VALUES[task])),
    views=tuple(
        against(
            task,
            f"Tilted fits in place of a network, {task}",
            down="data",
            among_tasks=True,
        )
        for task in TASKS
    ),
    claims=RANDOM_CLAIMS,
    notes=dict.fromkeys(
        VERSIONS, "Guarantees are pure but that of DP-SGD, (ε, 1e-5); features are scaled by public bounds."
    ),
)
