# SPDX-License-Identifier: Apache-2.0
"""What a release promises, as a value that can be printed, compared and stored.

>>> print(Guarantee(epsilon=1.0))
Replacing all the data of any one person by any other changes the probability of any outcome of this release
by a factor of at most 2.72 (epsilon = 1, delta = 0).
"""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass
from typing import Any

from onedraw._validate import one_of, positive, probability, whole
from onedraw.types import Neighbours

NEIGHBOURS: tuple[Neighbours, ...] = ("replace_one", "add_remove")


def records_are_public(neighbours: str, rows_per_person: int) -> bool:
    """Whether neighbouring data sets always have the same number of records."""
    return neighbours == "replace_one" and rows_per_person == 1


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of a whole release under a neighbouring relation.

    ``rows_per_person`` is how many records one person may hold; the guarantee covers all of them together.
    ``bounded_range`` is set for releases made of ``draws`` draws of an exponential mechanism: the privacy
    loss of each draw then lies in an interval of that width, which a ledger can compose better than epsilon
    alone.
    """

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours = "replace_one"
    rows_per_person: int = 1
    draws: int = 1
    bounded_range: float | None = None

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        probability(delta=self.delta)
        one_of(NEIGHBOURS, neighbours=self.neighbours)
        whole(rows_per_person=self.rows_per_person)
        whole(draws=self.draws)

    @property
    def num_records_is_public(self) -> bool:
        """Whether all neighbours share the number of records, so that it may be published.

        Not with several rows per person: a person with five rows may be replaced by one with three.
        """
        return records_are_public(self.neighbours, self.rows_per_person)

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, condition: str = "") -> str:
        """The guarantee in words; conditional on what is not proved, if anything is."""
        change = {
            "replace_one": "Replacing all the data of any one person by any other",
            "add_remove": "Adding or removing all the data of any one person",
        }[self.neighbours]
        rows = f" (up to {self.rows_per_person} rows)" if self.rows_per_person > 1 else ""
        factor = f"{math.exp(self.epsilon):.3g}" if self.epsilon < 700 else f"exp({self.epsilon:g})"
        slack = f", apart from a probability of {self.delta:g}" if self.delta else ""
        if condition:
            change = f"If {condition}: {change[0].lower()}{change[1:]}"
        return (
            f"{change}{rows} changes the probability of any outcome of this release by a factor of "
            f"at most {factor}{slack} (epsilon = {self.epsilon:g}, delta = {self.delta:g})."
        )

    def _repr_html_(self) -> str:
        return f'<p class="onedraw">{html.escape(str(self))}</p>'

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)
