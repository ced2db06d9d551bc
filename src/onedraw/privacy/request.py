# SPDX-License-Identifier: Apache-2.0
"""What a release is asked to promise, before there is a mechanism to keep the promise.

>>> Request(epsilon=1.0).num_records_is_public, Request(epsilon=1.0, rows_per_person=2).num_records_is_public
(True, False)
>>> Request(epsilon=None)
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected epsilon > 0 and finite, got epsilon=None. Choose ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onedraw._validate import one_of, positive, probability, whole
from onedraw.advice import Set
from onedraw.errors import InvalidInput
from onedraw.privacy.guarantee import NEIGHBOURS, Guarantee, records_are_public
from onedraw.types import Neighbours


@dataclass(frozen=True, kw_only=True)
class Request:
    """A wanted (epsilon, delta) under a relation between data sets, for a number of draws.

    ``draws`` is how many draws are released together; "auto" leaves their number to the mechanism, which
    chooses it from public facts.
    """

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours = "replace_one"
    rows_per_person: int = 1
    draws: int | str = 1

    def __post_init__(self) -> None:
        positive(
            epsilon=self.epsilon,
            remedy=Set("epsilon", 1.0, lead="choose the privacy loss epsilon, for example"),
        )
        probability(delta=self.delta, remedy="0 gives pure differential privacy.")
        one_of(NEIGHBOURS, neighbours=self.neighbours)
        whole(rows_per_person=self.rows_per_person)
        if isinstance(self.draws, str):
            if self.draws != "auto":
                raise InvalidInput(f"Expected draws to be a whole number >= 1 or 'auto', got {self.draws!r}.")
        else:
            whole(draws=self.draws)

    @property
    def num_records_is_public(self) -> bool:
        """Whether neighbouring data sets always have the same number of records."""
        return records_are_public(self.neighbours, self.rows_per_person)

    @property
    def terms(self) -> dict[str, Any]:
        """The request as arguments of ``calibrate_loss``."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours,
            "rows_per_person": self.rows_per_person,
            "draws": self.draws,
        }

    def guarantee(self, *, draws: int = 1, bounded_range: float | None = None) -> Guarantee:
        """The promise that keeps this request with that many draws."""
        return Guarantee(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            neighbours=self.neighbours,
            rows_per_person=int(self.rows_per_person),
            draws=draws,
            bounded_range=bounded_range,
        )
