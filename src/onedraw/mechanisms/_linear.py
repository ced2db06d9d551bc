# SPDX-License-Identifier: Apache-2.0
"""What the mechanisms for linear regression share: bounded features and a bounded response."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.families import Gaussian
from onedraw.mechanisms._bounds import bounded_design, clipping_note, response_note
from onedraw.mechanisms.base import GridMechanism
from onedraw.records import Records
from onedraw.types import Array

NORMAL = (Gaussian.name,)
"""The family of the linear mechanisms."""
LINEAR_NEEDS = dict.fromkeys(
    ("feature_norm", "response_bound"), "its noise must cover the largest product a record can add."
)


@dataclass(frozen=True, kw_only=True)
class BoundedLinear(GridMechanism):
    """Noisy sums of products of features of norm at most X with responses in [-Y, Y].

    ``response_bound`` is Y in units of the response, counted from the middle of its declared range;
    ``feature_norm`` is X in working units, the intercept's 1 included.
    """

    feature_norm: float | None = None
    response_bound: float | None = None

    def _bounds(self) -> tuple[float, float]:
        """X and Y, in working units."""
        return self._needed("feature_norm"), self._needed("response_bound") / self.model.target_unit

    def _clipped(self, records: Records) -> tuple[Array, Array]:
        """The design (n, p) and the response (n,), within their bounds."""
        norm, bound = self._bounds()
        design = bounded_design(
            records.features, fit_intercept=self.model.fit_intercept, feature_norm=norm
        )
        return design, np.clip(records.response, -bound, bound)

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        norm, bound = self._bounds()
        return clipping_note(norm), response_note(bound)


def symmetric(upper: Array) -> Array:
    """The symmetric matrix with this upper half."""
    upper = np.triu(upper)
    return np.asarray(upper + np.triu(upper, 1).T)
