# SPDX-License-Identifier: Apache-2.0
"""How large a described model is at least, by arithmetic on its description and before anything is built.

A few bytes can describe a model that no memory holds: a site of shape [10**9, 10**9], or 6,000 features for
each of 6,000 classes. Whoever reads a description from a file compares its size with the numbers and names
that the file really has, and only then builds the model.

>>> least_size({"form": "regression", "features": ["age"] * 4000, "classes": list(range(4000))}).parameters
15996000
>>> least_size({"form": "sites", "sites": [["slope", [2, 3]], ["sigma", []]]})
Size(parameters=7, names=7, characters=35)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onedraw.errors import InvalidInput

LARGEST = 2**31 - 1
"""No axis of an array and no layer is larger."""
MOST_CLASSES = 4096
"""A model of K classes has a K x (K - 1) matrix of contrasts: 134 MB at this many."""


@dataclass(frozen=True)
class Size:
    """Lower bounds: numbers in a draw, parameters with a name, and characters in all of the names."""

    parameters: int
    names: int
    characters: int


def least_size(values: Mapping[str, Any]) -> Size:
    """The size of the model that ``read_model`` would build, or less."""
    if "sites" in values:
        return _of_sites(values["sites"])
    features = _texts(features=values["features"])
    classes = 0 if values.get("classes") is None else len(_list(classes=values["classes"]))
    if classes > MOST_CLASSES:
        raise InvalidInput(f"Expected at most {MOST_CLASSES} classes, got {classes}.")
    outputs = max(1, classes - 1)
    length = sum(map(len, features))
    if "hidden_layer_sizes" in values:
        hidden = [_whole(size) for size in _list(hidden_layer_sizes=values["hidden_layer_sizes"])]
        widths = [len(features), *hidden, outputs]
        size = sum((left + 1) * right for left, right in itertools.pairwise(widths))
        return Size(size, size, length * widths[1])
    labels = classes if classes > 2 else 1
    # The intercepts of a model without any are 0, and have their names.
    return Size(outputs * len(features), labels * (len(features) + 1), labels * length)


def _of_sites(sites: Any) -> Size:
    total = characters = 0
    for site in _list(sites=sites):
        name, shape = _list(site=site)
        numbers = math.prod(_whole(size) for size in _list(shape=shape))
        total += numbers
        characters += numbers * len(_texts(names=[name])[0])
    return Size(total, total, characters)


def _list(**named: Any) -> Sequence[Any]:
    ((name, value),) = named.items()
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"Expected {name} to be a list, got {type(value).__name__}.")
    return value


def _texts(**named: Any) -> Sequence[str]:
    values = _list(**named)
    if not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"Expected {next(iter(named))} to be texts.")
    return values


def _whole(size: Any) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= LARGEST:
        raise InvalidInput(f"Expected sizes to be whole numbers up to {LARGEST}.")
    return size
