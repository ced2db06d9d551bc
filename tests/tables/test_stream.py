# SPDX-License-Identifier: Apache-2.0
"""Tables that are read piece by piece: the same releases in few passes, and faults that are found."""

import math
import os

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from onedraw import Columns, LogisticRegression, Target
from onedraw.errors import InvalidInput, TableError
from onedraw.families import Bernoulli
from onedraw.ledger import Ledger
from onedraw.mechanisms import OnePosterior, OutputPerturbation, Shape, TiltedFit
from onedraw.mechanisms._bounds import bounded_design
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.private import Withheld
from onedraw.records import Records
from onedraw.tables import arrow, base
from onedraw.tables.stream import Stream, _ahead

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def scans(monkeypatch):
    """How often each stream was read, in the order in which they were made."""
    made, plain = [], Stream._blocks

    def counted(self):
        if not any(seen is self.seen for seen in made):
            made.append(self.seen)
        return plain(self)

    monkeypatch.setattr(Stream, "_blocks", counted)
    return made


# -- the same release, wherever the records are


@pytest.mark.parametrize("form", ["dataset", "table", "lazy", "frame"])
def test_a_seed_gives_the_same_release_wherever_the_records_are(
    form, folder, small_look, logistic, patients, in_memory
):
    tables = {
        "dataset": lambda: ds.dataset(folder, format="parquet"),
        "table": lambda: pa.table(patients()),
        "lazy": lambda: pytest.importorskip("polars").DataFrame(patients()).lazy(),
        "frame": lambda: pytest.importorskip("polars").DataFrame(patients()),
    }
    found = logistic().fit(tables[form](), target="died").release_
    expected = in_memory()
    np.testing.assert_allclose(found.draws, expected.draws, atol=1e-9, rtol=0)
    assert found.guarantee == expected.guarantee
    assert found.num_records == 6000


@pytest.mark.parametrize("named", [None, "died"])
def test_the_target_may_be_named_by_the_declaration_or_by_the_fit(named, patients):
    """Named by the fit alone it was counted among the features: charged, and then nothing was released."""
    table = patients(300)
    bounds = {name: (-5, 5) for name in table if name != "died"}
    declared = Columns(bounds, Target(name=named, classes=[0, 1]))
    model = LogisticRegression(epsilon=1.0, columns=declared, random_state=0)
    found = model.fit(pa.table(table), target="died").release_
    assert "died" not in found.model.features
    assert len(found.model.features) == len(table) - 1


def test_exposures_are_read_with_their_records(exposed, small_look, scans):
    table, estimator = exposed
    streamed = estimator().fit(pa.table(table), target="died").release_
    assert len(scans) == 1
    together = estimator().fit(pd.DataFrame(table)).release_
    np.testing.assert_allclose(streamed.draws, together.draws, atol=1e-9, rtol=0)
    assert streamed.model == together.model
    assert streamed.estimate.coef[0, 0, 0] == pytest.approx(1.0, abs=0.2)
    with pytest.raises(InvalidInput, match="is one of its columns"):
        estimator().fit(pa.table(table), target="died", exposure=table["years"])


def test_the_tilted_fit_with_its_curvature_takes_four_passes(folder, small_look, scans, logistic):
    estimator = logistic(mechanism=TiltedFit(inference=True)).fit(
        ds.dataset(folder, format="parquet"), target="died"
    )
    assert "curvature" in estimator.release_.statistics
    assert [seen.scans for seen in scans] == [4]


@pytest.mark.parametrize("noise", ["spherical", "laplace"])
def test_output_perturbation_takes_four_passes_and_gives_the_release_of_memory(
    noise, folder, small_look, scans, logistic, in_memory
):
    given = {"mechanism": OutputPerturbation(feature_norm=2.0, regularisation=0.05, noise=noise)}
    found = logistic(**given).fit(ds.dataset(folder, format="parquet"), target="died").release_
    assert [seen.scans for seen in scans] == [4]
    np.testing.assert_allclose(found.draws, in_memory(**given).draws, atol=1e-9, rtol=0)


@pytest.mark.parametrize("norm", [0.3, 2.0, 50.0])
def test_the_estimate_of_a_stream_has_the_residual_that_its_noise_covers(norm, small_look, patients):
    """The gradient of the mean objective, in plain NumPy, and the minimiser of the solver in memory."""
    columns = patients()
    x = np.column_stack([columns[name] for name in ("age", "dose", "weight")])
    records = Records(features=x, response=columns["died"].astype(float))
    model = RegressionModel(family=Bernoulli(), features=("age", "dose", "weight"))
    mechanism = OutputPerturbation(feature_norm=norm, regularisation=0.01)
    mechanism = mechanism.calibrate(Request(epsilon=1.0), Shape(model=model, num_records=6000))
    found = mechanism.estimate_anywhere(records, np.random.default_rng(0))
    design = bounded_design(x, fit_intercept=True, feature_norm=norm)
    sign = 2.0 * records.response - 1.0
    slope = -(sign / (1.0 + np.exp(sign * (design @ found)))) @ design / 6000 + 0.01 * found
    assert np.linalg.norm(slope) <= mechanism.tolerance * norm / 6000
    apart = np.linalg.norm(found - mechanism.estimate(design, records.response))
    assert apart <= 2.0 * mechanism.tolerance * norm / (6000 * 0.01)


def test_a_table_no_longer_than_a_look_is_read_once(folder, scans, logistic):
    logistic(mechanism="one_posterior").fit(ds.dataset(folder, format="parquet"), target="died")
    assert [seen.scans for seen in scans] == [1]


def test_the_posterior_draw_is_the_same_too(folder, small_look, logistic, in_memory):
    found = logistic(mechanism="one_posterior").fit(ds.dataset(folder, format="parquet"), target="died")
    expected = in_memory(mechanism="one_posterior")
    np.testing.assert_allclose(found.release_.draws, expected.draws, atol=1e-9, rtol=0)


def test_the_posterior_draw_takes_five_passes(small_look, scans, logistic, patients):
    """Check and look; two at modes, one at the tops of the ratio; all proposals."""
    found = logistic(mechanism="one_posterior").fit(pa.table(patients(40_000)), target="died").release_
    assert [seen.scans for seen in scans] == [5]
    frame = pd.DataFrame(patients(40_000))
    expected = logistic(mechanism="one_posterior").fit(frame.drop(columns="died"), frame["died"]).release_
    np.testing.assert_allclose(found.draws, expected.draws, atol=1e-9, rtol=0)


def test_pieces_do_not_change_the_release_beyond_rounding(folder, small_look, monkeypatch, logistic):
    whole = logistic().fit(ds.dataset(folder, format="parquet"), target="died").release_
    monkeypatch.setattr(arrow, "PIECE", 77)
    pieces = logistic().fit(ds.dataset(folder, format="parquet"), target="died").release_
    np.testing.assert_allclose(pieces.draws, whole.draws, atol=1e-9, rtol=0)


# -- what is refused, before anything is charged


def test_classes_must_be_declared(folder, logistic):
    with pytest.raises(InvalidInput, match="classes"):
        logistic(classes=None).fit(ds.dataset(folder, format="parquet"), target="died")


def test_the_target_must_be_a_column(folder, logistic):
    with pytest.raises(InvalidInput, match="no column 'dead'"):
        logistic().fit(ds.dataset(folder, format="parquet"), target="dead")
    with pytest.raises(InvalidInput, match="name of the response"):
        logistic().fit(ds.dataset(folder, format="parquet"))


def test_a_mechanism_that_needs_its_table_in_memory_says_so_before_the_charge(
    folder, small_look, tmp_path, logistic
):
    ledger = Ledger(tmp_path / "ledger")
    ledger.create("clinic", epsilon=5.0)
    estimator = logistic(mechanism=OnePosterior(evidence="proved"), ledger=ledger, dataset="clinic")
    with pytest.raises(InvalidInput, match="in memory only"):
        estimator.fit(ds.dataset(folder, format="parquet"), target="died")
    assert ledger.show("clinic").spent == 0.0


# -- faults


def damaged(folder, columns, name="part2.parquet"):
    pq.write_table(pa.table(columns), folder / name, row_group_size=500)


def test_a_missing_value_in_the_last_row_group_is_refused_without_a_word_about_it(
    folder, small_look, logistic, patients
):
    columns = patients(3500, seed=1)
    columns["age"][-1] = math.nan
    damaged(folder, columns)
    with pytest.raises(InvalidInput, match="'age'") as caught:
        logistic().fit(ds.dataset(folder, format="parquet"), target="died")
    assert "3500" not in str(caught.value)


def test_a_file_that_ends_early_is_a_typed_error(folder, small_look, logistic):
    dataset = ds.dataset(folder, format="parquet")
    path = folder / "part2.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises((TableError, InvalidInput)):
        logistic().fit(dataset, target="died")


def test_a_column_that_changes_its_type_between_files_is_refused_by_name(
    folder, small_look, logistic, patients
):
    columns = {**patients(3500, seed=1), "dose": ["7.5"] * 3500}
    damaged(folder, columns)
    with pytest.raises(InvalidInput, match="'dose' has not the same type") as caught:
        logistic().fit(ds.dataset(folder, format="parquet"), target="died")
    assert "7.5" not in str(caught.value)


@pytest.mark.parametrize("keep_times", [True, False])
def test_a_file_that_changes_between_two_passes_is_found(
    folder, small_look, monkeypatch, keep_times, logistic
):
    """By its identity or, where somebody restores that, by the checksum of what is read."""
    plain, path = Stream.check, folder / "part0.parquet"

    def check_then_change(self, checks, rng):
        plain(self, checks, rng)
        old = os.stat(path)
        table = pq.read_table(path)
        values = table.column("age").to_numpy().copy()
        values[7] += 0.25
        with open(path, "r+b") as file:  # in place: the same file, as large as before
            scratch = folder / "scratch"
            pq.write_table(table.set_column(0, "age", pa.array(values)), scratch, row_group_size=500)
            changed = scratch.read_bytes()
            scratch.unlink()
            file.write(changed)
            file.truncate()
        if keep_times and len(changed) == old.st_size:
            os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))

    monkeypatch.setattr(Stream, "check", check_then_change)
    with pytest.raises(TableError, match="passes") as caught:
        logistic().fit(ds.dataset(folder, format="parquet"), target="died")
    assert not caught.value.charged


def test_a_fault_behind_the_charge_says_that_the_charge_stands(
    folder, small_look, monkeypatch, tmp_path, logistic
):
    ledger = Ledger(tmp_path / "ledger")
    ledger.create("clinic", epsilon=5.0)
    plain = Stream.sum

    def broken(self, kernel):
        self.seen.checksums[0] = (500, 0)
        return plain(self, kernel)

    monkeypatch.setattr(Stream, "sum", broken)
    with pytest.raises(TableError) as caught:
        logistic(ledger=ledger, dataset="clinic").fit(ds.dataset(folder, format="parquet"), target="died")
    assert caught.value.charged
    assert ledger.show("clinic").spent == pytest.approx(1.0)


# -- the pieces themselves


def stream(n=100, size=7):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=n)

    class Arrays:
        num_records = n

        def pieces(self):
            for first in range(0, n, size):
                yield x[first : first + size], y[first : first + size]

    empty = Records(features=np.empty((0, 2)), response=np.empty(0))
    return x, y, Stream(source=Arrays(), read=lambda p: Records(features=p[0], response=p[1]), empty=empty)


def moments(block):
    return block.features.T @ block.features, block.response.sum(keepdims=True)


def test_a_stream_sums_what_a_block_sums():
    x, y, table = stream()
    gram, total = table.sum(moments)
    np.testing.assert_allclose(gram, x.T @ x, rtol=1e-12)
    np.testing.assert_allclose(total, [y.sum()], rtol=1e-12)
    both = base.Together.split(table.sum(base.Together((moments, moments))))
    assert len(both) == 2
    np.testing.assert_array_equal(both[1][0], gram)


def test_the_order_of_summation_is_a_tree_over_the_pieces():
    parts = [np.array([float(2**i)]) for i in range(11)]
    names = base.PairwiseSum()
    for part in parts:
        names.add((part,))
    assert names.result()[0] == 2**11 - 1
    big = base.pairwise([(np.array([value]),) for value in (1.0, 1e16, -1e16, 1.0)])
    assert big[0][0] == (1.0 + 1e16) + (-1e16 + 1.0)


def test_a_look_is_a_random_part_of_the_records_and_stays_the_same(monkeypatch):
    monkeypatch.setattr(base, "LOOK", 30)
    x, _, table = stream()
    look = table.look(np.random.default_rng(1))
    rows = base.chosen_rows(100, base.seed_of_look(100, np.random.default_rng(1)))
    np.testing.assert_array_equal(look.features, x[rows])
    assert table.look(np.random.default_rng(2)) is look


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_every_set_of_places_is_as_likely_to_be_the_look(size, monkeypatch):
    """Chi-square over all sets of places, 10,000 looks: a false alarm in one of 10,000 seeds."""
    monkeypatch.setattr(base, "LOOK", size)
    rng, counts = np.random.default_rng(7), {}
    for _ in range(10_000):
        rows = base.chosen_rows(10, base.seed_of_look(10, rng))
        assert len(rows) == size
        assert (np.diff(rows) > 0).all()
        counts[tuple(rows)] = counts.get(tuple(rows), 0) + 1
    sets = math.comb(10, size)
    seen = np.append(list(counts.values()), np.zeros(sets - len(counts)))
    assert stats.chisquare(seen).pvalue > 1e-4 / 4


def test_an_empty_table_sums_to_nothing():
    _, _, table = stream(n=0)
    gram, total = table.sum(moments)
    assert not gram.any()
    assert total.tolist() == [0.0]


def test_tables_show_nothing():
    _, _, table = stream()
    assert isinstance(table, Withheld)
    assert repr(table) == "Stream(...)"


def test_an_error_of_the_reader_reaches_the_one_who_waits_and_a_stop_ends_it():
    def failing():
        yield 1
        raise TableError("no more")

    ahead = _ahead(failing())
    assert next(ahead) == 1
    with pytest.raises(TableError, match="no more"):
        next(ahead)
    endless = _ahead(iter(int, 1))
    assert next(endless) == 0
    endless.close()
