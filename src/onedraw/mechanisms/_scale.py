# SPDX-License-Identifier: Apache-2.0
"""The floor of a residual scale, and guesses of it, from units of the response to working units.

>>> from onedraw.families import Gaussian
>>> from onedraw.model import RegressionModel
>>> model = RegressionModel(family=Gaussian(), features=("x",), target_bounds=(0.0, 100.0))
>>> with_floor(model, 2.0, None).scale_floor
0.04
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onedraw.advice import LeaveOut
from onedraw.errors import InvalidInput

DEFAULT_FLOOR = 0.1
"""In working units."""


def with_floor(model: Any, noise_floor: float | None, noise_scale: float | None) -> Any:
    """The model with its residual scale among the parameters, never below the floor; no scale, no change."""
    if not model.family.has_scale:
        for name, value in (("noise_floor", noise_floor), ("noise_scale", noise_scale)):
            if value is not None:
                raise InvalidInput(
                    f"{name}={value!r} does not apply to a {model.kind} model, which has no residual scale.",
                    advice=LeaveOut(name),
                )
        return model
    floor = DEFAULT_FLOOR if noise_floor is None else noise_floor / model.target_unit
    guess = working_scale(model, noise_scale)
    if guess is not None and guess < floor:
        raise InvalidInput(
            f"Expected noise_scale >= noise_floor = {floor * model.target_unit:g}, "
            f"got noise_scale={noise_scale:g}. "
            "The scale is never below its floor: lower noise_floor."
        )
    return model.with_scale(replace(model.family, scale_floor=floor))


def working_scale(model: Any, noise_scale: float | None) -> float | None:
    """A guess of the residual scale in working units."""
    return None if noise_scale is None else float(noise_scale / model.target_unit)
