# SPDX-License-Identifier: Apache-2.0
"""The privacy of the tilted fit: no pair of neighbours passes epsilon, and the constants are not slack."""

import numpy as np
import pytest

from onedraw.tilted.calibration import calibrate
from onedraw.tilted.losses import LogCosh, Logistic


def log_ratio(loss, calibration, first, second, common, theta):
    """The exact log ratio of the densities of the minimiser at theta, from the change of variables."""
    total = 0.0
    tilts = []
    for sign, rows in ((1.0, first), (-1.0, second)):
        y, z = np.array([row[0] for row in rows]), np.array([row[1] for row in rows]).reshape(-1, len(theta))
        both_y, both_z = np.append(y, common[0]), np.vstack([z, common[1]])
        slope, curvature = loss.slope_and_curvature(both_y, both_z @ theta)
        hessian = (both_z * curvature[:, None]).T @ both_z + calibration.ridge * np.eye(len(theta))
        total += sign * np.linalg.slogdet(hessian)[1]
        tilts.append(-(slope @ both_z) - calibration.ridge * theta)
    law = calibration.law
    return total + (law.norm(tilts[1]) - law.norm(tilts[0])) / law.scale


def responses(loss, rng):
    if isinstance(loss, Logistic):
        return float(rng.integers(2))
    return float(rng.normal() * 10.0 ** rng.uniform(-1, 2)) * loss.cut


def worst(loss, calibration, neighbours, rows, seed, tries=4000):
    """The largest log ratio found over pairs of neighbours and parameters, the common part tuned to b = 0."""
    rng = np.random.default_rng(seed)
    p, found = calibration.law.dim, -np.inf
    for _ in range(tries):
        theta = rng.normal(size=p) * 10.0 ** rng.uniform(-1.5, 2.5)
        z = rng.choice([-1.0, 1.0], size=p)
        first = [(responses(loss, rng), z)] * rows
        other = (
            rng.choice([-1.0, 1.0], size=p)
            if rng.random() < 0.5
            else z * np.where(rng.random(p) < 1 / p, -1, 1)
        )
        second = [] if neighbours == "add_remove" else [(responses(loss, rng), other)] * rows
        common = (np.zeros(0), np.zeros((0, p)))
        value = log_ratio(loss, calibration, first, second, common, theta)
        found = max(found, value, log_ratio(loss, calibration, second, first, common, theta))
    return found


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", [Logistic(), LogCosh(cut=1.7)], ids=["logistic", "log_cosh"])
def test_no_pair_passes_epsilon(loss, neighbours, rows):
    fit = calibrate(
        loss,
        epsilon=1.0,
        dim=3,
        geometry="cube",
        neighbours=neighbours,
        rows_per_person=rows,
        solver_share=0.0,
    )
    assert worst(loss, fit, neighbours, rows, seed=0) <= 1.0
