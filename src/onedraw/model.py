# SPDX-License-Identifier: Apache-2.0
"""What released numbers mean: the public description of a regression model.

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

from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw._validate import one_of
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Family, Gaussian, Poisson
from onedraw.types import Array

KINDS = ("logistic", "multinomial", "linear", "poisson")
Bounds = tuple[float, float]


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
        if self.feature_bounds is not None and len(self.feature_bounds) != len(self.features):
            raise InvalidInput(
                f"Expected one pair of feature_bounds per feature ({len(self.features)}), "
                f"got {len(self.feature_bounds)}."
            )

    @property
    def num_features(self) -> int:
        return len(self.features)

    @property
    def num_outputs(self) -> int:
        """Rows of ``coef``: one per class for the multinomial model, otherwise one."""
        return len(self.classes) if self.kind == "multinomial" and self.classes is not None else 1

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
    # -------------------------------------------------------------------------------------

    def scale_features(self, features: Array) -> Array:
        """Features in working units; values beyond the declared bounds are kept as they are, not clipped."""
        if self.feature_bounds is None:
            return features
        centre, half = self._feature_map()
        return (features - centre) / half

    def scale_response(self, response: Array) -> Array:
        """The response in working units; not clipped either."""
        centre, half = self._target_map()
        return response if self.target_bounds is None else (response - centre) / half

    # -- and back
    # -----------------------------------------------------------------------------------------------

    def original_units(self, draws: Array) -> Parameters:
        """Working draws (k, p), with the scale itself as last column if the model has one, in original
        units.
        """
        location = draws[:, :-1] if self.scale_floor is not None else draws
        scale = draws[:, -1] if self.scale_floor is not None else None
        outputs, d = (self.num_outputs - 1 or 1), self.num_features
        coef = location[:, : outputs * d].reshape(-1, outputs, d)
        intercept = location[:, outputs * d :] if self.fit_intercept else np.zeros((len(draws), outputs))
        if self.kind == "multinomial":
            contrasts = Categorical(num_classes=self.num_outputs).contrasts
            coef = np.einsum("cq,kqd->kcd", contrasts, coef)
            intercept = intercept @ contrasts.T
        centre, half = self._feature_map()
        coef = coef / half
        intercept = intercept - coef @ centre
        target_centre, target_half = self._target_map()
        return Parameters(
            coef=coef * target_half,
            intercept=intercept * target_half + target_centre,
            scale=None if scale is None else scale * target_half,
        )

    def _feature_map(self) -> tuple[Array, Array]:
        if self.feature_bounds is None:
            return np.zeros(self.num_features), np.ones(self.num_features)
        bounds = np.array(self.feature_bounds, dtype=np.float64).reshape(-1, 2)
        if not self.fit_intercept:
            # Centring would need an intercept to come back from.
            return np.zeros(self.num_features), np.abs(bounds).max(axis=1)
        return bounds.mean(axis=1), 0.5 * (bounds[:, 1] - bounds[:, 0])

    def _target_map(self) -> tuple[float, float]:
        if self.target_bounds is None:
            return 0.0, 1.0
        low, high = self.target_bounds
        if not self.fit_intercept:
            return 0.0, max(abs(low), abs(high))
        return 0.5 * (low + high), 0.5 * (high - low)

    @property
    def target_unit(self) -> float:
        """How many units of the response make one working unit."""
        return self._target_map()[1]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "kind": self.kind,
            "features": list(self.features),
            "fit_intercept": self.fit_intercept,
            "classes": None if self.classes is None else list(self.classes),
            "feature_bounds": None if self.feature_bounds is None else [list(b) for b in self.feature_bounds],
            "target_bounds": None if self.target_bounds is None else list(self.target_bounds),
            "scale_floor": self.scale_floor,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RegressionModel:
        """The inverse of ``to_dict``."""
        pairs = values["feature_bounds"]
        target = values["target_bounds"]
        return cls(
            kind=values["kind"],
            features=tuple(values["features"]),
            fit_intercept=values["fit_intercept"],
            classes=None if values["classes"] is None else tuple(values["classes"]),
            feature_bounds=None if pairs is None else tuple((low, high) for low, high in pairs),
            target_bounds=None if target is None else (target[0], target[1]),
            scale_floor=values["scale_floor"],
        )
