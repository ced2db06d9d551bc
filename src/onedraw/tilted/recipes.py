# SPDX-License-Identifier: Apache-2.0
"""From rows and responses to a published fit, family by family: which loss, which stages, which shares.

A recipe spends its ``Terms`` on one tilted fit, after stages that find a scale or a cap where the family
needs one, and says what was published on the way. Everything it returns is private in the sense of the
guarantee, so it may be published once it is rounded.

Guarantee:
    epsilon-DP (or (epsilon, delta)-DP) for each recipe as a whole: the stages use parts of epsilon and delta
    that add up, each private given what was published before [sequential composition].

*Classes.* One fit, with half of Brier's score in the loss (``losses``, ``softmax_loss``). *Counts.* A cap
near a quantile of the counts (whatever their exposures), then a fit of the capped counts.
*Linear.* Four stages, see ``linear``.

>>> import numpy as np
>>> from onedraw.families import Poisson
>>> from onedraw.model import RegressionModel
>>> from onedraw.tilted.weights import cube_rows
>>> rng = np.random.default_rng(0)
>>> x = rng.uniform(-1.0, 1.0, (20_000, 1)); y = rng.poisson(np.exp(0.5 + x[:, 0])).astype(float)
>>> rows = replace(cube_rows(x, bounds=np.array([[-1.0, 1.0]])), response=y)
>>> model = RegressionModel(family=Poisson(), features=("x",))
>>> fitted = recipe_of(model)(rows, "cube", Terms(epsilon=1.0), rng)
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
from onedraw.tables import base
from onedraw.tables.base import Table
from onedraw.tables.foresight import staged
from onedraw.tilted.calibration import Calibration
from onedraw.tilted.count_loss import CappedCounts
from onedraw.tilted.fit import tilted_minimiser
from onedraw.tilted.linear import linear_fit
from onedraw.tilted.losses import Logistic, Loss
from onedraw.tilted.quantiles import CapCounts, Counted, Drawn, cap_of_counts
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.solver import AtPoint
from onedraw.tilted.sums import Sums, information, squared
from onedraw.tilted.terms import Terms
from onedraw.tilted.weights import Geometry
from onedraw.types import Array

TAUS = ((0.05, 0.8), (0.003, 0.9), (0.0, 0.98))
"""Of which quantile of the counts the cap is, by the noise of the fit (``Terms.noise``) from which on it is
taken: a small cap where noise is most of the error, a large one where losing what is above it is."""
BRIER = 0.5
"""Of Brier's score in the loss of classes: the most that leaves it convex. Its score is as large as that
of the log loss and its slope up to a quarter larger, which is a quarter less noise in units of the slope."""
NATS_CAP = 20.0
"""n epsilon of the choice of a cap, times the share of counts above it: what tells it from larger ones."""
UNPULLED_TAUS = ((0.08, 0.8), (0.016, 0.9), (0.0045, 0.95), (0.0, 0.98))
"""The same where the pull of the ridge is taken off: a larger cap also means a larger ridge, which then costs
nothing. By the standard errors H^-1 (K + Var b) H^-1 of simulated tables (five sizes, two feature laws)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A published fit: parameters (q, p), what they were pulled to, and the public facts of the noise."""

    theta: Array
    centre: Array
    loss: Loss
    table: Table
    """The rows and responses as the last fit saw them. Not published."""
    calibration: Calibration
    taken: Mapping[AtPoint, base.Sums] = field(default_factory=dict)
    """Sums at theta - centre that the fit took on its way. Not published."""
    published: Mapping[str, float] = field(default_factory=dict)
    """Numbers that earlier stages published."""

    def summed(self, at: AtPoint) -> base.Sums:
        """The sums of a kernel at the released parameters, which may take a pass. Not published."""
        if at in self.taken:
            return self.taken[at]
        return self.table.sum(at(self.loss, self.theta - self.centre))

    @property
    def curvature(self) -> Array:
        """The curvature (qp, qp) of ``loss.information`` at the released parameters. Not published."""
        return squared(self.summed(information)[0])


class Recipe(Protocol):
    """The stages of a fit; ``loss`` is that of the last one where it is known beforehand.

    ``also`` are sums that will be wanted at the released parameters, for the last pass to take.
    """

    @property
    def loss(self) -> Loss | None: ...

    @property
    def without_robust(self) -> str:
        """Why errors that hold whatever the variance is are not to be had; empty where they are."""
        ...

    def __call__(
        self,
        table: Table,
        geometry: Geometry,
        terms: Terms,
        rng: np.random.Generator,
        also: tuple[AtPoint, ...] = (),
    ) -> Fitted: ...


@dataclass(frozen=True)
class OneFit:
    """One fit of a loss that is known beforehand; ``published`` says of it what a reader must know."""

    loss: Loss
    published: Mapping[str, float] = field(default_factory=dict)
    without_robust: ClassVar[str] = ""

    def __call__(
        self,
        table: Table,
        geometry: Geometry,
        terms: Terms,
        rng: np.random.Generator,
        also: tuple[AtPoint, ...] = (),
    ) -> Fitted:
        calibration = terms.calibrated(self.loss, table.shape[1], geometry)
        found = tilted_minimiser(Sums(loss=self.loss, table=table), calibration, rng, also=also)
        return Fitted(
            theta=found.theta,
            centre=np.zeros_like(found.theta),
            loss=self.loss,
            table=table,
            calibration=calibration,
            taken=_by_kernel(also, found.taken),
            published=self.published,
        )


@dataclass(frozen=True)
class CountFit:
    """A private cap, then a fit of the capped counts.

    E min(Y, cap) depends on the whole law of Y, so the fit is that of the means only if the law is the
    model's: where counts vary more than it says, no error of the sandwich makes up for that.
    """

    dispersion: float | None
    loss: ClassVar[None] = None
    without_robust: ClassVar[str] = (
        "Robust errors of counts would not hold: counts are capped, and a fit of capped counts is that of "
        "their means only if they vary as the model says."
    )

    def __call__(
        self,
        table: Table,
        geometry: Geometry,
        terms: Terms,
        rng: np.random.Generator,
        also: tuple[AtPoint, ...] = (),
    ) -> Fitted:
        much = terms.noise(table.shape[1])
        tau = next(tau for least, tau in (TAUS if terms.raw else UNPULLED_TAUS) if much >= least)
        spent = min(max(NATS_CAP / (1.0 - tau) / terms.information, 0.005), 0.05) * terms.epsilon
        left = replace(terms, epsilon=terms.epsilon - spent)
        noise = Drawn(rng)

        def chosen(sums: base.Sums) -> int:
            return cap_of_counts(
                Counted(up_to=sums[0], num_values=table.shape[0]),
                rng=noise.again(),
                tau=tau,
                epsilon=spent,
                neighbours=terms.neighbours,
                rows_per_person=terms.rows_per_person,
            )

        def fitted(cap: int, counts: Table) -> Fitted:
            fit = OneFit(CappedCounts(cap=cap, dispersion=self.dispersion))
            return replace(fit(counts, geometry, left, rng, also), published={"cap": float(cap)})

        return staged(table, CapCounts(), chosen, fitted, rng)


@dataclass(frozen=True)
class LinearStages:
    """Location, scale, a fit, and a finer fit around it."""

    intercept: bool
    loss: ClassVar[None] = None
    without_robust: ClassVar[str] = ""

    def __call__(
        self,
        table: Table,
        geometry: Geometry,
        terms: Terms,
        rng: np.random.Generator,
        also: tuple[AtPoint, ...] = (),
    ) -> Fitted:
        found = linear_fit(table, geometry, terms, rng, intercept=self.intercept, also=also)
        return Fitted(
            theta=found.theta[None, :],
            centre=found.first[None, :],
            loss=found.loss,
            table=found.table,
            calibration=found.calibration,
            taken=_by_kernel(also, found.taken),
            published={
                "scale": found.scale,
                "window_location": found.window.location,
                "window_scale": found.window.scale,
            },
        )


def _classes(model: RegressionModel) -> Recipe:
    classes = model.family.num_predictors + 1
    loss = Logistic(brier=BRIER) if classes == 2 else Softmax(classes=classes, brier=BRIER)
    return OneFit(loss, published={"brier": BRIER})


RECIPES: Mapping[str, Callable[[RegressionModel], Recipe]] = {
    Bernoulli.name: _classes,
    Categorical.name: _classes,
    Gaussian.name: lambda model: LinearStages(intercept=model.fit_intercept),
    Poisson.name: lambda model: CountFit(dispersion=None),
    NegativeBinomial.name: lambda model: CountFit(dispersion=model.family.to_dict()["dispersion"]),
}
"""By the name of the family."""


def _by_kernel(also: tuple[AtPoint, ...], taken: tuple[base.Sums, ...] | None) -> dict[AtPoint, base.Sums]:
    return {} if taken is None else dict(zip(also, taken, strict=True))


def recipe_of(model: RegressionModel) -> Recipe:
    """How the tilted fit treats a model of this family."""
    return RECIPES[one_of(RECIPES, family=model.family.name)](model)
