# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on epsilon from an attack's errors: what can be said with confidence, and why.

A mechanism ran ``negatives`` times on D and ``positives`` times on its neighbour D'. An attacker saw each
output and guessed "D'" whenever a score exceeded a threshold. Let a be the probability of a false positive
("D'" on D) and b that of a false negative ("D" on D'). If the mechanism is (epsilon, delta)-DP, then for the
set of outputs called "D'", and for its complement,

    1 - b <= e^epsilon a + delta    and    1 - a <= e^epsilon b + delta,                              (*)

so epsilon >= max(log((1 - delta - b)/a), log((1 - delta - a)/b)), and this falls as a or b grows.

Guarantee (each method covers the true epsilon with the stated confidence, if the runs are independent and the
threshold was fixed before they were seen; ``held_out_counts`` sees to the second):

* ``clopper_pearson``. *Proof.* Given the threshold, the false positives are Binomial(negatives, a): each
  rate has its own number of runs under it, never the total. The exact upper limits A of a and B of b fail
  with probability at most alpha/2 each, so a <= A and b <= B together with probability at least 1 - alpha
  [union bound]. On that event both inequalities of (*) hold with A and B in place of a and b: the larger of
  the two directions costs nothing more. []
* ``bayesian`` [Zanella-Beguelin et al. 2023]: a ~ Beta(fp + 1/2, tn + 1/2) and b ~ Beta(fn + 1/2, tp + 1/2),
  independent (Jeffreys); the bound is the larger of the alpha/2-quantiles of the two epsilons that (*)
  implies, so that both directions are paid for. (The alpha-quantile of the larger epsilon is not a bound: on
  randomised response of epsilon 2 it was too large in 14% of audits.) A *credible* bound: its coverage is
  only approximate, and no verdict rests on it.
* ``one_run`` [Steinke, Nasr & Jagielski 2023]: each of m canaries is included or not by a fair coin of its
  own, in one data set; of r guesses, v are right. *Proof (delta = 0).* Reveal the coins one by one. Given the
  output and the coins before it, Bayes' rule and epsilon-DP put the odds of the next coin between e^-epsilon
  and e^epsilon, so each guess is right with probability at most q = 1/(1 + e^-epsilon), whatever came
  before, and v is stochastically at most Binomial(r, q). For delta > 0 their Theorem 5.2 adds
  2 m delta max_i P(v - i <= Binomial(r, q) < v)/i to the probability of v or more. The bound is the smallest
  epsilon that is not rejected at level alpha. []
* ``gaussian``: if the pair is no easier to tell apart than N(0, 1) and N(mu, 1), then
  mu >= z(1 - a) - z(b), z the normal quantile, which again falls in a and b: use A and B as above. That
  bounds mu for any mechanism; the epsilon that follows from it is the mechanism's own only if its trade-off
  curve is Gaussian.

>>> counts = Counts(false_positives=100, negatives=500, false_negatives=100, positives=500)
>>> round(clopper_pearson(counts).epsilon, 3)              # log 4 = 1.386 in the limit
1.165
>>> nothing = Counts(false_positives=250, negatives=500, false_negatives=250, positives=500)
>>> clopper_pearson(nothing).epsilon
0.0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from onedraw._validate import positive, probability, whole
from onedraw.errors import InvalidInput
from onedraw.privacy.gaussian import gaussian_delta
from onedraw.types import Array

LARGEST = 700.0
"""No epsilon beyond this is looked at: its exponential overflows."""
NODES = 64
CANDIDATES = 100
CAUTION = 100.0
"""Thresholds are compared at a level so many times smaller: about as many of them err independently."""
PRECISION = 1e-7
LARGEST_SHOWN = 100.0
"""More than any number of runs can show."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """An attack's errors, each with the number of runs in which it could have been made."""

    false_positives: int
    negatives: int
    false_negatives: int
    positives: int

    def __post_init__(self) -> None:
        for errors, runs in (("false_positives", "negatives"), ("false_negatives", "positives")):
            total = whole(**{runs: getattr(self, runs)}, remedy="Run the mechanism on both data sets.")
            if whole(minimum=0, **{errors: getattr(self, errors)}) > total:
                raise InvalidInput(f"Expected {errors} <= {runs}, got {getattr(self, errors)} > {total}.")

    @classmethod
    def of(cls, negatives: Array, positives: Array, threshold: float) -> Counts:
        """From scores: "D'" is guessed where a score exceeds the threshold."""
        negatives, positives = _scores(negatives=negatives), _scores(positives=positives)
        return cls(
            false_positives=int((negatives > threshold).sum()),
            negatives=len(negatives),
            false_negatives=int((positives <= threshold).sum()),
            positives=len(positives),
        )

    @property
    def runs(self) -> int:
        """On both data sets together."""
        return self.negatives + self.positives

    @property
    def success_rate(self) -> float:
        """The share of right guesses when both data sets are equally likely."""
        return 1.0 - 0.5 * self.false_positives / self.negatives - 0.5 * self.false_negatives / self.positives

    def without_errors(self) -> Counts:
        """As many runs of a perfect attack."""
        return Counts(
            false_positives=0, negatives=self.negatives, false_negatives=0, positives=self.positives
        )


@dataclass(frozen=True, kw_only=True)
class Bound:
    """epsilon is at least this, with this confidence; ``largest`` is the most that so many runs can show."""

    method: str
    epsilon: float
    delta: float
    confidence: float
    largest: float

    def contradicts(self, claimed: float) -> bool:
        """Whether a claimed epsilon (at the same delta) is refuted."""
        return self.epsilon > claimed


def clopper_pearson(counts: Counts, *, delta: float = 0.0, confidence: float = 0.95) -> Bound:
    """The exact confidence bound from both error rates and both directions."""

    def epsilon(counts: Counts) -> float:
        a, b = _upper_rates(counts, confidence)
        return float(_epsilon(np.array(a), np.array(b), delta))

    return _bound("clopper_pearson", epsilon, counts, delta, confidence)


def bayesian(counts: Counts, *, delta: float = 0.0, confidence: float = 0.95) -> Bound:
    """The Jeffreys credible bound; tighter on average, and without a guaranteed coverage."""

    def epsilon(counts: Counts) -> float:
        # a is integrated over its ranks by Gauss and Legendre, b in closed form.
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        a = _jeffreys(counts.false_positives, counts.negatives, 0.5 + 0.5 * nodes)
        shapes = counts.false_negatives + 0.5, counts.positives - counts.false_negatives + 0.5

        # In either direction, epsilon is at most e where b is at least this:
        directions: list[Callable[[float], Array]] = [
            lambda e: 1.0 - delta - math.exp(e) * a,
            lambda e: (1.0 - delta - a) * math.exp(-e),
        ]

        def quantile(least: Callable[[float], Array]) -> float:
            def excess(e: float) -> float:
                mass = 0.5 * weights @ special.betaincc(*shapes, np.clip(least(e), 0.0, 1.0))
                return float(mass) - 0.5 * (1.0 - confidence)

            if excess(0.0) >= 0.0:
                return 0.0
            return float(optimize.brentq(excess, 0.0, LARGEST_SHOWN, xtol=PRECISION))

        return max(quantile(least) for least in directions)

    return _bound("bayesian", epsilon, counts, delta, confidence)


def gaussian(counts: Counts, *, delta: float, confidence: float = 0.95) -> Bound:
    """The bound at ``delta`` > 0 for mechanisms with a Gaussian trade-off curve, and for no others."""
    positive(delta=delta, remedy="A Gaussian trade-off curve has no epsilon at delta=0.")

    def epsilon(counts: Counts) -> float:
        mu = gaussian_separation(counts, confidence=confidence)
        return smallest(lambda epsilon: gaussian_delta(mu, epsilon) <= delta) if mu > 0.0 else 0.0

    return _bound("gaussian", epsilon, counts, delta, confidence)


def gaussian_separation(counts: Counts, *, confidence: float = 0.95) -> float:
    """A lower bound on mu such that the pair is as easy to tell apart as N(0, 1) and N(mu, 1); 0 if none."""
    a, b = _upper_rates(counts, confidence)
    if a >= 1.0 or b >= 1.0:
        return 0.0
    return max(0.0, float(-special.ndtri(a) - special.ndtri(b)))


def one_run(
    *, correct: int, guesses: int, canaries: int, delta: float = 0.0, confidence: float = 0.95
) -> Bound:
    """The bound from one run on a data set with many canaries.

    >>> round(one_run(correct=95, guesses=100, canaries=1000).epsilon, 2)
    2.17
    """
    canaries = whole(canaries=canaries)
    guesses = whole(guesses=guesses)
    correct = whole(minimum=0, correct=correct)
    probability(delta=delta)
    alpha = significance(confidence)
    if not correct <= guesses <= canaries:
        raise InvalidInput(
            f"Expected correct <= guesses <= canaries, got {correct}, {guesses} and {canaries}."
        )

    def epsilon(right: int) -> float:
        return smallest(lambda e: one_run_p_value(right, guesses, canaries, e, delta) >= alpha, step=0.02)

    return Bound(
        method="one_run",
        epsilon=epsilon(correct),
        delta=delta,
        confidence=confidence,
        largest=epsilon(guesses),
    )


def one_run_p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest probability of so many right guesses under (epsilon, delta)-DP."""
    q = float(special.expit(epsilon))

    def at_least(v: Array) -> Array:
        inside = np.clip(v, 1.0, None)  # betainc needs v >= 1; P(X >= 0) = 1
        return np.where(v <= 0.0, 1.0, special.betainc(inside, guesses - inside + 1.0, q))

    tail = float(at_least(np.array(float(correct))))
    if delta == 0.0 or correct == 0:
        return tail
    fewer = np.arange(1.0, correct + 1.0)
    near = float(((at_least(correct - fewer) - tail) / fewer).max())
    return min(1.0, tail + 2.0 * canaries * delta * near)


# -- thresholds


def best_threshold(
    negatives: Array, positives: Array, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """The threshold with the largest bound on these scores. Use it on *other* runs only.

    The winner among hundreds of thresholds tends to be a lucky one: an extreme threshold with a few errors
    fewer than it deserves, of which other runs show nothing. The bounds that are compared here are therefore
    drawn at a stricter level, alpha/CAUTION, at which few errors count for little. Validity does not depend
    on it, because the winner is judged by other runs, at the level that was asked for.
    """
    negatives, positives = np.sort(_scores(negatives=negatives)), np.sort(_scores(positives=positives))
    values = np.unique(np.concatenate([negatives, positives]))
    # Half-way between neighbouring values: scores of later runs fall on neither side by a rounding error.
    thresholds = 0.5 * values[1:] + 0.5 * values[:-1] if len(values) > 1 else values
    thresholds = thresholds[_some(len(thresholds))]
    false_positives = len(negatives) - np.searchsorted(negatives, thresholds, side="right").astype(float)
    false_negatives = np.searchsorted(positives, thresholds, side="right").astype(float)
    level = 0.5 * significance(confidence) / CAUTION
    bounds = many_bounds(false_positives, len(negatives), false_negatives, len(positives), level, delta)
    if not bounds.any():  # a weak signal shows best in the middle, where both errors are frequent
        return float(thresholds[len(thresholds) // 2])
    return float(thresholds[int(np.argmax(bounds))])


def many_bounds(
    false_positives: Array, negatives: int, false_negatives: Array, positives: int, level: float, delta: float
) -> Array:
    """What ``clopper_pearson`` says of each pair of errors; either limit fails with probability ``level``."""
    return _epsilon(
        _upper(false_positives, negatives, level), _upper(false_negatives, positives, level), delta
    )


def _some(number: int) -> NDArray[np.intp]:
    """Up to a few hundred of so many positions: every one near the ends, where the bounds move most."""
    ends = np.arange(min(number, CANDIDATES))
    between = np.linspace(0, number - 1, CANDIDATES).astype(np.intp)
    return np.unique(np.concatenate([ends, between, number - 1 - ends]))


def held_out_counts(
    negatives: Array, positives: Array, *, delta: float = 0.0, confidence: float = 0.95
) -> tuple[float, Counts]:
    """A threshold chosen on the first third of the runs, and the errors it makes on the others.

    The runs are independent, so given the first third the threshold is a constant for the others.
    """
    negatives, positives = _scores(negatives=negatives), _scores(positives=positives)
    if min(len(negatives), len(positives)) < 2:
        raise InvalidInput("Expected at least 2 runs on each data set: a third chooses the threshold.")
    m, n = max(1, len(negatives) // 3), max(1, len(positives) // 3)
    threshold = best_threshold(negatives[:m], positives[:n], delta=delta, confidence=confidence)
    return threshold, Counts.of(negatives[m:], positives[n:], threshold)


# -- pieces


def smallest(holds: Callable[[float], bool], *, step: float = 1.0) -> float:
    """The first epsilon >= 0 at which ``holds`` turns true, walking up in steps and then halving, or LARGEST.

    Rounded down by at most PRECISION, so a lower bound stays one.
    """
    if holds(0.0):
        return 0.0
    low, high = 0.0, step
    while not holds(high):
        low, high = high, high + step
        if high > LARGEST:
            return LARGEST
    while high - low > PRECISION:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low


def _bound(
    method: str, epsilon: Callable[[Counts], float], counts: Counts, delta: float, confidence: float
) -> Bound:
    probability(delta=delta)
    significance(confidence)
    return Bound(
        method=method,
        epsilon=epsilon(counts),
        delta=delta,
        confidence=confidence,
        largest=epsilon(counts.without_errors()),
    )


def significance(confidence: float) -> float:
    """alpha = 1 - confidence, for a confidence of one half or more."""
    if not 0.5 <= probability(confidence=confidence) < 1.0:
        raise InvalidInput(f"Expected 0.5 <= confidence < 1, got confidence={confidence!r}.")
    return 1.0 - confidence


def _upper_rates(counts: Counts, confidence: float) -> tuple[float, float]:
    """Upper limits of both error rates, valid together with the given confidence."""
    half = 0.5 * significance(confidence)
    return (
        float(_upper(np.array(float(counts.false_positives)), counts.negatives, half)),
        float(_upper(np.array(float(counts.false_negatives)), counts.positives, half)),
    )


def _upper(errors: Array, runs: int, level: float) -> Array:
    """The exact upper limit of a rate with that many errors in ``runs``; it fails with probability level."""
    inside = np.minimum(errors, runs - 1)
    return np.where(errors >= runs, 1.0, special.betaincinv(inside + 1.0, runs - inside, 1.0 - level))


def _epsilon(a: Array, b: Array, delta: float) -> Array:
    """The larger direction of (*), at least 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(1.0 - delta - b, 0.0)) - np.log(a)
        other = np.log(np.maximum(1.0 - delta - a, 0.0)) - np.log(b)
    return np.asarray(np.maximum(0.0, np.fmax(one, other)))


def _jeffreys(errors: int, runs: int, ranks: Array) -> Array:
    return np.asarray(special.betaincinv(errors + 0.5, runs - errors + 0.5, ranks))


def _scores(**named: Array) -> Array:
    ((name, values),) = named.items()
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or not scores.size:
        raise InvalidInput(f"Expected {name} to be a list of scores, one a run, got shape {scores.shape}.")
    if np.isnan(scores).any():
        raise InvalidInput(f"Expected {name} to be numbers, got NaN. Score a failed run with -inf or inf.")
    return scores
