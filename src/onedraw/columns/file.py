# SPDX-License-Identifier: Apache-2.0
"""The file of a declaration: TOML or YAML, as plain values.

>>> import os, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "columns.toml")
...     _ = Path(path).write_text('ignore = ["id"]')
...     load(path)
{'ignore': ['id']}
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from onedraw._extras import optional
from onedraw.errors import InvalidInput


def load(path: str) -> Any:
    """What stands in a .toml, .yaml or .yml file."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".toml", ".yaml", ".yml"):
        raise InvalidInput(f"Expected the column specification in a .toml or .yaml file, got {path!r}.")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise InvalidInput(f"Cannot read the column specification {path!r} ({reason}).") from None
    loads, broken = _toml() if suffix == ".toml" else _yaml()
    try:
        return loads(text)
    except broken as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"The column specification {path!r} is not valid: {first}.") from None


def _toml() -> tuple[Any, type[Exception]]:
    for name in ("tomllib", "tomli"):  # the standard library has it since Python 3.11
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return module.loads, module.TOMLDecodeError
    raise InvalidInput(
        "A TOML specification needs Python 3.11 or later (or: pip install tomli). Or write it as YAML."
    )


def _yaml() -> tuple[Any, type[Exception]]:
    module = optional("yaml", "A YAML specification", "all")
    return module.safe_load, module.YAMLError
