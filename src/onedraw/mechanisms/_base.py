# SPDX-License-Identifier: Apache-2.0
"""What the mechanisms with declared bounds share: clipping to the bound, the promise, the release.

A mechanism of this folder other than ``OnePosteriorSample`` is private only because records are bounded. The
bound is an argument, never read from the data; records beyond it are shrunk to it here, before anything is
computed, so the proof holds for every data set; and the release says so.

Guarantee:
    ``bounded_design`` returns rows of Euclidean length at most ``feature_norm``, whatever it is given
    (the target is 1e-12 lower, which covers the rounding of the lengths).

>>> import numpy as np
>>> bounded_design(np.array([[3.0], [0.0]]), fit_intercept=False, feature_norm=2.0).round(6)
array([[2.], [0.]])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from onedraw._random import generator
from onedraw._validate import one_of, positive, probability, whole
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.mechanisms.one_posterior import Records
from onedraw.model import RegressionModel
from onedraw.privacy.guarantee import NEIGHBOURS, Guarantee
from onedraw.release import Grid, Release
from onedraw.samplers.base import Evidence
from onedraw.types import Array, Neighbours

SHRINK = 1.0 - 1e-12
"""Rows are clipped to this fraction of the declared norm, so that rounding cannot carry them beyond it."""
DEFAULT_NEEDS_NONE = (
    "The default mechanism (OnePosteriorSample with the beta-divergence loss) needs no bound on the data."
)
M = TypeVar("M", bound="BoundedMechanism")


def bounded_design(features: Array, *, fit_intercept: bool, feature_norm: float) -> Array:
    """The design matrix (n, p), ones in its last column, with rows shrunk to ``feature_norm`` if longer."""
    design = np.concatenate([features, np.ones((len(features), int(fit_intercept)))], axis=1)
    if design.shape[1] == 0:
        return design
    # Divided by the largest entry first: the square of a large feature would overflow.
    largest = np.abs(design).max(axis=1, keepdims=True)
    unit = np.where(largest > 0.0, largest, 1.0)
    with np.errstate(over="ignore", under="ignore"):  # a bound far above a small feature: no shrinking
        length = np.maximum(np.sqrt(np.square(design / unit).sum(axis=1, keepdims=True)), 1.0)
        room = feature_norm * SHRINK / unit / length
        return np.where(room < 1.0, (design / unit) * (feature_norm * SHRINK / length), design)


def need_bound(value: float | None, *, name: str, mechanism: str, why: str) -> float:
    """The declared bound, or an error that says why this mechanism needs one and the default does not."""
    if value is None:
        raise InvalidInput(f"{mechanism} needs {name}=...: {why} {DEFAULT_NEEDS_NONE}")
    return positive(**{name: value}, remedy=why)


def epsilon_only(guarantee: Guarantee, mechanism: str) -> None:
    """Refuse a delta that the mechanism could not use."""
    if guarantee.delta > 0.0:
        raise InvalidInput(
            f"{mechanism} gives pure epsilon-differential privacy and cannot use delta={guarantee.delta:g}. "
            "Leave delta out."
        )


def need_delta(guarantee: Guarantee, mechanism: str, why: str) -> None:
    """Ask for the delta without which the mechanism has no guarantee."""
    if guarantee.delta == 0.0:
        raise CalibrationError(
            f"{mechanism} has no guarantee at delta=0: {why} Give a delta far below one in the number of "
            "records, for example delta=1e-6, or use a pure mechanism.",
            requested=guarantee.epsilon,
        )


def shared_count_only(guarantee: Guarantee, mechanism: str, why: str) -> None:
    """Refuse add/remove where the mechanism uses the number of records as a public number."""
    if guarantee.neighbours != "replace_one":
        raise InvalidInput(
            f"{mechanism} is private for neighbours='replace_one' only, got "
            f"neighbours={guarantee.neighbours!r}: {why} "
            "The default mechanism (OnePosteriorSample) offers both."
        )


@dataclass(frozen=True, kw_only=True)
class BoundedMechanism(ABC):
    """Calibrated before it sees data; ``promise`` is None until then."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("logistic",)
    num_draws: ClassVar[int] = 1

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
        return replace(self, promise=self._check(guarantee))

    @property
    def guarantee(self) -> Guarantee:
        """What a release of this mechanism promises, or an error that says how to get a promise."""
        if self.promise is None:
            raise CalibrationError("This mechanism has no guarantee yet: call calibrate(epsilon=...) first.")
        return self.promise

    def release(
        self,
        data: Records,
        *,
        model: RegressionModel,
        random_state: Any = None,
        assumptions: tuple[str, ...] = (),
        receipt: Mapping[str, str] | None = None,
    ) -> Release:
        """Compute, add noise or draw, round to the public grid, and say what was done."""
        guarantee = self.guarantee
        self._check_model(model)
        if data.features.shape[1] != model.num_features:
            raise InvalidInput(
                f"Expected records with the {model.num_features} features of the model, got "
                f"{data.features.shape[1]}."
            )
        rng, seeded = generator(random_state)
        values, evidence = self._values(data, model, rng)
        grid = self.grid(model)
        return Release(
            model=model,
            draws=tuple(tuple(row) for row in grid.round(values).tolist()),
            grid=grid,
            mechanism={"name": self.name, **self.description},
            guarantee=guarantee,
            assumptions=(*assumptions, *self.own_assumptions),
            evidence=evidence,
            seeded=seeded,
            # Neighbours under replace-one share n, so it is public there and only there.
            num_records=len(data.response) if guarantee.neighbours == "replace_one" else None,
            receipt=receipt,
        )

    def _check_model(self, model: RegressionModel) -> None:
        one_of(self.kinds, kind=model.kind, remedy=f"{type(self).__name__} is for these models.")
        if model.scale_floor is not None:
            raise InvalidInput(
                f"{type(self).__name__} releases no residual scale: describe the model without scale_floor."
            )
        if model.dim == 0:
            raise InvalidInput("Expected a model with a parameter, got no features and no intercept.")

    def _draws_released(self) -> int:
        return self.num_draws

    @abstractmethod
    def grid(self, model: RegressionModel) -> Grid:
        """The public grid that releases are rounded to."""

    @property
    @abstractmethod
    def description(self) -> Mapping[str, str | float | None]:
        """The public numbers that define the mechanism, for the release."""

    @property
    @abstractmethod
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know: clipping and anything taken on trust."""

    @abstractmethod
    def _check(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee, if this mechanism can give it."""

    @abstractmethod
    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        """Values (k, p) before rounding, with the evidence for them. Private until rounded."""


def clipping_note(feature_norm: float) -> str:
    """The sentence that tells a reader about clipped features."""
    return (
        f"Feature vectors (with the intercept's 1) longer than feature_norm={feature_norm:g} in working "
        "units were shrunk to that length."
    )


def response_note(response_bound: float) -> str:
    """The sentence that tells a reader about clipped responses."""
    return f"Responses beyond response_bound={response_bound:g} in working units were moved to it."
