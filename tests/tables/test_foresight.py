# SPDX-License-Identifier: Apache-2.0
"""Choices that are foreseen from a look: never published unless all records make them, and fewer passes."""

import numpy as np
import pytest

from onedraw.design import Observed
from onedraw.estimators import LinearRegression, PoissonRegressor
from onedraw.mechanisms import TiltedFit
from onedraw.tables import base
from onedraw.tables.base import Together
from onedraw.tables.foresight import Foreseen, staged
from onedraw.tables.stream import Stream
from onedraw.tilted import linear, recipes
from onedraw.tilted.quantiles import Drawn
from onedraw.tilted.solver import Approach

pa = pytest.importorskip("pyarrow")


RNG = np.random.default_rng(0)


class Values:
    """A stream of numbers in pieces of ten."""

    def __init__(self, values):
        self.values, self.num_records = np.asarray(values, dtype=float), len(values)

    def pieces(self):
        for first in range(0, len(self.values), 10):
            yield self.values[first : first + 10]


def block(values):
    return Observed(features=np.zeros((len(values), 0)), response=np.asarray(values, dtype=float))


def stream(values):
    return Stream(source=Values(values), read=block, empty=block([]))


def total(part):
    return (np.array([part.response.sum()]),)


def times(factor):
    return lambda part: block(factor * part.response)


def rounded(sums):
    return round(float(sums[0][0]))


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(base, "LOOK", 20)
    return stream(np.ones(100))


def staged_with(look, table, chosen, then):
    """``staged`` of the totals of a stream that shows this look."""
    table.look(RNG)
    table.seen.look = look
    return staged(table, total, chosen, then, RNG)


def then(seen):
    """A stage that multiplies by the choice and adds up, and notes what it was given."""

    def stage(choice, table):
        seen.append(choice)
        return float(table.map(times(choice)).sum(total)[0][0])

    return stage


def test_a_choice_that_the_look_foresees_costs_no_pass(table):
    seen = []
    table.look(RNG)
    before = table.scans
    assert staged(table, total, rounded, then(seen), RNG) == 100 * 100
    assert seen == [100]
    assert table.scans - before == 1


@pytest.mark.parametrize("values", [np.arange(100.0), np.append(np.zeros(99), 7.0)])
def test_what_all_records_choose_is_what_counts(values, monkeypatch):
    """The look foresees another number; the stage is begun anew with that of all records."""
    monkeypatch.setattr(base, "LOOK", 20)
    seen, truth = [], round(float(values.sum()))
    found = staged_with(block(np.full(20, 3.0)), stream(values), rounded, then(seen))
    assert found == truth * values.sum()
    assert seen == [300, truth]


def test_in_memory_nothing_is_foreseen(monkeypatch):
    monkeypatch.setattr(base, "LOOK", 20)
    monkeypatch.setattr(Observed, "look", None)
    seen, values = [], np.arange(100.0)
    assert staged(block(values), total, rounded, then(seen), RNG) == values.sum() ** 2
    assert seen == [values.sum()]


def test_a_stage_that_reads_nothing_is_confirmed_all_the_same(table):
    seen = []
    result = staged_with(block([5.0]), table, rounded, lambda choice, _: seen.append(choice) or choice)
    assert result == 100
    assert seen == [500, 100]


@pytest.mark.parametrize("outer", [1.0, 2.0])
@pytest.mark.parametrize("inner", [1.0, 2.0])
def test_choices_within_choices_are_taken_in_one_pass_or_begun_anew(outer, inner, table):
    """A look of ``outer`` or ``inner`` ones foresees rightly, one of twos does not: at most a pass each."""
    seen = []

    def second(choice, left):
        prepared = left.map(times(1.0 / choice))
        guess = rounded((np.array([100 * inner / choice]),))
        return staged(
            prepared, total, rounded, lambda c, t: seen.append((choice, c)) or last(c, t), RNG, guess=guess
        )

    def last(choice, left):
        both = Together((total, lambda part: (np.array([len(part)]),)))
        (found,), (size,) = Together.split(left.map(times(10.0)).sum(both))
        return choice, float(found[0]), int(size[0])

    table.look(RNG)
    before = table.scans
    look = block(np.full(20, outer))
    assert staged_with(look, table, rounded, second) == (1, pytest.approx(10.0), 100)
    assert seen[-1] == (100, 1)
    assert table.scans - before <= 1 + (outer != 1.0) + 2 * (inner != 1.0)


@pytest.mark.parametrize("within", [False, True])
def test_noise_of_a_choice_is_never_that_of_the_next_stage(within, table):
    """A choice that asks the generator itself while it is confirmed; also beside a choice within it."""
    rng, chosen_with, drawn = np.random.default_rng(0), [], []

    def chosen(sums):
        chosen_with.append(rng.random())
        return rounded(sums) if within else chosen_with[-1]

    def stage(choice, left):
        if within:  # the inner choice is foreseen wrongly, and begun anew
            return staged(left, total, rounded, last, rng, guess=7)
        return last(choice, left)

    def last(choice, left):
        tilt = rng.random()
        left.sum(total)
        drawn.append((tilt, rng.random()))

    staged(table, total, chosen, stage, rng)
    assert len(chosen_with) == 2
    assert not {number for pair in drawn for number in pair} & set(chosen_with)


def test_noise_is_drawn_once_for_a_choice_and_its_foresight():
    noise = Drawn(np.random.default_rng(0))
    first = [noise.gumbel(size=3), noise.gumbel(size=2)]
    again = [noise.again().gumbel(size=3), noise.gumbel(size=2)]
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    other = noise.again().gumbel(size=4)
    assert not set(other) & set(np.concatenate(first))


# -- the stages of a fit


def records(n=6000):
    rng = np.random.default_rng(5)
    x = rng.uniform(-1.0, 1.0, (n, 2))
    mean = 0.4 + x @ [0.5, -0.3]
    columns = {"dose": x[:, 0], "age": x[:, 1]}
    counts = {**columns, "y": rng.poisson(np.exp(mean))}
    return {LinearRegression: {**columns, "y": 200.0 + 40.0 * mean + rng.standard_normal(n)},
            PoissonRegressor: counts}  # fmt: skip


@pytest.mark.parametrize("kind", [LinearRegression, PoissonRegressor])
@pytest.mark.parametrize("inference", [True, False])
def test_every_foreseen_choice_is_made_again_from_all_records_with_the_same_noise(
    kind, inference, small_look, monkeypatch
):
    """Each stage chooses for the look, and then once more for all: what is published is the latter."""
    made, names = [], {LinearRegression: "spread_of_residuals", PoissonRegressor: "size_of_counts"}
    module, name = (linear if kind is LinearRegression else recipes), names[kind]
    plain = getattr(module, name)

    def noted(counted, *values, rng, **options):
        chosen = plain(counted, *values, rng=rng, **options)
        made.append((chosen, counted.up_to, [noise.tolist() for noise in rng._held]))
        return chosen

    monkeypatch.setattr(module, name, noted)
    mechanism = TiltedFit(inference=inference)
    found = kind(epsilon=2.0, random_state=3, mechanism=mechanism).fit(pa.table(records()[kind]), target="y")
    (_, look, before), (chosen, counts, after) = made[-2:]
    assert before == after
    assert (counts == np.floor(counts)).all()
    assert (look != counts).any()
    published = found.release_.statistics
    if kind is LinearRegression:
        np.testing.assert_allclose(published["scale"].array(), chosen, rtol=1e-9)
        return
    assert published["largest_count"].values[0] - 1.0 in np.ceil(chosen * np.array([1.0, 1.25, 1.75, 2.5]))


def test_a_first_fit_that_is_not_certified_is_finished_before_anything_rests_on_it(small_look, monkeypatch):
    made = LinearRegression(epsilon=2.0, random_state=3)
    passed, plain = [], Approach.finish

    def finish(self, also=(), seen=None):
        passed.append(self)
        return plain(self, also, seen)

    monkeypatch.setattr(Approach, "certifies", lambda self, sums: False)
    monkeypatch.setattr(Approach, "finish", finish)
    found = made.fit(pa.table(records()[LinearRegression]), target="y").release_
    # The first fit was finished by itself; the second, begun anew around it, at the end.
    assert len(passed) == 2
    assert found.draws[0][:2] == pytest.approx([20.0, -12.0], abs=1.0)


def test_a_foreseen_table_shows_nothing(table):
    shown = []
    staged_with(block([1.0]), table, rounded, lambda choice, left: shown.append(repr(left)))
    assert shown == [f"{Foreseen.__name__}(...)"] * len(shown)
