# SPDX-License-Identifier: Apache-2.0
"""From epsilon to the two numbers that define the posterior, beta and the weight w; and back.

Guarantee:
    One exact draw from the posterior with density proportional to prior * exp(-w * sum of losses) has
    bounded range e0, and is e0-differentially private, where a person holds at most ``rows_per_person``
    records and

    * replace-one neighbours: e0 = rows_per_person * 2 w S, with S the loss's observation sensitivity;
    * add/remove neighbours:  e0 = rows_per_person * w R, with R the loss's parameter range.

    k draws satisfy (epsilon, delta)-differential privacy when e0 <= ``range_per_draw(epsilon, delta=delta,
    draws=k)``.

*Proof.* Let D' differ from D in one record, z' for z, and let h(theta) = loss(z', theta) - loss(z, theta).
The posteriors P and P' satisfy

    log P(theta)/P'(theta) = w h(theta) - log E_P'[exp(w h)].

The second term does not depend on theta and lies between w inf h and w sup h. So the log ratio fills an
interval of width at most w (sup h - inf h), which contains 0. At every theta |h| <= S: the width is at most
2 w S. For a removed record h = -loss(z, .), whose values span at most R: the width is at most w R. A person
with m rows adds up m such functions. (If the other person has fewer rows, the unmatched ones cost w R each
instead of 2 w S: no more as long as R <= 2 S, and R = S for all families of this package.) []

*The 2 is not slack.* Two parameter values under which a Bernoulli response is certain, to be 1 and to be 0;
prior mass 1e-6 on the first; one record. Changing y from 1 to 0 changes the probability of the first value
by a factor exp(0.999998 * 2 w S). Removing the record changes it by exp(0.999998 * w R).

*Choosing beta and the weight.* e0 fixes w once beta is known. ``beta="auto"`` takes the most accurate beta
under a public reference (``onedraw.privacy.reference``). A given weight, or ``beta="paper"`` (weight 1), is
solved for beta. With M the bound of the density, S = M^b/b, b = beta - 1: for M <= 1 that falls from
infinity to 0, so there is one solution. For M > 1 it has a minimum e log M at b = 1/log M; below that there
is none, and above it there are two. The smaller is taken: it is the nearer to the ordinary posterior, and
the one that tends to it as epsilon grows.

Edge cases:
    A loss without a finite width is refused. A beta and a weight that need more than epsilon are refused;
    if they need less, the calibration states the smaller epsilon. Rounding is always towards privacy.
    Nothing here takes data.

>>> calibrate("bernoulli", epsilon=1.0).weight
0.5
>>> print(calibrate("gaussian", epsilon=1.0, noise_floor=1.0, beta="paper"))
family                   gaussian
beta                     1.886003
weight                   1
epsilon, delta           1, 0
neighbours               replace_one
rows per person          1
draws                    1 (pure composition, epsilon 1 each)
observation sensitivity  0.5
parameter range          0.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

from onedraw._validate import one_of, positive, probability, whole
from onedraw.advice import LeaveOut, Set
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.families import FAMILIES as FAMILIES
from onedraw.families import Family, build_family
from onedraw.losses import BetaDivergence, Loss
from onedraw.privacy._solve import LARGEST_B, SMALLEST_B, Price, at_most, solve_beta, total_epsilon
from onedraw.privacy.composition import range_per_draw
from onedraw.privacy.guarantee import NEIGHBOURS, Guarantee
from onedraw.privacy.reference import best_beta
from onedraw.types import Neighbours

MOST_RECORDS = 1e9
ROUNDING = 2.0**-53
LARGEST_ROUNDING_SHARE = 1e-2
"""A sum of this many losses may lose at most this share of epsilon to rounding; a public rule, so no n."""

_CHOOSE = Set("epsilon", 1.0, lead="choose the privacy loss epsilon, for example")


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A beta and a weight, with the guarantee that exact draws from their posterior carry.

    ``epsilon`` and ``delta`` are those of all ``draws`` together; ``epsilon_per_draw`` is the bounded range
    of each. ``beta`` is 1 for losses that have none.
    """

    family: str
    beta: float
    weight: float
    observation_sensitivity: float
    parameter_range: float
    epsilon: float
    delta: float
    neighbours: Neighbours
    rows_per_person: int
    draws: int
    epsilon_per_draw: float
    composition: Literal["pure", "bounded_range"]

    @property
    def guarantee(self) -> Guarantee:
        """What may be said about the release of all draws."""
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            rows_per_person=self.rows_per_person,
            draws=self.draws,
            bounded_range=self.epsilon_per_draw,
        )

    def __str__(self) -> str:
        how = self.composition.replace("_", "-")
        rows = {
            "family": self.family,
            "beta": f"{self.beta:.7g}",
            "weight": f"{self.weight:.7g}",
            "epsilon, delta": f"{self.epsilon:.7g}, {self.delta:g}",
            "neighbours": self.neighbours,
            "rows per person": f"{self.rows_per_person}",
            "draws": f"{self.draws} ({how} composition, epsilon {self.epsilon_per_draw:.7g} each)",
            "observation sensitivity": f"{self.observation_sensitivity:.7g}",
            "parameter range": f"{self.parameter_range:.7g}",
        }
        return "\n".join(f"{name:<25}{value}" for name, value in rows.items())


def calibrate(
    family: str | Family,
    *,
    epsilon: float,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    draws: int = 1,
    beta: float | str = "auto",
    weight: float | None = None,
    noise_floor: float | None = None,
    noise_scale: float | None = None,
    num_classes: int | None = None,
    dispersion: float | None = None,
    df: float | None = None,
) -> Calibration:
    """The beta and weight at which exact draws of a beta-divergence posterior are (epsilon, delta)-private.

    Args:
        family: a name (see ``FAMILIES``) or a ``Family``.
        epsilon: privacy loss of all draws together.
        delta: probability with which that loss may be exceeded; it buys accuracy when ``draws`` is large.
        neighbours: "replace_one" or "add_remove".
        rows_per_person: how many records one person may hold.
        draws: independent draws that will be released.
        beta: "auto" (most accurate under a public reference), "paper" (weight 1), or a number > 1.
        weight: the weight of the loss; by default it follows from beta.
        noise_floor: smallest scale of a location-scale family, 0.1 by default.
        noise_scale: public guess of that scale, used only to choose beta; four floors by default.
        num_classes: of the categorical family, 3 by default.
        dispersion: of the negative binomial family, 1 by default.
        df: degrees of freedom of Student's t, 4 by default.

    >>> round(calibrate("poisson", epsilon=2.0, beta=2.0, neighbours="add_remove").weight, 2)
    2.76
    """
    options = {"noise_floor": noise_floor, "num_classes": num_classes, "dispersion": dispersion, "df": df}
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(family, Family):
        family = build_family(family, **given)
    elif given:
        raise InvalidInput(f"{next(iter(given))} is part of the {family.name} family given; set it there.")
    return calibrate_loss(
        BetaDivergence(family),
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
        draws=draws,
        beta=beta,
        weight=weight,
        noise_scale=noise_scale,
    )


def calibrate_loss(
    loss: Loss,
    *,
    epsilon: float,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    draws: int = 1,
    beta: float | str = "auto",
    weight: float | None = None,
    noise_scale: float | None = None,
) -> Calibration:
    """``calibrate`` for any loss that certifies its own range.

    >>> from onedraw.families import Bernoulli
    >>> from onedraw.losses import Gibbs
    >>> round(calibrate_loss(Gibbs(Bernoulli(), predictor_bound=2.0), epsilon=1.0).weight, 6)
    0.25
    """
    epsilon = positive(epsilon=epsilon, remedy=_CHOOSE)
    delta = probability(delta=delta, remedy="0 gives pure differential privacy.")
    one_of(NEIGHBOURS, neighbours=neighbours)
    rows_per_person, draws = whole(rows_per_person=rows_per_person), whole(draws=draws)
    if weight is not None:
        weight = positive(weight=weight, remedy=LeaveOut("weight"))
    beta = _check_beta(beta, weight)
    noise_scale = _check_noise_scale(loss.family, noise_scale)

    price = Price(loss=loss, neighbours=neighbours, rows=rows_per_person)
    target = range_per_draw(epsilon, delta=delta, draws=draws)
    if _is_beta_free(loss):
        if beta != "auto":
            raise InvalidInput(f"This loss has no beta, got beta={beta!r}.", advice=LeaveOut("beta"))
        chosen = 1.0
    elif beta == "paper" or (beta == "auto" and weight is not None):
        weight = 1.0 if weight is None else weight
        chosen = solve_beta(price, weight, target, epsilon, delta, draws)
    elif beta == "auto":
        # What counts is the accuracy of the draws' mean, whose weight is the sum of theirs.
        budget = draws * target / price.multiple
        chosen = best_beta(loss, weight_times_width=budget, width=price.width, noise_scale=noise_scale)
    else:
        chosen = float(beta)
    unit = price(chosen)  # the range of one draw at weight 1
    if math.isinf(unit):
        raise CalibrationError(_no_bound(loss, chosen), requested=epsilon)
    if weight is None:
        weight, reached = at_most(target / unit, unit, target), target
    else:
        reached = weight * unit
    total = total_epsilon(reached, delta, draws)
    if reached > target:
        raise CalibrationError(
            f"beta={chosen:g} with weight={weight:g} needs epsilon={total:.6g}, "
            f"more than the {epsilon:g} requested.",
            advice=[Set("weight", float(f"{at_most(target / unit, unit, target):.6g}")), LeaveOut("weight")],
            requested=epsilon,
            reachable=total,
        )
    bounds = loss.loss_bounds(chosen)
    largest = max(abs(bounds.lower), abs(bounds.upper))
    if weight * largest * MOST_RECORDS * ROUNDING > LARGEST_ROUNDING_SHARE * reached:
        raise CalibrationError(
            f"At beta={chosen:g} the loss is so flat that weight={weight:.3g} would amplify rounding errors "
            "beyond what epsilon allows.",
            advice=[
                Set("beta", "auto"),
                Set("noise_floor", note=", smaller than it is"),
                Set("target_bounds", note=" that bring the response to order one"),
            ],
            requested=epsilon,
        )
    return Calibration(
        family=loss.family.name,
        beta=chosen,
        weight=weight,
        observation_sensitivity=bounds.observation_sensitivity,
        parameter_range=bounds.parameter_range,
        epsilon=epsilon if reached > target * (1.0 - 1e-9) else min(epsilon, total),
        delta=delta,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
        draws=draws,
        epsilon_per_draw=reached,
        composition="pure" if delta == 0.0 else "bounded_range",
    )


def _is_beta_free(loss: Loss) -> bool:
    try:
        return loss.loss_bounds(1.5) == loss.loss_bounds(2.5)
    except OverflowError:
        return False


def _no_bound(loss: Loss, beta: float) -> str:
    if _is_beta_free(loss):
        return (
            f"The loss {type(loss).__name__} of the {loss.family.name} family is unbounded, "
            "so no weight makes a draw private. "
            "Give it public bounds (predictor_bound), or use BetaDivergence, which needs none."
        )
    return f"The range of the loss overflows at beta={beta:g}. A smaller beta or a larger noise_floor helps."


def _check_beta(beta: float | str, weight: float | None) -> float | str:
    if isinstance(beta, str):
        one_of(("auto", "paper"), beta=beta, remedy="Or give a number > 1.")
        if beta == "paper" and weight is not None:
            raise InvalidInput(
                f"beta='paper' means weight=1, got weight={weight:g}.",
                advice=Set("beta", "auto", note=" to solve for beta at that weight"),
            )
        return beta
    value: object = beta
    if isinstance(value, bool) or not isinstance(value, Real) or not SMALLEST_B <= beta - 1.0 <= LARGEST_B:
        raise InvalidInput(
            "Expected beta to be 'auto', 'paper' or a number above 1 and at most "
            f"{1 + LARGEST_B:g}, got beta={beta!r}. "
            "At 1 the beta-divergence is the unbounded negative log density."
        )
    return float(beta)


def _check_noise_scale(family: Family, noise_scale: float | None) -> float | None:
    if noise_scale is None:
        return None
    if family.scale_floor is None:
        raise InvalidInput(
            f"noise_scale does not apply to the {family.name} family, which has no scale.",
            advice=LeaveOut("noise_scale"),
        )
    noise_scale = positive(noise_scale=noise_scale)
    if noise_scale < family.scale_floor:
        raise InvalidInput(
            f"Expected noise_scale >= noise_floor={family.scale_floor:g}, got noise_scale={noise_scale:g}. "
            "The scale is never below its floor."
        )
    return noise_scale
