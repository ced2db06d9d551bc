# SPDX-License-Identifier: Apache-2.0
"""The softmax loss of K classes in K - 1 orthonormal sum-to-zero contrasts: logits = B eta.

f' = B'(pi - e_y), f'' = B'(diag pi - pi pi')B, pi the class probabilities. B is the basis of
``families.categorical``, so that parameters mean the same everywhere.

Guarantee:
    A record's gradient is (pi - e_y) (x) omega z. With |omega z| at most 1 in the norm for rows, it moves the
    log density of ``class_law.ClassNormLaw`` by at most a u, u = 1/scale and a = 1 - pi_y; its length is at
    most sqrt(2) a |omega z|_2. ``joint_loss(u, k)`` bounds a u + log det(I + k f'').
    The curvature omega f'' (x) z z' that a record adds is positive semidefinite, of trace at most p (1 -
    1/K) for omega |z|_2^2 <= p, and of entries at most 1/2 in size, diagonal ones in [0, 1/2], for omega
    |z|_inf^2 <= 1: what ``tilted.curvature`` needs.

*Proof of the last.* The trace is tr f'' omega |z|_2^2, and tr f'' = tr (diag pi - pi pi') = 1 - |pi|^2, as B
B' differs from the identity by what the ones span, which diag pi - pi pi' maps to 0. An entry is omega
f''_ab z_i z_j; f''_aa is the variance of B_ya over y ~ pi, at most a quarter of the squared range of the
column, and two entries of a unit vector differ by sqrt(2) at most; |f''_ab|^2 <= f''_aa f''_bb. []
*Proof.* |pi - e_y|^2 = a^2 + sum over the others of pi_k^2 <= 2 a^2.
*Joint bound.* a is linear in pi, and det(I + k (diag pi - pi pi')) = prod (1 + k pi_j) S, S = sum pi_j/(1 +
k pi_j) [matrix determinant lemma], has a concave logarithm: pi -> diag pi - pi pi' is concave and log det(I +
k .) concave and increasing. Log S <= log s - 1 + S/s for any s > 0, so for any multiplier t of sum pi_j = 1
the supremum is at most

    log s - 1 + t + sum over j of  sup over x >= 0 of  c_j u x + log(1 + k x) + x/(s (1 + k x)) - t x,

c_j = 0 for y and 1 for the others. Each is concave in x, and with w = 1/(1 + k x) stationary where w^2/s + k
w = t - c_j u. The best s and t make it an equality. [] At a = 1 the curvature of the other classes remains: a
price is due.

>>> import numpy as np
>>> loss = Softmax(classes=3)
>>> loss.slope(np.array([0.0]), np.zeros((1, 2))).round(3)
array([[0.707, 0.408]])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from scipy import optimize

from onedraw._validate import whole
from onedraw.families.categorical import contrast_basis
from onedraw.types import Array

FIXED_POINT_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Minus the log probability of the class y in {0, ..., classes - 1}."""

    classes: int

    score_bound: ClassVar[float] = math.sqrt(2.0)
    curvature_bound: ClassVar[float] = 0.5
    price: ClassVar[float] = 0.1
    escape_ratio: ClassVar[float | None] = None
    accuracy: ClassVar[float] = 1e-14
    extends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole(minimum=3, classes=self.classes)

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

    def determinant_bound(self, k: float) -> float:
        """The trace of f'' is at most 1 - 1/K, and log(1 + k .) concave in each eigenvalue."""
        q = self.classes - 1
        return q * math.log1p(k / self.classes)

    def joint_loss(self, u: float, k: float) -> float:
        return _joint_loss(self.classes, u, k)

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


@cache
def _joint_loss(classes: int, u: float, k: float) -> float:
    cost, number = np.array([0.0, 1.0]), np.array([1.0, classes - 1.0])  # of y, and of the others
    share = 1.0  # s of the proof, which may be any; the fixed point is the best one
    for _ in range(FIXED_POINT_STEPS):

        def excess(t: float, share: float = share) -> float:
            return float(number @ _stationary(t - u * cost, k, share)[0]) - 1.0

        t = optimize.brentq(excess, u * (1.0 + 1e-15) + 1e-300, u + k + 1.0 / share, xtol=1e-15)
        x, w = _stationary(t - u * cost, k, share)
        bound = math.log(share) - 1.0 + t + float(number @ ((cost * u - t) * x - np.log(w) + x * w / share))
        before, share = share, float(number @ (x * w))
        if abs(share - before) < 1e-13:
            break
    return float(bound * (1.0 + 1e-13) + 1e-14)  # large terms cancel in it


def _stationary(room: Array, k: float, share: float) -> tuple[Array, Array]:
    """x >= 0 and w = 1/(1 + k x) with w^2/share + k w = room, or x = 0 where it would be negative."""
    w = np.minimum(2.0 * room / (k + np.sqrt(k * k + 4.0 * room / share)), 1.0)
    return (1.0 / w - 1.0) / k, w
