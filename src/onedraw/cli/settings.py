# SPDX-License-Identifier: Apache-2.0
"""Options of ``onedraw fit`` that hold several values: settings of a mechanism, and layers of a network.

>>> read_settings(["epochs=20", "clip=0.5", "optimiser=sgd"])
{'epochs': 20, 'clip': 0.5, 'optimiser': 'sgd'}
>>> read_layers("10,5"), read_layers("none")
((10, 5), ())
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onedraw.errors import InvalidInput


def read_settings(given: Sequence[str]) -> dict[str, Any]:
    """``name=value`` each, as a dict; what reads as a number is one. Names are left to the mechanism."""
    settings: dict[str, Any] = {}
    for text in given:
        name, separator, value = (part.strip() for part in text.partition("="))
        if not (name and separator and value):
            raise InvalidInput(
                f"Expected --mechanism-option as name=value, for example epochs=20, got {text!r}."
            )
        name = name.replace("-", "_")
        if name in settings:
            raise InvalidInput(f"--mechanism-option gives {name} twice. Keep one of them.")
        settings[name] = _value(value)
    return settings


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_layers(text: str) -> tuple[int, ...]:
    """Units of each hidden layer, separated by commas; ``none`` for a network without any."""
    if text.strip() == "none":
        return ()
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"Expected --hidden-layer-sizes as whole numbers separated by commas, or none, got {text!r}. "
            "For example 10,5."
        ) from None
