# SPDX-License-Identifier: Apache-2.0
"""DP variational inference: a normal approximation of a posterior by noisy gradients, and draws from it.

The approximation is q = N(m, diag(s^2)), s = softplus(r) [Jalko, Dikmen & Honkela 2017]. It minimises

    KL(q || prior) + weight * sum of E_q loss(record),

the loss being the beta-divergence's (or -log f with ``beta=None``). A step draws one xi ~ N(0, I), shared by
its records; the gradient of a record is that of weight * loss(record, m + s xi) in (m, r), clipped and noised
as in ``DPSGD``. The gradient of KL(q || prior) involves no data: it is added as it is.

Guarantee:
    (epsilon, delta)-DP as for ``DPSGD``, with the proof there: the data enter through clipped, noised sums
    alone, and xi is independent of them. So (m, s) is private, and **draws from q cost nothing more**: the
    release holds ``draws`` of them, all under the one (epsilon, delta), as a posterior's draws are held
    everywhere else in this package; predictions average over them. Neither beta nor weight affects privacy.

    It is a private approximation, of a posterior's marginals at best: correlations are left out, and
    clipping, noise and a fixed number of steps keep it from the optimum. Nothing but privacy is promised.

Edge cases:
    As for ``DPSGD``. The residual scale of a regression is floor + exp(u), u normal under q; its prior (that
    of the networks: squared scale inverse-gamma above the floor) enters through xi, the rest of the KL
    divergence in closed form.

>>> import pytest; _ = pytest.importorskip("jax_privacy")
>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.privacy import Request
>>> model = NetworkModel(family=Bernoulli(), features=("a",), hidden_layer_sizes=(), classes=(0, 1))
>>> request = Request(epsilon=8.0, delta=1e-5)
>>> mechanism = DPVI(draws=5).calibrate(request, Shape(model=model, num_records=200))
>>> mechanism.guarantee.draws, mechanism.guarantee.epsilon, mechanism.guarantee.delta
(5, 8.0, 1e-05)
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive, whole
from onedraw.mechanisms.base import Requirements
from onedraw.model import NetworkModel
from onedraw.nn.networks import log_scale_prior
from onedraw.nn.noisy_gradients import ClippedGradients
from onedraw.nn.objectives import NetworkLoss, initial_weights
from onedraw.priors import Prior, ScalePrior
from onedraw.privacy.request import Request
from onedraw.types import Array

START = 0.1
"""The first standard deviations of q, as a share of the prior's."""


@dataclass(frozen=True, kw_only=True)
class VariationalObjective:
    """Minus the evidence bound, per record; the parameters are (m, r) in one vector."""

    loss: NetworkLoss
    weight: float
    prior: Prior
    num_records: int

    @property
    def size(self) -> int:
        """The number of working parameters."""
        return self.loss.size

    @property
    def shared(self) -> int:
        """xi."""
        return self.size

    def _split(self, parameters: Any) -> tuple[Any, Any]:
        jax = importlib.import_module("jax")
        return parameters[: self.size], jax.nn.softplus(parameters[self.size :])

    def record_loss(self, parameters: Any, features: Any, response: Any, shared: Any) -> Any:
        """The weighted loss of one record at the step's draw from q."""
        mean, sd = self._split(parameters)
        return self.weight * self.loss(mean + sd * shared, features, response)

    def public_loss(self, parameters: Any, shared: Any) -> Any:
        """KL(q || prior) over the declared number of records."""
        jnp = importlib.import_module("jax.numpy")
        mean, sd = self._split(parameters)
        weights = slice(self.loss.layers.size)
        divergence = -jnp.log(sd).sum()
        divergence += 0.5 * ((mean[weights] ** 2 + sd[weights] ** 2) / self.prior.scale**2).sum()
        noise = self.prior.noise
        if noise is not None:
            u = mean[-1] + sd[-1] * shared[-1]
            divergence -= log_scale_prior(u, noise.floor, noise.shape, noise.rate)
        return divergence / self.num_records

    def project(self, parameters: Any) -> Any:
        """Every q is allowed whose standard deviations are not 0 in floating point."""
        jnp = importlib.import_module("jax.numpy")
        return jnp.concatenate([parameters[: self.size], jnp.maximum(parameters[self.size :], -30.0)])


@dataclass(frozen=True, kw_only=True)
class DPVI(ClippedGradients):
    """Draws from a private normal approximation of a network's posterior.

    Args:
        weight: of the losses against the prior; it does not affect privacy.
        prior_scale: standard deviation of the normal prior of every weight and bias, in working units.
        draws: how many draws of the approximation to release together, at no further cost.

    The others are those of ``onedraw.nn.DPSGD``; ``beta`` is 1.5 unless given.
    """

    name: ClassVar[str] = "dp_vi"
    requirements: ClassVar[Requirements] = Requirements(
        forms=(NetworkModel.form,),
        delta="needed",
        prefer="several draws of a network at once; uncertainty, roughly",
    )

    beta: float | None = 1.5
    weight: float = 1.0
    prior_scale: float = 1.0
    draws: int = 20

    def _check_options(self) -> None:
        super()._check_options()
        positive(weight=self.weight)
        positive(prior_scale=self.prior_scale)
        whole(draws=self.draws)

    def _draws(self, request: Request) -> int:
        return self.draws

    def objective(self) -> VariationalObjective:
        """Minus the evidence bound."""
        floor = self.model.scale_floor
        return VariationalObjective(
            loss=NetworkLoss.of(self.model, self.beta),
            weight=float(self.weight),
            prior=Prior(scale=self.prior_scale, noise=None if floor is None else ScalePrior(floor=floor)),
            num_records=self.declared_records,
        )

    def initial(self, rng: np.random.Generator) -> Array:
        """A public random network as mean, and standard deviations a tenth of the prior's."""
        mean = initial_weights(self.model, rng)
        sd = np.full(len(mean), START * self.prior_scale)
        return np.concatenate([mean, np.log(np.expm1(sd))])

    def _released(self, parameters: Array, rng: np.random.Generator) -> Array:
        mean, sd = parameters[: self.model.dim], np.logaddexp(0.0, parameters[self.model.dim :])
        return mean + sd * rng.standard_normal((self.draws, self.model.dim))
