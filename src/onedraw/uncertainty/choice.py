# SPDX-License-Identifier: Apache-2.0
"""How many draws to release: a choice from public facts, explained in words.

More draws show their own spread better (Student's t falls towards the normal quantile), and for delta > 0
the mean of k draws has less noise than one draw, because k draws cost about sqrt(k). But each draw has less
weight, so it is wider, more skewed and closer to the prior. Under the public reference of ``information``
the variance of a standardised coefficient is predicted as

    V_k = (kappa + 1/(k w_k))/(n h) + 1/(n w_k h prior_scale)^2 + (drift/2)^2,

and the choice is the smallest k whose t_(k-1) sqrt(V_k) is within ``TOLERANCE`` of the best, among those
for which the linear predictor varies little enough (``LARGEST_VARIANCE``, with a margin because real data
are less informative than the reference). If there is none, one draw is released: it is the most accurate
estimate, without intervals.

Under add/remove neighbours, or where a person may hold several rows, n is private, and a choice that depended
on it would tell. So "auto" releases one draw there. A holder who has a public guess of n can call
``choose_draws(..., num_records=guess)`` and pass the answer.

Guarantee:
    A function of its arguments, none of which is private: the choice costs no privacy.

>>> from onedraw.families import Bernoulli
>>> choice = choose_draws(Bernoulli(), epsilon=1.0, num_features=2, num_records=10_000)
>>> choice.draws, choice.trusted
(8, True)
>>> choose_draws(Bernoulli(), epsilon=0.1, num_features=2, num_records=1_000).draws
1
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from onedraw._validate import positive, whole
from onedraw.errors import CalibrationError
from onedraw.families import Family
from onedraw.losses import BetaDivergence
from onedraw.privacy.calibration import calibrate_loss
from onedraw.types import Neighbours
from onedraw.uncertainty.from_draws import DRIFT_DOUBT
from onedraw.uncertainty.information import LARGEST_VARIANCE, reference_information

CANDIDATES = (4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""More than 32 pay only for delta > 0 or very many records. 512 draws of 11 parameters fill 0.2 MB."""
TOLERANCE = 1.03
MARGIN = 0.6
"""Auto allows this share of ``LARGEST_VARIANCE`` under the reference."""
RARE = (
    " How rare an outcome is nobody has said: with one in 20 they tell so little that intervals are mostly "
    "declined after the fit. The tilted fit suits rare outcomes better."
)


@dataclass(frozen=True, kw_only=True)
class DrawsChoice:
    """How many draws, why, and whether their intervals can be trusted."""

    draws: int
    explanation: str
    trusted: bool

    def __str__(self) -> str:
        return self.explanation


def choose_draws(
    family: Family,
    *,
    epsilon: float,
    num_features: int,
    num_records: int | None,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    fit_intercept: bool = True,
    prior_scale: float = 3.0,
    beta: float | str = "auto",
    weight: float | None = None,
    noise_scale: float | None = None,
) -> DrawsChoice:
    """The number of draws that promises the narrowest trustworthy intervals.

    Args:
        family: of the response, in working units.
        epsilon: of all draws together.
        num_features: d.
        num_records: n where it is public, or a public guess of it; None where it is private.
        delta, neighbours, rows_per_person, beta, weight, noise_scale: as in ``calibrate``.
        fit_intercept, prior_scale: as in the estimators.
    """
    positive(prior_scale=prior_scale)
    whole(num_features=num_features, minimum=0)
    if num_records is None:
        return _one(
            "The number of records is private here (add_remove neighbours, or several rows per person), and "
            "how many draws give intervals depends on it. Set their number yourself, from a public guess of "
            "the number of records; docs/uncertainty.md says how."
        )
    whole(num_records=num_records)
    if not family.has_intervals:
        return _one(f"No intervals are known for the {family.name} family.")
    widths: dict[int, float] = {}
    narrowest, limit = math.inf, MARGIN * LARGEST_VARIANCE
    for k in CANDIDATES:
        try:
            calibration = calibrate_loss(
                BetaDivergence(family),
                epsilon=epsilon,
                delta=delta,
                neighbours=neighbours,
                rows_per_person=rows_per_person,
                draws=k,
                beta=beta,
                weight=weight,
                noise_scale=noise_scale,
            )
        except CalibrationError:  # a weight fixed by the user may not allow k draws
            continue
        known = reference_information(
            family,
            calibration.beta,
            num_features=num_features,
            fit_intercept=fit_intercept,
            effective_records=num_records * calibration.weight,
            prior_scale=prior_scale,
            noise_scale=noise_scale,
        )
        narrowest = min(narrowest, known.predictor_variance)
        if known.predictor_variance > limit:
            continue
        kappa = family.noise_ratio(calibration.beta, family.reference_scale(noise_scale))
        precision = known.per_parameter
        variance = (calibration.weight * kappa + 1.0 / k) / precision + 1.0 / (precision * prior_scale) ** 2
        variance += (DRIFT_DOUBT * known.growth * family.usual_spread) ** 2 / max(1, num_features)
        widths[k] = float(special.stdtrit(k - 1, 0.975)) * math.sqrt(variance)
    if not widths:
        if math.isinf(narrowest):
            return _one(f"The given weight leaves no room for {CANDIDATES[0]} draws: leave it out.")
        return _one(
            f"Even {CANDIDATES[0]} draws would each be too wide: under one the linear predictor would "
            f"have a variance of about {narrowest:.2g}, and intervals need at most {limit:.2g}. "
            f"About {_rounded(num_records * narrowest / limit)} records would do at this epsilon; or use a "
            "larger epsilon, or fewer features."
        )
    best = min(widths.values())
    draws = next(k for k, width in widths.items() if width <= TOLERANCE * best)
    fewer = "leave more noise in their mean" if delta > 0.0 else "show their spread less well"
    why = (
        f"more draws would each be too wide and skewed, fewer would {fewer}"
        if draws < max(CANDIDATES)
        else "the most that is ever chosen"
    )
    return DrawsChoice(
        draws=draws,
        trusted=True,
        explanation=(
            f"{draws} draws, chosen from public facts (n = {num_records:,}, features: {num_features}, "
            f"epsilon = {epsilon:g}, delta = {delta:g}): {why}." + ("" if family.has_scale else RARE)
        ),
    )


def _one(reason: str) -> DrawsChoice:
    return DrawsChoice(draws=1, trusted=False, explanation=f"1 draw, without intervals. {reason}")


def _rounded(number: float) -> str:
    digits = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return f"{math.ceil(number / digits) * digits:,}"
