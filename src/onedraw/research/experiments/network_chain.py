# SPDX-License-Identifier: Apache-2.0
"""States of one short chain of the no-U-turn sampler, for experiments: NOT PRIVATE, and not checked.

The paper draws from one chain. So does this, with fewer and shorter trajectories; to make up for that the
chain starts near a mode instead of at a draw from the prior. The mode is looked for at a beta near 1 first,
where the loss of a record that is far from its prediction still has a slope, and followed from there.

A gradient is all that a chain spends its time on, so several chains in one vectorised call take as long as
one after another: 31 microseconds a gradient of 1,000 records either way, on one core. What helps is single
precision (17), fewer blocks (30 where there were 45 in double precision), and code that is compiled once for
tables of many sizes.
"""

from __future__ import annotations

import functools
import importlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from onedraw.nn.networks import NetworkDensity, NetworkPosterior, padded_blocks
from onedraw.samplers.nuts import NutsSampler, double_precision
from onedraw.types import Array

SHARED_SHAPES = ((1, 128), (2, 512))
"""Blocks, and records of a block. Tables of up to 128 records share compiled code, which takes longer to make
than most chains take to run, and so do those of up to 1,024, where a block that is padding is skipped."""
STARTS = 4
NEAR_ONE = 1.01
FIRST, SECOND, LAST = 100, 300, 500
"""Iterations from every start, on from the best of them, and at the true beta."""


@dataclass(frozen=True, kw_only=True)
class OneChain(NutsSampler):
    """One chain with short trajectories; never for a release: nothing checks it."""

    chains: int = 1
    warmup: int = 250
    kept: int = 50
    max_depth: int = 6

    def __post_init__(self) -> None:
        """One chain has none to be compared with, so no threshold is asked for."""

    def arithmetic(self) -> AbstractContextManager[None]:
        """Single precision, which halves the time; energies of a few thousand keep three decimals."""
        single: AbstractContextManager[None] = importlib.import_module("jax").enable_x64(False)
        return single

    def states(self, posterior: NetworkPosterior, rng: np.random.Generator) -> Array:
        """The kept states (kept, p), in order."""
        data = shared_shapes(posterior)
        start = near_mode(posterior, data, rng)
        density: Any = posterior.density  # its parameters are named otherwise
        found = self.run(density, data, start[None, :], rng)
        states: Array = np.asarray(found.positions)[0]
        return states


def shared_shapes(posterior: NetworkPosterior) -> dict[str, Any]:
    """The data of the posterior in arrays of the same shapes for all small tables."""
    data, records = posterior.data, posterior.records
    for blocks, size in SHARED_SHAPES:
        num = -(-len(records.response) // size)
        if num <= blocks:
            shared = padded_blocks(records.features, records.response, num=blocks, size=size)
            return {**data, "blocks": shared, "num_blocks": np.asarray(num, dtype=np.int32)}
    return data


def near_mode(posterior: NetworkPosterior, data: dict[str, Any], rng: np.random.Generator) -> Array:
    """A place of high density, (p,)."""
    with double_precision():
        jax = importlib.import_module("jax")
        steep = _compiled(posterior.density)
        data = jax.tree.map(jax.numpy.asarray, data)
        smooth = {**data, "beta": jax.numpy.asarray(NEAR_ONE)}

        def climb(start: Array, among: dict[str, Any], iterations: int) -> Any:
            def objective(theta: Array) -> tuple[float, Array]:
                value, slope = steep(theta, among)
                return float(value), np.asarray(slope)

            return optimize.minimize(
                objective, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations}
            )

        first = [climb(start, smooth, FIRST) for start in posterior.initial(STARTS, rng)]
        best = min(first, key=lambda found: float(found.fun))
        return np.asarray(climb(climb(best.x, smooth, SECOND).x, data, LAST).x)


@functools.lru_cache(maxsize=32)
def _compiled(density: NetworkDensity) -> Any:
    """Minus the log density, and its gradient."""
    jax = importlib.import_module("jax")
    return jax.jit(jax.value_and_grad(lambda theta, data: -density(theta, data)))
