# SPDX-License-Identifier: Apache-2.0
"""The released minimiser without the pull of its ridge: a correction by the released curvature.

The minimiser solves  score(theta^) + R (theta^ - theta_0) + b = 0, so to first order it lies H^-1 R (theta^ -
theta_0) short of where it would lie without the ridge. H is known with noise; its eigenvalues are floored at
what the noise alone would show, and at R, so that a direction in which H is hidden is corrected too little
rather than too much.

Guarantee:
    Post-processing of released numbers: it costs nothing.

>>> import numpy as np
>>> unpulled(np.array([0.9]), np.array([0.0]), 10.0, np.array([[90.0]]), noise=1.0).round(3)
array([1.])
>>> unpulled(np.array([0.9]), np.array([0.0]), 10.0, np.array([[-3.0]]), noise=900.0).round(3)
array([0.91])
"""

from __future__ import annotations

import numpy as np

from onedraw.types import Array


def unpulled(theta: Array, centre: Array, ridge: float, curvature: Array, *, noise: float) -> Array:
    """Corrected parameters (p,); ``noise`` is the standard deviation of the curvature's entries."""
    values, vectors = np.linalg.eigh(curvature)
    floored = np.maximum(values, max(ridge, noise * np.sqrt(len(theta))))
    pull = ridge * (vectors.T @ (theta - centre))
    return np.asarray(theta + vectors @ (pull / floored))
