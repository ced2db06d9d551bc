# SPDX-License-Identifier: Apache-2.0
"""Draws by the no-U-turn sampler (BlackJAX), released only if every convergence diagnostic passes.

For posteriors that have no exact sampler here: neural networks and models written in NumPyro. Several chains
start from draws of the public prior, adapt step size and metric on their own through Stan's windows, and keep
``kept`` states each. A draw is one kept state of one chain, both chosen uniformly; k draws come from k
different chains, because they are guaranteed as independent draws and the states of one chain are not.

Guarantee:
    Evidence is ``diagnosed``: the guarantee of an exact draw carries over *if* the chain has converged, which
    is assumed, and printed with the release. If the law of each of k draws is within ``gamma`` of the
    posterior in total variation, for every data set, a release that would be (epsilon, delta)-private with
    exact draws is (epsilon, delta + (1 + e^epsilon) k gamma)-private. *Proof.* Let P, P' be the laws of
    exact releases from neighbouring data sets and Q, Q' those actually made, |P - Q|, |P' - Q'| <= k gamma.
    Then Q(S) <= P(S) + k gamma <= e^epsilon P'(S) + delta + k gamma <= e^epsilon (Q'(S) + k gamma) + delta
    + k gamma. []

Edge cases:
    Chains that do not pass are an error, never a draw; the message says what to change and quotes no
    diagnostic. Diagnostics stay in the private ``Draws``. More draws than chains share chains: they are for
    validation, and a mechanism must refuse to release them.

JAX computes in 64 bits inside a local context and the user's configuration is left as it is. Chains run one
after another: on a processor, chains in lockstep wait for the longest trajectory among them. All iterations,
of any number, go through one compiled block, so a second fit of the same shapes compiles nothing.

The random numbers of a chain come from JAX's Threefry generator under a secret 64-bit key of its own, taken
from the package's secure generator.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol

import numpy as np

from onedraw._extras import optional
from onedraw._progress import progress
from onedraw._validate import positive, whole
from onedraw.errors import ConvergenceError, InvalidInput, NonFiniteDensity
from onedraw.private import Withheld
from onedraw.samplers import diagnostics
from onedraw.samplers.base import Draws, Evidence
from onedraw.types import AnyArray, Array

BLOCK = 100
"""Iterations of one compiled call: the progress bar moves, and Ctrl-C is heard, between them."""
IDLE, FAST, SLOW, CLOSE, KEEP = range(5)
"""What an iteration does: nothing, adapt the step size, the metric too, close a window too, or keep."""
LARGEST_EXPONENT = 300.0


class LogDensity(Hashable, Protocol):
    """A log density in JAX, up to a constant; equal ones share their compiled code."""

    def __call__(self, position: Any, data: Any) -> Any: ...


class ChainTarget(Protocol):
    """A posterior that chains can run on; it may not leave."""

    @property
    def density(self) -> LogDensity: ...

    @property
    def data(self) -> Any:
        """What ``density`` is called with beside the position: a tree of arrays."""

    def initial(self, num: int, rng: np.random.Generator) -> Array:
        """Starting points (num, p) drawn from a public law."""

    def monitored(self, positions: Array) -> Array:
        """Quantities (m, q) of positions (m, p) whose convergence matters: predictions at public points."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Chains(Withheld):
    """Kept states: positions (a tree, leading axes chains and kept) and (chains, kept) arrays."""

    positions: Any
    log_density: Array
    energy: Array
    divergent: AnyArray
    steps: AnyArray
    warmup_steps: int


def above(floor: Any, u: Any) -> tuple[Any, Any]:
    """A parameter above its floor and the log Jacobian of its working coordinate: floor + exp(u), and u.

    The sum is rounded, so a value may equal its floor; it is never below it.
    """
    jnp = importlib.import_module("jax.numpy")
    return floor + jnp.exp(jnp.minimum(u, LARGEST_EXPONENT)), u


@dataclass(frozen=True, kw_only=True)
class NutsSampler:
    """Several NUTS chains and the thresholds that they must pass.

    ``kept`` states of each chain are kept after ``warmup``; ``max_depth`` bounds a trajectory at 2^max_depth
    steps. R-hat must not exceed ``max_rhat`` and effective sample sizes (of all chains together) must reach
    ``min_ess`` for the log density and every monitored quantity; at most a ``max_divergent`` share of
    kept iterations may diverge; E-BFMI of every chain must reach ``min_bfmi``. The thresholds of R-hat and of
    effective sizes are those of Vehtari et al. [2021]; docs/networks.md has what the default networks reach.
    """

    evidence_level: ClassVar[str] = "diagnosed"
    continuous: ClassVar[bool] = True
    stated_error: ClassVar[float] = 0.0
    """The distance from the posterior that the evidence itself states; the diagnostics here state none."""

    chains: int = 4
    warmup: int = 1000
    kept: int = 1000
    target_acceptance: float = 0.8
    max_depth: int = 10
    dense_metric: bool = False
    max_rhat: float = 1.01
    min_ess: float = 400.0
    max_divergent: float = 0.01
    min_bfmi: float = 0.2
    progress: bool = False

    def __post_init__(self) -> None:
        whole(chains=self.chains, minimum=2, remedy="Diagnostics compare chains.")
        whole(warmup=self.warmup, minimum=20)
        whole(kept=self.kept, minimum=2 * diagnostics.FEWEST_DRAWS)
        whole(max_depth=self.max_depth)
        positive(min_ess=self.min_ess)
        if not 0.0 < self.target_acceptance < 1.0:
            raise InvalidInput(
                f"Expected target_acceptance between 0 and 1, got {self.target_acceptance!r}. "
                "Larger takes smaller steps; 0.8 is usual."
            )
        if not self.max_rhat > 1.0:
            raise InvalidInput(f"Expected max_rhat > 1, got max_rhat={self.max_rhat!r}. For example 1.01.")

    def check(self, posterior: Any) -> None:
        """Refuse the posterior of a regression, before any budget is spent."""
        raise not_for_regressions(type(self).__name__)

    def require(self) -> None:
        """Refuse where the extra is missing, before any budget is spent."""
        require_jax()

    def arithmetic(self) -> AbstractContextManager[None]:
        """The precision that the chains compute in."""
        return double_precision()

    def sample(self, posterior: ChainTarget, num_draws: int, rng: np.random.Generator) -> Draws:
        """``num_draws`` states, from different chains as far as there are enough of them."""
        initial = posterior.initial(self.chains, rng)
        chains = self.run(posterior.density, posterior.data, initial, rng)
        positions = np.asarray(chains.positions)
        found = self._diagnose(chains, positions, posterior.monitored)
        if not self.converged(found):
            raise ConvergenceError(_not_converged(self))
        values = positions[self._choose(num_draws, rng)]
        return Draws(values=values, evidence=self.evidence, diagnostics=found)

    def run(self, density: LogDensity, data: Any, initial: Any, rng: np.random.Generator) -> Chains:
        """Chains of any density from a tree of starting points, leading axis ``chains``; not diagnosed."""
        jax = require_jax().jax
        stages = _schedule(self.warmup, self.kept)
        numbers = np.arange(len(stages), dtype=np.int32)
        total = self.chains * len(stages)
        with self.arithmetic(), progress("Sampling", total, shown=self.progress) as advance_bar:
            engine = _compiled(density, self.dense_metric, self.target_acceptance, self.max_depth)
            data = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf), data)
            records = []
            for chain in range(self.chains):
                words = rng.integers(0, 2**32, size=2, dtype=np.uint32)
                carry = engine.begin(jax.tree.map(lambda leaf, i=chain: np.asarray(leaf[i]), initial))
                blocks = []
                for first in range(0, len(stages), BLOCK):
                    block = slice(first, first + BLOCK)
                    carry, start, record = engine.advance(
                        carry, first == 0, words, numbers[block], stages[block], data
                    )
                    if first == 0 and not np.isfinite(float(start)):
                        raise NonFiniteDensity(
                            "The log density is not finite at a draw from the prior, so no chain can start "
                            "and nothing was released; a budget that was charged stays charged. Give the "
                            "latent values a prior with a finite density wherever it draws."
                        )
                    blocks.append(jax.tree.map(np.asarray, record))
                    advance_bar(min(BLOCK, len(stages) - first))
                records.append(jax.tree.map(lambda *parts: np.concatenate(parts), *blocks))
        keep = stages == KEEP
        kept = jax.tree.map(lambda *leaves: np.stack([leaf[keep] for leaf in leaves]), *records)
        positions, log_density, energy, divergent, steps = kept
        total = sum(int(record[4].sum()) for record in records)
        return Chains(
            positions=positions,
            log_density=log_density,
            energy=energy,
            divergent=divergent,
            steps=steps,
            warmup_steps=total - int(steps.sum()),
        )

    def _choose(self, num_draws: int, rng: np.random.Generator) -> tuple[AnyArray, AnyArray]:
        """Chains and iterations: different chains for as many draws as there are chains."""
        if num_draws <= self.chains:
            return rng.permutation(self.chains)[:num_draws], rng.integers(self.kept, size=num_draws)
        if num_draws > self.chains * self.kept:
            raise InvalidInput(
                f"Expected at most chains * kept = {self.chains * self.kept} draws, got {num_draws}. "
                "Raise kept."
            )
        flat = rng.permutation(self.chains * self.kept)[:num_draws]
        return flat // self.kept, flat % self.kept

    def _diagnose(
        self, chains: Chains, positions: Array, monitored: Callable[[Array], Array]
    ) -> dict[str, float]:
        """The worst of every diagnostic, by name; it depends on the data and may not leave."""
        columns = [chains.log_density]
        watched = monitored(positions.reshape(-1, positions.shape[-1]))
        columns += list(np.moveaxis(watched.reshape(self.chains, self.kept, -1), -1, 0))
        return {
            "rhat": max(diagnostics.rhat(column) for column in columns),
            "bulk_ess": min(diagnostics.bulk_ess(column) for column in columns),
            "tail_ess": min(diagnostics.tail_ess(column) for column in columns),
            "divergent": float(chains.divergent.mean()),
            "bfmi": float(diagnostics.e_bfmi(chains.energy).min()),
            "gradients": float(chains.steps.sum() + chains.warmup_steps),
        }

    def converged(self, found: dict[str, float]) -> bool:
        """Whether the worst of every diagnostic is within its threshold."""
        return (
            found["rhat"] <= self.max_rhat
            and found["bulk_ess"] >= self.min_ess
            and found["tail_ess"] >= self.min_ess
            and found["divergent"] <= self.max_divergent
            and found["bfmi"] >= self.min_bfmi
        )

    @property
    def evidence(self) -> Evidence:
        """What a release of a draw says; made of the settings alone."""
        return Evidence(
            level="diagnosed",
            statement=(
                f"{self.chains} chains of the no-U-turn sampler, {self.warmup} warm-up and {self.kept} kept "
                "iterations each, passed every diagnostic on the log density and the monitored predictions: "
                f"rank-normalised split R-hat at most {self.max_rhat:g}, bulk and tail effective sample size "
                f"at least {self.min_ess:g}, at most {100 * self.max_divergent:g}% divergent iterations, "
                f"E-BFMI at least {self.min_bfmi:g}. That is evidence, not proof, that the chains converged."
            ),
        )


def _not_converged(sampler: NutsSampler) -> str:
    return (
        "The chains have not converged by their diagnostics, so nothing was released; a budget that was "
        f"charged stays charged. Raise warmup (now {sampler.warmup}) and kept (now {sampler.kept}), raise "
        f"target_acceptance (now {sampler.target_acceptance:g}) towards 0.99, bring the features to order "
        "one by public bounds, or use a smaller model; choose by public facts or on public data."
    )


def not_for_regressions(sampler: str) -> InvalidInput:
    """The error of a sampler by chains that a regression was given."""
    return InvalidInput(
        f"{sampler} is for networks and NumPyro models, which have no exact sampler; a regression has. Leave "
        "sampler out."
    )


@functools.cache
def require_jax() -> SimpleNamespace:
    """JAX and BlackJAX, imported on first use; an error that names the extra where they are missing."""
    names = ("jax", "blackjax")
    return SimpleNamespace(**{name: optional(name, "The no-U-turn sampler", "jax") for name in names})


@contextmanager
def double_precision() -> Iterator[None]:
    """JAX in 64 bits for the calling thread, until the context ends."""
    with require_jax().jax.enable_x64(True):
        yield


def _schedule(warmup: int, kept: int) -> AnyArray:
    """What each iteration does, padded with idle ones to whole blocks; windows as in Stan."""
    adaptation = importlib.import_module("blackjax.adaptation.window_adaptation")
    windows = np.asarray(adaptation.build_schedule(warmup), dtype=np.int32)
    stages = np.where(windows[:, 1] == 1, CLOSE, np.where(windows[:, 0] == 1, SLOW, FAST))
    padding = -(warmup + kept) % BLOCK
    return np.concatenate([stages, np.full(kept, KEEP), np.full(padding, IDLE)]).astype(np.int32)


@functools.lru_cache(maxsize=32)
def _compiled(density: LogDensity, dense: bool, target: float, max_depth: int) -> SimpleNamespace:
    """``begin`` and ``advance`` of one chain; the carry is (position, step-size and metric adaptation).

    One program does everything, because compiling takes longer than sampling a small data set: a block
    computes the density of its first position anew (one gradient among thousands), the first block of a chain
    resets the adaptation, and keys are derived inside.
    """
    jax, blackjax = require_jax().jax, require_jax().blackjax
    jnp, lax, random = jax.numpy, jax.lax, jax.random
    kernel = blackjax.mcmc.nuts.build_kernel()
    step_init, step_update, step_final = importlib.import_module(
        "blackjax.adaptation.step_size"
    ).dual_averaging_adaptation(target)
    metric_init, metric_update, metric_final = importlib.import_module(
        "blackjax.adaptation.mass_matrix"
    ).mass_matrix_adaptation(not dense)

    def unadapted(position: Any) -> Any:
        size = jax.flatten_util.ravel_pytree(position)[0].size
        # Weakly typed numbers would make the second block another program than the first.
        return jax.tree.map(
            lambda leaf: lax.convert_element_type(leaf, jnp.asarray(leaf).dtype),
            (step_init(1.0), metric_init(size)),
        )

    def begin(position: Any) -> Any:
        shapes = jax.eval_shape(unadapted, position)
        return position, jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)

    def adapt(stage: Any, position: Any, acceptance: Any, step: Any, metric: Any) -> Any:
        step = step_update(step, acceptance)
        metric = lax.cond(stage >= SLOW, lambda: metric_update(metric, position), lambda: metric)
        return lax.cond(
            stage == CLOSE,
            lambda: (step_init(step_final(step)), metric_final(metric)),
            lambda: (step, metric),
        )

    def advance(carry: Any, fresh: Any, words: Any, numbers: Any, stages: Any, data: Any) -> Any:
        position, adapted = carry
        key = random.wrap_key_data(words)
        state = blackjax.mcmc.hmc.init(position, lambda at: density(at, data))
        adapted = lax.cond(fresh, lambda: unadapted(position), lambda: adapted)

        def move(carry: Any, number: Any, stage: Any) -> Any:
            state, (step, metric) = carry
            size = jnp.where(stage == KEEP, step_final(step), jnp.exp(step.log_step_size))
            state, info = kernel(
                random.fold_in(key, number),
                state,
                lambda at: density(at, data),
                size,
                metric.inverse_mass_matrix,
                max_depth,
            )
            adapted = lax.cond(
                stage == KEEP,
                lambda: (step, metric),
                lambda: adapt(stage, state.position, info.acceptance_rate, step, metric),
            )
            steps = info.num_integration_steps.astype(np.int32)
            return (state, adapted), (info.energy, info.is_divergent, steps)

        def rest(carry: Any) -> Any:
            return carry, (jnp.zeros(()), jnp.zeros((), bool), jnp.zeros((), np.int32))

        def one(carry: Any, inputs: Any) -> Any:
            number, stage = inputs
            carry, told = lax.cond(stage == IDLE, rest, lambda carry: move(carry, number, stage), carry)
            return carry, (carry[0].position, carry[0].logdensity, *told)

        start = state.logdensity
        (state, adapted), record = lax.scan(one, (state, adapted), (numbers, stages))
        return (state.position, adapted), start, record

    return SimpleNamespace(begin=begin, advance=jax.jit(advance))
