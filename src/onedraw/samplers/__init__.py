# SPDX-License-Identifier: Apache-2.0
"""Samplers: exact draws from a posterior, each with its evidence."""

from onedraw.samplers.base import Draws, Evidence, Sampler
from onedraw.samplers.box import BoxSampler
from onedraw.samplers.exact import RejectionSampler
from onedraw.samplers.grid import GridSampler

__all__ = ["BoxSampler", "Draws", "Evidence", "GridSampler", "RejectionSampler", "Sampler"]
