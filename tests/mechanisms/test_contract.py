# SPDX-License-Identifier: Apache-2.0
"""One contract for every mechanism: calibrated before data, open about its guarantee, and discreet."""

import dataclasses
import importlib.util
import json
import math

import numpy as np
import pytest

import onedraw
from onedraw import mechanisms
from onedraw.families import Bernoulli
from onedraw.losses import BetaDivergence
from onedraw.mechanisms import (
    AdaSSP,
    BetaBernoulliDraw,
    BetaBernoulliNoiseAware,
    BetaBernoulliSSP,
    GaussianMeanDraw,
    GibbsPosterior,
    LinearNoiseAware,
    LinearSSP,
    LipschitzGibbs,
    ObjectivePerturbation,
    OnePosteriorSample,
    OutputPerturbation,
    Records,
)
from onedraw.mechanisms._base import EXACTNESS, BoundedMechanism
from onedraw.mechanisms._bounds import bounded_design
from onedraw.model import NetworkModel, RegressionModel
from onedraw.nn import DPSGD, DPVI, BetaSGD, NutsSampler
from onedraw.nn.mechanism import CONVERGED, NetworkSample
from onedraw.nn.offered import BY_GRADIENTS
from onedraw.priors import Prior
from onedraw.privacy import Guarantee
from onedraw.privacy.guarantee import NEIGHBOURS
from onedraw.samplers import RejectionSampler

LOGISTIC = RegressionModel(kind="logistic", features=("x",))
LINEAR = RegressionModel(kind="linear", features=("x",))
PROBABILITY = RegressionModel(kind="logistic", features=())
MEAN = RegressionModel(kind="linear", features=())
NETWORK = NetworkModel(features=("x",), hidden_layer_sizes=(), classes=(0, 1))
SHORT = {"model": NETWORK, "num_records": 60, "batch_size": 30, "epochs": 1}


@dataclasses.dataclass(frozen=True)
class Case:
    """A mechanism, the model that it fits, what it needs to be calibrated, and what it cannot do without."""

    mechanism: object
    model: RegressionModel | NetworkModel
    delta: float = 0.0
    add_remove: bool = True
    bounds: tuple = ()

    @property
    def by_weight(self):
        """Whether it is calibrated by the weight of a loss, and so has a calibration and not a promise."""
        return isinstance(self.mechanism, OnePosteriorSample)

    @property
    def field(self):
        return "calibration" if self.by_weight else "promise"


CASES = {
    "OnePosteriorSample": Case(
        OnePosteriorSample(loss=BetaDivergence(Bernoulli()), prior=Prior(), sampler=RejectionSampler()),
        LOGISTIC,
    ),
    "GibbsPosterior": Case(
        GibbsPosterior(feature_norm=1.5, num_parameters=2),
        LOGISTIC,
        bounds=("feature_norm", "num_parameters"),
    ),
    "LipschitzGibbs": Case(LipschitzGibbs(feature_norm=1.5), LOGISTIC, delta=1e-5, bounds=("feature_norm",)),
    "OutputPerturbation": Case(
        OutputPerturbation(feature_norm=1.5), LOGISTIC, add_remove=False, bounds=("feature_norm",)
    ),
    "ObjectivePerturbation": Case(
        ObjectivePerturbation(feature_norm=1.5), LOGISTIC, add_remove=False, bounds=("feature_norm",)
    ),
    "AdaSSP": Case(
        AdaSSP(feature_norm=1.5, response_bound=1.0), LINEAR, 1e-5, bounds=("feature_norm", "response_bound")
    ),
    "LinearSSP": Case(
        LinearSSP(feature_norm=1.5, response_bound=1.0, draws=4),
        LINEAR,
        bounds=("feature_norm", "response_bound"),
    ),
    "LinearNoiseAware": Case(
        LinearNoiseAware(feature_norm=1.5, response_bound=1.0, draws=4, warm_up=5),
        LINEAR,
        bounds=("feature_norm", "response_bound"),
    ),
    "BetaBernoulliSSP": Case(BetaBernoulliSSP(draws=4), PROBABILITY),
    "BetaBernoulliNoiseAware": Case(BetaBernoulliNoiseAware(draws=4), PROBABILITY, add_remove=False),
    "BetaBernoulliDraw": Case(BetaBernoulliDraw(), PROBABILITY, delta=1e-5),
    "GaussianMeanDraw": Case(
        GaussianMeanDraw(response_bound=1.0), MEAN, delta=1e-5, add_remove=False, bounds=("response_bound",)
    ),
    "NetworkSample": Case(
        NetworkSample(
            model=NETWORK,
            loss=BetaDivergence(Bernoulli()),
            prior=Prior(),
            sampler=NutsSampler(warmup=300, kept=100, min_ess=20, max_rhat=1.3),
        ),
        NETWORK,
    ),
    "DPSGD": Case(DPSGD(**SHORT), NETWORK, delta=1e-5, bounds=("num_records",)),
    "BetaSGD": Case(
        BetaSGD(**SHORT, feature_norm=1.5), NETWORK, delta=1e-5, bounds=("num_records", "feature_norm")
    ),
    "DPVI": Case(DPVI(**SHORT, draws=3), NETWORK, delta=1e-5, bounds=("num_records",)),
}
RELATIONS = [
    (name, relation)
    for name, case in CASES.items()
    for relation in ("replace_one", "add_remove")
    if relation == "replace_one" or case.add_remove
]
NEEDS_JAX = [name for name, case in CASES.items() if case.model is NETWORK]


def driven(names, values):
    """``parametrize`` with a mark on the mechanisms that need the jax extra."""
    jax = [
        pytest.mark.jax,
        pytest.mark.skipif(importlib.util.find_spec("jax_privacy") is None, reason="needs the jax extra"),
    ]

    def name_of(value):
        return value if isinstance(value, str) else value[0]

    return pytest.mark.parametrize(
        names,
        [
            pytest.param(
                *([value] if isinstance(value, str) else value),
                marks=jax if name_of(value) in NEEDS_JAX else (),
            )
            for value in values
        ],
    )


every = driven("name", CASES)


def records(model, n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, model.num_features))
    if model.kind in ("logistic", "network"):
        return Records(features=x, response=(rng.random(n) < 0.6).astype(float))
    return Records(features=x, response=rng.uniform(-1, 1, size=n))


def calibrated(name, **options):
    case = CASES[name]
    return case.mechanism.calibrate(**{"epsilon": 1.0, "delta": case.delta, **options})


def test_every_exported_mechanism_is_under_contract():
    regressions = set(mechanisms.__all__) - {"Mechanism", "Records"}
    networks = {kind.__name__ for kind in BY_GRADIENTS.values()} | {"NetworkSample"}
    assert set(CASES) == regressions | networks
    assert set(NEEDS_JAX) == networks


@every
def test_an_uncalibrated_mechanism_promises_and_releases_nothing(name):
    case = CASES[name]
    for use in (
        lambda: case.mechanism.guarantee,
        lambda: case.mechanism.release(records(case.model), model=case.model),
    ):
        with pytest.raises(
            onedraw.CalibrationError, match=r"no guarantee yet: call calibrate\(epsilon=...\)"
        ):
            use()


@driven(("name", "relation"), RELATIONS)
def test_the_guarantee_echoes_what_was_asked_for(name, relation):
    rows = 2 if CASES[name].add_remove else 1
    mechanism = calibrated(name, epsilon=0.7, neighbours=relation, rows_per_person=rows)
    guarantee = mechanism.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (0.7, CASES[name].delta)
    assert (guarantee.neighbours, guarantee.rows_per_person) == (relation, rows)
    assert mechanism is not CASES[name].mechanism
    assert getattr(CASES[name].mechanism, CASES[name].field) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, CASES[name].field, None)
    assert mechanism.calibrate(epsilon=2.0, delta=CASES[name].delta).guarantee.epsilon == 2.0


@driven(("name", "relation"), RELATIONS)
def test_a_release_survives_json_and_carries_its_facts(name, relation):
    case = CASES[name]
    mechanism = calibrated(name, neighbours=relation)
    release = mechanism.release(
        records(case.model), model=case.model, random_state=1, assumptions=("One.",), receipt={"dataset": "d"}
    )
    assert onedraw.Release.from_json(release.to_json()) == release
    assert release.guarantee == mechanism.guarantee
    assert isinstance(release.guarantee, Guarantee)
    assert release.assumptions[0] == "One."
    assert (release.receipt, release.seeded, release.model) == ({"dataset": "d"}, True, case.model)
    assert release.num_records == (60 if relation == "replace_one" else None)
    assert np.array(release.draws).shape == (mechanism.guarantee.draws, case.model.dim)
    assert release.evidence.level in ("searched", "accounted", "diagnosed")
    # A number of records that all neighbours have is a fact, no declaration that the guarantee rests on.
    known = {"num_parameters"} | ({"num_records"} if relation == "replace_one" else set())
    for bound in set(case.bounds) - known:
        assert any(f"{bound}={getattr(mechanism, bound):g}" in line for line in release.assumptions)


@every
def test_a_release_depends_on_the_data_through_its_draws_alone(name):
    """Two data sets with nothing in common but their size: all but the draws (and what follows) is equal."""
    case = CASES[name]
    mechanism = calibrated(name)
    other = records(case.model, seed=9)
    response = other.response[::-1].copy()
    contents = [
        mechanism.release(data, model=case.model, random_state=1).to_dict()
        for data in (records(case.model), Records(features=-other.features, response=response))
    ]
    for content in contents:
        for key in ("draws", "parameters", "digest"):
            del content[key]
    assert json.dumps(contents[0]) == json.dumps(contents[1])


@every
def test_a_seed_repeats_a_release_and_no_seed_does_not(name):
    case = CASES[name]
    mechanism, data = calibrated(name), records(case.model)
    one, two = (mechanism.release(data, model=case.model, random_state=3) for _ in range(2))
    assert one == two
    assert mechanism.release(data, model=case.model, random_state=4).draws != one.draws
    fresh = [mechanism.release(data, model=case.model) for _ in range(2)]
    assert fresh[0].draws != fresh[1].draws
    assert not fresh[0].seeded


@every
def test_released_numbers_lie_on_the_grid(name):
    case = CASES[name]
    release = calibrated(name).release(records(case.model), model=case.model, random_state=5)
    assert release.grid.holds(np.array(release.draws))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.add_remove])
def test_an_unsupported_relation_is_refused_with_its_reason(name):
    with pytest.raises(
        onedraw.InvalidInput, match=r"replace_one' only, got neighbours='add_remove': .* offers both"
    ):
        calibrated(name, neighbours="add_remove")
    with pytest.raises(
        onedraw.InvalidInput, match=r"rows_per_person=1 only, got rows_per_person=2: .* offers both"
    ):
        calibrated(name, rows_per_person=2)


@driven(
    ("name", "relation", "rows"),
    [
        (name, relation, rows)
        for name, relation in RELATIONS
        for rows in (1, 2)
        if rows == 1 or CASES[name].add_remove
    ],
)
def test_the_number_of_records_shows_only_where_neighbours_share_it(name, relation, rows):
    """Elsewhere a table with a row more gives a release that differs in its draws alone."""
    case = CASES[name]
    mechanism = calibrated(name, neighbours=relation, rows_per_person=rows)
    contents = [
        mechanism.release(records(case.model, n), model=case.model, random_state=1).to_dict()
        for n in (60, 61)
    ]
    public = relation == "replace_one" and rows == 1
    assert [content.pop("num_records") for content in contents] == ([60, 61] if public else [None, None])
    for content in contents:
        for key in ("draws", "parameters", "digest"):
            del content[key]
    assert contents[0] == contents[1]


@every
def test_what_it_declares_is_what_it_does(name):
    """The table of the documentation is written from these declarations."""
    case, declared = CASES[name], CASES[name].mechanism.requirements
    assert case.model.kind in declared.kinds
    assert set(declared.needs) == set(case.bounds)
    assert declared.delta == ("needed" if case.delta else declared.delta)
    assert declared.neighbours == (NEIGHBOURS if case.add_remove else ("replace_one",))
    release = calibrated(name).release(records(case.model), model=case.model, random_state=0)
    assert declared.exact_draw == (release.evidence.level != "accounted")
    assumed = {EXACTNESS["searched"][0], CONVERGED} & set(release.assumptions)
    assert bool(assumed) == declared.exact_draw


@driven(("name", "bound"), [(name, b) for name, case in CASES.items() for b in case.bounds])
def test_a_missing_bound_is_explained(name, bound):
    """Why this mechanism needs it, and that the default does not."""
    without = dataclasses.replace(CASES[name].mechanism, **{bound: None})
    with pytest.raises(
        onedraw.InvalidInput, match=rf"needs {bound}=\.\.\.: .*beta-divergence.*needs no bound"
    ):
        without.calibrate(epsilon=1.0, delta=CASES[name].delta)
    negative = dataclasses.replace(CASES[name].mechanism, **{bound: -1})
    with pytest.raises(onedraw.InvalidInput, match=f"got {bound}=-1"):
        negative.calibrate(epsilon=1.0, delta=CASES[name].delta)


@every
def test_bad_requests_are_refused(name):
    for options in (
        {"epsilon": 0.0},
        {"epsilon": np.inf},
        {"neighbours": "swap"},
        {"rows_per_person": 0},
        {"delta": 1.0},
    ):
        with pytest.raises(onedraw.InvalidInput):
            calibrated(name, **options)


@driven("name", [name for name, case in CASES.items() if not case.by_weight])
def test_a_useless_or_missing_delta_is_refused(name):
    case = CASES[name]
    if name == "GibbsPosterior":
        pytest.skip("its composition of several draws uses delta")
    message = "no guarantee at delta=0" if case.delta else "cannot use delta=1e-05"
    with pytest.raises(onedraw.InvalidInput, match=message):
        calibrated(name, delta=0.0 if case.delta else 1e-5)


@driven("name", [name for name in CASES if name != "OnePosteriorSample"])
def test_a_model_of_another_kind_is_refused(name):
    case = CASES[name]
    wrong = RegressionModel(kind="poisson", features=case.model.features)
    with pytest.raises(onedraw.InvalidInput, match="made for" if name in NEEDS_JAX else "kind"):
        calibrated(name).release(records(case.model), model=wrong)
    scaled = RegressionModel(kind="linear", features=case.model.features, scale_floor=0.1)
    if "linear" in case.mechanism.requirements.kinds:
        with pytest.raises(onedraw.InvalidInput, match="releases no residual scale"):
            calibrated(name).release(records(case.model), model=scaled)


@every
def test_the_wrong_number_of_features_is_refused(name):
    case = CASES[name]
    data = records(case.model)
    wide = Records(features=np.zeros((60, case.model.num_features + 1)), response=data.response)
    with pytest.raises(onedraw.InvalidInput, match="features of the model"):
        calibrated(name).release(wide, model=case.model)


@driven("name", [name for name, case in CASES.items() if "feature_norm" in case.bounds])
def test_features_beyond_the_bound_are_clipped_before_anything_else(name):
    """A release from features a million times too long equals that from the same features, clipped."""
    case = CASES[name]
    model, mechanism, room = case.model, case.mechanism, 1.5
    if name == "BetaSGD":
        room = math.sqrt(1.5**2 - 1.0)  # a network has a bias, whose 1 is part of the vector
    else:
        model = dataclasses.replace(model, fit_intercept=False)
    if name == "GibbsPosterior":
        mechanism = dataclasses.replace(mechanism, num_parameters=1)
    mechanism = mechanism.calibrate(epsilon=1.0, delta=case.delta)
    data = records(model)
    wild = Records(features=1e6 * np.sign(data.features), response=data.response)
    clipped = bounded_design(wild.features, fit_intercept=False, feature_norm=room)
    tame = Records(features=clipped, response=data.response)
    one, two = (mechanism.release(d, model=model, random_state=6) for d in (wild, tame))
    np.testing.assert_allclose(one.draws, two.draws, rtol=1e-9)


def test_clipping_bounds_every_row_and_leaves_short_ones_alone():
    rng = np.random.default_rng(0)
    for size in (1e-300, 1e-3, 1.0, 1e8, 1e300):
        features = size * rng.normal(size=(200, 7))
        for fit_intercept in (False, True):
            design = bounded_design(features, fit_intercept=fit_intercept, feature_norm=2.0)
            exact = [float(np.sqrt(sum(float(v) ** 2 for v in row))) for row in design]
            assert max(exact) <= 2.0
    short = rng.normal(size=(50, 2)) * 0.1
    np.testing.assert_array_equal(bounded_design(short, fit_intercept=False, feature_norm=2.0), short)
    long = np.array([[30.0, 40.0]])
    np.testing.assert_allclose(bounded_design(long, fit_intercept=False, feature_norm=5.0), [[3.0, 4.0]])


def test_the_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        BoundedMechanism()
