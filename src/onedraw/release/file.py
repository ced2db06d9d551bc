# SPDX-License-Identifier: Apache-2.0
"""The file of a release: one JSON object that is written whole, and read with distrust.

Guarantee:
    Reading executes nothing and raises ``ReleaseFormatError`` for every file that ``to_text`` did not write,
    whatever it holds. Memory stays in proportion to the file: what a description claims is compared with the
    numbers and names in the file before anything of that size is built (``onedraw.model.outline``), and a
    file larger than ``LARGEST`` is not read.

    Writing goes to a file of an unpredictable name that did not exist before, in the same folder, which then
    takes the place of the target in one step. Nobody sees half a release, and a link that somebody planted
    under either name is not followed.

Edge cases:
    The digest finds accidents and careless edits; it is not a signature. Parameters follow from the draws and
    are compared up to the last bits of a sum, which another machine may round in another way.

>>> digest({"a": 1.0})[:16]
'c29a44abc114a1d7'
>>> parse('{"a": 1' + "0" * 5000 + "}")
Traceback (most recent call last):
onedraw.errors.ReleaseFormatError: The release holds a whole number of 5001 digits. Use the original file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onedraw._validate import positive
from onedraw.errors import OnedrawError, ReleaseFormatError
from onedraw.model import read_model
from onedraw.model.outline import least_size
from onedraw.privacy.guarantee import Guarantee
from onedraw.release.grid import Grid
from onedraw.release.made import Made, Statistic
from onedraw.release.text import shortened
from onedraw.samplers.base import Evidence

if TYPE_CHECKING:
    from onedraw.release.release import Release

R = TypeVar("R", bound="Release")

SCHEMA = "onedraw.release/2"
LARGEST = 2**28
"""Bytes of a file that is read without asking: 256 MiB, a network of millions of weights."""
MOST_DIGITS = 40
"""Of a whole number; more than 128 bits have."""

_WRONG = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError, OnedrawError)
"""What values of the wrong type, sign or size raise on their way through the constructors."""


# -- writing


def to_dict(release: Release) -> dict[str, Any]:
    """Plain values; ``docs/release_format.md`` documents every field."""
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "version": release.version,
        "model": release.model.to_dict(),
        "parameters": release.named_parameters(),
        "draws": [list(draw) for draw in release.draws],
        "grid": {"coefficient": release.grid.coefficient, "scale": release.grid.scale},
        "mechanism": release.mechanism.to_dict(),
        "guarantee": release.guarantee.to_dict(),
        "statement": release.statement,
        "assumptions": list(release.assumptions),
        "evidence": {"level": release.evidence.level, "statement": release.evidence.statement},
        "seeded": release.seeded,
        "num_records": release.num_records,
        "receipt": None if release.receipt is None else dict(release.receipt),
        "statistics": {
            name: {"step": found.step, "values": list(found.values)}
            for name, found in release.statistics.items()
        },
    }
    content["digest"] = digest(content)
    return content


def to_text(release: Release) -> str:
    """The content of the file."""
    return json.dumps(to_dict(release), indent=2, allow_nan=False) + "\n"


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but the digest."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def write(text: str, path: str | os.PathLike[str]) -> None:
    """The text at ``path``, completely or not at all."""
    target = Path(path)
    partial = target.with_name(f".{target.name[:100]}.{secrets.token_hex(16)}.part")
    # EXCL: it must not exist, not even as a link. The mode is what the user's umask leaves of 0666.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(partial, flags, 0o666)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


# -- reading


def parse(source: str | os.PathLike[str], *, largest: int = LARGEST) -> Any:
    """The JSON in a file or text."""
    text = str(source)
    if not text.lstrip().startswith("{"):
        text = _read(text, largest)
    return _parsed(text)


def plain(content: Any) -> Any:
    """The content as JSON would give it back, so that nothing but JSON gets further."""
    try:
        text = json.dumps(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise ReleaseFormatError(f"The release holds what no release can: {shortened(error)}.") from error
    return _parsed(text)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise ReleaseFormatError(
            f"This is not a whole release file (line {error.lineno}: {error.msg}). Copy the original again."
        ) from error
    except RecursionError:
        raise ReleaseFormatError("This is not a release file: it is nested too deeply.") from None


def read(cls: type[R], content: Any) -> R:
    """The release of that content, refusing what ``to_dict`` did not write."""
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else type(content).__name__
        raise ReleaseFormatError(
            f"Expected a release with schema {SCHEMA!r}, got {shortened(repr(found))}. "
            "Read it with the version that wrote it."
        )
    body = {key: value for key, value in content.items() if key != "digest"}
    try:
        expected = digest(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise ReleaseFormatError(f"The release holds what no release can: {shortened(error)}.") from error
    if content.get("digest") != expected:
        raise ReleaseFormatError(
            "The release does not match its digest: it was edited or damaged. Use the original file."
        )
    try:
        _check_size(body)
        release = _from_body(cls, body)
        with np.errstate(all="ignore"):  # numbers too large for their units end up infinite, and are refused
            rewritten = release.to_dict()
    except _WRONG as error:
        raise ReleaseFormatError(
            f"The release lacks or misstates a field ({type(error).__name__}: {shortened(error)}). "
            "Use the original file."
        ) from error
    # Parameters follow from the draws, up to how the last bit of a sum is rounded on another machine.
    differing = [key for key in {**rewritten, **content} if key not in ("parameters", "digest")]
    differing = [key for key in differing if not _same(rewritten.get(key), content.get(key))]
    if not _close(rewritten["parameters"], content["parameters"]):
        differing.append("parameters")
    if differing:
        raise ReleaseFormatError(
            f"The release contradicts itself or its format in {shortened(sorted(differing))}. "
            "Use the original file."
        )
    return release


def _check_size(body: dict[str, Any]) -> None:
    """The model has no more parameters and names than the file has numbers and names."""
    draws, named = body["draws"], body["parameters"]
    if not isinstance(draws, list) or not all(isinstance(draw, list) for draw in draws):
        raise ReleaseFormatError("expected draws to be a list of lists of numbers")
    if not isinstance(named, dict) or not isinstance(body["model"], dict):
        raise ReleaseFormatError("expected the model and its parameters to be objects")
    width = min(map(len, draws), default=0)
    size = least_size(body["model"])
    if size.parameters > width:
        raise ReleaseFormatError(f"the model has {size.parameters} parameters or more, a draw {width}")
    if size.names > len(named) or size.characters > sum(map(len, named)):
        raise ReleaseFormatError("the model has more names than the file")


def _from_body(cls: type[R], body: dict[str, Any]) -> R:
    guarantee = Guarantee(**body["guarantee"])
    if guarantee.bounded_range is not None:
        positive(bounded_range=guarantee.bounded_range)
    return cls(
        model=read_model(body["model"]),
        draws=tuple(tuple(float(value) for value in draw) for draw in body["draws"]),
        grid=Grid(**body["grid"]),
        mechanism=Made.from_dict(body["mechanism"]),
        guarantee=guarantee,
        assumptions=tuple(str(line) for line in body["assumptions"]),
        evidence=Evidence(**{key: str(value) for key, value in body["evidence"].items()}),
        seeded=bool(body["seeded"]),
        num_records=None if body["num_records"] is None else int(body["num_records"]),
        receipt=None if body["receipt"] is None else {str(k): str(v) for k, v in body["receipt"].items()},
        statistics={
            str(name): Statistic(values=tuple(float(v) for v in found["values"]), step=found["step"])
            for name, found in body["statistics"].items()
        },
        version=str(body["version"]),
    )


def _read(path: str, largest: int) -> str:
    try:
        with open(path, "rb") as stream:
            content = stream.read(largest + 1)
        if len(content) > largest:
            raise ReleaseFormatError(
                f"The file {shortened(path)!r} has more than {largest} bytes. "
                "Read it with Release.from_json(path, largest=...) if you trust it."
            )
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:  # a null byte in the name is a ValueError
        if isinstance(error, ReleaseFormatError):
            raise
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ReleaseFormatError(
            f"Cannot read a release from {shortened(path, 200)!r} ({reason}). "
            "Give the path of a release file, as a fit writes it, or its text."
        ) from error


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ReleaseFormatError(
            f"The release holds a whole number of {len(digits)} digits. Use the original file."
        )
    return int(digits)


def _refuse_constant(name: str) -> float:
    raise ReleaseFormatError(
        f"The release holds {name}, which is not a released number. Use the original file."
    )


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1, and "1" is not 1."""
    return digest({"": left}) == digest({"": right})


def _close(left: dict[str, float], right: Any) -> bool:
    if not isinstance(right, dict) or list(left) != list(right):
        return False
    return all(
        isinstance(v, float) and math.isclose(v, left[k], rel_tol=1e-9, abs_tol=1e-9)
        for k, v in right.items()
    )
