# SPDX-License-Identifier: Apache-2.0
"""Public ranges of features and response, as users may write them.

>>> each_bounds((0, 10), ("age", "height"))
((0.0, 10.0), (0.0, 10.0))
>>> each_bounds({"height": (50, 250), "age": (0, 120)}, ("age", "height"))
((0.0, 120.0), (50.0, 250.0))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.model import Bounds


def each_bounds(given: Any, names: tuple[str, ...]) -> tuple[Bounds, ...]:
    """(low, high) of each feature, from one pair for all, one for each, or a mapping by name."""
    pairs = given
    if isinstance(pairs, dict):
        missing = [name for name in names if name not in pairs]
        unknown = [str(name) for name in pairs if name not in names]
        if missing or unknown:
            raise InvalidInput(
                "Expected feature_bounds for exactly the features of X; "
                f"missing: {missing}, unknown: {unknown}."
            )
        pairs = [pairs[name] for name in names]
    return tuple(
        check_bounds(pair, f"feature_bounds[{i}]") for i, pair in enumerate(_pairs(pairs, len(names)))
    )


def check_bounds(pair: Any, name: str) -> Bounds:
    """A finite (low, high) with low < high."""
    try:
        low, high = (float(value) for value in pair)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"Expected {name} to be a pair (low, high), got {pair!r:.100}.") from None
    # Half the width: the width of two finite bounds may overflow, and half of the smallest width is 0.
    if not 0.0 < 0.5 * high - 0.5 * low < np.inf:
        raise InvalidInput(f"Expected {name} to be finite with low < high, got ({low:g}, {high:g}).")
    return low, high


def _pairs(pairs: Any, width: int) -> list[Any]:
    """One pair per feature; a single pair serves them all."""
    listed = list(pairs) if np.iterable(pairs) and not isinstance(pairs, str) else None
    if listed is not None and len(listed) == 2 and all(np.isscalar(value) for value in listed):
        return [listed] * width
    if listed is None or len(listed) != width:
        found = repr(pairs) if listed is None else f"{len(listed)} of them"
        raise InvalidInput(
            "Expected feature_bounds to be one pair (low, high) for all features, one for each of the "
            f"{width}, or a dict by feature name, got {found}."
        )
    return listed
