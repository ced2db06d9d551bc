# SPDX-License-Identifier: Apache-2.0
"""Losses of one record, each with a proved certificate of its range."""

from onedraw.families import LossBounds
from onedraw.losses.base import Loss
from onedraw.losses.beta_divergence import BetaDivergence
from onedraw.losses.gibbs import Gibbs

__all__ = ["BetaDivergence", "Gibbs", "Loss", "LossBounds"]
