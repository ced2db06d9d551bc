# SPDX-License-Identifier: Apache-2.0
"""``onedraw audit`` as a newcomer uses it: it works, and mistakes are explained."""

import dataclasses

import pytest

from onedraw.audit import subjects
from onedraw.mechanisms import BetaBernoulliSSP

QUICK = ("--rounds", "400", "--tries", "5", "--repeats", "2", "--seed", "1")


def test_it_prints_a_table_and_says_that_it_proves_nothing(cli):
    result = cli.run("audit", "one_posterior", "--epsilon", "1", "--epsilon", "2", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[:3]] == [
        "mechanism",
        *["one_posterior"] * 2,
    ]
    assert "not contradicted" in result.stdout
    assert "That is no proof" in result.stdout


def test_it_writes_a_picture_once(cli):
    pytest.importorskip("matplotlib")
    args = ("audit", "one_posterior:paper", "--pair", "paper", "--epsilon", "2", "--out", "audit.png", *QUICK)
    assert "Wrote audit.png" in cli.run(*args).stdout
    assert (cli.folder / "audit.png").stat().st_size > 10_000
    again = cli.run(*args)
    assert again.exit_code == 2
    assert "exists. Choose another name" in again.stderr
    assert cli.run(*args, "--force").exit_code == 0


def test_its_json_holds_the_findings(cli):
    content = cli.json("audit", "beta_bernoulli_ssp", "output_perturbation", "--epsilon", "1", *QUICK)
    names = [finding["name"] for finding in content["findings"]]
    assert names == ["beta_bernoulli_ssp", "output_perturbation"]
    first = content["findings"][0]
    assert first["claimed"]["epsilon"] == 1.0
    assert set(first["lower_bounds"]) == {"clopper_pearson", "bayesian"}
    assert first["exact_epsilon"] is None
    assert first["root_mean_squared_error"] > 0


@pytest.mark.jax
def test_a_network_by_gradients_is_attacked_like_the_others(cli):
    pytest.importorskip("jax_privacy")
    (found,) = cli.json("audit", "dp_sgd", "--epsilon", "1", *QUICK)["findings"]
    assert found["claimed"]["delta"] == 0.01
    assert 0.98 < found["exact_epsilon"] <= 1.0
    assert set(found["lower_bounds"]) == {"clopper_pearson", "bayesian", "gaussian"}
    assert found["verdict"] == "not contradicted"
    assert found["root_mean_squared_error"] > 0


def test_a_contradicted_claim_has_its_own_code(cli, monkeypatch):
    """The mechanism runs at epsilon 8 and claims 1."""
    sound = subjects.SUBJECTS["beta_bernoulli_ssp"]

    class Loud(BetaBernoulliSSP):
        @property
        def _moved(self):
            return super()._moved / 8.0

    loud = dataclasses.replace(sound, build=lambda model: Loud(draws=50))
    monkeypatch.setitem(subjects.SUBJECTS, sound.name, loud)
    result = cli.run("audit", sound.name, "--epsilon", "1", *QUICK)
    assert result.exit_code == 6
    assert "CONTRADICTED: beta_bernoulli_ssp leaks more than claimed." in result.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--epsilon", "1"), "Missing argument 'MECHANISM...'"),
        (("one_posterior",), "Missing option '--epsilon'"),
        (("one-posteriour", "--epsilon", "1"), "'one-posteriour' is not one of"),
        (("one_posterior", "--epsilon", "0"), "epsilon > 0"),
        (("one_posterior", "--epsilon", "1", "--rounds", "1"), "rounds"),
        (("one_posterior", "--epsilon", "1", "--confidence", "2"), "confidence"),
        (("one_posterior", "--epsilon", "1", "--repeats", "0"), "--repeats >= 1"),
        (("one_posterior", "--epsilon", "1", "--seed", "-1"), "random_state"),
        (("one_posterior", "--epsilon", "1", "--out", "a.xyz"), "that ends in .png, .svg, .pdf"),
        (("one_posterior", "--epsilon", "1", "--out", "no/a.png"), "Cannot write to the folder of"),
        (
            ("output_perturbation", "--epsilon", "1", "--neighbours", "add_remove"),
            "output_perturbation offers",
        ),
        (("output_perturbation", "--epsilon", "1", "--delta", "0.1"), "cannot use delta"),
        (("lipschitz_gibbs", "--epsilon", "1", "--delta", "0"), "no guarantee at delta=0"),
        (("adassp", "--epsilon", "1", "--pair", "paper"), "paper's pair is for logistic"),
    ],
)
def test_mistakes_are_explained(cli, args, message):
    result = cli.run("audit", *args)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2
