# SPDX-License-Identifier: Apache-2.0
"""Private regressions for counts with a log link, as scikit-learn regressors.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, size=(3000, 1)); y = rng.poisson(np.exp(0.5 + X[:, 0]))
>>> model = PoissonRegressor(epsilon=2.0, random_state=0).fit(X, y)
>>> bool(abs(model.coef_[0] - 1.0) < 0.5)
True

Counts in proportion to an exposure, whose range is public:

>>> years = rng.uniform(0.5, 5, size=3000); claims = rng.poisson(years * np.exp(-0.5 + X[:, 0]))
>>> model = PoissonRegressor(epsilon=2.0, exposure_bounds=(0.1, 10), random_state=0)
>>> model = model.fit(X, claims, exposure=years)
>>> rate, four_years = model.predict([[0.0]]), model.predict([[0.0]], exposure=[4.0])
>>> bool(abs(rate[0] - np.exp(-0.5)) < 0.2), bool(np.isclose(four_years, 4 * rate)[0])
(True, True)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from onedraw._validate import positive
from onedraw.advice import LeaveOut
from onedraw.errors import InvalidInput
from onedraw.estimators.discreet import numbers
from onedraw.estimators.exposure import declared_offset, times
from onedraw.estimators.regression import Regression
from onedraw.families import Family, NegativeBinomial, Poisson
from onedraw.model import RegressionModel
from onedraw.release import Release
from onedraw.types import AnyArray, Array
from onedraw.uncertainty import point_estimate


@dataclass(kw_only=True, eq=False, repr=False)
class _CountRegressor(RegressorMixin, Regression):
    """What the regressions of counts share: coefficients of the log mean, or of the log rate."""

    exposure_bounds: Any = None

    def _described(self, family: Family, features: tuple[str, ...], **more: Any) -> RegressionModel:
        return super()._described(family, features, offset=declared_offset(self), **more)

    def _coded(self, y: AnyArray, model: Any) -> Array:
        return numbers(y)

    def _learn(self, release: Release) -> None:
        estimate = point_estimate(release)
        self.coef_, self.intercept_ = estimate.coef[0, 0], float(estimate.intercept[0, 0])

    def predict(self, X: Any, exposure: Any = None) -> Array:
        """The mean count under the released parameters, (n,).

        Of a model with exposures it is the rate per unit of exposure, or the mean at ``exposure``.
        """
        return self._counted(np.exp(np.clip(self._linear_predictor(X)[:, 0], -700.0, 700.0)), exposure)

    def mean_interval(self, X: Any, level: float = 0.95, exposure: Any = None) -> Array:
        """(n, 2): intervals of the mean count at rows X; with exposures, as in ``predict``."""
        return self._counted(super().mean_interval(X, level), exposure)

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """D^2, the share of Poisson deviance explained, as for scikit-learn's PoissonRegressor."""
        return float(d2_tweedie_score(y, self.predict(X, exposure), sample_weight=sample_weight, power=1))

    def _counted(self, rates: Array, exposure: Any) -> Array:
        """Rates, or counts at exposures."""
        if exposure is None:
            return rates
        if self.release_.model.offset is None:
            raise InvalidInput(
                "The release is of counts without exposures, so its means are no rates.",
                advice=LeaveOut("exposure"),
            )
        return times(rates, exposure)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PoissonRegressor(_CountRegressor):
    """Poisson regression for counts, published with differential privacy; counts need no upper bound.

    Args:
        fit_intercept: whether to fit an intercept.
        exposure_bounds: the public, positive range of the exposures given to ``fit(X, y, exposure=...)``;
            what lies below it counts as its lower end. Coefficients are then those of the log rate.

    The other parameters are those of every estimator, as listed for ``LogisticRegression``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        plan_: the ``Plan`` that it kept, made of public facts.
        coef_, intercept_: of the log mean, in original units.
    """

    kinds: ClassVar[tuple[str, ...]] = (Poisson.kind,)

    def _model(self, features: tuple[str, ...], classes: tuple[Any, ...] | None) -> Any:
        return self._described(Poisson(), features)


@dataclass(kw_only=True, eq=False, repr=False)
class NegativeBinomialRegressor(_CountRegressor):
    """Negative binomial regression for counts that vary more than Poisson ones, published with privacy.

    Args:
        dispersion: the public size parameter r: a count of mean mu has variance mu + mu^2/r.
        fit_intercept: whether to fit an intercept.
        exposure_bounds: the public, positive range of the exposures given to ``fit(X, y, exposure=...)``;
            what lies below it counts as its lower end. Coefficients are then those of the log rate.

    The other parameters are those of every estimator, as listed for ``LogisticRegression``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        plan_: the ``Plan`` that it kept, made of public facts.
        coef_, intercept_: of the log mean, in original units.
    """

    dispersion: float = field(
        default=1.0, metadata={"help": "The size r: a count of mean mu has variance mu + mu^2/r."}
    )

    kinds: ClassVar[tuple[str, ...]] = (NegativeBinomial.kind,)

    def _model(self, features: tuple[str, ...], classes: tuple[Any, ...] | None) -> Any:
        return self._described(NegativeBinomial(dispersion=positive(dispersion=self.dispersion)), features)
