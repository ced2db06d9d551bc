# SPDX-License-Identifier: Apache-2.0
"""Whether a tilted fit will have intervals, by public facts: before anything is read, charged or released.

A curvature that gives no intervals would be paid for in vain, so it is released

* on request (``inference=True``), unless it is known that no intervals follow: refused before the charge;
* by default (``inference="auto"``), where intervals usually follow. ``plan`` says why not elsewhere.

The information of a table is its number of records times epsilon for each parameter (and row of a person).
In simulations (docs/uncertainty.md) nearly no release below ``FEWEST`` had intervals, and most had above
``USUAL``, times (K/4)^2 where a column has K > 4 categories and others no declared bounds: then rows are of
indicators (``tilted.one_hot`` has the others), the noise of the reference grows with K and its share falls.

Declared columns whose categories make too many combinations have none at all (``uncertainty.categories``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onedraw.advice import Advice, Do, Set
from onedraw.cautions import rounded
from onedraw.errors import InvalidInput
from onedraw.privacy.guarantee import Guarantee
from onedraw.privacy.request import Request
from onedraw.uncertainty.categories import most_levels, stands_apart, too_many_levels

FEWEST, USUAL = 50.0, 400.0


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What is known beforehand: ``never`` and ``reason`` say why intervals are not to be had, or expected."""

    reason: str = ""
    never: bool = False
    advice: tuple[Advice, ...] = ()

    def refuse(self) -> None:
        """Raise where intervals were asked for that nobody could get."""
        if self.never:
            raise InvalidInput(
                f"{self.reason} So no curvature is paid for.",
                advice=[*self.advice, Set("inference", False, of="TiltedFit", named="tilted_fit")],
            )


def expected_intervals(
    model: Any, request: Request | Guarantee, num_records: int | None, *, without_robust: str = ""
) -> Expected:
    """What to expect of a regression ``model``; ``num_records`` is None where it is private or not known.

    ``without_robust`` says why robust errors that were asked for are not to be had.
    """
    if without_robust:
        return Expected(
            reason=without_robust,
            never=True,
            advice=(Set("inference", True, of="TiltedFit", named="tilted_fit"),),
        )
    if model.offset is not None and not model.family.is_canonical:
        return Expected(
            reason=f"Intervals of {model.kind} counts with exposures are not known: how much counts vary "
            "depends on their means, which the exposures hide.",
            never=True,
        )
    if not model.fit_intercept and model.offset is not None:
        return Expected(
            reason="Intervals of counts with exposures need an intercept, whose curvature shows their mean.",
            never=True,
            advice=(Set("fit_intercept", True),),
        )
    if not model.fit_intercept and model.family.has_scale:
        return Expected(
            reason="Intervals of a linear model need an intercept, whose curvature shows the spread.",
            never=True,
            advice=(Set("fit_intercept", True),),
        )
    if not model.fit_intercept and model.feature_bounds is None:
        return Expected(
            reason="Intervals without an intercept need declared feature bounds: rows in other units than "
            "assumed count for nothing, and nothing would show it.",
            never=True,
            advice=(Set("feature_bounds"),),
        )
    if too_many_levels(model):
        return Expected(
            reason=too_many_levels(model),
            never=True,
            advice=(Do("join categories"), Set("draws", "auto", note=" with the mechanism one_posterior")),
        )
    if not request.num_records_is_public:
        return Expected(
            reason="No curvature for intervals is released: the number of rows is private, so nobody can say "
            "beforehand whether intervals would follow. The option inference of the tilted fit asks for one."
        )
    if num_records is None:
        return Expected(reason="No curvature for intervals is planned, as the number of rows is not known.")
    share = num_records * request.epsilon / max(1, model.num_location * request.rows_per_person)
    usual = USUAL if stands_apart(model) else USUAL * max(1.0, 0.25 * most_levels(model)) ** 2
    if share >= usual:
        return Expected()
    never = share < FEWEST
    wanted = (FEWEST if never else usual) / max(share, 1e-300)
    return Expected(
        reason=(
            f"{num_records:,} records at epsilon {request.epsilon:g} are {rounded(share)} per parameter, too "
            f"few for intervals: {'' if never else 'most releases have them from '}about "
            f"{rounded(max(num_records, 1) * wanted)} records, or epsilon "
            f"{rounded(request.epsilon * wanted)}, {'would be the least.' if never else 'on.'}"
        ),
        never=never,
    )
