# SPDX-License-Identifier: Apache-2.0
"""The public description of a regression model.

Private draws are made in working units: features mapped to [-1, 1] by public bounds, the response centred and
scaled likewise, K classes expressed by K - 1 contrasts. This file maps them back. It holds nothing that
depends on the data (names, classes and bounds are declared or listed among the release's assumptions), so it
may be published.

>>> import numpy as np
>>> from onedraw.families import Gaussian
>>> bounds = ((0.0, 100.0),)
>>> model = RegressionModel(family=Gaussian(), features=("age",), feature_bounds=bounds, has_scale=True)
>>> parameters = model.original_units(np.array([[5.0, 1.0, 0.5]]))       # slope, intercept, scale
>>> parameters.coef[0], parameters.intercept[0]
(array([[0.1]]), array([-4.]))
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Family, read_family
from onedraw.model.base import (
    Bounds,
    check_count,
    check_feature_bounds,
    check_labels,
    check_shares,
    facts_from_json,
    facts_to_json,
    feature_map,
    response_to_working,
    to_working,
    unit_map,
)
from onedraw.model.offset import Offset
from onedraw.types import Array


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

    family: Family
    features: tuple[str, ...]
    fit_intercept: bool = True
    classes: tuple[Any, ...] | None = None
    feature_bounds: tuple[Bounds, ...] | None = None
    target_bounds: Bounds | None = None
    has_scale: bool = False
    """Whether the family's scale is among the parameters, as the last of them."""
    offset: Offset | None = None
    """What is added to the predictors, where each record has something to add."""
    shares: bool = False
    """Whether a response is a share in [0, 1] of the way from the first class to the second, both of them
    numbers, instead of one of the two."""

    form: ClassVar[str] = "regression"

    def __post_init__(self) -> None:
        if self.has_scale and not self.family.has_scale:
            raise InvalidInput(f"The {self.family.name} family has no scale, got has_scale=True.")
        if self.offset is not None and not self.family.takes_offset:
            raise InvalidInput(f"A {self.kind} model has no exposure and no offset; those of counts have.")
        if self.classes is None and self.family.num_predictors > 1:
            raise InvalidInput(f"A {self.kind} model needs the labels of its classes: classes=(...).")
        if self.shares:
            check_shares(self.family, self.classes)
        if self.classes is not None:
            check_labels(self.classes)
            check_count(self.family, self.classes)
        names = self.parameter_names()
        if len(set(names)) < len(names):
            repeated = Counter(names).most_common(1)[0][0]
            raise InvalidInput(
                f"Expected every parameter to have a name of its own, got {repeated!r} more than once. "
                "Rename the features."
            )
        check_feature_bounds(self.feature_bounds, self.features)

    @property
    def kind(self) -> str:
        """What users call such a model: "logistic", "linear" and so on."""
        return self.family.kind

    def describe(self) -> str:
        """Which regression this is and what its coefficients are of, in words."""
        if self.shares:
            low, high = self.classes or (0.0, 1.0)
            return f"mean of values from {low:.12g} to {high:.12g}, as the log odds of its place between them"
        told = str(self.family.describe(self.classes))
        return told if self.offset is None else f"{told}; {self.offset.told}"

    @property
    def scale_floor(self) -> float | None:
        """The smallest scale, in working units like the scale that it bounds; None if there is no scale."""
        return self.family.scale_floor if self.has_scale else None

    @property
    def num_features(self) -> int:
        return len(self.features)

    @property
    def num_location(self) -> int:
        """The number of working parameters without the scale: contrasts, not classes, for several classes."""
        return self.family.num_predictors * (self.num_features + int(self.fit_intercept))

    @property
    def dim(self) -> int:
        """The number of working parameters."""
        return self.num_location + int(self.has_scale)

    @property
    def target_unit(self) -> float:
        """How many units of the response make one working unit."""
        return 1.0 if self.target_bounds is None else unit_map(self.target_bounds, self.fit_intercept)[1]

    def parameter_names(self) -> list[str]:
        """Names in the order of ``Parameters.flat``: coefficients (class by class), intercepts, scale."""
        several = self.family.num_predictors > 1
        tags = [f" [{label}]" for label in self.classes or ()] if several else [""]
        names = [f"{feature}{tag}" for tag in tags for feature in self.features]
        names += [f"(intercept){tag}" for tag in tags]
        return [*names, "(scale)"] if self.has_scale else names

    def with_scale(self, family: Family) -> RegressionModel:
        """The same model with this family, whose scale is among the parameters."""
        return replace(self, family=family, has_scale=True)

    def check_response(self, response: Array) -> None:
        """Refuse responses that cannot be, quoting none of them."""
        if not self.shares:
            self.family.check_response(response)
        elif not ((response >= 0.0) & (response <= 1.0)).all():
            raise InvalidInput("Expected shares in [0, 1], but some responses are not. Map them there.")

    # -- into working units

    def scale_features(self, features: Array) -> Array:
        """Features in working units; values beyond the declared bounds are kept as they are, not clipped."""
        return to_working(features, self.feature_bounds, self.fit_intercept)

    def scale_response(self, response: Array) -> Array:
        """The response in working units; not clipped either."""
        return response_to_working(response, self.target_bounds, self.fit_intercept)

    def scale_offset(self, values: Array) -> Array:
        """The offset in working units, from exposures (or offsets) as they stand in the table."""
        assert self.offset is not None
        return self.offset.working(values, self.fit_intercept)

    # -- and back

    def original_units(self, draws: Array) -> Parameters:
        """Working draws (k, p), with the scale itself as last column if the model has one, in original
        units.
        """
        location = draws[:, :-1] if self.has_scale else draws
        scale = draws[:, -1] if self.has_scale else None
        outputs, d = self.family.num_predictors, self.num_features
        coef = location[:, : outputs * d].reshape(len(draws), outputs, d)
        intercept = location[:, outputs * d :] if self.fit_intercept else np.zeros((len(draws), outputs))
        if outputs > 1:
            contrasts = self.family.contrasts
            coef = np.einsum("cq,kqd->kcd", contrasts, coef)
            intercept = intercept @ contrasts.T
        centre, half = feature_map(self.feature_bounds, self.num_features, self.fit_intercept)
        coef = coef / half
        intercept = intercept - coef @ centre
        if self.offset is not None:
            intercept = intercept - self.offset.centre(self.fit_intercept)
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
        return {
            "form": self.form,
            "kind": self.kind,
            "family": self.family.to_dict(),
            "fit_intercept": self.fit_intercept,
            "has_scale": self.has_scale,
            **facts_to_json(self),
            **({} if self.offset is None else {"offset": self.offset.to_dict()}),
            **({"shares": True} if self.shares else {}),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RegressionModel:
        """The inverse of ``to_dict``."""
        return cls(
            family=read_family(values["family"]),
            fit_intercept=values["fit_intercept"],
            has_scale=values["has_scale"],
            offset=None if values.get("offset") is None else Offset.from_dict(values["offset"]),
            shares=values.get("shares", False) is True,
            **facts_from_json(values),
        )
