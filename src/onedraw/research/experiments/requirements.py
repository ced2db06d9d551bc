# SPDX-License-Identifier: Apache-2.0
"""The table of requirements (figure 10 here, table 1 of the paper), from what the mechanisms declare."""

from __future__ import annotations

from collections.abc import Sequence

from onedraw import mechanisms
from onedraw.mechanisms import Mechanism
from onedraw.research.experiments.spec import Cell, Claim, Experiment, Row, Verdict
from onedraw.research.experiments.table import select

DELTA = {"unused": "0", "needed": "> 0", "composition": "0 (more for several draws)"}


def requirement_cells(version: str) -> list[Cell]:
    """One cell: nothing is computed but the table."""
    return [{"version": version}]


def run_requirements(cell: Cell) -> list[Row]:
    """A row per mechanism of the library, from its declared requirements."""
    rows: list[Row] = []
    for name in mechanisms.__all__:
        kind = getattr(mechanisms, name)
        if not (isinstance(kind, type) and issubclass(kind, Mechanism) and kind is not Mechanism):
            continue
        declared = kind.requirements
        rows.append(
            {
                "mechanism": name,
                "models": ", ".join(declared.kinds),
                "unbounded_features": "no" if "feature_norm" in declared.needs else "yes",
                "declared_bounds": ", ".join(declared.needs) or "none",
                "delta": DELTA[declared.delta],
                "neighbours": ", ".join(declared.neighbours),
                "exact_draw": "yes" if declared.exact_draw else "no",
                "bounds_needed": len(declared.needs),
            }
        )
    return rows


def _needs_nothing(rows: Sequence[Row]) -> Verdict:
    own = select(rows, mechanism="OnePosteriorSample")[0]
    free = own["declared_bounds"] == "none" and str(own["delta"]).startswith("0")
    others = [row for row in rows if row is not own and row["unbounded_features"] == "no"]
    numbers = (
        f"it declares bounds: {own['declared_bounds']}; delta: {own['delta']}; models: {own['models']}. "
        f"Of the other {len(rows) - 1} mechanisms {len(others)} need a bound on the features, and those "
        "that do not have no features."
    )
    return Verdict(int(free), 1, numbers)


REQUIREMENTS = Experiment(
    name="requirements",
    figures="10",
    title="Requirements of the mechanisms",
    sizes={"paper": {}, "smoke": {}},
    cells=requirement_cells,
    run=run_requirements,
    by=(
        "mechanism",
        "models",
        "unbounded_features",
        "declared_bounds",
        "delta",
        "neighbours",
        "exact_draw",
    ),
    values=("bounds_needed",),
    claims=(
        Claim(
            statement="The beta-divergence draw needs neither bounded features nor a delta.",
            check=_needs_nothing,
        ),
    ),
    notes={
        "as-published": "The declarations are this library's: there is no second version of a proof.",
        "corrected": "Generated from `Requirements`, which calibration enforces.",
    },
)
