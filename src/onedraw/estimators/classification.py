# SPDX-License-Identifier: Apache-2.0
"""What the classifiers share: the option ``classes``, and how labels become codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onedraw.advice import Set
from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateEstimator
from onedraw.estimators.labels import READ_FROM_LABELS, classes_in, codes, declared_classes
from onedraw.types import AnyArray, Array


@dataclass(kw_only=True, eq=False, repr=False)
class Classification(PrivateEstimator):
    """Base of the classifiers.

    Args:
        classes: the public set of classes; by default those seen in y, which the release then lists as an
            assumption.
    """

    classes: Any = None

    def _classes(self, y: Any) -> tuple[tuple[Any, ...] | None, tuple[str, ...]]:
        declared = self._declared("classes")
        if declared is not None:
            return declared_classes(declared), ()
        if y is None or self.columns is not None:
            raise InvalidInput("A plan needs the public set of classes.", advice=Set("classes"))
        if self.neighbours == "add_remove":
            raise InvalidInput(
                "Expected declared classes with neighbours='add_remove': classes read from the labels would "
                "tell whether the only person of a class is there.",
                advice=Set("classes", note=", the public set of them"),
            )
        if self.ledger is not None:
            raise InvalidInput(
                "Expected declared classes where a ledger is charged: to read them from the labels would be "
                "a look at the data before the charge.",
                advice=Set("classes", note=", the public set of them"),
            )
        return classes_in(y), (READ_FROM_LABELS,)

    def _coded(self, y: AnyArray, model: Any) -> Array:
        return codes(model.classes, y)
