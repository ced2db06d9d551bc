# SPDX-License-Identifier: Apache-2.0
"""What mechanisms by noisy gradients share: a schedule of public numbers, and a run that follows it.

Guarantee:
    (epsilon, delta)-DP by ``onedraw.nn.training`` with the noise of ``onedraw.privacy.subsampled``. Neither
    the sampling rate nor the number of steps nor the noise depends on the data: they follow from a number of
    records that is public, or declared. A declared number need not be the true one for the guarantee to hold.

Edge cases:
    Where the number of records is public, it is used unless ``num_records`` declares another; elsewhere
    ``num_records`` must be declared, because no private number may set the size of a batch. n = 0 releases
    noise.

``preset="paper"`` (the default) is the schedule of Jewson, Ghalebikesabi & Holmes 2023: 14 + floor(epsilon)
epochs, batches of 100, Adam with learning rate 0.01, clip 1. (They square errors; here the residual scale is
fitted too. Their code took the number of features over the batch size for the sampling rate, and one epoch
more, than they printed.)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeVar

import numpy as np

from onedraw._validate import one_of, positive, whole
from onedraw.advice import Set
from onedraw.errors import InvalidInput
from onedraw.mechanisms._scale import with_floor
from onedraw.mechanisms.base import uncalibrated
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.nn.likelihood import known_loss
from onedraw.nn.objectives import Objective
from onedraw.nn.training import OPTIMISERS, Run, modules, train
from onedraw.privacy.request import Request
from onedraw.privacy.subsampled import Sampling, noise_multiplier
from onedraw.records import Records
from onedraw.release import Grid, coefficient_step, scale_step
from onedraw.samplers.base import Evidence
from onedraw.types import Array

PRESETS: Mapping[str, Mapping[str, float]] = {
    "paper": {"batch_size": 100, "learning_rate": 1e-2, "clip": 1.0},
}
"""The settings of a preset; its number of epochs is ``14 + floor(epsilon)``."""
WHY_NUM_RECORDS = (
    "the share of records in a batch, and with it the noise, is fixed before the data are seen, and no "
    "public number of records is known here."
)
N = TypeVar("N", bound="NoisyGradients")


@dataclass(frozen=True, kw_only=True)
class NoisyGradients(GridMechanism):
    """A network fitted by noisy gradients, calibrated before any data are seen.

    Args:
        num_records: a public guess of the number of records; not needed where that number is public.
        preset: the schedule that the settings come from where they are not given.
        epochs: how often every record is used on average.
        batch_size: the expected size of a batch.
        learning_rate: of the optimiser.
        optimiser: "adam" or "sgd".
    """

    num_records: int | None = None
    preset: Literal["paper"] = "paper"
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    optimiser: Literal["adam", "sgd"] = "adam"

    # -- what a kind of run adds

    @property
    @abstractmethod
    def gradient_norm(self) -> float:
        """C: no gradient of a record is longer."""

    @abstractmethod
    def objective(self) -> Objective:
        """What is minimised."""

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> Array:
        """Public starting parameters, (p,)."""

    @abstractmethod
    def _released(self, parameters: Array, rng: np.random.Generator) -> Array:
        """Draws (k, p) of the working parameters, made of the last parameters of a run."""

    @abstractmethod
    def _bounding_note(self) -> str:
        """What was done to records or gradients beyond their bound, for the reader of a release."""

    def _prepared(self, records: Records) -> Records:
        """The records within their declared bounds."""
        return records

    # -- checks, and the promise

    def _check_options(self) -> None:
        one_of(PRESETS, preset=self.preset)
        one_of(OPTIMISERS, optimiser=self.optimiser)
        for name in ("num_records", "epochs", "batch_size"):
            if getattr(self, name) is not None:
                whole(**{name: getattr(self, name)})
        if self.learning_rate is not None:
            positive(learning_rate=self.learning_rate)

    def _check_model(self, model: Any) -> None:
        known_loss(model.family)
        _ = self.declared_records
        modules()  # before any budget is spent

    def _solve(self: N, request: Request) -> N:
        promised = replace(self, promise=request.guarantee(draws=self._draws(request)))
        _ = promised.run  # the noise is solved for now: an impossible promise fails before data
        return promised

    # -- public numbers

    @property
    def declared_records(self) -> int:
        """The number of records that the schedule is made for."""
        if self.num_records is not None:
            return whole(num_records=self.num_records)
        if self.shape is None:
            raise uncalibrated()
        if self.shape.num_records is None:
            kind = type(self).__name__
            raise InvalidInput(
                f"{kind} needs num_records: {WHY_NUM_RECORDS}",
                advice=Set("num_records", of=kind, note=", a public guess of the number of records"),
            )
        return max(1, self.shape.num_records)

    def _setting(self, name: str) -> float:
        own = getattr(self, name)
        return float(PRESETS[self.preset][name] if own is None else own)

    def _epochs(self) -> int:
        return 14 + math.floor(self.guarantee.epsilon) if self.epochs is None else self.epochs

    @property
    def sampling(self) -> Sampling:
        """Rate and number of steps, from the declared number of records."""
        records = self.declared_records
        batch = min(self._setting("batch_size"), records)
        return Sampling(
            rate=batch / records,
            steps=self._epochs() * math.ceil(records / batch),
            rows_per_person=self.guarantee.rows_per_person,
        )

    @property
    def noise_multiplier(self) -> float:
        """z: the noise has standard deviation z C in every coordinate of a sum of gradients."""
        promise = self.guarantee
        return noise_multiplier(promise.epsilon, promise.delta, self.sampling, promise.neighbours)

    @property
    def run(self) -> Run:
        """All public numbers of a run."""
        sampling = self.sampling
        return Run(
            sampling=sampling,
            clip=self.gradient_norm,
            noise=self.noise_multiplier * self.gradient_norm,
            expected=sampling.rate * self.declared_records,
            optimiser=self.optimiser,
            learning_rate=self._setting("learning_rate"),
        )

    @property
    def grid(self) -> Grid:
        """2^-40 of one, and of the floor for a residual scale."""
        floor = self.model.scale_floor
        return Grid(coefficient=coefficient_step(1.0), scale=None if floor is None else scale_step(floor))

    # -- the run

    def _values(self, records: Records, rng: np.random.Generator) -> tuple[Array, Evidence]:
        last = train(self.objective(), self.initial(rng), self._prepared(records), self.run, rng)
        values = self._released(last, rng)
        if self.model.scale_floor is not None:
            values[:, -1] = self.model.scale_floor + np.exp(np.minimum(values[:, -1], 300.0))
        return values, self._evidence()

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        if self.guarantee.num_records_is_public:
            return (self._bounding_note(),)
        declared = f"num_records={self.num_records} was declared without a look at the private data."
        return self._bounding_note(), declared

    def _evidence(self) -> Evidence:
        run = self.run
        return Evidence(
            level=self.evidence_level,
            statement=(
                f"{run.sampling.steps} noisy sums of gradients, each record in a batch with probability "
                f"{run.sampling.rate:.4g}, with Gaussian noise of {self.noise_multiplier:.4g} times the "
                "largest length of a gradient; their privacy loss together was bounded numerically by the "
                "privacy-loss-distribution accountant of dp-accounting. Nothing rests on convergence."
            ),
        )

    def _numbers(self) -> Mapping[str, str | float | None]:
        run = self.run
        return {
            "learning_rate": run.learning_rate,
            "declared_num_records": float(self.declared_records),
            "epochs": float(self._epochs()),
            "batch_size": self._setting("batch_size"),
            "sampling_rate": run.sampling.rate,
            "steps": float(run.sampling.steps),
            "gradient_norm": run.clip,
            "noise_multiplier": self.noise_multiplier,
        }


def check_beta(beta: Any, remedy: str) -> None:
    """Refuse what is not a finite number > 1."""
    if isinstance(beta, bool) or not isinstance(beta, Real) or not 1.0 < float(beta) < math.inf:
        raise InvalidInput(f"Expected beta > 1 and finite, got beta={beta!r}. {remedy}")


@dataclass(frozen=True, kw_only=True)
class ClippedGradients(NoisyGradients):
    """Noisy gradients that are clipped, so that nothing is assumed about the records.

    Args:
        clip: C, the length that longer gradients of single records are shrunk to.
        beta: None fits by -log f, a number > 1 by the beta-divergence loss.
        noise_floor: the smallest residual scale of a regression, in units of the response; 0.1 working units
            by default.
    """

    clip: float | None = None
    beta: float | None = None
    noise_floor: float | None = None

    def _check_options(self) -> None:
        super()._check_options()
        for name in ("clip", "noise_floor"):
            if getattr(self, name) is not None:
                positive(**{name: getattr(self, name)})
        if self.beta is not None:
            check_beta(self.beta, "None fits by the log loss.")

    def _described(self, model: Any) -> Any:
        return with_floor(model, self.noise_floor, None)

    @property
    def gradient_norm(self) -> float:
        """C: what the gradient of a record is clipped to."""
        return self._setting("clip")

    def _bounding_note(self) -> str:
        return (
            f"Gradients of single records longer than {self.gradient_norm:g} were shrunk to that length, "
            "which may bias the fit."
        )
