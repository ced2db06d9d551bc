# SPDX-License-Identifier: Apache-2.0
"""``onedraw show``: what a release file says, and what may be inferred from it."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from onedraw.answers.answer import answer_of
from onedraw.cautions import of_release
from onedraw.cli.app import common
from onedraw.cli.files import output_file
from onedraw.cli.output import aligned, say, say_json
from onedraw.errors import InvalidInput
from onedraw.model import NetworkModel, SitesModel
from onedraw.release import Release
from onedraw.release.release import SEEDED
from onedraw.release.text import visible
from onedraw.reports.release import release_page
from onedraw.uncertainty import Intervals, named_estimates, summarise
from onedraw.uncertainty.from_curvature import ratio_of
from onedraw.uncertainty.rendering import lines

OTHER_FORMS = {
    NetworkModel.form: "neural network, weights (w) and biases (b) by layer",
    SitesModel.form: "latent sites of a NumPyro model",
}
"""What the parameters of a model that is no regression are, by its form."""


@click.command("show", short_help="What a release file says.")
@click.argument("release", type=click.Path())
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--exponentiate", is_flag=True, help="Odds ratios or rate ratios in place of coefficients.")
@click.option("--html", type=click.Path(), help="Write one self-contained page for a browser.")
@click.option("--force", is_flag=True, help="Replace an existing page.")
@common
def show_command(
    release: str, level: float, exponentiate: bool, html: str | None, force: bool, as_json: bool
) -> None:
    """Show a RELEASE file: guarantee, evidence, assumptions, parameters and their intervals."""
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"Expected --level between 0 and 1, got {level:g}. For example 0.9.")
    found = read_release(release)
    if exponentiate:
        ratio_of(found)  # a wish that no release of this kind can meet is an error, not a missing interval
    intervals = confidence_intervals(found, level, exponentiate=exponentiate)
    if html is not None:
        with output_file(html, force=force, inputs=(release,)) as write:
            write(release_page(found, intervals, model=describe(found)))
    if as_json:
        say_json({**found.to_dict(), "intervals": as_dict(intervals)})
        return
    say_noise(found)
    say(found.statement, style="bold")
    say()
    say(f"Model: {describe(found)}")
    if found.receipt is not None:
        receipt = found.receipt
        say(
            f"Charged: epsilon {visible(receipt.get('epsilon'))} to data set {receipt.get('dataset')!r} "
            f"of ledger {visible(receipt.get('ledger'))}, receipt {visible(receipt.get('hash'))}"
        )
    say(f"Evidence - {visible(found.evidence)}")
    say("Assumptions:")
    for assumption in found.assumptions:
        say(f"  - {visible(assumption)}")
    if found.seeded:
        say(SEEDED, style="bold red")
    say()
    say_parameters(found, intervals)
    if html is not None:
        say()
        say(f"Page: {html}")


def say_noise(release: Release) -> None:
    """The first line about a release of next to no data."""
    caution = of_release(release)
    if caution:
        say(f"MOSTLY NOISE: {caution}", style="bold red")


def read_release(path: str) -> Release:
    """The release in a file; text is not taken for a release here."""
    if path.lstrip().startswith("{"):
        path = f"./{path}"
    return Release.from_json(path)


def describe(release: Release) -> str:
    """What the parameters are of, in words."""
    model, answer = release.model, answer_of(release)
    if model.form in OTHER_FORMS:
        return OTHER_FORMS[model.form]
    return str(model.describe()) if answer is None else answer.title


def say_parameters(release: Release, intervals: Intervals | str | None) -> None:
    """Print the parameters in original units, aligned; with their intervals, or why there are none."""
    if intervals is None or isinstance(intervals, str):
        rows = [(name, f"{value:.6g}") for name, value in named_estimates(release).items()]
        say(aligned(rows, header=("parameter", "value")))
        if intervals is not None:
            say(f"No intervals: {intervals}")
        return
    say(lines(*intervals.rows()))  # the lines of ``summary()``
    for note in intervals.notes:
        say(note)
    for caveat in intervals.caveats:
        say(f"Caveat: {caveat}")


def confidence_intervals(
    release: Release, level: float = 0.95, *, exponentiate: bool = False
) -> Intervals | str | None:
    """Intervals, or why there are none; None for a form of model that never has any.

    A function of the release alone.
    """
    if release.model.form in OTHER_FORMS:
        return None
    answer = None if exponentiate else answer_of(release)
    try:
        if answer is not None:
            return answer.summary(level)
        return summarise(release, level, exponentiate=exponentiate)
    except InvalidInput as error:
        return error.for_shell()


def as_dict(intervals: Intervals | str | None) -> dict[str, Any] | None:
    """For JSON; None where there are none."""
    return {**dataclasses.asdict(intervals), "z": intervals.z} if isinstance(intervals, Intervals) else None
