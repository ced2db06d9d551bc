# SPDX-License-Identifier: Apache-2.0
"""From a release back to a fitted estimator: everything it predicts with is in the file.

Guarantee:
    A release goes in and nothing else, so predictions for anybody are as private as the release.

Edge cases:
    Features that were never named (x0, x1, ...) are matched by position, all others by name, as scikit-learn
    does. Options that leave no trace in a release (a seed, a ledger, a sampler) have their defaults.

>>> import numpy as np
>>> from onedraw.estimators import LinearRegression
>>> X = np.linspace(-1, 1, 200)[:, None]
>>> fitted = LinearRegression(epsilon=1.0, random_state=0).fit(X, X[:, 0])
>>> rebuilt = from_release(fitted.release_)
>>> bool((rebuilt.predict(X) == fitted.predict(X)).all()), rebuilt.guarantee_ == fitted.guarantee_
(True, True)
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.estimators.kinds import estimator_of
from onedraw.registry import read_mechanism
from onedraw.release import Release


def from_release(release: Release) -> Any:
    """A fitted estimator with the released parameters, ``release_`` and ``guarantee_``; needs no data."""
    model = release.model
    if getattr(model, "shares", False):
        raise InvalidInput(
            "A release of onedraw.mean or compare is an answer, and there is nothing to predict with it. Use "
            "onedraw.Answer(release)."
        )
    kind = estimator_of(model)
    if kind is None:
        raise InvalidInput(
            f"A release of kind {model.kind!r} holds the parameters of a model that only its author has, so "
            "there is no estimator to rebuild and nothing to predict with. Its numbers are in "
            "release.parameters ('onedraw show' prints them); predict with the model itself, for example by "
            "numpyro.infer.Predictive(model, posterior_samples=release.parameters.sites)."
        )
    estimator = kind(**{name: value for name, value in _options(release).items() if name in _names(kind)})
    estimator.release_ = release
    estimator.n_features_in_ = model.num_features
    if model.features != tuple(f"x{i}" for i in range(model.num_features)):
        estimator.feature_names_in_ = np.array(model.features, dtype=object)
    estimator._learn(release)
    return estimator


def _names(kind: type[Any]) -> set[str]:
    return {field.name for field in fields(kind)}


def _options(release: Release) -> dict[str, Any]:
    """Constructor arguments that describe this release, of whatever estimator has them."""
    model, guarantee, mechanism = release.model, release.guarantee, read_mechanism(release.mechanism)
    # Chains price their error into delta; what was asked for is the delta of exact draws.
    solved: Any = release.mechanism.numbers
    delta = solved.get("exact_delta", guarantee.delta)
    options: dict[str, Any] = {
        "epsilon": guarantee.epsilon,
        "delta": delta,
        "neighbours": guarantee.neighbours,
        "rows_per_person": guarantee.rows_per_person,
        "mechanism": mechanism,
        "draws": 1 if mechanism.requirements.draws == "one" else guarantee.draws,
        "feature_bounds": None if model.feature_bounds is None else list(model.feature_bounds),
        "target_bounds": model.target_bounds,
        "exposure_bounds": None if getattr(model, "offset", None) is None else model.offset.exposures,
        "classes": None if model.classes is None else list(model.classes),
        **model.family.to_dict(),
    }
    if getattr(model.family, "errors", None) is not None:
        options["errors"] = model.family.errors
    for name in ("fit_intercept", "hidden_layer_sizes", "activation"):
        if hasattr(model, name):
            options[name] = getattr(model, name)
    return options
