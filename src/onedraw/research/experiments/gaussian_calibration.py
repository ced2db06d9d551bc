# SPDX-License-Identifier: Apache-2.0
"""What the published calibration of Gaussian regression really gives, and the corrected one.

The published code solves for beta with the prior variance where the smallest variance of the model belongs.

>>> round(published_beta(1.0, 1.0), 5), round(true_epsilon(published_beta(1.0, 1.0)), 2)
(0.886, 7.69)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import optimize

from onedraw.privacy import calibrate
from onedraw.research.experiments.spec import Cell, Claim, Experiment, Row, Verdict, View
from onedraw.research.experiments.table import select

FLOOR = 0.1
"""Of the residual scale: the published floor of its square is 0.01."""
LARGEST_DENSITY = 1.0 / (math.sqrt(2.0 * math.pi) * FLOOR)


def published_beta(epsilon: float, prior_variance: float) -> float:
    """The beta - 1 of the published code, which takes the prior variance for the smallest variance."""
    scale = 2.0 * math.pi * prior_variance

    def excess(b: float) -> float:
        return math.log(2.0 / b) - 0.5 * b * math.log(scale) - math.log(epsilon)

    return float(optimize.brentq(excess, 1e-9, 1e3))


def true_epsilon(b: float, weight: float = 1.0) -> float:
    """What a draw guarantees at that beta - 1 with the floor that the model has."""
    return float(2.0 * weight * LARGEST_DENSITY**b / b)


def calibration_cells(version: str, *, epsilons: Sequence[float]) -> list[Cell]:
    """Nominal epsilons by the prior variances of the published code."""
    variances = (1.0, 9.0) if version == "as-published" else (1.0,)
    return [
        {"version": version, "prior_variance": variance, "nominal": epsilon}
        for variance in variances
        for epsilon in epsilons
    ]


def run_calibration(cell: Cell) -> list[Row]:
    """The beta and weight chosen, and the epsilon that they have."""
    nominal = float(cell["nominal"])
    if cell["version"] == "as-published":
        b, weight = published_beta(nominal, float(cell["prior_variance"])), 1.0
        label = f"published, prior variance {float(cell['prior_variance']):g}"
    else:
        found = calibrate("gaussian", epsilon=nominal, noise_floor=FLOOR, noise_scale=1.0)
        b, weight, label = found.beta - 1.0, found.weight, "β and w together"
    return [{"curve": label, "beta": 1.0 + b, "weight": weight, "true": true_epsilon(b, weight)}]


def _nominal_is_true(rows: Sequence[Row]) -> Verdict:
    right = sum(float(row["true"]) <= float(row["nominal"]) * (1.0 + 1e-9) for row in rows)
    shown = select(rows, curve=rows[0]["curve"])
    parts = [f"{float(row['nominal']):g} is {float(row['true']):.4g}" for row in shown]
    smallest = 2.0 * math.e * math.log(LARGEST_DENSITY)
    numbers = (
        f"true epsilon for {rows[0]['curve']}: {'; '.join(parts)}. "
        f"With weight 1 no beta reaches less than {smallest:.2f}."
    )
    return Verdict(right, len(rows), numbers)


CALIBRATION = Experiment(
    name="gaussian-calibration",
    figures="3 (calibration)",
    title="Nominal and true epsilon of Gaussian regression",
    sizes={"paper": {"epsilons": (0.2, 0.5, 1.0, 2.0, 5.0)}, "smoke": {"epsilons": (0.2, 5.0)}},
    cells=calibration_cells,
    run=run_calibration,
    by=("version", "curve", "nominal"),
    values=("beta", "weight", "true"),
    views=(
        View(
            name="epsilon",
            title="True against nominal epsilon of Gaussian regression, variance floor 0.01",
            x="nominal",
            y="true",
            x_label="nominal epsilon",
            y_label="true epsilon",
            curve="curve",
            diagonal=True,
        ),
    ),
    claims=(
        Claim(
            statement="The Gaussian regressions have the epsilon that they are plotted at.",
            check=_nominal_is_true,
        ),
    ),
    notes={
        "as-published": "The published code has the prior variance in place of the smallest variance.",
        "corrected": "Weight and beta are chosen together, so that every epsilon is reachable.",
    },
)
