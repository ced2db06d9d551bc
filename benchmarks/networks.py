# SPDX-License-Identifier: Apache-2.0
"""The no-U-turn engine on a network against NumPyro's NUTS on the same density, as ratios of one run.

A network with 10 hidden units and d = 8 features, one chain, 1,000 warm-up and 100 kept iterations. Both
engines run the same JAX function in 64 bits from the same starting points, interleaved, so that a noisy
machine slows both; times are those of the fastest run. The two adapt differently and take different numbers
of leapfrogs, so time per gradient and total time are both shown. NumPyro's total includes what its ``run``
compiles anew. The first call of each, compilation included, is measured in a process of its own.

    scripts/bench networks                    both sizes, printed
    scripts/bench networks --write            ... and written to docs/networks.md
    scripts/bench networks --sizes 1000       one size
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from _table import machine, markdown, write_section

from onedraw.losses import BetaDivergence
from onedraw.model import NetworkModel
from onedraw.nn.networks import NetworkPosterior
from onedraw.priors import Prior
from onedraw.samplers.nuts import NutsSampler

PAGE = Path(__file__).parent.parent / "docs" / "networks.md"
FEATURES, HIDDEN, EPSILON = 8, 10, 1.0


def posterior(n: int) -> NetworkPosterior:
    """A simulated classification at the calibration of epsilon = 1 (beta 2, weight 1/2)."""
    rng = np.random.default_rng(n)
    features = rng.uniform(-1.0, 1.0, size=(n, FEATURES))
    eta = 2.0 * np.tanh(features @ rng.normal(size=FEATURES)) + features[:, 0] * features[:, 1]
    model = NetworkModel(
        features=tuple(f"x{i}" for i in range(FEATURES)), hidden_layer_sizes=(HIDDEN,), classes=(0, 1)
    )
    return NetworkPosterior(
        model=model,
        loss=BetaDivergence(model.family()),
        beta=2.0,
        weight=0.5 * EPSILON,
        prior=Prior(scale=1.0),
        features=features,
        response=(rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
    )


class Ours:
    """One chain of the package's engine."""

    def __init__(self, target: NetworkPosterior, warmup: int, kept: int) -> None:
        self.target = target
        self.sampler = NutsSampler(chains=2, warmup=warmup, kept=kept)

    def run(self, seed: int) -> None:
        """Run two chains, the fewest that the engine runs."""
        rng = np.random.default_rng(seed)
        start = self.target.initial(2, rng)
        self.last = self.sampler.run(self.target.density, self.target.data, start, rng)

    def gradients(self, seed: int) -> int:
        """How many gradients ``run`` takes."""
        self.run(seed)
        return int(self.last.steps.sum()) + self.last.warmup_steps


class Theirs:
    """Two chains of NumPyro's NUTS, one after another, on the same function."""

    def __init__(self, target: NetworkPosterior, warmup: int, kept: int) -> None:
        from numpyro.infer import MCMC, NUTS

        self.target = target
        with jax.enable_x64(True):
            data = jax.tree.map(jax.numpy.asarray, target.data)
            density = target.density
            kernel = NUTS(potential_fn=lambda theta: -density(theta, data))
            self.chain = MCMC(
                kernel,
                num_warmup=warmup,
                num_samples=kept,
                num_chains=1,
                progress_bar=False,
                jit_model_args=False,
            )

    def _each(self, seed: int) -> Iterator[tuple[Any, Any]]:
        rng = np.random.default_rng(seed)
        for start in self.target.initial(2, rng):
            yield jax.random.key(int(rng.integers(2**31))), jax.numpy.asarray(start)

    def run(self, seed: int) -> None:
        """Run two chains, with code that NumPyro has compiled before."""
        with jax.enable_x64(True):
            for key, start in self._each(seed):
                self.chain.run(key, init_params=start)
                jax.block_until_ready(self.chain.get_samples())

    def gradients(self, seed: int) -> int:
        """How many gradients ``run`` takes; counting the warm-up compiles anew, so it is not timed."""
        total, fields = 0, ("num_steps",)
        with jax.enable_x64(True):
            for key, start in self._each(seed):
                self.chain.warmup(key, init_params=start, extra_fields=fields, collect_warmup=True)
                total += int(self.chain.get_extra_fields()["num_steps"].sum())
                self.chain.run(self.chain.post_warmup_state.rng_key, extra_fields=fields)
                total += int(self.chain.get_extra_fields()["num_steps"].sum())
                self.chain.post_warmup_state = None
        return total


ENGINES: dict[str, Any] = {"onedraw": Ours, "NumPyro": Theirs}


def measure(n: int, repeats: int, warmup: int, kept: int) -> list[str]:
    """One row of the table."""
    target = posterior(n)
    engines = {name: kind(target, warmup, kept) for name, kind in ENGINES.items()}
    best: dict[str, float] = dict.fromkeys(engines, np.inf)
    gradient: dict[str, float] = dict.fromkeys(engines, np.inf)
    for engine in engines.values():
        engine.run(0)  # compile
    spent: dict[tuple[str, int], float] = {}
    for seed in range(1, repeats + 1):
        for name, engine in engines.items():
            start = time.perf_counter()
            engine.run(seed)
            spent[name, seed] = time.perf_counter() - start
            best[name] = min(best[name], spent[name, seed] / 2)
    for name, engine in engines.items():
        gradient[name] = min(spent[name, seed] / engine.gradients(seed) for seed in range(1, repeats + 1))
    first = {name: first_call(name, n, warmup, kept) for name in engines}
    ours, theirs = ENGINES
    return [
        f"{n:,}",
        *(f"{1e6 * gradient[name]:.0f} us" for name in (ours, theirs)),
        *(f"{best[name]:.1f} s" for name in (ours, theirs)),
        f"{best[ours] / best[theirs]:.2f}",
        *(f"{first[name]:.1f} s" for name in (ours, theirs)),
    ]


def first_call(name: str, n: int, warmup: int, kept: int) -> float:
    """Seconds of the first chain in a fresh process, compilation included, half of two chains' sampling."""
    code = (
        "import sys, time; sys.path.insert(0, 'benchmarks')\n"
        "import networks\n"
        f"engine = networks.ENGINES[{name!r}](networks.posterior({n}), {warmup}, {kept})\n"
        "start = time.perf_counter(); engine.run(0); both = time.perf_counter() - start\n"
        "start = time.perf_counter(); engine.run(0); again = time.perf_counter() - start\n"
        "print(both - again / 2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000], metavar="N")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--kept", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="write the table to docs/networks.md")
    options = parser.parse_args()
    header = ["n", "gradient", "NumPyro's", "chain", "NumPyro's", "ratio", "first chain", "NumPyro's"]
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
