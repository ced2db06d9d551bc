# SPDX-License-Identifier: Apache-2.0
"""Random parts of the UCI data, the same for every method and every epsilon."""

from __future__ import annotations

import functools

import numpy as np

from onedraw.research.datasets import DATASETS, Prepared, load, prepare
from onedraw.research.datasets.records import Number
from onedraw.research.experiments.spec import stream
from onedraw.types import AnyArray, Array

SCALING = {"corrected": "public", "as-published": "extremes"}
"""How each version scales features."""


@functools.lru_cache(maxsize=4)
def prepared(name: str, scaling: str, repetition: int, seed: int) -> Prepared:
    """One split of a data set."""
    return prepare(load(name), scaling=scaling, rng=stream("split", name, repetition, seed))


def training_rows(name: str) -> int:
    """How many rows are left when a tenth is held out."""
    return DATASETS[name].rows - round(0.1 * DATASETS[name].rows)


def chosen_rows(data: Prepared, name: str, n: int, repetition: int, seed: int) -> AnyArray:
    """Indices of ``n`` training rows; of a classification, until they have both classes."""
    rng = stream("rows", name, repetition, seed, n)
    rows = rng.choice(len(data.response), n, replace=False)
    while DATASETS[name].task == "classification" and len(np.unique(data.response[rows])) < 2:
        rows = rng.choice(len(data.response), n, replace=False)
    return rows


def working_response(data: Prepared, name: str, scaling: str) -> tuple[Array, Array]:
    """Training and test responses of a regression with [-1, 1] for their public bounds or own extremes."""
    (target,) = (column for column in DATASETS[name].columns if column.name == DATASETS[name].target)
    assert isinstance(target, Number)
    low, high = (target.low, target.high) if scaling == "public" else _extremes(data.response)
    half = 0.5 * (high - low)
    return (data.response - low) / half - 1.0, (data.test_response - low) / half - 1.0


def _extremes(values: Array) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def not_covered(guarantee: str, scaling: str) -> str:
    """The guarantee, or that there is none where the private data were scaled by their own extremes."""
    if scaling == "public":
        return guarantee
    return f"none: scaled by private extremes (after that, {guarantee})"
