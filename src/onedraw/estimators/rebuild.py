# SPDX-License-Identifier: Apache-2.0
"""From a release back to a fitted estimator: everything it predicts with is in the file.

Guarantee:
    A release goes in and nothing else, so predictions for anybody are as private as the release.

Edge cases:
    Features that were never named (x0, x1, ...) are matched by position, all others by name, as scikit-learn
    does. Options that leave no trace in a release (a seed, a ledger, the guess of the noise scale) have their
    defaults.

>>> import numpy as np
>>> from onedraw.estimators import LinearRegression
>>> X = np.linspace(-1, 1, 200)[:, None]
>>> fitted = LinearRegression(epsilon=1.0, random_state=0).fit(X, X[:, 0])
>>> rebuilt = from_release(fitted.release_)
>>> bool((rebuilt.predict(X) == fitted.predict(X)).all()), rebuilt.guarantee_ == fitted.guarantee_
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateRegression
from onedraw.estimators.linear import LinearRegression
from onedraw.estimators.logistic import LogisticRegression
from onedraw.estimators.offered import options_of
from onedraw.estimators.poisson import PoissonRegressor
from onedraw.model import unit_map
from onedraw.release import Release

ESTIMATORS: dict[str, type[PrivateRegression]] = {
    "linear": LinearRegression,
    "logistic": LogisticRegression,
    "multinomial": LogisticRegression,
    "poisson": PoissonRegressor,
}
"""By the kind of the released model."""

REBUILDERS: dict[str, Callable[[Release], Any]] = {}
"""Kinds of model whose estimators live in layers below add themselves here."""


def from_release(release: Release) -> Any:
    """A fitted estimator with the released parameters, ``release_`` and ``guarantee_``; needs no data."""
    kind = release.model.kind
    if kind in REBUILDERS:
        return REBUILDERS[kind](release)
    if kind not in ESTIMATORS:
        raise InvalidInput(
            f"A release of kind {kind!r} holds the parameters of a model that only its author has, so there "
            "is no estimator to rebuild and nothing to predict with. Its numbers are in release.parameters "
            "('onedraw show' prints them); predict with the model itself, for example by "
            "numpyro.infer.Predictive(model, posterior_samples=release.parameters.sites)."
        )
    return fitted(ESTIMATORS[kind](**_options(release)), release)


def fitted(estimator: PrivateRegression, release: Release) -> Any:
    """The estimator as ``fit`` would have left it."""
    model = release.model
    estimator.release_ = release
    estimator.n_features_in_ = model.num_features
    if model.features != tuple(f"x{i}" for i in range(model.num_features)):
        estimator.feature_names_in_ = np.array(model.features, dtype=object)
    estimator._publish(release)
    return estimator


def _options(release: Release) -> dict[str, Any]:
    """Constructor arguments that describe this release."""
    model, guarantee = release.model, release.guarantee
    options: dict[str, Any] = {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "neighbours": guarantee.neighbours,
        "rows_per_person": guarantee.rows_per_person,
        "fit_intercept": model.fit_intercept,
        "feature_bounds": None if model.feature_bounds is None else list(model.feature_bounds),
    }
    if release.mechanism.get("loss") == "BetaDivergence":
        options["beta"] = release.mechanism["beta"]  # the weight follows from it and epsilon
        options["prior_scale"] = release.mechanism["prior_scale"]
        options["draws"] = guarantee.draws
    options.update(options_of(release))
    if release.evidence.level == "proved":
        boxed = release.mechanism.get("prior_box") is not None
        options.update({"evidence": "proved"} if boxed else {"engine": "grid"})
    if model.classes is not None:
        options["classes"] = list(model.classes)
    if model.kind == "linear":
        unit = 1.0 if model.target_bounds is None else unit_map(model.target_bounds, model.fit_intercept)[1]
        options["target_bounds"] = model.target_bounds
        options["noise_floor"] = None if model.scale_floor is None else model.scale_floor * unit
        for option in ("response_bound", "noise_scale"):
            if option in options:
                options[option] *= unit
    return options
