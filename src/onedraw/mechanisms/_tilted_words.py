# SPDX-License-Identifier: Apache-2.0
"""What the plan of a tilted fit says, by public facts: where its epsilon goes, and what to beware of."""

from __future__ import annotations

ONE_UNIT = (
    "No bounds of the features are declared, and the records are too few to find a unit for each feature "
    "privately. One unit will serve all: coefficients of features that are many times larger or smaller than "
    "the others will be mostly noise."
)
FEWEST_FOR_LINEAR = 40.0
"""Records times epsilon for each coefficient, below which a draw had less error than a linear tilted fit."""
DRAW_IS_CLOSER = (
    f"With fewer than about {FEWEST_FOR_LINEAR:g} records times epsilon for each coefficient the first "
    "stages of a linear tilted fit fail at times, by orders of magnitude, and one draw (the mechanism "
    "one_posterior, with a declared range of the response) had less error in simulations. Its guarantee is "
    "conditional on a search, so it is not chosen by itself."
)


def of_alignment(share: float) -> str:
    """What an alignment costs, without a full stop."""
    return f"{share:.0%} of epsilon goes to how columns go together (the option align)"


def of_intervals(share: float, *, alignment: float, offered: bool) -> str:
    """What intervals cost, after a share for an ``alignment`` or 0; ``offered`` if one could be had."""
    if alignment:
        return (
            f"{of_alignment(alignment)}, and {share:.0%} of the rest to what intervals need (the option "
            "inference). They may be refused all the same: only the release tells."
        )
    rarer = " The option align makes that rarer." if offered else ""
    return (
        f"{share:.0%} of epsilon goes to what intervals need (the option inference). Where columns nearly "
        "repeat one another, or a category is rare, they may be refused all the same: only the release "
        f"tells.{rarer}"
    )
