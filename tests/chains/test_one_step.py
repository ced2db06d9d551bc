# SPDX-License-Identifier: Apache-2.0
"""The enumerated law of one step is what the engine does, and obeys the claim."""

import numpy as np
import pytest
from scipy import stats

from onedraw.audit.chain_steps import ONE_STEP, is_one_chain_step, one_step, one_step_laws
from onedraw.audit.subjects import SUBJECTS
from onedraw.mechanisms import PrivateBarker, PrivateSGLD

STEPPED = [name for name in ONE_STEP if name != PrivateSGLD.name]


def subject(name):
    return SUBJECTS[f"{name}:one_step"]


@pytest.mark.statistical
@pytest.mark.parametrize("name", STEPPED)
def test_steps_have_the_enumerated_law(name):
    """1,500 chains of one step: the share that stays (5 standard errors) and where the others go (KS): false
    alarm 2e-6 each."""
    mechanism = subject(name).calibrated(epsilon=1.0)
    assert is_one_chain_step(mechanism)
    records = subject(name).pairs("replace_one")[-1].first
    step, count = one_step(mechanism, records), 1500
    rng = np.random.default_rng(0)
    start = np.tile(step.start, (count, 1))
    ends = mechanism._run(mechanism.target(records), start, mechanism._request(), rng).states[-1]
    stayed = (ends == start).all(axis=1)
    p = np.exp(step.log_atom)
    assert abs(stayed.mean() - p) < 5 * np.sqrt(p * (1 - p) / count)
    nodes, _ = step.nodes
    mass = np.exp(step.log_density(nodes + 1e-9))
    below = mass.cumsum() / mass.sum()
    found = stats.kstest(ends[~stayed, 0], lambda x: np.interp(x, nodes[:, 0], below))
    assert found.pvalue > 1e-6


@pytest.mark.parametrize("name", STEPPED)
def test_the_enumerated_law_is_a_law_and_keeps_the_claim(name):
    for relation in subject(name).relations:
        mechanism = subject(name).calibrated(epsilon=1.0, neighbours=relation)
        pair = subject(name).pairs(relation)[0]
        step = one_step(mechanism, pair.first)
        nodes, volume = step.nodes
        total = np.exp(step.log_atom) + np.exp(step.log_density(nodes + 1e-9) + volume).sum()
        assert total == pytest.approx(1.0, abs=1e-3)
        laws = one_step_laws(mechanism, pair)
        found = laws.epsilon(mechanism.guarantee.delta)
        # Single steps with normal noise tell far less than their claim, which is one of many steps.
        assert (0.3 if name in ("private_barker", "fast_mh") else 0.0) <= found <= 1.0
        assert laws.epsilon() > 0.0


def test_a_normal_step_is_where_the_langevin_chain_goes():
    mechanism = SUBJECTS["private_sgld:one_step"].calibrated(epsilon=1.0)
    records = SUBJECTS["private_sgld:one_step"].pairs("replace_one")[-1].first
    law = one_step(mechanism, records)
    target, rng = mechanism.target(records), np.random.default_rng(0)
    ends = mechanism._run(target, np.zeros((4000, 1)), mechanism._request(), rng).states[-1]
    assert stats.kstest(ends[:, 0], stats.norm(law.location[0], law.scale).cdf).pvalue > 1e-6


def test_only_single_steps_from_a_public_start_are_known():
    build = SUBJECTS["private_barker"].calibrated(epsilon=1.0)
    assert not is_one_chain_step(build)
    staged = SUBJECTS["private_barker:one_step"]
    mechanism = staged._calibrated(PrivateBarker(steps=1), staged.model, 1.0, None, "replace_one")
    assert not is_one_chain_step(mechanism)
