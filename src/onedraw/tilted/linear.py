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
from onedraw.tables.foresight import scaled_up, staged
from onedraw.tilted.calibration import Calibration
from onedraw.tilted.fit import tilted_approach, tilted_minimiser
from onedraw.tilted.losses import LogCosh, Loss
from onedraw.tilted.quantiles import (
    MEDIAN_OF_NORMAL,
    Counted,
    Drawn,
    Noise,
    counts_up_to,
    spread_grid,
    spread_of_residuals,
)
from onedraw.tilted.solver import AtPoint
from onedraw.tilted.sums import Sums
from onedraw.tilted.terms import Terms
from onedraw.tilted.weights import Geometry, Rows, constant
from onedraw.tilted.windows import EdgeCounts, Filled, Window, half_of, points_of, window_of_half
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
    stages = _Stages(
        geometry=geometry,
        terms=terms,
        shares=Shares.planned(terms.information, table.shape[1]),
        intercept=intercept,
        also=also,
        rng=rng,
    )
    look = table.look(rng)
    if len(look) == table.shape[0]:
        return stages.from_window(stages.window(np.asarray(look.response), rng), table)
    counts, noise = EdgeCounts(points_of(look.response)), Drawn(rng)

    def chosen(sums: base.Sums) -> Window:
        found = counts.filled(sums[0], table.shape[0])
        if isinstance(found, Filled):
            return stages.window(found, noise.again())
        return stages.window(half_of(table, found), rng)

    return staged(table, counts, chosen, stages.from_window, rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Stages:
    """The stages, each given what those before have published."""

    geometry: Geometry
    terms: Terms
    shares: Shares
    intercept: bool
    also: tuple[AtPoint, ...]
    rng: np.random.Generator

    def window(self, values: Array | Filled, noise: Noise) -> Window:
        """The first stage: location and scale of the responses."""
        return window_of_half(
            values,
            epsilon=self.shares.window * self.terms.epsilon,
            rng=noise,
            neighbours=self.terms.neighbours,
            rows_per_person=self.terms.rows_per_person,
        )

    def from_window(self, window: Window, table: Table) -> LinearFit:
        """The first fit, the spread of its residuals, and what follows."""
        scale = window.scale / MEDIAN_OF_NORMAL
        start = window.location * constant(self.geometry, table.shape[1], intercept=self.intercept)
        loss = LogCosh(cut=FIRST_CUT * scale)
        calibration = self._calibrated(loss, table.shape[1], self.shares.first, FIRST_PRICE)
        left: Table = table.map(Recentred(centre=start, cut=loss.cut))
        found, noise = tilted_approach(Sums(loss=loss, table=left), calibration, self.rng), Drawn(self.rng)

        def sizes(loss: Loss, theta: Array) -> ResidualSizes:
            return ResidualSizes(centre=theta[0], scale=scale)

        def known(theta: Array, up_to: AnyArray) -> _Known:
            spread = spread_of_residuals(
                Counted(up_to=up_to, num_values=table.shape[0]),
                scale,
                epsilon=self.shares.spread * self.terms.epsilon,
                rng=noise.again(),
                neighbours=self.terms.neighbours,
                rows_per_person=self.terms.rows_per_person,
            )
            return _Known(window=window, first=start + theta[0], spread=spread)

        at_point = sizes(loss, found.point)
        if found.certified:
            return self.from_first(known(found.point, *left.sum(at_point)), left)
        look = left.look(self.rng)
        (seen,) = scaled_up(look.sum(at_point), table.shape[0] / len(look))
        foreseen = known(found.point, seen)

        def chosen(sums: base.Sums) -> _Known:
            slope, (up_to,) = base.Together.split(sums)
            if found.certifies(slope):
                now = known(found.point, up_to)
                return foreseen if now.spread == foreseen.spread else now
            certified = found.finish((sizes,), slope)
            ((up_to,),) = certified.taken or (left.sum(sizes(loss, certified.theta)),)
            return known(certified.theta, up_to)

        both = base.Together((found.kernel, at_point))
        return staged(left, both, chosen, self.from_first, self.rng, guess=foreseen)

    def from_first(self, known: _Known, table: Table) -> LinearFit:
        """The second fit, around the first."""
        dim = table.shape[1]
        loss = LogCosh(cut=planned_cut(self.terms.part(self.shares.second).noise(dim)) * known.spread)
        calibration = self._calibrated(loss, dim, self.shares.second, LogCosh.price)
        left: Table = table.map(Recentred(centre=known.first, cut=loss.cut))
        found = tilted_minimiser(Sums(loss=loss, table=left), calibration, self.rng, also=self.also)
        return LinearFit(
            theta=known.first + found.theta[0],
            scale=known.spread,
            window=known.window,
            first=known.first,
            loss=loss,
            calibration=calibration,
            table=left,
            taken=found.taken,
        )

    def _calibrated(self, loss: LogCosh, dim: int, share: float, price: float) -> Calibration:
        terms, shares = self.terms, self.shares
        spent = replace(
            terms,
            epsilon=share * terms.epsilon,
            delta=terms.delta * share / (shares.first + shares.second),
        )
        return spent.calibrated(loss, dim, self.geometry, price=price)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Known:
    """What was published before the second fit, or is foreseen to be; equal only to itself."""

    window: Window
    first: Array
    spread: float


@dataclass(frozen=True)
class Recentred:
    """Rows with the working response around ``centre``: a map of each record by itself.

    Rows that were recentred before are recentred from the responses that their records gave.
    """

    centre: Array
    cut: float

    def __call__(self, rows: Rows) -> Rows:
        given = rows.response if rows.given is None else rows.given
        return replace(rows, response=working_response(rows, given, self.centre, self.cut), given=given)


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
