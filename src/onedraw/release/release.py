# SPDX-License-Identifier: Apache-2.0
"""What may leave: one value that holds a private draw and everything a reader needs to trust it.

Guarantee:
    A ``Release`` contains nothing that depends on the data other than its draws and statistics: no
    acceptance rate, no diagnostics, no fitted values, and the number of records only where neighbouring
    data sets share it (``replace_one``). They lie on public grids: a release with a number off its grid
    cannot be made, so no bit that betrays how a number was computed gets out by way of a forgotten rounding.

Edge cases:
    Draws that are more or fewer than the guarantee says, of another length than the model has parameters, or
    with a scale below its floor are refused likewise. Errors never quote a draw: before it is rounded it is
    private.

>>> from onedraw.model import SitesModel
>>> options = dict(model=SitesModel(sites=(("rate", ()),)), grid=Grid(coefficient=0.25),
...                mechanism=Made(name=""), guarantee=Guarantee(epsilon=1.0), assumptions=(), seeded=True,
...                evidence=Evidence(level="proved", statement="By hand."))
>>> Release(draws=((0.5,),), **options).named_parameters()
{'rate': 0.5}
>>> Release(draws=((0.4,),), **options)
Traceback (most recent call last):
onedraw.errors.InvalidInput: A draw lies off the public grid, so it may not leave. Round it first: grid.round.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw._version import __version__
from onedraw.errors import InvalidInput
from onedraw.privacy.guarantee import Guarantee
from onedraw.release import file
from onedraw.release.grid import Grid
from onedraw.release.html import Markup, element, items, table
from onedraw.release.made import Made, Statistic
from onedraw.release.text import visible
from onedraw.samplers.base import Evidence

SEEDED = "SEEDED: whoever knows the seed can undo the privacy. For tests only; do not publish."
READERS: dict[str, Callable[..., Any]] = {}
"""What layers below compute from a release alone, by name; each adds its own (``onedraw.uncertainty``)."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A published model: draws, what they mean, what is guaranteed, and on what evidence.

    ``model`` is the public description of its kind (an ``onedraw.model.PublicModel``). ``draws`` are in
    working units, on ``grid``; ``parameters`` are in original units, as the type that the model makes.
    ``seeded`` is true if the user fixed the random seed, which voids the guarantee against anyone who knows
    it. ``mechanism`` says how it was made. ``num_records`` is None where it is private. ``statistics`` are
    further numbers that were released with the draws, by name.
    """

    model: Any
    draws: tuple[tuple[float, ...], ...]
    grid: Grid
    mechanism: Made
    guarantee: Guarantee
    assumptions: tuple[str, ...]
    evidence: Evidence
    seeded: bool
    num_records: int | None = None
    receipt: Mapping[str, str] | None = None
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    version: str = __version__

    def __post_init__(self) -> None:
        draws = np.array(self.draws, dtype=np.float64)
        expected = (self.guarantee.draws, self.model.dim)
        if draws.shape != expected:
            raise InvalidInput(
                f"Expected draws of shape {expected}, by the guarantee and the model, got {draws.shape}."
            )
        if not self.grid.holds(draws):
            raise InvalidInput(
                "A draw lies off the public grid, so it may not leave. Round it first: grid.round."
            )
        floor = self.model.scale_floor
        if floor is not None and (draws[:, -1] < floor).any():
            raise InvalidInput(f"A scale lies below its floor {floor:g}. Round it with a grid for scales.")

    @property
    def statement(self) -> str:
        """The guarantee in words, with the condition under which its evidence lets it hold."""
        return self.guarantee.sentence(self.evidence.condition)

    @property
    def parameters(self) -> Any:
        """All draws in original units."""
        return self.model.original_units(np.array(self.draws))

    @property
    def estimate(self) -> Any:
        """The mean of the draws (with one draw: the draw) in original units, with a leading axis of 1.

        Of a network the first draw, because weights have no mean.
        """
        return self.model.original_units(self.model.typical(np.array(self.draws)))

    def __str__(self) -> str:
        lines = [visible(self.statement), f"Evidence - {visible(self.evidence)}", "Assumptions:"]
        lines += [f"  - {visible(assumption)}" for assumption in self.assumptions]
        if self.seeded:
            lines.append(SEEDED)
        lines += ["Parameters:" if len(self.draws) == 1 else f"Mean of the {len(self.draws)} draws:"]
        named = {visible(name): value for name, value in self.named_parameters().items()}
        width = max(len(name) for name in named)
        lines += [f"  {name:<{width}}  {value: .6g}" for name, value in named.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> Markup:
        named = [(name, f"{value:.6g}") for name, value in self.named_parameters().items()]
        warning = [element("p", element("strong", SEEDED))] if self.seeded else []
        rest = (
            element("p", f"Evidence - {self.evidence}"),
            element("p", "Assumptions:"),
            items(self.assumptions),
        )
        return element(
            "div",
            element("p", element("strong", self.statement)),
            *warning,
            table(("parameter", "as released"), named),
            element("details", element("summary", "Evidence and assumptions"), *rest),
            class_="onedraw",
        )

    def summary(self, level: float = 0.95, *, exponentiate: bool = False) -> Any:
        """Estimates, standard errors, tests and intervals from this release alone.

        An ``onedraw.uncertainty.Intervals``, with the numbers that the estimator's ``summary()`` gives; an
        error says why where there are none. ``exponentiate`` gives odds ratios or rate ratios.
        """
        return READERS["summary"](self, level, exponentiate=exponentiate)

    def named_parameters(self) -> dict[str, float]:
        """Name -> value in original units, in the order coefficients, intercepts, scale."""
        return dict(zip(self.model.parameter_names(), self.estimate.flat()[0].tolist(), strict=True))

    def to_arviz(self) -> Any:
        """The released draws, and nothing else, for ArviZ (an extra): one chain, variables by parameter name.

        An ``InferenceData`` of ArviZ below 1.0, an xarray ``DataTree`` from there on.
        """
        arviz = optional("arviz", "Export to ArviZ", "all")
        columns = zip(self.model.parameter_names(), self.parameters.flat().T, strict=True)
        posterior = {name: values[None, :] for name, values in columns}
        grouped = _takes_groups(arviz)
        return arviz.from_dict({"posterior": posterior} if grouped else posterior)

    # -- files

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``docs/release_format.md`` documents every field."""
        return file.to_dict(self)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """JSON text; also written to ``path`` (complete or not at all) if one is given.

        A symbolic link at ``path`` is replaced, not followed.
        """
        text = file.to_text(self)
        if path is not None:
            file.write(text, path)
        return text

    @classmethod
    def from_json(cls, source: str | os.PathLike[str], *, largest: int = file.LARGEST) -> Release:
        """Read a release from a file of up to ``largest`` bytes, or from JSON text. Nothing is executed."""
        return file.read(cls, file.parse(source, largest=largest))

    @classmethod
    def from_dict(cls, content: Any) -> Release:
        """The inverse of ``to_dict``, refusing what it did not write."""
        return file.read(cls, file.plain(content))


def _takes_groups(arviz: Any) -> bool:
    """ArviZ 1.0 replaced one argument per group by a mapping of groups."""
    return int(str(arviz.__version__).split(".")[0]) >= 1
