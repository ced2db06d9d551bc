# SPDX-License-Identifier: Apache-2.0
"""Small logistic posteriors with one and two parameters, and exact draws of them from a fine grid."""

import numpy as np
import pytest

from onedraw.chains.engine import Comparison, Move
from onedraw.families import Bernoulli
from onedraw.losses import BetaDivergence
from onedraw.posterior import Posterior
from onedraw.priors import Prior


class Flat:
    """Records whose log ratios are given, under a flat prior."""

    weight, prior = 1.0, Prior(scale=1e9)

    def __init__(self, ratios):
        self.ratios, self.num_records = np.asarray(ratios, dtype=float), len(ratios)

    def record_losses(self, thetas, rows):
        return np.stack([-self.ratios[rows], np.zeros(len(rows))])


def share_of_moves(rule, ratios, count, rng, chunk=2000):
    """The share of moves of length 1 that are made, of ``count``."""
    made = 0
    for _ in range(count // chunk):
        states = np.zeros((chunk, 1))
        move = Move(states=states, length=np.ones(chunk))
        comparison = Comparison(
            target=Flat(ratios), states=states, move=move, current=lambda: np.zeros(chunk)
        )
        made += rule.accepts(comparison, rng).sum()
    return made / (count // chunk * chunk)


@pytest.fixture
def decisions():
    """``(rule, ratios, count, rng) -> share of moves of length 1 that are made``."""
    return share_of_moves


def small_posterior(dim, weight=1.0, n=12, beta=1.5):
    rng = np.random.default_rng(dim)
    features = rng.uniform(-1, 1, size=(n, dim))
    response = (rng.random(n) < 1 / (1 + np.exp(-2 * features[:, 0] - 0.7))).astype(float)
    return Posterior(
        loss=BetaDivergence(Bernoulli()),
        beta=beta,
        weight=weight,
        prior=Prior(scale=3.0),
        features=features,
        response=response,
        fit_intercept=False,
    )


def oracle(posterior, num, rng):
    """Draws from the posterior on cells far narrower than its spread, uniform within each."""
    dim = posterior.dim
    edges = np.linspace(-15.0, 15.0, 6001 if dim == 1 else 601)
    step = edges[1] - edges[0]
    nodes = np.stack([grid.ravel() for grid in np.meshgrid(*[edges] * dim, indexing="ij")], axis=1)
    logs = np.concatenate([posterior.log_density(part) for part in np.array_split(nodes, 64)])
    mass = np.exp(logs - logs.max())
    chosen = rng.choice(len(nodes), num, p=mass / mass.sum())
    return nodes[chosen] + step * (rng.random((num, dim)) - 0.5)


@pytest.fixture(scope="session")
def exact_draws():
    """``(dim) -> (posterior, start, reference)``: two independent sets of 4000 exact draws."""
    made = {}

    def draws(dim):
        if dim not in made:
            rng = np.random.default_rng(10 + dim)
            posterior = small_posterior(dim)
            made[dim] = posterior, oracle(posterior, 4000, rng), oracle(posterior, 40_000, rng)
        return made[dim]

    return draws
