# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient descent that sees the data only through noisy sums of bounded vectors.

A step draws a Poisson batch (every record with probability q, independently), adds up the gradients of its
records, each shrunk to length C if longer (by jax-privacy), adds N(0, (z C)^2) noise to every coordinate, and
hands the result to an optimiser.

Guarantee:
    What the data touch in T steps is the mechanism of ``onedraw.privacy.subsampled``; everything else
    (optimiser, gradients of priors, projections, what is made of the last parameters) is computed from its
    outputs and public numbers, and costs nothing. Sums are divided by the declared size of a batch, not by
    the true one.

    Gradients are clipped a millionth below C, far more than the rounding of norms and of sums. A gradient
    that is not a number, or whose norm overflows, counts as 0.

Random numbers: batches and noise are drawn by NumPy from the generator of the release, which is the secure
one (``onedraw._random``) unless the user fixed a seed. JAX draws none.

Edge cases:
    An empty batch is a step of pure noise. A batch larger than the compiled size is added up in several
    pieces, never cut. Parameters are held within +-2^20, so that no run can end in an infinite number.

>>> run = Run(sampling=Sampling(rate=0.1, steps=3), clip=1.0, noise=2.0, expected=100.0, optimiser="sgd",
...           learning_rate=0.1)
>>> run.physical
138
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw._progress import progress
from onedraw.nn.objectives import Objective
from onedraw.privacy.subsampled import Sampling
from onedraw.records import Records
from onedraw.types import AnyArray, Array

OPTIMISERS = ("adam", "sgd")
SHRINK = 1.0 - 1e-6
"""Gradients are clipped to this fraction of C."""
LARGEST = 2.0**20
"""What larger parameters count as."""
MOST_STEPS, LARGEST_CALL = 32, 2**18
"""Steps that one compiled call takes, at most, and numbers of the batches that it is given: handing over
every step by itself takes longer than computing it."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The public numbers of a run: ``noise`` is z C, ``expected`` the declared size of a batch."""

    sampling: Sampling
    clip: float
    noise: float
    expected: float
    optimiser: str
    learning_rate: float

    @property
    def physical(self) -> int:
        """The number of records that one compiled call takes: a batch seldom is larger."""
        return math.ceil(self.expected + 4.0 * math.sqrt(self.expected * (1.0 - self.sampling.rate)))


def poisson_batch(rng: np.random.Generator, num_records: int, rate: float) -> AnyArray:
    """Indices of a batch that every record joins with probability ``rate``, independently.

    By its size first, which takes time in proportion to the batch instead of the data: given its size, such a
    batch is a uniform subset.

    >>> poisson_batch(np.random.default_rng(0), 5, 1.0)
    array([0, 1, 2, 3, 4])
    """
    size = int(rng.binomial(num_records, rate))
    if size in (0, num_records):
        return np.arange(size)
    return rng.choice(num_records, size, replace=False, shuffle=False)


def train(objective: Objective, start: Array, records: Records, run: Run, rng: np.random.Generator) -> Array:
    """The last parameters (p,) of a run from ``start``. Differentially private, but off the public grid."""
    jax_numpy = modules().jax.numpy
    together = _steps_together(run.physical * records.features.shape[1])
    with _quiet_double_precision(), progress("Training", run.sampling.steps) as count:
        advance, begin = _compiled(objective, run.optimiser)
        parameters = objective.project(jax_numpy.asarray(start))
        state = begin(parameters)
        for first in range(0, run.sampling.steps, together):
            steps = []
            for _ in range(min(together, run.sampling.steps - first)):
                shared = rng.standard_normal(objective.shared)
                batch = poisson_batch(rng, len(records), run.sampling.rate)
                noise = run.noise * rng.standard_normal(len(start))
                steps.append((shared, batch, noise))
            parameters, state = advance(
                parameters,
                state,
                _stacked(steps, records, run.physical, together),
                SHRINK * run.clip,
                run.expected,
                run.learning_rate,
            )
            count(len(steps))
        return np.array(parameters)


def _steps_together(numbers: int) -> int:
    """How many steps one compiled call takes, of batches of so many numbers."""
    return max(1, min(MOST_STEPS, LARGEST_CALL // max(1, numbers)))


def _stacked(
    steps: list[tuple[Array, AnyArray, Array]], records: Records, size: int, together: int
) -> dict[str, AnyArray]:
    """What the steps are given, leading axis ``together``: those beyond the steps are not taken.

    A batch is as many pieces of ``size`` rows as the largest of the steps needs, nearly always one.
    """
    pieces = max(1, *(-(-len(batch) // size) for _, batch, _ in steps))
    padded = pieces * size
    shared, _, noise = steps[0]
    features = np.zeros((together, padded, records.features.shape[1]))
    response, padding = np.zeros((together, padded)), np.ones((together, padded), dtype=bool)
    found = {
        "taken": np.arange(together) < len(steps),
        "shared": np.zeros((together, len(shared))),
        "noise": np.zeros((together, len(noise))),
    }
    for i, (shared, batch, noise) in enumerate(steps):
        filled = slice(len(batch))
        features[i, filled], response[i, filled] = records.features[batch], records.response[batch]
        padding[i, filled] = False
        found["shared"][i], found["noise"][i] = shared, noise
    by_piece = (together, pieces, size)
    found["features"], found["response"] = features.reshape(*by_piece, -1), response.reshape(by_piece)
    return {**found, "padding": padding.reshape(by_piece)}


@functools.lru_cache(maxsize=32)
def _compiled(objective: Objective, optimiser: str) -> tuple[Any, Any]:
    """(several steps, first state of the optimiser); settings are arguments."""
    found = modules()
    jax, jnp = found.jax, found.jax.numpy
    # A direction, to be multiplied by minus the learning rate.
    rule = {"adam": found.optax.scale_by_adam, "sgd": found.optax.identity}[optimiser]()

    def summed(parameters: Any, step: Any, clip: Any) -> Any:
        clipped = found.jax_privacy.clipped_grad(
            objective.record_loss, l2_clip_norm=clip, batch_argnums=(1, 2), keep_batch_dim=False
        )

        def add(total: Any, piece: Any) -> Any:
            features, response, padding = piece
            found = clipped(parameters, features, response, step["shared"], is_padding_example=padding)
            return total + found, None

        pieces = (step["features"], step["response"], step["padding"])
        return jax.lax.scan(add, jnp.zeros_like(parameters), pieces)[0]

    def update(parameters: Any, state: Any, gradient: Any, shared: Any, rate: Any) -> Any:
        gradient += jax.grad(objective.public_loss)(parameters, shared)
        direction, state = rule.update(gradient, state, parameters)
        moved = jnp.clip(parameters - rate * direction, -LARGEST, LARGEST)
        return objective.project(moved), state

    def advance(parameters: Any, state: Any, steps: Any, clip: Any, expected: Any, rate: Any) -> Any:
        def take(carry: Any, step: Any) -> Any:
            parameters, state = carry
            noisy = summed(parameters, step, clip) + step["noise"]
            return update(parameters, state, noisy / expected, step["shared"], rate)

        def one(carry: Any, step: Any) -> Any:
            return jax.lax.cond(step["taken"], take, lambda carry, step: carry, carry, step), None

        return jax.lax.scan(one, (parameters, state), steps)[0]

    return jax.jit(advance), rule.init


@functools.cache
def modules() -> SimpleNamespace:
    """JAX, jax-privacy and optax, imported on first use."""
    names = ("jax", "jax_privacy", "optax")
    return SimpleNamespace(**{name: optional(name, "Private gradient descent", "jax") for name in names})


@contextmanager
def _quiet_double_precision() -> Iterator[None]:
    """JAX in 64 bits for this thread, without the warning that jax-privacy's clipping draws from optax."""
    with modules().jax.enable_x64(True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"optax\.global_norm", category=DeprecationWarning)
        yield
