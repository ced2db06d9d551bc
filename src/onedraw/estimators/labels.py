# SPDX-License-Identifier: Apache-2.0
"""Class labels: the public set of classes, and the position of each label in it. Errors quote no label.

>>> import numpy as np
>>> declared_classes(["no", "yes"])
('no', 'yes')
>>> codes(("no", "yes"), np.array(["yes", "no"]))
array([1., 0.])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from onedraw.advice import Set
from onedraw.errors import InvalidInput
from onedraw.estimators.discreet import unquoted
from onedraw.families import Bernoulli, Categorical, Family
from onedraw.publishing import silent
from onedraw.types import AnyArray, Array

READ_FROM_LABELS = "The set of classes is public knowledge (it was read from the labels)."


def class_family(count: int) -> Family:
    """The family of a response with so many classes."""
    return Bernoulli() if count == 2 else Categorical(num_classes=count)


def declared_classes(classes: Any) -> tuple[Any, ...]:
    """The declared classes in their order, or an error about the declaration."""
    listed = list(classes) if np.iterable(classes) and not isinstance(classes, str) else []
    kinds = {isinstance(label, str) for label in listed}
    if len(set(listed)) < 2 or len(set(listed)) < len(listed) or len(kinds) > 1:
        raise InvalidInput(
            "Expected classes to list two or more distinct labels, all of them text or all of them "
            f"numbers, got classes={classes!r}."
        )
    return tuple(np.asarray(listed).tolist())


def classes_in(y: Any) -> tuple[Any, ...]:
    """The classes that occur in the labels. Nothing warns: a number that is no label would be told of."""
    with silent(), unquoted("y"):
        labels = column_or_1d(np.asarray(y))
        assert_all_finite(labels, input_name="y")
        check_labels(labels)
        found = np.unique(labels)
    if len(found) < 2:
        raise InvalidInput(
            "Expected at least two classes in y, got only one class.",
            advice=Set("classes", note=", the public set of them"),
        )
    return tuple(found.tolist())


def check_labels(y: AnyArray) -> None:
    """Refuse labels that scikit-learn does not take for classes."""
    try:
        check_classification_targets(y)
    except TypeError:  # bytes, or None among text
        raise InvalidInput(
            "Expected the labels in y to be all text, all numbers or all booleans, none of them missing. "
            "Recode them as text, or remove the rows without one."
        ) from None


def codes(classes: tuple[Any, ...], y: AnyArray) -> Array:
    """The position of each label among the classes. The error quotes the classes, never a label."""
    check_labels(y)
    known = np.array(classes)
    try:
        if len(known) == 2 and len(y):
            places = np.asarray(known[1] == y)
            found = places | (known[0] == y)
        else:
            order = np.argsort(known)
            places = order[np.minimum(np.searchsorted(known, y, sorter=order), len(known) - 1)]
            found = known[places] == y
    except TypeError:  # text and something else have no order
        places, found = np.zeros(len(y), dtype=np.intp), np.zeros(len(y), dtype=bool)
    if not np.all(found):
        raise InvalidInput(
            f"Expected every label to be among the declared classes={list(classes)!r}, "
            "but y holds another. Declare it too, or remove those rows."
        )
    return places.astype(np.float64)
