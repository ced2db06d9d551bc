# SPDX-License-Identifier: Apache-2.0
"""How far is a Markov chain from its target after t steps? An upper bound, estimated by coupled chains.

Two chains of one kernel run with a lag: X starts L steps before Y, and they move so that they tend to meet
and, once met, stay together. With tau the first t >= L at which X_t = Y_(t-L), the law of the chain after t
steps and the target are in total variation at most

    E[ max(0, ceil((tau - L - t) / L)) ]        [Biswas, Jacob & Vanetti 2019],

estimated by a mean over independent pairs. *Why.* X_(t+jL) and Y_(t+(j-1)L) are both the pair at lag L;
summing the triangle inequality along t, t + L, t + 2L, ... towards the target, each term is at most
P(tau > t + jL), and the number of j >= 1 with tau > t + jL is the ceiling above.

*The kernel.* With probability ``walk_share`` a random-walk Metropolis step of standard deviation
``walk_scale``, proposals maximally coupled by reflection, which is what makes two chains equal; otherwise
Hamiltonian Monte Carlo with ``steps`` leapfrogs of size ``step_size``, the two chains using the same momentum
and the same uniform, which brings them close. Neither adapts: a kernel that adapts is not one kernel.

Guarantee:
    The bound is of this kernel, started from ``initial``, on this density: a release that leans on it must be
    the state after t steps of this very kernel (``CoupledKernel.draws``). It is estimated, with a standard
    error, for the data at hand: it does not hold for every data set. It depends on the data, so it must not
    be published; it is compared with a public number, ``sampler_error``, and that is published.

    What is published is also paid for. A mechanism that draws with ``CoupledSampler`` is priced at
    ``sampler_error`` = gamma or more: (epsilon, delta + (1 + e^epsilon) k gamma) for k draws
    [proof: ``onedraw.samplers.nuts``], on the stated assumption that the k laws are within gamma of the
    posterior for every data set. *Why the check changes nothing in that proof.* The released chains start
    anew and have random numbers of their own, so their law, given that the pairs passed, is their law. []
    Whether pairs pass depends on the data and is not covered, as with every diagnostic.

Edge cases:
    A pair that has not met after ``max_steps`` makes the bound infinite.

For moderate dimensions: in higher ones pairs meet slowly.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive, whole
from onedraw.errors import ConvergenceError, InvalidInput
from onedraw.samplers.base import Draws, Evidence
from onedraw.samplers.nuts import (
    ChainTarget,
    LogDensity,
    double_precision,
    not_for_regressions,
    require_jax,
)
from onedraw.types import AnyArray, Array

ERRORS = 3.0
"""Standard errors that are added to an estimated bound before it is compared with a public number."""


@dataclass(frozen=True, kw_only=True)
class CoupledKernel:
    """A fixed Markov kernel and the lag and number of the pairs that measure it."""

    step_size: float
    steps: int = 8
    walk_share: float = 0.1
    walk_scale: float = 1e-2
    lag: int = 50
    pairs: int = 200
    max_steps: int = 5000

    def __post_init__(self) -> None:
        positive(step_size=self.step_size)
        positive(walk_scale=self.walk_scale)
        whole(steps=self.steps)
        whole(lag=self.lag)
        whole(pairs=self.pairs, minimum=2)
        whole(max_steps=self.max_steps, minimum=self.lag)
        if not 0.0 < self.walk_share < 1.0:
            raise InvalidInput(
                f"Expected walk_share between 0 and 1, got {self.walk_share!r}: only a random-walk step can "
                "make two chains equal."
            )

    def meeting_times(self, target: ChainTarget, rng: np.random.Generator) -> AnyArray:
        """tau of every pair, (pairs,); ``max_steps`` + 1 where a pair has not met. It may not leave."""
        jax = importlib.import_module("jax")
        first, second = target.initial(self.pairs, rng), target.initial(self.pairs, rng)
        seeds = rng.integers(0, 2**32, size=(self.pairs, 2), dtype=np.uint32)
        with double_precision():
            data = jax.tree.map(jax.numpy.asarray, target.data)
            _, meet = _compiled(target.density, self)
            times = [int(meet(*pair, data)) for pair in zip(first, second, seeds, strict=True)]
        return np.array(times)

    def total_variation(self, times: AnyArray, iterations: AnyArray) -> tuple[Array, Array]:
        """The estimated bound at each number of iterations, and its standard error. They may not leave."""
        after = np.asarray(iterations)[:, None]
        excess = np.maximum(0.0, np.ceil((times[None, :] - self.lag - after) / self.lag))
        bound = excess.mean(axis=1)
        error = excess.std(axis=1, ddof=1) / math.sqrt(len(times))
        unmet = (times > self.max_steps).any()
        return np.where(unmet, np.inf, bound), error

    def draws(self, target: ChainTarget, num: int, iterations: int, rng: np.random.Generator) -> Array:
        """States (num, p) of independent chains after exactly ``iterations`` steps. They may not leave."""
        jax = importlib.import_module("jax")
        starts = target.initial(num, rng)
        seeds = rng.integers(0, 2**32, size=(num, 2), dtype=np.uint32)
        with double_precision():
            data = jax.tree.map(jax.numpy.asarray, target.data)
            run, _ = _compiled(target.density, self)
            states = [np.asarray(run(*chain, data, iterations)) for chain in zip(starts, seeds, strict=True)]
        return np.array(states)


@dataclass(frozen=True, kw_only=True)
class CoupledSampler:
    """Draws after ``iterations`` steps of ``kernel``, if pairs bound its distance by ``sampler_error``.

    The comparison adds three standard errors to the estimate. ``chains`` is how many independent draws may be
    asked for. A release pays for ``sampler_error`` in delta, so choose it far below exp(-epsilon), which
    takes many pairs: m of them show no less than 18/m.
    """

    evidence_level: ClassVar[str] = "diagnosed"
    continuous: ClassVar[bool] = True

    kernel: CoupledKernel
    iterations: int
    sampler_error: float
    chains: int = 4

    def __post_init__(self) -> None:
        whole(iterations=self.iterations)
        positive(sampler_error=self.sampler_error)
        fewest = 2.0 * ERRORS**2 / self.kernel.pairs
        if self.sampler_error < fewest:
            raise InvalidInput(
                f"Expected sampler_error >= {fewest:.3g}, got {self.sampler_error:g}: {self.kernel.pairs} "
                "pairs cannot show less. Raise the kernel's pairs."
            )

    @property
    def stated_error(self) -> float:
        """The distance from the posterior that the evidence itself states."""
        return float(self.sampler_error)

    def check(self, posterior: Any) -> None:
        """Refuse the posterior of a regression, before any budget is spent."""
        raise not_for_regressions(type(self).__name__)

    def require(self) -> None:
        """Refuse where the extra is missing, before any budget is spent."""
        require_jax()

    def sample(self, posterior: ChainTarget, num_draws: int, rng: np.random.Generator) -> Draws:
        """Independent draws, each a chain of its own."""
        times = self.kernel.meeting_times(posterior, rng)
        bounds, errors = self.kernel.total_variation(times, np.array([self.iterations]))
        # Rule of three, so to speak: no excess among m pairs shows no more than about 9/m at three errors.
        reached = float(bounds[0] + ERRORS * errors[0]) + ERRORS**2 / self.kernel.pairs
        if not reached <= self.sampler_error:
            raise ConvergenceError(
                f"Coupled chains do not show that {self.iterations} iterations come within "
                f"{self.sampler_error:g} of the target, so nothing was released; a budget that was charged "
                "stays charged. Raise iterations and the kernel's lag, pairs and walk_share, or change "
                "step_size; choose by public facts or on public data."
            )
        values = self.kernel.draws(posterior, num_draws, self.iterations, rng)
        return Draws(values=values, evidence=self.evidence, diagnostics={"bound": reached})

    @property
    def evidence(self) -> Evidence:
        """What a release of a draw says; made of the settings alone."""
        kernel = self.kernel
        return Evidence(
            level="diagnosed",
            statement=(
                f"{kernel.pairs} pairs of coupled chains with lag {kernel.lag} met early enough to "
                f"estimate, with three standard errors to spare, that the draw's law after {self.iterations} "
                f"iterations is within {self.sampler_error:g} of the posterior in total variation. That is "
                "an estimate for the data at hand; delta includes the price of that distance."
            ),
        )


@functools.lru_cache(maxsize=16)
def _compiled(density: LogDensity, kernel: CoupledKernel) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(run, meet): one chain for a number of steps, and the meeting time of one pair."""
    jax = importlib.import_module("jax")
    jnp, lax, random = jax.numpy, jax.lax, jax.random

    def leapfrog(position: Any, momentum: Any, data: Any) -> tuple[Any, Any]:
        gradient = jax.grad(density)
        half = 0.5 * kernel.step_size

        def one(_: Any, state: Any) -> Any:
            position, momentum, slope = state
            momentum = momentum + half * slope
            position = position + kernel.step_size * momentum
            slope = gradient(position, data)
            return position, momentum + half * slope, slope

        position, momentum, _ = lax.fori_loop(
            0, kernel.steps, one, (position, momentum, gradient(position, data))
        )
        return position, momentum

    def accept(position: Any, proposal: Any, log_ratio: Any, log_uniform: Any) -> Any:
        # A ratio that is not a number rejects.
        return jnp.where(log_uniform < log_ratio, proposal, position)

    def hamiltonian(position: Any, key: Any, data: Any) -> Any:
        key_momentum, key_uniform = random.split(key)
        momentum = random.normal(key_momentum, position.shape)
        proposal, final = leapfrog(position, momentum, data)
        gain = density(proposal, data) - density(position, data)
        kinetic = 0.5 * (momentum @ momentum - final @ final)
        return accept(position, proposal, gain + kinetic, jnp.log(random.uniform(key_uniform)))

    def walk(position: Any, proposal: Any, log_uniform: Any, data: Any) -> Any:
        gain = density(proposal, data) - density(position, data)
        return accept(position, proposal, gain, log_uniform)

    def walk_alone(position: Any, key: Any, data: Any) -> Any:
        key_noise, _, key_uniform = random.split(key, 3)
        proposal = position + kernel.walk_scale * random.normal(key_noise, position.shape)
        return walk(position, proposal, jnp.log(random.uniform(key_uniform)), data)

    def walk_together(x: Any, y: Any, key: Any, data: Any) -> Any:
        """Reflection-maximal coupling of N(x, s^2) and N(y, s^2)."""
        key_noise, key_same, key_uniform = random.split(key, 3)
        noise = random.normal(key_noise, x.shape)
        gap = (x - y) / kernel.walk_scale
        length = jnp.sqrt(gap @ gap)
        direction = gap / jnp.where(length > 0.0, length, 1.0)
        shifted = noise + gap
        same = jnp.log(random.uniform(key_same)) < 0.5 * (noise @ noise - shifted @ shifted)
        reflected = noise - 2.0 * (direction @ noise) * direction
        to_x = x + kernel.walk_scale * noise
        to_y = jnp.where(same | (length == 0.0), to_x, y + kernel.walk_scale * reflected)
        log_uniform = jnp.log(random.uniform(key_uniform))
        return walk(x, to_x, log_uniform, data), walk(y, to_y, log_uniform, data)

    def choose(key: Any) -> tuple[Any, Any]:
        key_choice, key_move = random.split(key)
        return random.uniform(key_choice) < kernel.walk_share, key_move

    def step(position: Any, key: Any, data: Any) -> Any:
        walks, key = choose(key)
        return lax.cond(walks, walk_alone, hamiltonian, position, key, data)

    def step_together(x: Any, y: Any, key: Any, data: Any) -> Any:
        walks, key = choose(key)
        return lax.cond(
            walks,
            lambda: walk_together(x, y, key, data),
            lambda: (hamiltonian(x, key, data), hamiltonian(y, key, data)),
        )

    def run(start: Any, words: Any, data: Any, iterations: Any) -> Any:
        key = random.wrap_key_data(words)
        return lax.fori_loop(
            0, iterations, lambda t, position: step(position, random.fold_in(key, t), data), start
        )

    def meet(x: Any, y: Any, words: Any, data: Any) -> Any:
        key = random.wrap_key_data(words)
        x = lax.fori_loop(0, kernel.lag, lambda t, at: step(at, random.fold_in(key, t), data), x)

        def apart(state: Any) -> Any:
            x, y, t = state
            return jnp.any(x != y) & (t <= kernel.max_steps)

        def move(state: Any) -> Any:
            x, y, t = state
            x, y = step_together(x, y, random.fold_in(key, t), data)
            return x, y, t + 1

        return lax.while_loop(apart, move, (x, y, jnp.asarray(kernel.lag)))[2]

    return jax.jit(run), jax.jit(meet)
