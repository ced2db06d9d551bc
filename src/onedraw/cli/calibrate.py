# SPDX-License-Identifier: Apache-2.0
"""``onedraw calibrate``: beta and weight for a wanted epsilon; needs no data."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from onedraw.cli.app import common, privacy
from onedraw.cli.output import say, say_json
from onedraw.privacy.calibration import FAMILIES, calibrate


@click.command("calibrate", short_help="Beta and weight for a wanted epsilon.")
@click.argument("family", type=click.Choice(sorted(FAMILIES)))
@privacy
@click.option("--draws", type=int, default=1, show_default=True, help="Draws released together.")
@click.option("--beta", default="auto", show_default=True, help="auto, paper, or a number above 1.")
@click.option("--weight", type=float, help="Of the loss; by default it follows from beta and epsilon.")
@click.option("--noise-floor", type=float, help="Smallest residual scale (gaussian, laplace, student_t).")
@click.option("--noise-scale", type=float, help="A public guess of the residual scale.")
@click.option("--num-classes", type=int, help="Number of classes (categorical).")
@click.option("--dispersion", type=float, help="Of the negative binomial.")
@click.option("--df", type=float, help="Degrees of freedom (student_t).")
@common
def calibrate_command(family: str, beta: str, as_json: bool, **options: Any) -> None:
    """Show the posterior that a guarantee asks for: FAMILY of the response, epsilon, and what is known."""
    try:
        chosen: float | str = float(beta)
    except ValueError:
        chosen = beta
    found = calibrate(family, beta=chosen, **options)
    if as_json:
        say_json({**dataclasses.asdict(found), "statement": str(found.guarantee)})
        return
    say(str(found.guarantee), style="bold")
    say()
    say(str(found))
