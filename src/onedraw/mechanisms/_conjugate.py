# SPDX-License-Identifier: Apache-2.0
"""What draws of conjugate posteriors share: a weight, and the number of records if it is declared."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TypeVar

from onedraw._validate import whole
from onedraw.errors import InvalidInput
from onedraw.mechanisms.base import SOLVED, public_count_only
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.privacy.guarantee import Guarantee
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.samplers.base import Evidence

EVIDENCE = Evidence(
    level="accounted",
    statement="The posterior is a standard law that is drawn from directly; nothing rests on a sampler.",
)
C = TypeVar("C", bound="ConjugateDraw")


@dataclass(frozen=True, kw_only=True)
class ConjugateDraw(GridMechanism):
    """One draw of a posterior in which the data have a weight of at most 1."""

    num_records: int | None = None
    """Public under replace-one with one row a person; declaring it allows a larger weight."""
    solved_weight: float | None = field(default=None, repr=False, metadata=SOLVED)

    @abstractmethod
    def _largest_weight(self, guarantee: Guarantee) -> float:
        """The largest weight at which one draw has this guarantee."""

    def _solve(self: C, request: Request) -> C:
        if self.num_records is not None:
            whole(num_records=self.num_records)
            why = "a declared num_records must be public."
            public_count_only(request, f"{type(self).__name__} with num_records", why)
        guarantee = request.guarantee()
        return replace(self, promise=guarantee, solved_weight=self._largest_weight(guarantee))

    @property
    def weight(self) -> float:
        """The weight of the data, at most 1."""
        assert self.solved_weight is not None
        return self.solved_weight

    def check_records(self, records: Records) -> None:
        """A declared number of records must be the true one, which is public then."""
        super().check_records(records)
        if self.num_records is not None and len(records.response) != self.num_records:
            raise InvalidInput(
                f"Expected the num_records={self.num_records} that the mechanism was calibrated for, got "
                f"{len(records.response)}."
            )
