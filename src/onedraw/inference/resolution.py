# SPDX-License-Identifier: Apache-2.0
"""Whether noise could hide that a direction of the rows has no curvature at all.

If v'Hv = 0 for some v of length 1 (a constant column, or one that is the sum of others), then the smallest
eigenvalue of H~ = H + N is at most v'H~v = v'Nv, however many columns there are. For uncorrelated entries
with standard deviations s on and t off the diagonal, v'Nv has variance s^2 sum v_i^4 + 2 t^2 (1 - sum v_i^4),
at most max(s^2, 2 t^2). So an eigenvalue of ``RESOLVED`` such deviations or more shows that there is no such
direction. By chance it would show so once in 700 tables if v'Nv were normal, once in 230 to 420 with the
noise of a symmetrised Wishart matrix of 4 to 11 columns.

Less than that shows nothing: many columns that have nothing to do with one another look the same, as their
noisy eigenvalues spread around their own. The prior of ``moments`` then decides, and holds one direction in
particular for unlikely.

>>> import numpy as np
>>> round(resolution(np.diag([900.0, 60.0]), 10.0, 10.0), 1)
4.2
"""

from __future__ import annotations

import numpy as np

from onedraw.types import Array

RESOLVED = 3.0


def resolution(
    curvature: Array, diagonal_sd: float, offdiagonal_sd: float, frame: Array | None = None
) -> float:
    """The smallest eigenvalue of a noisy matrix over the largest standard deviation of v'Nv.

    With a ``frame`` C the matrix is that of rows u = C z, and v goes over all z.
    """
    largest = max(diagonal_sd, np.sqrt(2.0) * offdiagonal_sd)
    if frame is None:
        return float(np.linalg.eigvalsh(curvature)[0] / largest)
    # Over the column space of C, where lengths are those of u.
    basis = np.linalg.qr(frame)[0]
    return float(np.linalg.eigvalsh(basis.T @ curvature @ basis)[0] / largest)
