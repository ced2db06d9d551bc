# SPDX-License-Identifier: Apache-2.0
"""One tilted fit: draw the tilt, minimise, add the trace of noise that pays for the solver.

Guarantee:
    The point returned is as private as ``calibration`` says, for rows as in ``weights`` and a response that
    is any function of its own record (and of public numbers).

>>> import numpy as np
>>> from onedraw.tilted.calibration import calibrate
>>> from onedraw.tilted.losses import Logistic
>>> from onedraw.tilted.weights import cube_rows
>>> rng = np.random.default_rng(0)
>>> x = rng.uniform(-1.0, 1.0, (20_000, 1))
>>> y = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-2.0 * x[:, 0]))).astype(float)
>>> rows = cube_rows(x, bounds=np.array([[-1.0, 1.0]]))
>>> tilted_fit(Logistic(), rows, y, calibrate(Logistic(), epsilon=1.0, dim=2, geometry="cube"), rng).round(1)
array([[2., 0.]])
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onedraw.tilted.calibration import Calibration
from onedraw.tilted.losses import Loss
from onedraw.tilted.solver import Approach, AtPoint, Solution, approach
from onedraw.tilted.sums import Sums
from onedraw.tilted.weights import Rows
from onedraw.types import Array


def tilted_fit(
    loss: Loss, rows: Rows, response: Array, calibration: Calibration, rng: np.random.Generator
) -> Array:
    """The released parameters (q, p), in units of the working rows."""
    sums = Sums(loss=loss, table=replace(rows, response=response))
    return tilted_minimiser(sums, calibration, rng).theta


def tilted_minimiser(
    sums: Sums, calibration: Calibration, rng: np.random.Generator, *, also: tuple[AtPoint, ...] = ()
) -> Solution:
    """The released parameters (q, p) for sums over records that may lie anywhere; maybe further sums there.

    Only the parameters may be published: the sums are private.
    """
    return tilted_approach(sums, calibration, rng).finish(also)


def tilted_approach(sums: Sums, calibration: Calibration, rng: np.random.Generator) -> Approach:
    """The same, up to the pass that certifies."""
    tilt = calibration.law.sample(rng).reshape(sums.shape)
    noise = np.zeros(sums.shape)
    if calibration.solver_noise is not None:
        noise = calibration.solver_noise.sample(rng).reshape(sums.shape)
    return approach(
        sums, ridge=calibration.ridge, tilt=tilt, residual=calibration.residual, moved=noise, rng=rng
    )
