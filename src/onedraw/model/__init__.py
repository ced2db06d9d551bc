# SPDX-License-Identifier: Apache-2.0
"""What released numbers mean: the public description of a model, one kind a file."""

from onedraw.model.base import Bounds, PublicModel, unit_map
from onedraw.model.network import Layers, NetworkModel, NetworkParameters
from onedraw.model.offset import Offset
from onedraw.model.read import read_model
from onedraw.model.regression import Parameters, RegressionModel
from onedraw.model.sites import SiteParameters, SitesModel

__all__ = [
    "Bounds",
    "Layers",
    "NetworkModel",
    "NetworkParameters",
    "Offset",
    "Parameters",
    "PublicModel",
    "RegressionModel",
    "SiteParameters",
    "SitesModel",
    "read_model",
    "unit_map",
]
