# SPDX-License-Identifier: Apache-2.0
"""``onedraw fit``: a table in, a release out, and nothing else that depends on the data.

Guarantee:
    The file and what is printed are functions of the release and of public inputs. Everything that can be
    refused is refused before the ledger is charged: options, specification, output file, values of the table.
    A fit beyond the budget is refused before the table is read.

Edge cases:
    If sampling fails, or the disk fills up after the charge, the budget is spent and nothing is released.
    Whether and how a fit fails depends on the data: keep messages and exit codes as private as the table.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from onedraw.cli.app import common, privacy
from onedraw.cli.columns import Specification, Target
from onedraw.cli.encode import Plan, encode, read_classes, read_response
from onedraw.cli.files import output_file
from onedraw.cli.output import say, say_json, waiting
from onedraw.cli.request import DEFAULT_CLASSES, MODELS, NETWORKS, REGRESSIONS, Options, build_estimator
from onedraw.cli.show import SEEDED, as_dict, confidence_intervals, describe, say_parameters
from onedraw.cli.table import Table, read_table
from onedraw.errors import InvalidInput, LedgerError, SamplingError
from onedraw.estimators.offered import DEFAULT, offered
from onedraw.ledger import Ledger
from onedraw.model import RegressionModel
from onedraw.model.network import ACTIVATIONS
from onedraw.nn.offered import BY_GRADIENTS
from onedraw.release import Release
from onedraw.samplers import BoxSampler

NO_LEDGER = (
    "No ledger: nothing keeps count of what is released about these people. "
    "Add up the epsilons yourself, or use --ledger and --dataset."
)


def _draws(context: click.Context, parameter: click.Parameter, value: str) -> int | str:
    """A number of draws, or auto."""
    try:
        return "auto" if value == "auto" else int(value)
    except ValueError:
        message = f"{value!r} is neither a whole number nor auto."
        raise click.BadParameter(message, context, parameter) from None


@click.command("fit", short_help="Fit a model to a table and write a private release.")
@click.argument("data", type=click.Path())
@click.option("--target", required=True, help="The column to be explained.")
@click.option("--model", type=click.Choice(MODELS), required=True)
@privacy
@click.option(
    "--draws",
    metavar="NUMBER|auto",
    callback=_draws,
    default="1",
    show_default=True,
    help="Draws released together; auto: as many as give trustworthy intervals.",
)
@click.option(
    "--evidence",
    type=click.Choice(["searched", "proved"]),
    default="searched",
    show_default=True,
    help="Why the draw may be taken as exact; proved is for a few parameters.",
)
@click.option(
    "--mechanism",
    type=click.Choice((*offered(REGRESSIONS), *BY_GRADIENTS)),
    default=DEFAULT,
    show_default=True,
    help="How the model is made private; others than the default need public bounds.",
)
@click.option(
    "--mechanism-option",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting of another mechanism than the default, such as epochs=20; repeatable.",
)
@click.option(
    "--hidden-layer-sizes", metavar="SIZES", help="Of a network, such as 10 or 10,5, or none; 10 by default."
)
@click.option("--activation", type=click.Choice(ACTIVATIONS), help="Of a network; relu by default.")
@click.option(
    "--feature-norm", type=float, help="Bound on the length of a feature vector; longer ones shrink."
)
@click.option(
    "--response-bound", type=float, help="Bound on a linear target; values beyond it are moved to it."
)
@click.option("--regularisation", type=float, help="Of output and objective perturbation.")
@click.option("--prior-box", type=float, help="Bound on each coefficient in prior scales, for gibbs.")
@click.option("--columns", type=click.Path(), help="Public facts about the columns, a TOML or YAML file.")
@click.option("--ledger", type=click.Path(), help="The budget ledger to charge; with --dataset.")
@click.option("--dataset", help="The data set's name in the ledger.")
@click.option("--out", type=click.Path(), required=True, help="The release file to write.")
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    help="For tests only: whoever knows the seed can undo the privacy.",
)
@common
def fit_command(as_json: bool, **given: Any) -> None:
    """Fit a model to DATA (.csv, .tsv or .parquet) and write a private release."""
    options = Options(**given)
    ledger = _open_ledger(options)
    spec = Specification.read(options.columns)
    estimator = build_estimator(options, spec.target, ledger)
    estimator.check_budget()  # before the table is read: who has no budget learns nothing about it
    inputs = (options.data, options.columns, options.ledger)
    with output_file(options.out, force=options.force, inputs=inputs) as write:
        release = _fit(options, spec, estimator)
        write(release.to_json())
    account = None
    if ledger is not None and options.dataset is not None:
        with contextlib.suppress(LedgerError):  # the charge is made; not showing it is no failure
            account = ledger.show(options.dataset)
    if as_json:
        charged = None if account is None else dataclasses.asdict(account)
        found = as_dict(confidence_intervals(release))
        say_json({"out": options.out, "ledger": charged, "release": release.to_dict(), "intervals": found})
        return
    say(str(release.guarantee), style="bold")
    if release.seeded:
        say(SEEDED, style="bold red")
    say()
    say(f"Model: {describe(release)}")
    choice = getattr(estimator, "draws_choice_", None)
    if choice is not None:
        say(str(choice))
    say_parameters(release)
    say()
    say(f"Written to {options.out}; evidence and assumptions: onedraw show {options.out}")
    if ledger is None:
        say(NO_LEDGER)
    elif account is not None:
        say(
            f"Charged to data set {account.dataset!r}: {account.spent:.6g} of epsilon {account.epsilon:g} "
            f"spent, {account.remaining:.6g} remains for one more draw."
        )


def _open_ledger(options: Options) -> Ledger | None:
    if (options.ledger is None) != (options.dataset is None):
        raise InvalidInput("Expected --ledger and --dataset together: the file, and whose budget in it.")
    if options.ledger is None or options.dataset is None:
        return None
    return Ledger(options.ledger)


def _fit(options: Options, spec: Specification, estimator: Any) -> Release:
    table = read_table(options.data)
    labels = table.column(options.target)
    plan = Plan.from_specification(spec, tuple(table.columns), options.target)
    features = encode(plan, table)
    response = _response(options, spec.target, labels)
    _check_size(options, table)
    _check_model(options, plan, spec.target)
    estimator.set_params(feature_bounds=plan.feature_bounds)
    with waiting("Drawing from the private posterior ..."), _charge_stands(options):
        estimator.fit(features, response)
    release: Release = estimator.release_
    # The estimator saw an array without names; what they are is public.
    return dataclasses.replace(release, model=dataclasses.replace(release.model, features=plan.features))


def _response(options: Options, target: Target, values: list[Any]) -> Any:
    if options.model in ("logistic", "multinomial", "mlp-classifier"):
        return read_classes(values, target.classes or DEFAULT_CLASSES, options.target)
    response = read_response(values, options.target)
    if options.model == "poisson" and ((response < 0).any() or (response != np.rint(response)).any()):
        raise InvalidInput(
            f"The target column {options.target!r} holds something that is not a count (0, 1, 2, ...). "
            "Use --model linear for a continuous response."
        )
    return response


def _check_size(options: Options, table: Table) -> None:
    if table.num_rows == 0 and options.neighbours == "replace_one":
        raise InvalidInput(f"The table {options.data!r} has no rows. There is nothing to fit.")


def _check_model(options: Options, plan: Plan, target: Target) -> None:
    """Names and size of the model are public: what is wrong with them shows before the charge."""
    if options.model in NETWORKS:
        return
    model = RegressionModel(
        kind=options.model,
        features=plan.features,
        classes=target.classes,
        scale_floor=1.0 if options.model == "linear" else None,
    )
    if options.evidence == "proved":
        if options.model == "multinomial":
            raise InvalidInput("--evidence proved is not available for multinomial. Use --evidence searched.")
        most = BoxSampler().max_dim
        if model.dim > most:
            raise InvalidInput(
                f"--evidence proved is for at most {most} parameters, got {model.dim} (intercept and scale "
                "included). Use --evidence searched, or fewer columns."
            )


@contextlib.contextmanager
def _charge_stands(options: Options) -> Iterator[None]:
    """Say what a failure after the charge means."""
    try:
        yield
    except SamplingError as error:
        if options.ledger is None:
            raise
        raise type(error)(
            f"{error}\nThe charge stands: failure depends on the data, so giving it back would be a leak."
        ) from error
