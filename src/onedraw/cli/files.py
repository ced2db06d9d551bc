# SPDX-License-Identifier: Apache-2.0
"""An output file, written completely or not at all, whose obstacles show before any budget is spent.

>>> import os, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> path = os.path.join(folder.name, "release.json")
>>> with output_file(path) as write:
...     write("{}")
>>> os.listdir(folder.name)
['release.json']
>>> folder.cleanup()
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from onedraw.errors import InvalidInput


@contextlib.contextmanager
def output_file(
    path: str, *, force: bool = False, inputs: tuple[str | None, ...] = ()
) -> Iterator[Callable[[str | bytes], None]]:
    """A function that takes the file's content. Entering checks that it can be written; leaving writes it.

    ``inputs`` are files that it may not replace, whatever ``force`` says.
    """
    parts: list[str | bytes] = []
    with output_path(path, force=force, inputs=inputs) as partial:
        yield parts.append
        with _told(path), open(partial, "wb") as file:
            file.write(b"".join(p.encode() if isinstance(p, str) else p for p in parts))


@contextlib.contextmanager
def output_path(path: str, *, force: bool = False, inputs: tuple[str | None, ...] = ()) -> Iterator[str]:
    """The path of a temporary file, which becomes the output on leaving without an error."""
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(f"The output {path!r} is a folder. Name a file in it.")
    for other in inputs:
        if other is not None and _same_file(target, other):
            raise InvalidInput(f"The output {path!r} is also an input. Choose another name.")
    if target.exists() and not force:
        raise InvalidInput(f"The file {path!r} exists. Choose another name, or add --force to replace it.")
    try:
        handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InvalidInput(
            f"Cannot write to the folder of {path!r} ({error.strerror}). Choose another, or create it."
        ) from None
    os.close(handle)
    try:
        yield partial
        with _told(path):
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            os.chmod(partial, 0o666 & ~_umask())  # temporary files are the owner's only; this is to be shared
            os.replace(partial, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """What goes wrong with the disk, in words."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"Cannot write {path!r} ({error.strerror}). Nothing was written. A charge stays charged."
        ) from error


def _same_file(target: Path, other: str) -> bool:
    try:
        return target.samefile(other)
    except OSError:  # one of them does not exist
        return False


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
