# SPDX-License-Identifier: Apache-2.0
"""``onedraw plan``: what accuracy to expect at each epsilon, before any budget is spent; reads no data."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import click

from onedraw._progress import progress
from onedraw._validate import whole
from onedraw.advice import LeaveOut
from onedraw.cli.app import common
from onedraw.cli.files import output_file
from onedraw.cli.options import EstimatorCommand, Kind, given_options
from onedraw.cli.output import aligned, say, say_json
from onedraw.cli.settings import read_mechanism_options
from onedraw.columns import Columns
from onedraw.errors import InvalidInput
from onedraw.families import families_of
from onedraw.planning import FORM, REFINEMENTS, Forecast, plan
from onedraw.reports.canvas import as_bytes, picture_format
from onedraw.reports.plan import draw_plan
from onedraw.reports.planner import MOST_COLUMNS, planner_page
from onedraw.simulated import Design


def _epsilons(context: click.Context, parameter: click.Parameter, value: str) -> tuple[float, ...]:
    """Numbers between commas."""
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        message = f"{value!r} is not a list of numbers between commas, such as 0.5,1,2."
        raise click.BadParameter(message, context, parameter) from None


OWN = (
    "rows",
    "features",
    "columns",
    "correlation",
    "rare_share",
    "classes",
    "effect_size",
    "noise",
    "wanted_error",
    "repeats",
    "seed",
)
"""Options of the simulation; all others are the estimator's."""
WITHOUT = ("epsilon", "ledger", "dataset", "random_state")
"""Options of a fit that a plan has no use for, or has in another form."""


@click.command(
    "plan",
    cls=EstimatorCommand,
    form=FORM,
    without=WITHOUT,
    short_help="Expected accuracy at each epsilon, without data.",
)
@click.option("--model", type=Kind(FORM), required=True, help="The kind of model.")
@click.option("--rows", type=int, required=True, help="How many rows the table will have, about.")
@click.option("--features", type=int, help="How many features the model will have; or --columns.")
@click.option("--columns", type=click.Path(), help="The column file, in place of --features.")
@click.option("--correlation", type=float, default=0.0, show_default=True, help="Between all columns.")
@click.option("--rare-share", type=float, help="Share of people in each category but the first.")
@click.option("--epsilons", default="0.2,0.5,1,2,5", show_default=True, callback=_epsilons)
@click.option(
    "--mechanism-option",
    "mechanism_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of the mechanism that --mechanism names; repeatable.",
)
@click.option("--classes", type=int, help="Number of classes; as few as make this kind of model by default.")
@click.option(
    "--effect-size",
    type=float,
    help="Size of every coefficient, numbers on [-1, 1]; default: a linear predictor of spread 1.",
)
@click.option("--noise", type=float, default=0.5, show_default=True, help="Residual scale (linear).")
@click.option("--wanted-error", type=float, help="Find the smallest epsilon with this coefficient error.")
@click.option("--repeats", type=int, default=20, show_default=True, help="Simulated tables.")
@click.option("--seed", type=int, help="Repeat the same simulation.")
@click.option("--picture", type=click.Path(), help="Write a picture (.png, .svg or .pdf).")
@click.option("--html", type=click.Path(), help="Write a page to plan with: two classes, the default fit.")
@click.option("--force", is_flag=True, help="Overwrite the picture and the page.")
@common
def plan_command(
    model: str,
    epsilons: tuple[float, ...],
    mechanism_options: tuple[str, ...],
    picture: str | None,
    html: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate tables of the planned size, and compare private with non-private estimates on them."""
    own = {name: options.pop(name) for name in OWN}
    if own["columns"] is not None:
        own["columns"] = Columns.read(own["columns"])
    if html is not None:
        _write_page(html, model, epsilons, own, force=force)
    options = given_options(model, options)
    options["mechanism"] = read_mechanism_options(options.get("mechanism"), mechanism_options)
    steps = len(set(epsilons)) * own["repeats"]
    if own["wanted_error"] is not None:
        steps += REFINEMENTS * own["repeats"]
    with contextlib.nullcontext() if picture is None else output_file(picture, force=force) as write:
        form = None if picture is None else picture_format(picture)
        found = _with_progress(steps, model, epsilons=epsilons, **own, **options)
        if write is not None and form is not None:
            write(as_bytes(draw_plan(found), form))
    if as_json:
        say_json({**dataclasses.asdict(found), "advice": found.advice})
        return
    declared = own["columns"] is not None
    units = ", numbers on [-1, 1] and categories against the first" if declared else " on [-1, 1]"
    say(
        f"Simulated: {found.model} by {found.mechanism}, {found.num_rows:,} rows, {found.num_features} "
        f"features{units}, {found.repeats} tables. No data were read."
    )
    say()
    header = ("epsilon", "private error", "non-private error", "ratio", "all zero")
    rows = [
        (f"{r.epsilon:g}", f"{r.private:.3g}", f"{r.non_private:.3g}", f"{r.ratio:.1f}", f"{r.zero:.3g}")
        for r in found.rows
    ]
    say(aligned(rows, header=header))
    say()
    say(found.advice, style="bold")
    if picture is not None:
        say(f"Picture: {picture}")
    if html is not None:
        say(f"Page: {html}")


def _write_page(
    path: str, model: str, epsilons: tuple[float, ...], own: dict[str, Any], *, force: bool
) -> None:
    """The page to plan with, which opens at this plan."""
    if not any(family.has_planner_page for family in families_of(model)):
        raise InvalidInput(
            f"The page is for two classes so far, got --model {model}.", advice=LeaveOut("html")
        )
    rows = whole(rows=own["rows"])
    given = own["columns"]
    columns = whole(features=own["features"]) if given is None else Design.of(given).num_features
    if columns > MOST_COLUMNS:
        raise InvalidInput(
            f"The page goes up to {MOST_COLUMNS} columns, got --features {columns}.", advice=LeaveOut("html")
        )
    middle = sorted(epsilons)[len(epsilons) // 2]
    with output_file(path, force=force) as write:
        write(planner_page(rows=rows, columns=columns, epsilon=middle))


def _with_progress(steps: int, model: str, **options: Any) -> Forecast:
    """The forecast, showing how far it is."""
    with progress("Simulating", steps, shown=True) as advance:
        return plan(model, progress=lambda: advance(1), **options)
