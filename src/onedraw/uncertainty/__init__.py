# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals from released draws, and how many draws to release for them."""

from onedraw.uncertainty.choice import DrawsChoice, choose_draws
from onedraw.uncertainty.credible import credible_intervals
from onedraw.uncertainty.from_curvature import ReleasedInference, inference_of
from onedraw.uncertainty.from_draws import intervals, named_estimates, point_estimate
from onedraw.uncertainty.summary import summarise
from onedraw.uncertainty.table import Intervals

__all__ = [
    "DrawsChoice",
    "Intervals",
    "ReleasedInference",
    "choose_draws",
    "credible_intervals",
    "inference_of",
    "intervals",
    "named_estimates",
    "point_estimate",
    "summarise",
]
