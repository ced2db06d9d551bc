# SPDX-License-Identifier: Apache-2.0
"""A cell of parameters as one record sees it, over which the proving sampler asks for bounds of the loss.

Over a cell, the linear predictor of a record moves in an interval and the scale in another. A family with
``has_cell_bounds`` gives two kinds of bound, elementwise, each with its proof:

* ``loss_minimum``: a number below the loss everywhere in the cell;
* ``loss_concavity``: a, c >= 0 such that the Hessian of the loss in (eta, log scale) is at least -diag(a, c)
  in the cell. A second-order expansion at the centre is then a bound too, and a far better one near a mode,
  where gradients cancel.

The sampler refuses families without them.
"""

from __future__ import annotations

from dataclasses import dataclass

from onedraw.types import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """Intervals: the linear predictor (rows, cells), and the scale (1, cells) for families that have one."""

    eta_low: Array
    eta_high: Array
    scale_low: Array | None = None
    scale_high: Array | None = None
