# SPDX-License-Identifier: Apache-2.0
"""What the command line and the column file ask ``onedraw fit`` for, as an estimator that is not fitted yet.

An option or a fact that the model has no use for is a mistake, and refused. All else is the estimator's task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from onedraw.advice import COLUMN_FILE, Set
from onedraw.cli.options import given_options
from onedraw.cli.settings import read_mechanism_options
from onedraw.columns import Columns, Target
from onedraw.errors import InvalidInput
from onedraw.estimators.kinds import ESTIMATORS

DEFAULT_CLASSES = (0, 1)
"""Of a model of classes that are not declared: a convention, not a look at the labels."""


def build_estimator(
    kind: str,
    given: dict[str, Any],
    *,
    mechanism_options: Sequence[str] = (),
    columns: Columns | None = None,
) -> Any:
    """The estimator, not fitted yet; whatever does not belong to this kind of model is refused.

    >>> build_estimator("linear", {"epsilon": 1.0, "errors": "laplace", "dispersion": None}).errors
    'laplace'
    """
    settings = given_options(kind, given)
    columns = Columns() if columns is None else columns
    names = {part.name for part in fields(ESTIMATORS[kind])}
    for option, value in columns.target.facts.items():
        if value is not None and option not in names:
            key = COLUMN_FILE[option][0].partition(" ")[0]
            raise InvalidInput(
                f"{key} under [target] does not apply to the {kind} model. Take it out, or change --model."
            )
    if has_classes(kind) and columns.target.classes is None:
        settings["classes"] = list(DEFAULT_CLASSES)
    settings["mechanism"] = read_mechanism_options(settings.get("mechanism"), mechanism_options)
    return ESTIMATORS[kind](**settings, columns=columns)


def for_target(columns: Columns, target: str) -> Columns:
    """The declaration, with the target that the command names."""
    declared = columns.target.name
    if declared not in (None, target):
        raise InvalidInput(f"[target] names {declared!r}, got --target {target}. Keep one of them.")
    return replace(columns, target=replace(columns.target, name=target))


def for_exposure(columns: Columns, exposure: str | None) -> Columns:
    """The declaration, with the exposure that the command names, if it does."""
    if exposure is None or exposure == columns.exposure:
        return columns
    if columns.exposure is not None:
        raise InvalidInput(
            f"The column file names the exposure {columns.exposure!r}, got --exposure {exposure}. Keep one."
        )
    return replace(columns, exposure=exposure)


def has_classes(kind: str) -> bool:
    """Whether the response of this kind of model is one of several classes."""
    return "classes" in {part.name for part in fields(ESTIMATORS[kind])}


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
