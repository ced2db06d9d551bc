# SPDX-License-Identifier: Apache-2.0
"""The picture of an audit: trade-off curves with the claimed ones over them, and what accuracy costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onedraw.audit.finding import Finding
from onedraw.audit.report import claimed_trade_off, measured_trade_off
from onedraw.reports.canvas import COLOURS, new_figure

FAINT = "#dddddd"
READABLE = 3.0
"""The curve of a larger claimed epsilon lies on the axes."""


def draw_audit(findings: Sequence[Finding], *, accuracy: Sequence[float] | None = None) -> Any:
    """The trade-off curves, the claimed curves over them, as a Matplotlib figure.

    With ``accuracy`` (an error of each finding's mechanism, such as its root mean squared error), two more
    panels: success rate and lower bound against it.
    """
    panels = 1 if accuracy is None else 3
    figure, axes = new_figure(5.2 * panels, 4.6, panels)
    axes = list(np.atleast_1d(axes))
    if accuracy is not None:
        names = list(dict.fromkeys(finding.name for finding in findings))
        for name in names:
            _against_accuracy(axes, name, COLOURS[names.index(name) % len(COLOURS)], findings, accuracy)
        _label_accuracy(axes, findings[0].confidence)
    _draw_trade_offs(axes[-1], findings)
    return figure


def _label_accuracy(axes: list[Any], confidence: float) -> None:
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
    axes[1].plot([], [], "o", color="black", label=f"lower bound, {confidence:.0%} confidence")
    axes[1].legend(frameon=False, fontsize="small")


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
