# SPDX-License-Identifier: Apache-2.0
"""``onedraw fit``: a table in, a release out, and nothing else that depends on the data.

The command reads the header of the table and the column file, builds the estimator of the model, and hands it
a way to read the rows: the order of what follows is that of ``onedraw.publishing.publish``.

Guarantee:
    The file and what is printed are functions of the release and of public inputs. Rows are read only once a
    ledger was charged; what public facts refuse is refused before: options, specification, output file.
    ``onedraw.publishing`` says what a refusal by values tells, and when there can be none.

Edge cases:
    If sampling fails, or the disk fills up after the charge, the budget is spent and nothing is released.
    Whether and how a fit fails depends on the data: keep messages and exit codes as private as the table.
    A table without rows is refused only where the number of rows is public.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from onedraw._extras import optional
from onedraw.cli.app import common
from onedraw.cli.dry_run import cautions_in_shell, say_dry_run
from onedraw.cli.files import output_file
from onedraw.cli.options import EstimatorCommand, Kind, Size
from onedraw.cli.output import say, say_json, waiting
from onedraw.cli.request import build_estimator, check_kind, for_exposure, for_target
from onedraw.cli.show import as_dict, confidence_intervals, describe, say_noise, say_parameters
from onedraw.cli.table import count_rows, open_table, read_header, read_table
from onedraw.columns import DROP, Columns, Encoding
from onedraw.columns.names import no_such_column
from onedraw.errors import InvalidInput, LedgerError
from onedraw.estimators import Header
from onedraw.privacy.guarantee import records_are_public
from onedraw.release.release import SEEDED

NO_LEDGER = (
    "No ledger: nothing keeps count of what is released about these people. "
    "Add up the epsilons yourself, or use --ledger and --dataset."
)


@click.command("fit", cls=EstimatorCommand, short_help="Fit a model to a table and write a private release.")
@click.argument("data", type=click.Path())
@click.option("--target", required=True, help="The column to be explained.")
@click.option("--model", type=Kind(), required=True, help="The kind of model.")
@click.option(
    "--exposure",
    metavar="COLUMN",
    help="The column of exposures that counts are in proportion to, with bounds.",
)
@click.option("--out", type=click.Path(), help="The release file to write; needed but for --dry-run.")
@click.option("--dry-run", is_flag=True, help="Say what would be charged and given; charge and read nothing.")
@click.option(
    "--mechanism-option",
    "mechanism_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of the mechanism that --mechanism names, such as feature_norm=2; repeatable.",
)
@click.option("--columns", type=click.Path(), help="Public facts about the columns, a TOML or YAML file.")
@click.option(
    "--memory",
    type=Size(),
    default="1GB",
    show_default=True,
    help="Room for records; a larger table is read piece by piece, several times.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Of a Dask cluster, tcp://...: its workers read the Parquet files, and only sums leave them.",
)
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@click.option("--yes", is_flag=True, help="Ask nothing at a terminal, whatever there is to be careful about.")
@common
def fit_command(
    data: str,
    target: str,
    model: str,
    exposure: str | None,
    out: str | None,
    dry_run: bool,
    mechanism_options: tuple[str, ...],
    columns: str | None,
    memory: int,
    scheduler: str | None,
    force: bool,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Fit a model to DATA (.csv, .tsv, .xlsx, .parquet, a folder of .parquet) and write a private release."""
    declared = for_exposure(for_target(Columns.read(columns), target), exposure)
    names = read_header(data, declared)
    if target not in names:
        raise no_such_column(target, names)
    estimator = build_estimator(model, given, mechanism_options=mechanism_options, columns=declared)
    header = _header(data, names, estimator)
    plan = estimator.plan(header)
    check_kind(model, plan.model, declared.target)
    if dry_run:
        say_dry_run(estimator, header, plan, as_json=as_json)
        return
    if out is None:
        raise click.UsageError("Missing option '--out', the release file to write. Or ask for a --dry-run.")
    inputs = (data, columns, None if estimator.ledger is None else estimator.ledger.path)
    with output_file(out, force=force, inputs=inputs) as write:
        if not as_json:
            _warn(cautions_in_shell(estimator, plan, names), asks=estimator.ledger is not None and not yes)
        with waiting("Fitting a private model ..."), cluster_of(scheduler):
            table = open_table(data, declared) if scheduler is None else partitions(data)
            if table is None or Encoding.of(declared, names).drops or DROP in declared.target.rules:
                estimator.fit_planned(plan, lambda: (read_table(data, declared).columns, None), header=header)
            else:
                estimator.fit_table(table, memory=memory, num_records=header.num_records)
        write(estimator.release_.to_json())
    _report(estimator, out, names, as_json=as_json)


@contextlib.contextmanager
def cluster_of(address: str | None) -> Iterator[None]:
    """A connection to the scheduler, if there is to be one."""
    if address is None:
        yield
        return
    distributed = optional("distributed", "--scheduler", "dask")
    try:
        client = distributed.Client(address, timeout=10)
    except OSError:
        raise InvalidInput(f"No scheduler answers at {address!r}. Check the address.") from None
    with client:
        yield


def partitions(data: str) -> Any:
    """Parquet files as a Dask data frame, which the workers read: they must see the same path."""
    if not (Path(data).is_dir() or data.lower().endswith((".parquet", ".pq"))):
        raise InvalidInput(f"A cluster reads Parquet files, got {data!r}. Save the table as Parquet.")
    return optional("dask.dataframe", "--scheduler", "dask").read_parquet(data)


def _header(data: str, names: tuple[str, ...], estimator: Any) -> Header:
    """What is public about the table: rows are counted only where their number is public."""
    public = records_are_public(estimator.neighbours, estimator.rows_per_person)
    return Header(features=names, num_records=count_rows(data, estimator.columns) if public else None)


def _warn(cautions: list[str], *, asks: bool) -> None:
    """Say what to be careful about; whoever sits at a terminal is asked before a ledger is charged."""
    for caution in cautions:
        say(f"CAUTION: {caution}", style="yellow", err=True)
    if cautions and asks and sys.stdin.isatty() and sys.stderr.isatty():
        click.confirm("Charge the ledger all the same?", abort=True, err=True)


def _report(estimator: Any, out: str, names: tuple[str, ...], *, as_json: bool) -> None:
    """What the release says, and how the ledger stands."""
    release, account = estimator.release_, None
    if estimator.ledger is not None:
        with contextlib.suppress(LedgerError):  # the charge is made; not showing it is no failure
            account = estimator.ledger.show(estimator.dataset)
    if as_json:
        charged = None if account is None else dataclasses.asdict(account)
        found = as_dict(confidence_intervals(release))
        cautions = cautions_in_shell(estimator, estimator.plan_, names)
        content = {"out": out, "ledger": charged, "release": release.to_dict(), "intervals": found}
        say_json({**content, "cautions": cautions})
        return
    say_noise(release)
    say(release.statement, style="bold")
    if release.seeded:
        say(SEEDED, style="bold red")
    say()
    say(f"Model: {describe(release)}")
    if estimator.plan_.reason:
        say(estimator.plan_.reason)
    say_parameters(release, confidence_intervals(release))
    say()
    say(f"Written to {out}; evidence and assumptions: onedraw show {out}")
    if estimator.ledger is None:
        say(NO_LEDGER)
    elif account is not None:
        say(
            f"Charged to data set {account.dataset!r}: {account.spent:.6g} of epsilon {account.epsilon:g} "
            f"spent, {account.remaining:.6g} remains {account.remaining_for}."
        )
