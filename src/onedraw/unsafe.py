# SPDX-License-Identifier: Apache-2.0
"""NOT PRIVATE: what validation needs and a release must never contain.

Everything here depends on the data without limit. It exists so that samplers and estimators can be checked,
and it is kept in a module whose name is hard to overlook in a review.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from onedraw._random import generator
from onedraw._validate import whole
from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateEstimator
from onedraw.mechanisms import OnePosterior
from onedraw.nn import NetworkDraw
from onedraw.private import opened
from onedraw.publishing import silent
from onedraw.registry import AUTO
from onedraw.types import Array


def posterior_draws(
    estimator: PrivateEstimator, X: Any, y: Any, draws: int = 1000, random_state: Any = None
) -> Array:
    """Many draws of the posterior that ``estimator`` would release one of. NOT PRIVATE, for validation only.

    Returns (draws, p) in original units: coefficients in feature order (class by class for the multinomial),
    then intercept(s) (zero if none is fitted), then the residual scale for linear regression. They are
    neither rounded nor paid for. ``mechanism="auto"`` stands for ``OnePosterior()`` here, also where a fit
    would publish something else than a draw.

    >>> import numpy as np
    >>> from onedraw import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2)); y = rng.integers(0, 2, size=100)
    >>> posterior_draws(LogisticRegression(epsilon=1.0), X, y, draws=5, random_state=0).shape
    (5, 3)
    """
    num_draws = whole(draws=draws)
    probe = clone(estimator)
    if probe.mechanism == AUTO and probe.form == OnePosterior.requirements.forms[0]:
        probe.set_params(mechanism=OnePosterior())
    plan = probe._plan(X, y)
    if not isinstance(plan.mechanism, OnePosterior | NetworkDraw):
        raise InvalidInput(
            "Expected an estimator with mechanism='one_posterior' (or 'network_draw' for a network), got "
            f"{plan.mechanism.name!r}: only those release draws of the posterior in question."
        )
    rng, _ = generator(random_state)
    with silent():
        private = plan.mechanism.draws(opened(probe._read(X, y, plan.model)), num_draws, rng)
    draws_in_units: Array = plan.model.original_units(private.values).flat()
    return draws_in_units
