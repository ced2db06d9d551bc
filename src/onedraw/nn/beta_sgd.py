# SPDX-License-Identifier: Apache-2.0
"""DP-SGD on the beta-divergence loss without clipping: the gradient of a record is bounded by proof.

Clipping changes what is fitted, as soon as it bites. The beta-divergence loss of a class has a bounded slope
in the output, so where the output has a bounded slope in the parameters no gradient needs to be clipped.

Guarantee:
    That of ``DPSGD``, with C the bound below. Let m be the output (log odds) for a record with features x,
    held to |(x, 1)| <= X = ``feature_norm`` (longer x are shrunk), and p the probability of its class.

    * |dl/dm| = (1-p)^2 p^b + p (1-p)^(b+1), b = beta - 1, of supremum L (8/27 at beta = 2).
    * No hidden layer: m is linear, its gradient is (x, 1), so C = L X.
    * One hidden layer of H tanh units h_j with outgoing weights v, held to |v| <= R = ``weight_norm`` by a
      projection after each step: C = L sqrt(H + max(1, R^2 X^2)).

    *Proof of the last.* The squared gradient of m is 1 + sum_j h_j^2 + sum_j v_j^2 (1 - h_j^2)^2 |(x, 1)|^2:
    output bias, v, and the incoming weights and bias of unit j. Each pair of terms is convex in h_j^2, so at
    most max(1, v_j^2 X^2), at the ends; and their sum is convex in (v_1^2, ..., v_H^2), so largest where all
    of R^2 is one unit's: H - 1 + max(1, R^2 X^2). []

    Both bounds are attained (in the limit of saturated units), so no smaller one holds. For relu, deeper
    networks, more classes and regression none is offered: use ``DPSGD``, which clips.

Gradients still pass through jax-privacy's clipping, at C: a second line of defence that never acts.

>>> import pytest; _ = pytest.importorskip("jax_privacy")
>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.privacy import Request
>>> model = NetworkModel(family=Bernoulli(), features=("a",), hidden_layer_sizes=(), classes=(0, 1))
>>> mechanism = BetaSGD(beta=2.0, feature_norm=2.0)
>>> request = Request(epsilon=1.0, delta=1e-5)
>>> round(mechanism.calibrate(request, Shape(model=model, num_records=100)).gradient_norm, 6)
0.592594
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive
from onedraw.advice import LeaveOut, Set
from onedraw.errors import InvalidInput
from onedraw.families.bernoulli import slope_bound
from onedraw.mechanisms._bounds import bounded_design
from onedraw.mechanisms.base import Requirements
from onedraw.model import NetworkModel
from onedraw.nn.noisy_gradients import NoisyGradients, check_beta
from onedraw.nn.objectives import NetworkLoss, PointObjective, initial_weights
from onedraw.records import Records
from onedraw.types import Array

ROUNDING = 2e-6
"""The bound is raised by this relative amount, more than by which clipping is tightened: it never acts."""


@dataclass(frozen=True, kw_only=True)
class BetaSGD(NoisyGradients):
    """Noisy gradients of the beta-divergence loss of two classes, with a proved bound instead of a clip.

    Args:
        beta: of the loss, > 1.
        feature_norm: X, the length that longer feature vectors are shrunk to, the 1 of the bias included.
        weight_norm: R, the length that the weights of a hidden layer's output are held to.

    The others are those of the schedule: ``num_records``, ``preset``, ``epochs``, ``batch_size``,
    ``learning_rate`` and ``optimiser`` (see ``onedraw.nn.noisy_gradients.NoisyGradients``).
    """

    name: ClassVar[str] = "beta_sgd"
    requirements: ClassVar[Requirements] = Requirements(
        forms=(NetworkModel.form,),
        needs={
            "feature_norm": "without clipping, the gradient of a record is as long as its feature vector."
        },
        delta="needed",
        prefer="features have a tight bound and clipping would bias the fit",
    )

    beta: float = 1.5
    feature_norm: float | None = None
    weight_norm: float | None = None

    # -- what is refused

    def _check_options(self) -> None:
        super()._check_options()
        check_beta(self.beta, "DPSGD fits by the log loss.")
        if self._needed("feature_norm") <= 1.0:
            raise InvalidInput(
                f"Expected feature_norm > 1, got feature_norm={self.feature_norm!r}: it bounds the feature "
                "vector together with the 1 of the bias."
            )
        if self.weight_norm is not None:
            positive(weight_norm=self.weight_norm)

    def _check_model(self, model: Any) -> None:
        hidden, classes = model.hidden_layer_sizes, model.classes
        relu = bool(hidden) and model.activation != "tanh"
        if classes is None or len(classes) != 2 or len(hidden) > 1 or relu:
            raise InvalidInput(
                "BetaSGD has a proved gradient bound for two classes and no hidden layer, or one of tanh "
                f"units, got {'a regression' if classes is None else f'{len(classes)} classes'} and "
                f"hidden_layer_sizes={hidden!r}, activation={model.activation!r}. "
                "Use DPSGD, which clips."
            )
        if hidden and self.weight_norm is None:
            raise InvalidInput(
                "BetaSGD needs weight_norm: the gradient of the first layer is as long as the weights of the "
                "second.",
                advice=[Set("weight_norm", of="BetaSGD"), Set("mechanism", "network_draw")],
            )
        if not hidden and self.weight_norm is not None:
            raise InvalidInput(
                "BetaSGD has no use for weight_norm without a hidden layer.",
                advice=LeaveOut("weight_norm", of="BetaSGD"),
            )
        super()._check_model(model)

    # -- the run

    @property
    def gradient_norm(self) -> float:
        """C: no gradient of a record within its bounds is longer."""
        norm = self._needed("feature_norm")
        hidden = self.model.hidden_layer_sizes
        if hidden:
            norm = math.sqrt(hidden[0] + max(1.0, norm * positive(weight_norm=self.weight_norm)) ** 2)
        return slope_bound(float(self.beta)) * norm * (1.0 + ROUNDING)

    def objective(self) -> PointObjective:
        """The loss of the network, and the bound of its last weights."""
        return PointObjective(loss=NetworkLoss.of(self.model, self.beta), weight_norm=self.weight_norm)

    def initial(self, rng: np.random.Generator) -> Array:
        """A public random network."""
        return initial_weights(self.model, rng)

    def _released(self, parameters: Array, rng: np.random.Generator) -> Array:
        return parameters[None, :].copy()

    def _prepared(self, records: Records) -> Records:
        room = math.sqrt(self._needed("feature_norm") ** 2 - 1.0)  # the 1 of the bias takes the rest
        bounded = bounded_design(records.features, fit_intercept=False, feature_norm=room)
        return replace(records, features=bounded)

    def _bounding_note(self) -> str:
        return (
            f"Feature vectors longer than feature_norm={self.feature_norm:g} in working units, the 1 of the "
            "bias included, were shrunk to that length; gradients were not clipped."
        )
