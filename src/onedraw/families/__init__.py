# SPDX-License-Identifier: Apache-2.0
"""Families of conditional distributions: densities, their bounds, and their beta-divergence losses."""

from onedraw.families.base import Derivatives, Family, MassFunction, Option
from onedraw.families.bernoulli import Bernoulli
from onedraw.families.categorical import Categorical
from onedraw.families.cells import Cell
from onedraw.families.certificate import LossBounds
from onedraw.families.gaussian import Gaussian
from onedraw.families.laplace import Laplace
from onedraw.families.location_scale import LocationScale
from onedraw.families.negative_binomial import NegativeBinomial
from onedraw.families.poisson import Poisson
from onedraw.families.registry import FAMILIES, KINDS, build_family, families_of, read_family
from onedraw.families.student_t import StudentT

__all__ = [
    "FAMILIES",
    "KINDS",
    "Bernoulli",
    "Categorical",
    "Cell",
    "Derivatives",
    "Family",
    "Gaussian",
    "Laplace",
    "LocationScale",
    "LossBounds",
    "MassFunction",
    "NegativeBinomial",
    "Option",
    "Poisson",
    "StudentT",
    "build_family",
    "families_of",
    "read_family",
]
