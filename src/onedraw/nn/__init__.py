# SPDX-License-Identifier: Apache-2.0
"""Mechanisms and samplers for neural networks and NumPyro models; fitting needs the ``jax`` extra."""

from onedraw.nn.beta_sgd import BetaSGD
from onedraw.nn.dp_sgd import DPSGD
from onedraw.nn.dp_vi import DPVI
from onedraw.nn.network_draw import NetworkDraw
from onedraw.nn.observed import DeclaredDensity
from onedraw.nn.program_draw import ProgramDraw
from onedraw.samplers.coupling import CoupledKernel, CoupledSampler
from onedraw.samplers.nuts import NutsSampler

__all__ = [
    "DPSGD",
    "DPVI",
    "BetaSGD",
    "CoupledKernel",
    "CoupledSampler",
    "DeclaredDensity",
    "NetworkDraw",
    "NutsSampler",
    "ProgramDraw",
]
