# SPDX-License-Identifier: Apache-2.0
"""One contract for every registered mechanism: calibrated before data, open about its guarantee, discreet.

A mechanism enters by being registered; ``tests/conftest.py`` makes an example of it from what it declares.
"""

import dataclasses
import inspect
import json
import math
import re

import numpy as np
import pytest

import onedraw
from onedraw import mechanisms
from onedraw.families import FAMILIES
from onedraw.mechanisms import Mechanism, OnePosterior, Requirements, Shape
from onedraw.mechanisms._bounds import bounded_design
from onedraw.mechanisms.base import build
from onedraw.privacy import Guarantee, Request
from onedraw.privacy.guarantee import NEIGHBOURS
from onedraw.private import Private
from onedraw.publishing import Plan, make_plan, publish
from onedraw.records import Records
from onedraw.registry import MECHANISMS, choose, read_mechanism
from onedraw.release import Grid, Made
from onedraw.release.made import is_plain


@pytest.fixture
def example(mechanism_name, examples):
    return examples.mechanism(mechanism_name)


def relations(required):
    """The (neighbours, rows per person) under which a mechanism has a guarantee."""
    if required.count:
        return [("replace_one", 1)]
    return [(relation, rows) for relation in NEIGHBOURS for rows in (1, 2)]


def test_every_exported_mechanism_is_registered_under_its_name():
    exported = [getattr(mechanisms, name) for name in mechanisms.__all__]
    concrete = {kind for kind in exported if issubclass(kind, Mechanism) and not inspect.isabstract(kind)}
    regressions = {kind for kind in MECHANISMS.values() if "regression" in kind.requirements.forms}
    assert concrete == regressions
    assert all(name == kind.name for name, kind in MECHANISMS.items())


def test_mechanisms_are_abstract_or_final():
    """Nothing that is offered is the base of something else that is."""
    for kind in MECHANISMS.values():
        assert not [other for other in MECHANISMS.values() if other is not kind and issubclass(other, kind)]


def test_an_uncalibrated_mechanism_promises_and_publishes_nothing(example):
    plan = Plan(mechanism=example.mechanism)
    for use in (
        lambda: example.mechanism.guarantee,
        lambda: example.mechanism.model,
        lambda: plan.guarantee,
        lambda: publish(plan, lambda: pytest.fail("read before there was a guarantee")),
    ):
        with pytest.raises(onedraw.CalibrationError, match=r"no guarantee yet: call calibrate\(request, sha"):
            use()


def test_the_guarantee_echoes_what_was_asked_for(example):
    for relation, rows in relations(example.required):
        mechanism = example.calibrated(epsilon=0.7, neighbours=relation, rows_per_person=rows)
        guarantee = mechanism.guarantee
        assert isinstance(guarantee, Guarantee)
        assert (guarantee.epsilon, guarantee.delta) == (0.7, example.delta)
        assert (guarantee.neighbours, guarantee.rows_per_person) == (relation, rows)


def test_calibration_gives_a_new_object_and_leaves_no_trace(example):
    """A second calibration is that of the options alone, whatever the first one solved for."""
    first = example.calibrated(epsilon=0.3)
    assert first is not example.mechanism
    assert example.mechanism.promise is None
    assert example.mechanism.shape is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.promise = None
    again = first.calibrate(
        Request(epsilon=2.0, delta=example.delta), Shape(model=example.model, num_records=60)
    )
    assert again == example.calibrated(epsilon=2.0)
    assert again.guarantee.epsilon == 2.0


def test_a_release_survives_json_and_carries_its_facts(example, examples, released):
    for relation, rows in relations(example.required):
        mechanism = example.calibrated(neighbours=relation, rows_per_person=rows)
        data = examples.records(example.model)
        release = released(mechanism, data, 1, assumptions=("One.", *mechanism.own_assumptions))
        assert onedraw.Release.from_json(release.to_json()) == release
        assert release.guarantee == mechanism.guarantee
        assert release.assumptions[0] == "One."
        assert (release.receipt, release.seeded, release.model) == (None, True, mechanism.model)
        assert release.num_records == (60 if (relation, rows) == ("replace_one", 1) else None)
        assert np.array(release.draws).shape == (mechanism.guarantee.draws, mechanism.model.dim)
        assert release.evidence.level == mechanism.evidence_level
        for bound in example.required.needs:
            declared = f"{bound}={getattr(mechanism, bound):g}"
            assert any(declared in line for line in release.assumptions)


def test_a_release_names_the_mechanism_and_every_option_of_it(example):
    """So the file alone says what was done, and the same mechanism can be built from it."""
    made = Made.from_dict(json.loads(json.dumps(example.calibrated().made.to_dict())))
    assert made == example.calibrated().made
    assert made.name == example.mechanism.name
    rebuilt = read_mechanism(made)
    assert type(rebuilt) is type(example.mechanism)
    plain = {name: value for name, value in example.mechanism.options.items() if is_plain(value)}
    assert {name: rebuilt.options[name] for name in plain} == plain
    assert set(made.options) | {"sampler"} == {*example.mechanism.option_names(), "sampler"}


def test_a_release_depends_on_the_data_through_its_draws_alone(example, examples, released):
    """Two data sets with nothing in common but their size: all but the draws (and what follows) is equal."""
    mechanism, other = example.calibrated(), examples.records(example.model, seed=9)
    mirrored = Records(features=-other.features, response=other.response[::-1].copy())
    releases = [released(mechanism, data, 1) for data in (examples.records(example.model), mirrored)]
    assert json.dumps(examples.facts(releases[0])) == json.dumps(examples.facts(releases[1]))


def test_a_seed_repeats_a_release_and_no_seed_does_not(example, examples, released):
    mechanism, data = example.calibrated(), examples.records(example.model)
    one, two = (released(mechanism, data, 3) for _ in range(2))
    assert one == two
    assert released(mechanism, data, 4).draws != one.draws
    fresh = [released(mechanism, data) for _ in range(2)]
    assert fresh[0].draws != fresh[1].draws
    assert not fresh[0].seeded


def test_released_numbers_lie_on_the_grid_of_the_mechanism(example, examples, released, monkeypatch):
    """A grid of powers of two, fixed before the data. What was computed does not lie on it by itself, and
    cannot leave without being rounded."""
    mechanism = example.calibrated()
    data = examples.records(example.model)
    release = released(mechanism, data, 5)
    assert release.grid == mechanism.grid
    steps = np.full(len(release.draws[0]), release.grid.coefficient)
    if release.grid.scale is not None:
        steps[-1] = release.grid.scale
    assert all(math.frexp(step)[0] == 0.5 for step in steps)
    ratios = np.array(release.draws) / steps
    assert (ratios == np.rint(ratios)).all()
    for statistic in release.statistics.values():
        parts = np.array(statistic.values) / statistic.step
        assert (parts == np.rint(parts)).all()
    monkeypatch.setattr(Grid, "round", lambda self, draws: draws)
    with pytest.raises(onedraw.InvalidInput, match=r"off (the|its) public grid"):
        released(mechanism, data, 5)


def test_an_unsupported_relation_is_refused_with_its_reason(example):
    if not example.required.count:
        assert example.required.neighbours == NEIGHBOURS
        return
    assert example.required.neighbours == ("replace_one",)
    with pytest.raises(
        onedraw.InvalidInput, match=r"replace_one' only, got neighbours='add_remove': .* offers both"
    ):
        example.calibrated(neighbours="add_remove")
    with pytest.raises(
        onedraw.InvalidInput, match=r"rows_per_person=1 only, got rows_per_person=2: .* offers both"
    ):
        example.calibrated(rows_per_person=2)


def test_the_number_of_records_shows_only_where_neighbours_share_it(example, examples, released):
    """Elsewhere a table with a row more gives a release that differs in its draws alone, though the one who
    plans knows the number."""
    request = {"epsilon": 1.0, "delta": example.delta}
    sizes = [3000, 6001] if example.model.form == "regression" else [60, 61]  # a chain would take long
    for relation, rows in relations(example.required):
        asked = Request(**request, neighbours=relation, rows_per_person=rows)
        contents = []
        for n in sizes:
            shape = Shape(model=example.model, num_records=n)
            plan = make_plan(asked, example.told(asked), shape)
            data = examples.records(example.model, n)
            contents.append(examples.facts(publish(plan, lambda data=data: Private(data), random_state=1)))
        public = (relation, rows) == ("replace_one", 1)
        assert [c["num_records"] for c in contents] == (sizes if public else [None, None])
        assert public or json.dumps(contents[0]) == json.dumps(contents[1])


def test_more_rows_a_person_or_another_relation_change_the_draws(example, examples, released):
    """The same seed and data: whatever sets the noise or the weight depends on what one person can change."""
    if example.required.count:
        pytest.skip("it has one relation")
    data = examples.records(example.model)
    base, more, other = (
        released(example.calibrated(**request), data, 1).draws
        for request in ({}, {"rows_per_person": 2}, {"neighbours": "add_remove"})
    )
    assert more != base != other


def test_what_it_declares_is_what_it_does(example, examples, released):
    """The table of the documentation is written from these declarations."""
    required = example.required
    assert isinstance(required, Requirements)
    assert required.fits(example.model)
    release = released(example.calibrated(), examples.records(example.model), 0)
    assert required.exact_draw == (release.evidence.level != "accounted")
    trusted = "is the draw exact|draw is exact|chain has converged"
    taken_on_trust = re.search(trusted, " ".join(release.assumptions))
    assert bool(taken_on_trust) == required.exact_draw


def test_a_missing_bound_is_explained(example):
    """Why this mechanism needs it, and that another does not."""
    for bound in example.required.needs:
        without = dataclasses.replace(example.mechanism, **{bound: None})
        with pytest.raises(
            onedraw.InvalidInput, match=rf"needs {bound}: .*Set \w+\({bound}=\.\.\.\), or .*needs no bound"
        ):
            dataclasses.replace(example, mechanism=without).calibrated()
        negative = dataclasses.replace(example.mechanism, **{bound: -1})
        with pytest.raises(onedraw.InvalidInput, match=f"got {bound}=-1"):
            dataclasses.replace(example, mechanism=negative).calibrated()


def test_numbers_among_the_options_are_checked(example):
    """A negative or infinite bound, scale, tolerance, count or share makes no calibrated mechanism."""
    for option, value in example.mechanism.options.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        for wrong in (-1, math.inf, math.nan):
            broken = dataclasses.replace(example.mechanism, **{option: wrong})
            with pytest.raises(onedraw.InvalidInput, match=option):
                dataclasses.replace(example, mechanism=broken).calibrated()


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 0.0}, {"epsilon": np.inf}, {"neighbours": "swap"}, {"rows_per_person": 0}, {"delta": 1.0}],
)
def test_bad_requests_are_refused(options):
    with pytest.raises(onedraw.InvalidInput):
        Request(**{"epsilon": 1.0, **options})


def test_a_useless_or_missing_delta_is_refused(example):
    if example.required.delta in ("composition", "optional"):
        assert example.calibrated(delta=1e-5).guarantee.delta <= 1e-5
        return
    message = "no guarantee at delta=0" if example.delta else "cannot use delta=1e-05"
    with pytest.raises(onedraw.InvalidInput, match=message):
        example.calibrated(delta=0.0 if example.delta else 1e-5)


def test_several_draws_are_refused_or_released_together(example, examples, released):
    kind = type(example.mechanism).__name__
    if example.required.draws == "one":
        for draws, message in ((3, "makes one release, got draws=3"), ("auto", "does not choose the numb")):
            with pytest.raises(onedraw.InvalidInput, match=rf"{kind} {message}.*[Ll]eave draws out") as info:
                example.calibrated(draws=draws)
            assert "draws" in str(info.value)
        return
    mechanism = example.calibrated(draws=3)
    assert mechanism.guarantee.draws == 3
    assert len(set(released(mechanism, examples.records(example.model), 2).draws)) == 3
    if example.required.draws == "several":
        with pytest.raises(onedraw.InvalidInput, match=f"{kind} does not choose the number"):
            example.calibrated(draws="auto")


def test_a_model_of_another_family_is_refused(example, examples):
    required = example.required
    for name in FAMILIES:
        model = examples.regression(examples.family(name), example.model.num_features)
        if required.fits(model):
            continue
        with pytest.raises(onedraw.InvalidInput, match=rf"is for these models: .*got a {model.kind} model"):
            example.calibrated(model=model)
    if required.intercept_only:
        for model in (
            dataclasses.replace(example.model, features=("x",)),
            dataclasses.replace(example.model, features=("x",), fit_intercept=False),
        ):
            with pytest.raises(onedraw.InvalidInput, match=r"estimates one number.*an intercept and no feat"):
                example.calibrated(model=model)


def test_records_of_another_width_or_response_are_refused_unquoted(example, examples, released):
    data = examples.records(example.model)
    wide = Records(features=np.zeros((60, example.model.num_features + 1)), response=data.response)
    with pytest.raises(onedraw.InvalidInput, match="features of the model"):
        released(example.calibrated(), wide)
    if example.model.family.has_scale:
        return
    odd = Records(features=data.features, response=np.full(60, 31337.5))
    with pytest.raises(onedraw.InvalidInput) as info:
        released(example.calibrated(), odd)
    assert "31337" not in str(info.value)


def test_a_plan_for_another_number_of_records_is_refused(example, examples, released):
    """Where the number is public, noise and evidence follow from it."""
    with pytest.raises(onedraw.InvalidInput, match="the 60 records that the plan was made for, got 59"):
        released(example.calibrated(), examples.records(example.model, 59))


def test_features_beyond_the_bound_are_clipped_before_anything_else(example, examples, released):
    """A release from features a million times too long equals that from the same features, clipped."""
    if "feature_norm" not in example.required.needs:
        pytest.skip("its features need no bound")
    model, room = example.model, 1.5
    if model.form == "regression":
        model = dataclasses.replace(model, fit_intercept=False)
    else:
        room = math.sqrt(1.5**2 - 1.0)  # a network has a bias, whose 1 is part of the vector
    mechanism, data = example.calibrated(model=model), examples.records(model)
    wild = Records(features=1e6 * np.sign(data.features), response=data.response)
    clipped = bounded_design(wild.features, fit_intercept=False, feature_norm=room)
    tame = Records(features=clipped, response=data.response)
    one, two = (released(mechanism, d, 6) for d in (wild, tame))
    np.testing.assert_allclose(one.draws, two.draws, rtol=1e-9)


def test_responses_beyond_the_bound_are_clipped_too(example, examples, released):
    if "response_bound" not in example.required.needs:
        pytest.skip("its responses need no bound")
    mechanism, data = example.calibrated(), examples.records(example.model)
    signs = np.sign(data.response)
    one, two = (
        released(mechanism, Records(features=data.features, response=size * signs), 6) for size in (1e6, 1.0)
    )
    assert one.draws == two.draws


def test_bounds_of_the_response_are_in_its_own_units(example, examples, released):
    """A response in other units with a bound in these units: the same draws, in working units."""
    if "response_bound" not in example.required.needs:
        pytest.skip("its responses need no bound")
    wide = dataclasses.replace(example.model, target_bounds=(0.0, 20.0))
    options = {"response_bound": 10.0}
    if "residual_scale" in example.mechanism.option_names():
        options["residual_scale"] = 10.0
    moved = dataclasses.replace(example, mechanism=dataclasses.replace(example.mechanism, **options))
    data = examples.records(example.model)
    assert (
        released(moved.calibrated(model=wide), data, 2).draws == released(example.calibrated(), data, 2).draws
    )


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
        Mechanism()


# -- by name, by object, by options


def test_a_name_means_the_mechanism_with_its_defaults(example, mechanism_name):
    shape = Shape(model=example.model)
    chosen, why = choose(mechanism_name, Request(epsilon=1.0), shape)
    assert (chosen, why) == (MECHANISMS[mechanism_name](), "")
    assert choose(chosen, Request(epsilon=1.0), shape)[0] is chosen
    with pytest.raises(onedraw.InvalidInput, match=rf"got the class {type(chosen).__name__}. Call it: "):
        choose(type(chosen), Request(epsilon=1.0), shape)
    with pytest.raises(onedraw.InvalidInput, match=f"Did you mean '{mechanism_name}'"):
        choose(mechanism_name + "x", Request(epsilon=1.0), shape)


def test_options_by_name_are_those_of_the_constructor(example):
    kind, options = type(example.mechanism), example.mechanism.options
    assert build(kind, options) == example.mechanism
    for option in kind.option_names():
        with pytest.raises(onedraw.InvalidInput, match=f"Did you mean '{option}'"):
            build(kind, {**options, option + "z": 1})
        with pytest.raises(TypeError, match="unexpected keyword"):
            kind(**{option + "z": 1})
    with pytest.raises(onedraw.InvalidInput, match="option"):
        build(kind, {"promise": Guarantee(epsilon=1e-9)})


def test_an_unknown_option_names_the_nearest_known_one():
    with pytest.raises(TypeError, match="betta"):
        OnePosterior(betta=2)
    with pytest.raises(onedraw.InvalidInput, match=r"got option='betta'. Did you mean 'beta'\?"):
        build(OnePosterior, {"betta": 2})
