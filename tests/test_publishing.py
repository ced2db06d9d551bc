# SPDX-License-Identifier: Apache-2.0
"""The one way to publish: its order, what each failure costs, and how little work one fit is."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest

import onedraw
from onedraw.families import Gaussian
from onedraw.mechanisms import Mechanism, Requirements, Shape, gibbs_posterior, one_posterior
from onedraw.mechanisms.drawing import GridMechanism
from onedraw.model import RegressionModel
from onedraw.posterior import Posterior
from onedraw.privacy import Request
from onedraw.private import Private
from onedraw.publishing import Plan, make_plan, publish, standing_assumptions
from onedraw.records import Records
from onedraw.release import Grid, Release
from onedraw.samplers import Evidence

STEPS = []
"""What happened, in order."""


class RecordingGrid(Grid):
    def round(self, draws):
        STEPS.append("round")
        return super().round(draws)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recorder(GridMechanism):
    """Releases the mean response, without any privacy, and says what it is asked for."""

    name = "recorder"
    requirements = Requirements(prefer="a test")

    level: str = "accounted"
    fails: str = ""

    @property
    def grid(self):
        return RecordingGrid(coefficient=2.0**-40)

    @property
    def evidence_level(self):
        return self.level

    def check_records(self, records):
        STEPS.append("check")
        if self.fails == "check":
            raise onedraw.InvalidInput("not such records")
        super().check_records(records)

    def _values(self, records, rng):
        STEPS.append("compute")
        if self.fails == "compute":
            raise onedraw.SamplingError("no draw")
        if self.fails == "interrupt":
            raise KeyboardInterrupt
        warnings.warn("a record is extreme", RuntimeWarning, stacklevel=1)
        np.float64(1e308) * np.float64(10.0)
        value = records.response.mean() / 3.0
        return np.array([[value]]), Evidence(level="accounted", statement="None.")

    def _numbers(self):
        if self.fails == "numbers":
            raise onedraw.CalibrationError("no such noise")
        return {}


class RecordingLedger(onedraw.Ledger):
    def check_affordable(self, dataset, guarantee):
        STEPS.append("afford")
        return super().check_affordable(dataset, guarantee)

    def charge(self, dataset, guarantee, **options):
        STEPS.append("charge")
        return super().charge(dataset, guarantee, **options)


@pytest.fixture(autouse=True)
def _nothing_happened():
    STEPS.clear()


@pytest.fixture
def ledger(tmp_path):
    ledger = RecordingLedger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    return ledger


MODEL = RegressionModel(family=Gaussian(), features=())
DATA = Records(features=np.zeros((3, 0)), response=np.array([0.1, 0.2, 0.4]))


def plan_for(epsilon=0.4, num_records=3, **options):
    return make_plan(
        Request(epsilon=epsilon), Recorder(**options), Shape(model=MODEL, num_records=num_records)
    )


def read():
    STEPS.append("read")
    return Private(DATA)


def spent(ledger):
    return ledger.show("patients").spent


# -- the order


def test_afford_charge_read_check_compute_round_release(ledger, monkeypatch):
    made = Release.__init__
    monkeypatch.setattr(
        Release, "__init__", lambda self, **facts: STEPS.append("release") or made(self, **facts)
    )
    release = publish(plan_for(), read, ledger=ledger, dataset="patients", random_state=0)
    assert STEPS == ["afford", "charge", "read", "check", "compute", "round", "release"]
    assert spent(ledger) == 0.4
    assert release.receipt["dataset"] == "patients"
    charged = [row for row in ledger.history("patients") if row.kind == "charge"]
    assert [(row.mechanism, row.epsilon) for row in charged] == [("recorder", 0.4)]


def test_without_a_ledger_the_other_steps_are_the_same():
    release = publish(plan_for(), read, random_state=0)
    assert STEPS == ["read", "check", "compute", "round"]
    assert release.receipt is None


def test_nothing_is_read_when_the_budget_cannot_pay(ledger):
    for dataset, error in (("patients", onedraw.BudgetExceeded), ("strangers", onedraw.UnknownDataset)):
        with pytest.raises(error):
            publish(plan_for(epsilon=2.0), read, ledger=ledger, dataset=dataset)
    assert STEPS == ["afford", "afford"]
    assert spent(ledger) == 0.0


def test_numbers_that_cannot_be_solved_for_cost_nothing_and_no_record_is_read(ledger):
    with pytest.raises(onedraw.CalibrationError):
        publish(plan_for(fails="numbers"), read, ledger=ledger, dataset="patients")
    assert "read" not in STEPS
    assert spent(ledger) == 0.0


@pytest.mark.parametrize(
    "options", [{"ledger": None, "dataset": "patients"}, {"dataset": None}, {"ledger": "budget.db"}]
)
def test_half_a_ledger_is_refused_before_anything_is_read(ledger, options):
    with pytest.raises(onedraw.InvalidInput, match="ledger"):
        publish(plan_for(), read, **{"ledger": ledger, "dataset": "patients", **options})
    assert STEPS == []


def test_a_seed_that_cannot_be_is_refused_before_anything_is_read(ledger):
    with pytest.raises(onedraw.InvalidInput, match="random_state"):
        publish(plan_for(), read, ledger=ledger, dataset="patients", random_state="now")
    assert STEPS == ["afford"]
    assert spent(ledger) == 0.0


# -- what a failure costs


def test_records_that_cannot_be_read_or_are_not_of_the_model_were_charged_for(ledger):
    """An error about records is an answer about them: the charge is on disk before they are looked at."""

    def unreadable():
        raise onedraw.InvalidInput("no numbers")

    with pytest.raises(onedraw.InvalidInput, match=r"no numbers Look for such rows .* The charge stands"):
        publish(plan_for(epsilon=0.25), unreadable, ledger=ledger, dataset="patients")
    with pytest.raises(onedraw.InvalidInput, match="not such records"):
        publish(plan_for(epsilon=0.25, fails="check"), read, ledger=ledger, dataset="patients")
    with pytest.raises(onedraw.InvalidInput, match="the 4 records that the plan was made for, got 3"):
        publish(plan_for(epsilon=0.25, num_records=4), read, ledger=ledger, dataset="patients")
    assert spent(ledger) == 0.75
    assert ledger.show("patients").unreleased == 3


def test_without_a_ledger_an_error_about_records_mentions_no_charge():
    with pytest.raises(onedraw.InvalidInput) as refused:
        publish(plan_for(fails="check"), read)
    assert str(refused.value) == "not such records"


@pytest.mark.parametrize(
    ("fails", "error"), [("compute", onedraw.SamplingError), ("interrupt", KeyboardInterrupt)]
)
def test_the_charge_stands_if_the_computation_fails(ledger, fails, error):
    with pytest.raises(error) as info:
        publish(plan_for(fails=fails), read, ledger=ledger, dataset="patients")
    assert info.value.charged
    assert STEPS == ["afford", "charge", "read", "check", "compute"]
    assert ledger.show("patients").unreleased == 1
    assert spent(ledger) == 0.4


def test_nothing_is_computed_without_a_receipt(ledger, monkeypatch):
    """The budget was there when it was asked for, and is gone when it is to be charged."""
    monkeypatch.setattr(RecordingLedger, "check_affordable", lambda *_: None)
    with pytest.raises(onedraw.BudgetExceeded):
        publish(plan_for(epsilon=2.0), read, ledger=ledger, dataset="patients")
    assert STEPS == ["charge"]
    assert spent(ledger) == 0.0


def test_evidence_that_was_not_planned_is_not_released():
    with pytest.raises(AssertionError, match="recorder planned proved evidence"):
        publish(plan_for(level="proved"), read)


# -- what is released


def test_only_rounded_values_become_part_of_a_release():
    release = publish(plan_for(), read, random_state=0)
    ((value,),) = release.draws
    exact = DATA.response.mean() / 3.0
    assert 0.0 < abs(value - exact) <= 2.0**-41
    assert value / 2.0**-40 == np.rint(value / 2.0**-40)


@pytest.mark.parametrize(
    "draws", [((1.0 / 3.0,),), ((0.1 + 2.0**-50,),), ((float("nan"),),), ((float("inf"),),)]
)
def test_a_value_off_the_public_grid_cannot_become_part_of_a_release(draws):
    made = publish(plan_for(), read, random_state=0)
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(made, draws=draws)


def test_what_records_cause_makes_no_sound():
    """A warning or an overflow on the way would tell about a record."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        publish(plan_for(), read, random_state=0)
    assert "compute" in STEPS


def test_a_release_keeps_its_plan():
    plan = plan_for()
    release = publish(plan, read, random_state=0)
    assert (release.model, release.guarantee, release.grid) == (
        plan.model,
        plan.guarantee,
        plan.mechanism.grid,
    )
    assert (release.assumptions, release.num_records) == (plan.assumptions, 3)
    assert release.mechanism == plan.mechanism.made
    assert release.seeded
    assert not publish(plan, read).seeded


def test_the_standing_assumptions_follow_from_the_request():
    public, several, remove = (
        " ".join(standing_assumptions(Request(epsilon=1.0, **options)))
        for options in ({}, {"rows_per_person": 3}, {"neighbours": "add_remove"})
    )
    assert "Each person holds one row." in public
    assert "Each person holds at most 3 rows." in several
    assert "number of rows is public" in public
    assert "number of rows is public" not in several + remove


def test_a_plan_takes_the_number_of_records_only_where_it_is_public():
    for options, known in (({}, 3), ({"rows_per_person": 2}, None), ({"neighbours": "add_remove"}, None)):
        plan = make_plan(Request(epsilon=1.0, **options), Recorder(), Shape(model=MODEL, num_records=3))
        assert plan.num_records == known
        assert publish(plan, read, random_state=0).num_records == known


# -- estimators


class Unreadable:
    """A table with names and a size, whose values raise when they are looked at."""

    shape = (200, 1)

    def __len__(self):
        return 200

    def _refuse(self, *_, **__):
        raise AssertionError("a value was read")

    __array__ = __iter__ = __getitem__ = _refuse


def test_a_plan_reads_no_value(family_name, examples):
    family = examples.family(family_name)
    for mechanism in ("one_posterior", "auto"):
        plan = examples.estimator(family, mechanism=mechanism).plan(Unreadable())
        assert plan.num_records == 200
    frame = pd.DataFrame({"age": [object()] * 5})
    plan = examples.estimator(family, mechanism="one_posterior").plan(frame)
    assert (plan.model.features, plan.num_records) == (("age",), 5)


def test_a_plan_leaves_the_estimator_as_it_was(family_name, examples):
    model = examples.estimator(examples.family(family_name))
    before = dict(vars(model))
    model.plan(np.zeros((5, 1)))
    assert vars(model) == before


def test_a_plan_of_a_classifier_needs_its_classes():
    with pytest.raises(
        onedraw.InvalidInput, match=r"needs the public set of classes. Set classes=\[\.\.\.\]"
    ):
        onedraw.LogisticRegression(epsilon=1.0).plan(np.zeros((5, 1)))


@pytest.fixture
def counted(monkeypatch):
    """How often a fit calibrates, checks and builds a posterior."""
    counts = dict.fromkeys(("calibrate", "check records", "check response", "posterior", "read"), 0)

    def count(owner, attribute, name):
        original = getattr(owner, attribute)

        def counting(*args, **options):
            counts[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(owner, attribute, counting)

    for module in (one_posterior, gibbs_posterior):
        count(module, "calibrate_loss", "calibrate")
    count(Mechanism, "check_records", "check records")
    count(Posterior, "__init__", "posterior")
    count(Records, "__post_init__", "read")
    return counts, count


@pytest.mark.parametrize("ledgered", [False, True])
def test_one_fit_calibrates_once_checks_once_and_builds_one_posterior(
    family_name, examples, counted, ledgered, ledger
):
    counts, count = counted
    family = examples.family(family_name)
    count(type(family), "check_response", "check response")
    options = {"ledger": ledger, "dataset": "patients"} if ledgered else {}
    model = examples.estimator(family, mechanism="one_posterior", epsilon=0.5, **options)
    model.fit(*examples.table(family))
    assert counts == dict.fromkeys(counts, 1)


@pytest.mark.parametrize("request_", [{"rows_per_person": 2}, {"neighbours": "add_remove"}])
def test_an_empty_table_releases_the_prior_where_n_is_private(family_name, examples, request_):
    """As an error would tell it from a table with one person; all but the draws is the same for both."""
    family = examples.family(family_name)
    model = examples.estimator(family, mechanism="one_posterior", **request_)
    X, y = examples.table(family)
    empty = model.fit(X[:0], y[:0]).release_
    single = model.fit(X[:1], y[:1]).release_
    assert examples.facts(empty) == examples.facts(single)
    assert empty.num_records is None
    draws = [
        np.array(
            examples.estimator(family, mechanism="one_posterior", random_state=seed, **request_)
            .fit(X[:0], y[:0])
            .release_.draws[0]
        )[0]
        for seed in range(40)
    ]
    assert 1.5 < np.std(draws) < 5.0  # of N(0, 3^2), so within 4.5 standard errors of 0.34


def test_an_empty_table_is_refused_where_n_is_public(family_name, examples):
    family = examples.family(family_name)
    X, y = examples.table(family)
    with pytest.raises(ValueError, match="The table has no rows, so there is nothing to fit"):
        examples.estimator(family).fit(X[:0], y[:0])


def test_plans_of_the_same_facts_are_equal():
    assert plan_for() == plan_for()
    assert plan_for() != plan_for(epsilon=0.5)
    assert isinstance(plan_for(), Plan)
