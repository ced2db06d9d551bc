# SPDX-License-Identifier: Apache-2.0
"""From rows and responses to a published fit, family by family: which loss, which stages, which shares.

A recipe spends its ``Terms`` on one tilted fit, after stages that find a scale or a size where the family
needs one, and says what was published on the way. Everything it returns is private in the sense of the
guarantee, so it may be published once it is rounded.

Guarantee:
    epsilon-DP (or (epsilon, delta)-DP) for each recipe as a whole: the stages use parts of epsilon and delta
    that add up, each private given what was published before [sequential composition].

*Classes.* One fit, with half of Brier's score in the loss (``losses``, ``softmax_loss``). *Counts.* A
quantile of the counts (whatever their exposures), then a fit with the cap and the cut that go with it.
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
(array([[1. , 0.5]]), ['count_cut', 'largest_count'])
"""

from __future__ import annotations

import math
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
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.fit import tilted_minimiser
from onedraw.tilted.linear import linear_fit
from onedraw.tilted.losses import Logistic, LogisticShares, Loss
from onedraw.tilted.quantiles import Counted, Drawn, SizeCounts, size_of_counts
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.solver import AtPoint
from onedraw.tilted.sums import Sums, information, squared
from onedraw.tilted.terms import Terms
from onedraw.tilted.weights import Geometry
from onedraw.types import Array

BRIER = 0.5
"""Of Brier's score in the loss of classes: the most that leaves it convex. Its score is as large as that
of the log loss and its slope up to a quarter larger, which is a quarter less noise in units of the slope."""
LARGEST_COUNT, COUNT_CUT = "largest_count", "count_cut"
"""What is published of the loss of counts. Earlier versions said "cap" of another loss: whoever reads one
must not take it for the other."""
SIZE = 0.9
"""Of which quantile of the counts their size is: high enough to tell small means from tiny ones, and low
enough to be found in a thousand records."""
NATS_SIZE = 200.0
"""n epsilon of the choice of a size: what tells it from larger ones."""
MEAN, LEAST_MEAN = 0.42, 0.1
"""Of counts, relative to their size: where log means vary by 0.7, a size of 3, 5 and 12 has 0.43, 0.42 and
0.47. Where nine of ten are zero, it is some number below."""
CUT, POWER, CUTS, LEAST_CUT = 0.4, 0.4, (0.6, 16.0), 0.5
"""The cut in standard deviations of the counts, CUT noise^-POWER within CUTS, by the noise of the fit
(``Terms.noise``). Up to three it follows the cuts with the least standard errors H^-1 (K + Var b) H^-1 of
simulated tables (three means, four sizes of the noise), which are wide minima: 20% to either side changes
widths by a per cent. Where noise is small they grow on, for a per cent: of counts that vary more than the
model says a bounded score finds a lower mean than theirs, the less so the larger the cut. Zeros and ones are
told apart by a cut of a half as well as by smaller ones."""
CAPS = ((0.05, 1.0, 0.4), (0.016, 1.25, 0.5), (0.0045, 1.75, 0.6), (0.0, 2.5, 1.0))
"""By the noise from which on: the cap is one more than so many times the size, and the cut at most so much of
the cap. A larger cap loses less, but the curvature of a record can be as large as the cap: so are the ridge,
and the noise of what is released for intervals. Standard deviations of counts that vary far more than
Poisson's are those of a few large ones, which the cap takes away (negative binomial of sizes below 1)."""


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
    """The private size of the counts, then a fit with the loss that goes with it.

    Where a bounded score is zero on average depends on the whole law of Y, so the fit is that of the means
    only if the law is the model's: where counts vary more than it says, no error of the sandwich makes up.
    """

    dispersion: float | None
    loss: ClassVar[None] = None
    without_robust: ClassVar[str] = (
        "Robust errors of counts would not hold: the score of a count is bounded, and a fit with bounded "
        "scores is that of the means only if counts vary as the model says."
    )

    def __call__(
        self,
        table: Table,
        geometry: Geometry,
        terms: Terms,
        rng: np.random.Generator,
        also: tuple[AtPoint, ...] = (),
    ) -> Fitted:
        spent = min(max(NATS_SIZE / terms.information, 0.005), 0.05) * terms.epsilon
        left = replace(terms, epsilon=terms.epsilon - spent)
        noise = Drawn(rng)

        def chosen(sums: base.Sums) -> int:
            return size_of_counts(
                Counted(up_to=sums[0], num_values=table.shape[0]),
                rng=noise.again(),
                tau=SIZE,
                epsilon=spent,
                neighbours=terms.neighbours,
                rows_per_person=terms.rows_per_person,
            )

        def fitted(size: int, counts: Table) -> Fitted:
            loss = count_loss(size, left.noise(table.shape[1]), self.dispersion)
            fit = OneFit(loss, published={LARGEST_COUNT: float(loss.cap), COUNT_CUT: loss.cut})
            return fit(counts, geometry, left, rng, also)

        return staged(table, SizeCounts(), chosen, fitted, rng)


def count_loss(size: int, noise: float, dispersion: float | None) -> CountCosh:
    """The loss of counts of this size (``SIZE``), by the noise of the fit."""
    mean = max(MEAN * size, LEAST_MEAN)
    spread = math.sqrt(mean if dispersion is None else mean + mean**2 / dispersion)
    times, widest = next(rule for least, *rule in CAPS if noise >= least)
    cap = math.ceil(times * size) + 1
    cut = min(min(max(CUT * noise**-POWER, CUTS[0]), CUTS[1]) * spread, widest * cap)
    return CountCosh(cap=cap, cut=max(cut, LEAST_CUT), dispersion=dispersion)


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
    if classes > 2:
        loss: Loss = Softmax(classes=classes, brier=BRIER)
    else:
        loss = LogisticShares(brier=BRIER) if model.shares else Logistic(brier=BRIER)
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
