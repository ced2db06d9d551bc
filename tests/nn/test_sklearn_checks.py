# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's own contract for the networks, with every exception written down.

Its checks fit some ninety tables of different shapes, and a compiled chain fits one shape. What they test is
everything around the chain, so here a climb to a nearby mode, in NumPy, stands in for it; ``test_mlp`` fits
with the chains themselves.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import optimize
from sklearn.utils.estimator_checks import parametrize_with_checks

from onedraw import MLPClassifier, MLPRegressor
from onedraw.losses import BetaDivergence
from onedraw.model.network import forward
from onedraw.nn import NetworkDraw, NutsSampler
from onedraw.samplers.base import Draws

EXPECTED_FAILURES = {"MLPClassifier": {}, "MLPRegressor": {}}


@dataclass(frozen=True, kw_only=True)
class Climb(NutsSampler):
    """The end of a short climb of the log density from a draw of the prior: no draw of anything."""

    def require(self):
        pass

    def sample(self, posterior, num_draws, rng):
        layers, noise, records = posterior.model.layers, posterior.prior.noise, posterior.records
        loss, y = BetaDivergence(posterior.model.family), records.response[:, None]

        def cost(theta):
            outputs = forward(layers, posterior.model.activation, theta[None], records.features)
            eta = outputs.transpose(2, 1, 0)
            scale = None if noise is None else noise.scale(theta[-1:])[None]
            losses = loss.value(y, eta if len(eta) > 1 else eta[0], posterior.beta, scale)
            return posterior.weight * losses.sum() - posterior.prior.log_density(theta[None])[0]

        start = posterior.initial(1, rng)[0]
        found = optimize.minimize(cost, start, method="L-BFGS-B", options={"maxiter": 60}).x
        return Draws(values=np.tile(found, (num_draws, 1)), evidence=self.evidence)


@parametrize_with_checks(
    [
        MLPClassifier(
            epsilon=100.0, hidden_layer_sizes=(3,), mechanism=NetworkDraw(sampler=Climb()), random_state=0
        ),
        MLPRegressor(
            epsilon=60.0, hidden_layer_sizes=(2,), mechanism=NetworkDraw(sampler=Climb()), random_state=0
        ),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator).__name__],
    xfail_strict=True,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_the_defaults_can_be_constructed_and_shown():
    for kind in (MLPClassifier, MLPRegressor):
        assert repr(kind(epsilon=1.0)) == f"{kind.__name__}(epsilon=1.0)"
        assert kind().get_params()["mechanism"] == "auto"
        with pytest.raises(ValueError, match="epsilon"):
            kind().fit([[0.0], [1.0]], [0, 1])
