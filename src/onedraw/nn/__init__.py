# SPDX-License-Identifier: Apache-2.0
"""Neural networks and NumPyro models, released as one private draw; fitting needs the ``jax`` extra."""

from onedraw.nn.beta_sgd import BetaSGD
from onedraw.nn.dp_sgd import DPSGD
from onedraw.nn.dp_vi import DPVI
from onedraw.nn.mlp import MLPClassifier, MLPRegressor
from onedraw.nn.numpyro import PrivateModel
from onedraw.nn.observed import DeclaredDensity
from onedraw.samplers.coupling import CoupledKernel, CoupledSampler
from onedraw.samplers.nuts import NutsSampler

__all__ = [
    "DPSGD",
    "DPVI",
    "BetaSGD",
    "CoupledKernel",
    "CoupledSampler",
    "DeclaredDensity",
    "MLPClassifier",
    "MLPRegressor",
    "NutsSampler",
    "PrivateModel",
]
