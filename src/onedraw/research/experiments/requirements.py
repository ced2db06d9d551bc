# SPDX-License-Identifier: Apache-2.0
"""The table of requirements (table 1 of the paper), from what the mechanisms declare."""

from __future__ import annotations

from collections.abc import Sequence

from onedraw.families import FAMILIES
from onedraw.mechanisms import OnePosterior
from onedraw.model import RegressionModel
from onedraw.registry import MECHANISMS
from onedraw.research.experiments.spec import Cell, Claim, Experiment, Row, Verdict
from onedraw.research.experiments.table import select

DELTA = {
    "unused": "0",
    "needed": "> 0",
    "optional": "0 (less noise with more)",
    "composition": "0 (more for several draws)",
}


def requirement_cells(version: str) -> list[Cell]:
    """One cell: nothing is computed but the table."""
    return [{"version": version}]


def run_requirements(cell: Cell) -> list[Row]:
    """A row per mechanism for regressions, from its declared requirements."""
    rows: list[Row] = []
    for name, kind in MECHANISMS.items():
        declared = kind.requirements
        if RegressionModel.form not in declared.forms:
            continue
        rows.append(
            {
                "mechanism": name,
                "models": ", ".join(dict.fromkeys(FAMILIES[f].kind for f in declared.families or FAMILIES)),
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
    own = select(rows, mechanism=OnePosterior.name)[0]
    free = own["declared_bounds"] == "none" and str(own["delta"]).startswith("0")
    others = [row for row in rows if row is not own]
    bounded = sum(row["unbounded_features"] == "no" for row in others)
    single = sum(MECHANISMS[str(row["mechanism"])].requirements.intercept_only for row in others)
    numbers = (
        f"it declares bounds: {own['declared_bounds']}; delta: {own['delta']}; models: {own['models']}. "
        f"Of the other {len(others)} mechanisms {bounded} need a bound on the features, {single} have no "
        f"features, and {len(others) - bounded - single} need none either."
    )
    return Verdict(int(free), 1, numbers)


REQUIREMENTS = Experiment(
    name="requirements",
    figures="table 1",
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
    revision=2,
)
