# SPDX-License-Identifier: Apache-2.0
"""From rows and responses to a published fit, family by family: which loss, which stages, which shares.

A recipe spends its ``Terms`` on one tilted fit, after stages that find a scale or a cap where the family
needs one, and says what was published on the way. Everything it returns is private in the sense of the
guarantee, so it may be published once it is rounded.

Guarantee:
    epsilon-DP (or (epsilon, delta)-DP) for each recipe as a whole: the stages use parts of epsilon and delta
    that add up, each private given what was published before [sequential composition].

*Classes.* One fit. *Counts.* A cap near a quantile of the counts with ``CAP_SHARE`` of epsilon, then a fit
of the capped counts. *Linear.* Four stages, see ``linear``.

>>> import numpy as np
>>> from onedraw.families import Poisson
>>> from onedraw.model import RegressionModel
>>> from onedraw.tilted.weights import cube_rows
>>> rng = np.random.default_rng(0)
>>> x = rng.uniform(-1.0, 1.0, (20_000, 1)); y = rng.poisson(np.exp(0.5 + x[:, 0])).astype(float)
>>> rows = cube_rows(x, bounds=np.array([[-1.0, 1.0]]))
>>> model = RegressionModel(family=Poisson(), features=("x",))
>>> fitted = recipe_of(model)(rows, y, Terms(epsilon=1.0), rng)
>>> fitted.theta.round(1), sorted(fitted.published)
(array([[1. , 0.5]]), ['cap'])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from onedraw._validate import one_of
from onedraw.families import Bernoulli, Categorical, Gaussian, NegativeBinomial, Poisson
from onedraw.model import RegressionModel
from onedraw.tilted.calibration import Calibration, calibrate
from onedraw.tilted.count_loss import CappedCounts
from onedraw.tilted.fit import tilted_fit
from onedraw.tilted.linear import CUT as LINEAR_CUT
from onedraw.tilted.linear import linear_fit, working_response
from onedraw.tilted.losses import LogCosh, Logistic, Loss
from onedraw.tilted.quantiles import CAP_TAU, cap_of_counts
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.weights import Geometry, Rows
from onedraw.types import Array, Neighbours

CAP_SHARE = 0.05
"""Of epsilon, for the cap of counts."""
RAW_PRICE = 0.1
"""Of epsilon, for a smaller ridge where the minimiser is reported as it is, for each predictor."""
LARGEST_RAW_PRICE = 0.2
"""However many predictors: a share that grew with them would leave nothing for the tilt at eleven classes."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a fit may spend, under which relation."""

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours = "replace_one"
    rows_per_person: int = 1
    raw: bool = False
    """Whether the minimiser is reported as it is. Then its ridge pulls it to the centre, and it pays to spend
    a little of epsilon on a smaller ridge."""

    def part(self, share: float) -> Terms:
        """A share of epsilon and delta, the same otherwise."""
        return replace(self, epsilon=share * self.epsilon, delta=share * self.delta)

    def calibrated(self, loss: Loss, dim: int, geometry: Geometry) -> Calibration:
        """The tilt of one fit that spends all of it."""
        price = None
        if self.raw:
            price = max(loss.price, min(RAW_PRICE * loss.num_predictors, LARGEST_RAW_PRICE))
        return calibrate(
            loss,
            dim=dim,
            geometry=geometry,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            rows_per_person=self.rows_per_person,
            price=price,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A published fit: parameters (q, p), what they were pulled to, and the public facts of the noise."""

    theta: Array
    centre: Array
    loss: Loss
    response: Array
    """The response as the last fit saw it, for a curvature at theta - centre. Not published."""
    calibration: Calibration
    published: Mapping[str, float] = field(default_factory=dict)
    """Numbers that earlier stages published."""


class Recipe(Protocol):
    """The stages of a fit; ``loss`` is that of the last one where it is known beforehand."""

    @property
    def loss(self) -> Loss | None: ...

    def __call__(self, rows: Rows, response: Array, terms: Terms, rng: np.random.Generator) -> Fitted: ...


@dataclass(frozen=True)
class OneFit:
    """One fit of a loss that is known beforehand."""

    loss: Loss

    def __call__(self, rows: Rows, response: Array, terms: Terms, rng: np.random.Generator) -> Fitted:
        calibration = terms.calibrated(self.loss, rows.dim, rows.geometry)
        theta = tilted_fit(self.loss, rows, response, calibration, rng)
        centre = np.zeros_like(theta)
        return Fitted(
            theta=theta, centre=centre, loss=self.loss, response=response, calibration=calibration
        )


@dataclass(frozen=True)
class CountFit:
    """A private cap, then a fit of the capped counts."""

    dispersion: float | None
    loss: ClassVar[None] = None

    def __call__(self, rows: Rows, response: Array, terms: Terms, rng: np.random.Generator) -> Fitted:
        spent = terms.part(CAP_SHARE)
        cap = cap_of_counts(
            response,
            rng=rng,
            tau=CAP_TAU,
            epsilon=spent.epsilon,
            neighbours=spent.neighbours,
            rows_per_person=spent.rows_per_person,
        )
        left = replace(terms, epsilon=(1.0 - CAP_SHARE) * terms.epsilon)
        fit = OneFit(CappedCounts(cap=cap, dispersion=self.dispersion))
        return replace(fit(rows, response, left, rng), published={"cap": float(cap)})


@dataclass(frozen=True)
class LinearStages:
    """Location, scale, a fit, and a finer fit around it."""

    intercept: bool
    loss: ClassVar[None] = None

    def __call__(self, rows: Rows, response: Array, terms: Terms, rng: np.random.Generator) -> Fitted:
        found = linear_fit(
            rows,
            response,
            rng=rng,
            epsilon=terms.epsilon,
            delta=terms.delta,
            neighbours=terms.neighbours,
            rows_per_person=terms.rows_per_person,
            intercept=self.intercept,
        )
        loss = LogCosh(cut=LINEAR_CUT * found.scale)
        return Fitted(
            theta=found.theta[None, :],
            centre=found.first[None, :],
            loss=loss,
            response=working_response(rows, response, found.first, loss.cut),
            calibration=found.calibration,
            published={
                "scale": found.scale,
                "window_location": found.window.location,
                "window_scale": found.window.scale,
            },
        )


def _classes(model: RegressionModel) -> Recipe:
    classes = model.family.num_predictors + 1
    return OneFit(Logistic() if classes == 2 else Softmax(classes=classes))


RECIPES: Mapping[str, Callable[[RegressionModel], Recipe]] = {
    Bernoulli.name: _classes,
    Categorical.name: _classes,
    Gaussian.name: lambda model: LinearStages(intercept=model.fit_intercept),
    Poisson.name: lambda model: CountFit(dispersion=None),
    NegativeBinomial.name: lambda model: CountFit(dispersion=model.family.to_dict()["dispersion"]),
}
"""By the name of the family."""


def recipe_of(model: RegressionModel) -> Recipe:
    """How the tilted fit treats a model of this family."""
    return RECIPES[one_of(RECIPES, family=model.family.name)](model)
