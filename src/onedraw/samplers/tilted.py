# SPDX-License-Identifier: Apache-2.0
"""The density proportional to exp(slope * t) on [-half, half]: its mass, and draws from it.

>>> import numpy as np
>>> float(log_tilt(np.array([0.0]))[0]), round(float(log_tilt(np.array([2.0]))[0]), 6)   # log(sinh(2)/2)
(0.0, 0.59522)
"""

from __future__ import annotations

import numpy as np

from onedraw.types import Array


def log_tilt(reach: Array) -> Array:
    """log(sinh(r)/r) of r = |slope| * half: how much the slope adds to the log of the mass."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(reach > 0.0, reach + np.log(-np.expm1(-2.0 * reach) / (2.0 * reach)), 0.0)


def draw_tilted(half: Array, slope: Array, rng: np.random.Generator) -> Array:
    """One draw for each entry."""
    uniform = 1.0 - rng.random(half.shape)
    reach = np.abs(slope) * half
    # Inverse distribution function of the density exp(|s| t) on [-h, h], reflected for negative slopes.
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(
            reach < 0.5,  # where one of the forms rounds, the other does not
            np.log1p((1.0 - uniform) * np.expm1(-2.0 * reach)),
            np.log(uniform + (1.0 - uniform) * np.exp(-2.0 * reach)),
        )
        tilted = half + level / np.abs(slope)
    offset = np.where(reach > 0.0, tilted, (2.0 * uniform - 1.0) * half)
    return np.clip(offset, -half, half) * np.where(slope < 0, -1.0, 1.0)
