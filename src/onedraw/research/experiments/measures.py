# SPDX-License-Identifier: Apache-2.0
"""What is measured of estimates: error of the parameters, ranking of test rows, signs.

>>> import numpy as np
>>> log_rmse(np.array([[1.0, 2.0]]), np.array([1.0, 1.0])).round(3)
array([-0.347])
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from onedraw.types import Array


def log_rmse(estimates: Array, truth: Array) -> Array:
    """Log root mean squared error of each row (k,)."""
    return np.asarray(0.5 * np.log(np.mean(np.square(estimates - truth), axis=1)))


def auc(scores: Array, response: Array) -> Array:
    """ROC-AUC of each row of scores (k, n), ties by half; NaN where the labels are all alike."""
    if response.min() == response.max():
        return np.full(len(scores), math.nan)
    positive = response > response.min()
    num, rest = int(positive.sum()), int((~positive).sum())
    above = stats.rankdata(scores, axis=1)[:, positive].sum(axis=1) - 0.5 * num * (num + 1)
    return np.asarray(above / (num * rest))


def signs(estimates: Array, reference: Array) -> Array:
    """Share of coefficients with the sign of the reference, intercept left out, of each row (k,)."""
    return np.asarray((np.sign(estimates[:, :-1]) == np.sign(reference[:-1])).mean(axis=1))
