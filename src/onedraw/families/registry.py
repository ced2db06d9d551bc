# SPDX-License-Identifier: Apache-2.0
"""Every family by name, and how one is built from names, options and files.

>>> sorted(FAMILIES)
['bernoulli', 'categorical', 'gaussian', 'laplace', 'negative_binomial', 'poisson', 'student_t']
>>> [family.errors for family in families_of("linear")]
['normal', 'laplace', 'student_t']
>>> read_family(build_family("student_t", df=3.0).to_dict())
StudentT(df=3.0, scale_floor=0.1)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onedraw._validate import one_of
from onedraw.errors import InvalidInput
from onedraw.families.base import Family
from onedraw.families.bernoulli import Bernoulli
from onedraw.families.categorical import Categorical
from onedraw.families.gaussian import Gaussian
from onedraw.families.laplace import Laplace
from onedraw.families.negative_binomial import NegativeBinomial
from onedraw.families.poisson import Poisson
from onedraw.families.student_t import StudentT

FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (Bernoulli, Categorical, Gaussian, Laplace, NegativeBinomial, Poisson, StudentT)
}
KINDS: tuple[str, ...] = tuple(dict.fromkeys(family.kind for family in FAMILIES.values()))
"""What users call the regressions."""


def families_of(kind: str) -> tuple[type[Family], ...]:
    """The families of one kind of regression."""
    one_of(KINDS, kind=kind)
    return tuple(family for family in FAMILIES.values() if family.kind == kind)


def build_family(name: str, **options: Any) -> Family:
    """The family of that name with public ``options`` (see ``Family.options``), the others at their defaults.

    An option that does not apply is an error.
    """
    family = FAMILIES[one_of(FAMILIES, family=name)]
    given = {option.field: option.default for option in family.options.values()}
    for option, value in options.items():
        if option not in family.options:
            raise InvalidInput(f"{option} does not apply to the {name} family. Leave it out.")
        family.options[option].check(option, value)
        given[family.options[option].field] = value
    return family(**given)


def read_family(values: Mapping[str, Any]) -> Family:
    """The inverse of ``Family.to_dict``."""
    constants = dict(values)
    family = FAMILIES[one_of(FAMILIES, family=constants.pop("name", None))]
    try:
        return family(**constants)
    except TypeError:
        known = ", ".join(option.field for option in family.options.values()) or "none"
        raise InvalidInput(
            f"Expected the constants of the {family.name} family ({known}), got {', '.join(constants)}."
        ) from None
