# SPDX-License-Identifier: Apache-2.0
"""``onedraw explain``: what an attacker can learn about one person, in numbers and words.

The proofs are in ``onedraw.privacy.meaning``.
"""

from __future__ import annotations

import math
from typing import Any

import click

from onedraw.cli.app import common, privacy
from onedraw.cli.output import aligned, say, say_json
from onedraw.privacy import Guarantee
from onedraw.privacy.meaning import advantage, percent, posterior

PRIORS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)


@click.command("explain", short_help="What an attacker can learn about one person.")
@privacy
@common
def explain_command(
    epsilon: float, delta: float, neighbours: Any, rows_per_person: int, as_json: bool
) -> None:
    """Say what an attacker can learn about one person from a release with this guarantee."""
    guarantee = Guarantee(
        epsilon=epsilon, delta=delta, neighbours=neighbours, rows_per_person=rows_per_person
    )
    gain = advantage(epsilon, delta)
    table = [(prior, posterior(prior, epsilon, delta)) for prior in PRIORS]
    factor = math.exp(min(epsilon, 700.0)) * (2.0 if delta > 0.0 else 1.0)
    if as_json:
        say_json(
            {
                "guarantee": guarantee.to_dict(),
                "statement": str(guarantee),
                "odds_factor": factor,
                "exception_probability": min(1.0, 2.0 * delta),
                "advantage": gain,
                "guess": 0.5 + 0.5 * gain,
                "posterior": [{"prior": prior, "at_most": most} for prior, most in table],
            }
        )
        return
    suspicion = "that one person is in the data" if neighbours == "add_remove" else "about one person's data"
    say(str(guarantee), style="bold")
    say()
    say(
        "Take an attacker who knows everything about everybody else, and has a suspicion "
        f"{suspicion}. Whatever the release shows, the odds of the suspicion grow by a factor of at most "
        f"{factor:.3g}" + (f", except with a probability of at most {2 * delta:.3g}." if delta > 0.0 else ".")
    )
    say()
    rows = [(percent(prior), percent(most)) for prior, most in table]
    say(aligned(rows, header=("suspected before", "at most after")))
    say()
    say(
        "To tell apart two equally likely candidates, the attacker is right at most "
        f"{percent(0.5 + 0.5 * gain)} of the time; tossing a coin, 50%. The advantage, true alarms "
        f"minus false alarms, is at most {percent(gain)}."
    )
    say(
        "This holds for each person. It does not say that nothing is learnt about people in general: if the "
        "release shows that smoking is harmful, that is learnt about every smoker, in the data or not."
    )
