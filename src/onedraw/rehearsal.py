# SPDX-License-Identifier: Apache-2.0
"""A fit rehearsed on simulated tables: what it would release, how wide its intervals are, how long it takes.

Guarantee:
    Only names and sizes of the table enter, and the number of rows only where it is public, or as a guess of
    the caller. So a rehearsal may be shown to anybody, and costs nothing.

Edge cases:
    Simulated responses follow the model with a linear predictor of standard deviation 1; real features fill
    less of their range, so real intervals are wider. Where bounds are declared, the simulated columns are
    declared too, numbers from -1 to 1 and categories as categories, so that the mechanism is that of the fit.
    Of large tables, ``MOST_ROWS`` are simulated and seconds scaled up.

>>> from onedraw import Columns, LogisticRegression
>>> from onedraw.estimators import Header
>>> columns = Columns({"age": (18, 100), "smoker": ["no", "yes"]}, {"name": "died", "classes": [0, 1]})
>>> model = LogisticRegression(epsilon=1.0, columns=columns)
>>> found = rehearse(model, Header(features=("age", "smoker", "died"), num_records=5000), repeats=2, seed=0)
>>> found.failed, found.rows, found.seconds < 60
(0.0, 5000, True)
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from onedraw._validate import whole
from onedraw.advice import Set
from onedraw.errors import InvalidInput, SamplingError
from onedraw.model.base import feature_map
from onedraw.planning import FORM, Simulator
from onedraw.publishing import Plan, silent
from onedraw.simulated import Design
from onedraw.types import Array

MOST_ROWS = 50_000
NOT_SIMULATED = (
    "columns",
    "feature_bounds",
    "classes",
    "target_bounds",
    "exposure_bounds",
    "ledger",
    "dataset",
    "random_state",
)
"""Options of the estimator that a simulated table has no use for, or others in their place."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What to expect of a fit; ``plan`` is what it would promise and be charged."""

    plan: Plan
    rows: int
    repeats: int
    failed: float
    """Share of the simulated fits that would have been charged and released nothing."""
    with_intervals: float
    """Share of the simulated fits whose release had intervals."""
    half_widths: dict[str, float]
    """Median half-width of 95% intervals, in original units; empty if there were none."""
    seconds: float
    """Median time of a fit."""
    refusal: Any = None
    """The error that says why there were no intervals, if there was one."""


def rehearse(
    estimator: Any,
    X: Any,
    *,
    rows: int | None = None,
    repeats: int = 5,
    correlation: float = 0.0,
    rare_share: float | None = None,
    seed: int | None = None,
) -> Rehearsal:
    """Fit simulated tables like X, of which names and sizes are read at most.

    Args:
        estimator: a regression, not fitted yet.
        X: a table or ``Header``, as for ``estimator.plan``.
        rows: a public guess of the number of rows, where it is not public.
        repeats: simulated tables.
        correlation: between all columns; real ones are correlated.
        rare_share: the share of people in each category but the first.
        seed: makes the rehearsal repeatable.
    """
    plan = estimator.plan(X)
    size = rows if plan.num_records is None else plan.num_records
    if size is None:
        raise InvalidInput(
            "The number of rows is private here, so a rehearsal needs a public guess of it.",
            advice=Set("rows"),
        )
    if plan.model.form != FORM:
        raise InvalidInput("Only regressions are rehearsed.")
    size = whole(rows=size)
    simulator = _simulator(estimator, plan, min(size, MOST_ROWS), correlation, rare_share)
    widths, seconds, failed, refusal = [], [], 0, None
    for number, child in enumerate(np.random.SeedSequence(seed).spawn(whole(repeats=repeats))):
        table = simulator.table(simulator.planned(estimator.epsilon).model, np.random.default_rng(child))
        fitted = simulator.estimator(estimator.epsilon, number if seed is not None else None)
        begin = time.perf_counter()
        try:
            with silent():
                fitted.fit(table.columns, table.response)
        except SamplingError:
            failed += 1
            continue
        finally:
            seconds.append((time.perf_counter() - begin) * size / min(size, MOST_ROWS))
        try:
            widths.append(np.diff(fitted.conf_int(), axis=1)[:, 0] / 2.0)
        except InvalidInput as error:
            refusal = error
    released, shrink = repeats - failed, math.sqrt(min(size, MOST_ROWS) / size)
    return Rehearsal(
        plan=plan,
        rows=size,
        repeats=repeats,
        failed=failed / repeats,
        with_intervals=len(widths) / released if released else math.nan,
        half_widths=_original(plan.model, simulator.design, np.median(widths, axis=0) * shrink)
        if widths
        else {},
        seconds=float(np.median(seconds)),
        refusal=refusal,
    )


def _simulator(
    estimator: Any, plan: Plan, rows: int, correlation: float, rare_share: float | None
) -> Simulator:
    options = {part.name: getattr(estimator, part.name) for part in fields(estimator)}
    options = {name: value for name, value in options.items() if name not in (*NOT_SIMULATED, "epsilon")}
    if plan.model.classes is not None:
        options["classes"] = list(range(len(plan.model.classes)))
    design = Design.like(
        plan.model.features,
        plan.model.feature_bounds,
        exposures=None if plan.model.offset is None else plan.model.offset.exposures,
        correlation=correlation,
        rare_share=rare_share,
    )
    return Simulator(
        kind=plan.model.kind, num_rows=rows, design=design, effect_size=None, noise=0.5, options=options
    )


def _original(model: Any, design: Design, simulated: Array) -> dict[str, float]:
    """Half-widths of the coefficients in original units, by their names.

    Simulated numbers go from -1 to 1. Indicators are 0 or 1 like those of the table.
    """
    _, half = feature_map(model.feature_bounds, model.num_features, model.fit_intercept)
    units = np.where(design.is_indicator, 1.0, half)
    names = [name for name in model.parameter_names() if not name.startswith("(")]
    widths = simulated[: len(names)] * model.target_unit / np.resize(units, len(names))
    return dict(zip(names, widths.tolist(), strict=True))
