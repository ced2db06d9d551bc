# SPDX-License-Identifier: Apache-2.0
"""``onedraw explain``: what an attacker can learn about one person, in numbers and words.

Guarantee:
    The attacker knows everything about everybody else and has two candidates for one person's data,
    neighbours in the sense of the guarantee. Let P and Q be the laws of the release under them.

    * delta = 0: P <= e^epsilon Q at every outcome, so the odds of a suspicion grow at most by the factor
      e^epsilon [Bayes].
    * delta > 0: let S be the outcomes with P > 2 e^epsilon Q. Then P(S) <= e^epsilon Q(S) + delta and
      e^epsilon Q(S) <= P(S)/2, so P(S) <= 2 delta: the factor is at most 2 e^epsilon except with probability
      2 delta. (It is not true that e^epsilon is exceeded with probability at most delta.)
    * The probability of finding a true suspicion minus that of a false alarm is at most
      (e^epsilon - 1 + 2 delta)/(e^epsilon + 1) [Kairouz, Oh & Viswanath 2015].

>>> round(advantage(1.0), 4), round(posterior(0.5, 1.0), 4)
(0.4621, 0.7311)
"""

from __future__ import annotations

import math
from typing import Any

import click

from onedraw.cli.app import common, privacy
from onedraw.cli.output import aligned, say, say_json
from onedraw.privacy import Guarantee

PRIORS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)


def advantage(epsilon: float, delta: float = 0.0) -> float:
    """The largest difference between the rates of true and false alarms."""
    shrunk = math.exp(-epsilon)  # divided by e^epsilon, which overflows
    return min(1.0, (1.0 - shrunk + 2.0 * delta * shrunk) / (1.0 + shrunk))


def posterior(prior: float, epsilon: float, delta: float = 0.0) -> float:
    """The largest probability that a suspicion of that prior probability can reach; for delta see above."""
    log_factor = epsilon + (math.log(2.0) if delta > 0.0 else 0.0)
    return prior / (prior + (1.0 - prior) * math.exp(-log_factor))


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
    rows = [(_percent(prior), _percent(most)) for prior, most in table]
    say(aligned(rows, header=("suspected before", "at most after")))
    say()
    say(
        "To tell apart two equally likely candidates, the attacker is right at most "
        f"{_percent(0.5 + 0.5 * gain)} of the time; tossing a coin, 50%. The advantage, true alarms "
        f"minus false alarms, is at most {_percent(gain)}."
    )
    say(
        "This holds for each person. It does not say that nothing is learnt about people in general: if the "
        "release shows that smoking is harmful, that is learnt about every smoker, in the data or not."
    )


def _percent(share: float) -> str:
    text = f"{100.0 * share:.3g}%"
    return text if share == 1.0 or text != "100%" else "almost 100%"
