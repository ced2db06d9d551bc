# SPDX-License-Identifier: Apache-2.0
"""What may leave: one value that holds a private draw and everything a reader needs to trust it.

A ``Release`` contains nothing that depends on the data other than its draws: no acceptance rate, no
diagnostics, no fitted values, and the number of records only where neighbouring data sets share it
(``replace_one``).

**The grid.** A double carries 52 bits, and the last of them can betray how a number was computed. Released
numbers are therefore rounded to multiples of a public step: 2^-40 of the prior scale (rounded to a power of
two) for coefficients, 2^-40 of the floor for a residual scale (rounded up, so that it never falls below its
floor). That is a millionth of a standard error even at n = 1e10, so it costs no accuracy, and it drops the
11 or more lowest bits of every number larger than the prior scale times 2^-1 and more of smaller ones.

>>> spacing = coefficient_step(3.0)
>>> spacing == 2.0 ** -38
True
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onedraw._version import __version__
from onedraw.errors import OnedrawError, ReleaseFormatError
from onedraw.model import Parameters, RegressionModel
from onedraw.privacy.guarantee import Guarantee
from onedraw.samplers.base import Evidence
from onedraw.types import Array

SCHEMA = "onedraw.release/1"
GRID_BITS = 40


def coefficient_step(prior_scale: float) -> float:
    """The public spacing of released coefficients, a power of two."""
    return 2.0 ** (round(math.log2(prior_scale)) - GRID_BITS)


def scale_step(scale_floor: float) -> float:
    """The public spacing of released residual scales, a power of two."""
    return 2.0 ** (round(math.log2(scale_floor)) - GRID_BITS)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The public grid that released numbers lie on, in working units."""

    coefficient: float
    scale: float | None = None

    def round(self, draws: Array) -> Array:
        """Draws (k, p) moved to the grid; the last column is the scale if the grid has one for it."""
        rounded = np.rint(draws / self.coefficient) * self.coefficient
        if self.scale is not None:
            rounded[:, -1] = np.ceil(draws[:, -1] / self.scale) * self.scale
        return rounded


@dataclass(frozen=True, kw_only=True)
class Release:
    """A published model: draws, what they mean, what is guaranteed, and on what evidence.

    ``draws`` are in working units, on ``grid``; ``parameters`` are in original units. ``seeded`` is true if
    the user fixed the random seed, which voids the guarantee against anyone who knows it. ``num_records`` is
    None where it is private.
    """

    model: RegressionModel
    draws: tuple[tuple[float, ...], ...]
    grid: Grid
    guarantee: Guarantee
    assumptions: tuple[str, ...]
    evidence: Evidence
    seeded: bool
    num_records: int | None = None
    receipt: Mapping[str, str] | None = None
    version: str = __version__

    @property
    def parameters(self) -> Parameters:
        """All draws in original units."""
        return self.model.original_units(np.array(self.draws))

    @property
    def estimate(self) -> Parameters:
        """The mean of the draws (with one draw: the draw) in original units, with a leading axis of 1."""
        return self.model.original_units(np.array(self.draws).mean(axis=0, keepdims=True))

    def __str__(self) -> str:
        lines = [str(self.guarantee), f"Evidence - {self.evidence}", "Assumptions:"]
        lines += [f"  - {assumption}" for assumption in self.assumptions]
        if self.seeded:
            lines.append(
                "SEEDED: whoever knows the seed can undo the privacy. For tests only; do not publish."
            )
        lines += ["Parameters:"]
        named = self.named_parameters()
        width = max(len(name) for name in named)
        lines += [f"  {name:<{width}}  {value: .6g}" for name, value in named.items()]
        return "\n".join(lines)

    def named_parameters(self) -> dict[str, float]:
        """Name -> value in original units, in the order coefficients, intercepts, scale."""
        names: list[str] = []
        tags = [""] if self.model.num_outputs == 1 else [f" [{c}]" for c in self.model.classes or ()]
        for tag in tags:
            names += [f"{feature}{tag}" for feature in self.model.features]
        names += [f"(intercept){tag}" for tag in tags]
        names += ["(scale)"] if self.model.scale_floor is not None else []
        return dict(zip(names, self.estimate.flat()[0].tolist(), strict=True))

    # -- files
    # --------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``docs/release_format.md`` documents every field."""
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "version": self.version,
            "model": self.model.to_dict(),
            "parameters": self.named_parameters(),
            "draws": [list(draw) for draw in self.draws],
            "grid": {"coefficient": self.grid.coefficient, "scale": self.grid.scale},
            "guarantee": self.guarantee.to_dict(),
            "statement": str(self.guarantee),
            "assumptions": list(self.assumptions),
            "evidence": {"level": self.evidence.level, "statement": self.evidence.statement},
            "seeded": self.seeded,
            "num_records": self.num_records,
            "receipt": None if self.receipt is None else dict(self.receipt),
        }
        content["digest"] = _digest(content)
        return content

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """JSON text; also written to ``path`` (complete or not at all) if one is given."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
        if path is not None:
            target = Path(path)
            partial = target.with_name(target.name + ".part")
            partial.write_text(text, encoding="utf-8")
            partial.replace(target)
        return text

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> Release:
        """Read a release from a file, or from JSON text. Nothing in it is executed."""
        text = str(source)
        if not text.lstrip().startswith("{"):
            try:
                text = Path(source).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ReleaseFormatError(f"Cannot read a release from {text!r}: {error}.") from error
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise ReleaseFormatError(
                f"This is not a whole release file (line {error.lineno}: {error.msg}). Copy the original again."
            ) from error
        return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: Any) -> Release:
        """The inverse of ``to_dict``, refusing what it did not write."""
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            found = content.get("schema") if isinstance(content, dict) else type(content).__name__
            raise ReleaseFormatError(f"Expected a release with schema {SCHEMA!r}, got {found!r}.")
        stated = content.get("digest")
        if stated != _digest({key: value for key, value in content.items() if key != "digest"}):
            raise ReleaseFormatError(
                "The release does not match its digest: it was edited or damaged. Use the original file."
            )
        try:
            return cls(
                model=RegressionModel.from_dict(content["model"]),
                draws=tuple(tuple(float(v) for v in draw) for draw in content["draws"]),
                grid=Grid(**content["grid"]),
                guarantee=Guarantee(**content["guarantee"]),
                assumptions=tuple(content["assumptions"]),
                evidence=Evidence(**content["evidence"]),
                seeded=bool(content["seeded"]),
                num_records=content["num_records"],
                receipt=content["receipt"],
                version=content["version"],
            )
        except (KeyError, TypeError, ValueError, OnedrawError) as error:
            raise ReleaseFormatError(f"The release lacks or misstates a field: {error}.") from error


def _digest(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON: finds accidents and careless edits, it is not a signature."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
