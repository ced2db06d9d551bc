# SPDX-License-Identifier: Apache-2.0
"""Neighbouring data sets: what a guarantee is about, and so what an audit compares.

A ``Pair`` checks that its data sets really are neighbours: on two that differ in more than one record, a
sound mechanism may exceed its epsilon, and an audit would blame it for nothing.

>>> import numpy as np
>>> pair = paper_pair()
>>> pair.first.features[:, 0].tolist(), pair.second.features[:, 0].tolist()
([0.0, 1.0], [0.0, -1.0])
>>> Pair(first=pair.first, second=Records(features=5 * np.ones((2, 1)), response=np.ones(2)))
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected data sets that differ in one record, got 2 to replace. ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onedraw._validate import one_of
from onedraw.errors import InvalidInput
from onedraw.privacy.guarantee import NEIGHBOURS
from onedraw.records import Records
from onedraw.types import Array, Neighbours

Record = tuple[Sequence[float], float]
"""Features and response of one person."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """Two data sets that differ in one person's record, under the relation ``neighbours``."""

    first: Records
    second: Records
    neighbours: Neighbours = "replace_one"
    name: str = "pair"

    def __post_init__(self) -> None:
        one_of(NEIGHBOURS, neighbours=self.neighbours)
        ours, theirs = _rows(self.first), _rows(self.second)
        only_first, only_second = (ours - theirs).total(), (theirs - ours).total()
        if self.neighbours == "replace_one":
            distance, verb = (only_first, "to replace") if only_first == only_second else (None, "")
        else:
            distance, verb = only_first + only_second, "to add or remove"
        if distance is None:
            raise InvalidInput(
                f"Expected as many records in both data sets for neighbours='replace_one', got "
                f"{ours.total()} and {theirs.total()}. Use neighbours='add_remove'."
            )
        if distance != 1:
            raise InvalidInput(
                f"Expected data sets that differ in one record, got {distance} {verb}. "
                "A guarantee says nothing about others."
            )

    def swapped(self) -> Pair:
        """The same pair, the other way round."""
        return Pair(first=self.second, second=self.first, neighbours=self.neighbours, name=self.name)


def neighbours_of(
    common: Sequence[Record], one: Record, other: Record | None = None, *, name: str = "pair"
) -> Pair:
    """The common records and ``one``, against the common records and ``other``, or without it if None.

    >>> neighbours_of([], ([0.0], 1.0)).neighbours
    'add_remove'
    """
    width = len(one[0])
    return Pair(
        first=_records([*common, one], width),
        second=_records([*common, *([] if other is None else [other])], width),
        neighbours="add_remove" if other is None else "replace_one",
        name=name,
    )


def paper_pair() -> Pair:
    """The published attack's pair, {(1, 1), (0, 0)} and {(-1, 1), (0, 0)}.

    It is symmetric, so under a symmetric prior no attack on it can show more than epsilon/2.
    """
    return neighbours_of([([0.0], 0.0)], ([1.0], 1.0), ([-1.0], 1.0), name="paper")


def canary_pairs(
    data: Records, *, size: float, responses: tuple[float, float] = (0.0, 1.0), neighbours: Neighbours
) -> list[Pair]:
    """Pairs made of the data set and one crafted record each, for mechanisms seen from outside only.

    ``size`` is the length of the record's features, as large as the mechanism allows; ``responses`` are the
    extremes of the response. The record lies along the first feature, along all of them, or has none.

    >>> base = Records(features=np.zeros((3, 2)), response=np.zeros(3))
    >>> [pair.name for pair in canary_pairs(base, size=1.0, neighbours="replace_one")][:2]
    ['response turned, first feature', 'features turned, first feature']
    """
    one_of(NEIGHBOURS, neighbours=neighbours)
    width = data.features.shape[1]
    common = list(zip(data.features.tolist(), data.response.tolist(), strict=True))
    directions = {"no feature": np.zeros(width)}
    if width:
        along_first = size * np.eye(width)[0]
        directions = {"first feature": along_first}
    if width > 1:
        directions["all features"] = np.full(width, size / np.sqrt(width))
    low, high = responses
    pairs = []
    for name, direction in directions.items():
        there, back = direction.tolist(), (-direction).tolist()
        if neighbours == "add_remove":
            pairs += [neighbours_of(common, (there, y), name=f"added at {y:g}, {name}") for y in responses]
            continue
        pairs.append(neighbours_of(common, (there, low), (there, high), name=f"response turned, {name}"))
        if width:
            pairs.append(neighbours_of(common, (there, high), (back, high), name=f"features turned, {name}"))
    return pairs


def _records(rows: Sequence[Record], width: int) -> Records:
    features: Array = np.array([row[0] for row in rows], dtype=np.float64).reshape(len(rows), width)
    return Records(features=features, response=np.array([row[1] for row in rows], dtype=np.float64))


def _rows(data: Records) -> Counter[tuple[float, ...]]:
    parts = [data.features, data.response, *(() if data.offset is None else (data.offset,))]
    table = np.column_stack(parts) + 0.0  # no negative zero
    return Counter(tuple(row) for row in table.tolist())
