# SPDX-License-Identifier: Apache-2.0
"""From draws of the rows' moments to normal laws of the true parameters, one for each draw.

The released parameters solve  score(theta^) + R (theta^ - theta_0) + b = 0  (sums over records). At the truth
the score is -S, S of mean 0 and covariance K. With the expected score of rows with moments M in between,

    count (E mu z at theta* - E mu z at theta^) = R (theta^ - theta_0) + b + S.

Given (M, count, b) the equation is solved for theta* at S = 0 by Newton's method: no linearisation at the
released point, which the ridge pulls towards theta_0, where the curvature is another. S moves the solution by
H^-1 S, H the curvature *at the solution*, so theta* is normal with covariance H^-1 K H^-1 (``score``).

>>> import numpy as np
>>> from onedraw.inference.weight import ConstantWeight
>>> point, inverse, _ = solved(
...     ConstantWeight(), np.eye(2)[None], np.array([100.0]), np.array([[1.0, 2.0]]), np.array([[10.0, 0.0]]),
...     intercept=True)
>>> point.round(3).tolist(), inverse[0].diagonal().round(3).tolist()
([[1.1, 2.0]], [0.01, 0.01])
"""

from __future__ import annotations

import numpy as np

from onedraw.inference.curvature import RowLaw, row_law
from onedraw.inference.weight import Weight
from onedraw.types import Array

ITERATIONS = 10
LONGEST = 2.0
"""The longest Newton step, in standard deviations of the linear predictor plus the step's own length."""


def solved(
    weight: Weight,
    moments: Array,
    count: Array,
    theta: Array,
    shift: Array,
    *,
    intercept: bool,
) -> tuple[Array, Array, RowLaw]:
    """The parameters (B, p) that explain the release, H^-1 (B, p, p) and the rows' law there.

    ``shift`` (B, p) is R (theta^ - theta_0) + b.
    """
    released = row_law(weight, moments, theta, intercept=intercept).score
    target = released + shift / count[:, None]
    point = theta.copy()
    for _ in range(ITERATIONS):
        law = row_law(weight, moments, point, intercept=intercept)
        step = np.linalg.solve(law.curvature, (target - law.score)[:, :, None])[:, :, 0]
        length = np.sqrt(np.maximum(np.einsum("bi,bij,bj->b", step, moments, step), 1e-300))
        point = point + step * np.minimum(1.0, LONGEST / length)[:, None]
    law = row_law(weight, moments, point, intercept=intercept)
    inverse = np.linalg.inv(count[:, None, None] * law.curvature)
    return point, np.asarray(inverse, dtype=np.float64), law
