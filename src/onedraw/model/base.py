# SPDX-License-Identifier: Apache-2.0
"""What a release asks of the description of its model, and the maps between original and working units.

A description is plain values: it is written to JSON and read back by its ``kind``, and nothing in it is code.

>>> unit_map((0.0, 100.0), True), unit_map((-20.0, 100.0), False)
((50.0, 50.0), (0.0, 100.0))
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Family
from onedraw.types import Array

Bounds = tuple[float, float]


class PublicParameters(Protocol):
    """Draws in original units."""

    def flat(self) -> Array:
        """(k, p), in the order of the model's ``parameter_names``."""


class PublicModel(Protocol):
    """A model's public facts. Implementations are frozen dataclasses that compare by value."""

    @property
    def form(self) -> str:
        """Which implementation reads the description back: "regression", "network" or "sites"."""

    @property
    def kind(self) -> str:
        """What users call such a model."""

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def classes(self) -> tuple[Any, ...] | None: ...

    @property
    def scale_floor(self) -> float | None:
        """Smallest value of the last working parameter, if that is a scale."""

    @property
    def dim(self) -> int:
        """The number of working parameters."""

    def parameter_names(self) -> list[str]: ...

    def original_units(self, draws: Array) -> PublicParameters:
        """Working draws (k, p) in original units."""

    def typical(self, draws: Array) -> Array:
        """One working parameter vector, (1, p), that stands for the draws (k, p)."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""


def unit_map(bounds: Bounds, fit_intercept: bool) -> tuple[float, float]:
    """Centre and half-width of the map to [-1, 1]; the centre is 0 without an intercept to come back from."""
    low, high = bounds
    if not fit_intercept:
        return 0.0, max(abs(low), abs(high))
    # Halved first: the sum of two large bounds may overflow.
    return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low


def feature_map(bounds: tuple[Bounds, ...] | None, width: int, fit_intercept: bool) -> tuple[Array, Array]:
    """Centres and half-widths, (d,) each."""
    if bounds is None:
        return np.zeros(width), np.ones(width)
    maps = np.array([unit_map(pair, fit_intercept) for pair in bounds]).reshape(-1, 2)
    return maps[:, 0], maps[:, 1]


def to_working(values: Array, bounds: tuple[Bounds, ...] | None, fit_intercept: bool) -> Array:
    """Features (n, d) in working units; values beyond the declared bounds are kept, not clipped."""
    if bounds is None:
        return values
    centre, half = feature_map(bounds, values.shape[1], fit_intercept)
    return (values - centre) / half


def response_to_working(response: Array, bounds: Bounds | None, fit_intercept: bool) -> Array:
    """The response in working units; values beyond the declared bounds are kept, not clipped."""
    if bounds is None:
        return response
    centre, half = unit_map(bounds, fit_intercept)
    return (response - centre) / half


def check_feature_bounds(bounds: tuple[Bounds, ...] | None, features: tuple[str, ...]) -> None:
    """One pair per feature."""
    if bounds is not None and len(bounds) != len(features):
        raise InvalidInput(
            f"Expected one pair of feature_bounds per feature ({len(features)}), got {len(bounds)}."
        )


def check_labels(labels: tuple[Any, ...]) -> None:
    """Labels are published as JSON. They may come from the data, so the message names only their type."""
    for label in labels:
        if not isinstance(label, str | bool | int | float) or (
            isinstance(label, float) and not np.isfinite(label)
        ):
            raise InvalidInput(
                f"Expected class labels to be text, booleans or finite numbers, got one of type "
                f"{type(label).__name__}. Recode the labels, for example as text."
            )


def check_count(family: Family, classes: tuple[Any, ...]) -> None:
    """The labels are those of the family's classes: as many, and no other response is possible."""
    codes = np.arange(len(classes) + 1.0)
    possible = family.in_support(codes)
    if family.has_scale or not possible[:-1].all() or possible[-1]:
        raise InvalidInput(
            f"Expected the labels of a family with {len(classes)} classes, got the {family.name} family, "
            "whose responses are others."
        )


def check_shares(family: Family, classes: tuple[Any, ...] | None) -> None:
    """Shares lie between two numbers, which stand for the two classes."""
    low, high = classes if classes is not None and len(classes) == 2 else (None, None)
    numbers = isinstance(low, float) and isinstance(high, float) and low < high
    if not family.takes_shares or not numbers:
        raise InvalidInput(
            "Expected shares between two classes that are numbers, classes=(low, high) with low < high."
        )


class RecordFacts(Protocol):
    """What a model of features and a response says of both."""

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def classes(self) -> tuple[Any, ...] | None: ...

    @property
    def feature_bounds(self) -> tuple[Bounds, ...] | None: ...

    @property
    def target_bounds(self) -> Bounds | None: ...


def facts_to_json(model: RecordFacts) -> dict[str, Any]:
    """The facts as plain values."""
    bounds = model.feature_bounds
    return {
        "features": list(model.features),
        "classes": None if model.classes is None else list(model.classes),
        "feature_bounds": None if bounds is None else [list(pair) for pair in bounds],
        "target_bounds": None if model.target_bounds is None else list(model.target_bounds),
    }


def facts_from_json(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of ``facts_to_json``, as arguments of a model."""
    bounds, target = values["feature_bounds"], values["target_bounds"]
    return {
        "features": tuple(values["features"]),
        "classes": None if values["classes"] is None else tuple(values["classes"]),
        "feature_bounds": None if bounds is None else tuple((low, high) for low, high in bounds),
        "target_bounds": None if target is None else (target[0], target[1]),
    }
