# SPDX-License-Identifier: Apache-2.0
"""Coupled chains behind a network and behind a NumPyro model, from options to release."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import onedraw
from onedraw import ConvergenceError, InvalidInput, Release
from onedraw.nn import CoupledKernel, CoupledSampler, MLPClassifier, MLPRegressor, PrivateModel

pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytestmark = pytest.mark.jax

KERNEL = CoupledKernel(step_size=0.3, steps=5, walk_share=0.2, walk_scale=0.05, lag=60, pairs=120)
COUPLED = CoupledSampler(kernel=KERNEL, iterations=200, sampler_error=0.2)
HASTY = replace(COUPLED, iterations=1)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(30, 1))
Y = RNG.random(30) < 1 / (1 + np.exp(-3 * X[:, 0]))
TINY = {"hidden_layer_sizes": (1,), "random_state": 0}


def classifier(sampler=COUPLED, **options):
    return MLPClassifier(**{"epsilon": 1.0, "classes": [False, True], "sampler": sampler, **TINY, **options})


def test_a_network_is_drawn_by_coupled_chains():
    model = classifier(draws=2, assume_sampler_error=1e-6).fit(X, Y)
    release = model.release_
    assert len(release.draws) == 2
    assert release.draws[0] != release.draws[1]
    assert release.evidence == COUPLED.evidence
    assert "within 0.2 of the posterior in total variation" in release.evidence.statement
    assert "an estimate for the data at hand" in release.evidence.statement
    assert Release.from_json(release.to_json()) == release
    assert model.predict_proba(X).shape == (30, 2)
    # Two draws at epsilon 1 together: delta' = (1 + e) * 2 * gamma, and not a bit less.
    price = (1 + math.e) * 2 * 1e-6
    assert model.guarantee_.delta == pytest.approx(price, rel=1e-9)
    assert model.guarantee_.delta >= price
    assert clone(model).get_params()["sampler"] == COUPLED


def test_a_regression_network_is_drawn_by_coupled_chains():
    target = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=30)
    model = MLPRegressor(epsilon=1.0, noise_floor=0.5, sampler=COUPLED, **TINY).fit(X, target)
    assert model.scale_ >= 0.5
    assert model.predict(X).shape == (30,)


def test_a_network_is_refused_and_charged_if_pairs_do_not_show_the_error(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    model = classifier(HASTY, ledger=ledger, dataset="patients")
    with pytest.raises(ConvergenceError, match=r"1 iterations come within 0\.2 .* stays charged"):
        model.fit(X, Y)
    assert not hasattr(model, "release_")
    with pytest.raises(onedraw.BudgetExceeded):
        classifier(ledger=ledger, dataset="patients").fit(X, Y)


def test_no_more_draws_than_independent_chains():
    with pytest.raises(InvalidInput, match=r"at most as many draws as chains \(4\), got draws=5"):
        classifier(draws=5).fit(X, Y)


def test_a_numpyro_model_is_drawn_by_coupled_chains(tmp_path):
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def logistic(x, y):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        with numpyro.plate("people", x.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=slope * x + spread), obs=y)

    records = {"x": X[:, 0], "y": Y}
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0, delta=1e-3, delta_for_charges=1e-3)
    private = PrivateModel(
        logistic,
        epsilon=0.5,
        sampler=COUPLED,
        assume_sampler_error=1e-5,
        ledger=ledger,
        dataset="patients",
    )
    release = private.release(records, random_state=0)
    assert release.evidence == COUPLED.evidence
    assert release.parameters.sites["spread"] > 0
    assert release.guarantee.delta == pytest.approx((1 + math.exp(0.5)) * 1e-5)
    assert float(release.receipt["delta"]) == release.guarantee.delta
    hasty = replace(private, sampler=HASTY)
    with pytest.raises(ConvergenceError, match="Coupled chains do not show"):
        hasty.release(records, random_state=0)
    with pytest.raises(onedraw.BudgetExceeded):  # twice 0.5 is spent, the failure included
        private.release(records, random_state=0)


@pytest.mark.parametrize("sampler", [COUPLED, onedraw.nn.NutsSampler()])
def test_a_missing_extra_is_found_before_anything_is_charged(sampler, tmp_path, monkeypatch):
    def missing():
        raise onedraw.MissingExtra("The no-U-turn sampler", "jax")

    monkeypatch.setattr("onedraw.samplers.nuts.require_jax", missing)
    monkeypatch.setattr("onedraw.samplers.coupling.require_jax", missing)
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    with pytest.raises(onedraw.MissingExtra, match=r"pip install 'onedraw\[jax\]'"):
        classifier(sampler, ledger=ledger, dataset="patients").fit(X, Y)
    assert ledger.show("patients").charges == 0
