# SPDX-License-Identifier: Apache-2.0
"""DP-SGD: a network fitted by clipped, noisy gradients [Abadi et al. 2016].

The release is the last parameter vector of the run, and nothing else: no loss, no gradient, no norm.

Guarantee:
    (epsilon, delta)-DP under replace-one or add/remove, for several rows per person too: that of T
    Poisson-subsampled Gaussian mechanisms with sensitivity C = ``clip`` [``onedraw.nn.accounting``, with the
    proof for both relations]. The gradient of a record is clipped, so nothing is assumed about the records,
    the network or convergence.

The loss of a record is -log f, or with ``beta`` its beta-divergence loss, whose gradient vanishes for
outliers. The sampling rate is batch_size/num_records, of a declared ``num_records``: where neighbours share
the number of records it may be the true one; elsewhere it is a public guess, which scales the batches and
leaves the guarantee as it is.

``preset="paper"`` (the default) is the schedule of Jewson, Ghalebikesabi & Holmes 2023: 14 + floor(epsilon)
epochs, batches of 100, Adam with learning rate 0.01, clip 1. (They square errors; here the residual scale is
fitted too. Their code took the number of features over the batch size for the sampling rate, and one epoch
more, than they printed.)

Edge cases:
    delta = 0 is refused. n = 0 releases noise. The residual scale of a regression is never below its floor.

>>> import pytest; _ = pytest.importorskip("jax_privacy")
>>> import numpy as np
>>> from onedraw.mechanisms import Records
>>> rng = np.random.default_rng(0)
>>> x = rng.uniform(-1, 1, size=(200, 2)); y = (x[:, 0] > 0).astype(float)
>>> model = NetworkModel(features=("a", "b"), hidden_layer_sizes=(), classes=(0, 1))
>>> mechanism = DPSGD(model=model, num_records=200).calibrate(epsilon=8.0, delta=1e-5)
>>> mechanism.sampling.rate, mechanism.sampling.steps                    # 14 + 8 epochs of 2 batches
(0.5, 44)
>>> release = mechanism.release(Records(features=x, response=y), model=model, random_state=0)
>>> release.named_parameters()["w1[a,0]"] > 0
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.mechanisms._base import Requirements
from onedraw.model import NetworkModel
from onedraw.nn.noisy_gradients import WHY_NUM_RECORDS, NetworkLoss, NoisyGradients, initial_weights
from onedraw.privacy.guarantee import Guarantee
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class PointObjective:
    """The mean loss of one network, with nothing added."""

    loss: NetworkLoss
    shared: ClassVar[int] = 0

    def record_loss(self, parameters: Any, features: Any, response: Any, shared: Any) -> Any:
        """The loss of one record."""
        return self.loss(parameters, features, response)

    def public_loss(self, parameters: Any, shared: Any) -> Any:
        """Nothing."""
        return 0.0 * parameters.sum()

    def project(self, parameters: Any) -> Any:
        """Every network is allowed."""
        return parameters


@dataclass(frozen=True, kw_only=True)
class DPSGD(NoisyGradients):
    """One network by noisy gradients. ``beta`` None fits by -log f, a number > 1 by the beta-divergence."""

    name: ClassVar[str] = "dp_sgd"
    requirements: ClassVar[Requirements] = Requirements(
        kinds=(NetworkModel.kind,),
        needs={"num_records": WHY_NUM_RECORDS},
        delta="needed",
        prefer="large networks, large n, δ > 0 acceptable; no chain needs to converge",
    )

    beta: float | None = None

    def objective(self) -> PointObjective:
        """The loss of the network."""
        return PointObjective(loss=NetworkLoss.of(self.model, self.beta))

    def initial(self, rng: np.random.Generator) -> Array:
        """A public random network."""
        return initial_weights(self.model, rng)

    def _check(self, guarantee: Guarantee) -> Guarantee:
        check_beta(self.beta)
        return super()._check(guarantee)

    def _released(self, parameters: Array, rng: np.random.Generator) -> Array:
        return parameters[None, :].copy()

    def _numbers(self) -> Mapping[str, str | float | None]:
        loss = "Gibbs" if self.beta is None else "BetaDivergence"
        return {"loss": loss, "beta": self.beta, **super()._numbers()}


def check_beta(beta: Any) -> None:
    """None, or a number > 1."""
    if beta is not None and not (isinstance(beta, Real) and 1.0 < float(beta) < float("inf")):
        raise InvalidInput(f"Expected beta > 1 and finite, or None for the log loss, got beta={beta!r}.")
