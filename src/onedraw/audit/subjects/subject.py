# SPDX-License-Identifier: Apache-2.0
"""A mechanism to audit: how it is built, what it claims, and the data sets to attack it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onedraw._validate import one_of
from onedraw.audit.attack import Score
from onedraw.audit.pairs import Pair, canary_pairs, neighbours_of, paper_pair
from onedraw.errors import InvalidInput
from onedraw.mechanisms import Records
from onedraw.model import RegressionModel
from onedraw.types import Neighbours

BOTH: tuple[Neighbours, ...] = ("replace_one", "add_remove")
REPLACE_ONLY: tuple[Neighbours, ...] = ("replace_one",)
BOUND = 3.0
"""Of responses, where a mechanism needs one."""
CROWD = 6
PAIRS = ("telling", "paper")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A mechanism to audit. ``build`` makes it, uncalibrated, for a model with that many features.

    ``width`` and ``intercept`` describe the model that is attacked; accuracy is measured on two features and
    an intercept, or on the intercept alone where ``regresses`` is not set, with the mechanism that ``fitted``
    builds, by default the same. ``size`` is that of the features of crafted records. ``score`` tells outputs
    on the first pair of ``canaries`` apart; without one, a score is learned. A run of the mechanism takes
    about ``slowness`` times as long as most.
    """

    name: str
    kind: str
    build: Callable[[Any], Any]
    width: int = 1
    intercept: bool = False
    regresses: bool = True
    delta: float = 0.0
    relations: tuple[Neighbours, ...] = BOTH
    options: Mapping[str, Any] = field(default_factory=dict)
    scale_floor: float | None = None
    fitted: Callable[[Any], Any] | None = None
    size: float = 1.0
    score: Score | None = None
    slowness: int = 1

    @property
    def model(self) -> Any:
        """The model that is attacked."""
        return self._model(self.width, self.intercept)

    @property
    def fitted_model(self) -> Any:
        """The model whose accuracy is measured."""
        return self._model(2 if self.regresses else 0, True)

    def _model(self, width: int, intercept: bool) -> Any:
        names = tuple(f"x{i + 1}" for i in range(width))
        return RegressionModel(
            kind=self.kind, features=names, fit_intercept=intercept, scale_floor=self.scale_floor
        )

    def calibrated(
        self,
        *,
        epsilon: float,
        delta: float | None = None,
        neighbours: Neighbours = "replace_one",
        model: Any = None,
    ) -> Any:
        """The mechanism with its guarantee, for the model that is attacked, or for a ``model`` to fit."""
        one_of(self.relations, neighbours=neighbours, remedy=f"{self.name} offers these.")
        build = self.build if model is None else self.fitted or self.build
        return build(self.model if model is None else model).calibrate(
            epsilon=epsilon,
            delta=self.delta if delta is None else delta,
            neighbours=neighbours,
            **self.options,
        )

    # -- what to attack it on

    def pairs(self, neighbours: Neighbours, choice: str = "telling") -> list[Pair]:
        """Candidate pairs; "paper" is the published one, for logistic models with one feature."""
        one_of(PAIRS, pair=choice)
        if choice == "paper":
            if self.kind != "logistic" or self.width != 1 or neighbours != "replace_one":
                raise InvalidInput(
                    f"The paper's pair is for logistic models with a feature and neighbours='replace_one', "
                    f"not for {self.name} with neighbours={neighbours!r}. Use pair='telling'."
                )
            return [paper_pair()]
        low, high = {"logistic": (0.0, 1.0), "linear": (-BOUND, BOUND), "poisson": (0.0, 20.0)}[self.kind]
        size = [self.size] * self.width
        pairs = []
        for crowd in (0, 1, 2, CROWD):
            common = [(size, low)] * crowd
            other = (size, low) if neighbours == "replace_one" else None
            name = f"{crowd} alike, one {'turned' if other else 'added'}"
            pairs.append(neighbours_of(common, (size, high), other, name=name))
        return pairs

    def canaries(self, neighbours: Neighbours) -> list[Pair]:
        """Candidate pairs for an attack from outside: a small balanced data set and one crafted record."""
        low, high = (0.0, 1.0) if self.kind == "logistic" else (-BOUND, BOUND)
        features = np.linspace(-1.0, 1.0, CROWD)[:, None] * np.ones((1, self.width))
        response = np.where(np.arange(CROWD) % 2 == 0, low, high)
        base = Records(features=features, response=response)
        return canary_pairs(base, size=self.size, responses=(low, high), neighbours=neighbours)
