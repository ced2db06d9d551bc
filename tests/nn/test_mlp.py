# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special
from sklearn.base import clone

import onedraw
from onedraw import ConvergenceError, InvalidInput, MLPClassifier, MLPRegressor, Release, calibrate
from onedraw.estimators import LinearRegression, LogisticRegression, from_release
from onedraw.families import Bernoulli, Gaussian
from onedraw.losses import BetaDivergence
from onedraw.mechanisms import OnePosterior
from onedraw.nn import DPSGD, CoupledKernel, CoupledSampler, NetworkDraw, NutsSampler
from onedraw.nn.chain_draw import priced
from onedraw.privacy import Guarantee
from onedraw.private import opened
from onedraw.samplers import RejectionSampler

jax = pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytestmark = pytest.mark.jax

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(400, 2))
LABELS = np.where(RNG.random(400) < 1 / (1 + np.exp(-8 * X[:, 0])), "yes", "no")
THREE = np.where(X[:, 0] > 0.4, 2, RNG.integers(0, 2, 400))
TARGET = 100 + 30 * np.maximum(X[:, 0], 0) + 4 * RNG.normal(size=400)
KERNEL = CoupledKernel(step_size=0.1)
QUICK = NutsSampler(warmup=200, kept=100, min_ess=20, max_rhat=1.2)
NETWORK = {"hidden_layer_sizes": (3,), "mechanism": NetworkDraw(sampler=QUICK), "random_state": 0}


@pytest.fixture(scope="module")
def classifier():
    return MLPClassifier(epsilon=8.0, classes=["no", "yes"], **NETWORK).fit(X, LABELS)


@pytest.fixture(scope="module")
def regressor():
    frame = pd.DataFrame(X, columns=["age", "dose"])
    model = MLPRegressor(
        epsilon=2.0,
        target_bounds=(80, 150),
        feature_bounds=(-1, 1),
        draws=2,
        **{
            **NETWORK,
            "mechanism": NetworkDraw(sampler=QUICK, noise_floor=2.0, assume_sampler_error=1e-9),
        },
    )
    return model.fit(frame, TARGET)


def reread(model):
    return Release.from_json(model.release_.to_json())


# -- what is learned


def test_two_classes_are_learned(classifier):
    assert classifier.score(X, LABELS) > 0.8
    assert classifier.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert set(classifier.predict(X)) <= {"no", "yes"}
    assert ((classifier.decision_function(X) > 0) == (classifier.predict(X) == "yes")).all()
    assert [w.shape for w in classifier.coefs_] == [(2, 3), (3, 1)]
    assert [b.shape for b in classifier.intercepts_] == [(3,), (1,)]


def test_a_curve_is_learned_in_original_units(regressor):
    frame = pd.DataFrame(X, columns=["age", "dose"])
    assert regressor.score(frame, TARGET) > 0.3
    assert regressor.scale_ >= 2.0
    assert len(regressor.release_.draws) == 2


def test_three_classes_are_learned():
    model = MLPClassifier(epsilon=2.0, **NETWORK).fit(X, THREE)
    assert model.predict_proba(X).shape == (400, 3)
    assert model.predict_proba(X[X[:, 0] > 0.8])[:, 2].mean() > 0.4
    assert (
        "The set of classes is public knowledge (it was read from the labels)." in model.release_.assumptions
    )


def test_predictions_are_those_of_the_weights_in_original_units(regressor):
    layers = zip(regressor.coefs_, regressor.intercepts_, strict=True)
    (w1, b1), (w2, b2) = layers
    first = (np.maximum(X @ w1 + b1, 0) @ w2 + b2)[:, 0]
    model = regressor.release_.model
    draws = np.array(regressor.release_.draws)
    np.testing.assert_allclose(model.outputs(draws[:1], X)[0, :, 0], first, rtol=1e-10)
    both = model.outputs(draws, X)[:, :, 0].mean(axis=0)
    np.testing.assert_array_equal(regressor.predict(pd.DataFrame(X, columns=["age", "dose"])), both)


# -- what is promised


def test_the_guarantee_uses_the_floor_and_not_the_prior(regressor):
    """2 w S = epsilon with S = M^b/b and M = 1/(sqrt(2 pi) floor), floor = 2/35 working units, two draws."""
    mechanism = regressor.release_.mechanism.numbers
    b = mechanism["beta"] - 1.0
    bound = 1.0 / (math.sqrt(2 * math.pi) * 2.0 / 35.0)
    assert 2 * 2.0 * mechanism["weight"] * bound**b / b == pytest.approx(2.0, rel=1e-9)


def test_calibration_is_that_of_the_family(classifier):
    expected = calibrate("bernoulli", epsilon=8.0)
    mechanism = classifier.release_.mechanism.numbers
    assert (mechanism["beta"], mechanism["weight"]) == (expected.beta, expected.weight)
    assert classifier.guarantee_ == expected.guarantee
    assert 2 * mechanism["weight"] / (mechanism["beta"] - 1) == pytest.approx(8.0)


def normalised(estimator, y, biases, us=None):
    """Log posterior masses over bias (and scale) of a network without hidden units whose feature is 0."""
    X = np.zeros((len(y), 1))
    plan = estimator._plan(X, y)
    target = plan.mechanism.posterior(opened(estimator._read(X, y, plan.model)))
    axes = [[0.0], biases] if us is None else [[0.0], biases, us]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    with jax.enable_x64(True):
        constants = jax.tree.map(jax.numpy.asarray, target.data)
        density = jax.jit(jax.vmap(lambda theta: target.density(theta, constants)))
        values = np.asarray(density(grid))
    return values - special.logsumexp(values)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize(
    ("relation", "kept", "rows"), [("replace_one", 399, 1), ("add_remove", 400, 1), ("replace_one", 398, 2)]
)
def test_no_neighbours_of_a_classifier_exceed_epsilon_and_some_nearly_attain_it(
    epsilon, relation, kept, rows
):
    """By quadrature of the posterior that the estimator samples: 400 records say no, one person's say yes."""
    model = MLPClassifier(
        epsilon=epsilon,
        hidden_layer_sizes=(),
        mechanism=NetworkDraw(prior_scale=5.0),
        classes=[0, 1],
        neighbours=relation,
        rows_per_person=rows,
    )
    rest, biases = np.zeros(400, dtype=int), np.linspace(-40, 40, 801)
    changed = np.append(rest[:kept], np.ones(rows, dtype=int))
    gap = np.abs(normalised(model, rest, biases) - normalised(model, changed, biases)).max()
    assert 0.8 * epsilon < gap <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_no_neighbours_of_a_regression_exceed_epsilon_and_some_nearly_attain_it(epsilon):
    """The same for a response in its own units: 60 at the centre of the bounds, one moves to their end."""
    model = MLPRegressor(
        epsilon=epsilon,
        hidden_layer_sizes=(),
        target_bounds=(80, 150),
        mechanism=NetworkDraw(prior_scale=2.0, noise_floor=14.0),
    )
    rest = np.full(60, 115.0)
    axes = np.linspace(-8, 8, 321), np.linspace(-12, 4, 81)
    gaps = []
    for moved in (150.0, 300.0, 1e9):
        other = np.append(rest[:-1], moved)
        gaps.append(np.abs(normalised(model, rest, *axes) - normalised(model, other, *axes)).max())
    assert max(gaps) <= epsilon * (1 + 1e-9)
    assert max(gaps) > 0.75 * epsilon


def test_an_assumed_sampler_error_is_priced_and_charged(regressor, tmp_path):
    price = (1 + math.exp(2.0)) * 2 * 1e-9
    assert regressor.guarantee_.delta == pytest.approx(price, rel=1e-9)
    assert regressor.guarantee_.delta >= price
    assert regressor.guarantee_.bounded_range is None
    assert any("within 1e-09 of the posterior" in line for line in regressor.release_.assumptions)
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=10.0, delta=1e-3, delta_for_charges=1e-3)
    model = MLPClassifier(
        epsilon=8.0,
        ledger=ledger,
        dataset="patients",
        classes=["no", "yes"],
        **{**NETWORK, "mechanism": NetworkDraw(sampler=QUICK, assume_sampler_error=1e-9)},
    )
    assert model.plan(X).guarantee.delta == pytest.approx((1 + math.exp(8.0)) * 1e-9)
    model.fit(X, LABELS)
    receipt = model.release_.receipt
    assert float(receipt["epsilon"]) == 8.0
    assert float(receipt["delta"]) == model.guarantee_.delta == pytest.approx((1 + math.exp(8.0)) * 1e-9)


@pytest.mark.parametrize(("epsilon", "draws", "gamma"), [(0.5, 1, 1e-6), (3.0, 4, 1e-8)])
def test_the_price_is_attained_by_a_law_that_is_off_by_gamma(epsilon, draws, gamma):
    """Two laws e^epsilon apart on an event, each moved by k gamma the worst way: P grows, P' falls."""
    found = priced(Guarantee(epsilon=epsilon, draws=draws), gamma).delta
    far = draws * gamma
    p_exact, p_other = math.exp(epsilon) * 0.01, 0.01
    needed = (p_exact + far) - math.exp(epsilon) * (p_other - far)
    assert found == pytest.approx(needed, rel=1e-6)


def test_too_large_an_error_is_refused():
    with pytest.raises(onedraw.CalibrationError, match=r"gives delta=2\.98e\+03, which promises nothing"):
        MLPClassifier(epsilon=8.0, mechanism=NetworkDraw(assume_sampler_error=0.999)).fit(X, LABELS)


def test_convergence_is_assumed_in_words(classifier):
    release = classifier.release_
    assert release.evidence.level == "diagnosed"
    assert release.evidence == QUICK.evidence
    assert any(line.startswith("The chain has converged") for line in release.assumptions)
    assert any("Threefry" in line for line in release.assumptions)


def test_chains_that_do_not_converge_release_nothing_and_stay_charged(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=10.0)
    strict = NutsSampler(warmup=200, kept=100, min_ess=1e6)
    model = MLPClassifier(
        epsilon=8.0,
        ledger=ledger,
        dataset="patients",
        classes=["no", "yes"],
        **{**NETWORK, "mechanism": NetworkDraw(sampler=strict)},
    )
    with pytest.raises(
        ConvergenceError, match=r"nothing was released; a budget that was charged stays charged"
    ):
        model.fit(X, LABELS)
    assert not hasattr(model, "release_")
    with pytest.raises(onedraw.BudgetExceeded):
        model.fit(X, LABELS)


def test_nothing_but_the_draws_depends_on_the_data(classifier):
    other = clone(classifier).fit(X, RNG.permutation(LABELS)).release_.to_dict()
    mine = classifier.release_.to_dict()
    assert {key for key in mine if mine[key] != other[key]} == {"draws", "parameters", "digest"}


# -- files


def test_a_release_is_read_back_and_predicts_without_jax(classifier, regressor, tmp_path):
    for name, model in (("classifier", classifier), ("regressor", regressor)):
        assert reread(model) == model.release_
        model.release_.to_json(tmp_path / f"{name}.json")
    np.save(tmp_path / "x.npy", X)
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "blackjax", "numpyro"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import numpy as np, onedraw, pandas
from onedraw.estimators import from_release
X = np.load("x.npy")
first = from_release(onedraw.Release.from_json("classifier.json")).predict_proba(X)
second = from_release(onedraw.Release.from_json("regressor.json"))
np.save("a.npy", first)
np.save("b.npy", second.predict(pandas.DataFrame(X, columns=["age", "dose"])))
try:
    onedraw.MLPClassifier(epsilon=1.0).fit(X, X[:, 0] > 0)
except onedraw.MissingExtra as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(onedraw.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The no-U-turn sampler needs an extra: pip install '")
    assert done.stdout.strip().endswith("[jax]'.")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), classifier.predict_proba(X))
    frame = pd.DataFrame(X, columns=["age", "dose"])
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), regressor.predict(frame))


def test_a_rebuilt_network_has_every_learned_attribute(classifier, regressor):
    for model in (classifier, regressor):
        rebuilt = from_release(reread(model))
        assert type(rebuilt) is type(model)
        assert rebuilt.guarantee_ == model.guarantee_
        others = ("coefs_", "intercepts_", "plan_")  # a plan leaves no trace but the guarantee
        for name in (name for name in vars(model) if name.endswith("_") and name not in others):
            np.testing.assert_array_equal(getattr(rebuilt, name), getattr(model, name), err_msg=name)
        for name in ("coefs_", "intercepts_"):
            for mine, theirs in zip(getattr(rebuilt, name), getattr(model, name), strict=True):
                np.testing.assert_array_equal(mine, theirs)


def test_options_of_a_rebuilt_network_describe_the_same_mechanism(classifier, regressor):
    rebuilt = clone(from_release(reread(classifier)))
    again = rebuilt.set_params(
        random_state=0, mechanism=dataclasses.replace(rebuilt.mechanism, sampler=QUICK)
    ).fit(X, LABELS)
    assert again.release_.draws == classifier.release_.draws
    frame = pd.DataFrame(X, columns=["age", "dose"])
    assert from_release(reread(regressor)).plan(frame).guarantee == regressor.guarantee_


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["model", "activation"], "__import__('os')"),
        (["model", "hidden_layer_sizes"], [4]),
        (["model", "hidden_layer_sizes"], [-3]),
        (["model", "kind"], "logistic"),
        (["model", "kind"], "sites"),
        (["model", "form"], "pickle"),
        (["model", "form"], "regression"),
        (["model", "family"], {"name": "gaussian", "scale_floor": 0.1}),
        (["model", "family"], {"name": "poisson"}),
        (["model", "classes"], None),
    ],
)
def test_a_forged_network_is_refused(classifier, path, value):
    from onedraw.release.file import digest

    content = json.loads(classifier.release_.to_json())
    content[path[0]][path[1]] = value
    content["digest"] = digest({key: v for key, v in content.items() if key != "digest"})
    with pytest.raises(onedraw.ReleaseFormatError, match=r"lacks or misstates a field|contradicts itself"):
        Release.from_dict(content)


# -- options


DRAW = NetworkDraw


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "epsilon"),
        ({"epsilon": 1.0, "hidden_layer_sizes": (0,)}, "hidden_layer_sizes to be a whole number >= 1"),
        ({"epsilon": 1.0, "hidden_layer_sizes": "ten"}, "hidden_layer_sizes to be a whole number"),
        ({"epsilon": 1.0, "activation": "rleu"}, "Did you mean 'relu'"),
        ({"epsilon": 1.0, "draws": "auto"}, "NetworkDraw does not choose the number of draws"),
        ({"epsilon": 1.0, "draws": 5}, r"at most as many draws as chains \(4\), got draws=5"),
        ({"epsilon": 1.0, "mechanism": "network_drew"}, "Did you mean 'network_draw'"),
        ({"epsilon": 1.0, "mechanism": "one_posterior"}, "Expected mechanism to be one of 'auto', 'network_"),
        ({"epsilon": 1.0, "mechanism": OnePosterior()}, "OnePosterior is for these models: regression"),
        ({"epsilon": 1.0, "mechanism": NetworkDraw}, r"got the class NetworkDraw. Call it: NetworkDraw\("),
        ({"epsilon": 1.0, "mechanism": DRAW(sampler="nuts")}, "sampler to be an onedraw.nn.NutsSampler"),
        ({"epsilon": 1.0, "mechanism": DRAW(sampler=RejectionSampler())}, "got RejectionSampler"),
        ({"epsilon": 1.0, "mechanism": DRAW(assume_sampler_error=-0.1)}, r"assume_sampler_error in \[0, 1\)"),
        ({"epsilon": 1.0, "mechanism": DRAW(prior_scale=0.0)}, "prior_scale > 0"),
        ({"epsilon": 1.0, "mechanism": DRAW(noise_floor=1.0)}, "does not apply to a network model"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InvalidInput, match=message):
        MLPClassifier(**options).fit(X, LABELS)


@pytest.mark.parametrize("sampler", [QUICK, CoupledSampler(kernel=KERNEL, iterations=9, sampler_error=0.3)])
def test_chains_are_not_for_regressions(sampler):
    """There they would be taken for exact draws, whatever the evidence says."""
    model = LogisticRegression(epsilon=1.0, mechanism=OnePosterior(sampler=sampler))
    with pytest.raises(InvalidInput, match="is for networks and NumPyro models"):
        model.fit(X, LABELS)


def test_parameters_of_an_estimator_are_its_fields_and_none_of_a_mechanism():
    shared = {
        "epsilon", "delta", "neighbours", "rows_per_person", "mechanism", "feature_bounds", "columns",
        "draws", "ledger", "dataset", "random_state", "hidden_layer_sizes", "activation",
    }  # fmt: skip
    for kind, own in ((MLPClassifier, "classes"), (MLPRegressor, "target_bounds")):
        assert set(kind().get_params()) == {field.name for field in dataclasses.fields(kind)}
        assert set(kind().get_params()) == shared | {own}
        assert not issubclass(kind, LogisticRegression | LinearRegression)
        assert set(vars(kind(epsilon=1.0))) == shared | {own}


def test_a_plan_reads_no_value_and_costs_nothing(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    model = MLPClassifier(epsilon=4.0, classes=[0, 1], ledger=ledger, dataset="patients", **NETWORK)
    plan = model.plan(np.full((7, 2), np.nan))
    assert (plan.guarantee.epsilon, plan.num_records) == (4.0, 7)
    assert plan.mechanism.name == "network_draw"
    assert not hasattr(model, "plan_")
    assert ledger.show("patients").charges == 0


def test_several_rows_a_person_hide_their_number_from_plan_and_release():
    model = MLPClassifier(epsilon=4.0, classes=["no", "yes"], rows_per_person=2, **NETWORK)
    assert model.plan(X).num_records is None
    assert model.fit(X, LABELS).release_.num_records is None
    with pytest.raises(InvalidInput, match=r"DPSGD needs num_records"):
        clone(model).set_params(delta=1e-5, mechanism=DPSGD()).plan(X)


def test_a_network_has_no_intervals(classifier):
    with pytest.raises(InvalidInput, match="its weights are not identified"):
        classifier.summary()
    with pytest.raises(InvalidInput, match="its weights are not identified"):
        classifier.conf_int(0.9)


def test_the_loss_has_the_certificates_sensitivity_for_any_network():
    """The largest change of a record's loss over extreme outputs is S, to 1%, for both families."""
    for family, scale in ((Bernoulli(), None), (Gaussian(scale_floor=0.1), np.array(0.1))):
        beta = 1.6
        y = np.array([0.0, 1.0, 1e6])[: 2 if scale is None else 3]
        losses = family.beta_loss(y[:, None], np.array([[-50.0, 0.0, 50.0]]), beta, scale)
        bounds = BetaDivergence(family).loss_bounds(beta)
        assert np.ptp(losses, axis=0).max() == pytest.approx(bounds.observation_sensitivity, rel=0.01)


def test_unsafe_draws_are_available_for_validation(classifier):
    draws = onedraw.unsafe.posterior_draws(classifier, X, LABELS, draws=50, random_state=0)
    assert draws.shape == (50, 13)
