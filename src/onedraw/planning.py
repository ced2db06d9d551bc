# SPDX-License-Identifier: Apache-2.0
"""How accurate a release would be, simulated before anything is spent: no data enter here.

Records are simulated from public assumptions only: features by ``onedraw.simulated`` (numbers uniform over
their range, which is -1 to 1 here, and categories), coefficients either all of one size with random signs, or
normal and such that the linear predictor has about standard deviation 1, responses drawn by the family of the
model. Where the columns are declared, the private fit gets them declared and in one table, as the real fit
will. It and a fit without privacy, the mode of the same model under a normal prior, then see the same
simulated records.

Coefficients and errors are in the units of these features: of a number, per half of its range; of a category,
the difference from the first one of its column, the reference. The intercept is that of the references, with
all numbers in the middle of their ranges, and is 0.

What one draw of a posterior costs is averaged over several draws of each, so that few simulated tables
suffice; other mechanisms release once for each table.

The answer is as good as the assumptions: real features are correlated, and fill less of their range.

>>> found = plan("logistic", rows=500, features=2, epsilons=(0.5, 5.0), repeats=2, effect_size=1.0, seed=0)
>>> [row.epsilon for row in found.rows], found.rows[0].private > found.rows[1].private
([0.5, 5.0], True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from onedraw._validate import one_of, positive, whole
from onedraw.advice import Set
from onedraw.columns import Columns
from onedraw.errors import InvalidInput, SamplingError
from onedraw.estimators import Header
from onedraw.estimators.kinds import ESTIMATORS
from onedraw.losses import Gibbs
from onedraw.mechanisms import OnePosterior
from onedraw.model import RegressionModel
from onedraw.model.base import feature_map
from onedraw.posterior import Posterior
from onedraw.priors import Prior, ScalePrior
from onedraw.samplers.modes import climb
from onedraw.simulated import Design
from onedraw.types import Array
from onedraw.unsafe import posterior_draws

FORM = RegressionModel.form
"""The form of model whose coefficients have a truth to be compared with."""
DRAWS = 16
REFINEMENTS = 5
SIGNAL = 1.0
"""Standard deviation of the linear predictor where no size of the coefficients is given."""
PRIOR_SCALE = 3.0
"""Of the fit without privacy."""

FLOOR_SHARE = 0.1
"""Of the true residual scale, below which the fit without privacy does not look for it."""


@dataclass(frozen=True)
class Outlook:
    """What to expect at one epsilon: root mean squared errors of the parameters.

    Numbers go from -1 to 1, and the coefficient of a category is its difference from the reference.

    ``zero`` is the error of coefficients of zero, which need no data; ``failed`` the share of fits that would
    have released nothing, for all their charge.
    """

    epsilon: float
    private: float
    non_private: float
    zero: float
    failed: float = 0.0

    @property
    def ratio(self) -> float:
        """How many times larger the private error is."""
        return self.private / self.non_private


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Expected errors by epsilon, and the smallest epsilon that reaches a wanted error, where asked for."""

    model: str
    mechanism: str
    num_rows: int
    num_features: int
    repeats: int
    rows: tuple[Outlook, ...]
    wanted_error: float | None = None
    smallest_epsilon: float | None = None

    @property
    def advice(self) -> str:
        """One or two plain sentences."""
        return " ".join(filter(None, [self._accuracy, self._noise, self._failures]))

    @property
    def _accuracy(self) -> str:
        last = self.rows[-1]
        if self.wanted_error is None:
            if not math.isfinite(last.private):
                return ""
            return (
                f"At epsilon {last.epsilon:g} the private coefficients would be {last.ratio:.1f} times as "
                "far from the truth as the non-private ones."
            )
        if self.smallest_epsilon is None:
            return (
                f"No epsilon up to {last.epsilon:g} reaches an error of {self.wanted_error:g}; "
                f"without privacy it would be {last.non_private:.2g}."
            )
        if self.smallest_epsilon == self.rows[0].epsilon:
            return (
                f"An error of {self.wanted_error:g} is reached at epsilon {self.smallest_epsilon:g} already."
            )
        return f"An error of {self.wanted_error:g} needs an epsilon of about {self.smallest_epsilon:.2g}."

    @property
    def _noise(self) -> str:
        lost = [row.epsilon for row in self.rows if row.private >= row.zero]
        if not lost:
            return ""
        return f"At epsilon {max(lost):g} coefficients of zero would be closer to the truth than the release."

    @property
    def _failures(self) -> str:
        worst = max(self.rows, key=lambda row: row.failed)
        if not worst.failed:
            return ""
        return (
            f"At epsilon {worst.epsilon:g}, {worst.failed:.0%} of the fits by {self.mechanism} were charged "
            "and released nothing: choose another mechanism, or fewer features."
        )


def plan(
    model: str,
    *,
    rows: int,
    features: int | None = None,
    epsilons: Sequence[float],
    columns: Columns | None = None,
    correlation: float = 0.0,
    rare_share: float | None = None,
    classes: int | None = None,
    effect_size: float | None = None,
    noise: float = 0.5,
    repeats: int = 20,
    wanted_error: float | None = None,
    seed: int | None = None,
    progress: Callable[[], None] = lambda: None,
    **options: Any,
) -> Forecast:
    """Simulate releases at each epsilon.

    Args:
        model: the kind of a regression: "logistic", "linear" and so on.
        rows, features: the size of the table that is planned for; a public guess.
        columns: an ``onedraw.Columns`` that describes the columns, in place of ``features``. The private fit
            then knows ranges and categories, as it will know those of the table.
        correlation: between all columns.
        rare_share: the share of people in each category but the first of its column.
        epsilons: the privacy losses to compare.
        classes: how many classes the response has; by default as few as make this kind of model.
        effect_size: size of every coefficient, with random signs, numbers from -1 to 1 and categories as
            differences from the first one; by default coefficients are normal.
        noise: residual scale of a model that has one, in working units of the response.
        repeats: simulated tables.
        wanted_error: of the coefficients; the smallest epsilon that reaches it is looked for.
        seed: makes the simulation repeatable.
        progress: called after each simulated fit.
        options: of the estimator, for example ``mechanism``, ``delta`` or ``neighbours``.
    """
    one_of([name for name, kind in ESTIMATORS.items() if kind.form == FORM], model=model)
    num_rows = whole(rows=rows)
    if (features is None) == (columns is None):
        raise InvalidInput("Expected either the number of features or the columns.", advice=Set("features"))
    if columns is None:
        design = Design(levels=(0,) * whole(features=features), correlation=correlation)
    else:
        design = Design.of(columns, correlation=correlation, rare_share=rare_share)
    grid = sorted({positive(epsilon=epsilon) for epsilon in epsilons})
    if not grid:
        raise InvalidInput("Expected at least one epsilon to plan for.", advice=Set("epsilons", (0.5, 1, 2)))
    simulator = Simulator(
        kind=model,
        num_rows=num_rows,
        design=design,
        options={**options, **_labels(model, classes)},
        effect_size=None if effect_size is None else positive(effect_size=effect_size),
        noise=positive(noise=noise),
    )
    planned = simulator.planned(grid[0])
    root = np.random.SeedSequence(seed)
    tables = [
        simulator.table(planned.model, np.random.default_rng(child))
        for child in root.spawn(whole(repeats=repeats))
    ]
    plain = _root_mean([simulator.non_private_error(table) for table in tables])
    nothing = _root_mean([float(np.mean(np.square(table.truth))) for table in tables])

    def private(epsilon: float) -> tuple[float, float]:
        errors = []
        for number, table in enumerate(tables):
            errors.append(simulator.private_error(table, epsilon, seed=number))
            progress()
        found = [error for error in errors if error is not None]
        return _root_mean(found), 1.0 - len(found) / len(errors)

    def outlook(epsilon: float) -> Outlook:
        error, failed = private(epsilon)
        return Outlook(epsilon, error, plain, nothing, failed)

    found = tuple(map(outlook, grid))
    smallest = None
    if wanted_error is not None:
        smallest = _smallest(found, positive(wanted_error=wanted_error), lambda eps: private(eps)[0])
    return Forecast(
        model=model,
        mechanism=planned.mechanism.name,
        num_rows=num_rows,
        num_features=design.num_features,
        repeats=repeats,
        rows=found,
        wanted_error=wanted_error,
        smallest_epsilon=smallest,
    )


def _labels(kind: str, classes: int | None) -> dict[str, Any]:
    """The classes of the simulated response, as an option of the estimator, where it has such an option."""
    estimator = ESTIMATORS[kind]
    if "classes" not in {part.name for part in fields(estimator)}:
        if classes is not None:
            raise InvalidInput(f"A {kind} model has no classes, got {classes!r}. Leave their number out.")
        return {}
    counts = (2, 3) if classes is None else (whole(minimum=2, classes=classes),)
    for count in counts:
        labels = list(range(count))
        made = estimator(epsilon=1.0, classes=labels).plan(Header(features=("x",))).model.kind
        if made == kind:
            return {"classes": labels}
    raise InvalidInput(f"A response of {counts[0]} classes makes a {made} model, got a {kind} one.")


def _root_mean(squares: list[float]) -> float:
    return math.sqrt(float(np.mean(squares))) if squares else math.nan


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


@dataclass(frozen=True, kw_only=True)
class SimulatedTable:
    """A made-up table, and its true coefficients."""

    model: RegressionModel
    columns: Any
    """As the estimator gets them."""
    features: Array
    """In working units."""
    response: Array
    location: Array
    """The true coefficients and intercepts in working units, contrasts instead of classes."""

    @property
    def truth(self) -> Array:
        return _as_seen(self.model, self.location)


@dataclass(frozen=True, kw_only=True)
class Simulator:
    """Simulated tables of one model, and the errors of both fits on them."""

    kind: str
    num_rows: int
    design: Design
    effect_size: float | None
    noise: float
    options: dict[str, Any] = field(default_factory=dict)

    def estimator(self, epsilon: float, seed: int | None = None) -> Any:
        kind = ESTIMATORS[self.kind]
        return kind(epsilon=epsilon, random_state=seed, columns=self.design.columns, **self.options)

    def planned(self, epsilon: float) -> Any:
        return self.estimator(epsilon).plan(Header(features=self.design.names, num_records=self.num_rows))

    def table(self, model: RegressionModel, rng: np.random.Generator) -> SimulatedTable:
        predictors, width = model.family.num_predictors, self.design.num_features
        features = self.design.draw(self.num_rows, rng)
        if self.effect_size is None:
            coefficients = SIGNAL * self.design.sizes * rng.standard_normal((predictors, width))
        else:
            coefficients = self.effect_size * rng.choice([-1.0, 1.0], (predictors, width))
        eta, exposure = coefficients @ features.T, None
        if model.offset is not None:  # the logarithms of exposures fill their range evenly
            low, high = map(math.log, model.offset.exposures)
            exposure = np.exp(rng.uniform(low, high, self.num_rows))
            eta = eta + model.scale_offset(exposure)
        eta = eta[:, :, None] if model.family.vector_predictor else eta[0][:, None]
        scale = np.array(self.noise) if model.family.has_scale else None
        response = model.family.sample(eta, rng, scale)[:, 0]
        centre, half = feature_map(model.feature_bounds, width, model.fit_intercept)
        return SimulatedTable(
            model=model,
            columns=self.design.table(features, exposure),
            features=model.scale_features(features),
            response=response,
            location=np.append(coefficients * half, coefficients @ centre if model.fit_intercept else []),
        )

    def private_error(self, table: SimulatedTable, epsilon: float, seed: int) -> float | None:
        """Expected squared error of a release, mean over the parameters; None if there would be none."""
        estimator = self.estimator(epsilon, seed)
        mechanism = self.planned(epsilon).mechanism
        try:
            if isinstance(mechanism, OnePosterior):
                together = mechanism.guarantee.draws
                groups = max(1, DRAWS // together)
                drawn = posterior_draws(
                    estimator, table.columns, table.response, draws=groups * together, random_state=seed
                )
                released = drawn.reshape(groups, together, -1).mean(axis=1)
            else:
                released = estimator.fit(table.columns, table.response).release_.estimate.flat()
        except SamplingError:
            return None
        return float(np.mean(np.square(released[:, : len(table.truth)] - table.truth)))

    def non_private_error(self, table: SimulatedTable) -> float:
        """Squared error of the same model without privacy, under a normal prior on the coefficients."""
        model, family, start, noise = table.model, table.model.family, table.location, None
        if family.has_scale:
            noise = ScalePrior(floor=FLOOR_SHARE * self.noise)
            family = replace(family, scale_floor=noise.floor)  # type: ignore[type-var]
            start = np.append(start, noise.coordinate(self.noise))
        posterior = Posterior(
            loss=Gibbs(family),
            beta=1.0,
            weight=1.0,
            prior=Prior(scale=PRIOR_SCALE, noise=noise),
            features=table.features,
            response=table.response,
            fit_intercept=model.fit_intercept,
        )
        mode = climb(posterior, start, known=[])  # uphill from the truth is the mode that a fit would find
        assert mode is not None
        return float(np.mean(np.square(_as_seen(model, mode.location) - table.truth)))


def _as_seen(model: RegressionModel, working: Array) -> Array:
    """Coefficients (class by class) and intercepts as a release shows them, without a scale."""
    location = working[: model.num_location]
    found = model.original_units(np.append(location, [1.0] * int(model.has_scale))[None, :])
    return np.concatenate([found.coef.ravel(), found.intercept.ravel()])
