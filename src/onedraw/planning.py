# SPDX-License-Identifier: Apache-2.0
"""How accurate a release would be, simulated before anything is spent: no data enter here.

Records are simulated from public assumptions only: features uniform over their declared range (-1 to 1 in
working units), coefficients drawn from the prior or all of one size with random signs, responses from the
model. The private posterior and a non-private fit then see the same simulated records. What one draw costs is
averaged over several draws of each posterior, so that few simulated tables suffice.

The answer is as good as the assumptions: real features are correlated, and fill less of their range.

>>> outlook = plan("logistic", rows=500, features=2, epsilons=(0.5, 5.0), repeats=2, effect_size=1.0, seed=0)
>>> [row.epsilon for row in outlook.rows], outlook.rows[0].private > outlook.rows[1].private
([0.5, 5.0], True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from sklearn import linear_model

from onedraw._validate import one_of, positive, whole
from onedraw.errors import InvalidInput
from onedraw.estimators import LinearRegression, LogisticRegression, PoissonRegressor
from onedraw.types import Array
from onedraw.unsafe import posterior_draws

MODELS = ("logistic", "multinomial", "linear", "poisson")
TWO_CLASSES = "Two classes are a logistic model."
DRAWS = 16
REFINEMENTS = 5
LARGEST_RATE = 1e6  # of a simulated count: beyond it the simulated table says nothing about real ones


@dataclass(frozen=True)
class Outlook:
    """What to expect at one epsilon: root mean squared errors of the parameters, in working units.

    ``prior`` is the error of a draw that has learned nothing.
    """

    epsilon: float
    private: float
    non_private: float
    prior: float

    @property
    def ratio(self) -> float:
        """How many times larger the private error is."""
        return self.private / self.non_private


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Expected errors by epsilon, and the smallest epsilon that reaches a wanted error, where asked for."""

    model: str
    num_rows: int
    num_features: int
    repeats: int
    rows: tuple[Outlook, ...]
    wanted_error: float | None = None
    smallest_epsilon: float | None = None

    @property
    def advice(self) -> str:
        """One plain sentence."""
        if self.wanted_error is None:
            last = self.rows[-1]
            return (
                f"At epsilon {last.epsilon:g} the private coefficients would be {last.ratio:.1f} times as "
                "far from the truth as the non-private ones."
            )
        if self.smallest_epsilon is None:
            return (
                f"No epsilon up to {self.rows[-1].epsilon:g} reaches an error of {self.wanted_error:g}; "
                f"without privacy it would be {self.rows[-1].non_private:.2g}."
            )
        if self.smallest_epsilon == self.rows[0].epsilon:
            return (
                f"An error of {self.wanted_error:g} is reached at epsilon {self.smallest_epsilon:g} already."
            )
        return f"An error of {self.wanted_error:g} needs an epsilon of about {self.smallest_epsilon:.2g}."


def plan(
    model: str,
    *,
    rows: int,
    features: int,
    epsilons: Sequence[float],
    classes: int | None = None,
    effect_size: float | None = None,
    noise: float = 0.5,
    prior_scale: float = 3.0,
    repeats: int = 20,
    wanted_error: float | None = None,
    seed: int | None = None,
    progress: Callable[[], None] = lambda: None,
    **options: Any,
) -> Plan:
    """Simulate releases at each epsilon.

    Args:
        model: "logistic", "multinomial", "linear" or "poisson".
        rows, features: the size of the table that is planned for; a public guess.
        epsilons: the privacy losses to compare.
        classes: how many classes a multinomial model has (3 by default).
        effect_size: size of every coefficient, with random signs; drawn from the prior if not given.
        noise: residual standard deviation of a linear model, in working units of the response.
        prior_scale: of the estimator.
        repeats: simulated tables.
        wanted_error: of the coefficients; the smallest epsilon that reaches it is looked for.
        seed: makes the simulation repeatable.
        progress: called after each simulated fit.
        options: of the estimator, for example ``delta`` or ``neighbours``.
    """
    one_of(MODELS, model=model)
    num_rows, num_features = whole(rows=rows), whole(features=features)
    grid = sorted({positive(epsilon=epsilon) for epsilon in epsilons})
    if not grid:
        raise InvalidInput("Expected at least one epsilon to plan for, for example epsilons=(0.5, 1, 2).")
    if model != "multinomial" and classes is not None:
        raise InvalidInput(f"classes is for multinomial models, got model={model!r}. Leave it out.")
    count = 3 if classes is None else whole(minimum=3, classes=classes, remedy=TWO_CLASSES)
    simulator = _Simulator(
        model=model,
        num_rows=num_rows,
        num_features=num_features,
        num_classes=count,
        effect_size=None if effect_size is None else positive(effect_size=effect_size),
        noise=positive(noise=noise),
        prior_scale=positive(prior_scale=prior_scale),
        options=options,
    )
    root = np.random.SeedSequence(seed)
    tables = [simulator.table(np.random.default_rng(child)) for child in root.spawn(whole(repeats=repeats))]
    plain = _root_mean([simulator.non_private_error(table) for table in tables])
    nothing = _root_mean([float(np.mean(np.square(table.truth))) + prior_scale**2 for table in tables])

    def private(epsilon: float) -> float:
        errors = []
        for number, table in enumerate(tables):
            errors.append(simulator.private_error(table, epsilon, seed=number))
            progress()
        return _root_mean(errors)

    found = tuple(Outlook(epsilon, private(epsilon), plain, nothing) for epsilon in grid)
    smallest = (
        None if wanted_error is None else _smallest(found, positive(wanted_error=wanted_error), private)
    )
    return Plan(
        model=model,
        num_rows=num_rows,
        num_features=num_features,
        repeats=repeats,
        rows=found,
        wanted_error=wanted_error,
        smallest_epsilon=smallest,
    )


def _root_mean(squares: list[float]) -> float:
    return math.sqrt(float(np.mean(squares)))


def _smallest(rows: tuple[Outlook, ...], wanted: float, private: Callable[[float], float]) -> float | None:
    """The smallest epsilon with an error of at most ``wanted``, by bisection between the planned ones."""
    reaching = [row.epsilon for row in rows if row.private <= wanted]
    if not reaching:
        return None
    high = min(reaching)
    below = [row.epsilon for row in rows if row.epsilon < high]
    if not below:
        return high  # what is smaller was not asked about
    low = max(below)
    for _ in range(REFINEMENTS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if private(middle) <= wanted else (middle, high)
    return high


@dataclass(frozen=True)
class _Table:
    features: Array
    response: Array
    truth: Array  # coefficients, then intercepts


@dataclass(frozen=True, kw_only=True)
class _Simulator:
    """Simulated tables of one model, and the errors of both fits on them."""

    model: str
    num_rows: int
    num_features: int
    num_classes: int
    effect_size: float | None
    noise: float
    prior_scale: float
    options: dict[str, Any]

    def table(self, rng: np.random.Generator) -> _Table:
        features = rng.uniform(-1.0, 1.0, (self.num_rows, self.num_features))
        outputs = self.num_classes if self.model == "multinomial" else 1
        shape = (outputs, self.num_features)
        if self.effect_size is None:
            coefficients = self.prior_scale * rng.standard_normal(shape)
        else:
            coefficients = self.effect_size * rng.choice([-1.0, 1.0], shape)
        if outputs > 1:
            coefficients -= coefficients.mean(axis=0)  # what the estimator reports sums to zero
        eta = features @ coefficients.T
        truth = np.append(coefficients.ravel(), np.zeros(outputs))
        return _Table(features, self._response(eta, rng), truth)

    def _response(self, eta: Array, rng: np.random.Generator) -> Array:
        if self.model == "multinomial":
            return np.asarray((eta + rng.gumbel(size=eta.shape)).argmax(axis=1), dtype=float)
        mean = eta[:, 0]
        if self.model == "logistic":
            return np.asarray(rng.random(len(mean)) < special.expit(mean), dtype=float)
        if self.model == "poisson":
            return np.asarray(rng.poisson(np.minimum(np.exp(mean), LARGEST_RATE)), dtype=float)
        return np.asarray(mean + self.noise * rng.standard_normal(len(mean)))

    def estimator(self, epsilon: float) -> Any:
        shared = {"epsilon": epsilon, "prior_scale": self.prior_scale, **self.options}
        if self.model == "linear":
            return LinearRegression(noise_scale=self.noise, noise_floor=min(0.1, self.noise), **shared)
        if self.model == "poisson":
            return PoissonRegressor(**shared)
        count = self.num_classes if self.model == "multinomial" else 2
        return LogisticRegression(classes=list(range(count)), **shared)

    def private_error(self, table: _Table, epsilon: float, seed: int) -> float:
        """Expected squared error of one draw, mean over the parameters."""
        draws = posterior_draws(
            self.estimator(epsilon), table.features, table.response, draws=DRAWS, random_state=seed
        )
        return float(np.mean(np.square(draws[:, : len(table.truth)] - table.truth)))

    def non_private_error(self, table: _Table) -> float:
        """Squared error of the same model without privacy, under the same prior on the coefficients."""
        fitted = self._non_private().fit(table.features, table.response)
        estimate = np.append(np.ravel(fitted.coef_), np.ravel(fitted.intercept_))
        return float(np.mean(np.square(estimate - table.truth)))

    def _non_private(self) -> Any:
        if self.model == "linear":
            return linear_model.Ridge(alpha=(self.noise / self.prior_scale) ** 2)
        if self.model == "poisson":
            return linear_model.PoissonRegressor(
                alpha=1.0 / (self.num_rows * self.prior_scale**2), max_iter=1000
            )
        return linear_model.LogisticRegression(C=self.prior_scale**2, max_iter=1000)
