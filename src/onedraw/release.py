# SPDX-License-Identifier: Apache-2.0
"""What may leave: one value that holds a private draw and everything a reader needs to trust it.

A ``Release`` contains nothing that depends on the data other than its draws: no acceptance rate, no
diagnostics, no fitted values, and the number of records only where neighbouring data sets share it
(``replace_one``).

**The grid.** A double carries 52 bits, and the last of them can betray how a number was computed. Released
numbers are therefore rounded to multiples of a public step: 2^-40 of the prior scale (rounded to a power of
two) for coefficients, 2^-40 of the floor for a residual scale (rounded up, so that it never falls below its
floor). That is a millionth of a standard error even at n = 1e10, so it costs no accuracy, and it drops the
12 or more lowest bits of every number up to the prior scale, and one bit less for each doubling above it.

>>> spacing = coefficient_step(3.0)
>>> spacing == 2.0 ** -38
True
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw._version import __version__
from onedraw.errors import OnedrawError, ReleaseFormatError
from onedraw.model import read_model
from onedraw.privacy.guarantee import Guarantee
from onedraw.samplers.base import Evidence
from onedraw.types import Array

SCHEMA = "onedraw.release/1"
GRID_BITS = 40
TO_ESTIMATOR: list[Callable[[Release], Any]] = []
"""How a release becomes an estimator: the layer of estimators, which is below this one, adds itself."""


def coefficient_step(prior_scale: float) -> float:
    """The public spacing of released coefficients, a power of two."""
    return _power_of_two(prior_scale)


def scale_step(scale_floor: float) -> float:
    """The public spacing of released residual scales, a power of two."""
    return _power_of_two(scale_floor)


def _power_of_two(unit: float) -> float:
    exponent = round(math.log2(unit)) - GRID_BITS
    return math.ldexp(1.0, max(exponent, -1022))  # never so small that it underflows


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The public grid that released numbers lie on, in working units."""

    coefficient: float
    scale: float | None = None

    def round(self, draws: Array) -> Array:
        """Draws (k, p) moved to the grid; the last column is the scale if the grid has one for it."""
        rounded = np.rint(draws / self.coefficient) * self.coefficient + 0.0  # no negative zero
        if self.scale is not None:
            rounded[:, -1] = np.ceil(draws[:, -1] / self.scale) * self.scale
        return rounded

    def holds(self, draws: Array) -> bool:
        """Whether every number of draws (k, p) lies on the grid."""
        steps = np.full(draws.shape[1], self.coefficient)
        if self.scale is not None:
            steps[-1] = self.scale
        return bool((np.remainder(draws, steps) == 0.0).all())


@dataclass(frozen=True, kw_only=True)
class Release:
    """A published model: draws, what they mean, what is guaranteed, and on what evidence.

    ``model`` is the public description of its kind (an ``onedraw.model.PublicModel``). ``draws`` are in
    working units, on ``grid``; ``parameters`` are in original units, as the type that the model makes.
    ``seeded`` is true if the user fixed the random seed, which voids the guarantee against anyone who knows
    it. ``mechanism`` names the posterior that was drawn from (loss, beta, weight, prior). ``num_records`` is
    None where it is private.
    """

    model: Any
    draws: tuple[tuple[float, ...], ...]
    grid: Grid
    mechanism: Mapping[str, str | float | None]
    guarantee: Guarantee
    assumptions: tuple[str, ...]
    evidence: Evidence
    seeded: bool
    num_records: int | None = None
    receipt: Mapping[str, str] | None = None
    version: str = __version__

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
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "version": self.version,
            "model": self.model.to_dict(),
            "parameters": self.named_parameters(),
            "draws": [list(draw) for draw in self.draws],
            "grid": {"coefficient": self.grid.coefficient, "scale": self.grid.scale},
            "mechanism": dict(self.mechanism),
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

    def to_estimator(self) -> Any:
        """A fitted scikit-learn estimator that predicts with the released parameters; needs no data."""
        return TO_ESTIMATOR[-1](self)

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
            text = _read(text)
        try:
            content = json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise ReleaseFormatError(
                f"This is not a whole release file (line {error.lineno}: {error.msg}). "
                "Copy the original again."
            ) from error
        except RecursionError:
            raise ReleaseFormatError("This is not a release file: it is nested too deeply.") from None
        return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: Any) -> Release:
        """The inverse of ``to_dict``, refusing what it did not write."""
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            found = content.get("schema") if isinstance(content, dict) else type(content).__name__
            raise ReleaseFormatError(
                f"Expected a release with schema {SCHEMA!r}, got {found!r}. "
                "Read it with the version that wrote it."
            )
        body = {key: value for key, value in content.items() if key != "digest"}
        try:
            digest = _digest(body)
        except (TypeError, ValueError) as error:
            raise ReleaseFormatError(f"The release holds what no release can: {error}.") from error
        if content.get("digest") != digest:
            raise ReleaseFormatError(
                "The release does not match its digest: it was edited or damaged. Use the original file."
            )
        try:
            release = cls._from_body(body)
            _check_draws(release)
            rewritten = release.to_dict()
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError, OnedrawError) as error:
            raise ReleaseFormatError(
                f"The release lacks or misstates a field ({type(error).__name__}: {error}). "
                "Use the original file."
            ) from error
        # Parameters follow from the draws, up to how the last bit of a sum is rounded on another machine.
        differing = [key for key in {**rewritten, **content} if key not in ("parameters", "digest")]
        differing = [key for key in differing if not _same(rewritten.get(key), content.get(key))]
        if not _close(rewritten["parameters"], content["parameters"]):
            differing.append("parameters")
        if differing:
            raise ReleaseFormatError(
                f"The release contradicts itself or its format in {sorted(differing)}. Use the original file."
            )
        return release

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> Release:
        return cls(
            model=read_model(body["model"]),
            draws=tuple(tuple(float(value) for value in draw) for draw in body["draws"]),
            grid=Grid(**body["grid"]),
            mechanism=dict(body["mechanism"]),
            guarantee=Guarantee(**body["guarantee"]),
            assumptions=tuple(str(line) for line in body["assumptions"]),
            evidence=Evidence(**{key: str(value) for key, value in body["evidence"].items()}),
            seeded=bool(body["seeded"]),
            num_records=None if body["num_records"] is None else int(body["num_records"]),
            receipt=None if body["receipt"] is None else {str(k): str(v) for k, v in body["receipt"].items()},
            version=str(body["version"]),
        )


def _takes_groups(arviz: Any) -> bool:
    """ArviZ 1.0 replaced one argument per group by a mapping of groups."""
    return int(str(arviz.__version__).split(".")[0]) >= 1


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # UnicodeDecodeError and a null byte in the name are ValueErrors
        shown = path if len(path) <= 200 else path[:200] + "..."
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ReleaseFormatError(
            f"Cannot read a release from {shown!r} ({reason}). "
            "Give the path of a file written by to_json, or its text."
        ) from error


def _refuse_constant(name: str) -> float:
    raise ReleaseFormatError(
        f"The release holds {name}, which is not a released number. Use the original file."
    )


def _check_draws(release: Release) -> None:
    """Draws are as many as guaranteed, of the model's dimension, on the grid, and not below the floor."""
    draws = np.array(release.draws)
    expected = (release.guarantee.draws, release.model.dim)
    if draws.shape != expected:
        raise ReleaseFormatError(f"expected draws of shape {expected}, got {draws.shape}")
    if not release.grid.holds(draws):
        raise ReleaseFormatError("a draw lies off the public grid")
    floor = release.model.scale_floor
    if floor is not None and (draws[:, -1] < floor).any():
        raise ReleaseFormatError("a scale lies below its floor")


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1, and "1" is not 1."""
    return _digest({"": left}) == _digest({"": right})


def _close(left: dict[str, float], right: Any) -> bool:
    if not isinstance(right, dict) or list(left) != list(right):
        return False
    return all(
        isinstance(v, float) and math.isclose(v, left[k], rel_tol=1e-9, abs_tol=1e-9)
        for k, v in right.items()
    )


def _digest(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON: finds accidents and careless edits, it is not a signature."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
