# SPDX-License-Identifier: Apache-2.0
"""Nothing shows a record: not what holds records, not what is alive during a fit, not what is left of one.

A number that occurs nowhere else is planted among the records, and looked for.
"""

import copy
import functools
import gc
import json
import logging
import pickle
import re
import sys
import traceback

import numpy as np
import pandas as pd
import pytest

import onedraw
from onedraw.design import Design
from onedraw.estimators.discreet import numbers, unquoted
from onedraw.estimators.labels import classes_in, codes
from onedraw.families import Bernoulli, Gaussian
from onedraw.losses import BetaDivergence
from onedraw.mechanisms import Mechanism, OnePosterior
from onedraw.posterior import Posterior
from onedraw.priors import Prior
from onedraw.private import Private, Withheld, opened
from onedraw.records import Records
from onedraw.samplers import Evidence
from onedraw.samplers.base import Draws
from onedraw.samplers.envelope import Mixture, StudentT
from onedraw.samplers.modes import Mode
from onedraw.tables.foresight import Foreseen, _Choice
from onedraw.tables.stream import Stream
from onedraw.tilted.losses import Logistic
from onedraw.tilted.quantiles import Counted, Drawn
from onedraw.tilted.solver import Approach, Solution
from onedraw.tilted.sums import Sums
from onedraw.tilted.weights import Rows
from onedraw.tilted.windows import Filled

PLANTED = 8675309.25
SHOWN = re.compile(r"8675309|8\.67530\d*e\+?0?6")
"""The number in any spelling, its whole part alone included."""


def holders():
    """One of everything that holds private data, with the planted number in it."""
    array, table = np.full(2, PLANTED), np.full((2, 1), PLANTED)
    component = StudentT(location=array, precision=np.diag(array), df=5.0)
    rows = Rows(features=table, weight=None, geometry="cube", response=array)
    return {
        "rows": rows,
        "design": Design(design=table, response=table),
        "sums": Sums(loss=Logistic(), table=rows),
        "solution": Solution(theta=table, taken=((np.diag(array),),)),
        "approach": Approach(objective=None, theta=table, moved=table, certified=False),
        "choice": (choice := _Choice(table=rows, kernel=list, chosen=list, foreseen=PLANTED, rng=PLANTED)),
        "foreseen": Foreseen(held=rows, choice=choice),
        "noise": Drawn(PLANTED),
        "counts": Counted(up_to=array, num_values=int(PLANTED)),
        "windows": Filled(
            scales=array, middles=array, below=array, above=array, num_values=int(PLANTED)
        ),
        "stream": Stream(source=[PLANTED], read=list, empty=Records(features=table, response=array)),
        "records": Records(features=table, response=array),
        "box": Private(array),
        "number": Private(PLANTED),
        "box of records": Private(Records(features=table, response=array)),
        "posterior": Posterior(
            loss=BetaDivergence(Bernoulli()),
            beta=2.0,
            weight=0.5,
            prior=Prior(scale=3.0),
            features=table,
            response=array,
        ),
        "draws": Draws(
            values=table,
            evidence=Evidence(level="searched", statement="."),
            diagnostics={"acceptance": PLANTED},
        ),
        "mode": Mode(location=array, log_density=PLANTED, precision=np.diag(array)),
        "component": component,
        "envelope": Mixture(components=(component,), weights=np.array([PLANTED])),
    }


holder = pytest.mark.parametrize("name", holders())


def test_the_planted_number_is_found_where_it_is_shown():
    with full_print():
        for text in (
            PLANTED,
            np.array([PLANTED]),
            [np.float64(PLANTED)],
            pd.Series([PLANTED]),
            f"{PLANTED:e}",
        ):
            assert SHOWN.search(str(text))


def full_print():
    """Arrays in full, so that nothing hides behind an ellipsis."""
    return np.printoptions(threshold=sys.maxsize, precision=17, suppress=True)


# -- one by one


@holder
def test_a_holder_prints_as_nothing_but_its_kind(name):
    held = holders()[name]
    kind = type(held).__name__
    with full_print():
        for text in (repr(held), str(held), f"{held}", f"{held!r:>80}".strip(), format(held, ">9")):
            assert text == f"{kind}(...)"
        assert repr([held, {"a": held}]) == f"[{kind}(...), {{'a': {kind}(...)}}]"


@holder
def test_a_holder_cannot_be_pickled_or_copied(name):
    held = holders()[name]
    attempts = [
        *(lambda protocol=protocol: pickle.dumps(held, protocol) for protocol in range(6)),
        lambda: copy.copy(held),
        lambda: copy.deepcopy(held),
        lambda: copy.deepcopy({"inside": [held]}),
        lambda: pickle.dumps([held]),
    ]
    for attempt in attempts:
        with pytest.raises(TypeError, match="holds private data and cannot be pickled or copied") as info:
            attempt()
        assert not SHOWN.search(str(info.value))


@holder
def test_a_holder_cannot_be_compared_iterated_or_asked_for_its_truth(name):
    held, other = holders()[name], holders()[name]
    for attempt in (
        lambda: held == other,
        lambda: held != other,
        lambda: held in [other],
        lambda: list(held),
        lambda: [*held],
        lambda: PLANTED in held,
        lambda: bool(held),
        lambda: held or None,
        lambda: held < other,
    ):
        with pytest.raises(TypeError) as info:
            attempt()
        assert not SHOWN.search(str(info.value))
    assert hash(held) != hash(other) or held is other


@holder
def test_a_holder_does_not_become_json_or_an_array_or_text_in_a_log(name, caplog):
    held = holders()[name]
    with pytest.raises(TypeError) as info:
        json.dumps({"records": held})
    assert not SHOWN.search(str(info.value))
    with full_print(), caplog.at_level(logging.DEBUG):
        logging.getLogger("test").warning("a fit of %s, %r", held, [held])
        assert not SHOWN.search(caplog.text)
        assert not SHOWN.search(json.dumps({"records": held}, default=str))
        assert not SHOWN.search(str(np.array(held, dtype=object)))
        assert not SHOWN.search(str(pd.Series([held, held])))


def test_an_empty_box_is_no_different():
    assert repr(Private(None)) == repr(Private(PLANTED)) == "Private(...)"
    with pytest.raises(TypeError, match="its truth would tell about it"):
        bool(Private([]))
    assert opened(Private(PLANTED)) == PLANTED
    with pytest.raises(AttributeError):
        Private(PLANTED).anything = 1


def test_frames_that_hold_records_show_none_in_a_traceback_with_locals():
    """Holders among the locals of a frame are shown as their kind; raw arrays of the caller are his own."""

    def failing():
        held, box = holders()["records"], holders()["box of records"]
        raise onedraw.SamplingError(f"no draw of {held} and {box}")

    try:
        failing()
    except onedraw.SamplingError as error:
        with full_print():
            shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "Records(...)" in shown
    assert not SHOWN.search(shown)


# -- everything that is alive during a fit


def ours():
    """All objects of classes of this package that the garbage collector knows."""
    for found in gc.get_objects():
        if is_ours(type(found)):
            yield found


@functools.cache
def is_ours(kind):
    return str(getattr(kind, "__module__", "")).split(".")[0] == "onedraw"


class Walk:
    """Looks at every object of the package, now and then, while a fit is under way."""

    def __init__(self):
        self.shown, self.kinds, self.bare, self.looks = [], set(), set(), 0
        self.before = {id(found): found for found in ours()}  # kept, so that no new object has an old id

    def look(self):
        self.looks += 1
        with full_print():
            for found in ours():
                if id(found) in self.before or found is self:
                    continue
                kind = f"{type(found).__module__}.{type(found).__qualname__}"
                self.kinds.add(kind)
                if SHOWN.search(f"{found!r} {found!s} {found}"):
                    self.shown.append(kind)
                if not isinstance(found, Withheld) and holds_floats(found) and not is_public(found):
                    self.bare.add(kind)


def holds_floats(found):
    """Whether an attribute is an array of numbers: during a fit such are made of the data."""
    values = list(getattr(found, "__dict__", {}).values())
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size for value in values)


def is_public(found):
    """Tables of a family, and the parameters of a release."""
    module = type(found).__module__
    return module.startswith(
        ("onedraw.families", "onedraw.estimators", "onedraw.model", "onedraw.uncertainty")
    )


@pytest.fixture
def walk(monkeypatch):
    """Walks at the first log densities of a fit, and around what the mechanism computes."""
    walk = Walk()
    density, compute, checked = Posterior.log_density, Mechanism.compute, Mechanism.check_records

    def looking_density(self, thetas):
        if walk.looks < 4:
            walk.look()
        return density(self, thetas)

    def looking_compute(self, records, rng):
        walk.look()
        found = compute(self, records, rng)
        walk.look()
        return found

    def looking_check(self, records):
        walk.look()
        return checked(self, records)

    monkeypatch.setattr(Posterior, "log_density", looking_density)
    monkeypatch.setattr(Mechanism, "compute", looking_compute)
    monkeypatch.setattr(Mechanism, "check_records", looking_check)
    return walk


def planted_table(examples, family, n=40):
    """The planted number among the features, and as the response where the family has such responses."""
    X, y = examples.table(family, n=n)
    X[3, 0] = PLANTED
    if family.has_scale:
        y[4] = PLANTED
    elif family.num_predictors == 1 and family.kind != "logistic":
        y[4] = np.floor(PLANTED)
    return X, y


def test_no_object_that_is_alive_during_a_fit_shows_a_record(family_name, examples, walk):
    family = examples.family(family_name)
    examples.estimator(family, mechanism="one_posterior").fit(*planted_table(examples, family))
    assert walk.looks >= 4
    assert {"onedraw.records.Records", "onedraw.private.Private", "onedraw.posterior.Posterior"} <= walk.kinds
    assert not walk.shown
    assert not walk.bare


@pytest.mark.parametrize("evidence", ["enumerated", "proved"])
def test_no_object_of_another_sampler_shows_a_record(evidence, examples, walk):
    family = Bernoulli()
    mechanism = OnePosterior(evidence=evidence)
    examples.estimator(family, mechanism=mechanism).fit(*planted_table(examples, family, n=12))
    assert "onedraw.posterior.Posterior" in walk.kinds
    assert not walk.shown
    assert not walk.bare


def test_no_object_of_any_mechanism_shows_a_record(mechanism_name, examples, released, walk):
    example = examples.mechanism(mechanism_name)
    data = examples.records(example.model)
    features, response = data.features.copy(), data.response.copy()
    if features.size:
        features[3, 0] = PLANTED
    if example.model.family.has_scale:
        response[4] = PLANTED
    release = released(example.calibrated(), Records(features=features, response=response), 0)
    assert not walk.shown
    with full_print():
        assert not SHOWN.search(f"{release!r} {release} {release.to_json()}")


# -- what is left of a fit


def everything_in(value, seen=None):
    """All plain values reachable from an object by attributes and containers."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield from (float(v) for v in value.ravel() if isinstance(v, int | float | np.number))
    elif isinstance(value, int | float | str):
        yield value
    elif isinstance(value, dict):
        for part in (*value.keys(), *value.values()):
            yield from everything_in(part, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from everything_in(part, seen)
    else:
        assert not isinstance(value, Withheld), f"a {type(value).__name__} is kept"
        yield from everything_in(getattr(value, "__dict__", {}), seen)


def test_a_fitted_estimator_and_its_plan_hold_no_record(family_name, examples):
    family = examples.family(family_name)
    X, y = planted_table(examples, family)
    model = examples.estimator(family, mechanism="one_posterior").fit(X, y)
    private = {float(value) for value in [*X.ravel(), *y] if value not in (0.0, 1.0, 2.0, 3.0, 4.0)}
    for kept in (model, model.plan_, model.release_, pickle.loads(pickle.dumps(model))):
        found = {float(v) for v in everything_in(kept) if isinstance(v, int | float)}
        assert not {v for v in private & found if not float(v).is_integer()}
        assert np.floor(PLANTED) not in found
        with full_print():
            assert not SHOWN.search(f"{kept!r} {kept}")
    assert not SHOWN.search(repr(pickle.dumps(model, 0)))
    assert pickle.loads(pickle.dumps(model.plan_)) == model.plan_
    assert copy.deepcopy(model.plan_) == model.plan_


def test_nothing_that_holds_records_outlives_the_fit(examples):
    """Not the box, not the posterior, not the closure that reads them."""
    family = Gaussian()
    X, y = planted_table(examples, family)
    gc.collect()
    before = [found for found in ours() if isinstance(found, Withheld)]
    known = {id(found) for found in before}
    model = examples.estimator(family, mechanism="one_posterior").fit(X, y)
    gc.collect()
    assert not [found for found in ours() if isinstance(found, Withheld) and id(found) not in known]
    assert not [value for value in vars(model).values() if callable(value)]


# -- errors


class Talkative:
    """A value whose own error quotes it, as that of a quantity with a unit might."""

    def __float__(self):
        raise ValueError(f"patient {PLANTED} has no unit")


def planted_errors():
    """Ways to fail with the planted number among the data."""
    X, y = np.full((6, 1), PLANTED), np.array([0, 1, 0, 1, 0, 1])
    text = X.astype(object)
    text[2, 0] = f"patient {PLANTED}"
    talkative = X.astype(object)
    talkative[2, 0] = Talkative()
    nan = X.copy()
    nan[1, 0] = np.nan
    labels = np.array(["no", f"yes {PLANTED}"] * 3)
    logistic, declared = onedraw.LogisticRegression, {"classes": [0, 1]}
    return {
        "text among features": (logistic(epsilon=1.0, **declared), text, y),
        "text in a frame": (logistic(epsilon=1.0, **declared), pd.DataFrame(text), y),
        "a value that speaks for itself": (logistic(epsilon=1.0, **declared), talkative, y),
        "a response that does": (onedraw.LinearRegression(epsilon=1.0), X, talkative[:, 0]),
        "a missing number": (logistic(epsilon=1.0, **declared), nan, y),
        "flat features": (logistic(epsilon=1.0, **declared), X[:, 0], y),
        "a single number": (logistic(epsilon=1.0, **declared), PLANTED, y),
        "complex features": (logistic(epsilon=1.0, **declared), X + 1j, y),
        "an undeclared label": (logistic(epsilon=1.0, **declared), X, np.where(y == 1, PLANTED, 0)),
        "an undeclared text": (logistic(epsilon=1.0, classes=["no", "yes"]), X, labels),
        "one class": (logistic(epsilon=1.0), X, np.full(6, int(PLANTED))),
        "labels of no kind": (logistic(epsilon=1.0), X, np.array([str(PLANTED).encode(), None] * 3)),
        "continuous labels": (logistic(epsilon=1.0), X, np.linspace(PLANTED, PLANTED + 1, 6)),
        "text as response": (onedraw.LinearRegression(epsilon=1.0), X, text[:, 0]),
        "an infinite response": (onedraw.LinearRegression(epsilon=1.0), X, np.where(y == 1, np.inf, PLANTED)),
        "a fraction": (onedraw.PoissonRegressor(epsilon=1.0), X, np.where(y == 1, PLANTED, 0.0)),
        "a negative count": (onedraw.NegativeBinomialRegressor(epsilon=1.0), X, -PLANTED * y),
        "a short response": (onedraw.LinearRegression(epsilon=1.0), X, np.full(4, PLANTED)),
        "a deep response": (onedraw.LinearRegression(epsilon=1.0), X, np.full((6, 2), PLANTED)),
    }


@pytest.mark.parametrize("case", planted_errors())
def test_no_error_of_a_fit_quotes_a_record_or_one_that_does(case):
    """Neither the message nor anything it was raised from: a traceback prints the whole chain."""
    model, X, y = planted_errors()[case]
    with full_print(), pytest.raises((ValueError, TypeError)) as info:
        model.fit(X, y)
    shown = "".join(traceback.TracebackException.from_exception(info.value).format())
    assert not SHOWN.search(shown)
    chain = [info.value]
    while chain[-1] is not None:
        error = chain[-1]
        assert not SHOWN.search(f"{error!r} {error.args!r}")
        chain.append(error.__cause__ or (None if error.__suppress_context__ else error.__context__))
    json.dumps([str(error) for error in chain])


@pytest.mark.parametrize(
    "use",
    [
        lambda: numbers(np.array(["1", f"patient {PLANTED}"], dtype=object)),
        lambda: classes_in([f"a {PLANTED}", 3, None]),
        lambda: classes_in(np.array([[PLANTED, 1.0], [2.0, 3.0]])),
        lambda: codes(("a", "b"), np.array([PLANTED, 1.0])),
        lambda: Records(features=np.array([[PLANTED, np.nan]]), response=np.array([PLANTED])),
        lambda: Gaussian().check_response(np.array([PLANTED, np.inf])),
        lambda: Bernoulli().check_response(np.array([PLANTED])),
    ],
)
def test_nothing_that_reads_or_checks_quotes_a_record(use):
    with full_print(), pytest.raises((ValueError, TypeError)) as info:
        use()
    shown = "".join(traceback.TracebackException.from_exception(info.value).format())
    messages = [line for line in shown.splitlines() if not line.startswith("    ")]  # not the source above
    assert not SHOWN.search("\n".join(messages))
    assert "patient" not in "\n".join(messages)


def test_what_unquoted_replaces_is_out_of_the_chain():
    """``from None``: a traceback would print the error that quotes the record otherwise."""
    messages = [
        f"could not convert string to float: 'patient {PLANTED}'",
        f"Input X contains NaN.\nvalue {PLANTED}",
        f"Expected 2D array, got 1D array instead:\narray=[{PLANTED}].\nReshape your data.",
        f"Expected 2D array, got scalar array instead:\narray={PLANTED}.\nReshape your data.",
        f"Complex data not supported\n[{PLANTED}+1j]\n",
        f"Found input variables with inconsistent numbers of samples: [{PLANTED}]",
    ]
    for message in messages:
        with pytest.raises(onedraw.InvalidInput) as info, unquoted("X"):
            raise ValueError(message)
        assert info.value.__suppress_context__
        assert info.value.__cause__ is None
        assert not SHOWN.search(str(info.value))
