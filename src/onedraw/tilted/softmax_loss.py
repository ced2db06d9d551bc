# SPDX-License-Identifier: Apache-2.0
"""The softmax loss of K classes in K - 1 orthonormal sum-to-zero contrasts: logits = B eta.

f' = B'(pi - e_y), f'' = B'(diag pi - pi pi')B, pi the class probabilities. B is the basis of
``families.categorical``, so that parameters mean the same everywhere.

Guarantee:
    With a = 1 - pi_y, a record's gradient has at most norm a in the class simplex times the cube (``laws``),
    for |omega z|_inf <= 1, and Euclidean norm at most sqrt(2) a sqrt(p), for |omega z|_2 <= sqrt(p).
    ``joint_loss(u, k)`` bounds a u + log det(I + k f''). The curvature omega f'' (x) z z' that a record adds
    is positive semidefinite, of trace at most p (1 - 1/K) for omega |z|_2^2 <= p, and of entries at most 1/2
    in size, diagonal ones in [0, 1/2], for omega |z|_inf^2 <= 1: what ``tilted.curvature`` needs.

*Proof of the last.* The trace is tr f'' omega |z|_2^2, and tr f'' = tr (diag pi - pi pi') = 1 - |pi|^2, as
B B' differs from the identity by what the ones span, which diag pi - pi pi' maps to 0. An entry is
omega f''_ab z_i z_j; f''_aa is the variance of B_ya over y ~ pi, at most a quarter of the squared range of
the column, and two entries of a unit vector differ by sqrt(2) at most; |f''_ab|^2 <= f''_aa f''_bb. []
*Proof.* Column j of (pi - e_y) omega z' has positive parts of sum a |omega z_j|, whichever its sign; and
|pi - e_y|^2 = a^2 + sum over the others of pi_k^2 <= 2 a^2. For the joint bound: pi -> diag pi - pi pi' is
concave and log det(I + k .) concave and increasing, so the log determinant is concave in pi, and symmetric in
the classes other than y. Given a it is largest at equal probabilities a/(K-1) of these. There f'' has K - 2
eigenvalues a/(K-1) and one K a (1-a)/(K-1), so the supremum is that of the concave function of one variable

    h(a) = a u + (K-2) log(1 + k a/(K-1)) + log(1 + k K a (1-a)/(K-1)),     0 <= a <= 1,

bounded by its tangent at the left end of a bracket of its maximum. [] At a = 1 the curvature of the other
classes remains if K > 2: a price is due.

>>> import numpy as np
>>> loss = Softmax(classes=3)
>>> loss.slope(np.array([0.0]), np.zeros((1, 2))).round(3)
array([[0.707, 0.408]])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw._validate import whole
from onedraw.families.categorical import contrast_basis
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Minus the log probability of the class y in {0, ..., classes - 1}."""

    classes: int

    score_bound: ClassVar[float] = math.sqrt(2.0)
    curvature_bound: ClassVar[float] = 0.5
    escape_ratio: ClassVar[float | None] = None
    accuracy: ClassVar[float] = 1e-14
    extends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole(minimum=2, classes=self.classes)

    @property
    def num_predictors(self) -> int:
        return self.classes - 1

    @property
    def trace_bound(self) -> float:
        """1 - |pi|^2 is largest at equal probabilities."""
        return 1.0 - 1.0 / self.classes

    @property
    def corners(self) -> int:
        return self.classes - 1

    @property
    def price(self) -> float:
        return 0.0 if self.classes == 2 else 0.1

    def determinant_bound(self, k: float) -> float:
        """The trace of f'' is at most 1 - 1/K, and log(1 + k .) concave in each eigenvalue."""
        q = self.classes - 1
        return q * math.log1p(k / self.classes)

    def joint_loss(self, u: float, k: float) -> float:
        def value(a: float) -> float:
            rest = (self.classes - 2) * math.log1p(each * a)
            return a * u + rest + math.log1p(own * a * (1.0 - a))

        def slope(a: float) -> float:
            rest = (self.classes - 2) * each / (1.0 + each * a)
            return u + rest + own * (1.0 - 2.0 * a) / (1.0 + own * a * (1.0 - a))

        each, own = k / (self.classes - 1), k * self.classes / (self.classes - 1)
        if slope(1.0) >= 0.0:
            return value(1.0) * (1.0 + 1e-14) if self.classes > 2 else u
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
        return (value(low) + slope(low) * (high - low)) * (1.0 + 1e-14)

    def slope(self, y: Array, eta: Array) -> Array:
        return self._score(y, self._probabilities(eta))

    def slope_and_curvature(self, y: Array, eta: Array) -> tuple[Array, Array]:
        basis, probabilities = contrast_basis(self.classes), self._probabilities(eta)
        q = self.classes - 1
        products = (basis[:, :, None] * basis[:, None, :]).reshape(self.classes, q * q)
        mean = probabilities @ basis
        curvature = (probabilities @ products).reshape(-1, q, q)
        curvature -= mean[:, :, None] * mean[:, None, :]
        return self._score(y, probabilities), curvature

    def _score(self, y: Array, probabilities: Array) -> Array:
        """Overwrites the probabilities."""
        probabilities[np.arange(len(y)), y.astype(np.intp)] -= 1.0
        return np.asarray(probabilities @ contrast_basis(self.classes))

    def _probabilities(self, eta: Array) -> Array:
        logits = np.asarray(eta @ contrast_basis(self.classes).T)
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        return logits
