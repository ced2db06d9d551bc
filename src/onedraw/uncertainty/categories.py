# SPDX-License-Identifier: Apache-2.0
"""How many categories a column may have for intervals from a tilted fit: a public fact that a release hides.

The indicators of one column exclude one another, so with the intercept they nearly determine the reference.
With K equally common categories the smallest eigenvalue of the moments of working rows is 0.13 at K = 4,
0.063 at 5, 0.0125 at 8, and it falls with the share of the reference. The prior of the moments
(``inference.moments``) gives values below 0.1 a probability of 1%, and noise that is larger than the
eigenvalue leaves it to the prior. So intervals were far too short: they held the truth in 0.95 of 80 cases
with K = 4, in 0.84 of 100 with 5 and in 0.64 of 160 with 8 (20 releases each of two classes, epsilon 1, 400
to 800 records for each parameter), and neither their inflation nor anything else in a release told.

Edge cases:
    Only declared categories are seen. Indicators that were made beforehand are features like any others.
"""

from __future__ import annotations

from collections.abc import Iterable

from onedraw.columns import most_levels

MOST_LEVELS = 4
"""Categories of a column up to which intervals were seen to cover."""


def too_many_levels(features: Iterable[str]) -> str:
    """Why the indicators of a column keep a fit from having intervals; empty if they do not.

    >>> too_many_levels(["age", *(f"town={name} (vs a)" for name in "bcde")])[:31]
    'A column has 5 categories: the '
    >>> too_many_levels(["age", *(f"town={name} (vs a)" for name in "bcd")])
    ''
    """
    levels = most_levels(features)
    if levels <= MOST_LEVELS:
        return ""
    return (
        f"A column has {levels} categories: the noise of a released curvature hides how nearly their "
        f"indicators determine one another, and with more than {MOST_LEVELS} intervals were too short."
    )
