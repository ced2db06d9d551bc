# SPDX-License-Identifier: Apache-2.0
"""Scale features to [0, 1], as every method of the paper's comparison expects, and split off a test set.

* ``scaling="public"``: by the registry's public bounds; values beyond them are moved to them, which is a map
  of each record by itself and costs no privacy.
* ``scaling="extremes"``: by the smallest and largest values of the training rows, as published. This depends
  on every record without limit: what is fitted afterwards has no privacy guarantee. For reproduction only.

>>> import numpy as np
>>> scaled(np.array([[5.0], [10.0]]), np.array([[20.0]]), bounds=((0.0, 10.0),), scaling="public")
(array([[0.5], [1. ]]), array([[1.]]))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw._validate import one_of
from onedraw.research.datasets.loading import Table
from onedraw.types import Array

SCALINGS = ("public", "extremes")
TEST_SHARE = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Training and test rows, features on [0, 1] (the training rows, at least)."""

    features: Array
    response: Array
    test_features: Array
    test_response: Array
    names: tuple[str, ...]


def prepare(table: Table, *, scaling: str, rng: np.random.Generator) -> Prepared:
    """A random tenth of the rows for testing, the rest for training; columns that are constant are dropped.

    With public bounds the columns are those of the registry, whatever the data: dropping would look at them.
    """
    one_of(SCALINGS, scaling=scaling)
    order = rng.permutation(len(table.response))
    held_out = max(1, round(TEST_SHARE * len(order)))
    test, train = order[:held_out], order[held_out:]
    features, test_features, names = table.features[train], table.features[test], table.names
    if scaling == "extremes":
        varied = features.max(axis=0) > features.min(axis=0)
        features, test_features = features[:, varied], test_features[:, varied]
        names = tuple(name for name, kept in zip(names, varied, strict=True) if kept)
    first, second = scaled(features, test_features, bounds=table.bounds, scaling=scaling)
    return Prepared(
        features=first,
        response=table.response[train],
        test_features=second,
        test_response=table.response[test],
        names=names,
    )


def scaled(
    features: Array, test: Array, *, bounds: tuple[tuple[float, float], ...], scaling: str
) -> tuple[Array, Array]:
    """Both on the same scale."""
    if scaling == "public":
        low, high = np.array(bounds).T
        return np.clip((features - low) / (high - low), 0.0, 1.0), np.clip(
            (test - low) / (high - low), 0.0, 1.0
        )
    low, high = features.min(axis=0), features.max(axis=0)
    return (features - low) / (high - low), (test - low) / (high - low)
