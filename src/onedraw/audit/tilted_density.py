# SPDX-License-Identifier: Apache-2.0
"""The exact law of a tilted logistic fit with one or two parameters, and the worst pair of a grid of pairs.

At the minimiser theta the gradient is zero, so the tilt was b(theta) = -(sum of omega f' z) - R theta: one b
for each theta. So theta has the density of b there times the determinant of the map [change of variables],

    p(theta) = exp(-max|b(theta)|/s)/((2 s)^p p!) * det(R I + sum of omega f'' z z').

Everything is written down here from these formulas, with expit for pi in the loss -log p(y) + c (pi - y)^2,
f' = (pi - y)(1 + 2 c pi (1 - pi)): only c, the ridge R and the scale s come from the mechanism, which
publishes them. What is left out is the noise that pays for the solver, a millionth
of a unit long, and the rounding to the grid of a release.

``worst_tilted_pair`` goes through all pairs of records with features -1, 0 or 1 beside crowds of equal
records. The losses are exact at every node of theta, so no pair can pass epsilon by more than rounding; and
one comes close: for one row added, a crowd that outweighs the ridge makes norm and determinant move the same
way; for one row replaced the two gradients must point apart while both are large, which takes two parameters.
With one parameter all large gradients have the sign of theta, so replacing shows little more than half.

>>> laws = worst_tilted_pair(Tilt(ridge=4.0, scale=2.0, intercept=True, neighbours="replace_one"))
>>> 0.99 < laws.epsilon() <= 1.0 + 1e-9
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import special

from onedraw.audit.exact import Laws
from onedraw.audit.pairs import Pair
from onedraw.mechanisms import TiltedFit
from onedraw.records import Records
from onedraw.tilted.losses import Logistic
from onedraw.tilted.recipes import recipe_of
from onedraw.types import Array, Neighbours

NODES = {1: 4001, 2: 161}
COARSE = {1: 801, 2: 81}
REACH = 40.0
STRETCH = 4.0
"""Nodes are spaced as sinh: densely around zero, and out to where slopes are 0 or 1 to rounding."""
FEATURES = (-1.0, 0.0, 1.0)
SMALL = 0.005
"""A feature whose records pull at the fit and hardly curve it, for crowds in one parameter."""
CROWDS = (0, 1, 5, 20, 400, 1000, 4000)


@dataclass(frozen=True, kw_only=True)
class Tilt:
    """The public constants of a tilted logistic fit in the cube: of a feature, an intercept, or both."""

    ridge: float
    scale: float
    neighbours: Neighbours
    brier: float = 0.0
    feature: bool = True
    intercept: bool = False

    @classmethod
    def of(cls, mechanism: TiltedFit) -> Tilt:
        """Those of a calibrated mechanism."""
        loss = recipe_of(mechanism.model).loss
        assert isinstance(loss, Logistic)
        fit = mechanism.terms.calibrated(loss, mechanism.model.num_location, "cube")
        return cls(
            ridge=fit.ridge,
            scale=fit.law.scale,
            neighbours=mechanism.guarantee.neighbours,
            brier=loss.brier,
            feature=mechanism.model.num_features == 1,
            intercept=mechanism.model.fit_intercept,
        )

    @property
    def dim(self) -> int:
        return int(self.feature) + int(self.intercept)

    def nodes(self, points: dict[int, int]) -> tuple[Array, Array]:
        """Parameters (m, p), and the log of the volume around each (m,)."""
        t = np.linspace(-1.0, 1.0, points[self.dim])
        axis = REACH * np.sinh(STRETCH * t) / math.sinh(STRETCH)
        step = np.log(STRETCH * REACH / math.sinh(STRETCH) * np.cosh(STRETCH * t) * (t[1] - t[0]))
        grids = np.meshgrid(*[axis] * self.dim, indexing="ij")
        steps = np.meshgrid(*[step] * self.dim, indexing="ij")
        return np.stack([g.ravel() for g in grids], axis=1), np.asarray(sum(s.ravel() for s in steps))

    def sums(self, features: Array, response: Array, thetas: Array) -> tuple[Array, Array]:
        """Of the gradients (m, p) and the curvatures (m, p, p) of records, at thetas (m, p)."""
        rows = np.column_stack([features, np.ones((len(response), int(self.intercept)))])
        weight = 1.0 / np.maximum(1.0, np.abs(rows).max(axis=1, initial=0.0)) ** 2
        chance = special.expit(thetas @ rows.T)
        spread, gap, c = chance * (1.0 - chance), chance - response, self.brier
        gradient = (weight * gap * (1.0 + 2.0 * c * spread)) @ rows
        # The derivative of pi - y is the spread, and that of the spread itself (1 - 2 pi) times as much.
        bend = spread * (1.0 + 2.0 * c * (spread + gap * (1.0 - 2.0 * chance)))
        curvature = np.einsum("mi,ij,ik->mjk", weight * bend, rows, rows)
        return gradient, curvature

    def log_density(self, gradient: Array, curvature: Array, thetas: Array) -> Array:
        """At thetas (m, p), of data with these sums there."""
        b = -gradient - self.ridge * thetas
        constant = self.dim * math.log(2.0 * self.scale) + math.lgamma(self.dim + 1.0)
        determinant = np.linalg.slogdet(curvature + self.ridge * np.eye(self.dim))[1]
        return np.asarray(-np.abs(b).max(axis=1) / self.scale - constant + determinant)


@dataclass(frozen=True, kw_only=True, eq=False)
class TiltedDensity:
    """The density of the minimiser on given records."""

    tilt: Tilt
    records: Records

    def log_density(self, thetas: Array) -> Array:
        """Normalised log density of each row of ``thetas``."""
        sums = self.tilt.sums(self.records.features, self.records.response, thetas)
        return self.tilt.log_density(*sums, thetas)


def has_tilted_density(mechanism: Any) -> bool:
    """Whether its release is one such minimiser: pure, two classes, one or two parameters in the cube."""
    if not isinstance(mechanism, TiltedFit) or not isinstance(recipe_of(mechanism.model).loss, Logistic):
        return False
    model = mechanism.model
    in_cube = (model.feature_bounds is not None or not model.num_features) and not mechanism.align
    if mechanism.guarantee.delta or mechanism.guarantee.rows_per_person != 1:
        return False
    if mechanism.terms_of_curvature is not None or not in_cube or model.num_location not in NODES:
        return False
    return bool(model.num_features <= 1)  # two features have no one-feature Tilt


def tilted_density(mechanism: TiltedFit, records: Records) -> TiltedDensity:
    """The law of a release on the records."""
    return TiltedDensity(tilt=Tilt.of(mechanism), records=records)


def tilted_laws(mechanism: TiltedFit, pair: Pair) -> Laws:
    """Both laws on the nodes of a rule."""
    tilt = Tilt.of(mechanism)
    nodes, log_volume = tilt.nodes(NODES)
    first, second = (
        TiltedDensity(tilt=tilt, records=data).log_density(nodes) + log_volume
        for data in (pair.first, pair.second)
    )
    return Laws(nodes=nodes, log_first=first, log_second=second)


def worst_tilted_pair(tilt: Tilt) -> Laws:
    """The laws of the pair with the largest loss, of all pairs and crowds of the grid."""
    nodes, log_volume = tilt.nodes(COARSE)
    width = int(tilt.feature)
    kinds = [*product(FEATURES if width else (0.0,), (0.0, 1.0))]
    small = [(SMALL, 0.0), (SMALL, 1.0)] if width and not tilt.intercept else []

    def of(kind: tuple[float, float]) -> tuple[Array, Array]:
        return tilt.sums(np.full((1, width), kind[0]), np.array([kind[1]]), nodes)

    parts = {kind: of(kind) for kind in [*kinds, *small]}

    def density(people: Sequence[tuple[int, tuple[float, float]]]) -> Array:
        gradient = np.zeros((len(nodes), tilt.dim))
        curvature = np.zeros((len(nodes), tilt.dim, tilt.dim))
        for number, kind in people:
            gradient = gradient + number * parts[kind][0]
            curvature = curvature + number * parts[kind][1]
        return tilt.log_density(gradient, curvature, nodes) + log_volume

    worst: Laws | None = None
    for number, crowd in product(CROWDS, [*kinds, *small]):
        logs = [density([(number, crowd), (1, kind)]) for kind in kinds]
        others = logs if tilt.neighbours == "replace_one" else [density([(number, crowd)])]
        for first, second in product(logs, others):
            if worst is None or np.abs(first - second).max() > worst.epsilon():
                worst = Laws(nodes=nodes, log_first=first, log_second=second)
    assert worst is not None
    return worst
