# SPDX-License-Identifier: Apache-2.0
"""How far a curvature may be from that of normal rows with one matrix of moments, where that is not free.

With three or more classes the released curvature has K (K-1)/2 times as many entries as the moments that it
is explained by (``classes``), so unlike with two classes the moments cannot absorb rows that are not normal.
The curvature is therefore H = H(M) + D, with independent entries of D of standard deviations ``DIAGONAL``
sqrt(H_ii H_jj) and ``OFF_DIAGONAL`` as much off the diagonal. Given M and the release, D is normal: where the
noise is small, the released matrix is followed and not the formula; where it is large, D adds its own spread.

*The two constants* are the root mean squares of the largest deviations that were found when M was fitted to
exact curvatures of simulated rows (three and five classes, two and five features; means of four tables each):
dummies of +-1 with probabilities between 0.1 and 0.9, diagonal 0.03 to 0.12, all entries 0.02 to 0.04;
uniform and heavy-tailed rows 0.01 to 0.05 and 0.01 to 0.02; normal rows, correlated or not, 0.01 or less.

D is kept as the ratio G = L^-1 (H(M) + D) L^-T, H(M) = L L', with eigenvalues of at least ``LEAST``; at other
parameters the curvature is L G L' with L that of H(M) there.

>>> import numpy as np
>>> released, exact = np.array([[90.0, 0.0], [0.0, 110.0]]), np.diag([100.0, 100.0])[None]
>>> sharp = ratios(released, 0.01, 0.01, exact, np.random.default_rng(0))
>>> sharp[0].diagonal().round(2).tolist()
[0.9, 1.1]
"""

from __future__ import annotations

import numpy as np

from onedraw.types import Array

DIAGONAL, OFF_DIAGONAL = 0.1, 0.04
LEAST = 0.3


def variances(diagonal: Array) -> Array:
    """The variances (B, n, n) of D for curvatures with these diagonals (B, n)."""
    n = diagonal.shape[1]
    out = OFF_DIAGONAL**2 * diagonal[:, :, None] * diagonal[:, None, :]
    out[:, np.arange(n), np.arange(n)] *= (DIAGONAL / OFF_DIAGONAL) ** 2
    return np.asarray(out)


def ratios(
    released: Array, diagonal_sd: float, offdiagonal_sd: float, model: Array, rng: np.random.Generator
) -> Array:
    """One draw of G (B, n, n) for every curvature H(M) of ``model`` (B, n, n), given the release (n, n)."""
    batch, n, _ = model.shape
    noise = np.full((n, n), offdiagonal_sd**2)
    noise[np.arange(n), np.arange(n)] = diagonal_sd**2
    prior = variances(np.diagonal(model, axis1=1, axis2=2))
    share = prior / (prior + noise)
    draws = rng.standard_normal((batch, n, n))
    upper = np.triu(share * (released - model) + np.sqrt(share * noise) * draws)
    change = upper + np.triu(upper, 1).transpose(0, 2, 1)
    inverse = np.linalg.inv(np.linalg.cholesky(model))
    values, vectors = np.linalg.eigh(inverse @ change @ inverse.transpose(0, 2, 1))
    values = np.maximum(1.0 + values, LEAST)
    return np.asarray((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))
