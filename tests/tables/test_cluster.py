# SPDX-License-Identifier: Apache-2.0
"""Tables on a real cluster of processes: the same release, nothing said about records, and faults."""

import json
import math
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from onedraw.cli import main as command
from onedraw.errors import InvalidInput, TableError
from onedraw.estimators import LinearRegression
from onedraw.ledger import Ledger
from onedraw.mechanisms import TiltedFit
from onedraw.privacy import Guarantee
from onedraw.tables import cluster
from onedraw.tables.base import pairwise
from onedraw.tables.cluster import Cluster, Shard

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FEATURES = ("age", "dose", "weight")
pytestmark = pytest.mark.filterwarnings("ignore")


def parts(folder):
    return dd.read_parquet(folder)


def test_a_seed_gives_the_same_release_as_in_memory(client, frame, small_look, logistic, in_memory):
    found = logistic().fit(frame, target="died").release_
    np.testing.assert_allclose(found.draws, in_memory().draws, atol=1e-9, rtol=0)


@pytest.mark.parametrize("form", ["arrays", "frame and series"])
def test_features_and_response_may_come_apart(form, client, frame, patients, small_look, logistic, in_memory):
    x, y = frame[list(FEATURES)], frame["died"]
    if form == "arrays":
        columns, arrays = patients(), pytest.importorskip("dask.array")
        x = arrays.from_array(np.column_stack([columns[name] for name in FEATURES]), chunks=(1000, 2))
        y = arrays.from_array(columns["died"], chunks=1000)
    bounds = [(-1.0, 1.0)] * 3
    found = logistic(feature_bounds=bounds).fit(x, y).release_
    np.testing.assert_allclose(found.draws, in_memory().draws, atol=1e-9, rtol=0)


def test_what_does_not_lie_on_the_cluster_as_a_whole_is_refused(frame, patients, logistic):
    with pytest.raises(InvalidInput, match="lies on the cluster"):
        logistic().fit(frame, patients()["died"])
    with pytest.raises(InvalidInput, match="named columns"):
        logistic().fit(frame.to_dask_array(), target="died")
    with pytest.raises(InvalidInput, match="no feature"):
        logistic().fit(frame, frame["died"])


def test_the_command_fits_on_the_workers_of_a_scheduler(processes, folder, tmp_path, small_look, in_memory):
    bounds = "".join(f"[columns.{name}]\nbounds = [-1, 1]\n" for name in FEATURES)
    (tmp_path / "columns.toml").write_text(bounds + "[target]\nclasses = [0, 1]\n")
    asked = ["fit", folder, "--target", "died", "--model", "logistic", "--epsilon", 1, "--seed", 3,
             "--columns", tmp_path / "columns.toml", "--out", tmp_path / "release.json",
             "--scheduler", processes.scheduler_address]  # fmt: skip
    result = CliRunner().invoke(command, list(map(str, asked)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "release.json").read_text())["draws"]
    np.testing.assert_allclose(found, in_memory().draws, atol=1e-9, rtol=0)


def test_exposures_are_read_on_the_workers(client, exposed, small_look):
    table, estimator = exposed
    frame = pd.DataFrame(table)
    found = estimator().fit(dd.from_pandas(frame, npartitions=3)).release_
    np.testing.assert_allclose(found.draws, estimator().fit(frame).release_.draws, atol=1e-9, rtol=0)


def test_stages_that_count_responses_run_on_a_cluster(client, frame, folder, small_look):
    options = {"epsilon": 1.0, "random_state": 3, "mechanism": TiltedFit(inference=True)}
    found = LinearRegression(**options).fit(frame, target="weight").release_
    whole = pq.read_table(folder).to_pandas()
    expected = LinearRegression(**options).fit(whole.drop(columns="weight"), whole["weight"]).release_
    np.testing.assert_allclose(found.draws, expected.draws, atol=1e-9, rtol=0)


def test_a_missing_value_is_refused_without_a_word_about_it(client, folder, patients, small_look, logistic):
    columns = patients(3500, seed=1)
    columns["age"][-1] = math.nan
    pq.write_table(pa.table(columns), folder / "part2.parquet", row_group_size=500)
    with pytest.raises(InvalidInput, match="'age'") as caught:
        logistic().fit(parts(folder), target="died")
    assert caught.value.__cause__ is None
    assert "nan" not in str(caught.value).lower()


def test_no_log_of_the_cluster_holds_a_number_of_the_table(client, folder, patients, small_look, logistic):
    """Neither after a fit nor after a refusal; the number is planted in records, labels and file."""
    columns = patients(3500, seed=1)
    columns["age"][:] = 0.8675309
    columns["dose"][-1] = math.nan
    pq.write_table(pa.table(columns), folder / "part2.parquet", row_group_size=500)
    with pytest.raises(InvalidInput):
        logistic().fit(parts(folder), target="died")
    columns["dose"][-1] = 0.8675309
    pq.write_table(pa.table(columns), folder / "part2.parquet", row_group_size=500)
    logistic().fit(parts(folder), target="died")
    logs = [*client.get_worker_logs().values(), client.get_scheduler_logs()]
    assert "8675309" not in str(logs)
    assert "InvalidInput" not in str(logs)


def test_a_column_whose_type_changes_between_files_is_a_typed_error(
    client, folder, patients, small_look, logistic
):
    """Dask converts what can be converted, each value by itself; what cannot is refused without a quote."""
    changed = pa.table(patients(3500, seed=1)).set_column(0, "age", pa.array(["sixty-one"] * 3500))
    pq.write_table(changed, folder / "part2.parquet", row_group_size=500)
    with pytest.raises((InvalidInput, TableError)) as caught:
        logistic(neighbours="add_remove").fit(parts(folder), target="died")
    assert "sixty" not in str(caught.value)
    logs = [*client.get_worker_logs().values(), client.get_scheduler_logs()]
    assert "sixty" not in str(logs)


def test_a_file_that_ends_early_is_a_typed_error(client, folder, small_look, logistic):
    frame = parts(folder)
    path = folder / "part2.parquet"
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(TableError):
        logistic(neighbours="add_remove").fit(frame, target="died")


def test_a_table_that_changes_between_two_passes_is_found(client, frame, monkeypatch, small_look, logistic):
    plain = Cluster.check

    def check_then_change(self, checks, rng):
        plain(self, checks, rng)
        self.held.sizes[0] = (self.held.sizes[0][0], 1)

    monkeypatch.setattr(Cluster, "check", check_then_change)
    with pytest.raises(TableError, match="changed"):
        logistic().fit(frame, target="died")


def test_keys_are_random_and_folders_closed(client, frame, small_look, logistic):
    seen, plain = [], client.submit

    def submit(*arguments, **options):
        seen.append(options["key"])
        return plain(*arguments, **options)

    client.submit = submit
    logistic().fit(frame, target="died")
    assert len(seen) == len(set(seen)) > 0
    assert all(len(key) == len("onedraw-") + 24 and key.startswith("onedraw-") for key in seen)
    folders = client.run(lambda dask_worker: os.stat(dask_worker.local_directory).st_mode)
    assert {stat.S_IMODE(mode) for mode in folders.values()} == {0o700}


def test_sums_of_many_partitions_are_added_in_the_order_of_pairs(client, table, monkeypatch, kernel):
    expected = table.sum(kernel(0.0))[0]
    table.held.shards[:], table.held.sizes[:] = table.held.shards * 5, table.held.sizes * 5
    monkeypatch.setattr(cluster, "FAN", 4)
    parts = [part[0] for part in (_part(table, i) for i in range(3)) if part is not None] * 5
    np.testing.assert_array_equal(table.sum(kernel(0.0))[0], pairwise([(part,) for part in parts])[0])
    np.testing.assert_allclose(table.sum(kernel(0.0))[0], 5 * expected)


def _part(table, place):
    block = table.held.shards[place].result().content
    return (block.features.sum(axis=0),) if len(block) else None


def test_without_a_cluster_the_error_says_how_to_start_one(frame, small_look, logistic):
    with pytest.raises(InvalidInput, match=r"distributed\.Client"):
        logistic(neighbours="add_remove").fit(frame, target="died")


def test_a_shard_shows_nothing_and_errors_of_workers_quote_nothing():
    assert repr(Shard(np.arange(3))) == "Shard(...)"

    def careless(block):
        raise ValueError(f"61 years: {block}")

    failure = cluster._sum(Shard(careless), Shard(np.zeros(0)), Shard((0, 0)))
    assert failure.message == ""


def test_a_client_that_dies_behind_the_charge_leaves_the_charge_and_no_release(
    processes, folder, tmp_path, small_look
):
    """The process is killed in its first sum; the ledger says what was spent, and can be charged again."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.create("clinic", epsilon=5.0)
    script = tmp_path / "dies.py"
    script.write_text(DIES)
    ran = subprocess.run(
        [sys.executable, str(script), processes.scheduler_address, str(folder), str(tmp_path / "ledger")],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr.decode()[-500:]
    account = ledger.show("clinic")
    assert (account.spent, account.charges, account.unreleased) == (pytest.approx(1.0), 1, 1)
    assert not ledger.verify().problems
    ledger.check_affordable("clinic", Guarantee(epsilon=4.0))


DIES = """
import os, signal, sys
import dask.dataframe, distributed
import onedraw
from onedraw.tables import base
from onedraw.tables.cluster import Cluster

base.LOOK = 2048
Cluster.sum = lambda self, kernel: os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    scheduler, folder, ledger = sys.argv[1:]
    with distributed.Client(scheduler):
        model = onedraw.LogisticRegression(
            epsilon=1.0, classes=[0, 1], ledger=onedraw.Ledger(ledger), dataset="clinic", random_state=3,
            feature_bounds=dict.fromkeys(("age", "dose", "weight"), (-1.0, 1.0)),
        )
        model.fit(dask.dataframe.read_parquet(folder), target="died")
"""


# -- last, as new workers have to import everything


def test_the_number_of_workers_does_not_change_a_bit(client, processes, frame, small_look, logistic):
    two = logistic().fit(frame, target="died").release_
    processes.scale(1)
    try:
        while len(client.scheduler_info(n_workers=-1)["workers"]) > 1:
            time.sleep(0.05)
        one = logistic().fit(frame, target="died").release_
    finally:
        processes.scale(2)
    assert one.draws == two.draws


def test_a_killed_worker_costs_time_and_nothing_else(client, table, patients, kernel):
    """One worker dies in mid-pass; its blocks are read again elsewhere, and the sum is the same."""
    expected = table.sum(kernel(0.0))[0]
    columns = patients()
    np.testing.assert_allclose(expected, [columns[name].sum() for name in ("age", "dose", "weight")])
    found = []
    waiting = threading.Thread(target=lambda: found.append(table.sum(kernel(1.0))[0]), daemon=True)
    waiting.start()
    time.sleep(0.5)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    waiting.join(timeout=60)
    np.testing.assert_array_equal(found, [expected])


def test_a_worker_that_dies_in_mid_fit_leaves_one_release_and_one_charge(
    client, frame, small_look, logistic, in_memory, tmp_path, monkeypatch
):
    """It is killed behind the charge, between two passes; the release is that of the fit in memory."""
    ledger, plain, passed = Ledger(tmp_path / "ledger"), Cluster.sum, []
    ledger.create("clinic", epsilon=5.0)

    def killing(self, asked):
        passed.append(1)
        if len(passed) == 2:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        return plain(self, asked)

    monkeypatch.setattr(Cluster, "sum", killing)
    found = logistic(ledger=ledger, dataset="clinic").fit(frame, target="died").release_
    assert len(passed) == 3
    np.testing.assert_allclose(found.draws, in_memory().draws, atol=1e-9, rtol=0)
    account = ledger.show("clinic")
    assert (account.spent, account.charges, account.unreleased) == (pytest.approx(1.0), 1, 0)


def test_a_file_that_changed_before_a_lost_block_is_read_again_is_found(client, table, folder, kernel):
    """The workers keep their blocks, so a file is read again only when one of them is lost."""
    table.sum(kernel(0.0))
    path = folder / "part0.parquet"
    values = pq.read_table(path).to_pandas()
    values.loc[7, "age"] += 0.25
    values.to_parquet(path, row_group_size=500)
    for pid in client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(TableError, match=r"changed|cluster"):
        table.sum(kernel(0.0))
