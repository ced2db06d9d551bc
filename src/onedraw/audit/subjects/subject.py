# SPDX-License-Identifier: Apache-2.0
"""A mechanism to audit: how it is built, what it claims, and the data sets to attack it on.

A subject is called by the mechanism's name in the registry, and a variant of it by what differs after a
colon: the family of its responses, or the value of an option.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms import OnePosterior
>>> subject = Subject(name="one_posterior:paper", build=lambda model: OnePosterior(beta="paper"))
>>> subject.mechanism, subject.calibrated(epsilon=2.0).calibrated.beta
('one_posterior', 2.0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onedraw._validate import one_of
from onedraw.audit.attack import Score
from onedraw.audit.pairs import Pair, canary_pairs, neighbours_of, paper_pair
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Family
from onedraw.mechanisms import Shape
from onedraw.model import RegressionModel
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.types import Neighbours

BOTH: tuple[Neighbours, ...] = ("replace_one", "add_remove")
REPLACE_ONLY: tuple[Neighbours, ...] = ("replace_one",)
BOUND = 3.0
"""Of responses, where a mechanism needs one."""
CROWD = 6
PAIRS = ("telling", "paper")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A mechanism to audit. ``build`` makes it, uncalibrated, for a model.

    ``family`` says what the responses are, and ``responses`` the extremes of those of crafted records.
    ``width`` and ``intercept`` describe the model that is attacked; with ``bounded`` the range of its
    features is declared as [-1, 1]. Accuracy is measured on two features and an intercept, or on the
    intercept alone where ``regresses`` is not set, with the mechanism that ``fitted`` builds, by default the
    same, on data whose coefficients have standard deviation ``spread``.

    ``size`` is that of the features of crafted records. ``papers_pair`` says that the published pair is about
    this model. ``score`` tells outputs on the first pair of ``canaries`` apart; without one, a score is
    learned. ``for_rounds`` gives the uncalibrated mechanism the options that an attack of so many rounds asks
    for. A run of the mechanism takes about ``slowness`` times as long as most. ``crowds`` are the numbers of
    equal records beside the crafted one.
    """

    name: str
    build: Callable[[Any], Any]
    family: Family = field(default_factory=Bernoulli)
    responses: tuple[float, float] = (0.0, 1.0)
    width: int = 1
    intercept: bool = False
    bounded: bool = False
    regresses: bool = True
    spread: float = 1.0
    delta: float = 0.0
    relations: tuple[Neighbours, ...] = BOTH
    fitted: Callable[[Any], Any] | None = None
    papers_pair: bool = False
    size: float = 1.0
    score: Score | None = None
    for_rounds: Callable[[Any, int], Any] | None = None
    slowness: int = 1
    crowds: tuple[int, ...] = (0, 1, 2, CROWD)

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the registry."""
        return self.name.partition(":")[0]

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
        classes = tuple(range(self.family.num_predictors + 1)) if self.family.num_predictors > 1 else None
        return RegressionModel(
            family=self.family,
            features=names,
            fit_intercept=intercept,
            classes=classes,
            feature_bounds=((-1.0, 1.0),) * width if self.bounded else None,
        )

    def calibrated(
        self,
        *,
        epsilon: float,
        delta: float | None = None,
        neighbours: Neighbours = "replace_one",
        rounds: int | None = None,
    ) -> Any:
        """The mechanism with its guarantee, for the model that is attacked, made ready for ``rounds``."""
        mechanism = self.build(self.model)
        if rounds is not None and self.for_rounds is not None:
            mechanism = self.for_rounds(mechanism, rounds)
        return self._calibrated(mechanism, self.model, epsilon, delta, neighbours)

    def calibrated_to_fit(
        self, *, epsilon: float, delta: float | None = None, neighbours: Neighbours = "replace_one"
    ) -> Any:
        """The mechanism with its guarantee, for the model whose accuracy is measured."""
        model = self.fitted_model
        return self._calibrated((self.fitted or self.build)(model), model, epsilon, delta, neighbours)

    def _calibrated(
        self, mechanism: Any, model: Any, epsilon: float, delta: float | None, neighbours: Neighbours
    ) -> Any:
        one_of(self.relations, neighbours=neighbours, remedy=f"{self.name} offers these.")
        request = Request(
            epsilon=epsilon, delta=self.delta if delta is None else delta, neighbours=neighbours
        )
        ready, shape = self._shaped(mechanism, model)
        return ready.calibrate(request, shape)

    def _shaped(self, mechanism: Any, model: Any) -> tuple[Any, Shape]:
        """The mechanism as it is for the model, and the shape that it is calibrated to."""
        return mechanism, Shape(model=model)

    # -- how it is attacked

    def stated(self, mechanism: Any) -> Any:
        """The mechanism where its posterior is known, on records of features and a response; else None."""
        return mechanism if hasattr(mechanism, "posterior") else None

    def read(self, records: Records) -> Any:
        """The records as the mechanism reads them."""
        return records

    # -- what to attack it on

    def pairs(self, neighbours: Neighbours, choice: str = "telling") -> list[Pair]:
        """Candidate pairs; "paper" is the published one, for logistic models with one feature."""
        one_of(PAIRS, pair=choice)
        if choice == "paper":
            if not self.papers_pair or neighbours != "replace_one":
                raise InvalidInput(
                    f"The paper's pair is for logistic models with a feature and neighbours='replace_one', "
                    f"not for {self.name} with neighbours={neighbours!r}. Use pair='telling'."
                )
            return [paper_pair()]
        low, high = self.responses
        size = [self.size] * self.width
        pairs = []
        for crowd in self.crowds:
            common = [(size, low)] * crowd
            other = (size, low) if neighbours == "replace_one" else None
            name = f"{crowd} alike, one {'turned' if other else 'added'}"
            pairs.append(neighbours_of(common, (size, high), other, name=name))
        return pairs

    def canaries(self, neighbours: Neighbours) -> list[Pair]:
        """Candidate pairs for an attack from outside: a small balanced data set and one crafted record."""
        low, high = self.responses
        features = np.linspace(-1.0, 1.0, CROWD)[:, None] * np.ones((1, self.width))
        response = np.where(np.arange(CROWD) % 2 == 0, low, high)
        base = Records(features=features, response=response)
        return canary_pairs(base, size=self.size, responses=self.responses, neighbours=neighbours)
