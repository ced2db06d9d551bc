# SPDX-License-Identifier: Apache-2.0
"""What the command line and the column file ask ``onedraw fit`` for, as an estimator that is not fitted yet.

An option or a fact that the model has no use for is a mistake, and refused. All else is the estimator's task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from onedraw.advice import Set
from onedraw.cli.columns import Target
from onedraw.cli.options import given_options
from onedraw.cli.settings import read_mechanism_options
from onedraw.errors import InvalidInput
from onedraw.estimators.kinds import ESTIMATORS
from onedraw.model import Bounds

DEFAULT_CLASSES = (0, 1)
"""Of a model of classes that are not declared: a convention, not a look at the labels."""


def build_estimator(
    kind: str,
    given: dict[str, Any],
    *,
    mechanism_options: Sequence[str] = (),
    target: Target | None = None,
    feature_bounds: Sequence[Bounds] | None = None,
) -> Any:
    """The estimator, not fitted yet; whatever does not belong to this kind of model is refused.

    >>> build_estimator("linear", {"epsilon": 1.0, "errors": "laplace", "dispersion": None}).errors
    'laplace'
    """
    settings = given_options(kind, given)
    target = Target() if target is None else target
    names = {part.name for part in fields(ESTIMATORS[kind])}
    for key, (option, value) in target.facts.items():
        if value is not None and option not in names:
            raise InvalidInput(
                f"{key} under [target] does not apply to the {kind} model. Take it out, or change --model."
            )
        if option in names:
            settings[option] = value
    if "classes" in names:
        settings["classes"] = list(target.classes or DEFAULT_CLASSES)
    settings["mechanism"] = read_mechanism_options(settings.get("mechanism"), mechanism_options)
    settings["feature_bounds"] = None if feature_bounds is None else list(feature_bounds)
    return ESTIMATORS[kind](**settings)


def check_kind(kind: str, model: Any, target: Target) -> None:
    """Refuse a number of classes that makes another of the estimator's kinds than was asked for."""
    found = model.kind
    if found == kind or ESTIMATORS.get(found) is not ESTIMATORS[kind]:
        return
    if target.classes is None:
        raise InvalidInput(f"The {kind} model needs its classes.", advice=Set("classes"))
    raise InvalidInput(
        f"The {len(target.classes)} classes under [target] make a {found} model, got --model {kind}.",
        advice=[Set("model", found), Set("classes", note=" otherwise")],
    )
