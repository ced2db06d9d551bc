# SPDX-License-Identifier: Apache-2.0
"""An audit from a single run: many canaries, each included by a coin of its own.

For mechanisms that are too slow to run a thousand times. Each of m canary records is put into the data set,
or left out, by a fair coin; the mechanism runs once; the attacker guesses the coins of the canaries that
stand out most. Canaries are added or removed, so the bound is about ``add_remove`` neighbours.

Guarantee:
    The bound of ``onedraw.audit.bounds.one_run``: the number of guesses is fixed beforehand, and the score
    may be any function of the output and the canaries.

>>> import numpy as np
>>> X = np.zeros((0, 300)); y = np.zeros(0)
>>> bound = one_run_audit(lambda X, y: X.sum(axis=0), X, y, np.eye(300), np.ones(300),
...                       score=lambda output, X, y: X @ output, guesses=200, random_state=0)
>>> round(bound.epsilon, 2), round(bound.largest, 2)            # no noise at all: the most that can be shown
(4.19, 4.19)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onedraw._random import generator
from onedraw._validate import whole
from onedraw.audit.bounds import Bound, one_run
from onedraw.errors import InvalidInput
from onedraw.types import Array

CanaryScore = Callable[[Any, Array, Array], Array]
"""The output and all canaries (X, y) to a score for each: the larger, the more likely it was included."""


def one_run_audit(
    fit: Callable[[Array, Array], Any],
    X: Array,
    y: Array,
    canaries_X: Array,
    canaries_y: Array,
    *,
    score: CanaryScore,
    guesses: int | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    random_state: Any = None,
) -> Bound:
    """Run ``fit`` once on (X, y) and about half of the canaries, and guess which.

    The half of ``guesses`` with the largest scores is guessed in, the half with the smallest out; by default
    a third of the canaries is guessed.
    """
    canaries = len(canaries_y)
    whole(canaries=canaries, minimum=2)
    guesses = max(2, canaries // 3) if guesses is None else whole(guesses=guesses, minimum=2)
    if guesses > canaries:
        raise InvalidInput(f"Expected guesses <= {canaries} canaries, got guesses={guesses}.")
    rng, _ = generator(random_state)
    included = rng.random(canaries) < 0.5
    output = fit(np.concatenate([X, canaries_X[included]]), np.concatenate([y, canaries_y[included]]))
    scores = np.asarray(score(output, canaries_X, canaries_y), dtype=np.float64)
    if scores.shape != (canaries,) or np.isnan(scores).any():
        raise InvalidInput(f"Expected a score for each of {canaries} canaries, got shape {scores.shape}.")
    # Ties are broken by a coin: by position they could be broken the way the canaries were made.
    order = np.lexsort((rng.random(canaries), scores))
    lowest, highest = order[: guesses // 2], order[canaries - (guesses - guesses // 2) :]
    correct = int((~included[lowest]).sum() + included[highest].sum())
    return one_run(correct=correct, guesses=guesses, canaries=canaries, delta=delta, confidence=confidence)
