# SPDX-License-Identifier: Apache-2.0
"""Every mechanism is on the list of the audited, and at smoke size none contradicts its claim."""

import dataclasses
import importlib.util
import math

import numpy as np
import pytest
from scipy import stats

import onedraw
from onedraw import mechanisms
from onedraw.audit import Finding, membership_attack, neighbours_of, output_laws
from onedraw.audit.densities import known_density
from onedraw.audit.subjects import SUBJECTS, audit_subject, root_mean_squared_error
from onedraw.audit.subjects.networks import NETWORKS, ONE_STEP
from onedraw.cli.audit import MECHANISMS
from onedraw.model import RegressionModel
from onedraw.nn import DPSGD, DPVI, BetaSGD
from onedraw.nn.offered import BY_GRADIENTS

jax_only = [
    pytest.mark.jax,
    pytest.mark.skipif(importlib.util.find_spec("jax_privacy") is None, reason="needs the jax extra"),
]
OF_NETWORKS = [subject.name for subject in NETWORKS]
PAIRS = [(name, relation) for name, subject in SUBJECTS.items() for relation in subject.relations]
SMOKE = [pytest.param(*pair, marks=jax_only if pair[0] in OF_NETWORKS else ()) for pair in PAIRS]
CONFIDENCE = 1 - 0.001 / len(SMOKE)
"""All claims together are contradicted by chance with probability 0.1% at most."""


def test_every_mechanism_is_audited():
    model = {True: NETWORKS[0].model, False: RegressionModel(kind="logistic", features=("x",))}
    built = [subject.build(model[subject.name in OF_NETWORKS]) for subject in SUBJECTS.values()]
    regressions = set(mechanisms.__all__) - {"Mechanism", "Records"}
    networks = {kind.__name__ for kind in BY_GRADIENTS.values()} | {"NetworkSample"}
    assert {type(mechanism).__name__ for mechanism in built} == regressions | networks


def test_the_command_offers_the_list():
    assert tuple(SUBJECTS) == MECHANISMS


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "relation"), SMOKE)
def test_no_mechanism_contradicts_its_claim(name, relation):
    rounds = max(24, 300 // SUBJECTS[name].slowness)
    finding = audit_subject(
        SUBJECTS[name],
        epsilon=1.0,
        neighbours=relation,
        rounds=rounds,
        tries=0,
        confidence=CONFIDENCE,
        random_state=0,
    )
    assert finding.verdict == "not contradicted"
    assert (finding.claimed.epsilon, finding.claimed.neighbours) == (1.0, relation)
    assert finding.exact_epsilon is None or finding.exact_epsilon <= 1.0 + 1e-9


def test_accuracy_improves_with_epsilon():
    for name in ("one-posterior", "linear-ssp", "beta-bernoulli-ssp"):
        strict, loose = (root_mean_squared_error(SUBJECTS[name], epsilon=e, repeats=5) for e in (0.05, 50.0))
        assert loose < strict


def test_the_papers_pair_is_for_logistic_models():
    with pytest.raises(onedraw.InvalidInput, match="paper's pair is for logistic models"):
        audit_subject(SUBJECTS["one-posterior-linear"], epsilon=1.0, pair="paper")
    with pytest.raises(onedraw.InvalidInput, match="neighbours to be one of 'replace_one'"):
        audit_subject(SUBJECTS["output-perturbation"], epsilon=1.0, neighbours="add_remove")


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["beta-bernoulli-draw", "gaussian-mean-draw"])
def test_the_law_of_a_conjugate_draw_is_that_of_its_releases(name):
    """Kolmogorov-Smirnov with 2000 releases, against the integral of the density: false alarm 1e-6."""
    subject = SUBJECTS[name]
    mechanism, model = subject.calibrated(epsilon=3.0), subject.model
    low, high = (0.0, 1.0) if name == "beta-bernoulli-draw" else (-9.0, 2.0)
    data = neighbours_of([([], low)] * 4, ([], high)).first
    density = known_density(mechanism, data, model)
    rng = np.random.default_rng(0)
    released = [mechanism.release(data, model=model, random_state=rng).draws[0][0] for _ in range(2000)]
    nodes = np.linspace(-60.0, 60.0, 60_001)
    mass = np.exp(density.log_density(nodes[:, None])) * (nodes[1] - nodes[0])
    assert mass.sum() == pytest.approx(1.0, abs=1e-9)
    assert stats.kstest(released, lambda z: np.interp(z, nodes, mass.cumsum())).pvalue > 1e-6


# -- networks


def one_step(kind, **options):
    """A mechanism that makes one step in full batches, at a claim that a few hundred runs can refute."""
    model = NETWORKS[0].model
    needed = {"feature_norm": 2.0} if kind.__name__.endswith("BetaSGD") else {}
    options = {**ONE_STEP, **needed, **options}
    return kind(model=model, **options).calibrate(epsilon=1.0, delta=0.1), model


def halved(kind):
    class Halved(kind):
        @property
        def noise_multiplier(self):
            return super().noise_multiplier / 2

    Halved.__name__ = kind.__name__
    return Halved


def unclipped(kind):
    class Unclipped(kind):
        @property
        def plan(self):
            return dataclasses.replace(super().plan, clip=1e6)

    Unclipped.__name__ = kind.__name__
    return Unclipped


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [DPSGD, BetaSGD, DPVI])
def test_the_law_of_one_step_is_that_of_its_releases(kind):
    """600 releases: means and spreads within 5 standard errors (14% of a spread): false alarm below 1e-5."""
    pytest.importorskip("jax_privacy")
    mechanism, model = one_step(kind, **({"draws": 100} if kind is DPVI else {}))
    data = neighbours_of([([0.3], 0.0), ([-0.2], 1.0)], ([10.0], 1.0)).first
    density = known_density(mechanism, data, model)
    rng = np.random.default_rng(0)
    released = np.array(
        [np.mean(mechanism.release(data, model=model, random_state=rng).draws, axis=0) for _ in range(600)]
    )
    assert np.abs(released.mean(axis=0) - density.location).max() <= 5 * density.scale / math.sqrt(600)
    assert np.abs(released.std(axis=0) / density.scale - 1).max() <= 5 / math.sqrt(1200)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [DPSGD, BetaSGD, DPVI])
@pytest.mark.parametrize("broken", [None, halved, unclipped])
def test_a_broken_step_is_contradicted_and_a_sound_one_is_not(kind, broken):
    """By the attack alone. A sound one is contradicted with probability 1e-3 at most.

    The gradient at the start is 84% of BetaSGD's bound: it takes more runs.
    """
    pytest.importorskip("jax_privacy")
    if broken is unclipped and kind is BetaSGD:
        pytest.skip("its gradients are bounded by proof, and the clip never acts")
    rounds, options = (1000, {"beta": 2.0}) if kind is BetaSGD else (400, {})
    mechanism, model = one_step(broken(kind) if broken else kind, **options)
    pair = neighbours_of([], ([10.0], 1.0), ([10.0], 0.0))
    attack = membership_attack(mechanism, pair, model, rounds=rounds, random_state=1)
    attack = dataclasses.replace(attack, threshold=1.0)
    found = Finding(name="one step", claimed=mechanism.guarantee, attack=attack, confidence=0.999)
    assert found.contradicted == (broken is not None)


def test_the_network_posterior_is_the_logistic_one_and_a_doubled_weight_is_contradicted():
    """Without a hidden layer the network is logistic regression: the two agree up to a constant."""
    pytest.importorskip("jax")
    mechanism = SUBJECTS["network-posterior"].calibrated(epsilon=1.0)
    model = NETWORKS[0].model
    pair = neighbours_of([([0.5], 1.0)] * 2, ([1.0], 1.0), ([1.0], 0.0))
    nodes = np.random.default_rng(0).normal(size=(50, 2)) * 3
    plain = mechanisms.OnePosteriorSample(
        loss=mechanism.loss, prior=mechanism.prior, sampler=None, calibration=mechanism.calibration
    )
    away = mechanism.posterior(pair.first).log_density(nodes) - plain.posterior(pair.first).log_density(nodes)
    np.testing.assert_allclose(away, away[0], atol=1e-9)
    laws = output_laws(mechanism, pair, model)
    assert 0.5 < laws.epsilon() <= 1.0
    loud = dataclasses.replace(mechanism.calibration, weight=2 * mechanism.calibration.weight)
    assert output_laws(dataclasses.replace(mechanism, calibration=loud), pair, model).epsilon() > 1.0


def test_rounds_on_one_chain_are_refused():
    """Its draws are not independent, and a bound from them would not hold."""
    pytest.importorskip("jax")
    mechanism = SUBJECTS["network-posterior"].calibrated(epsilon=1.0)
    pair = neighbours_of([], ([1.0], 1.0), ([1.0], 0.0))
    with pytest.raises(onedraw.InvalidInput, match="a chain for each of the 50 rounds"):
        membership_attack(mechanism, pair, NETWORKS[0].model, rounds=100, random_state=0)


@pytest.mark.jax
def test_accuracy_of_a_network_by_gradients_is_that_of_the_published_schedule():
    pytest.importorskip("jax_privacy")
    strict, loose = (root_mean_squared_error(SUBJECTS["dp-sgd"], epsilon=e, repeats=2) for e in (0.1, 50.0))
    assert loose < strict
