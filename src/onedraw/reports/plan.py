# SPDX-License-Identifier: Apache-2.0
"""The picture of a plan: expected error against epsilon, between no privacy and nothing learned."""

from __future__ import annotations

from typing import Any

from onedraw.planning import Plan
from onedraw.reports.canvas import FAINT, PLAIN, PRIVATE, new_figure


def draw_plan(plan: Plan) -> Any:
    """The picture, a Matplotlib figure."""
    figure, axis = new_figure(6.4, 4.2)
    epsilons = [row.epsilon for row in plan.rows]
    axis.loglog(epsilons, [row.private for row in plan.rows], "o-", color=PRIVATE, label="private, one draw")
    axis.axhline(plan.rows[0].non_private, color=PLAIN, label="without privacy")
    axis.axhline(plan.rows[0].prior, color=FAINT, linestyle=":", label="a draw that learned nothing")
    if plan.wanted_error is not None:
        axis.axhline(plan.wanted_error, color="black", linewidth=0.8, linestyle="--", label="wanted")
    if plan.smallest_epsilon is not None:
        axis.axvline(plan.smallest_epsilon, color="black", linewidth=0.8, linestyle="--")
    axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_xlabel("epsilon")
    axis.set_ylabel("root mean squared error of the coefficients")
    axis.set_title(f"{plan.model}: {plan.num_rows:,} rows, {plan.num_features} features", loc="left")
    axis.legend(frameon=False)
    return figure
