# SPDX-License-Identifier: Apache-2.0
"""Linear regression by tilted fits, without a bound on the response: location, scale, a fit, and a finer fit.

1. A window that holds half of the responses (``windows``): location m0, scale s0.
2. A tilted log-cosh fit with cut ``FIRST_CUT`` s0, around (0, ..., 0, m0).
3. The scale of its residuals, s1, a private median of their sizes (``quantiles``).
4. A tilted log-cosh fit with a cut of one to three s1, around the first fit.

Guarantee:
    epsilon-DP: the four stages use ``Shares`` of epsilon, each private given what was published before, and
    sequential composition adds them up. delta > 0 is spent on the fits, in proportion to their shares. Shares
    and cuts are functions of public numbers (``terms``).

*Responses in working form.* A fit around theta0 takes the response fl(y - z.theta0), cut to ``FAR`` times the
cut on either side: a function of one record and of published numbers, so nothing is lost to rounding and
the guarantee holds for every response. It also keeps the solver's numbers small. At ``FAR`` cuts the score
is saturated, so the fit does not notice.

*Shares.* A choice by the exponential mechanism needs a certain n epsilon and no more, so the shares of the
window and the spread fall as 1/n. The first fit matters by how much its error E1 widens the residuals:
E1 = A/e^2 of their variance for a share e, A = ``FIRST_ERROR`` p^2 (p + 1)/(n epsilon)^2 where the response
spreads twice as far as the residuals, and the noise of the last fit is about sqrt(1 + A/e^2)/(1 - e), least
near e = A^(1/3).

*The cut.* Log-cosh with a cut of K scales keeps ``EFFICIENCY`` of that of least squares at the normal law,
and its noise is ``REACH`` times the scale: a small cut where noise is most of the error, a large one where it
is little of it. Its score is bounded, so no response is too far out.

>>> import numpy as np
>>> from onedraw.tilted.weights import cube_rows
>>> rng = np.random.default_rng(1)
>>> x = rng.uniform(-1.0, 1.0, (3000, 1))
>>> y = 200.0 + 40.0 * x[:, 0] + 10.0 * rng.standard_normal(3000)
>>> rows = replace(cube_rows(x, bounds=np.array([[-1.0, 1.0]])), response=y)
>>> fit = linear_fit(rows, "cube", Terms(epsilon=3.0, num_records=3000), rng)
>>> fit.theta.round(), round(fit.scale)
(array([ 40., 200.]), 10)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.tables import base
from onedraw.tables.base import Table
from onedraw.tilted.calibration import Calibration
from onedraw.tilted.fit import tilted_minimiser
from onedraw.tilted.losses import LogCosh, Loss
from onedraw.tilted.quantiles import (
    MEDIAN_OF_NORMAL,
    Counted,
    counts_up_to,
    spread_grid,
    spread_of_residuals,
)
from onedraw.tilted.solver import AtPoint, Solution
from onedraw.tilted.sums import Sums
from onedraw.tilted.terms import Terms
from onedraw.tilted.weights import Geometry, Rows
from onedraw.tilted.windows import Window, half_of, window_of_half
from onedraw.types import AnyArray, Array

CUTS = (0.75, 1.0, 1.5, 2.0, 3.0)
EFFICIENCY = (0.894, 0.930, 0.968, 0.984, 0.995)
REACH = (1.50, 1.65, 2.01, 2.42, 3.30)
"""Of a log-cosh fit with a cut of so many standard deviations, at the normal law: efficiency beside least
squares, and the cut over the mean curvature, to which the noise is proportional."""
FIRST_CUT = 1.0
FIRST_PRICE = 0.1
"""Of the first fit's epsilon, for a smaller ridge: it starts at slopes of zero, far from the truth."""
FIRST_ERROR = 43.0
NATS_WINDOW = 100.0
NATS_SPREAD = 60.0
"""n epsilon of a window and of a spread, which choose among more candidates the finer they are."""
FAR = 256.0


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The parts of epsilon that the stages spend; they add up to 1. Public."""

    window: float
    first: float
    spread: float

    def __post_init__(self) -> None:
        parts = (self.window, self.first, self.spread, self.second)
        if min(parts) <= 0.0:
            raise InvalidInput(f"Expected positive shares that add up to 1, got {parts}. Change one of them.")

    @property
    def second(self) -> float:
        return 1.0 - self.window - self.first - self.spread

    @classmethod
    def planned(cls, information: float, dim: int) -> Shares:
        """For n epsilon = ``information`` and rows of ``dim`` entries."""
        error = FIRST_ERROR * dim**2 * (dim + 1) / information**2
        return cls(
            window=min(max(NATS_WINDOW / information, 0.01), 0.2),
            first=min(max(error ** (1.0 / 3.0), 0.02), 0.3),
            spread=min(max(NATS_SPREAD / information, 0.005), 0.05),
        )


def planned_cut(noise: float) -> float:
    """The cut, in residual scales, with the least error where ``Terms.noise`` is ``noise``."""
    errors = [1.0 / e + noise * r**2 for e, r in zip(EFFICIENCY, REACH, strict=True)]
    return CUTS[int(np.argmin(errors))]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFit:
    """What the stages published: everything here is private in the sense of the guarantee, so public."""

    theta: Array
    scale: float
    window: Window
    first: Array
    loss: LogCosh
    """Of the second fit."""
    calibration: Calibration
    table: Table
    """The rows and responses as the second fit saw them. Not published."""
    taken: tuple[base.Sums, ...] | None
    """Sums at theta - first, where the second fit took them on its way. Not published."""


def linear_fit(
    table: Table,
    geometry: Geometry,
    terms: Terms,
    rng: np.random.Generator,
    *,
    intercept: bool = True,
    also: tuple[AtPoint, ...] = (),
) -> LinearFit:
    """Coefficients (p,) in units of the working rows, and the scale of the residuals.

    ``also`` are sums that are wanted at the end, for the last pass to take.
    """
    positive(epsilon=terms.epsilon)
    num_records, dim = table.shape
    shares = Shares.planned(terms.information, dim)

    def fit(
        loss: LogCosh, centre: Array, share: float, price: float, also: tuple[AtPoint, ...]
    ) -> tuple[Table, Solution, Calibration]:
        spent = replace(
            terms,
            epsilon=share * terms.epsilon,
            delta=terms.delta * share / (shares.first + shares.second),
        )
        calibration = spent.calibrated(loss, dim, geometry, price=price)
        left: Table = table.map(Recentred(centre=centre, cut=loss.cut))
        return left, tilted_minimiser(Sums(loss=loss, table=left), calibration, rng, also=also), calibration

    window = window_of_half(
        half_of(table, rng),
        epsilon=shares.window * terms.epsilon,
        rng=rng,
        neighbours=terms.neighbours,
        rows_per_person=terms.rows_per_person,
    )
    start = np.zeros(dim)
    if intercept:
        start[-1] = window.location
    scale = window.scale / MEDIAN_OF_NORMAL

    def sizes(loss: Loss, theta: Array) -> ResidualSizes:
        return ResidualSizes(centre=theta[0], scale=scale)

    left, found, _ = fit(LogCosh(cut=FIRST_CUT * scale), start, shares.first, FIRST_PRICE, (sizes,))
    ((up_to,),) = found.taken or (left.sum(ResidualSizes(centre=found.theta[0], scale=scale)),)
    first = start + found.theta[0]
    spread = spread_of_residuals(
        Counted(up_to=up_to, num_values=num_records),
        scale,
        epsilon=shares.spread * terms.epsilon,
        rng=rng,
        neighbours=terms.neighbours,
        rows_per_person=terms.rows_per_person,
    )
    loss = LogCosh(cut=planned_cut(terms.part(shares.second).noise(dim)) * spread)
    left, found, calibration = fit(loss, first, shares.second, LogCosh.price, also)
    return LinearFit(
        theta=first + found.theta[0],
        scale=spread,
        window=window,
        first=first,
        loss=loss,
        calibration=calibration,
        table=left,
        taken=found.taken,
    )


@dataclass(frozen=True)
class Recentred:
    """Rows with the working response around ``centre``: a map of each record by itself."""

    centre: Array
    cut: float

    def __call__(self, rows: Rows) -> Rows:
        return replace(rows, response=working_response(rows, rows.response, self.centre, self.cut))


@dataclass(frozen=True)
class ResidualSizes:
    """A kernel: how many residuals around ``centre`` are no larger than each size of the spread's grid."""

    centre: Array
    scale: float

    def __call__(self, rows: Rows) -> tuple[AnyArray]:
        left = working_response(rows, rows.response, self.centre, self.scale)
        return (counts_up_to(np.abs(left, out=left), spread_grid(self.scale)),)


def working_response(rows: Rows, response: Array | None, centre: Array, cut: float) -> Array:
    """y - z.centre within ``FAR`` cuts of zero, the same for a record wherever it stands in the table."""
    # Column by column: a matrix product rounds the last rows of a table in another way than the rest.
    left = np.array(response, dtype=np.float64)
    constant = [np.ones(len(rows))] if rows.intercept else []
    for column, scale, value in zip([*rows.features.T, *constant], rows.scaling, centre, strict=True):
        left -= (column * scale) * value
    return np.clip(left, -FAR * cut, FAR * cut, out=left)
