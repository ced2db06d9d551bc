# SPDX-License-Identifier: Apache-2.0
"""Draws by rejection, atoms and enumeration have the laws that their proofs speak of, on every data set."""

import numpy as np
import pytest
from scipy import special, stats

from onedraw.audit import neighbours_of
from onedraw.chains.perfect import (
    Acceptance,
    PriorEnvelope,
    StudentEnvelope,
    atoms,
    enumerated,
    mixture_log_density,
    rejection,
    rounds_for,
    steps_for,
)
from onedraw.families import Bernoulli
from onedraw.losses import BetaDivergence
from onedraw.posterior import Posterior
from onedraw.priors import Prior

PRIOR = Prior(scale=3.0)
WEIGHT, BETA = 0.5, 2.0  # epsilon = 2 w S = 1 under replace-one
NODES = np.linspace(-30.0, 30.0, 6001)[:, None]


def posterior(features, response):
    return Posterior(
        loss=BetaDivergence(Bernoulli()),
        beta=BETA,
        weight=WEIGHT,
        prior=PRIOR,
        features=np.asarray(features, dtype=float).reshape(-1, 1),
        response=np.asarray(response, dtype=float),
        fit_intercept=False,
    )


SIX = posterior([-1.0, -0.5, 0.2, 0.7, 1.0, 2.0], [0, 1, 0, 1, 1, 1])
PLAIN = PriorEnvelope(prior=PRIOR, dim=1)
AROUND = StudentEnvelope(centre=np.array([1.0]), scales=np.array([0.5]), prior=PRIOR)
ENVELOPES = {"prior": (PLAIN, 0.0), "clipped": (AROUND, -1.5)}


def distribution(log_density):
    mass = np.exp(log_density - log_density.max())
    below = mass.cumsum() / mass.sum()
    return lambda x: np.interp(x, NODES[:, 0], below)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ENVELOPES)
@pytest.mark.parametrize("how", ["rejection", "rejection, 40 rounds", "atoms", "atoms, 40 steps"])
def test_the_law_is_the_closed_form_mixture(name, how):
    """Kolmogorov-Smirnov with 2,000 draws (atoms 800, 250), false alarm 1e-6 each; tails that are cut off
    are below 1e-6."""
    envelope, level = ENVELOPES[name]
    accept = Acceptance(target=SIX, envelope=envelope, log_level=level)
    rng = np.random.default_rng(3)
    if how.startswith("rejection"):
        rounds = 40 if "40" in how else None
        found = [rejection(accept, defence=0.3, rng=rng, rounds=rounds)[0] for _ in range(2000)]
        law = mixture_log_density(accept, NODES, defence=0.3)
    else:
        steps = 40 if "40" in how else None
        scales = np.array([2.0])
        found = [
            atoms(accept, defence=0.6, scales=scales, rng=rng, steps=steps)[0]
            for _ in range(250 if steps else 800)
        ]
        law = mixture_log_density(accept, NODES, defence=0.6, atom=True)
    assert stats.kstest(found, distribution(law)).pvalue > 1e-6
    if how.startswith("rejection"):  # with so many draws, the law without the defence is refused
        posterior_alone = SIX.log_density(NODES)
        assert stats.kstest(found, distribution(posterior_alone)).pvalue < 1e-3


@pytest.mark.statistical
def test_atoms_weigh_two_halves_as_the_mixture_does():
    """Thirty records leave one sign likely: 1.6/2.2 of the law. 4,000 draws, 5 standard errors: false alarm
    1e-6. A chain that goes back to its atom as often as the kernel does, not its residual, has 0.664."""
    target = posterior(np.full(30, 40.0), np.zeros(30))
    accept = Acceptance(target=target, envelope=PLAIN, log_level=0.0)
    rng = np.random.default_rng(6)
    count, scales = 4000, np.array([3.0])
    found = [atoms(accept, defence=0.6, scales=scales, rng=rng)[0] < 0.0 for _ in range(count)]
    p = 1.6 / 2.2
    assert abs(np.mean(found) - p) < 5 * np.sqrt(p * (1 - p) / count)


@pytest.mark.statistical
def test_without_a_defence_rejection_from_the_prior_is_the_posterior():
    """False alarm 1e-6."""
    accept = Acceptance(target=SIX, envelope=PLAIN, log_level=0.0)
    rng = np.random.default_rng(4)
    found = [rejection(accept, defence=0.0, rng=rng)[0] for _ in range(4000)]
    assert stats.kstest(found, distribution(SIX.log_density(NODES))).pvalue > 1e-6


@pytest.mark.statistical
def test_one_of_many_proposals_is_a_draw_from_the_posterior():
    """Each of 500 proposals from a law that covers the posterior: false alarm 1e-6."""
    accept = Acceptance(target=SIX, envelope=AROUND, log_level=0.0)
    rng = np.random.default_rng(5)
    found = [enumerated(accept, proposals=500, rng=rng)[0] for _ in range(1000)]
    assert stats.kstest(found, distribution(SIX.log_density(NODES))).pvalue > 1e-6


def laws(pair, envelope, level, defence, atom, shift):
    for data in (pair.first, pair.second):
        target = posterior(data.features, data.response)
        accept = Acceptance(target=target, envelope=envelope, log_level=level, shift=shift)
        log = mixture_log_density(accept, NODES, defence=defence, atom=atom)
        yield log - special.logsumexp(log)


@pytest.mark.parametrize("atom", [False, True])
@pytest.mark.parametrize("defence", [1e-9, 0.3])
def test_the_closed_form_keeps_its_epsilon_whatever_the_envelope(atom, defence):
    """The law itself on adversarial pairs, replaced (epsilon 1) and removed (1/2), at any level."""
    largest = {True: 0.0, False: 0.0}
    for replaced in (True, False):
        for crowd in (0, 3, 9):
            for envelope, level in (*ENVELOPES.values(), (AROUND, -12.0), (PLAIN, -3.0)):
                other = ([40.0], 0.0) if replaced else None
                pair = neighbours_of([([40.0], 0.0)] * crowd, ([40.0], 1.0), other)
                one, two = laws(pair, envelope, level, defence, atom, 0.0)
                largest[replaced] = max(largest[replaced], float(np.abs(one - two).max()))
    assert largest[True] <= 1.0 + 1e-9
    assert largest[False] <= 0.5 + 1e-9
    if defence < 0.1:
        assert largest[True] > 0.95
        assert largest[False] > 0.45


def test_in_a_fixed_number_of_rounds_the_cost_is_delta():
    """By enumeration: the measure that returns in N rounds obeys epsilon, the rest is at most delta."""
    pair = neighbours_of([([40.0], 0.0)] * 3, ([40.0], 1.0), ([40.0], 0.0))
    defence, delta = 0.1, 1e-3
    rounds = rounds_for(defence, delta)
    assert (1 - defence) ** rounds <= delta < (1 - defence) ** (rounds - 1)
    measures, phi = [], np.exp(PLAIN.log_density(NODES)) * (NODES[1, 0] - NODES[0, 0])
    phi /= phi.sum()
    for data in (pair.first, pair.second):
        target = posterior(data.features, data.response)
        accept = Acceptance(target=target, envelope=PLAIN, log_level=0.0)
        returned = phi * (defence + (1 - defence) * np.exp(accept(NODES)))
        q = returned.sum()
        measures.append(returned * (1 - (1 - q) ** rounds) / q + phi * (1 - q) ** rounds)
    for one, two in (measures, measures[::-1]):
        assert np.maximum(0.0, one - np.e * two).sum() <= delta


def test_the_steps_of_atoms_are_the_fewest():
    steps = steps_for(0.1, 1.0, 1e-4)
    assert (1 + np.e) * 0.95 ** (steps + 1) <= 1e-4 < (1 + np.e) * 0.95**steps


def test_a_fixed_number_of_rounds_takes_the_same_passes_for_every_table():
    rng = np.random.default_rng(0)
    passes = set()
    for y in (0.0, 1.0):
        target = posterior(rng.normal(size=20), np.full(20, y))
        accept = Acceptance(target=target, envelope=PLAIN, log_level=0.0)
        rejection(accept, defence=0.01, rng=np.random.default_rng(1), rounds=700)
        passes.add(target.passes[0])
    assert passes == {700.0}
