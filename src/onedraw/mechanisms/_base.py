# SPDX-License-Identifier: Apache-2.0
"""What every mechanism shares: declared requirements, calibration before data, one way to release.

A mechanism declares its ``Requirements`` as data. ``calibrate`` enforces them, the error about a missing
bound quotes them, and the table of docs/mechanisms.md is written from them: one statement, three uses.

Apart from ``OnePosteriorSample``, the mechanisms are private only because records are bounded. A bound is an
argument, never read from the data; records beyond it are shrunk to it before anything is computed
(``_bounds.py``), so the proof holds for every data set; and the release says so.

Guarantee:
    A mechanism whose proof uses the number of records as a public number is refused wherever neighbours may
    differ in it: under add/remove, and with several rows per person, of whom one with five rows may be
    replaced by one with three. A release states that number only where neighbours share it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from onedraw._random import generator
from onedraw._validate import one_of, positive, probability, whole
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.mechanisms.records import Records
from onedraw.model import RegressionModel
from onedraw.privacy.guarantee import NEIGHBOURS, Guarantee
from onedraw.release import Grid, Release
from onedraw.samplers.base import Evidence
from onedraw.types import Array, Neighbours

DEFAULT_NEEDS_NONE = (
    "The default mechanism (OnePosteriorSample with the beta-divergence loss) needs no bound on the data."
)
EXACTNESS = {
    "searched": ("The draw is exact: the search behind the envelope's bound missed no higher point.",),
}
"""What each level of evidence leaves to be assumed."""
M = TypeVar("M", bound="BoundedMechanism")


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What a mechanism says about itself before it is given anything.

    Attributes:
        kinds: the kinds of model that it fits.
        needs: the public facts that it cannot do without, each with the reason.
        delta: "unused" (pure privacy only), "needed", or "composition" (pure privacy; a delta > 0 lets
            several draws have more weight each).
        count: why it needs the number of records to be public, or "" if it does not.
        exact_draw: whether privacy rests on the exactness of a sampler.
        intercept_only: whether it estimates a single number.
        prefer: when to prefer it.
    """

    kinds: tuple[str, ...]
    needs: Mapping[str, str] = field(default_factory=dict)
    delta: Literal["unused", "needed", "composition"] = "unused"
    count: str = ""
    exact_draw: bool = False
    intercept_only: bool = False
    prefer: str

    @property
    def neighbours(self) -> tuple[Neighbours, ...]:
        """The relations under which it has a guarantee."""
        return ("replace_one",) if self.count else NEIGHBOURS


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Calibrated before it sees data; then it has a guarantee and releases."""

    name: ClassVar[str]
    requirements: ClassVar[Requirements]

    # -- what a mechanism says

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What a release of this mechanism promises, or an error that says how to get a promise."""

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The public grid that releases are rounded to."""

    @property
    def description(self) -> Mapping[str, str | float | None]:
        """The name and the public numbers that define the mechanism, for the release."""
        return {"name": self.name, **self._numbers()}

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know: clipping and anything taken on trust."""
        return ()

    @abstractmethod
    def _numbers(self) -> Mapping[str, str | float | None]:
        """The public numbers of ``description``."""

    @abstractmethod
    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        """Values (k, p) before rounding, with the evidence for them. Private until rounded."""

    # -- what all do alike

    def check(self, data: Records, *, model: RegressionModel) -> None:
        """Refuse what public facts alone rule out, before any budget is spent."""
        if data.features.shape[1] != model.num_features:
            raise InvalidInput(
                f"Expected records with the {model.num_features} features of the model, got "
                f"{data.features.shape[1]}."
            )

    def release(
        self,
        data: Records,
        *,
        model: RegressionModel,
        random_state: Any = None,
        assumptions: tuple[str, ...] = (),
        receipt: Mapping[str, str] | None = None,
    ) -> Release:
        """Compute, round to the public grid, and say what was done. Everything else stays here."""
        guarantee = self.guarantee
        self.check(data, model=model)
        rng, seeded = generator(random_state)
        values, evidence = self._values(data, model, rng)
        return Release(
            model=model,
            draws=tuple(tuple(row) for row in self.grid.round(values).tolist()),
            grid=self.grid,
            mechanism=self.description,
            guarantee=guarantee,
            assumptions=(*assumptions, *self.own_assumptions, *EXACTNESS.get(evidence.level, ())),
            evidence=evidence,
            seeded=seeded,
            num_records=len(data.response) if guarantee.num_records_is_public else None,
            receipt=receipt,
        )

    def _needed(self, name: str) -> float:
        """A declared bound, or an error that says why this mechanism needs it and the default does not."""
        why = self.requirements.needs[name]
        value = getattr(self, name)
        if value is None:
            raise InvalidInput(f"{type(self).__name__} needs {name}=...: {why} {DEFAULT_NEEDS_NONE}")
        return positive(**{name: value}, remedy=why)


@dataclass(frozen=True, kw_only=True)
class BoundedMechanism(Mechanism):
    """A mechanism with its own noise or weight; ``promise`` is None until it is calibrated."""

    promise: Guarantee | None = None

    def calibrate(
        self: M,
        *,
        epsilon: float,
        delta: float = 0.0,
        neighbours: Neighbours = "replace_one",
        rows_per_person: int = 1,
    ) -> M:
        """The same mechanism with its noise set for this guarantee, or an error that says why it cannot."""
        positive(epsilon=epsilon, remedy="Choose the privacy loss epsilon, for example epsilon=1.0.")
        probability(delta=delta, remedy="0 gives pure differential privacy.")
        one_of(NEIGHBOURS, neighbours=neighbours)
        guarantee = Guarantee(
            epsilon=float(epsilon),
            delta=float(delta),
            neighbours=neighbours,
            rows_per_person=whole(rows_per_person=rows_per_person),
            draws=self._draws_released(),
        )
        for need in self.requirements.needs:
            self._needed(need)
        self._check_delta(guarantee)
        if self.requirements.count:
            public_count_only(guarantee, type(self).__name__, self.requirements.count)
        return replace(self, promise=self._check(guarantee))

    @property
    def guarantee(self) -> Guarantee:
        """What a release of this mechanism promises, or an error that says how to get a promise."""
        if self.promise is None:
            raise uncalibrated()
        return self.promise

    def _check(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee, if the mechanism's own options allow it."""
        return guarantee

    def _draws_released(self) -> int:
        return 1

    def _check_delta(self, guarantee: Guarantee) -> None:
        mechanism, delta = type(self).__name__, self.requirements.delta
        if delta == "unused" and guarantee.delta > 0.0:
            raise InvalidInput(
                f"{mechanism} gives pure epsilon-differential privacy and cannot use "
                f"delta={guarantee.delta:g}. Leave delta out."
            )
        if delta == "needed" and guarantee.delta == 0.0:
            raise CalibrationError(
                f"{mechanism} has no guarantee at delta=0: the log ratio of neighbouring releases is "
                "unbounded. Give a delta far below one in the number of records, for example delta=1e-6, or "
                "use a pure mechanism.",
                requested=guarantee.epsilon,
            )

    def check(self, data: Records, *, model: RegressionModel) -> None:
        """Refuse what public facts alone rule out, before any budget is spent."""
        self._check_model(model)
        super().check(data, model=model)

    def _check_model(self, model: RegressionModel) -> None:
        """Refuse a model that the mechanism does not fit."""
        mechanism = type(self).__name__
        one_of(self.requirements.kinds, kind=model.kind, remedy=f"{mechanism} is for these models.")
        if self.requirements.intercept_only and (model.num_features or not model.fit_intercept):
            raise InvalidInput(
                f"{mechanism} estimates one number: describe it as a model with an intercept and no "
                f"features, got {model.num_features} features."
            )
        if model.scale_floor is not None:
            raise InvalidInput(
                f"{mechanism} releases no residual scale: describe the model without scale_floor."
            )
        if model.dim == 0:
            raise InvalidInput("Expected a model with a parameter, got no features and no intercept.")


def uncalibrated() -> CalibrationError:
    """The error of a mechanism that is asked for a promise too early."""
    return CalibrationError("This mechanism has no guarantee yet: call calibrate(epsilon=...) first.")


def public_count_only(guarantee: Guarantee, mechanism: str, why: str) -> None:
    """Refuse neighbours that may differ in the number of records, where the mechanism uses it as public."""
    if guarantee.num_records_is_public:
        return
    if guarantee.neighbours != "replace_one":
        only, got = "neighbours='replace_one'", f"neighbours={guarantee.neighbours!r}"
    else:
        only, got = "rows_per_person=1", f"rows_per_person={guarantee.rows_per_person}"
    raise InvalidInput(
        f"{mechanism} is private for {only} only, got {got}: {why} Such neighbours may differ in the number "
        "of records. The default mechanism (OnePosteriorSample) offers both."
    )
