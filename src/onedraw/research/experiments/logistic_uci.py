# SPDX-License-Identifier: Apache-2.0
"""Logistic regression on UCI data: ranking and signs against n (figures 2, 6, 7, 8)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression

from onedraw.research.experiments.logistic import (
    CORRECTED_NOISE,
    PUBLISHED_NOISE,
    VALUES,
    fitted,
    guarantee,
    measured,
)
from onedraw.research.experiments.logistic_claims import UCI_CLAIMS
from onedraw.research.experiments.methods import COMPARED
from onedraw.research.experiments.spec import Cell, Experiment, Row, View
from onedraw.research.experiments.uci import SCALING, chosen_rows, not_covered, prepared, training_rows
from onedraw.types import Array

UCI_VALUES = tuple(name for name in VALUES if "rmse" not in name)


@functools.lru_cache(maxsize=4)
def _reference(name: str, scaling: str, repetition: int, seed: int) -> Array:
    """Coefficients and intercept of scikit-learn's default fit to all training rows."""
    data = prepared(name, scaling, repetition, seed)
    model = LogisticRegression(max_iter=1000).fit(data.features, data.response)
    return np.append(model.coef_[0], model.intercept_)


def uci_cells(
    version: str,
    *,
    data: Sequence[str],
    sizes: Sequence[int],
    epsilons: Sequence[float],
    repetitions: int,
    draws: int,
    whole: bool,
) -> list[Cell]:
    """Data sets by n (those below the number of training rows and, if ``whole``, all rows) by the rest."""
    return [
        {
            "data": name,
            "scaling": SCALING[version],
            "method": method,
            "epsilon": epsilon,
            "n": n,
            "repetition": repetition,
            "draws": draws,
        }
        for name in data
        for repetition in range(repetitions)
        for n in [*(n for n in sizes if n < training_rows(name)), *([training_rows(name)] if whole else [])]
        for epsilon in epsilons
        for method in COMPARED[version]
    ]


def run_uci(cell: Cell) -> list[Row]:
    """One method on a random part of the training rows that has both classes."""
    place = (str(cell["data"]), str(cell["scaling"]), int(cell["repetition"]), int(cell["seed"]))
    data = prepared(*place)
    rows = chosen_rows(data, place[0], int(cell["n"]), *place[2:])
    fits = fitted(cell, data.features[rows], data.response[rows])
    stated = not_covered(guarantee(cell, data.features.shape[1] + 1), place[1])
    found: Row = {"guarantee": stated}
    if fits is None:
        return [{**found, **dict.fromkeys(UCI_VALUES, math.nan), "failed": 1.0}]
    test = (data.test_features, data.test_response)
    return [{**found, **measured(fits, test=test, reference=_reference(*place), truth=None)}]


UCI = Experiment(
    name="logistic-uci",
    figures="2, 6, 7, 8",
    title="Logistic regression on UCI data",
    sizes={
        "paper": {
            "data": ("abalone", "adult", "bank", "vertebral", "breast-cancer", "raisin"),
            "sizes": (10, 20, 50, 100, 200, 500, 1000),
            "epsilons": (0.2, 0.5, 1.0, 5.0),
            "repetitions": 5,
            "draws": 10,
            "whole": True,
        },
        "smoke": {
            "data": ("vertebral",),
            "sizes": (50,),
            "epsilons": (0.5, 5.0),
            "repetitions": 1,
            "draws": 4,
            "whole": True,
        },
    },
    cells=uci_cells,
    run=run_uci,
    by=("data", "method", "guarantee", "epsilon", "n"),
    values=UCI_VALUES,
    views=(
        View(
            name="auc",
            title="Figure 2: ranking of held-out records",
            x="n",
            y="auc",
            x_label="n",
            y_label="test ROC-AUC",
            across="epsilon",
            down="data",
            log_x=True,
        ),
        View(
            name="twins",
            title="Figure 6: each method (solid) beside its non-private twin (dashed)",
            x="n",
            y="auc",
            twin="twin_auc",
            x_label="n",
            y_label="test ROC-AUC",
            across="data",
            down="method",
            curve="epsilon",
            log_x=True,
        ),
        View(
            name="signs",
            title="Figure 7: signs that agree with the non-private fit",
            x="n",
            y="signs",
            x_label="n",
            y_label="share of agreeing signs",
            across="epsilon",
            down="data",
            log_x=True,
        ),
        View(
            name="signs-by-method",
            title="Figure 8: agreeing signs of each method (solid) and of its non-private twin (dashed)",
            x="n",
            y="signs",
            twin="twin_signs",
            x_label="n",
            y_label="share of agreeing signs",
            across="data",
            down="method",
            curve="epsilon",
            log_x=True,
        ),
    ),
    claims=UCI_CLAIMS,
    notes={
        "as-published": (
            "Features are scaled by the training data's own extremes and constant columns dropped, which no "
            f"guarantee covers. {PUBLISHED_NOISE}"
        ),
        "corrected": f"Features are scaled by public bounds and clipped to them. {CORRECTED_NOISE}",
    },
)
