# SPDX-License-Identifier: Apache-2.0
"""What somebody should know before a budget is spent: plain sentences about public facts.

Guarantee:
    Functions of the request and the public description of the model; no record enters.

>>> unusual_promise(epsilon=1e9, delta=0.0, num_records=4000)
('epsilon = 1e+09 promises next to nothing: ... Choose a few at most, for example 1.',)
>>> unusual_promise(epsilon=1.0, delta=0.1, num_records=4000)
('delta = 0.1 is not far below 1 in 4,000 records: ... Choose 2.5e-06 or less.',)
>>> below_the_noise(epsilon=1.0, num_records=10, num_parameters=3)
'The noise will exceed what the data can tell: 10 records at epsilon 1 are 3.3 per parameter, ...
"""

from __future__ import annotations

from typing import Any

LARGE_EPSILON = 20.0
"""From here on the factor on the odds is beyond anybody's doubts: e^20 is half a billion."""
LARGE_DELTA = 1e-3
"""What no table of people makes small, where the number of records is private."""
FEWEST_PER_PARAMETER = 20.0
"""Records times epsilon per parameter, below which a release is mostly noise."""
MOST_PARAMETERS_DRAWN = 20
"""Draws by a search over more parameters than this failed on ordinary tables with categories: none of 8 fits
with 23 to 41 parameters was released, all were charged."""


def unusual_promise(*, epsilon: float, delta: float, num_records: int | None) -> tuple[str, ...]:
    """Sentences about an epsilon or a delta that promises next to nothing."""
    found = []
    if epsilon >= LARGE_EPSILON:
        found.append(
            f"epsilon = {epsilon:g} promises next to nothing: it lets the odds of any suspicion about a "
            f"person grow by a factor of e^{epsilon:g}. Choose a few at most, for example 1."
        )
    if num_records is not None and delta * num_records >= 0.1:
        found.append(
            f"delta = {delta:g} is not far below 1 in {num_records:,} records: to publish some of them as "
            f"they stand would keep the same promise. Choose {0.01 / num_records:.2g} or less."
        )
    elif num_records is None and delta >= LARGE_DELTA:
        found.append(
            f"delta = {delta:g} allows the promise to fail for as large a share of the people. Choose a "
            "delta far below 1 in their number."
        )
    return tuple(found)


def below_the_noise(
    *, epsilon: float, num_records: int | None, num_parameters: int, rows_per_person: int = 1
) -> str:
    """A sentence where the release would say next to nothing about the data; empty elsewhere.

    Below about 20 records times epsilon per parameter, coefficients of zero came closer to the truth than
    any release in simulations.
    """
    if num_records is None:
        return ""
    room = num_records * epsilon / max(1, num_parameters * rows_per_person)
    if room >= FEWEST_PER_PARAMETER:
        return ""
    return (
        f"The noise will exceed what the data can tell: {num_records:,} records at epsilon {epsilon:g} are "
        f"{rounded(room)} per parameter, and below about {FEWEST_PER_PARAMETER:g} coefficients of zero come "
        "closer to the truth."
    )


def of_mechanism(mechanism: Any) -> str:
    """``below_the_noise`` of a calibrated mechanism, from what its request and shape say."""
    promise = mechanism.guarantee
    return below_the_noise(
        epsilon=promise.epsilon,
        num_records=mechanism.shape.num_records,
        num_parameters=mechanism.model.dim,
        rows_per_person=promise.rows_per_person,
    )


def of_release(release: Any) -> str:
    """``below_the_noise`` of something that was released, from what it says of itself."""
    promise = release.guarantee
    return below_the_noise(
        epsilon=promise.epsilon,
        num_records=release.num_records,
        num_parameters=release.model.dim,
        rows_per_person=promise.rows_per_person,
    )


def may_fail(*, evidence: str, num_parameters: int) -> str:
    """A sentence where the computation may fail after the charge; empty elsewhere.

    >>> may_fail(evidence="accounted", num_parameters=3), may_fail(evidence="diagnosed", num_parameters=3)
    ('', 'The chains of this mechanism may not converge, ... They cannot be resumed: who ends them has paid.')
    """
    if evidence == "diagnosed":
        return (
            "The chains of this mechanism may not converge, after the charge, which then stands with nothing "
            "released. They take minutes, and say each minute how many are left. They cannot be resumed: who "
            "ends them has paid."
        )
    if evidence != "searched":
        return ""
    often = num_parameters > MOST_PARAMETERS_DRAWN
    return (
        "This mechanism may find no draw, after the charge, which then stands with nothing released"
        + (f"; with {num_parameters} parameters that is likely." if often else ".")
        + " The tilted fit always releases, where it knows the model."
    )


def rounded(value: float) -> str:
    """Two digits, as people write numbers.

    >>> rounded(67834.0), rounded(2.7182), rounded(0.0123)
    ('68,000', '2.7', '0.012')
    """
    return f"{float(f'{value:.2g}'):,.12g}"
