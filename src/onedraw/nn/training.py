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
from onedraw.nn.objectives import Objective
from onedraw.privacy.subsampled import Sampling
from onedraw.records import Records
from onedraw.types import AnyArray, Array

OPTIMISERS = ("adam", "sgd")
SHRINK = 1.0 - 1e-6
"""Gradients are clipped to this fraction of C."""
LARGEST = 2.0**20
"""What larger parameters count as."""


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
    with _quiet_double_precision():
        summed, update, begin = _compiled(objective, run.optimiser)
        parameters = objective.project(jax_numpy.asarray(start))
        state = begin(parameters)
        for _ in range(run.sampling.steps):
            shared = jax_numpy.asarray(rng.standard_normal(objective.shared))
            batch = poisson_batch(rng, len(records), run.sampling.rate)
            total = np.zeros_like(start)
            for first in range(0, len(batch), run.physical):
                piece = _padded(records, batch[first : first + run.physical], run.physical)
                total += np.asarray(summed(parameters, *piece, shared, SHRINK * run.clip))
            noisy = total + run.noise * rng.standard_normal(len(start))
            gradient = noisy / run.expected
            parameters, state = update(parameters, state, gradient, shared, run.learning_rate)
        return np.array(parameters)


def _padded(records: Records, rows: AnyArray, size: int) -> tuple[Array, Array, AnyArray]:
    """Features, response and which entries are padding, all of length ``size``."""
    features, response = np.zeros((size, records.features.shape[1])), np.zeros(size)
    features[: len(rows)], response[: len(rows)] = records.features[rows], records.response[rows]
    return features, response, np.arange(size) >= len(rows)


@functools.lru_cache(maxsize=32)
def _compiled(objective: Objective, optimiser: str) -> tuple[Any, Any, Any]:
    """(sum of clipped gradients, one update, first state of the optimiser); settings are arguments."""
    found = modules()
    jax, jnp = found.jax, found.jax.numpy
    # A direction, to be multiplied by minus the learning rate.
    rule = {"adam": found.optax.scale_by_adam, "sgd": found.optax.identity}[optimiser]()

    def summed(parameters: Any, features: Any, response: Any, padding: Any, shared: Any, clip: Any) -> Any:
        clipped = found.jax_privacy.clipped_grad(
            objective.record_loss, l2_clip_norm=clip, batch_argnums=(1, 2), keep_batch_dim=False
        )
        return clipped(parameters, features, response, shared, is_padding_example=padding)

    def update(parameters: Any, state: Any, gradient: Any, shared: Any, rate: Any) -> Any:
        gradient += jax.grad(objective.public_loss)(parameters, shared)
        direction, state = rule.update(gradient, state, parameters)
        moved = jnp.clip(parameters - rate * direction, -LARGEST, LARGEST)
        return objective.project(moved), state

    return jax.jit(summed), jax.jit(update), rule.init


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
