# SPDX-License-Identifier: Apache-2.0
"""Every compared method by name, for legends and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from onedraw.research.experiments.methods import METHODS
from onedraw.research.experiments.network_methods import NETWORK_METHODS


class Named(Protocol):
    """What a reader is told about a method: its name, and in short what it guarantees."""

    @property
    def label(self) -> str: ...

    @property
    def promise(self) -> str: ...


NAMED: Mapping[str, Named] = {**NETWORK_METHODS, **METHODS}
