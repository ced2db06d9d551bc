# SPDX-License-Identifier: Apache-2.0
"""``show`` and ``predict`` on releases that are no regressions: a network, and sites of a NumPyro model."""

import math
import re

import pytest

from onedraw import Release
from onedraw.families import Bernoulli
from onedraw.model import NetworkModel, SitesModel
from onedraw.privacy import Guarantee
from onedraw.release import Grid, Made, coefficient_step
from onedraw.samplers.nuts import NutsSampler


def network_and_sites():
    """One release of each kind, made by hand: nothing here needs the extra."""
    common = {
        "grid": Grid(coefficient=coefficient_step(1.0)),
        "guarantee": Guarantee(epsilon=1.0),
        "assumptions": ("Each person holds one row.",),
        "evidence": NutsSampler().evidence,
        "seeded": False,
        "num_records": 30,
        "receipt": None,
    }
    numbers = {"loss": "BetaDivergence", "beta": 2.0, "weight": 0.5, "prior_scale": 1.0, "sampler_error": 0.0}
    network = NetworkModel(
        family=Bernoulli(),
        features=("age",),
        hidden_layer_sizes=(2,),
        classes=("no", "yes"),
        feature_bounds=((0.0, 100.0),),
    )
    sites = SitesModel(sites=(("slope", (2,)), ("sigma", ())))
    return (
        Release(
            model=network,
            draws=((0.5, -0.25, 0.0, 0.125, 1.0, 2.0, -0.5),),
            mechanism=Made(name="network_draw", numbers={"family": "bernoulli", **numbers}),
            **common,
        ),
        Release(
            model=sites,
            draws=((0.5, -0.25, 0.75),),
            mechanism=Made(name="program_draw", numbers={"family": "gaussian", **numbers}),
            **common,
        ),
    )


def test_a_network_is_shown_and_predicts(cli):
    release, _ = network_and_sites()
    release.to_json("network.json")
    shown = cli.run("show", "network.json").stdout
    assert "Model: neural network, weights (w) and biases (b) by layer" in shown
    assert re.search(r"w1\[age,0\] +0\.01\n", shown)
    assert cli.json("show", "network.json")["model"]["hidden_layer_sizes"] == [2]
    cli.write_csv(cli.folder / "new.csv", {"age": [20, 90], "other": [1, 2]})
    rows = cli.run("predict", "network.json", "new.csv").stdout.splitlines()
    # age 90 is 0.8: units 0.4 and 0 (from -0.2 + 0.125), output 0.4 - 0.5
    assert rows[0] == "prediction,probability of no,probability of yes"
    label, _, share = rows[2].split(",")
    assert label == "no"
    assert float(share) == pytest.approx(1 / (1 + math.exp(0.1)))


def test_sites_are_shown_and_say_why_they_do_not_predict(cli):
    _, release = network_and_sites()
    release.to_json("sites.json")
    shown = cli.run("show", "sites.json").stdout
    assert "Model: latent sites of a NumPyro model" in shown
    assert re.search(r"slope\[1\] +-0\.25\n", shown)
    assert cli.json("show", "sites.json")["parameters"] == {"slope[0]": 0.5, "slope[1]": -0.25, "sigma": 0.75}
    result = cli.run("predict", "sites.json", "no-such-table.csv")
    assert result.exit_code != 0
    message = " ".join(result.stderr.split())
    assert "holds the parameters of a model that only its author has" in message
    assert "numpyro.infer.Predictive(model, posterior_samples=release.parameters.sites)" in message
