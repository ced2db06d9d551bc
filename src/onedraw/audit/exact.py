# SPDX-License-Identifier: Apache-2.0
"""Exact audit of a posterior draw with one or two parameters: no sampling, the output laws themselves.

For a pair of neighbouring data sets both posteriors are computed on the nodes of a quadrature rule. That
gives the privacy loss log p(theta)/p'(theta) everywhere, hence the smallest epsilon at any delta, and the
best possible attack's trade-off curve. A search over pairs looks for the worst.

Guarantee:
    ``Laws.epsilon`` never exceeds the epsilon of a correctly calibrated posterior draw by more than rounding,
    however coarse the rule. *Proof.* A rule with positive weights replaces the prior by a discrete one, the
    same for both data sets. The mechanism's proof holds for every prior, so the discrete posteriors obey the
    same epsilon. [] So a violation found here is one of the loss's certificate, never of the quadrature. What
    the rule's accuracy decides is how close the answer is to that of the continuous prior.

Edge cases:
    The laws are compared in logarithms, so events of probability 1e-300 count at delta = 0, as they must.
    More than two parameters are refused: use an attack.

>>> from onedraw.audit.pairs import neighbours_of
>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms import OnePosterior, Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> model = RegressionModel(family=Bernoulli(), features=("x",), fit_intercept=False)
>>> mechanism = OnePosterior().calibrate(Request(epsilon=1.0), Shape(model=model))
>>> crowd = [([50.0], 0.0)] * 30
>>> laws = output_laws(mechanism, neighbours_of(crowd, ([50.0], 1.0), ([50.0], 0.0)))
>>> 0.99 < laws.epsilon() <= 1.0
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import optimize, special

from onedraw._random import generator
from onedraw._validate import positive, probability, whole
from onedraw.audit.bounds import smallest
from onedraw.audit.pairs import Pair, Record, neighbours_of
from onedraw.errors import InvalidInput
from onedraw.families import Family
from onedraw.posterior import Posterior
from onedraw.privacy.guarantee import Guarantee
from onedraw.records import Records
from onedraw.types import Array

MAX_DIM = 2
FINE, COARSE = {1: 4001, 2: 251}, {1: 801, 2: 81}
REACH = 12.0
"""Prior scales either side of zero: beyond them a normal prior holds less than 1e-32."""
STRETCH = 6.0
RESPONSES = (0.0, 1.0, 2.0, 5.0, 20.0, 1000.0)
"""What the search tries of discrete responses, as far as the family allows it."""
BETWEEN = 0.5
"""A response that only families of real responses allow."""
CROWDS = (0, 1, 2, 5, 20, 100)
BEST_STARTS = 3


class PosteriorMechanism(Protocol):
    """A mechanism whose output is a draw from a posterior that it can state."""

    @property
    def guarantee(self) -> Guarantee: ...

    @property
    def model(self) -> Any: ...

    def posterior(self, records: Records) -> Posterior: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Laws:
    """Two output laws on the same nodes (m, p): their log masses, each normalised."""

    nodes: Array
    log_first: Array
    log_second: Array

    @cached_property
    def loss(self) -> Array:
        """The privacy loss log first/second at each node."""
        return self.log_first - self.log_second

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon that this pair allows at ``delta``."""
        largest = float(np.abs(self.loss).max())
        if probability(delta=delta) == 0.0:
            return largest
        return min(largest, smallest(lambda epsilon: self.delta(epsilon) <= delta))

    def delta(self, epsilon: float) -> float:
        """The smallest delta that this pair allows at ``epsilon``, the worse direction."""
        return max(
            float(np.exp(log_mass).dot(-np.expm1(np.minimum(0.0, epsilon - loss))))
            for log_mass, loss in ((self.log_first, self.loss), (self.log_second, -self.loss))
        )

    def trade_off(self) -> tuple[Array, Array]:
        """False positive and false negative rates of all likelihood-ratio tests of first against second."""
        order = np.argsort(self.loss)  # those most like the second law are called it first
        false_positive = np.concatenate([[0.0], np.cumsum(np.exp(self.log_first[order]))])
        false_negative = 1.0 - np.concatenate([[0.0], np.cumsum(np.exp(self.log_second[order]))])
        return np.clip(false_positive, 0.0, 1.0), np.clip(false_negative, 0.0, 1.0)

    @property
    def success_rate(self) -> float:
        """The best attacker's share of right guesses when both data sets are equally likely."""
        distance = np.abs(np.exp(self.log_first) - np.exp(self.log_second)).sum()
        return float(0.5 + 0.25 * distance)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactAudit:
    """The worst pair that a search found, its laws, and what was claimed."""

    pair: Pair
    laws: Laws
    claimed: Guarantee
    tried: int

    @property
    def epsilon(self) -> float:
        """The smallest epsilon that the worst pair allows: the mechanism's own is no smaller."""
        return self.laws.epsilon(self.claimed.delta)

    @property
    def contradicted(self) -> bool:
        """Whether the claim is refuted, by more than rounding."""
        return self.epsilon > self.claimed.epsilon * (1.0 + 1e-9)


def output_laws(mechanism: PosteriorMechanism, pair: Pair, *, nodes: Array | None = None) -> Laws:
    """The laws of one draw on both data sets of the pair.

    ``nodes`` (m, p) replace the quadrature rule; each then has the mass of the prior density there.
    """
    posteriors = [mechanism.posterior(data) for data in (pair.first, pair.second)]
    if nodes is None:
        nodes, log_weight = quadrature(posteriors[0], FINE)
    else:
        log_weight = np.zeros(len(nodes))
    log_first, log_second = (_normalised(p.log_density(nodes) + log_weight) for p in posteriors)
    return Laws(nodes=nodes, log_first=log_first, log_second=log_second)


def quadrature(posterior: Posterior, points: dict[int, int]) -> tuple[Array, Array]:
    """Nodes (m, p) and log weights (m,) over the support of the posterior's prior.

    Coefficients are spaced as sinh, densely around zero where steep features switch; the scale evenly in its
    working coordinate.
    """
    prior, dim = posterior.prior, posterior.dim
    if dim not in points:
        raise InvalidInput(
            f"The exact audit is for at most {MAX_DIM} parameters, got {dim}. Audit a smaller model of the "
            "same kind, or use an attack."
        )
    reach = REACH if prior.box is None else min(REACH, prior.box)
    t = np.linspace(-1.0, 1.0, points[dim])
    axis = reach * prior.scale * np.sinh(STRETCH * t) / math.sinh(STRETCH)
    axes, steps = [axis] * dim, [np.log(np.cosh(STRETCH * t))] * dim
    if prior.noise is not None:
        top = min(prior.noise.ceiling, prior.noise.floor + 1e5 * math.sqrt(prior.noise.rate))
        high = prior.noise.coordinate(prior.noise.floor + (top - prior.noise.floor) * (1.0 - 1e-9))
        axes[-1] = np.linspace(math.log(prior.noise.floor) - 25.0, high, points[dim])
        steps[-1] = np.zeros(points[dim])
    nodes = np.stack([grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")], axis=1)
    log_weight = sum(grid.ravel() for grid in np.meshgrid(*steps, indexing="ij"))
    return nodes, np.asarray(log_weight)


# -- the search for the worst pair


def worst_pair(
    mechanism: PosteriorMechanism,
    *,
    tries: int = 300,
    feature_reach: float = 100.0,
    response_reach: float = 100.0,
    random_state: Any = None,
) -> ExactAudit:
    """Search the pairs made of a crowd of equal records and one person's record, changed or removed.

    Random pairs first, then a direct search from the best of them over everything continuous. Features are
    tried up to ``feature_reach`` and real responses up to ``response_reach`` in size.
    """
    guarantee = mechanism.guarantee
    if guarantee.rows_per_person != 1 or guarantee.draws != 1:
        raise InvalidInput(
            "The exact audit is for one draw and one row a person, got "
            f"draws={guarantee.draws} and rows_per_person={guarantee.rows_per_person}."
        )
    space = _Space(
        mechanism=mechanism,
        reach=(positive(feature_reach=feature_reach), positive(response_reach=response_reach)),
    )
    rng, _ = generator(random_state)
    starts = [space.random(rng) for _ in range(whole(tries=tries))]
    heights = np.array([space.epsilon(start) for start in starts])
    best = [starts[i] for i in np.argsort(heights)[-BEST_STARTS:]]
    found = [space.improved(start) for start in best]
    worst = max(found, key=space.epsilon)
    pair = space.pair(worst)
    # The fine rule, and the posteriors of the whole data sets as the mechanism itself states them.
    laws = output_laws(mechanism, pair)
    return ExactAudit(pair=pair, laws=laws, claimed=guarantee, tried=tries)


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """A point of the search: the crowd's size; features in [-1, 1] and responses of (crowd, one, other).

    Real responses are in [-1, 1] too; discrete ones are as they are.
    """

    crowd: int
    features: tuple[tuple[float, ...], ...]
    responses: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Space:
    """Pairs as points of a search, and their epsilon on a coarse rule."""

    mechanism: PosteriorMechanism
    reach: tuple[float, float]

    @property
    def replaced(self) -> bool:
        return self.mechanism.guarantee.neighbours == "replace_one"

    @property
    def width(self) -> int:
        return int(self.mechanism.model.num_features)

    @cached_property
    def real(self) -> bool:
        return _possible(self.mechanism.model.family, BETWEEN)

    @cached_property
    def responses(self) -> list[float]:
        """The discrete responses to try."""
        return [value for value in RESPONSES if _possible(self.mechanism.model.family, value)]

    @cached_property
    def rule(self) -> tuple[Array, Array]:
        nodes, log_weight = quadrature(self._posterior([]), COARSE)
        return nodes, log_weight + self._posterior([]).log_density(nodes)

    def random(self, rng: np.random.Generator) -> _Choice:
        # Cubed: sizes from a thousandth of the reach to all of it.
        features = [tuple(float(v) ** 3 for v in rng.uniform(-1.0, 1.0, self.width)) for _ in range(3)]
        if rng.random() < 0.5:
            features = [features[0]] * 3
        responses = rng.uniform(-1.0, 1.0, 3) ** 3 if self.real else rng.choice(self.responses, 3)
        return _Choice(
            crowd=int(rng.choice(CROWDS)), features=tuple(features), responses=tuple(responses.tolist())
        )

    def improved(self, start: _Choice) -> _Choice:
        """A direct search over features and real responses."""
        width = self.width
        own = np.array([*np.ravel(start.features), *(start.responses if self.real else ())])
        if not own.size:
            return start

        def choice(point: Array) -> _Choice:
            inside = np.clip(point, -1.0, 1.0).tolist()
            features = tuple(tuple(inside[i * width : (i + 1) * width]) for i in range(3))
            responses = tuple(inside[3 * width :]) if self.real else start.responses
            return replace(start, features=features, responses=responses)

        simplex = np.vstack([own, own + np.diag(np.where(own < 0.0, -0.5, 0.5) * np.abs(own) + 1e-3)])
        found = optimize.minimize(
            lambda point: -self.epsilon(choice(point)),
            own,
            method="Nelder-Mead",
            options={"maxfev": 40 * own.size, "initial_simplex": simplex, "xatol": 1e-4, "fatol": 1e-6},
        )
        return choice(found.x)

    def epsilon(self, choice: _Choice) -> float:
        nodes, log_prior = self.rule
        crowd, one, other = self._people(choice)
        shared = log_prior + (choice.crowd * self._energy(crowd) if choice.crowd else 0.0)
        second = shared + self._energy(other) if self.replaced else shared
        laws = Laws(
            nodes=nodes,
            log_first=_normalised(shared + self._energy(one)),
            log_second=_normalised(second),
        )
        return laws.epsilon(self.mechanism.guarantee.delta)

    def pair(self, choice: _Choice) -> Pair:
        crowd, one, other = self._people(choice)
        if self.replaced and one == other:  # no change at all: the search found nothing
            raise InvalidInput("No pair of different records was found. Raise tries.")
        return neighbours_of(
            [crowd] * choice.crowd, one, other if self.replaced else None, name="worst found"
        )

    def _people(self, choice: _Choice) -> list[Record]:
        size = self.reach[1] if self.real else 1.0
        return [
            ([self.reach[0] * v for v in features], size * response)
            for features, response in zip(choice.features, choice.responses, strict=True)
        ]

    def _energy(self, person: Record) -> Array:
        """What one record adds to the log density at the nodes: posteriors are sums over records."""
        nodes, _ = self.rule
        posterior = self._posterior([person])
        return posterior.log_density(nodes) - posterior.prior.log_density(nodes)

    def _posterior(self, people: Sequence[Record]) -> Posterior:
        shape = (len(people), self.width)
        features = np.array([person[0] for person in people], dtype=np.float64).reshape(shape)
        response = np.array([person[1] for person in people], dtype=np.float64)
        return self.mechanism.posterior(Records(features=features, response=response))


def _possible(family: Family, response: float) -> bool:
    """Whether a record of the family may have this response."""
    try:
        family.check_response(np.array([response]))
    except InvalidInput:
        return False
    return True


def _normalised(log_mass: Array) -> Array:
    return np.asarray(log_mass - special.logsumexp(log_mass))
