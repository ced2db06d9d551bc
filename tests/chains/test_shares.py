# SPDX-License-Identifier: Apache-2.0
"""Draws from public proposals spend epsilon once, whatever the shares of their first stages."""

import dataclasses

import pytest

from onedraw.mechanisms import Shape
from onedraw.mechanisms._perfect_draw import PerfectDraw
from onedraw.privacy import Request
from onedraw.registry import MECHANISMS

STAGED = [name for name, kind in MECHANISMS.items() if issubclass(kind, PerfectDraw)]


@pytest.mark.parametrize("name", STAGED)
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("first", [0.0, 0.2, 0.35])
def test_the_draw_spends_what_the_first_stages_leave(name, neighbours, rows, first, examples):
    """A draw alone at that part of epsilon has the same weight."""
    example = examples.mechanism(name)
    staged = dataclasses.replace(example.mechanism, first_stage=first)
    alone = dataclasses.replace(example.mechanism, first_stage=0.0)
    level = getattr(staged, staged.level_part) if staged.level_part and first else 0.0
    terms = {"neighbours": neighbours, "rows_per_person": rows}
    shape = Shape(model=example.model)
    spent = staged.calibrate(Request(epsilon=0.8, **terms), shape)
    left = alone.calibrate(Request(epsilon=0.8 * (1.0 - first - level), **terms), shape)
    assert spent.guarantee.epsilon == 0.8
    assert spent.calibrated.weight == pytest.approx(left.calibrated.weight, rel=1e-12)
