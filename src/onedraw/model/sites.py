# SPDX-License-Identifier: Apache-2.0
"""The public description of a release of named arrays: the latent sites of a probabilistic program.

The program itself is not part of the file, and reading the file runs none.

>>> import numpy as np
>>> model = SitesModel(sites=(("slope", (2,)), ("sigma", ())))
>>> model.parameter_names()
['slope[0]', 'slope[1]', 'sigma']
>>> model.original_units(np.array([[1.0, 2.0, 0.5]])).sites["slope"]
array([[1., 2.]])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import whole
from onedraw.errors import InvalidInput
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteParameters:
    """Draws by site: name -> (k, *shape)."""

    sites: Mapping[str, Array]

    def flat(self) -> Array:
        """(k, p): site by site, each row by row."""
        return np.concatenate([value.reshape(len(value), -1) for value in self.sites.values()], axis=1)


@dataclass(frozen=True, kw_only=True)
class SitesModel:
    """Names and shapes of the released arrays, in order."""

    sites: tuple[tuple[str, tuple[int, ...]], ...]

    form: ClassVar[str] = "sites"
    kind: ClassVar[str] = "sites"
    features: ClassVar[tuple[str, ...]] = ()
    classes: ClassVar[None] = None
    scale_floor: ClassVar[None] = None

    def __post_init__(self) -> None:
        names = [name for name, _ in self.sites]
        if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"Expected at least one site, each with a name of its own, got {names!r}.")
        for _, shape in self.sites:
            for size in shape:
                whole(size=size, minimum=0)

    @property
    def dim(self) -> int:
        return sum(math.prod(shape) for _, shape in self.sites)

    def parameter_names(self) -> list[str]:
        """``slope[0]``, ``matrix[1,2]``, and the bare name of a scalar."""
        names = []
        for name, shape in self.sites:
            # The product lists all its ranges first, be they ever so long and the array empty.
            indices = itertools.product(*(range(size) for size in shape)) if 0 not in shape else ()
            names += [f"{name}[{','.join(map(str, index))}]" if shape else name for index in indices]
        return names

    def original_units(self, draws: Array) -> SiteParameters:
        """Draws (k, p) by site."""
        found, start = {}, 0
        for name, shape in self.sites:
            size = math.prod(shape)
            found[name] = draws[:, start : start + size].reshape(len(draws), *shape)
            start += size
        return SiteParameters(sites=found)

    def typical(self, draws: Array) -> Array:
        """The mean of the draws."""
        return np.asarray(draws.mean(axis=0, keepdims=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        sites = [[name, list(shape)] for name, shape in self.sites]
        return {"form": self.form, "kind": self.kind, "sites": sites}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SitesModel:
        """The inverse of ``to_dict``."""
        return cls(sites=tuple((name, tuple(shape)) for name, shape in values["sites"]))
