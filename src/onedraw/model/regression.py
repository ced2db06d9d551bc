# SPDX-License-Identifier: Apache-2.0
"""The public description of a regression model.

Private draws are made in working units: features mapped to [-1, 1] by public bounds, the response centred and
scaled likewise, K classes expressed by K - 1 contrasts. This file maps them back. It holds nothing that
depends on the data (names, classes and bounds are declared or listed among the release's assumptions), so it
may be published.

>>> import numpy as np
>>> model = RegressionModel(kind="linear", features=("age",), feature_bounds=((0.0, 100.0),), scale_floor=0.1)
>>> parameters = model.original_units(np.array([[5.0, 1.0, 0.5]]))       # slope, intercept, scale
>>> parameters.coef[0], parameters.intercept[0]
(array([[0.1]]), array([-4.]))
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw._validate import one_of
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Family, Gaussian, Poisson
from onedraw.model.base import (
    Bounds,
    check_feature_bounds,
    check_labels,
    facts_from_json,
    facts_to_json,
    feature_map,
    response_to_working,
    to_working,
    unit_map,
)
from onedraw.types import Array

KINDS = ("logistic", "multinomial", "linear", "poisson")


@dataclass(frozen=True, kw_only=True, eq=False)
class Parameters:
    """Draws in original units: coef (k, outputs, d), intercept (k, outputs), scale (k,) or None."""

    coef: Array
    intercept: Array
    scale: Array | None

    def flat(self) -> Array:
        """(k, p): coefficients in feature order (class by class), then intercepts, then the scale."""
        columns = [self.coef.reshape(len(self.coef), -1), self.intercept]
        if self.scale is not None:
            columns.append(self.scale[:, None])
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True, kw_only=True)
class RegressionModel:
    """A regression model's public facts: what it predicts, from which features, in which units."""

    kind: str
    features: tuple[str, ...]
    fit_intercept: bool = True
    classes: tuple[Any, ...] | None = None
    feature_bounds: tuple[Bounds, ...] | None = None
    target_bounds: Bounds | None = None
    scale_floor: float | None = None
    """In working units, like the scale that it bounds."""

    def __post_init__(self) -> None:
        one_of(KINDS, kind=self.kind)
        if self.classes is not None:
            check_labels(self.classes)
        names = self.parameter_names()
        if len(set(names)) < len(names):
            repeated = Counter(names).most_common(1)[0][0]
            raise InvalidInput(
                f"Expected every parameter to have a name of its own, got {repeated!r} more than once. "
                "Rename the features."
            )
        check_feature_bounds(self.feature_bounds, self.features)

    @property
    def num_features(self) -> int:
        return len(self.features)

    @property
    def num_outputs(self) -> int:
        """Rows of ``coef``: one per class for the multinomial model, otherwise one."""
        return len(self.classes) if self.kind == "multinomial" and self.classes is not None else 1

    @property
    def dim(self) -> int:
        """The number of working parameters: contrasts, not classes, for the multinomial."""
        outputs = max(1, self.num_outputs - 1)
        per_output = self.num_features + int(self.fit_intercept)
        return outputs * per_output + int(self.scale_floor is not None)

    def parameter_names(self) -> list[str]:
        """Names in the order of ``Parameters.flat``: coefficients (class by class), intercepts, scale."""
        tags = [""] if self.kind != "multinomial" else [f" [{label}]" for label in self.classes or ()]
        names = [f"{feature}{tag}" for tag in tags for feature in self.features]
        names += [f"(intercept){tag}" for tag in tags]
        return names if self.scale_floor is None else [*names, "(scale)"]

    def family(self) -> Family:
        """The family of the response in working units."""
        if self.kind == "logistic":
            return Bernoulli()
        if self.kind == "multinomial":
            return Categorical(num_classes=self.num_outputs)
        if self.kind == "poisson":
            return Poisson()
        assert self.scale_floor is not None
        return Gaussian(scale_floor=self.scale_floor)

    # -- into working units

    def scale_features(self, features: Array) -> Array:
        """Features in working units; values beyond the declared bounds are kept as they are, not clipped."""
        return to_working(features, self.feature_bounds, self.fit_intercept)

    def scale_response(self, response: Array) -> Array:
        """The response in working units; not clipped either."""
        return response_to_working(response, self.target_bounds, self.fit_intercept)

    # -- and back

    def original_units(self, draws: Array) -> Parameters:
        """Working draws (k, p), with the scale itself as last column if the model has one, in original
        units.
        """
        location = draws[:, :-1] if self.scale_floor is not None else draws
        scale = draws[:, -1] if self.scale_floor is not None else None
        outputs, d = max(1, self.num_outputs - 1), self.num_features
        coef = location[:, : outputs * d].reshape(len(draws), outputs, d)
        intercept = location[:, outputs * d :] if self.fit_intercept else np.zeros((len(draws), outputs))
        if self.kind == "multinomial":
            contrasts = Categorical(num_classes=self.num_outputs).contrasts
            coef = np.einsum("cq,kqd->kcd", contrasts, coef)
            intercept = intercept @ contrasts.T
        centre, half = feature_map(self.feature_bounds, self.num_features, self.fit_intercept)
        coef = coef / half
        intercept = intercept - coef @ centre
        if self.target_bounds is not None:
            target_centre, target_half = unit_map(self.target_bounds, self.fit_intercept)
            coef, intercept = coef * target_half, intercept * target_half + target_centre
            scale = None if scale is None else scale * target_half
        return Parameters(coef=coef, intercept=intercept, scale=scale)

    def typical(self, draws: Array) -> Array:
        """The mean of the draws, which is more accurate than any of them."""
        return np.asarray(draws.mean(axis=0, keepdims=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"kind": self.kind, "fit_intercept": self.fit_intercept, **facts_to_json(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RegressionModel:
        """The inverse of ``to_dict``."""
        return cls(kind=values["kind"], fit_intercept=values["fit_intercept"], **facts_from_json(values))
