# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient descent that sees the data only through noisy sums of bounded vectors.

A step draws a Poisson batch (every record with probability q, independently), adds up the gradients of its
records, each shrunk to length C if longer (by jax-privacy), adds N(0, (z C)^2) noise to every coordinate, and
hands the result to an optimiser.

Guarantee:
    What the data touch in T steps is the mechanism of ``onedraw.nn.accounting``; everything else (optimiser,
    gradients of priors, projections, what is made of the last parameters) is computed from its outputs and
    public numbers, and costs nothing. Neither q nor T nor z depends on the data: they follow from a declared
    number of records, which need not be the true one for the guarantee to hold. Sums are divided by the
    declared size of a batch, not by the true one.

    Gradients are clipped a millionth below C, far more than the rounding of norms and of sums. A gradient
    that is not a number, or whose norm overflows, counts as 0.

Random numbers: batches and noise are drawn by NumPy from the generator of the release, which is the secure
one (``onedraw._random``) unless the user fixed a seed. JAX draws none.

Edge cases:
    An empty batch is a step of pure noise. A batch larger than the compiled size is added up in several
    pieces, never cut. Parameters are held within +-2^20, so that no run can end in an infinite number.
"""

from __future__ import annotations

import functools
import importlib
import math
import warnings
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import numpy as np

from onedraw._extras import optional
from onedraw._validate import one_of, positive, whole
from onedraw.families import Categorical
from onedraw.mechanisms import Records
from onedraw.mechanisms._base import BoundedMechanism
from onedraw.model import NetworkModel, Shape
from onedraw.nn import likelihood
from onedraw.nn.accounting import Sampling, noise_multiplier
from onedraw.nn.networks import NetworkDensity, refuse_other_model
from onedraw.privacy.guarantee import Guarantee
from onedraw.release import Grid, coefficient_step, scale_step
from onedraw.samplers.base import Evidence
from onedraw.samplers.nuts import above
from onedraw.types import AnyArray, Array

OPTIMISERS = ("adam", "sgd")
PRESETS: Mapping[str, Mapping[str, float]] = {
    "paper": {"batch_size": 100, "learning_rate": 1e-2, "clip": 1.0},
}
"""The settings of a preset; its number of epochs is ``14 + floor(epsilon)``."""
SHRINK = 1.0 - 1e-6
"""Gradients are clipped to this fraction of C."""
LARGEST = 2.0**20
"""What larger parameters count as."""
WHY_NUM_RECORDS = (
    "the share of records in a batch, and with it the noise, is fixed before the data are seen. Give the "
    "number of records where it is public, or a public guess of it."
)


class Objective(Hashable, Protocol):
    """What is minimised: the mean of ``record_loss`` plus ``public_loss``; equal ones share compiled code."""

    @property
    def shared(self) -> int:
        """How many standard normal numbers all records of a step share."""

    def record_loss(self, parameters: Any, features: Any, response: Any, shared: Any) -> Any:
        """The loss of one record: features (d,), a scalar response."""

    def public_loss(self, parameters: Any, shared: Any) -> Any:
        """What involves no data, per record."""

    def project(self, parameters: Any) -> Any:
        """The nearest parameters that are allowed."""


@dataclass(frozen=True, kw_only=True)
class NetworkLoss:
    """The loss of one record under a network: -log f, or the beta-divergence loss if ``beta`` is given.

    The residual scale of a regression enters as floor + exp(u), u the last parameter.
    """

    shape: Shape
    activation: str
    family: str
    beta: float | None = None
    floor: float | None = None

    @classmethod
    def of(cls, model: NetworkModel, beta: float | None) -> NetworkLoss:
        """The loss of a model's records."""
        return cls(
            shape=model.shape,
            activation=model.activation,
            family=model.family().name,
            beta=beta,
            floor=model.scale_floor,
        )

    def __call__(self, theta: Any, features: Any, response: Any) -> Any:
        jax = importlib.import_module("jax")
        jnp = jax.numpy
        network = NetworkDensity(shape=self.shape, activation=self.activation, family=self.family)
        output = network.outputs(theta, features[:, None])[:, 0]
        if self.family == "bernoulli":
            if self.beta is not None:
                return likelihood.bernoulli_loss(response, output[0], self.beta)
            return jax.nn.softplus((1.0 - 2.0 * response) * output[0])
        if self.family == "categorical":
            logits = jnp.asarray(Categorical(num_classes=self.shape.outputs + 1).contrasts) @ output
            if self.beta is not None:
                return likelihood.categorical_loss(response, logits, self.beta)
            return -jax.nn.log_softmax(logits)[jnp.asarray(response, dtype=int)]
        scale, _ = above(self.floor, theta[self.shape.size])
        if self.beta is not None:
            return likelihood.gaussian_loss(response, output[0], scale, self.beta, self.floor)
        return 0.5 * jnp.square((response - output[0]) / scale) + jnp.log(scale)


@dataclass(frozen=True, kw_only=True)
class Plan:
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


def train(objective: Objective, start: Array, data: Records, plan: Plan, rng: np.random.Generator) -> Array:
    """The last parameters (p,) of a run from ``start``. Differentially private, but off the public grid."""
    jax_numpy = modules().jax.numpy
    with _quiet_double_precision():
        summed, update, begin = _compiled(objective, plan.optimiser)
        parameters = objective.project(jax_numpy.asarray(start))
        state = begin(parameters)
        for _ in range(plan.sampling.steps):
            shared = jax_numpy.asarray(rng.standard_normal(objective.shared))
            batch = poisson_batch(rng, len(data.response), plan.sampling.rate)
            total = np.zeros_like(start)
            for first in range(0, len(batch), plan.physical):
                piece = _padded(data, batch[first : first + plan.physical], plan.physical)
                total += np.asarray(summed(parameters, *piece, shared, SHRINK * plan.clip))
            noisy = total + plan.noise * rng.standard_normal(len(start))
            gradient = noisy / plan.expected
            parameters, state = update(parameters, state, gradient, shared, plan.learning_rate)
        return np.array(parameters)


def _padded(data: Records, rows: AnyArray, size: int) -> tuple[Array, Array, AnyArray]:
    """Features, response and which entries are padding, all of length ``size``."""
    features, response = np.zeros((size, data.features.shape[1])), np.zeros(size)
    features[: len(rows)], response[: len(rows)] = data.features[rows], data.response[rows]
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


@dataclass(frozen=True, kw_only=True)
class NoisyGradients(BoundedMechanism):
    """A network fitted by noisy gradients, calibrated before any data are seen.

    ``num_records`` is the public (or a publicly guessed) number of records. ``batch_size`` is the expected
    size of a batch. ``epochs``, ``batch_size``, ``learning_rate`` and ``clip`` come from ``preset`` where
    they are not given: the schedule of Jewson, Ghalebikesabi & Holmes 2023.
    """

    model: NetworkModel
    num_records: int | None = None
    preset: Literal["paper"] = "paper"
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    clip: float | None = None
    optimiser: Literal["adam", "sgd"] = "adam"

    # -- what a kind of run adds

    @abstractmethod
    def objective(self) -> Objective:
        """What is minimised."""

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> Array:
        """Public starting parameters, (p,)."""

    @abstractmethod
    def _released(self, parameters: Array, rng: np.random.Generator) -> Array:
        """Draws (k, p) of the working parameters, made of the last parameters of a run."""

    def _prepared(self, data: Records) -> Records:
        """The records within their declared bounds. Private."""
        return data

    # -- public numbers

    def _setting(self, name: str) -> float:
        own = getattr(self, name)
        return float(PRESETS[self.preset][name] if own is None else own)

    def _epochs(self) -> int:
        return 14 + math.floor(self.guarantee.epsilon) if self.epochs is None else self.epochs

    @property
    def gradient_norm(self) -> float:
        """C: what the gradient of a record is clipped to."""
        return self._setting("clip")

    @property
    def sampling(self) -> Sampling:
        """Rate and number of steps, from the declared number of records."""
        records = whole(num_records=self.num_records)
        batch = min(self._setting("batch_size"), records)
        return Sampling(
            rate=batch / records,
            steps=self._epochs() * math.ceil(records / batch),
            rows_per_person=self.guarantee.rows_per_person,
        )

    @property
    def noise_multiplier(self) -> float:
        """z: the noise has standard deviation z C in every coordinate of a sum of gradients."""
        promise = self.guarantee
        return noise_multiplier(promise.epsilon, promise.delta, self.sampling, promise.neighbours)

    @property
    def plan(self) -> Plan:
        """All public numbers of a run."""
        sampling = self.sampling
        return Plan(
            sampling=sampling,
            clip=self.gradient_norm,
            noise=self.noise_multiplier * self.gradient_norm,
            expected=sampling.rate * whole(num_records=self.num_records),
            optimiser=self.optimiser,
            learning_rate=self._setting("learning_rate"),
        )

    @property
    def grid(self) -> Grid:
        """2^-40 of one, and of the floor for a residual scale."""
        floor = self.model.scale_floor
        return Grid(coefficient=coefficient_step(1.0), scale=None if floor is None else scale_step(floor))

    # -- what all do alike

    def _check(self, guarantee: Guarantee) -> Guarantee:
        whole(num_records=self.num_records, remedy=WHY_NUM_RECORDS)
        one_of(PRESETS, preset=self.preset)
        one_of(OPTIMISERS, optimiser=self.optimiser)
        for name in ("epochs", "batch_size"):
            if getattr(self, name) is not None:
                whole(**{name: getattr(self, name)})
        for name in ("learning_rate", "clip"):
            if getattr(self, name) is not None:
                positive(**{name: getattr(self, name)})
        _ = replace(self, promise=guarantee).plan  # solved for now: an impossible promise fails before data
        return guarantee

    def _check_model(self, model: Any) -> None:
        refuse_other_model(type(self).__name__, self.model, model)
        modules()  # before any budget is spent

    def _values(self, data: Records, model: Any, rng: np.random.Generator) -> tuple[Array, Evidence]:
        self.model.family().check_response(data.response)
        last = train(self.objective(), self.initial(rng), self._prepared(data), self.plan, rng)
        values = self._released(last, rng)
        if self.model.scale_floor is not None:
            values[:, -1] = self.model.scale_floor + np.exp(np.minimum(values[:, -1], 300.0))
        return values, self._evidence()

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        if self.guarantee.num_records_is_public:
            return (self._bounding_note(),)
        declared = f"num_records={self.num_records} was declared without a look at the private data."
        return self._bounding_note(), declared

    def _bounding_note(self) -> str:
        return (
            f"Gradients of single records longer than {self.gradient_norm:g} were shrunk to that length, "
            "which may bias the fit."
        )

    def _evidence(self) -> Evidence:
        plan = self.plan
        return Evidence(
            level="accounted",
            statement=(
                f"{plan.sampling.steps} noisy sums of gradients, each record in a batch with probability "
                f"{plan.sampling.rate:.4g}, with Gaussian noise of {self.noise_multiplier:.4g} times the "
                "largest length of a gradient; their privacy loss together was bounded numerically by the "
                "privacy-loss-distribution accountant of dp-accounting. Nothing rests on convergence."
            ),
        )

    def _numbers(self) -> Mapping[str, str | float | None]:
        plan = self.plan
        return {
            "optimiser": self.optimiser,
            "learning_rate": plan.learning_rate,
            "declared_num_records": float(whole(num_records=self.num_records)),
            "epochs": float(self._epochs()),
            "batch_size": self._setting("batch_size"),
            "sampling_rate": plan.sampling.rate,
            "steps": float(plan.sampling.steps),
            "gradient_norm": plan.clip,
            "noise_multiplier": self.noise_multiplier,
        }


def initial_weights(model: NetworkModel, rng: np.random.Generator) -> Array:
    """A public random network, (p,): weights of variance 2 (relu) or 1 (tanh) over inputs, biases 0.

    All 0 without hidden layers, where nothing needs to tell units apart. The last entry of a regression is
    u = 0: a scale of one above the floor.
    """
    start = np.zeros(model.dim)
    if not model.hidden_layer_sizes:
        return start
    gain = 2.0 if model.activation == "relu" else 1.0
    for weights, _ in model.shape.unpack(start):  # views
        weights[...] = rng.standard_normal(weights.shape) * math.sqrt(gain / max(1, len(weights)))
    return start
