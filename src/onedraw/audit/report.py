# SPDX-License-Identifier: Apache-2.0
"""Findings as a table, and as the curves that a picture of them shows (``onedraw.reports.audit`` draws it).

>>> from onedraw.audit.attack import Attack
>>> from onedraw.privacy.guarantee import Guarantee
>>> import numpy as np
>>> attack = Attack(negatives=np.zeros(100), positives=np.ones(100), threshold=0.5)
>>> print(table([Finding(name="leak", claimed=Guarantee(epsilon=1.0), attack=attack)]))
mechanism   neighbours  epsilon  delta  rounds  success  exact  lower bound  at most  verdict
leak       replace_one        1      0     200    1.000      -        3.281    3.281  contradicted
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onedraw.audit.finding import Finding
from onedraw.types import Array

COLUMNS = (
    "mechanism",
    "neighbours",
    "epsilon",
    "delta",
    "rounds",
    "success",
    "exact",
    "lower bound",
    "at most",
    "verdict",
)


def rows(findings: Sequence[Finding]) -> list[list[str]]:
    """One row of text per finding, in the order of ``COLUMNS``."""
    return [
        [
            finding.name,
            finding.claimed.neighbours,
            f"{finding.claimed.epsilon:g}",
            f"{finding.claimed.delta:g}",
            "-" if finding.attack is None else f"{finding.attack.rounds}",
            "-" if finding.attack is None else f"{finding.attack.success_rate:.3f}",
            "-" if finding.exact_epsilon is None else f"{finding.exact_epsilon:.4f}",
            "-" if finding.counts is None else f"{finding.lower_bound.epsilon:.3f}",
            "-" if finding.counts is None else f"{finding.lower_bound.largest:.3f}",
            finding.verdict,
        ]
        for finding in findings
    ]


def table(findings: Sequence[Finding]) -> str:
    """An aligned table: ``exact`` is epsilon by quadrature, ``at most`` what so many rounds could show."""
    lines = [list(COLUMNS), *rows(findings)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    words = {0, len(COLUMNS) - 1}  # the first and the last column read from the left
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def measured_trade_off(finding: Finding) -> tuple[Array, Array]:
    """False positive and false negative rates at every threshold of the attack's score."""
    if finding.attack is None:
        return np.empty(0), np.empty(0)
    negatives, positives = np.sort(finding.attack.negatives), np.sort(finding.attack.positives)
    thresholds = np.unique(np.concatenate([negatives, positives]))
    false_positive = 1.0 - np.searchsorted(negatives, thresholds, side="right") / len(negatives)
    false_negative = np.searchsorted(positives, thresholds, side="right") / len(positives)
    return np.append(1.0, false_positive), np.append(0.0, false_negative)


def claimed_trade_off(epsilon: float, delta: float, false_positive: Array) -> Array:
    """The least false negative rate that (epsilon, delta)-DP allows at each false positive rate."""
    forward = 1.0 - delta - np.exp(epsilon) * false_positive
    backward = np.exp(-epsilon) * (1.0 - delta - false_positive)
    return np.asarray(np.maximum.reduce([forward, backward, np.zeros_like(false_positive)]))
