# SPDX-License-Identifier: Apache-2.0
"""Coupled chains behind a network and behind a NumPyro model, from options to release."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import onedraw
from onedraw import (
    CalibrationError,
    ConvergenceError,
    InvalidInput,
    MLPClassifier,
    MLPRegressor,
    PrivateModel,
    Release,
)
from onedraw.nn import CoupledKernel, CoupledSampler, NetworkDraw, NutsSampler, ProgramDraw

pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytestmark = pytest.mark.jax

KERNEL = CoupledKernel(step_size=0.3, steps=5, walk_share=0.2, walk_scale=0.05, lag=60, pairs=120)
COUPLED = CoupledSampler(kernel=KERNEL, iterations=200, sampler_error=0.15)
HASTY = replace(COUPLED, iterations=1)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(30, 1))
Y = RNG.random(30) < 1 / (1 + np.exp(-3 * X[:, 0]))
TINY = {"hidden_layer_sizes": (1,), "random_state": 0}


def classifier(sampler=COUPLED, assumed=0.0, **options):
    mechanism = NetworkDraw(sampler=sampler, assume_sampler_error=assumed)
    return MLPClassifier(
        **{"epsilon": 0.5, "classes": [False, True], "mechanism": mechanism, **TINY, **options}
    )


def test_a_network_is_drawn_by_coupled_chains():
    model = classifier(draws=2).fit(X, Y)
    release = model.release_
    assert len(release.draws) == 2
    assert release.draws[0] != release.draws[1]
    assert release.evidence == COUPLED.evidence
    assert "within 0.15 of the posterior in total variation" in release.evidence.statement
    assert "an estimate for the data at hand" in release.evidence.statement
    assert any("within 0.15 of the posterior in total variation" in line for line in release.assumptions)
    assert not any("The chain has converged" in line for line in release.assumptions)
    assert Release.from_json(release.to_json()) == release
    assert model.predict_proba(X).shape == (30, 2)
    # Two draws at epsilon 1/2 together: delta' = (1 + sqrt(e)) * 2 * gamma, and not a bit less.
    price = (1 + math.exp(0.5)) * 2 * 0.15
    assert model.guarantee_.delta == pytest.approx(price, rel=1e-9)
    assert model.guarantee_.delta >= price
    assert clone(model).get_params()["mechanism"].sampler == COUPLED


@pytest.mark.parametrize(
    ("sampler", "assumed", "gamma"),
    [
        (COUPLED, 0.0, 0.15),
        (COUPLED, 1e-9, 0.15),
        (COUPLED, 0.2, 0.2),
        (NutsSampler(), 0.0, 0.0),
        (NutsSampler(), 1e-3, 1e-3),
    ],
)
def test_nobody_pays_for_less_than_the_sampler_states(sampler, assumed, gamma):
    """delta = (1 + e^epsilon) gamma, with the larger of what is stated and what is assumed."""
    plan = classifier(sampler, assumed).plan(X)
    assert plan.guarantee.delta == pytest.approx((1 + math.exp(0.5)) * gamma, rel=1e-9)
    assert plan.mechanism.made.numbers["sampler_error"] == gamma
    assert (plan.guarantee.bounded_range is None) == (gamma > 0)


def test_a_stated_error_that_promises_nothing_is_refused():
    """0.3 in total variation beside delta = 0: at epsilon 1 it would cost delta = 1.12."""
    loose = replace(COUPLED, sampler_error=0.3)
    for draws, epsilon in ((1, 1.0), (2, 0.5)):
        with pytest.raises(CalibrationError, match=r"A sampler error of 0\.3 .* which promises nothing"):
            classifier(loose, epsilon=epsilon, draws=draws).plan(X)


def test_the_price_of_a_stated_error_is_not_too_large():
    """Exact laws e^epsilon apart on an event, each moved by gamma the worst way, need all of it."""
    delta = classifier().plan(X).guarantee.delta
    exact, other, gamma = 0.5, 0.5 * math.exp(-0.5), 0.15
    assert (exact + gamma) - math.exp(0.5) * (other - gamma) == pytest.approx(delta, rel=1e-9)


def test_a_regression_network_is_drawn_by_coupled_chains():
    target = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=30)
    mechanism = NetworkDraw(noise_floor=0.5, sampler=COUPLED)
    model = MLPRegressor(epsilon=0.5, mechanism=mechanism, **TINY).fit(X, target)
    assert model.scale_ >= 0.5
    assert model.predict(X).shape == (30,)


def test_a_network_is_refused_and_charged_if_pairs_do_not_show_the_error(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=0.5, delta=0.5, delta_for_charges=0.5)
    model = classifier(HASTY, ledger=ledger, dataset="patients")
    with pytest.raises(ConvergenceError, match=r"1 iterations come within 0\.15 .* stays charged"):
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
    ledger.create("patients", epsilon=1.0, delta=0.9, delta_for_charges=0.9)
    private = PrivateModel(
        logistic,
        epsilon=0.5,
        mechanism=ProgramDraw(sampler=COUPLED),
        ledger=ledger,
        dataset="patients",
    )
    release = private.release(records, random_state=0)
    assert release.evidence == COUPLED.evidence
    assert release.parameters.sites["spread"] > 0
    assert release.guarantee.delta == pytest.approx((1 + math.exp(0.5)) * 0.15)
    assert float(release.receipt["delta"]) == release.guarantee.delta
    hasty = replace(private, mechanism=ProgramDraw(sampler=HASTY))
    with pytest.raises(ConvergenceError, match="Coupled chains do not show"):
        hasty.release(records, random_state=0)
    with pytest.raises(onedraw.BudgetExceeded):  # twice 0.5 is spent, the failure included
        private.release(records, random_state=0)


@pytest.mark.parametrize("sampler", [COUPLED, NutsSampler()])
def test_a_missing_extra_is_found_before_anything_is_charged(sampler, tmp_path, monkeypatch):
    def missing():
        raise onedraw.MissingExtra("The no-U-turn sampler", "jax")

    monkeypatch.setattr("onedraw.samplers.nuts.require_jax", missing)
    monkeypatch.setattr("onedraw.samplers.coupling.require_jax", missing)
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0, delta=0.9, delta_for_charges=0.9)
    with pytest.raises(onedraw.MissingExtra, match=r"pip install '.*\[jax\]'"):
        classifier(sampler, ledger=ledger, dataset="patients").fit(X, Y)
    assert ledger.show("patients").charges == 0
