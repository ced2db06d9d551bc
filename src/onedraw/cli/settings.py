# SPDX-License-Identifier: Apache-2.0
"""The options of a mechanism on the command line: ``--mechanism NAME`` and ``--mechanism-option NAME=VALUE``.

>>> read_settings(["epochs=20", "clip=0.5", "optimiser=sgd"])
{'epochs': 20, 'clip': 0.5, 'optimiser': 'sgd'}
>>> read_mechanism_options("output_perturbation", ["feature_norm=2", "noise=laplace"]).noise
'laplace'
>>> read_mechanism_options("output_perturbation", ["feature_morn=2"])
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected option to be one of ... Did you mean 'feature_norm'? ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onedraw._validate import one_of
from onedraw.advice import Do, Set
from onedraw.errors import InvalidInput
from onedraw.mechanisms.base import build
from onedraw.registry import AUTO, MECHANISMS

WORDS = {"true": True, "false": False, "none": None}


def read_mechanism_options(name: str | None, given: Sequence[str]) -> Any:
    """What the estimator takes as ``mechanism``: a name, or the mechanism with these options."""
    chosen = AUTO if name is None else name.replace("-", "_")
    if not given:
        return chosen
    if chosen == AUTO:
        wanted = set(read_settings(given))
        owners = [name for name, kind in MECHANISMS.items() if wanted <= set(kind.option_names())]
        raise InvalidInput(
            "--mechanism-option is for a mechanism that is named.",
            advice=[Set("mechanism", name) for name in owners[:3]]
            or Do("see `onedraw fit --help` and docs/mechanisms.md for the mechanisms and their options"),
        )
    return build(MECHANISMS[one_of(MECHANISMS, mechanism=chosen)], read_settings(given))


def read_settings(given: Sequence[str]) -> dict[str, Any]:
    """``name=value`` each, as a dict; what reads as a number is one."""
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


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
