# SPDX-License-Identifier: Apache-2.0
"""Findings as a table and as a picture. What is drawn is computed apart from the drawing, to be tested.

>>> from onedraw.audit.attack import Attack
>>> from onedraw.privacy.guarantee import Guarantee
>>> import numpy as np
>>> attack = Attack(negatives=np.zeros(100), positives=np.ones(100), threshold=0.5)
>>> print(table([Finding(name="leak", claimed=Guarantee(epsilon=1.0), attack=attack)]))
mechanism   neighbours  epsilon  delta  rounds  success  exact  lower bound  at most  verdict
leak       replace_one        1      0     200    1.000      -        3.281    3.281  contradicted
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from onedraw.audit.finding import Finding
from onedraw.errors import MissingExtra
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
COLOURS = ("#1f6f8b", "#c8553d", "#588157", "#7b5ea7", "#b08900", "#444444")
FAINT = "#dddddd"
DPI = 110
READABLE = 3.0
"""The curve of a larger claimed epsilon lies on the axes."""


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


def picture(
    findings: Sequence[Finding], path: str | os.PathLike[str], *, accuracy: Sequence[float] | None = None
) -> None:
    """Write the trade-off curves to ``path``, the claimed curves over them.

    With ``accuracy`` (an error of each finding's mechanism, such as its root mean squared error), two more
    panels: success rate and lower bound against it.
    """
    pyplot = _pyplot()
    panels = 1 if accuracy is None else 3
    figure, all_axes = pyplot.subplots(
        1, panels, figsize=(5.2 * panels, 4.6), layout="constrained", squeeze=False
    )
    axes = list(all_axes[0])
    if accuracy is not None:
        names = list(dict.fromkeys(finding.name for finding in findings))
        for name in names:
            _against_accuracy(axes, name, COLOURS[names.index(name) % len(COLOURS)], findings, accuracy)
        axes[0].set_ylabel("attack success rate")
        axes[0].axhline(0.5, color=FAINT, linewidth=1, zorder=0)
        axes[1].set_ylabel("lower bound on epsilon, and the claim")
        axes[1].set_yscale("symlog", linthresh=0.1)
        axes[1].set_ylim(bottom=-0.01)
        for panel in axes[:2]:
            panel.set_xlabel("root mean squared error on simulated data")
            panel.set_xscale("log")
        axes[0].legend(frameon=False)
        axes[1].plot([], [], "_", color="black", markersize=10, label="claimed")
        axes[1].plot([], [], "x", color="black", label="exact")
        axes[1].plot(
            [], [], "o", color="black", label=f"lower bound, {findings[0].confidence:.0%} confidence"
        )
        axes[1].legend(frameon=False, fontsize="small")
    _draw_trade_offs(axes[-1], findings)
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=DPI)
    pyplot.close(figure)


def _against_accuracy(
    axes: list[Any], name: str, colour: str, findings: Sequence[Finding], accuracy: Sequence[float]
) -> None:
    chosen = [(a, f) for a, f in zip(accuracy, findings, strict=True) if f.name == name]
    chosen.sort(key=lambda item: item[1].claimed.epsilon)
    attacked = [(a, f, f.attack.success_rate) for a, f in chosen if f.attack is not None]
    errors = [a for a, _, _ in attacked]
    axes[0].plot(errors, [rate for _, _, rate in attacked], "o-", color=colour, label=name)
    axes[1].plot(errors, [f.lower_bound.epsilon for _, f, _ in attacked], "o-", color=colour)
    axes[1].plot(
        [a for a, _ in chosen], [f.claimed.epsilon for _, f in chosen], "_", color=colour, markersize=14
    )
    exact = [(a, f.exact_epsilon) for a, f in chosen if f.exact_epsilon is not None]
    axes[1].plot([a for a, _ in exact], [e for _, e in exact], "x", color=colour)
    for error, finding, rate in attacked:
        label = f"ε = {finding.claimed.epsilon:g}"
        axes[0].annotate(label, (error, rate), textcoords="offset points", xytext=(5, 3), fontsize=8)


def _draw_trade_offs(panel: Any, findings: Sequence[Finding]) -> None:
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 400)])
    shown = _spread(findings)
    for i, finding in enumerate(shown):
        colour = COLOURS[i % len(COLOURS)]
        label = f"{finding.name}, ε = {finding.claimed.epsilon:g}"
        claimed = claimed_trade_off(finding.claimed.epsilon, finding.claimed.delta, grid)
        panel.fill_between(grid, 0.0, claimed, color=colour, alpha=0.08, linewidth=0)
        panel.plot(grid, claimed, color=colour, linewidth=1, linestyle="--")
        false_positive, false_negative = measured_trade_off(finding)
        panel.plot(false_positive, false_negative, color=colour, linewidth=1.8, label=label)
        if finding.laws is not None:
            exact = finding.laws.trade_off()
            panel.plot(*exact, color=colour, linewidth=1, linestyle=":")
    panel.plot([0.0, 1.0], [1.0, 0.0], color=FAINT, linewidth=1, zorder=0)
    panel.plot([], [], "--", color="black", linewidth=1, label="no curve may go below its claim")
    if any(finding.laws is not None for finding in shown):
        panel.plot([], [], ":", color="black", linewidth=1, label="best attack on this pair, exact")
    panel.set_xlim(0.0, 1.0)
    panel.set_ylim(0.0, 1.0)
    panel.set_xlabel("false positive rate")
    panel.set_ylabel("false negative rate")
    panel.legend(frameon=False, fontsize="small")


def _spread(findings: Sequence[Finding]) -> list[Finding]:
    """At most three findings of a trade-off panel, from the smallest claim to the largest."""
    readable = [finding for finding in findings if finding.claimed.epsilon <= READABLE] or findings
    ordered = sorted(readable, key=lambda finding: finding.claimed.epsilon)
    places = np.unique(np.linspace(0, len(ordered) - 1, 3).round().astype(int))
    return [ordered[i] for i in places]


def _pyplot() -> Any:
    try:
        matplotlib = importlib.import_module("matplotlib")
    except ImportError as error:
        raise MissingExtra("The picture", "plots") from error
    if "matplotlib.pyplot" not in sys.modules:  # a notebook keeps the backend it has
        matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")
