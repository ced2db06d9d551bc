# SPDX-License-Identifier: Apache-2.0
"""Blocks that workers keep: prepared once, in one form at a time, and gone however a fit ends."""

import math
import os
import pickle
import signal
import time

import numpy as np
import pytest

from onedraw import design
from onedraw.design import Designing, InCache, Losses, Observed
from onedraw.errors import InvalidInput, TableError
from onedraw.families import Bernoulli, Gaussian
from onedraw.losses import BetaDivergence
from onedraw.tables import cluster
from onedraw.tables.base import one_thread
from onedraw.tables.cluster import Shard

pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.filterwarnings("ignore")

PARTITIONS = 3
DESIGNING = Designing(loss=BetaDivergence(Bernoulli()), fit_intercept=True)


@pytest.fixture
def counting(tmp_path):
    """A map of blocks that leaves a file behind wherever and whenever a block with records is prepared."""
    folder = tmp_path / "prepared"
    folder.mkdir()

    def made(prepare):
        def counted(block):
            import tempfile

            if len(block):
                tempfile.mkstemp(dir=folder)
            return prepare(block)

        return counted

    return made, lambda: len(list(folder.iterdir()))


def doubling():
    """A map of blocks, sent by value: workers cannot import this file."""

    def made(block):
        return type(block)(features=2.0 * block.features, response=block.response)

    return made


def blocks_on(client):
    """Keys of this package that lie on the workers."""
    held = client.has_what().values()
    return {key for keys in held for key in map(str, keys) if key.startswith("onedraw-")}


def settled_at(client, number):
    """Whether so many keys stay; workers forget a little later than they are told to."""
    for _ in range(200):
        if len(blocks_on(client)) == number:
            return True
        time.sleep(0.05)
    return False


def test_blocks_are_prepared_once_however_many_passes(table, kernel, counting, patients):
    made, count = counting
    prepared = table.map(made(doubling()))
    found = [prepared.sum(kernel(0.0))[0] for _ in range(3)]
    assert count() == PARTITIONS - 1  # one has no records
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    columns = patients()
    np.testing.assert_allclose(found[0], [2 * columns[name].sum() for name in ("age", "dose", "weight")])


def test_a_fit_prepares_each_block_once(client, frame, small_look, logistic):
    """Three passes behind that which checks; a task for each block and pass, and one to prepare it."""
    tasks, plain = [], client.submit

    def submit(work, *arguments, **options):
        tasks.append(work.__name__)
        return plain(work, *arguments, **options)

    client.submit = submit
    logistic().fit(frame, target="died")
    assert tasks.count("_prepare") == tasks.count("_look") == PARTITIONS
    assert tasks.count("_sum") == 3 * (PARTITIONS - 1)


def test_workers_keep_one_form_of_the_records(client, table, kernel, counting):
    """Not that which it was made from; who goes back to that has it read again."""
    made, count = counting
    once = table.map(made(doubling()))
    twice = once.map(made(doubling()))
    raw, first, second = (held.sum(kernel(0.0))[0] for held in (table, once, twice))
    assert count() == 2 * (PARTITIONS - 1)
    assert settled_at(client, PARTITIONS)
    np.testing.assert_array_equal(first, 2 * raw)
    np.testing.assert_array_equal(second, 4 * raw)
    np.testing.assert_array_equal(once.sum(kernel(0.0))[0], first)
    assert count() == 3 * (PARTITIONS - 1)
    np.testing.assert_array_equal(table.sum(kernel(0.0))[0], raw)
    assert settled_at(client, PARTITIONS)


def test_two_maps_are_made_in_one_go(table, kernel, counting):
    made, count = counting
    table.map(made(doubling())).map(made(doubling())).sum(kernel(0.0))
    assert count() == 2 * (PARTITIONS - 1)
    assert len(table.held.shards) == PARTITIONS


@pytest.mark.parametrize("records", ["of a look at most", "more than a look"])
def test_nothing_is_left_on_the_workers_when_a_fit_ends(records, client, frame, logistic, request):
    if records == "more than a look":
        request.getfixturevalue("small_look")
    logistic().fit(frame, target="died")
    assert settled_at(client, 0)


def test_nothing_is_left_when_a_fit_refuses_a_record(client, folder, patients, small_look, logistic):
    """The error, and with it every frame of the fit, is still in hand."""
    columns = patients(3500, seed=1)
    columns["age"][-1] = math.nan
    pq.write_table(pa.table(columns), folder / "part2.parquet", row_group_size=500)
    frame = pytest.importorskip("dask.dataframe").read_parquet(folder)
    with pytest.raises(InvalidInput) as caught:
        logistic().fit(frame, target="died")
    assert settled_at(client, 0)
    assert caught.value is not None


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("waits", [1, 2, 4])
def test_nothing_is_left_when_a_fit_is_broken_off(error, waits, client, frame, small_look, logistic):
    """While it waits for sizes, for the look, or for the sums of prepared blocks, which are there by then."""
    waited, plain = [], client.gather

    def gather(futures, **options):
        found = plain(futures, **options)
        waited.extend(blocks_on(client) and [1])  # not what Dask counts by itself
        if len(waited) == waits:
            raise error
        return found

    client.gather = gather
    with pytest.raises((error, TableError)) as caught:
        logistic().fit(frame, target="died")
    assert settled_at(client, 0)
    assert caught.value is not None


def test_a_table_that_changed_is_found_as_its_blocks_are_prepared(table, kernel):
    table.held.sizes[0] = (table.held.sizes[0][0], 1)
    with pytest.raises(TableError, match="changed"):
        table.map(doubling()).sum(kernel(0.0))


def test_a_file_that_changed_before_a_block_is_prepared_again_is_found(table, kernel, folder):
    """As it would be if the worker that held it had died."""
    prepared = table.map(doubling())
    expected = prepared.sum(kernel(0.0))[0]
    table.release()
    np.testing.assert_array_equal(prepared.sum(kernel(0.0))[0], expected)
    path = folder / "part0.parquet"
    values = pq.read_table(path).to_pandas()
    values.loc[7, "age"] += 0.25
    values.to_parquet(path, row_group_size=500)
    table.release()
    with pytest.raises(TableError, match="changed"):
        prepared.sum(kernel(0.0))


def test_errors_of_preparing_quote_nothing(table, kernel):
    def careless(block):
        raise ValueError(f"61 years: {block}")

    failure = cluster._prepare(Shard((careless,)), Shard(np.zeros(0)), Shard(None))
    assert (failure.code, failure.message) == (cluster.BROKEN, "")
    with pytest.raises(TableError) as caught:
        table.map(careless).sum(kernel(0.0))
    assert "61" not in str(caught.value)


# -- what travels or is spilled


@pytest.mark.parametrize("family", [Bernoulli(), Gaussian()])
def test_a_prepared_block_gives_the_same_sums_in_another_process(family):
    """One zero stands for all responses of a symmetric family, also when it is another zero."""
    rng = np.random.default_rng(2)
    block = Observed(features=rng.uniform(-1, 1, (700, 3)), response=rng.integers(0, 2, 700).astype(float))
    made = Designing(loss=BetaDivergence(family), fit_intercept=True)(block)
    moved = pickle.loads(pickle.dumps(Shard(made), protocol=5)).content
    assert moved.design.flags.f_contiguous  # sums run along records
    scale = np.ones((1, 2)) if family.has_scale else None
    terms = Losses(loss=BetaDivergence(family), beta=2.0, stacked=rng.normal(size=(2, 1, 4)), scale=scale)
    for rows in (slice(0, 700), slice(5, 9), slice(3, 3)):
        np.testing.assert_array_equal(terms(*made.rows(rows)), terms(*moved.rows(rows)))
    np.testing.assert_array_equal(made.take(np.array([3, 5])).design, moved.take(np.array([3, 5])).design)


def test_on_one_thread_a_sum_is_the_same_and_takes_no_other(monkeypatch):
    rng = np.random.default_rng(3)
    block = Observed(features=rng.uniform(-1, 1, (40_000, 3)), response=np.zeros(40_000))
    terms = Losses(loss=DESIGNING.loss, beta=2.0, stacked=rng.normal(size=(8, 1, 4)), scale=None)
    kernel, prepared = InCache(terms=terms, columns=8), DESIGNING(block)
    expected = kernel(prepared)
    monkeypatch.setattr(design, "_workers", None)
    with one_thread():
        found = kernel(prepared)
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(TypeError):
        kernel(prepared)


# -- last, as new workers have to import everything


def test_a_worker_that_dies_has_its_blocks_prepared_again(client, table, kernel, counting):
    """Between two passes, and with it every copy of a block that has records."""
    made, count = counting
    prepared = table.map(made(doubling()))
    expected = prepared.sum(kernel(0.0))[0]
    assert count() == PARTITIONS - 1
    lost = next(shard for shard, (size, _) in zip(table.held.shards, table.held.sizes, strict=True) if size)
    pids = client.run(os.getpid)
    for address in client.who_has([lost])[lost.key]:
        os.kill(pids[address], signal.SIGKILL)
    np.testing.assert_array_equal(prepared.sum(kernel(0.0))[0], expected)
    assert PARTITIONS - 1 < count() <= 2 * (PARTITIONS - 1)
