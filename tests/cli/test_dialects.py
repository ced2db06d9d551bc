# SPDX-License-Identifier: Apache-2.0
"""The same mistake, made in Python and in a shell: each is told what to do in its own language."""

import dataclasses
import pickle
import re

import numpy as np
import pytest

import onedraw
from onedraw import advice
from onedraw.advice import AskLedger, CheckData, Declare, Do, LeaveOut, Set
from onedraw.mechanisms import OnePosterior, OutputPerturbation, TiltedFit

PYTHON = re.compile(r"\b(?!neighbours=)\w+=(?:'|\.\.\.|\[)|Ledger\(|\w+\(\w+=")
"""Advice as Python has it: a keyword with a text, a call. Facts may say neighbours='add_remove'."""
SHELL = re.compile(r"--[a-z]|onedraw ledger|\[target\]|\[columns")


def table(n=60):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (n, 2)), rng.integers(0, 2, n)


def fit(**options):
    X, y = table()
    return onedraw.LogisticRegression(**{"epsilon": 1.0, "classes": [0, 1], **options}).fit(X, y)


def option(name):
    return ("--mechanism-option", name)


POSTERIOR = ("--mechanism", "one_posterior")
MISTAKES = {
    "epsilon": (
        lambda ledger: fit(epsilon=0.0),
        ("--epsilon", "0"),
        "for example epsilon=1.0",
        "for example --epsilon 1.0",
    ),
    "delta that is not used": (
        lambda ledger: fit(delta=1e-6, mechanism=OutputPerturbation(feature_norm=2.0)),
        ("--delta", "1e-6", "--mechanism", "output_perturbation", *option("feature_norm=2")),
        "Leave delta out.",
        "Leave --delta out.",
    ),
    "delta that is needed": (
        lambda ledger: fit(mechanism=onedraw.mechanisms.LipschitzGibbs(feature_norm=2.0)),
        ("--mechanism", "lipschitz_gibbs", *option("feature_norm=2")),
        "Set delta=1e-06",
        "Set --delta 1e-06",
    ),
    "a bound that is needed": (
        lambda ledger: fit(mechanism="output_perturbation"),
        ("--mechanism", "output_perturbation"),
        "Set OutputPerturbation(feature_norm=...), or set mechanism='one_posterior'",
        "Set --mechanism-option feature_norm=VALUE, or set --mechanism one_posterior",
    ),
    "draws that are not chosen": (
        lambda ledger: fit(draws="auto", mechanism=OutputPerturbation(feature_norm=2.0)),
        ("--draws", "auto", "--mechanism", "output_perturbation", *option("feature_norm=2")),
        "Set draws=... to a whole number, or leave draws out.",
        "Set --draws VALUE to a whole number, or leave --draws out.",
    ),
    "evidence": (
        lambda ledger: fit(draws="auto", mechanism=OnePosterior(evidence="enumerated")),
        ("--draws", "auto", *POSTERIOR, *option("evidence=enumerated")),
        "or set OnePosterior(evidence='searched').",
        "or set --mechanism-option evidence=searched.",
    ),
    "a weight": (
        lambda ledger: fit(mechanism=OnePosterior(beta=2.0, weight=9.0)),
        (*POSTERIOR, *option("beta=2"), *option("weight=9")),
        "Set weight=0.5, or leave weight out.",
        "Set --mechanism-option weight=0.5, or leave --mechanism-option weight out.",
    ),
    "a scale": (
        lambda ledger: fit(mechanism=OnePosterior(noise_floor=1.0)),
        (*POSTERIOR, *option("noise_floor=1")),
        "Leave noise_floor out.",
        "Leave --mechanism-option noise_floor out.",
    ),
    "neighbours": (
        lambda ledger: fit(neighbours="add_remove", mechanism=OutputPerturbation(feature_norm=2.0)),
        ("--neighbours", "add_remove", "--mechanism", "output_perturbation", *option("feature_norm=2")),
        "Set mechanism='one_posterior', which offers both.",
        "Set --mechanism one_posterior, which offers both.",
    ),
    "a data set without ledger": (
        lambda ledger: fit(dataset="patients"),
        ("--dataset", "patients"),
        "Set ledger=..., or leave dataset out.",
        "Set --ledger VALUE, or leave --dataset out.",
    ),
    "no budget": (
        lambda ledger: fit(epsilon=4.0, ledger=ledger, dataset="patients"),
        ("--epsilon", "4", "--ledger", "budget.db", "--dataset", "patients"),
        "See: Ledger('{path}').show('patients').",
        "See: onedraw ledger show {path} patients.",
    ),
    "an unknown data set": (
        lambda ledger: fit(ledger=ledger, dataset="zoo"),
        ("--ledger", "budget.db", "--dataset", "zoo"),
        "it has: 'patients'. Register it, if these people are in none of them (two budgets for the same "
        "people add up): Ledger('{path}').create('zoo', epsilon=...).",
        "add up): onedraw ledger create {path} zoo --epsilon ....",
    ),
    "another relation": (
        lambda ledger: fit(neighbours="add_remove", ledger=ledger, dataset="patients"),
        ("--neighbours", "add_remove", "--ledger", "budget.db", "--dataset", "patients"),
        "Set neighbours='replace_one'.",
        "Set --neighbours replace_one.",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_the_same_mistake_is_answered_in_the_language_of_who_made_it(cli, case):
    in_python, arguments, python, shell = MISTAKES[case]
    ledger = onedraw.Ledger(cli.folder / "budget.db")
    X, y = table()
    cli.write_csv(cli.folder / "small.csv", {"a": X[:, 0], "b": X[:, 1], "y": y})
    with pytest.raises(onedraw.OnedrawError) as caught:
        in_python(ledger)
    result = cli.fit(*arguments, data="small.csv", target="y", columns=None)
    told = " ".join(result.stderr.split())
    assert result.exit_code in (2, 3, 5)
    assert python.format(path=ledger.path) in str(caught.value)
    assert shell.format(path=ledger.path) in told
    assert not SHELL.search(str(caught.value))
    assert not PYTHON.search(told)


def test_classes_are_declared_where_each_declares_them(cli):
    with pytest.raises(onedraw.InvalidInput, match=r"Set classes=\[\.\.\.\]"):
        fit(classes=None, neighbours="add_remove")
    told = cli.fit(target="smoker", model="multinomial", columns=None).stderr
    assert "Declare classes = [...] under [target] of the column file." in told


def test_a_release_without_intervals_says_so_in_the_language_of_its_reader(cli):
    # Where another fit would give no intervals either, nobody is sent to pay for one.
    assert cli.fit("--seed", "1").exit_code == 0
    told = cli.run("show", "release.json").stdout
    assert "75 per parameter, too few for intervals: most releases have them from about 1,600 records" in told
    assert "inference=true" not in told
    with pytest.raises(onedraw.InvalidInput, match="too few for intervals: about 150 records"):
        fit(random_state=0).summary()
    without = ("--mechanism", "tilted_fit", *option("inference=false"))
    assert cli.fit("--seed", "1", "--epsilon", "8", "--force", *without).exit_code == 0
    told = cli.run("show", "release.json").stdout
    assert "Set --mechanism tilted_fit --mechanism-option inference=true in another fit" in told
    with pytest.raises(onedraw.InvalidInput, match=r"Set mechanism=TiltedFit\(inference=True\)"):
        fit(random_state=0, epsilon=30.0, mechanism=TiltedFit(inference=False)).summary()
    with pytest.raises(onedraw.InvalidInput, match="Set draws='auto' then"):
        fit(random_state=0, mechanism="one_posterior").summary()


def test_nobody_pays_for_a_curvature_that_gives_no_intervals(cli):
    X, y = table()
    cli.write_csv(cli.folder / "small.csv", {"a": X[:, 0], "b": X[:, 1], "y": y})
    asked = ("--mechanism", "tilted_fit", *option("inference=true"))
    told = cli.fit(*asked, data="small.csv", target="y", columns=None)
    assert told.exit_code != 0
    assert "too few for intervals" in told.stderr
    assert "--mechanism-option inference=false" in told.stderr
    with pytest.raises(onedraw.InvalidInput, match=r"Set mechanism=TiltedFit\(inference=False\)"):
        fit(random_state=0, mechanism=TiltedFit(inference=True))


def test_an_option_without_a_mechanism_is_answered_with_those_that_have_it(cli):
    told = cli.fit("--mechanism-option", "inference=true").stderr
    assert "Set --mechanism tilted_fit." in told
    assert "--mechanism one_posterior" in cli.fit("--mechanism-option", "evidence=proved").stderr
    assert "docs/mechanisms.md" in cli.fit("--mechanism-option", "inferrence=true").stderr


def test_advice_of_the_calibration_names_the_flags_of_the_command_that_gave_it(cli):
    told = cli.run("calibrate", "bernoulli", "--epsilon", "1", "--beta", "2", "--weight", "9").stderr
    assert "Set --weight 0.5, or leave --weight out." in told


def test_every_kind_of_advice_is_frozen_and_speaks_both_languages():
    some = {
        Do: Do("use fewer features"),
        Set: Set("draws", "auto"),
        LeaveOut: LeaveOut("delta"),
        Declare: Declare("unknown", "nearest"),
        CheckData: CheckData(),
        AskLedger: AskLedger("see", "a.db", "verify"),
    }
    kinds = [k for k in vars(advice).values() if isinstance(k, type) and issubclass(k, advice.Advice)]
    assert {k for k in kinds if k is not advice.Advice} == set(some)
    for piece in some.values():
        assert piece.in_python()[0].islower()
        assert piece.in_shell()[0].islower()
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(piece, dataclasses.fields(piece)[0].name, "other")


def test_errors_keep_their_advice_across_processes():
    error = onedraw.BudgetExceeded("No.", advice=AskLedger("see", "a.db", "show", "x"), requested=1.0)
    error.charged = True
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.for_shell(), again.requested) == (str(error), error.for_shell(), 1.0)
    assert str(pickle.loads(pickle.dumps(onedraw.MissingExtra("This", "all")))).startswith("This needs")
