# SPDX-License-Identifier: Apache-2.0
"""A draw from the Gibbs posterior of a convex Lipschitz loss [Minami, Arai, Sato & Nakagawa 2016].

The density is proportional to exp(-weight * sum of logistic losses) under a normal prior N(0, s^2).

Guarantee:
    a-GDP, hence (epsilon, delta)-DP on the exact curve of the Gaussian mechanism, with

        a = c m w L s,    c = 2 under replace-one and 1 under add/remove,

    L = X = ``feature_norm`` the Lipschitz constant of the loss, m rows a person, w the weight. For k
    draws: sqrt(k) a. Parameters are unbounded; features are not (longer vectors are shrunk).

*Proof* (also Gopi, Lee & Liu 2022). Let P, Q be the posteriors of neighbours. Q is 1/s^2-strongly
log-concave, since the losses are convex, and f = log dP/dQ is c m w L-Lipschitz. By Caffarelli's contraction
theorem Q is the image of N(0, I) under an s-Lipschitz map, so f is distributed as g(Z), Z standard normal
and g a-Lipschitz. By the Gaussian isoperimetric inequality the increasing rearrangement of g on the line is
a-Lipschitz too, so take g increasing on the line. Compare it with l(z) = a z - a^2/2, the log ratio of
N(a, 1) to N(0, 1). Both have E exp = 1, and g - l is non-increasing: they cross once, l the steeper. So
exp g(Z) is smaller than exp l(Z) in the convex order (the cut criterion), and as (. - e^epsilon)_+ is convex,

    delta(epsilon) = E_Q (dP/dQ - e^epsilon)_+ <= Phi(-epsilon/a + a/2) - e^epsilon Phi(-epsilon/a - a/2).  []

Equality holds for a linear loss. For the logistic one and p >= 2, c = 2 cannot be lowered either: a crowd
along one axis holds the posterior far out, where two records with opposite features along another axis, both
tilted a little against the crowd, are badly predicted; their losses are linear there, with slopes of length
almost X that are almost opposite (a test shows 88% of a, with a million records). With one parameter two
slopes differ by at most 1.06 X, and nearly half of a is not used. k draws are one draw of a product with the
same strong log-concavity and a log ratio sqrt(k) times as steep.

``formula="published"`` is w = epsilon/(2 L s sqrt(1 + 2 log(1/delta))), whose proof needs epsilon <= 1. It is
offered wherever the exact curve confirms it, and refused elsewhere: at delta = 1e-5 it holds at
epsilon = 7, but gives 1.7e-5 at 10 and 1.2e-3 at 20. The exact calibration is also up to half as large again.

The draw comes from an exact sampler, whose evidence the release states. With ``draw="langevin"`` it is the
last state of a Langevin chain, within t = (delta/2)/((1 + e^epsilon) k) of the posterior in total variation;
an exact draw would meet the other half of delta, and the sum is the delta asked for [the price:
``onedraw.samplers.nuts``; the distance: ``_langevin``]. More steps than a million are refused, and the proof
asks for fewer only with a handful of records and a delta too large to be of use.

Edge cases:
    delta = 0 is refused: the log ratio of neighbours is unbounded. n = 0 draws from the prior. A sampler on
    a grid is refused: the proof needs a log-concave law on all of space, and on three points per parameter a
    stated delta of 1e-5 was 0.35.

>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a",)))
>>> mechanism = LipschitzGibbs(feature_norm=1.0, prior_scale=2.0)
>>> mechanism = mechanism.calibrate(Request(epsilon=1.0, delta=1e-5), shape)
>>> round(mechanism.weight, 4), round(mechanism.gaussian, 4)            # w = a/(2 L s)
(0.067, 0.2681)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from onedraw._validate import one_of
from onedraw.advice import Set
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.families import Bernoulli
from onedraw.losses import Gibbs
from onedraw.mechanisms._langevin import LangevinSampler
from onedraw.mechanisms._posterior_draw import BINARY, BoundedPosterior
from onedraw.mechanisms.base import Requirements, public_count_only
from onedraw.privacy.gaussian import gaussian_delta, gaussian_parameter
from onedraw.privacy.request import Request
from onedraw.records import Records
from onedraw.samplers.base import PosteriorFacts, Sampler

FORMULAS = ("exact", "published")
DRAWS = ("exact", "langevin")
WHY_COUNT = "the step size of the chain follows from the number of records."


@dataclass(frozen=True, kw_only=True)
class LipschitzGibbs(BoundedPosterior):
    """Draws from the weighted logistic posterior under a normal prior, for bounded features."""

    name: ClassVar[str] = "lipschitz_gibbs"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        needs={
            "feature_norm": "the logistic loss is as steep as the feature vector is long, and its steepness "
            "is what a record can do to the posterior.",
        },
        delta="needed",
        draws="several",
        exact_draw=True,
        prefer="features have a tight bound and δ > 0 is acceptable",
    )

    formula: Literal["exact", "published"] = "exact"
    draw: Literal["exact", "langevin"] = "exact"

    def _check_options(self) -> None:
        super()._check_options()
        one_of(FORMULAS, formula=self.formula)
        one_of(DRAWS, draw=self.draw)
        if not self.drawn_by.continuous:
            raise InvalidInput(
                f"LipschitzGibbs needs draws of a density on all of space, got {type(self.sampler).__name__}"
                ", which draws from a finite grid: its guarantee is proved for log-concave laws only. Leave "
                "the sampler out."
            )

    def _check_model(self, model: Any) -> None:
        """The chain's length depends on the number of records, so it is checked where that is known."""
        if self.draw == "exact":
            super()._check_model(model)

    def _solve(self, request: Request) -> LipschitzGibbs:
        if self.draw == "langevin":
            public_count_only(request, "LipschitzGibbs with draw='langevin'", WHY_COUNT)
        assert not isinstance(request.draws, str)
        placed = replace(self, promise=request.guarantee(draws=request.draws))
        if self.formula == "published":
            epsilon, delta = request.epsilon, placed._delta_of_exact_draw
            true = gaussian_delta(published_parameter(epsilon, delta), epsilon)
            if true > delta:
                raise CalibrationError(
                    f"The published formula does not hold at epsilon={epsilon:g}, delta={delta:g}: its proof "
                    f"needs epsilon <= 1, and here it gives delta={true:.3g}.",
                    advice=Set("formula", "exact", of="LipschitzGibbs"),
                    requested=epsilon,
                )
        if self.shape is not None and self.shape.num_records is not None:
            placed._check_chain(self.shape.num_records)
        return placed

    def _check_chain(self, num_records: int) -> None:
        """Refuse a chain of more steps than a computer runs; the number of records is public here."""
        if self.draw == "langevin":
            facts = PosteriorFacts(
                loss=self.loss,
                prior=self.prior,
                dim=self.model.dim,
                weight=self.weight,
                num_records=num_records,
            )
            self.drawn_by.check(facts)

    def check_plan(self) -> None:
        """A chain has to be planned with the number of records, which is public here and sets its length."""
        if self.draw == "langevin" and (self.shape is None or self.shape.num_records is None):
            raise InvalidInput(
                "LipschitzGibbs with draw='langevin' needs the number of records before it is charged for: "
                "plan with the table, or with Header(features=..., num_records=...)."
            )

    def check_records(self, records: Records) -> None:
        """A chain that was planned without the number of records is refused here."""
        super().check_records(records)
        self._check_chain(len(records))

    @property
    def loss(self) -> Gibbs:
        """The logistic loss, unbounded but Lipschitz."""
        return Gibbs(Bernoulli())

    @property
    def gaussian(self) -> float:
        """a: the release is no easier to tell apart than N(0, 1) and N(a, 1)."""
        exact = self.formula == "exact"
        solve = gaussian_parameter if exact else published_parameter
        return solve(self.guarantee.epsilon, self._delta_of_exact_draw)

    @property
    def _delta_of_exact_draw(self) -> float:
        """What is left of delta when the error of the chain is paid for."""
        return self.guarantee.delta if self.draw == "exact" else 0.5 * self.guarantee.delta

    @property
    def sampler_error(self) -> float:
        """The total variation distance of each draw from the posterior that delta pays for."""
        guarantee = self.guarantee
        if self.draw == "exact":
            return 0.0
        price = (1.0 + math.exp(min(guarantee.epsilon, 700.0))) * guarantee.draws
        return 0.5 * guarantee.delta / price * (1.0 - 1e-6)  # for the rounding of the chain

    @property
    def drawn_by(self) -> Sampler:
        """An exact sampler, or a Langevin chain."""
        if self.draw == "exact" or self.promise is None:
            return super().drawn_by
        return LangevinSampler(error=self.sampler_error, feature_norm=self._needed("feature_norm"))

    @property
    def weight(self) -> float:
        """The weight of the loss, from a = sqrt(k) c m w L s."""
        guarantee = self.guarantee
        lipschitz = self._needed("feature_norm") * guarantee.rows_per_person
        lipschitz *= 2.0 if guarantee.neighbours == "replace_one" else 1.0
        return self.gaussian / (lipschitz * self.prior.scale * math.sqrt(guarantee.draws))

    def _numbers(self) -> Mapping[str, str | float | None]:
        return {"weight": self.weight}


def published_parameter(epsilon: float, delta: float) -> float:
    """The a of the published weight, epsilon/sqrt(1 + 2 log(1/delta)).

    >>> gaussian_delta(published_parameter(10.0, 1e-5), 10.0) > 1.6e-5
    True
    """
    return epsilon / math.sqrt(1.0 - 2.0 * math.log(delta))
