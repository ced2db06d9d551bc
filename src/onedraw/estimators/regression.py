# SPDX-License-Identifier: Apache-2.0
"""What the regressions share: an intercept, coefficients in original units, intervals from the release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateEstimator
from onedraw.families import Family
from onedraw.inference import WaldTest
from onedraw.model import Bounds, Offset, RegressionModel
from onedraw.types import Array
from onedraw.uncertainty import Intervals, point_estimate, summarise
from onedraw.uncertainty.from_curvature import Contrasts, ReleasedInference, inference_of


@dataclass(kw_only=True, eq=False, repr=False)
class Regression(PrivateEstimator):
    """Base of the estimators with one coefficient per feature and class.

    Args:
        fit_intercept: whether to fit an intercept.
    """

    fit_intercept: bool = field(default=True, metadata={"help": "Whether to fit an intercept."})

    def _described(
        self,
        family: Family,
        features: tuple[str, ...],
        *,
        classes: tuple[Any, ...] | None = None,
        target_bounds: Bounds | None = None,
        offset: Offset | None = None,
    ) -> RegressionModel:
        """The public description of a regression with this family."""
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidInput(
                f"Expected fit_intercept to be True or False, got fit_intercept={self.fit_intercept!r}."
            )
        return RegressionModel(
            family=family,
            features=features,
            fit_intercept=bool(self.fit_intercept),
            classes=classes,
            feature_bounds=self._bounds(features),
            target_bounds=target_bounds,
            offset=offset,
        )

    # -- uncertainty, from the release alone

    def summary(self, level: float = 0.95, *, exponentiate: bool = False) -> Intervals:
        """Estimates, standard errors, z, p and intervals in original units; ``str()`` is an aligned table.

        ``exponentiate`` gives odds ratios (classes) or rate ratios (counts). All of it is computed from
        the release: ``release_.summary()`` gives the same numbers to whoever holds the file. See
        ``onedraw.uncertainty`` for what is assumed, and which releases have intervals.
        """
        check_is_fitted(self, "release_")
        choice = getattr(getattr(getattr(self, "plan_", None), "mechanism", None), "draws_choice", None)
        if choice is not None and not choice.trusted:
            raise InvalidInput(f"This release has no intervals. {choice.explanation}")
        return summarise(self.release_, level, exponentiate=exponentiate)

    def plot(
        self,
        level: float = 0.95,
        *,
        exponentiate: bool = False,
        ax: Any = None,
        names: Sequence[str] | None = None,
        reference: Any = None,
        per: Mapping[str, float] | None = None,
    ) -> Any:
        """A forest plot of ``summary()`` (extra ``plots``); returns Matplotlib's axes.

        ``names`` chooses parameters; ``reference`` holds values to draw beside them, by name: numbers, or
        (estimate, low, high). ``per`` is the change of each feature that its effect is drawn for, such as
        {"age": 10}; by default the whole of its declared range, or one unit where none was declared.
        """
        found = self.summary(level, exponentiate=exponentiate)
        return found.plot(ax=ax, names=names, reference=reference, per=per)

    def conf_int(self, level: float = 0.95, *, as_frame: bool = False) -> Any:
        """(p, 2): low and high of each parameter, in the order of ``summary()``; ``as_frame`` for pandas."""
        found = self.summary(level)
        return found.to_frame()[["low", "high"]] if as_frame else found.array()

    @property
    def standard_errors_(self) -> Array:
        """(p,), in the order of ``summary()``."""
        return np.array(self.summary().standard_error)

    def contrast(
        self,
        contrasts: Contrasts,
        value: float | Sequence[float] = 0.0,
        level: float = 0.95,
        *,
        exponentiate: bool = False,
    ) -> Intervals:
        """Linear combinations of parameters with intervals, and the p-values of their being ``value``.

        ``model.contrast({"age": 10})`` is the effect of ten years; a list of such dicts, or an array with one
        column for each row of ``summary()``, gives several at once. ``exponentiate`` makes them odds ratios
        or rate ratios: of three classes ``{"age [b]": 1, "age [a]": -1}`` is that of b against a.
        """
        return self._inference().contrast(contrasts, value, level, exponentiate=exponentiate)

    def wald_test(
        self, contrasts: Contrasts | Sequence[str], value: float | Sequence[float] = 0.0
    ) -> WaldTest:
        """The joint test that several parameters, by name, or combinations of them equal ``value``."""
        return self._inference().wald_test(contrasts, value)

    def mean_interval(self, X: Any, level: float = 0.95) -> Array:
        """(n, 2): intervals of the mean response at rows X: a probability, a mean, or a rate.

        Three or more classes have the intervals of all their probabilities, (n, classes, 2).
        They are about the mean, not about a new observation, and about one row at a time. Their middle is
        that of ``summary()``, not that of ``predict``, which the ridge pulls.
        """
        features = self._read_new(X)
        return self._inference().mean_interval(features, level)

    def _inference(self) -> ReleasedInference:
        check_is_fitted(self, "release_")
        return inference_of(self.release_)

    # -- prediction

    def _linear_predictor(self, X: Any) -> Array:
        """X @ coef' + intercept in original units, (n, outputs)."""
        features = self._read_new(X)
        estimate = point_estimate(self.release_)
        return np.asarray(features @ estimate.coef[0].T + estimate.intercept[0])
