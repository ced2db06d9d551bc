# SPDX-License-Identifier: Apache-2.0
"""Linear regression by tilted fits, without a bound on the response: location, scale, a fit, and a finer fit.

1. A window that holds half of the responses (``windows``): location m0, scale s0.
2. A tilted log-cosh fit with cut ``CUT`` s0, around (0, ..., 0, m0).
3. The scale of its residuals, s1, a private median of their sizes (``quantiles``).
4. A tilted log-cosh fit with cut ``CUT`` s1, around the first fit.

Guarantee:
    epsilon-DP: the four stages use ``Shares`` of epsilon, each private given what was published before, and
    sequential composition adds them up. delta > 0 is spent on the fits, in proportion to their shares.

*Responses in working form.* A fit around theta0 takes the response fl(y - z.theta0), cut to ``FAR`` times the
cut on either side: a function of one record and of published numbers, so nothing is lost to rounding and
the guarantee holds for every response. It also keeps the solver's numbers small. At ``FAR`` cuts the score
is saturated, so the fit does not notice.

Log-cosh with cut 1.5 keeps 0.968 of the efficiency of least squares at the normal law, and its score is
bounded, so no response is too far out.

>>> import numpy as np
>>> from onedraw.tilted.weights import cube_rows
>>> rng = np.random.default_rng(1)
>>> x = rng.uniform(-1.0, 1.0, (3000, 1))
>>> y = 200.0 + 40.0 * x[:, 0] + 10.0 * rng.standard_normal(3000)
>>> fit = linear_fit(cube_rows(x, bounds=np.array([[-1.0, 1.0]])), y, epsilon=3.0, rng=rng)
>>> fit.theta.round(), round(fit.scale)
(array([ 40., 200.]), 10)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.tilted.calibration import RESIDUAL, SOLVER_SHARE, Calibration, calibrate
from onedraw.tilted.fit import tilted_fit
from onedraw.tilted.losses import LogCosh
from onedraw.tilted.quantiles import MEDIAN_OF_NORMAL, spread_of_residuals
from onedraw.tilted.weights import Rows
from onedraw.tilted.windows import Window, window_of_half
from onedraw.types import Array, Neighbours

CUT = 1.5
FAR = 256.0


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The parts of epsilon that the stages spend; they add up to 1. Public."""

    window: float = 0.2
    first: float = 0.2
    spread: float = 0.04
    second: float = 0.56

    def __post_init__(self) -> None:
        parts = (self.window, self.first, self.spread, self.second)
        if min(parts) <= 0.0 or abs(sum(parts) - 1.0) > 1e-12:
            raise InvalidInput(f"Expected positive shares that add up to 1, got {parts}. Change one of them.")


SHARES = Shares()


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFit:
    """What the stages published: everything here is private in the sense of the guarantee, so public."""

    theta: Array
    scale: float
    window: Window
    first: Array
    calibration: Calibration


def linear_fit(
    rows: Rows,
    response: Array,
    *,
    epsilon: float,
    rng: np.random.Generator,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    intercept: bool = True,
    shares: Shares = SHARES,
    solver_share: float = SOLVER_SHARE,
    residual: float = RESIDUAL,
) -> LinearFit:
    """Coefficients (p,) in units of the working rows, and the scale of the residuals."""
    positive(epsilon=epsilon)

    def fit(scale: float, centre: Array, share: float) -> tuple[Array, Calibration]:
        loss = LogCosh(cut=CUT * scale)
        calibration = calibrate(
            loss,
            epsilon=share * epsilon,
            delta=delta * share / (shares.first + shares.second),
            dim=rows.dim,
            geometry=rows.geometry,
            solver_share=solver_share,
            residual=residual,
            neighbours=neighbours,
            rows_per_person=rows_per_person,
        )
        left = working_response(rows, response, centre, loss.cut)
        return centre + tilted_fit(loss, rows, left, calibration, rng)[0], calibration

    window = window_of_half(
        response,
        epsilon=shares.window * epsilon,
        rng=rng,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
    )
    start = np.zeros(rows.dim)
    if intercept:
        start[-1] = window.location
    scale = window.scale / MEDIAN_OF_NORMAL
    first, _ = fit(scale, start, shares.first)
    left = working_response(rows, response, first, CUT * scale)
    spread = spread_of_residuals(
        left,
        scale,
        epsilon=shares.spread * epsilon,
        rng=rng,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
    )
    theta, calibration = fit(spread, first, shares.second)
    return LinearFit(theta=theta, scale=spread, window=window, first=first, calibration=calibration)


def working_response(rows: Rows, response: Array, centre: Array, cut: float) -> Array:
    """y - z.centre within ``FAR`` cuts of zero, the same for a record wherever it stands in the table."""
    # Column by column: a matrix product rounds the last rows of a table in another way than the rest.
    left = np.array(response, dtype=np.float64)
    for column, value in zip(rows.design.T, centre, strict=True):
        left -= column * value
    return np.clip(left, -FAR * cut, FAR * cut, out=left)
