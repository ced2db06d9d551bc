# SPDX-License-Identifier: Apache-2.0
"""Optional dependencies, imported where they are first used.

>>> optional("no_such_package", "This example", "all")
Traceback (most recent call last):
onedraw.errors.MissingExtra: This example needs an extra: pip install '...[all]'.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from onedraw.errors import MissingExtra


def optional(module: str, what: str, extra: str) -> Any:
    """The module, or an error that names the extra which ``what`` needs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a dependency deprecates is not the user's affair
            return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(what, extra) from error
