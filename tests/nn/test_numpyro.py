# SPDX-License-Identifier: Apache-2.0
"""NumPyro models: what is read from them, what is refused, what is promised, and the worked examples."""

import copy
import pickle

import numpy as np
import pytest
from scipy import special, stats

import onedraw
from onedraw import InvalidInput, PrivateModel, Release
from onedraw.estimators import from_release
from onedraw.families import Bernoulli
from onedraw.losses import BetaDivergence
from onedraw.mechanisms import OnePosterior
from onedraw.nn import DeclaredDensity, NutsSampler, ProgramDraw
from onedraw.nn.columns import Columns
from onedraw.nn.observed import READERS, ObservedLaw
from onedraw.nn.program import Program
from onedraw.samplers.nuts import double_precision

numpyro = pytest.importorskip("numpyro")
jax = pytest.importorskip("jax")
pytest.importorskip("blackjax")
dist, jnp = numpyro.distributions, jax.numpy
pytestmark = pytest.mark.jax

QUICK = NutsSampler(chains=2, warmup=150, kept=50, min_ess=10, max_rhat=1.3)
BY_QUICK = ProgramDraw(sampler=QUICK)
RNG = np.random.default_rng(0)


def target_of(private, records):
    """The posterior that a release of the records would be drawn from."""
    return private.plan(records).mechanism.posterior(Columns.read(records))


def calibration_of(private, records):
    return private.plan(records).mechanism.calibrated


def program_of(private, records):
    return private.plan(records).mechanism.program


def densities(private, records, thetas):
    """Log densities of unconstrained vectors, up to the constant that all share."""
    target = target_of(private, records)
    with double_precision():
        data = jax.tree.map(jnp.asarray, target.data)
        return np.asarray(jax.jit(jax.vmap(lambda theta: target.density(theta, data)))(thetas))


def logistic(x, y):
    a = numpyro.sample("a", dist.Normal(-6.0, 2.0))
    s = numpyro.sample("s", dist.HalfNormal(1.5))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=a + s * x), obs=y)


def linear(x, y):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.InverseGamma(2.0, 1.0))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Normal(a * x, sigma), obs=y)


# -- the density


def test_the_density_is_that_of_a_plain_reference():
    x, y = RNG.normal(size=20), RNG.integers(0, 2, 20)
    private = PrivateModel(logistic, epsilon=1.0)
    calibration = calibration_of(private, {"x": x, "y": y})
    b, beta = calibration.beta - 1.0, calibration.beta
    thetas = RNG.normal(size=(5, 2))

    def reference(a, u):
        s = np.exp(u)
        value = stats.norm.logpdf(a, -6, 2) + stats.halfnorm.logpdf(s, scale=1.5) + u  # the Jacobian of exp
        p = special.expit((2 * y - 1) * (a + s * x))
        loss = -(p**b) / b + (p**beta + (1 - p) ** beta) / beta
        return value - calibration.weight * loss.sum()

    found = densities(private, {"x": x, "y": y}, thetas)
    expected = np.array([reference(*theta) for theta in thetas])
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-10)


def test_a_scale_below_the_floor_is_read_as_the_floor():
    x, y = np.zeros(3), np.array([0.0, 0.1, 5.0])
    private = PrivateModel(linear, epsilon=1.0, noise_floor=0.5)
    calibration = calibration_of(private, {"x": x, "y": y})
    small = np.array([[0.0, np.log(0.1)], [0.0, np.log(0.4)]])
    with double_precision():
        program = program_of(private, {"x": x, "y": y})
        prior = [float(program.log_prior({"a": u[0], "sigma": u[1]})) for u in small]
    found = densities(private, {"x": x, "y": y}, small)
    assert found[0] - prior[0] == pytest.approx(found[1] - prior[1])
    assert calibration.observation_sensitivity == pytest.approx(
        (1 / (np.sqrt(2 * np.pi) * 0.5)) ** (calibration.beta - 1) / (calibration.beta - 1)
    )


# -- privacy, by quadrature


def sup_log_ratio(private, first, second, axes):
    grid = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    logs = []
    for records in (first, second):
        values = densities(private, records, grid)
        logs.append(values - special.logsumexp(values))
    return np.abs(logs[0] - logs[1]).max()


AXES = {"logistic": [np.linspace(-16, 60, 400), np.linspace(-6, 4, 80)]}
AXES["linear"] = [np.linspace(-8, 8, 161), np.linspace(-3, 3, 121)]
PAIRS = {
    "one person, label flipped": ({"x": [0.0], "y": [1]}, {"x": [0.0], "y": [0]}),
    "one person, everything changed": ({"x": [30.0], "y": [1]}, {"x": [-30.0], "y": [1]}),
    "the last of five": ({"x": [0.0] * 5, "y": [0, 0, 0, 0, 1]}, {"x": [0.0] * 5, "y": [0] * 5}),
    "an extreme record": ({"x": [1e6, 1.0], "y": [1, 0]}, {"x": [-1e6, 1.0], "y": [0, 0]}),
}


def as_records(pair, kind):
    def column(values):
        return np.asarray(values, dtype=float)

    return {"x": column(pair["x"]), "y": column(pair["y"]) if kind == "linear" else np.asarray(pair["y"])}


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_neighbouring_pair_exceeds_epsilon_and_some_pair_nearly_attains_it(epsilon):
    """The prior puts almost all mass where the response is 0, so the normaliser does not share the change."""
    private = PrivateModel(logistic, epsilon=epsilon)
    found = [
        sup_log_ratio(private, as_records(a, "logistic"), as_records(b, "logistic"), AXES["logistic"])
        for a, b in PAIRS.values()
    ]
    assert max(found) <= epsilon * (1 + 1e-9)
    assert max(found) > 0.9 * epsilon


def test_no_neighbouring_pair_of_a_normal_model_exceeds_epsilon():
    private = PrivateModel(linear, epsilon=1.0, noise_floor=0.05)
    pairs = [
        ({"x": [1.0], "y": [0.0]}, {"x": [1.0], "y": [1e6]}),
        ({"x": [1.0], "y": [6.0]}, {"x": [1.0], "y": [-6.0]}),
        ({"x": [1.0, 1.0], "y": [6.0, 0.0]}, {"x": [1e3, 1.0], "y": [0.0, 0.0]}),
    ]
    found = [
        sup_log_ratio(private, as_records(a, "linear"), as_records(b, "linear"), AXES["linear"])
        for a, b in pairs
    ]
    assert max(found) <= 1.0 + 1e-9
    assert max(found) > 0.5  # a guarantee too cautious by two would not reach this


def test_a_model_that_mixes_its_records_cannot_leak_one_through_another():
    """Its author centres by the batch; each record is run alone, so neighbours change one loss only."""

    def centred(x, y):
        a = numpyro.sample("a", dist.Normal(-6.0, 2.0))
        s = numpyro.sample("s", dist.HalfNormal(1.5))
        with numpyro.plate("people", x.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=a + s * (x - x.mean()) + 40.0 * jnp.max(x)), obs=y)

    private = PrivateModel(centred, epsilon=0.5)
    rest = {"x": np.zeros(6), "y": np.array([0, 1, 0, 1, 0, 1])}
    other = {"x": np.array([9.0, 0, 0, 0, 0, 0]), "y": rest["y"]}
    assert sup_log_ratio(private, rest, other, AXES["logistic"]) <= 0.5 * (1 + 1e-9)


# -- numbers that are none


def half_defined(x, y):
    """Not a number for records of the other sign than a."""
    a = numpyro.sample("a", dist.Normal(0.0, 3.0))
    s = numpyro.sample("s", dist.HalfNormal(1.5))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=8 * jnp.sqrt(a * x) + 0 * s), obs=y)


def test_a_loss_that_is_not_a_number_is_the_largest_one():
    """beta = 2, w = 1/2: the loss is at most 1, so a = -1 (no number) and a = 1, y = 0 (sure and wrong)."""
    private = PrivateModel(half_defined, epsilon=1.0)
    one = {"x": np.ones(1), "y": np.ones(1, dtype=int)}
    found = densities(private, one, np.array([[-1.0, 0.0], [1.0, 0.0]]))
    p = special.expit(8.0)
    assert found[1] - found[0] == pytest.approx(0.5 * (1.0 - (1 - p - 0.5 * (1 - p**2 - (1 - p) ** 2))))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_numbers_that_are_none_keep_the_guarantee(epsilon):
    private = PrivateModel(half_defined, epsilon=epsilon)
    axes = [np.linspace(-12, 12, 241), np.linspace(-2, 2, 5)]
    rest = {"x": np.array([1.0, 1.0, -1.0]), "y": np.array([1, 0, 1])}
    for x, y in ((-1.0, 1), (-1.0, 0), (1.0, 0), (0.0, 1), (1e300, 0)):
        other = {"x": np.array([x, 1.0, -1.0]), "y": np.array([y, 0, 1])}
        assert sup_log_ratio(private, rest, other, axes) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("law", "floor"),
    [
        (lambda value: dist.Bernoulli(logits=value), None),
        (lambda value: dist.Bernoulli(probs=value), None),
        (lambda value: dist.Categorical(logits=jnp.stack([value, -value], axis=-1)), None),
        (lambda value: dist.Categorical(probs=jnp.stack([value, 1.0 - value], axis=-1)), None),
        (lambda value: dist.Poisson(value), None),
        (lambda value: dist.Normal(value, 1.0), 0.3),
        (lambda value: dist.Normal(0.0, value), 0.3),
        (lambda value: dist.Laplace(value, value), 0.3),
        (lambda value: dist.StudentT(4.0, value, value), 0.3),
    ],
)
def test_every_loss_is_within_its_certificate_for_any_numbers(law, floor):
    """Of a record whose number is none, beside a sound one: one program, which is told the number."""

    def model(x, y):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        number = jnp.select([x == 1.0, x == 2.0, x == 3.0], [jnp.nan, jnp.inf, -jnp.inf], 0.5)
        numpyro.sample("y", law(number + 0 * a), obs=y)

    private = PrivateModel(model, epsilon=1.0, noise_floor=floor)
    y = np.array([1, 1]) if floor is None else np.array([0.0, 9.0])
    target = target_of(private, {"x": np.array([1.0, -1.0]), "y": y})
    bounds = target.program.law.loss.loss_bounds(target.beta)
    with double_precision():
        data = jax.tree.map(jnp.asarray, target.data)
        losses_of = jax.jit(lambda data: target.program.losses(jnp.zeros(1), data["records"], data))
        slope_of = jax.jit(lambda data: jax.grad(target.density)(jnp.zeros(1), data))
        for bad in (1.0, 2.0, 3.0):
            data = {**data, "records": {**data["records"], "x": jnp.array([bad, -1.0])}}
            losses, slope = np.asarray(losses_of(data)), np.asarray(slope_of(data))
            assert np.isfinite(losses).all()
            assert (losses >= bounds.lower).all()
            assert (losses <= bounds.upper).all()
            assert np.isfinite(slope).all()


@pytest.mark.parametrize("computed", [np.nan, np.inf, -np.inf, 1e300, -1e-9, 0.25])
def test_a_loss_is_held_within_its_certificate_whatever_was_computed(computed, monkeypatch):
    """The guarantee rests on this alone, not on the arithmetic of any family."""
    monkeypatch.setattr(ObservedLaw, "_computed", lambda *arguments: jnp.asarray(computed))
    law = ObservedLaw(loss=BetaDivergence(Bernoulli()))
    bounds = law.loss.loss_bounds(2.0)
    held = float(law.loss_of(None, 0.0, {"bounds": (bounds.lower, bounds.upper)}))
    inside = bounds.lower <= computed <= bounds.upper
    assert held == (computed if inside else bounds.lower if computed < bounds.lower else bounds.upper)


def test_a_record_without_a_loss_neither_stops_the_fit_nor_sways_it():
    """Its loss is constant, so log density and gradient are those of the others up to that constant."""

    def model(x, y):
        a = numpyro.sample("a", dist.Normal(0.0, 2.0))
        with numpyro.plate("people", x.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=a * jnp.log(x)), obs=y)

    x, y = RNG.uniform(0.5, 4.0, size=60), RNG.integers(0, 2, 60)
    private = PrivateModel(model, epsilon=4.0, mechanism=BY_QUICK)
    thetas = np.linspace(-2, 2, 5)[:, None]
    slopes = []
    for records in ({"x": np.append(x, -1.0), "y": np.append(y, 1)}, {"x": x, "y": y}):
        target = target_of(private, records)
        with double_precision():
            data = jax.tree.map(jnp.asarray, target.data)
            slopes.append([np.asarray(jax.grad(target.density)(theta, data)) for theta in thetas])
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-12)
    release = private.release({"x": np.append(x, -1.0), "y": np.append(y, 1)}, random_state=0)
    assert np.isfinite(release.parameters.sites["a"]).all()


# -- what is refused


def per_record(x, y):
    with numpyro.plate("people", x.shape[0]):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Bernoulli(logits=z), obs=y)


def with_factor(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.factor("extra", -a * x.sum())
    numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def with_parameter(x, y):
    a = numpyro.param("a", 0.0)
    numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def data_prior(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1.0 + jnp.abs(x).max()))
    numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def improper(x, y):
    a = numpyro.sample("a", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def discrete(x, y):
    a = numpyro.sample("a", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def rescaled(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.handlers.scale(scale=10.0):
        numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def subsampled(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("people", 10, subsample_size=x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def fixed_plate(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("people", 10):
        numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def masked(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Bernoulli(logits=a * x).mask(x > 0), obs=y)


def masked_by_a_handler(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.handlers.mask(mask=x > 0):
        numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def masked_prior(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1).mask(False))
    numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)


def two_responses(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Bernoulli(logits=a), obs=y)
    numpyro.sample("z", dist.Bernoulli(logits=-a), obs=x)


def other_names(u, v):
    numpyro.sample("y", dist.Bernoulli(logits=u), obs=v)


def branching(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    logits = a * x if x.sum() > 0 else -a * x
    numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def in_plain_numpy(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Bernoulli(logits=a * np.sign(x)), obs=y)


def gamma(x, y):
    a = numpyro.sample("a", dist.LogNormal(0, 1))
    numpyro.sample("y", dist.Gamma(2.0, a + 0 * x), obs=y)


def free_tails(x, y):
    df = numpyro.sample("df", dist.Gamma(2.0, 0.1))
    numpyro.sample("y", dist.StudentT(df, 0 * x, 1.0), obs=y)


def nothing_latent(x, y):
    numpyro.sample("y", dist.Bernoulli(logits=x), obs=y)


def nothing_observed(x, y):
    numpyro.sample("a", dist.Normal(0, 1))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (per_record, "Latent site 'z' has one value per record"),
        (with_factor, r"Expected one observed site, got \['extra', 'y'\]"),
        (with_parameter, "Site 'a' is a numpyro.param, which has no prior"),
        (data_prior, "The prior of a latent site depends on the records"),
        (improper, "give every latent site a proper prior"),
        (discrete, "Latent site 'a' is discrete"),
        (rescaled, "Site 'y' is rescaled"),
        (subsampled, "Plate 'people' subsamples the records"),
        (fixed_plate, r"Take the size of (a|the) plate from the records"),
        (masked, "Site 'y' is masked"),
        (masked_by_a_handler, "Site 'y' is masked"),
        (masked_prior, "Site 'a' is masked"),
        (two_responses, r"Expected one observed site, got \['y', 'z'\]"),
        (branching, "cannot be differentiated by JAX.*choose by jnp.where instead of by if"),
        (in_plain_numpy, "cannot be differentiated by JAX.*Compute with jax.numpy"),
        (other_names, "unexpected keyword argument 'x'.* called with the records and the public arguments"),
        (gamma, "the distribution Gamma, for which no bound of the loss is proved here"),
        (linear, "A Normal density is bounded only if its scale is. Pass noise_floor"),
        (nothing_latent, "this one has nothing to release"),
        (nothing_observed, r"Expected one observed site, got \[\]"),
    ],
)
def test_what_cannot_be_read_record_by_record_is_refused(model, message):
    with pytest.raises(InvalidInput, match=message):
        PrivateModel(model, epsilon=1.0).plan({"x": np.zeros(4), "y": np.zeros(4)})


def test_a_response_beside_the_records_is_refused():
    def model(x, y):
        a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Bernoulli(logits=a * x), obs=y)

    with pytest.raises(InvalidInput, match="Pass the response among the records, not as public"):
        PrivateModel(model, epsilon=1.0, public={"y": np.zeros(4)}).plan({"x": np.zeros(4)})


def test_free_degrees_of_freedom_are_refused():
    with pytest.raises(InvalidInput, match="The degrees of freedom of the observed StudentT vary"):
        PrivateModel(free_tails, epsilon=1.0, noise_floor=0.1).plan({"x": np.zeros(4), "y": np.zeros(4)})


def test_records_are_checked_without_being_quoted():
    private = PrivateModel(logistic, epsilon=1.0)
    for records, message in [
        ({}, "Expected records by name"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, r"Expected columns \['x', 'y'\] of one length"),
        ({"x": np.array([777.0, np.nan]), "y": np.zeros(2)}, "Expected finite numbers in column 'x'"),
        ({"x": np.array(["777"]), "y": np.zeros(1)}, "column 'x' to be an array of numbers"),
    ]:
        with pytest.raises(InvalidInput, match=message) as info:
            private.release(records)
        assert "777" not in str(info.value)


def test_a_plan_is_made_of_names_shapes_and_types():
    """NaN is a number like any other to it; the records themselves are refused before anything is charged."""
    records = {"x": np.array([1.0, np.nan]), "y": np.zeros(2, dtype=int)}
    private = PrivateModel(logistic, epsilon=1.0)
    plan = private.plan(records)
    assert plan.guarantee.epsilon == 1.0
    assert (plan.num_records, plan.model.sites) == (2, (("a", ()), ("s", ())))
    assert plan.mechanism.made.name == "program_draw"
    assert any(line.startswith("The model, its prior, its public arguments") for line in plan.assumptions)
    assert not any("features" in line for line in plan.assumptions)
    hidden = PrivateModel(logistic, epsilon=1.0, rows_per_person=2).plan(records)
    assert hidden.num_records is None
    assert not any("number of rows" in line for line in hidden.assumptions)
    with pytest.raises(InvalidInput, match="Expected columns of the names, shapes and types"):
        plan.mechanism.check_records(Columns.read({"x": np.zeros(2, dtype=int), "y": np.zeros(2)}))


def test_records_are_read_only_after_the_budget_was_found_to_do(tmp_path):
    """They are charged for first: that they are refused tells about them."""
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    private = PrivateModel(logistic, epsilon=1.0, ledger=ledger, dataset="patients")
    with pytest.raises(InvalidInput, match="Expected finite numbers in column 'x'"):
        private.release({"x": np.array([1.0, np.nan]), "y": np.zeros(2)})
    assert ledger.show("patients").unreleased == 1


def test_nothing_that_holds_records_shows_them():
    records = {"x": np.array([41.125, 2.5]), "y": np.array([0, 1])}
    private = PrivateModel(logistic, epsilon=1.0)
    plan, columns = private.plan(records), Columns.read(records)
    target = plan.mechanism.posterior(columns)
    for box in (columns, target):
        assert "41.125" not in f"{box} {box!r} {box!s}"
        for careless in (pickle.dumps, copy.copy, copy.deepcopy, list, bool):
            with pytest.raises(TypeError, match="holds private data"):
                careless(box)
    assert "41.125" not in f"{plan} {plan!r} {private!r} {vars(plan.mechanism.program)}"


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("network_draw", "Expected mechanism to be one of 'auto', 'program_draw'"),
        (OnePosterior(), "OnePosterior is for these models: regression"),
        (ProgramDraw(probes={"x": np.array([np.nan])}), "finite numbers in column 'x'"),
        (ProgramDraw(assume_sampler_error=2.0), "assume_sampler_error in"),
        (ProgramDraw(noise_scale=-1.0), "noise_scale > 0"),
    ],
)
def test_mechanisms_for_other_models_and_impossible_options_are_refused(mechanism, message):
    records = {"x": np.zeros(2), "y": np.zeros(2, dtype=int)}
    with pytest.raises(InvalidInput, match=message):
        PrivateModel(logistic, epsilon=1.0, mechanism=mechanism).plan(records)


def test_a_mechanism_brings_no_program_of_its_own_to_a_model():
    records = {"x": np.zeros(2), "y": np.zeros(2, dtype=int)}
    own = Program(logistic, Columns.read(records).outline, {})
    with pytest.raises(InvalidInput, match="PrivateModel fills in its own model"):
        PrivateModel(logistic, epsilon=1.0, mechanism=ProgramDraw(program=own)).plan(records)
    with pytest.raises(InvalidInput, match=r"ProgramDraw needs program=\.\.\."):
        _ = ProgramDraw().loss


def test_without_budget_nothing_is_learned_from_errors_about_the_data(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=0.5)
    private = PrivateModel(logistic, epsilon=1.0, ledger=ledger, dataset="patients")
    for x in (np.array([1.0, 2.0]), np.array([1.0, np.nan])):
        with pytest.raises(onedraw.BudgetExceeded):
            private.release({"x": x, "y": np.zeros(2)})


def test_an_empty_table_is_a_draw_from_the_prior_and_no_error():
    """Under add/remove an error would tell an empty table from one with a single person."""
    private = PrivateModel(logistic, epsilon=1.0, neighbours="add_remove")
    empty = {"x": np.zeros(0), "y": np.zeros(0, dtype=int)}
    thetas = np.array([[-6.0, 0.0], [-5.0, 1.0]])
    target = target_of(private, empty)
    with double_precision():
        data = jax.tree.map(jnp.asarray, target.data)
        slope = np.asarray(jax.grad(target.density)(jnp.asarray(thetas[1]), data))
    found = densities(private, empty, thetas)
    prior = stats.norm.logpdf(thetas[:, 0], -6, 2) + stats.halfnorm.logpdf(np.exp(thetas[:, 1]), scale=1.5)
    assert found[1] - found[0] == pytest.approx(prior[1] - prior[0] + 1.0)
    np.testing.assert_allclose(slope, [-0.25, 1.0 - np.e**2 / 1.5**2])


def test_a_declared_bound_is_calibrated_for_and_recorded():
    """A gamma(2, rate >= 0.5) density: M = rate e^-1 at rate 2 as the model's prior is cut there."""

    def model(x, y):
        rate = numpyro.sample("rate", dist.Uniform(0.5, 2.0))
        numpyro.sample("y", dist.Gamma(2.0, rate + 0 * x), obs=y)

    def power_integral(law, beta):
        lgamma = jax.scipy.special.gammaln
        shape = beta * (law.concentration - 1) + 1
        return jnp.exp(
            lgamma(shape)
            - beta * lgamma(law.concentration)
            - shape * jnp.log(beta)
            + (beta - 1) * jnp.log(law.rate)
        )

    declared = DeclaredDensity(bound=2 / np.e, power_integral=power_integral)
    private = PrivateModel(model, epsilon=1.0, mechanism=ProgramDraw(beta=1.5), declared=declared)
    records = {"x": np.zeros(1), "y": np.array([0.5])}
    calibration = calibration_of(private, records)
    width = (2 / np.e) ** 0.5 * (1 / 0.5 + 1 / 1.5)
    assert 2 * calibration.weight * width == pytest.approx(1.0)
    law = stats.gamma(2.0, scale=1 / 1.3)
    with double_precision():
        program = program_of(private, records)
        found = float(
            program.loss_of(
                {"rate": jnp.asarray(1.3)},
                {"x": jnp.zeros(()), "y": jnp.asarray(0.5)},
                {"beta": 1.5, "bounds": (-np.inf, np.inf)},
            )
        )
    grid = np.linspace(1e-9, 60, 600_001)
    integral = np.trapezoid(law.pdf(grid) ** 1.5, grid)
    assert found == pytest.approx((1 - law.pdf(0.5) ** 0.5) / 0.5 - (1 - integral) / 1.5, abs=1e-6)
    plan = private.plan(records)
    assert any("declared bound" in line for line in plan.assumptions)
    assert plan.mechanism.made.numbers["density_bound"] == pytest.approx(2 / np.e)
    with pytest.raises(InvalidInput, match="pass beta as a number"):
        PrivateModel(model, epsilon=1.0, declared=declared).plan(records)


# -- worked examples


def hierarchical(x, group, y, num_groups):
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    offset = numpyro.sample("offset", dist.Normal(0, 1).expand([num_groups]).to_event(1))
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    numpyro.deterministic("leak", slope * x)
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=mean + spread * offset[group] + slope * x), obs=y)


def robust(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 3))
    sigma = numpyro.sample("sigma", dist.LogNormal(0, 1))
    numpyro.sample("y", dist.StudentT(4.0, slope * x, 0.2 + sigma), obs=y)


def rates(x, exposure, y):
    b = numpyro.sample("b", dist.Normal(0, 2).expand([2]).to_event(1))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Poisson(exposure * jnp.exp(b[0] + b[1] * x)), obs=y)


N = 300
X = RNG.normal(size=N)
GROUP, EXPOSURE = RNG.integers(0, 3, N), RNG.uniform(1, 4, N)
EXAMPLES = {
    "hierarchical": (
        PrivateModel(hierarchical, epsilon=8.0, public={"num_groups": 3}, mechanism=BY_QUICK),
        {"x": X, "group": GROUP, "y": (RNG.random(N) < special.expit(2 * X + GROUP - 1)).astype(int)},
        "slope",
        2.0,
    ),
    "robust": (
        PrivateModel(robust, epsilon=8.0, noise_floor=0.2, neighbours="add_remove", mechanism=BY_QUICK),
        {"x": X, "y": 1.5 * X + 0.5 * RNG.standard_t(4, N) + 1e6 * (RNG.random(N) < 0.02)},
        "slope",
        1.5,
    ),
    "rates": (
        PrivateModel(rates, epsilon=8.0, mechanism=BY_QUICK, draws=2),
        {"x": X, "exposure": EXPOSURE, "y": RNG.poisson(EXPOSURE * np.exp(0.3 + 0.6 * X))},
        "b",
        np.array([0.3, 0.6]),
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_worked_example_recovers_what_made_the_data(name):
    """One draw at n = 300 and epsilon = 8 is within 0.8 of the truth (a fixed seed)."""
    private, records, site, truth = EXAMPLES[name]
    release = private.release(records, random_state=0)
    sites = release.parameters.sites
    assert np.abs(sites[site] - truth).max() < 0.8
    assert list(sites) == [name for name, _ in program_of(private, records).sites]
    assert "leak" not in sites
    assert Release.from_json(release.to_json()) == release
    assert release.guarantee == private.plan(records).guarantee
    assert release.num_records == (None if private.neighbours == "add_remove" else N)
    with pytest.raises(InvalidInput, match="there is no estimator to rebuild"):
        from_release(release)


def test_the_ledger_is_charged_before_anything_is_drawn(tmp_path):
    _, records, *_ = EXAMPLES["rates"]
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    private = PrivateModel(rates, epsilon=8.0, mechanism=BY_QUICK, ledger=ledger, dataset="patients")
    with pytest.raises(onedraw.BudgetExceeded):
        private.release(records)
    with pytest.raises(InvalidInput, match="ledger and dataset together"):
        PrivateModel(rates, epsilon=1.0, ledger=ledger).release(records)


def test_settings_of_jax_and_numpyro_are_left_as_they_were():
    records = EXAMPLES["rates"][1]
    target = target_of(PrivateModel(rates, epsilon=1.0), records)
    target.initial(2, np.random.default_rng(0))
    target.constrained(np.zeros((1, 2)))
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == "float32"
    with pytest.raises(ValueError, match="invalid scale"):
        dist.Normal(0.0, -1.0)


def test_probes_are_what_the_diagnostics_watch():
    records = EXAMPLES["rates"][1]
    probes = {"x": np.array([-1.0, 0.0, 1.0]), "exposure": np.ones(3), "y": np.array([0, 1, 2])}
    watching = PrivateModel(rates, epsilon=8.0, mechanism=ProgramDraw(probes=probes))
    positions = RNG.normal(size=(4, 2))
    watched = target_of(watching, records).monitored(positions)
    assert watched.shape == (4, 3)
    mean = np.exp(positions[:, :1] + positions[:, 1:] * probes["x"])
    beta = calibration_of(watching, records).beta
    k = np.arange(400)
    integral = (stats.poisson.pmf(k, mean[..., None]) ** beta).sum(axis=-1)
    loss = (1 - stats.poisson.pmf(probes["y"], mean) ** (beta - 1)) / (beta - 1) - (1 - integral) / beta
    np.testing.assert_allclose(watched, loss, atol=1e-8)


def test_more_draws_than_chains_are_refused():
    with pytest.raises(InvalidInput, match=r"at most as many draws as chains \(2\), got draws=3"):
        PrivateModel(rates, epsilon=1.0, draws=3, mechanism=BY_QUICK).plan(EXAMPLES["rates"][1])


def test_a_model_is_taken_apart_once_for_columns_of_one_kind():
    records = EXAMPLES["rates"][1]
    private = PrivateModel(rates, epsilon=1.0)
    first, second = private.plan(records), private.plan({name: v[:9] for name, v in records.items()})
    assert first.mechanism.program is second.mechanism.program
    other = private.plan({**records, "y": records["y"].astype(float)})
    assert other.mechanism.program is not first.mechanism.program


def test_every_distribution_that_is_read_is_driven_with_numbers_that_are_none():
    """By ``test_every_loss_is_within_its_certificate_for_any_numbers``; a new one belongs there too."""
    assert set(READERS) == {
        "BernoulliLogits", "BernoulliProbs", "CategoricalLogits", "CategoricalProbs", "Poisson", "Normal",
        "Laplace", "StudentT",
    }  # fmt: skip
