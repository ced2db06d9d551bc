# SPDX-License-Identifier: Apache-2.0
"""The families by name."""

from __future__ import annotations

from typing import Any

from onedraw.families.base import Family
from onedraw.families.bernoulli import Bernoulli
from onedraw.families.categorical import Categorical
from onedraw.families.gaussian import Gaussian
from onedraw.families.laplace import Laplace
from onedraw.families.negative_binomial import NegativeBinomial
from onedraw.families.poisson import Poisson
from onedraw.families.student_t import StudentT

FAMILIES: dict[str, type[Family]] = {
    f.name: f for f in (Bernoulli, Categorical, Gaussian, Laplace, NegativeBinomial, Poisson, StudentT)
}


def read_family(values: dict[str, Any]) -> Family:
    """The inverse of ``to_dict``."""
    options = dict(values)
    return FAMILIES[options.pop("name")](**options)
