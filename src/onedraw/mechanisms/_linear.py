# SPDX-License-Identifier: Apache-2.0
"""What the mechanisms for linear regression share: bounded features and a bounded response."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.mechanisms._base import BoundedMechanism
from onedraw.mechanisms._bounds import bounded_design, clipping_note, response_note
from onedraw.mechanisms.records import Records
from onedraw.model import RegressionModel
from onedraw.types import Array

LINEAR_NEEDS = dict.fromkeys(
    ("feature_norm", "response_bound"), "its noise must cover the largest product a record can add."
)


@dataclass(frozen=True, kw_only=True)
class BoundedLinear(BoundedMechanism):
    """Noisy sums of products of features of norm at most X with responses in [-Y, Y]."""

    feature_norm: float | None = None
    response_bound: float | None = None

    def _bounds(self) -> tuple[float, float]:
        """X and Y."""
        return self._needed("feature_norm"), self._needed("response_bound")

    def _clipped(self, data: Records, model: RegressionModel) -> tuple[Array, Array]:
        """The design (n, p) and the response (n,), within their bounds. Private."""
        norm, bound = self._bounds()
        design = bounded_design(data.features, fit_intercept=model.fit_intercept, feature_norm=norm)
        return design, np.clip(data.response, -bound, bound)

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        norm, bound = self._bounds()
        return clipping_note(norm), response_note(bound)


def symmetric(upper: Array) -> Array:
    """The symmetric matrix with this upper half."""
    upper = np.triu(upper)
    return np.asarray(upper + np.triu(upper, 1).T)
