# SPDX-License-Identifier: Apache-2.0
"""Private linear regression with unknown residual scale, as a scikit-learn regressor.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, size=(2000, 1)); y = 2.0 * X[:, 0] + rng.normal(scale=0.5, size=2000)
>>> model = LinearRegression(epsilon=2.0, random_state=0).fit(X, y)
>>> bool(abs(model.coef_[0] - 2.0) < 0.5), bool(model.scale_ >= 0.1)
(True, True)
"""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateRegression, check_bounds, numbers
from onedraw.ledger import Ledger
from onedraw.model import Bounds, RegressionModel, unit_map
from onedraw.release import Release
from onedraw.types import AnyArray, Array

DEFAULT_FLOOR = 0.1


class LinearRegression(RegressorMixin, PrivateRegression):
    """Linear regression with Gaussian errors, published with differential privacy as one draw of a posterior.

    The residual scale is unknown but never below ``noise_floor``: that floor bounds the density, and with it
    the loss, which is why neither features nor response need bounds. The floor is in the units of y, so
    units matter: declare ``target_bounds`` (a plausible public range) or a floor if y is not of order one.

    Args:
        noise_floor: smallest residual scale the model allows, in units of y; 0.1 of the half-range of
        ``target_bounds``
            by default (0.1 without bounds).
        noise_scale: a public guess of the residual scale, used only to choose beta.
        target_bounds: a public plausible range of y, which centres and rescales it. Not a clip.

    The other parameters are those of ``LogisticRegression``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        coef_, intercept_, scale_: in original units.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        beta: float | str = "auto",
        weight: float | None = None,
        neighbours: str = "replace_one",
        rows_per_person: int = 1,
        prior_scale: float = 3.0,
        fit_intercept: bool = True,
        feature_bounds: Any = None,
        target_bounds: Any = None,
        noise_floor: float | None = None,
        noise_scale: float | None = None,
        engine: str = "auto",
        evidence: str = "searched",
        draws: int | str = 1,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            beta=beta,
            weight=weight,
            neighbours=neighbours,
            rows_per_person=rows_per_person,
            prior_scale=prior_scale,
            fit_intercept=fit_intercept,
            feature_bounds=feature_bounds,
            engine=engine,
            evidence=evidence,
            draws=draws,
            ledger=ledger,
            dataset=dataset,
            random_state=random_state,
        )
        self.target_bounds = target_bounds
        self.noise_floor = noise_floor
        self.noise_scale = noise_scale

    def _read_response(self, y: AnyArray) -> tuple[dict[str, Any], Array, tuple[str, ...]]:
        bounds = None if self.target_bounds is None else check_bounds(self.target_bounds, "target_bounds")
        floor = DEFAULT_FLOOR
        if self.noise_floor is not None:
            floor = positive(noise_floor=self.noise_floor) / self._target_unit(bounds)
        return {"kind": "linear", "target_bounds": bounds, "scale_floor": floor}, numbers(y), ()

    def _target_unit(self, bounds: Bounds | None) -> float:
        """How many units of y make one working unit."""
        return 1.0 if bounds is None else unit_map(bounds, bool(self.fit_intercept))[1]

    def _noise_scale(self, model: RegressionModel) -> float | None:
        if self.noise_scale is None or model.scale_floor is None:
            return None
        unit = self._target_unit(model.target_bounds)
        guess = positive(noise_scale=self.noise_scale) / unit
        if guess < model.scale_floor:
            raise InvalidInput(
                f"Expected noise_scale >= noise_floor = {model.scale_floor * unit:g}, "
                f"got noise_scale={self.noise_scale:g}. "
                "The scale is never below its floor: lower noise_floor."
            )
        return guess

    def _publish(self, release: Release) -> None:
        estimate = release.estimate
        assert estimate.scale is not None
        self.coef_, self.intercept_ = estimate.coef[0, 0], float(estimate.intercept[0, 0])
        self.scale_ = float(estimate.scale[0])

    def predict(self, X: Any) -> Array:
        """The mean response under the released parameters, (n,)."""
        return self._linear_predictor(X)[:, 0]
