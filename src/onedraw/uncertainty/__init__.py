# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals from released draws, and how many draws to release for them."""

from onedraw.uncertainty.choice import DrawsChoice, choose_draws
from onedraw.uncertainty.credible import credible_intervals
from onedraw.uncertainty.from_draws import intervals
from onedraw.uncertainty.summary import summarise
from onedraw.uncertainty.table import Intervals

__all__ = ["DrawsChoice", "Intervals", "choose_draws", "credible_intervals", "intervals", "summarise"]
