# SPDX-License-Identifier: Apache-2.0
"""The compared methods for networks of one hidden layer, each with its non-private twin and true guarantee.

Features lie on [0, 1]; all weights and biases have the prior N(0, 1), and the residual variance of a
regression is inverse-gamma(1, 1) above 0.01. NOT PRIVATE, for comparison only: several releases of each
method are scored, and a chain is not checked.

* ``beta-auto``, ``beta-paper``: a draw of the beta-divergence posterior, beta and weight chosen together or
  weight 1, which no regression can have below epsilon 7.52. Twin: the mean prediction of the posterior.
* ``beta-published``: regression with weight 1 and the beta of the published code, which has the prior
  variance in place of the smallest one.
* ``dp-sgd``: the published schedule (batches of 100, 14 + floor(epsilon) epochs, Adam at 0.01, clip 1) with
  noise of the proved scale, delta = 1e-5. Twin: the same steps without clipping and noise.
* ``tilted-linear``, ``tilted-random``: tilted fits in place of a network, of the features or of public random
  units of them [``network_tilted``]. Twin: the penalised fit.
* ``dp-sgd-published``: an epoch more, and noise for a sampling rate of features over batch size, which is
  what the published code hands to its accountant, instead of batch size over records.

>>> published = NETWORK_METHODS["beta-published"]
>>> round(published.true_epsilon("regression", epsilon=1.0, n=1000, d=2), 2)
7.69
>>> NETWORK_METHODS["beta-auto"].guarantee("classification", epsilon=1.0, n=1000, d=2)
'epsilon 1'
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from onedraw.mechanisms import Shape
from onedraw.nn import DPSGD, NetworkDraw
from onedraw.nn.noisy_gradients import PRESETS
from onedraw.nn.training import Run, train
from onedraw.privacy.request import Request
from onedraw.privacy.subsampled import Sampling, noise_multiplier, spent_epsilon
from onedraw.research.experiments.gaussian_calibration import FLOOR, published_beta, true_epsilon
from onedraw.research.experiments.methods import DELTA, PUBLISHED
from onedraw.research.experiments.network_chain import OneChain
from onedraw.research.experiments.network_tilted import try_linear, try_random
from onedraw.research.experiments.network_trial import Outputs, Trial, network

PRIOR_SCALE = 1.0
UNCLIPPED = 1e9
LINEAR, RANDOM = "tilted-linear", "tilted-random"


@dataclass(frozen=True, kw_only=True)
class NetworkMethod:
    """A method under comparison. ``spent`` is its true epsilon for a task, a nominal epsilon, n and d.

    ``promise`` is what a legend says, with {} for the true epsilons of its curve.
    """

    name: str
    label: str
    promise: str
    delta: float
    try_on: Callable[[Trial, np.random.Generator], Outputs]
    spent: Callable[[str, float, int, int], float]

    def true_epsilon(self, task: str, *, epsilon: float, n: int, d: int) -> float:
        """What a release really guarantees, under replace-one and at ``delta``."""
        return self.spent(task, epsilon, n, d)

    def guarantee(self, task: str, *, epsilon: float, n: int, d: int) -> str:
        """The same as a sentence."""
        true, delta = self.true_epsilon(task, epsilon=epsilon, n=n, d=d), self.delta
        stated = f"epsilon {true:.3g}" + (f", delta {delta:g}" if delta else "")
        return stated if true == epsilon else f"true {stated} (claimed epsilon {epsilon:g})"


def floor_of(task: str) -> float | None:
    """The option ``noise_floor`` of a mechanism for the task."""
    return None if task == "classification" else FLOOR


# -- beta-divergence posterior


@functools.lru_cache(maxsize=256)
def _mechanism(task: str, d: int, epsilon: float, beta: float | str) -> NetworkDraw:
    uncalibrated = NetworkDraw(beta=beta, prior_scale=PRIOR_SCALE, noise_floor=floor_of(task))
    return uncalibrated.calibrate(Request(epsilon=epsilon), Shape(model=network(task, d)))


def _posterior(trial: Trial, rng: np.random.Generator, mechanism: NetworkDraw) -> Outputs:
    states = OneChain(warmup=trial.warmup).states(mechanism.posterior(trial.records), rng)
    outputs = trial.outputs(states)
    spread = np.linspace(0, len(outputs) - 1, trial.releases).round().astype(int)
    mean = special.expit(outputs).mean(axis=0) if trial.task == "classification" else outputs.mean(axis=0)
    return Outputs(releases=outputs[spread], twin=mean)


def _draw(beta: str) -> Callable[[Trial, np.random.Generator], Outputs]:
    def try_on(trial: Trial, rng: np.random.Generator) -> Outputs:
        return _posterior(trial, rng, _mechanism(trial.task, trial.features.shape[1], trial.epsilon, beta))

    return try_on


def _published_draw(trial: Trial, rng: np.random.Generator) -> Outputs:
    # At its true epsilon, that beta has weight 1.
    b = published_beta(trial.epsilon, PRIOR_SCALE**2)
    mechanism = _mechanism(trial.task, trial.features.shape[1], true_epsilon(b), 1.0 + b)
    return _posterior(trial, rng, mechanism)


# -- noisy gradients


def _train(trial: Trial, rng: np.random.Generator, mechanism: DPSGD, run: Run) -> Outputs:
    silent = replace(run, noise=0.0, clip=UNCLIPPED)
    fitted = [
        train(mechanism.objective(), mechanism.initial(rng), trial.records, chosen, rng)
        for chosen in [*[run] * trial.releases, silent]
    ]
    outputs = trial.outputs(np.array(fitted))
    return Outputs(releases=outputs[:-1], twin=outputs[-1])


def _dp_sgd(trial: Trial, rng: np.random.Generator) -> Outputs:
    n, d = trial.features.shape
    mechanism = _schedule(trial.task, trial.epsilon, n, d)
    return _train(trial, rng, mechanism, mechanism.run)


def _schedule(task: str, epsilon: float, n: int, d: int, epochs: int | None = None) -> DPSGD:
    uncalibrated = DPSGD(epochs=epochs, noise_floor=floor_of(task))
    shape = Shape(model=network(task, d), num_records=n)
    return uncalibrated.calibrate(Request(epsilon=epsilon, delta=DELTA), shape)


def _published_schedule(task: str, epsilon: float, n: int, d: int) -> DPSGD:
    return _schedule(task, epsilon, n, d, epochs=15 + math.floor(epsilon))


def published_multiplier(epsilon: float, d: int) -> float:
    """The published noise: for a share of features over batch size of the records in every batch."""
    rate = d / PRESETS["paper"]["batch_size"]
    steps = int((15 + math.floor(epsilon)) / rate)
    return noise_multiplier(epsilon, DELTA, Sampling(rate=rate, steps=steps), "add_remove")


def _published_dp_sgd(trial: Trial, rng: np.random.Generator) -> Outputs:
    n, d = trial.features.shape
    mechanism = _published_schedule(trial.task, trial.epsilon, n, d)
    noise = published_multiplier(trial.epsilon, d) * mechanism.gradient_norm
    return _train(trial, rng, mechanism, replace(mechanism.run, noise=noise))


# -- what is really guaranteed


def _nominal(task: str, epsilon: float, n: int, d: int) -> float:
    return epsilon


def _of_published_beta(task: str, epsilon: float, n: int, d: int) -> float:
    return true_epsilon(published_beta(epsilon, PRIOR_SCALE**2))


@functools.lru_cache(maxsize=256)
def _of_published_noise(task: str, epsilon: float, n: int, d: int) -> float:
    sampling = _published_schedule(task, epsilon, n, d).sampling
    return spent_epsilon(published_multiplier(epsilon, d), DELTA, sampling, "replace_one")


NETWORK_METHODS = {
    method.name: method
    for method in (
        NetworkMethod(
            name="beta-auto",
            label="β-divergence, β and w",
            promise="ε",
            delta=0.0,
            try_on=_draw("auto"),
            spent=_nominal,
        ),
        NetworkMethod(
            name="beta-paper",
            label="β-divergence, w = 1",
            promise="ε",
            delta=0.0,
            try_on=_draw("paper"),
            spent=_nominal,
        ),
        NetworkMethod(
            name=f"beta{PUBLISHED}",
            label="β-divergence, w = 1",
            promise="true ε {}",
            delta=0.0,
            try_on=_published_draw,
            spent=_of_published_beta,
        ),
        NetworkMethod(
            name="dp-sgd",
            label="DP-SGD",
            promise="(ε, 1e-5)",
            delta=DELTA,
            try_on=_dp_sgd,
            spent=_nominal,
        ),
        NetworkMethod(
            name=LINEAR,
            label="tilted fit, no hidden layer",
            promise="ε",
            delta=0.0,
            try_on=try_linear,
            spent=_nominal,
        ),
        NetworkMethod(
            name=RANDOM,
            label="tilted fit on random units",
            promise="ε",
            delta=0.0,
            try_on=try_random,
            spent=_nominal,
        ),
        NetworkMethod(
            name=f"dp-sgd{PUBLISHED}",
            label="DP-SGD",
            promise="true ε {}, δ 1e-5",
            delta=DELTA,
            try_on=_published_dp_sgd,
            spent=_of_published_noise,
        ),
    )
}
"""By name; what ends in ``-published`` has the errors of the published experiments."""
NETWORKS_COMPARED = {
    ("regression", "corrected"): (LINEAR, "beta-auto", "dp-sgd"),
    ("regression", "as-published"): (f"beta{PUBLISHED}", f"dp-sgd{PUBLISHED}"),
    ("classification", "corrected"): (LINEAR, "beta-auto", "beta-paper", "dp-sgd"),
    ("classification", "as-published"): ("beta-paper", f"dp-sgd{PUBLISHED}"),
}
"""The methods of each task and version, in the order of the legends."""
