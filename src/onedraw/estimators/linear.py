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

from collections.abc import Mapping
from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateRegression
from onedraw.estimators.bounds import check_bounds
from onedraw.estimators.discreet import numbers
from onedraw.estimators.offered import DEFAULT
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
            ``target_bounds`` by default (0.1 without bounds).
        noise_scale: a public guess of the residual scale in units of y, used only to choose beta. For
            "sufficient_statistics" and "noise_aware" it is the residual scale; one working unit by default.
        target_bounds: a public plausible range of y, which centres and rescales it. Not a clip.
        mechanism: "beta_divergence", which needs no bound on the data; or "adassp", "sufficient_statistics"
            or "noise_aware", which do (see docs/mechanisms.md) and release no residual scale.
        response_bound: public bound on y in units of y, counted from the middle of ``target_bounds`` if these
            are given; responses beyond it are moved to it. For all mechanisms but the default.
        mechanism_options: finer settings of another mechanism, a dict, for example ``{"draws": 4000}``: how
            many draws stand for the whole posterior that "sufficient_statistics" and "noise_aware" release
            (1000 by default; they cost nothing more).

    The other parameters are those of ``LogisticRegression``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        coef_, intercept_: in original units.
        scale_: the residual scale in original units, if the mechanism releases one.
    """

    _kinds: ClassVar[tuple[str, ...]] = ("linear",)

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        mechanism: str = DEFAULT,
        feature_norm: float | None = None,
        response_bound: float | None = None,
        mechanism_options: Mapping[str, Any] | None = None,
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
            mechanism=mechanism,
            mechanism_options=mechanism_options,
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
        self.feature_norm = feature_norm
        self.response_bound = response_bound

    def _outline(self) -> RegressionModel:
        return RegressionModel(features=(), **self._facts())

    def _read_response(self, y: AnyArray) -> tuple[dict[str, Any], Array, tuple[str, ...]]:
        return self._facts(), numbers(y), ()

    def _facts(self) -> dict[str, Any]:
        bounds = None if self.target_bounds is None else check_bounds(self.target_bounds, "target_bounds")
        floor = DEFAULT_FLOOR if self.mechanism == DEFAULT else None
        if self.noise_floor is not None:
            floor = positive(noise_floor=self.noise_floor) / self._target_unit(bounds)
        return {"kind": "linear", "target_bounds": bounds, "scale_floor": floor}

    def _mechanism_options(self, model: RegressionModel) -> dict[str, Any]:
        options, unit = super()._mechanism_options(model), self._target_unit(model.target_bounds)
        if "response_bound" in options:
            options["response_bound"] = positive(response_bound=options["response_bound"]) / unit
        if "noise_scale" in options:
            options["residual_scale"] = positive(noise_scale=options.pop("noise_scale")) / unit
        return options

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
        self.coef_, self.intercept_ = estimate.coef[0, 0], float(estimate.intercept[0, 0])
        self.__dict__.pop("scale_", None)  # of an earlier fit with another mechanism
        if estimate.scale is not None:
            self.scale_ = float(estimate.scale[0])

    def predict(self, X: Any) -> Array:
        """The mean response under the released parameters, (n,)."""
        return self._linear_predictor(X)[:, 0]
