# SPDX-License-Identifier: Apache-2.0
"""The Bayes-optimal membership attack: given a release, which of two neighbouring data sets was it from?

The attacker knows both data sets, the mechanism and its constants, and scores a release theta by

    log p(theta | D') - log p(theta | D);

guessing D' where this is positive is the best that can be done when both are equally likely. The densities:

* a posterior draw: the prior cancels, the losses of the common records too, and the ratio of normalisers is
  E over the posterior on D of exp(w [loss(z) - loss(z')]), estimated from draws of that posterior. Losses are
  summed, not averaged, and beta and the weight are the mechanism's own: the attack uses the very posterior
  that the mechanism draws from.
* an estimate with noise, or one noisy step of gradient descent: the density of the noise around what it is
  added to (``onedraw.audit.densities``).

Guarantee:
    The bound drawn from an attack is valid whatever its score. *Proof.* A score computed from independent
    reference draws is, for the attacked runs, a fixed function, and (*) of ``onedraw.audit.bounds`` holds for
    every fixed set of outputs. [] A wrong density makes the bound smaller, never too large.

Edge cases:
    Each data set is attacked in exactly half of the rounds, so that each error rate has a denominator known
    beforehand. Draws are made in batches; one fit per round is not needed, because rounds on one data set
    are independent draws of one law.

>>> from onedraw.audit.pairs import paper_pair
>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms import OnePosterior, Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> model = RegressionModel(family=Bernoulli(), features=("x",), fit_intercept=False)
>>> mechanism = OnePosterior(beta="paper").calibrate(Request(epsilon=2.0), Shape(model=model))
>>> found = membership_attack(mechanism, paper_pair(), rounds=2000, random_state=0)
>>> abs(found.success_rate - 0.656) < 0.04                                        # 0.656 by quadrature
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy import special

from onedraw._random import generator
from onedraw._validate import whole
from onedraw.audit.bounds import Counts, held_out_counts
from onedraw.audit.closed_forms import Density
from onedraw.audit.densities import known_density
from onedraw.audit.pairs import Pair
from onedraw.audit.releasing import releases
from onedraw.errors import InvalidInput
from onedraw.samplers.base import Sampler
from onedraw.samplers.nuts import NutsSampler
from onedraw.types import Array

Score = Callable[[Array], Array]
"""Outputs (m, p) to scores (m,): the larger, the more like the second data set."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """Scores of releases from the first data set (negatives) and from the second (positives).

    ``threshold`` is where the bound is taken: fixed beforehand, or None to choose it on the first third of
    the rounds. ``log_odds`` says that the scores are log odds, so that a guess is best made at zero; the
    threshold of the best bound is elsewhere, among the surest guesses.
    """

    negatives: Array
    positives: Array
    threshold: float | None = 0.0
    log_odds: bool = True

    @property
    def rounds(self) -> int:
        """On both data sets together."""
        return len(self.negatives) + len(self.positives)

    def counts(self, *, delta: float = 0.0, confidence: float = 0.95) -> Counts:
        """The errors that a bound may be drawn from."""
        if self.threshold is not None:
            return Counts.of(self.negatives, self.positives, self.threshold)
        return held_out_counts(self.negatives, self.positives, delta=delta, confidence=confidence)[1]

    @property
    def success_rate(self) -> float:
        """The share of right guesses when both data sets are equally likely.

        Made at zero log odds; with another score at the bound's threshold, on rounds that did not choose it.
        """
        if self.log_odds:
            return Counts.of(self.negatives, self.positives, 0.0).success_rate
        return self.counts().success_rate


def log_ratio(first: Density, second: Density, reference: Array) -> Score:
    """The optimal score; ``reference`` (m, p) are draws from the first law, other than those attacked."""

    def difference(thetas: Array) -> Array:
        return second.log_density(thetas) - first.log_density(thetas)

    normaliser = float(special.logsumexp(difference(reference)) - math.log(len(reference)))
    return lambda thetas: difference(thetas) - normaliser


def membership_attack(
    mechanism: Any,
    pair: Pair,
    *,
    rounds: int = 10_000,
    random_state: Any = None,
) -> Attack:
    """The optimal attack on a mechanism whose output density is known.

    For a posterior draw (``posterior`` and ``drawn_by``) and where ``known_density`` knows it; other
    mechanisms are attacked from outside, by ``onedraw.audit.black_box``.
    """
    half = whole(minimum=2, rounds=rounds, remedy="Half of them are run on each data set.") // 2
    rng, _ = generator(random_state)
    if hasattr(mechanism, "posterior"):
        posteriors = [mechanism.posterior(data) for data in (pair.first, pair.second)]
        sampler: Sampler = mechanism.drawn_by
        reference = sampler.sample(posteriors[0], _reference_size(sampler, half), rng).values
        score = log_ratio(posteriors[0], posteriors[1], reference)
        samples = [sampler.sample(posterior, half, rng).values for posterior in posteriors]
    else:
        densities = [known_density(mechanism, data) for data in (pair.first, pair.second)]
        score = _ratio_of(*densities)
        samples = [releases(mechanism, data, half, rng) for data in (pair.first, pair.second)]
    return Attack(negatives=score(samples[0]), positives=score(samples[1]))


def _reference_size(sampler: Any, half: int) -> int:
    """How many draws estimate the ratio of normalisers; those of chains need not be independent for that."""
    if not isinstance(sampler, NutsSampler):
        return max(half, 1000)
    if half > sampler.chains:
        raise InvalidInput(
            f"Expected a chain for each of the {half} rounds on a data set, got chains={sampler.chains}: "
            "draws of one chain are not independent, so the bound would not hold. Raise the sampler's chains."
        )
    return sampler.chains * sampler.kept


def _ratio_of(first: Density, second: Density) -> Score:
    """Log ratio of two normalised densities, which needs no reference."""
    return lambda thetas: second.log_density(thetas) - first.log_density(thetas)
