# SPDX-License-Identifier: Apache-2.0
"""Every mechanism is on the list of the audited, and at smoke size none contradicts its claim."""

import pytest

import onedraw
from onedraw import mechanisms
from onedraw.audit.subjects import SUBJECTS, audit_subject, root_mean_squared_error
from onedraw.cli.audit import MECHANISMS

SMOKE = [(name, relation) for name, subject in SUBJECTS.items() for relation in subject.relations]
CONFIDENCE = 1 - 0.001 / len(SMOKE)
"""All claims together are contradicted by chance with probability 0.1% at most."""


def test_every_mechanism_is_audited():
    audited = {type(subject.calibrated(epsilon=1.0)).__name__ for subject in SUBJECTS.values()}
    assert audited == set(mechanisms.__all__) - {"Mechanism", "Records"}


def test_the_command_offers_the_list():
    assert tuple(SUBJECTS) == MECHANISMS


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "relation"), SMOKE)
def test_no_mechanism_contradicts_its_claim(name, relation):
    rounds = 24 if name == "linear-noise-aware" else 300
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
