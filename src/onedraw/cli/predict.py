# SPDX-License-Identifier: Apache-2.0
"""``onedraw predict``: predictions for new rows, from a release and nothing else."""

from __future__ import annotations

import csv
import io
import warnings
from typing import Any

import click

from onedraw.cli.app import common
from onedraw.cli.columns import Specification
from onedraw.cli.encode import Encoding, encode
from onedraw.cli.files import output_file
from onedraw.cli.output import say, say_json
from onedraw.cli.show import read_release
from onedraw.cli.table import read_table
from onedraw.errors import InvalidInput
from onedraw.estimators import from_release
from onedraw.release.text import cell
from onedraw.types import Array


@click.command("predict", short_help="Predict new rows with a release.")
@click.argument("release", type=click.Path())
@click.argument("data", type=click.Path())
@click.option("--columns", type=click.Path(), help="Rules for missing values, as given to fit.")
@click.option("--out", type=click.Path(), help="The CSV file to write; without it, standard output.")
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@common
def predict_command(
    release: str, data: str, columns: str | None, out: str | None, force: bool, as_json: bool
) -> None:
    """Predict the rows of DATA (.csv, .tsv or .parquet) with a RELEASE file; columns are matched by name."""
    found = read_release(release)
    estimator = from_release(found)  # first: not every release predicts
    encoding = Encoding.from_features(found.model.features, Specification.read(columns))
    table = read_table(data)
    predictions = predict(estimator, encode(encoding, table))
    if out is not None:
        with output_file(out, force=force, inputs=(release, data, columns)) as write:
            write(_as_csv(predictions))
    if as_json:
        say_json({"out": out, "predictions": predictions})
    elif out is not None:
        say(f"Written to {out}")
    else:
        click.echo(_as_csv(predictions), nl=False)


def predict(estimator: Any, features: Array) -> dict[str, list[Any]]:
    """Columns of predictions by name: the class and the probability of each, or the mean."""
    if not len(features):
        raise InvalidInput("The table has no rows below its names. There is nothing to predict.")
    with warnings.catch_warnings():
        # The columns were matched by name already.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        columns: dict[str, list[Any]] = {"prediction": estimator.predict(features).tolist()}
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
