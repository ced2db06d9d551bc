# SPDX-License-Identifier: Apache-2.0
"""The picture of a forecast: expected error against epsilon, between no privacy and coefficients of zero."""

from __future__ import annotations

from typing import Any

from onedraw.planning import Forecast
from onedraw.reports.canvas import FAINT, PLAIN, PRIVATE, new_figure


def draw_plan(forecast: Forecast) -> Any:
    """The picture, a Matplotlib figure."""
    figure, axis = new_figure(6.4, 4.2)
    rows = forecast.rows
    epsilons = [row.epsilon for row in rows]
    label = f"private, {forecast.mechanism}"
    axis.loglog(epsilons, [row.private for row in rows], "o-", color=PRIVATE, label=label)
    axis.axhline(rows[0].non_private, color=PLAIN, label="without privacy")
    axis.axhline(rows[0].zero, color=FAINT, linestyle=":", label="coefficients of zero")
    if forecast.wanted_error is not None:
        axis.axhline(forecast.wanted_error, color="black", linewidth=0.8, linestyle="--", label="wanted")
    if forecast.smallest_epsilon is not None:
        axis.axvline(forecast.smallest_epsilon, color="black", linewidth=0.8, linestyle="--")
    axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_xlabel("epsilon")
    axis.set_ylabel("root mean squared error of the coefficients")
    size = f"{forecast.num_rows:,} rows, {forecast.num_features} features"
    axis.set_title(f"{forecast.model}: {size}", loc="left")
    axis.legend(frameon=False)
    return figure
