# SPDX-License-Identifier: Apache-2.0
"""Fits of diffprivlib to data sets on disk, for an interpreter that has it: it needs an older scikit-learn.

    python benchmarks/_diffprivlib.py FOLDER

FOLDER holds a file for each data set (features, response, and the options ``model``, ``epsilon``, ``seed``
and ``response_bound``); features lie in [-1, 1]. Coefficients and intercept go to a file beside each. Options
are the defaults of diffprivlib, with the bounds that it needs.
"""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib import models


def fitted(data: dict[str, np.ndarray]) -> np.ndarray:
    """The coefficients, and the intercept last."""
    X, y, epsilon, seed = data["X"], data["y"], float(data["epsilon"]), int(data["seed"])
    if str(data["model"]) == "logistic":
        model = models.LogisticRegression(
            epsilon=epsilon, data_norm=math.sqrt(X.shape[1]), random_state=seed, max_iter=500
        )
    else:
        bound = float(data["response_bound"])
        model = models.LinearRegression(
            epsilon=epsilon, bounds_X=(-1.0, 1.0), bounds_y=(-bound, bound), random_state=seed
        )
    model.fit(X, y)
    return np.append(np.ravel(model.coef_), model.intercept_)


def main() -> None:
    warnings.simplefilter("ignore")
    for path in sorted(Path(sys.argv[1]).glob("*.npz")):
        with np.load(path) as data:
            found = fitted(dict(data))
        np.save(path.with_suffix(".npy"), found)


if __name__ == "__main__":
    main()
