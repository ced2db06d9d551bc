# SPDX-License-Identifier: Apache-2.0
"""``onedraw fit``: a table in, a release out, and nothing else that depends on the data.

The command reads the header of the table and the column file, builds the estimator of the model, and hands it
a way to read the rows: the order of what follows is that of ``onedraw.publishing.publish``.

Guarantee:
    The file and what is printed are functions of the release and of public inputs. Rows are read only once a
    ledger was found to pay; everything that can be refused is refused before it is charged: options,
    specification, output file, values of the table.

Edge cases:
    If sampling fails, or the disk fills up after the charge, the budget is spent and nothing is released.
    Whether and how a fit fails depends on the data: keep messages and exit codes as private as the table.
    A table without rows is refused only where the number of rows is public.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import click

from onedraw.cli.app import common
from onedraw.cli.columns import Specification
from onedraw.cli.encode import Encoding, encode, read_classes, read_response
from onedraw.cli.files import output_file
from onedraw.cli.options import EstimatorCommand, Kind
from onedraw.cli.output import say, say_json, waiting
from onedraw.cli.request import build_estimator, check_kind
from onedraw.cli.show import SEEDED, as_dict, confidence_intervals, describe, say_parameters
from onedraw.cli.table import count_rows, read_header, read_table
from onedraw.errors import InvalidInput, LedgerError
from onedraw.estimators import Header
from onedraw.model import RegressionModel
from onedraw.privacy.guarantee import records_are_public

NO_BOUNDS = (
    "No column has declared bounds, so all are taken to be of order one; coefficients of columns with larger "
    "values (an age in years) are mostly noise. Declare bounds = [...] under [columns.NAME] of the column "
    "file (--columns)."
)
NO_LEDGER = (
    "No ledger: nothing keeps count of what is released about these people. "
    "Add up the epsilons yourself, or use --ledger and --dataset."
)


@click.command("fit", cls=EstimatorCommand, short_help="Fit a model to a table and write a private release.")
@click.argument("data", type=click.Path())
@click.option("--target", required=True, help="The column to be explained.")
@click.option("--model", type=Kind(), required=True, help="The kind of model.")
@click.option("--out", type=click.Path(), required=True, help="The release file to write.")
@click.option(
    "--mechanism-option",
    "mechanism_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of the mechanism that --mechanism names, such as feature_norm=2; repeatable.",
)
@click.option("--columns", type=click.Path(), help="Public facts about the columns, a TOML or YAML file.")
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@common
def fit_command(
    data: str,
    target: str,
    model: str,
    out: str,
    mechanism_options: tuple[str, ...],
    columns: str | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Fit a model to DATA (.csv, .tsv or .parquet) and write a private release."""
    ledger = given["ledger"]
    inputs = (data, columns, None if ledger is None else ledger.path)
    with output_file(out, force=force, inputs=inputs) as write:
        spec = Specification.read(columns)
        names = read_header(data)
        if target not in names:
            raise InvalidInput(
                f"The table has no column {target!r}. Check the spelling; the first line must hold the names."
            )
        encoding = Encoding.from_specification(spec, names, target)
        estimator = build_estimator(
            model,
            given,
            mechanism_options=mechanism_options,
            target=spec.target,
            feature_bounds=encoding.feature_bounds,
        )
        plan = estimator.plan(_header(data, encoding, estimator))
        check_kind(model, plan.model, spec.target)

        def read() -> tuple[Any, Any]:
            table = read_table(data)
            features, labels = encode(encoding, table), table.column(target)
            classes = getattr(estimator, "classes", None)
            if classes is None:
                return features, read_response(labels, target)
            return features, read_classes(labels, tuple(classes), target)

        with waiting("Fitting a private model ..."):
            estimator.fit_planned(plan, read)
        write(estimator.release_.to_json())
    _report(estimator, out, as_json=as_json)


def _header(data: str, encoding: Encoding, estimator: Any) -> Header:
    """What is public about the table: rows are counted only where their number is public."""
    public = records_are_public(estimator.neighbours, estimator.rows_per_person)
    return Header(features=encoding.features, num_records=count_rows(data) if public else None)


def _report(estimator: Any, out: str, *, as_json: bool) -> None:
    """What the release says, and how the ledger stands."""
    release, account = estimator.release_, None
    if estimator.ledger is not None:
        with contextlib.suppress(LedgerError):  # the charge is made; not showing it is no failure
            account = estimator.ledger.show(estimator.dataset)
    if as_json:
        charged = None if account is None else dataclasses.asdict(account)
        found = as_dict(confidence_intervals(release))
        say_json({"out": out, "ledger": charged, "release": release.to_dict(), "intervals": found})
        return
    say(str(release.guarantee), style="bold")
    if release.seeded:
        say(SEEDED, style="bold red")
    say()
    say(f"Model: {describe(release)}")
    if estimator.plan_.reason:
        say(estimator.plan_.reason)
    say_parameters(release)
    model = release.model
    if isinstance(model, RegressionModel) and model.features and model.feature_bounds is None:
        say(NO_BOUNDS)
    say()
    say(f"Written to {out}; evidence and assumptions: onedraw show {out}")
    if estimator.ledger is None:
        say(NO_LEDGER)
    elif account is not None:
        say(
            f"Charged to data set {account.dataset!r}: {account.spent:.6g} of epsilon {account.epsilon:g} "
            f"spent, {account.remaining:.6g} remains {account.remaining_for}."
        )
