# SPDX-License-Identifier: Apache-2.0
"""The softmax loss of K classes in K - 1 orthonormal sum-to-zero contrasts: logits = B eta.

f = -log pi_y + (c/2) |pi - e_y|^2, pi the class probabilities and c = ``brier`` in [0, 1/2]: the log loss and
Brier's score, two proper scores, as in ``losses`` for two classes. B is that of ``families.categorical``, so
that parameters mean the same everywhere. With V = diag pi - pi pi', r = |pi|^2 and t = pi_y - r,

    f' = B' s,    s = (I + c V)(pi - e_y):    s_j = pi_j (1 + c (t + pi_j))               for j != y,
    f'' = B' (sum over j of c_j (e_j - pi)(e_j - pi)') B,
                                              c_j = pi_j (1 + c t + 2 c pi_j) - c pi_y [j = y].

Guarantee:
    f is convex. A record's gradient is s (x) omega z. With |omega z| at most 1 in the norm for rows, it moves
    the log density of ``class_law.ClassNormLaw`` by at most a u, u = 1/scale and a = |s_y| <= 1; its length
    is at most sqrt(2) a |omega z|_2. ``joint_loss(u, k)`` bounds a u + log det(I + k f'').
    The curvature omega f'' (x) z z' that a record adds is positive semidefinite, of trace at most
    ``trace_bound`` p for omega |z|_2^2 <= p, and of entries at most ``curvature_bound`` in size, diagonal
    ones not negative, for omega |z|_inf^2 <= 1: what ``tilted.curvature`` needs.

*Proof.* Let q = 1 - pi_y, and o = sum over j != y of pi_j^2, so that r = (1 - q)^2 + o and o <= q^2.
Score: c r <= 1/2, so s_j >= 0 for j != y, and s_y = -(their sum). So the rows of the gradient have norms that
add up to 2 a |omega z|, and |s|^2 <= a^2 + (their sum)^2 = 2 a^2. a = q + c (1 - q)(q^2 + o) <= q + 2 c q^2
(1 - q) <= 1.
Convex: c_j >= 0 for j != y; c_y = pi_y (1 - c - c r + 3 c pi_y), and r <= 1 - 2 pi_y + 2 pi_y^2, so c_y >=
pi_y (1 - 2 c + 5 c pi_y - 2 c pi_y^2) >= 0.
Entries: |f''_ab|^2 <= f''_aa f''_bb, and f''_aa = x' f'' x of a unit vector x = B_a in classes, whose entries
are at most sqrt(2) apart. x' f'' x is convex in x and does not change if all entries move alike, so it is at
most 2 x' f'' x at some x of zeros and ones: the classes S, without y as their complement gives the same. With
P = pi(S) this is

    P (1 - P) + c (1 - P)(2 - 3 P) o_S + c P (3 P - 1) o_rest + c P (1 - 2 P) pi_y,

o_S <= P^2 and o_rest in [pi_y^2, (1 - P)^2] the sums of squares. From 1/3 to 1/2 all three are best as large
as they can be, o_rest = (1 - P)^2 and pi_y = 1 - P: two classes, with f'' of ``losses``. From 1/2 to 2/3 pi_y
= 0 is, which gives less than P = 1/2 did: P (1 - P)(1 - c + 6 c P (1 - P)). Beyond, o_S = 0 and it is at most
2/9 (1 + c/3). Below 1/3, P (1 - P) <= 2/9, o_S adds at most 2 c/27, and the rest c P ((1 - 2 P) v - (1 - 3 P)
v^2), v = pi_y, at most 2 c/27 too: 8/27 at c = 1/2. All are below the bound for two classes, (1 + c/2)/4 or
more.
Determinant: let g be the unit contrast of y against the mean of the others. By Fischer's inequality and that
of arithmetic and geometric means

    log det(I + k f'') <= log(1 + k G) + (K - 2) log(1 + k T/(K - 2)),   G = g' f'' g, T = tr f'' - G,

an equality where the others are equally likely. G = K/(K - 1) (c_y q^2 + (sum of the other c_j)(1 - q)^2) is
linear in o; in T stands -4 c times the sum of the pi_j^3, which is at least o^2/q, and with this T is a
quadratic of leading coefficient c (3 - 4/q) < 0. a is linear. So the sum of all three is concave in o, and at
most its tangent at the least o, that of equally likely others; where the tangent falls, nothing is lost. What
remains is a smooth function of q in [0, 1], ``_largest``. [] At a = 1 the curvature of the other classes
remains: a price is due.

>>> import numpy as np
>>> loss = Softmax(classes=3)
>>> loss.slope(np.array([0.0]), np.zeros((1, 2))).round(3)
array([[0.707, 0.408]])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onedraw._validate import whole
from onedraw.families.categorical import contrast_basis
from onedraw.tilted.losses import Logistic
from onedraw.types import Array

PLACES, FINER, ROUNDS = 2048, 16, 4
"""Intervals of [0, 1], and by how much, and how often, they are made smaller around each peak."""


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """-log pi_y + (``brier``/2) |pi - e_y|^2 of the class y in {0, ..., classes - 1}."""

    classes: int
    brier: float = 0.0

    score_bound: ClassVar[float] = math.sqrt(2.0)
    price: ClassVar[float] = 0.1
    escape_ratio: ClassVar[float | None] = None
    extends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole(minimum=3, classes=self.classes)
        Logistic(brier=self.brier)  # asks the same of it

    @property
    def num_predictors(self) -> int:
        return self.classes - 1

    @property
    def accuracy(self) -> float:
        """A sum over classes is rounded, and so are the contrasts."""
        return max(1e-14, 4.0 * self.classes * 2.0**-53)

    @property
    def curvature_bound(self) -> float:
        return 2.0 * Logistic(brier=self.brier).curvature_bound

    @property
    def trace_bound(self) -> float:
        return _trace_bound(self.classes, self.brier)

    @property
    def corners(self) -> int:
        """s is a mean of 0 and the e_j - e_y, j != y."""
        return self.classes - 1

    @property
    def information(self) -> Softmax:
        """The log loss: its curvature B' V B is Fisher's information, and smaller, so it takes less noise."""
        return Softmax(classes=self.classes)

    def steepness(self, eta: Array) -> float:
        """At the truth the mean of f'' is V + c V^2, in B: by how much more its trace is."""
        _, variance = self.information.slope_and_curvature(np.zeros(1), eta[None])
        return 1.0 + self.brier * float((variance[0] ** 2).sum() / max(variance[0].trace(), 1e-300))

    def determinant_bound(self, k: float) -> float:
        return self.joint_loss(0.0, k)

    def joint_loss(self, u: float, k: float) -> float:
        return _joint_loss(self.classes, self.brier, u, k)

    def slope(self, y: Array, eta: Array) -> Array:
        probabilities = self._probabilities(eta)
        return self._score(y, probabilities, self._tendency(y, probabilities))

    def slope_and_curvature(self, y: Array, eta: Array) -> tuple[Array, Array]:
        basis, probabilities = contrast_basis(self.classes), self._probabilities(eta)
        q, c = self.classes - 1, self.brier
        products = (basis[:, :, None] * basis[:, None, :]).reshape(self.classes, q * q)
        tendency, mean = self._tendency(y, probabilities), probabilities @ basis
        masses = probabilities * (1.0 + c * tendency + 2.0 * c * probabilities)
        seen = _of_class(y)
        masses[seen] -= c * probabilities[seen]
        # sum c_j (b_j - mean)(b_j - mean)', b_j the rows of the basis
        turned = (masses @ basis - 0.5 * masses.sum(axis=1, keepdims=True) * mean)[:, :, None]
        curvature = (masses @ products).reshape(-1, q, q)
        cross = turned * mean[:, None, :]
        curvature -= cross
        curvature -= cross.transpose(0, 2, 1)
        return self._score(y, probabilities, tendency), curvature

    def _tendency(self, y: Array, probabilities: Array) -> Array:
        """t (n, 1)."""
        of_class = probabilities[_of_class(y)]
        return np.asarray(of_class - np.einsum("ij,ij->i", probabilities, probabilities))[:, None]

    def _score(self, y: Array, probabilities: Array, tendency: Array) -> Array:
        seen, c = _of_class(y), self.brier
        score = probabilities * (1.0 + c * (tendency + probabilities))
        score[seen] -= 1.0 + c * probabilities[seen]
        return np.asarray(score @ contrast_basis(self.classes))

    def _probabilities(self, eta: Array) -> Array:
        logits = np.asarray(eta @ contrast_basis(self.classes).T)
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        return logits


def _of_class(y: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the class of each record stands."""
    return np.arange(len(y)), y.astype(np.intp)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bounds:
    """a, G and T of the proof at q = 1 - pi_y and equally likely others, and their slopes in o."""

    score: Array
    along: Array
    across: Array
    slopes: tuple[Array, Array, Array]
    room: Array  # by which o may grow

    @classmethod
    def at(cls, classes: int, brier: float, q: Array) -> _Bounds:
        c, others, p = brier, classes - 1.0, 1.0 - q
        o = q * q / others
        both = p * p + o
        own = p * (1.0 - c - c * both + 3.0 * c * p)
        rest = q + c * q * q * p + c * o * (2.0 - q)
        along = classes / others * (own * q * q + rest * p * p)
        along_slope = classes / others * c * p * (2.0 - 3.0 * q)
        # tr f'' = sum of c_j |e_j - pi|^2; the sum of the cubes is o^2/q = o q/others here
        trace = own * (q * q + o) + (1.0 + both) * rest
        trace -= 2.0 * o * (1.0 + c * p - c * both + 2.0 * c * q / others)
        slope = own - c * p * (q * q + o) + rest + (1.0 + both) * c * (2.0 - q)
        slope -= 2.0 * (1.0 + c * p - c * both - c * o) + 8.0 * c * q / others
        return cls(
            score=q + c * p * (q * q + o),
            along=along,
            across=trace - along,
            slopes=(c * p, along_slope, slope - along_slope),
            room=q * q - o,
        )


@cache
def _joint_loss(classes: int, brier: float, u: float, k: float) -> float:
    free = classes - 2.0

    def bound(q: Array) -> Array:
        at = _Bounds.at(classes, brier, q)
        score, along, across = at.slopes
        value = u * at.score + np.log1p(k * at.along) + free * np.log1p(k * at.across / free)
        slope = u * score + k * along / (1.0 + k * at.along) + k * across / (1.0 + k * at.across / free)
        return np.asarray(value + at.room * np.maximum(slope, 0.0))

    return _largest(bound)


@cache
def _trace_bound(classes: int, brier: float) -> float:
    def bound(q: Array) -> Array:
        at = _Bounds.at(classes, brier, q)
        return np.asarray(at.along + at.across + at.room * np.maximum(at.slopes[1] + at.slopes[2], 0.0))

    return _largest(bound)


def _largest(function: Callable[[Array], Array]) -> float:
    """The largest value on [0, 1] of a function that turns a few times only.

    Around each peak of a grid a finer one is laid. A peak of second derivative -D is missed by D h^2/8 for
    intervals h, 1e-7 in the end, which the last factor makes up for; one that shows at no place of the first
    grid would be missed by as much with its h. None does: bounds with a grid of a quarter of these places
    were never passed, by more than rounding, on grids of 16,000 and more (24,000 cases of u, k up to 100 and
    up to 100 classes, many at ties of two peaks), and had at most three turning points.
    """
    places = np.linspace(0.0, 1.0, PLACES + 1)
    padded = np.pad(function(places), 1, constant_values=-np.inf)
    tops = places[(padded[1:-1] >= padded[:-2]) & (padded[1:-1] >= padded[2:])]
    step = 1.0 / PLACES
    for _ in range(ROUNDS - 1):
        around = np.clip(tops[:, None] + step * np.linspace(-1.0, 1.0, 2 * FINER + 1), 0.0, 1.0)
        values = function(around)
        tops, step = around[np.arange(len(tops)), values.argmax(axis=1)], step / FINER
    return float(values.max()) * (1.0 + 1e-9)
