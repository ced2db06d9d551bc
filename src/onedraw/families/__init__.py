# SPDX-License-Identifier: Apache-2.0
"""Families of conditional distributions: densities, their bounds, and their beta-divergence losses."""

from onedraw.families.base import Derivatives, Family, LocationScale, MassFunction
from onedraw.families.bernoulli import Bernoulli
from onedraw.families.categorical import Categorical
from onedraw.families.gaussian import Gaussian
from onedraw.families.laplace import Laplace
from onedraw.families.negative_binomial import NegativeBinomial
from onedraw.families.poisson import Poisson
from onedraw.families.registry import FAMILIES, read_family
from onedraw.families.student_t import StudentT

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Categorical",
    "Derivatives",
    "Family",
    "Gaussian",
    "Laplace",
    "LocationScale",
    "MassFunction",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
    "read_family",
]
