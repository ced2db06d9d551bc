# SPDX-License-Identifier: Apache-2.0
"""Private Poisson regression with a log link, as a scikit-learn regressor.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, size=(3000, 1)); y = rng.poisson(np.exp(0.5 + X[:, 0]))
>>> model = PoissonRegressor(epsilon=2.0, random_state=0).fit(X, y)
>>> bool(abs(model.coef_[0] - 1.0) < 0.5)
True
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateRegression
from onedraw.estimators.discreet import numbers
from onedraw.release import Release
from onedraw.types import AnyArray, Array


class PoissonRegressor(RegressorMixin, PrivateRegression):
    """Poisson regression for counts, published with differential privacy as one draw of a posterior.

    The parameters are those of ``LogisticRegression`` without ``classes`` and without those of other
    mechanisms: only "beta_divergence" is private for counts, which need no upper bound under it.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        coef_, intercept_: of the log mean, in original units.
    """

    _kinds: ClassVar[tuple[str, ...]] = ("poisson",)

    def _read_response(self, y: AnyArray) -> tuple[dict[str, Any], Array, tuple[str, ...]]:
        counts = numbers(y)
        if (counts < 0).any() or (counts != np.rint(counts)).any():
            raise InvalidInput(
                "Expected y to hold counts (whole numbers >= 0), but some values are not. "
                "Use LinearRegression for a continuous response."
            )
        return {"kind": "poisson"}, counts, ()

    def _publish(self, release: Release) -> None:
        estimate = release.estimate
        self.coef_, self.intercept_ = estimate.coef[0, 0], float(estimate.intercept[0, 0])

    def predict(self, X: Any) -> Array:
        """The mean count under the released parameters, (n,)."""
        return np.exp(np.clip(self._linear_predictor(X)[:, 0], -700.0, 700.0))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D^2, the share of Poisson deviance explained, as for scikit-learn's PoissonRegressor."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
