# SPDX-License-Identifier: Apache-2.0
"""The mechanisms that networks offer by name beside the default, and the options that each of them uses.

A mechanism by noisy gradients has settings of its own (epochs, clip, ...). They come together, in
``mechanism_options``; options that the estimator has anyway (``beta``, ``draws``, ...) are used as they are.

>>> sorted(settings("dp_sgd"))
['batch_size', 'clip', 'epochs', 'learning_rate', 'num_records', 'optimiser', 'preset']
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from onedraw.estimators.offered import DEFAULT, DEFAULT_OPTIONS, checked_settings
from onedraw.model import NetworkModel
from onedraw.nn.beta_sgd import BetaSGD
from onedraw.nn.dp_sgd import DPSGD
from onedraw.nn.dp_vi import DPVI
from onedraw.nn.noisy_gradients import NoisyGradients
from onedraw.release import Release

BY_GRADIENTS: Mapping[str, type[NoisyGradients]] = {kind.name: kind for kind in (DPSGD, BetaSGD, DPVI)}
OPTIONS: Mapping[str, tuple[str, ...]] = {
    DEFAULT: (*DEFAULT_OPTIONS, "sampler", "assume_sampler_error"),
    DPSGD.name: ("beta", "noise_floor", "mechanism_options"),
    BetaSGD.name: ("beta", "mechanism_options"),
    DPVI.name: ("beta", "weight", "prior_scale", "draws", "noise_floor", "mechanism_options"),
}
"""The options of the estimators that not every mechanism uses, by the mechanisms that do."""
ELSEWHERE = {"model", "promise", "beta", "weight", "prior_scale", "draws"}
"""Fields of a mechanism that the estimator fills."""


def settings(name: str) -> set[str]:
    """What ``mechanism_options`` may hold; nothing for the default mechanism."""
    if name not in BY_GRADIENTS:
        return set()
    return {field.name for field in dataclasses.fields(BY_GRADIENTS[name])} - ELSEWHERE


def build(name: str, estimator: Any, *, model: NetworkModel, num_records: int | None) -> NoisyGradients:
    """The mechanism, not yet calibrated; ``num_records`` is None where it is private."""
    given = checked_settings(name, settings(name), estimator.mechanism_options)
    chosen: dict[str, Any] = {"num_records": num_records, **given}
    used = OPTIONS[name]
    for option, default in (("beta", "auto"), ("weight", None), ("prior_scale", None), ("draws", None)):
        value = getattr(estimator, option)
        if option in used and value != default:
            chosen[option] = value
    return BY_GRADIENTS[name](model=model, **chosen)


def options_of(release: Release) -> dict[str, Any]:
    """Constructor arguments beside those of every network, as far as a release tells."""
    told = release.mechanism
    name = str(told["name"])
    whole = {"num_records": "declared_num_records", "epochs": "epochs", "batch_size": "batch_size"}
    chosen: dict[str, Any] = {option: int(float(told[key] or 0)) for option, key in whole.items()}
    chosen |= {option: told[option] for option in ("learning_rate", "optimiser")}
    if name == BetaSGD.name:
        chosen |= {option: told[option] for option in ("feature_norm", "weight_norm")}
    else:
        chosen["clip"] = told["gradient_norm"]
    kept = {option: told[option] for option in ("beta", "weight", "prior_scale") if option in told}
    return {"mechanism": name, "mechanism_options": chosen, **kept}
