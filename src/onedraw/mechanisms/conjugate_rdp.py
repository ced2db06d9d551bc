# SPDX-License-Identifier: Apache-2.0
"""Posterior draws of conjugate models, priced by Renyi divergence [Geumlek, Song & Chaudhuri 2017].

Two models, both described as a regression on an intercept alone: ``BetaBernoulliDraw`` (a probability,
released as its logit) and ``GaussianMeanDraw`` (a mean with known residual scale). The data enter with a
weight w <= 1, the largest that meets the guarantee; w = 1 is the ordinary posterior.

Guarantee:
    (epsilon, delta)-DP with epsilon = min over orders k of D_k + log(1 - 1/k) - log(delta k)/(k - 1), where
    D_k bounds the Renyi divergence of order k between the posteriors of neighbours.

*Beta-Bernoulli, prior Beta(a, b), m rows a person.* With f = log Gamma and a shift t >= 0 let
    U_t(x) = f(x + k t) - k f(x + t) + (k - 1) f(x),    V_t(x) = f(x - (k-1) t) - k f(x) + (k - 1) f(x + t),
infinite unless x > (k - 1) t. f is convex, so neither is negative and both increase with t; f' is concave and
f'' convex, so both are decreasing and convex in x. Without the two people the counts of ones and zeros give
Beta(x, y); with the first they give Beta(x + p, y + q), with the second Beta(x + p', y + q'), all four being
multiples of w with p + q, p' + q' <= m w. Then (k - 1) D_k is

    S(x, p, p') + S(y, q, q') - S(x + y, p + q, p' + q'),   S(x, p, p') = U_{p-p'}(x + p') or V_{p'-p}(x + p),

the one that has a shift >= 0. The last term, of the normalisers, is subtracted, and x >= a, y >= b. Hence
(k - 1) D_k is at most the largest of

* U_r(a) + U_s(b) and V_r(a) + V_s(b) over r + s = m w, where both counts move the same way: all of
  add/remove, and replace-one with several rows, where the other person may have fewer;
* U_t(a) + V_t(b) and U_t(b) + V_t(a) with t = m w, where they move in opposite ways: replace-one.

With one row the normalisers cancel under replace-one. If the number of records n is declared (m = 1), the
worst data sets are then the extreme ones (a convex function of the count), which have a + w(n - 1) in place
of a or b + w(n - 1) in place of b.  []

*Gaussian mean, |y| <= Y, prior N(0, s^2), residual scale r.* Neighbours' posteriors share their precision
P = 1/s^2 + w n/r^2 and their means differ by at most 2 Y w/(r^2 P): D_k = k g^2/2 with
g = 2 Y w/(r^2 sqrt(P)), and in fact g-GDP, whose exact curve is used. Replace-one with one row a person only:
the precision shows n. []

Edge cases:
    delta = 0 is refused: no weight > 0 bounds the log ratio. The golden value: Beta(4, 3) against Beta(3, 4).

>>> round(beta_renyi(2.0, (4.0, 3.0), (3.0, 4.0)), 6)                                  # log 2
0.693147
>>> BetaBernoulliDraw(prior=(5.0, 5.0)).calibrate(epsilon=1.0, delta=1e-5).weight < 1
True
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from onedraw._validate import positive, whole
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.mechanisms._base import BoundedMechanism, Requirements, public_count_only
from onedraw.mechanisms._beta_bernoulli import BetaBernoulli, counts
from onedraw.mechanisms._bounds import response_note
from onedraw.mechanisms.records import Records
from onedraw.model import RegressionModel
from onedraw.privacy.gaussian import gaussian_delta
from onedraw.privacy.guarantee import Guarantee
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence
from onedraw.types import Array

EVIDENCE = Evidence(
    level="accounted",
    statement="The posterior is a standard law that is drawn from directly; nothing rests on a sampler.",
)
ORDERS = 1.0 + np.geomspace(1e-3, 1e5, 250)
MOST_SPLITS = 64


def beta_renyi(order: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    """The Renyi divergence of Beta(one) from Beta(other); infinite where a mixed parameter is not > 0."""
    mixed = [order * p + (1.0 - order) * q for p, q in zip(one, other, strict=True)]
    if min(mixed) <= 0.0:
        return math.inf
    terms = special.betaln(*mixed) - order * special.betaln(*one) - (1.0 - order) * special.betaln(*other)
    return float(terms / (order - 1.0))


def _rise(x: float, shift: float, order: Array) -> Array:
    """U(x) of the module docstring, rounded up."""
    return _bracket(x, shift, -order, -1.0, order, start=x)


def _fall(x: float, shift: float, order: Array) -> Array:
    """V(x) of the module docstring, rounded up; infinite where x <= (order - 1) shift."""
    return _bracket(x, shift, order - 1.0, 0.0, order, start=x - (order - 1.0) * shift)


def _bracket(x: float, shift: float, far: Array, near: float, order: Array, start: Array | float) -> Array:
    """f(x - far shift) - order f(x - near shift) + (order - 1) f(the remaining point).

    It is order (order - 1)/2 shift^2 times an average of f'' over an interval that starts at ``start``, at
    most f''(start): used where the sum has lost its digits.
    """
    remaining = x if near else x + shift
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = [
            special.gammaln(x - far * shift),
            -order * special.gammaln(x - near * shift),
            (order - 1.0) * special.gammaln(remaining),
        ]
        rounding = 1e-15 * (1.0 + sum(np.abs(term) for term in terms))
        smooth = 0.5 * order * (order - 1.0) * shift**2 * special.zeta(2.0, np.maximum(start, 1e-300))
        value = np.minimum(sum(terms) + 8.0 * rounding, smooth)
    return np.where(np.asarray(start) > 0.0, value, np.inf)


def beta_bernoulli_rdp(
    order: Array,
    *,
    prior: tuple[float, float],
    weight: float,
    guarantee: Guarantee,
    num_records: int | None = None,
) -> Array:
    """A bound on the Renyi divergence between the posteriors of neighbours, for an array of orders."""
    rows = guarantee.rows_per_person
    shift = rows * weight
    a, b = prior
    rise, fall = ({x: f(x, shift, order) for x in prior} for f in (_rise, _fall))
    opposite = np.maximum(rise[a] + fall[b], rise[b] + fall[a])
    if guarantee.neighbours == "add_remove":
        worst = _same_way(prior, rows, weight, order)
    elif num_records is None:
        worst = opposite if rows == 1 else np.maximum(opposite, _same_way(prior, rows, weight, order))
    else:
        others = weight * max(0, num_records - 1)
        worst = np.maximum.reduce(
            [
                rise[a] + _fall(b + others, shift, order),
                _rise(a + others, shift, order) + fall[b],
                rise[b] + _fall(a + others, shift, order),
                _rise(b + others, shift, order) + fall[a],
            ]
        )
    return np.asarray(worst / (order - 1.0))


def _same_way(prior: tuple[float, float], rows: int, weight: float, order: Array) -> Array:
    """The largest U_r(a) + U_s(b) or V_r(a) + V_s(b) over r + s = rows * weight, in multiples of the weight.

    Of very many rows, blocks of equal length: U and V increase with the shift, so the ends of a block bound
    what lies in it.
    """
    ends = np.unique(np.linspace(0, rows, min(rows, MOST_SPLITS) + 1).round().astype(int))
    blocks = [(int(low), int(high)) for low, high in zip(ends[:-1] + 1, ends[1:], strict=True)]
    splits = [(0, rows), *((high, rows - low) for low, high in blocks)]
    a, b = prior
    sums = [f(a, r * weight, order) + f(b, s * weight, order) for f in (_rise, _fall) for r, s in splits]
    return np.asarray(np.maximum.reduce(sums))


def rdp_to_epsilon(divergence: Array, order: Array, delta: float) -> float:
    """The smallest epsilon that the orders give [Canonne, Kamath & Steinke 2020]; each is valid by itself."""
    bound = divergence + np.log1p(-1.0 / order) - (math.log(delta) + np.log(order)) / (order - 1.0)
    return max(0.0, float(bound.min()))


def largest_weight(meets: Callable[[float], bool], requested: float) -> float:
    """The largest weight of at most 1 found to meet the guarantee."""
    if meets(1.0):
        return 1.0
    low, high = 1e-9, 1.0
    if not meets(low):
        raise CalibrationError("No weight meets this guarantee: use a larger epsilon.", requested=requested)
    while high - low > 1e-8 * high:  # `low` always satisfies the guarantee
        middle = 0.5 * (low + high)
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


@functools.lru_cache(maxsize=64)
def _beta_weight(prior: tuple[float, float], guarantee: Guarantee, num_records: int | None) -> float:
    def meets(weight: float) -> bool:
        rdp = beta_bernoulli_rdp(
            ORDERS, prior=prior, weight=weight, guarantee=guarantee, num_records=num_records
        )
        return rdp_to_epsilon(rdp, ORDERS, guarantee.delta) <= guarantee.epsilon

    return largest_weight(meets, guarantee.epsilon)


@dataclass(frozen=True, kw_only=True)
class _ConjugateDraw(BoundedMechanism):
    """What the two models share: a weight, and the number of records if it is declared."""

    num_records: int | None = None
    """Public under replace-one with one row a person; declaring it allows a larger weight."""

    def _check(self, guarantee: Guarantee) -> Guarantee:
        if self.num_records is not None:
            whole(num_records=self.num_records)
            why = "a declared num_records must be public."
            public_count_only(guarantee, f"{type(self).__name__} with num_records", why)
        super()._check(guarantee)
        self._solve(guarantee)
        return guarantee

    @property
    def weight(self) -> float:
        """The weight of the data, at most 1."""
        return self._solve(self.guarantee)

    @abstractmethod
    def _solve(self, guarantee: Guarantee) -> float:
        """The largest weight at which one draw has this guarantee."""

    def _check_count(self, data: Records) -> None:
        if self.num_records is not None and len(data.response) != self.num_records:
            raise InvalidInput(
                f"Expected the num_records={self.num_records} that the mechanism was calibrated for, got "
                f"{len(data.response)}."
            )


@dataclass(frozen=True, kw_only=True)
class BetaBernoulliDraw(_ConjugateDraw, BetaBernoulli):
    """One draw of a probability from its weighted Beta posterior, released as a logit."""

    name: ClassVar[str] = "beta_bernoulli_draw"
    requirements: ClassVar[Requirements] = Requirements(
        kinds=("logistic",),
        delta="needed",
        intercept_only=True,
        prefer="one draw of a probability",
    )

    def _solve(self, guarantee: Guarantee) -> float:
        return _beta_weight(self.prior, guarantee, self.num_records)

    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        self._check_count(data)
        ones, zeros = counts(data)
        return self._logits(rng, self.weight * ones, self.weight * zeros, 1), EVIDENCE

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {"weight": self.weight, **self._prior_counts}


@dataclass(frozen=True, kw_only=True)
class GaussianMeanDraw(_ConjugateDraw):
    """One draw of a mean from its weighted normal posterior, for responses clipped to a bound."""

    name: ClassVar[str] = "gaussian_mean_draw"
    requirements: ClassVar[Requirements] = Requirements(
        kinds=("linear",),
        needs={"response_bound": "one response moves the posterior mean in proportion to its size."},
        delta="needed",
        count="the posterior's spread shows how many records there are.",
        intercept_only=True,
        prefer="one draw of a mean",
    )

    response_bound: float | None = None
    prior_scale: float = 3.0
    noise_scale: float = 1.0

    def _bound(self) -> float:
        return self._needed("response_bound")

    def _solve(self, guarantee: Guarantee) -> float:
        positive(prior_scale=self.prior_scale)
        positive(noise_scale=self.noise_scale)
        bound, count = self._bound(), self.num_records or 1

        def meets(weight: float) -> bool:
            precision = self.precision(weight, count)
            shift = 2.0 * bound * weight / self.noise_scale**2 / math.sqrt(precision)
            return gaussian_delta(shift, guarantee.epsilon) <= guarantee.delta

        return largest_weight(meets, guarantee.epsilon)

    def precision(self, weight: float, count: int) -> float:
        """Of the posterior of ``count`` records."""
        return 1.0 / self.prior_scale**2 + weight * count / self.noise_scale**2

    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        self._check_count(data)
        bound, weight = self._bound(), self.weight
        precision = self.precision(weight, len(data.response))
        total = float(np.clip(data.response, -bound, bound).sum())
        mean = weight * total / self.noise_scale**2 / precision
        return np.array([[mean + rng.standard_normal() / math.sqrt(precision)]]), EVIDENCE

    @property
    def grid(self) -> Grid:
        """2^-40 of the prior scale."""
        return Grid(coefficient=coefficient_step(self.prior_scale))

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {
            "weight": self.weight,
            "response_bound": self._bound(),
            "prior_scale": self.prior_scale,
            "noise_scale": self.noise_scale,
        }

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        return (response_note(self._bound()),)
