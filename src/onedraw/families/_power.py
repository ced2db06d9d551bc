# SPDX-License-Identifier: Apache-2.0
"""Powers of probabilities, by products and square roots where the exponent allows it.

>>> import numpy as np
>>> float(power(np.array([0.25]), 1.5)[0])
0.125
"""

from __future__ import annotations

import numpy as np

from onedraw.types import Array


def power(base: Array, exponent: float) -> Array:
    """base**exponent for base in [0, 1], as a new array."""
    halves = 2.0 * exponent
    if halves != round(halves) or not 1 <= halves <= 8:
        return np.power(base, exponent)
    whole, root = divmod(int(halves), 2)
    result = np.sqrt(base) if root else base.copy()
    for _ in range(whole if root else whole - 1):
        result *= base
    return result
