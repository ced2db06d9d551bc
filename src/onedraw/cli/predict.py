# SPDX-License-Identifier: Apache-2.0
"""``onedraw predict``: predictions for new rows, from a release and nothing else."""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import replace
from typing import Any

import click

from onedraw._extras import optional
from onedraw.advice import LeaveOut
from onedraw.cli.app import common
from onedraw.cli.files import output_file, output_path
from onedraw.cli.output import say, say_json
from onedraw.cli.show import read_release
from onedraw.cli.table import open_table, read_table
from onedraw.columns import Column, Columns, Encoding, OffsetSource, Source
from onedraw.columns.names import no_such_column
from onedraw.errors import InvalidInput
from onedraw.estimators import from_release
from onedraw.estimators.tables import encoded_new
from onedraw.release import Release
from onedraw.release.text import cell
from onedraw.tables.arrow import ArrowSource


@click.command("predict", short_help="Predict new rows with a release.")
@click.argument("release", type=click.Path())
@click.argument("data", type=click.Path())
@click.option("--columns", type=click.Path(), help="Rules for missing values, as given to fit.")
@click.option(
    "--exposure",
    metavar="COLUMN",
    help="Of counts: what rates are multiplied by; without it, rates are given.",
)
@click.option(
    "--out", type=click.Path(), help="The CSV or Parquet file to write; without it, standard output."
)
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@common
def predict_command(
    release: str,
    data: str,
    columns: str | None,
    exposure: str | None,
    out: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Predict the rows of DATA (.csv, .tsv, .xlsx, .parquet, a folder of .parquet) with a RELEASE file.

    Columns are matched by name. Parquet files to Parquet are read and written piece by piece.
    """
    found = read_release(release)
    estimator = from_release(found)  # first: not every release predicts
    declared = Columns.read(columns)
    encoding = _with_exposure(
        Encoding.from_features(found.model.features, declared), found, declared, exposure
    )
    piecewise = out is not None and out.lower().endswith(".parquet")
    opened = open_table(data, declared, guess=True) if piecewise else None
    if opened is not None and out is not None:
        _check_names(encoding, tuple(opened.schema.names))
        with output_path(out, force=force, inputs=(release, data, columns)) as partial:
            _write_parquet(estimator, encoding, opened, partial)
        say_json({"out": out}) if as_json else say(f"Written to {out}")
        return
    table = read_table(data, declared)
    for source in encoding.all_sources:
        table.column(source.name)  # or it says which are there
    predictions = predict(estimator, encoding, table.columns)
    if out is not None:
        with output_file(out, force=force, inputs=(release, data, columns)) as write:
            write(_as_csv(predictions))
    if as_json:
        say_json({"out": out, "predictions": predictions})
    elif out is not None:
        say(f"Written to {out}")
    else:
        click.echo(_as_csv(predictions), nl=False)


def _with_exposure(encoding: Encoding, release: Release, columns: Columns, name: str | None) -> Encoding:
    """The same, which reads the exposures of new rows too, if a column of them is named."""
    if name is None:
        return encoding
    offset = getattr(release.model, "offset", None)
    if offset is None:
        raise InvalidInput("The release is of no counts with exposures.", advice=LeaveOut("exposure"))
    source = Source(name=name, column=columns.columns.get(name, Column()))
    return replace(encoding, offset=OffsetSource(source=source, offset=offset))


def _check_names(encoding: Encoding, names: tuple[str, ...]) -> None:
    for source in encoding.all_sources:
        if source.name not in names:
            raise no_such_column(source.name, names)


def _write_parquet(estimator: Any, encoding: Encoding, table: Any, path: str) -> None:
    """Predictions of a dataset, in its order; memory holds one piece of it."""
    arrow, parquet = (optional(name, "Writing Parquet", "arrow") for name in ("pyarrow", "pyarrow.parquet"))
    source = ArrowSource.of(table, tuple(source.name for source in encoding.all_sources))
    writer = None
    try:
        for piece in source.pieces():
            found = arrow.table(predict(estimator, encoding, piece))
            writer = writer or parquet.ParquetWriter(path, found.schema)
            writer.write_table(found)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise InvalidInput("The table has no rows. There is nothing to predict.")


def predict(estimator: Any, encoding: Encoding, table: Any) -> dict[str, list[Any]]:
    """Columns of predictions by name: the class and the probability of each, or the mean."""
    features = encoded_new(encoding, table)
    exposure, _ = encoding.encode_offset(table)
    given = {} if exposure is None else {"exposure": exposure}
    if not len(features):
        raise InvalidInput("The table has no rows below its names. There is nothing to predict.")
    with warnings.catch_warnings():
        # The columns were matched by name already.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        columns: dict[str, list[Any]] = {"prediction": estimator.predict(features, **given).tolist()}
        classes = estimator.release_.model.classes
        if classes is not None:
            for label, shares in zip(classes, estimator.predict_proba(features).T, strict=True):
                columns[f"probability of {label}"] = shares.tolist()
    return columns


def _as_csv(columns: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell, columns))
    writer.writerows(map(cell, row) for row in zip(*columns.values(), strict=True))
    return text.getvalue()
