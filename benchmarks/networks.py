# SPDX-License-Identifier: Apache-2.0
"""The no-U-turn engine on a network against NumPyro's NUTS on the same density, interleaved in one process.

A network with 10 hidden units and d = 8 features, one chain from one draw of the prior, 1,000 warm-up and 100
kept iterations. Both engines follow the same JAX function in 64 bits on one thread, with a diagonal metric, a
target acceptance of 0.8 and at most 2^10 steps an iteration. They adapt by different rules, so they take
different numbers of gradients; time per gradient and time per chain are both shown.

``first call`` is what a user waits for: ``NutsSampler.run``, and NumPyro's ``MCMC.run``, compilation
included (importing JAX and NumPyro is not). ``chain`` is another chain with compiled code. NumPyro's ``run``
compiles again each time, so its chain is measured without ``MCMC``: only the compiled loop over its kernel,
which is the least that it can take. Processor time is what a chain costs on a machine that is shared; the
first call is told in seconds on the clock too.

    scripts/bench networks                    both sizes, printed
    scripts/bench networks --write            ... and written to docs/networks.md
    scripts/bench networks --sizes 1000       one size
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from _table import machine, markdown, write_section
from numpyro.infer import MCMC, NUTS

from onedraw.families import Bernoulli
from onedraw.model import NetworkModel
from onedraw.nn.networks import NetworkPosterior
from onedraw.priors import Prior
from onedraw.records import Records
from onedraw.samplers.nuts import NutsSampler

PAGE = Path(__file__).parent.parent / "docs" / "networks.md"
FEATURES, HIDDEN, EPSILON = 8, 10, 1.0
ACCEPTANCE, DEPTH = 0.8, 10


def posterior(n: int) -> NetworkPosterior:
    """A simulated classification at the calibration of epsilon = 1 (beta 2, weight 1/2)."""
    rng = np.random.default_rng(n)
    features = rng.uniform(-1.0, 1.0, size=(n, FEATURES))
    eta = 2.0 * np.tanh(features @ rng.normal(size=FEATURES)) + features[:, 0] * features[:, 1]
    model = NetworkModel(
        family=Bernoulli(),
        features=tuple(f"x{i}" for i in range(FEATURES)),
        hidden_layer_sizes=(HIDDEN,),
        classes=(0, 1),
    )
    return NetworkPosterior(
        model=model,
        beta=2.0,
        weight=0.5 * EPSILON,
        prior=Prior(scale=1.0),
        records=Records(
            features=features, response=(rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        ),
    )


class Time(NamedTuple):
    """Seconds on the clock and of the processor, and the gradients that were taken, if known."""

    clock: float
    processor: float
    gradients: int


def timed(task: Callable[[], int]) -> Time:
    """How long a task takes that returns its number of gradients."""
    clock, processor = time.perf_counter(), time.process_time()
    gradients = task()
    return Time(time.perf_counter() - clock, time.process_time() - processor, gradients)


@dataclass(frozen=True, kw_only=True)
class OneChain(NutsSampler):
    """Diagnostics compare chains; without them one will do."""

    chains: int = 1

    def __post_init__(self) -> None:
        pass


class Ours:
    """One chain of the package's engine."""

    def __init__(self, target: NetworkPosterior, warmup: int, kept: int) -> None:
        self.target = target
        self.sampler = OneChain(warmup=warmup, kept=kept, target_acceptance=ACCEPTANCE, max_depth=DEPTH)

    def first(self, seed: int) -> Time:
        """The first call compiles; it is the same call."""
        return self.again(seed)

    def again(self, seed: int) -> Time:
        """A chain."""
        rng = np.random.default_rng(seed)
        start = self.target.initial(1, rng)

        def run() -> int:
            chain = self.sampler.run(self.target.density, self.target.data, start, rng)
            return int(chain.steps.sum()) + chain.warmup_steps

        return timed(run)


class Theirs:
    """One chain of NumPyro's NUTS on the same function."""

    def __init__(self, target: NetworkPosterior, warmup: int, kept: int) -> None:
        self.target, self.warmup, self.kept = target, warmup, kept
        with jax.enable_x64(True):
            data = jax.tree.map(jax.numpy.asarray, target.data)
        density = target.density
        self.kernel = NUTS(
            potential_fn=lambda theta: -density(theta, data),
            target_accept_prob=ACCEPTANCE,
            max_tree_depth=DEPTH,
        )

    def _loop(self, state: Any) -> Any:
        def one(state: Any, _: Any) -> Any:
            state = self.kernel.sample(state, (), {})
            return state, (state.z, state.num_steps)

        return jax.lax.scan(one, state, length=self.warmup + self.kept)[1]

    def _start(self, seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        start = jax.numpy.asarray(self.target.initial(1, rng)[0])
        return jax.random.key(int(rng.integers(2**31))), start

    def first(self, seed: int) -> Time:
        """``MCMC.run`` from nothing."""
        with jax.enable_x64(True):
            key, start = self._start(seed)

            def run() -> int:
                chain = MCMC(self.kernel, num_warmup=self.warmup, num_samples=self.kept, progress_bar=False)
                chain.run(key, init_params=start)
                jax.block_until_ready(chain.get_samples())
                return 0

            found = timed(run)
            self.compiled = jax.jit(self._loop).lower(self._state(seed)).compile()
        return found

    def _state(self, seed: int) -> Any:
        key, start = self._start(seed)
        return self.kernel.init(key, self.warmup, start, (), {})

    def again(self, seed: int) -> Time:
        """A chain, from its first iteration on."""
        with jax.enable_x64(True):
            state = self._state(seed)
            return timed(lambda: int(np.asarray(self.compiled(state)[1]).sum()))


def measure(n: int, repeats: int, warmup: int, kept: int) -> list[str]:
    """One row of the table."""
    target = posterior(n)
    engines = [kind(target, warmup, kept) for kind in (Ours, Theirs)]
    first = [engine.first(0) for engine in engines]
    again: list[list[Time]] = [[], []]
    for seed in range(1, repeats + 1):
        for times, engine in zip(again, engines, strict=True):
            times.append(engine.again(seed))
    gradient = [min(time.processor / time.gradients for time in times) for times in again]
    chain = [min(time.processor for time in times) for times in again]
    per_iteration = [np.mean([time.gradients for time in times]) / (warmup + kept) for times in again]
    return [
        f"{n:,}",
        *(f"{1e6 * value:.0f} us" for value in gradient),
        *(f"{value:.0f}" for value in per_iteration),
        *(f"{value:.1f} s" for value in chain),
        f"{chain[0] / chain[1]:.2f}",
        *(f"{time.processor:.1f} s ({time.clock:.1f})" for time in first),
        f"{first[0].processor / first[1].processor:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000], metavar="N")
    parser.add_argument("--repeats", type=int, default=1, help="chains after the first call, per engine")
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--kept", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="write the table to docs/networks.md")
    options = parser.parse_args()
    # JAX reads it when it computes for the first time.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    header = ["n", "gradient", "NumPyro's", "gradients an iteration", "NumPyro's", "chain", "NumPyro's"]
    header += ["ratio", "first call (clock)", "NumPyro's", "ratio"]
    rows = []
    for n in options.sizes:
        rows.append(measure(n, options.repeats, options.warmup, options.kept))
        print("  ".join(rows[-1]), flush=True)
    text = f"{markdown(header, rows)}\n\nMeasured on {machine()}, JAX {jax.__version__}."
    print(f"\n{text}")
    if options.write:
        write_section(PAGE, "networks", text)


if __name__ == "__main__":
    main()
