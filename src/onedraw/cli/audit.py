# SPDX-License-Identifier: Apache-2.0
"""``onedraw audit``: attack a mechanism of the library, and say what epsilon the attack shows at least."""

from __future__ import annotations

import contextlib
import difflib
from typing import Any

import click
from click.shell_completion import CompletionItem

from onedraw.cli.app import common
from onedraw.cli.files import output_file
from onedraw.cli.output import say, say_json, waiting
from onedraw.errors import InvalidInput
from onedraw.reports.canvas import as_bytes, new_figure, picture_format

CONTRADICTED = 6
"""The exit code of an audit that refutes the claim."""


class Subjects(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A name of ``onedraw.audit.subjects``, which is imported when there is something to look up."""

    name = "mechanism"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as the list has it; dashes and underscores are alike."""
        for name in subjects():
            if str(value).replace("-", "_") == name:
                return name
        near = difflib.get_close_matches(str(value).replace("-", "_"), subjects(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return self.fail(f"{value!r} is not one of {', '.join(subjects())}.{hint}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so."""
        return [CompletionItem(name) for name in subjects() if name.startswith(incomplete)]


def subjects() -> list[str]:
    """The names of everything that can be audited."""
    from onedraw.audit.subjects import SUBJECTS

    return list(SUBJECTS)


@click.command("audit", short_help="Attack a mechanism: what epsilon does it show?")
@click.argument("mechanisms", nargs=-1, type=Subjects(), metavar="MECHANISM...")
@click.option("--epsilon", "epsilons", type=float, multiple=True, required=True, help="Claimed; repeatable.")
@click.option(
    "--delta", type=float, help="Claimed; by default 0, or where one is needed 1e-5, 0.01 for networks."
)
@click.option(
    "--neighbours",
    type=click.Choice(["replace_one", "add_remove"]),
    default="replace_one",
    show_default=True,
    help="Which data sets the claim is about.",
)
@click.option("--rounds", type=int, default=10_000, show_default=True, help="Half of them on each data set.")
@click.option(
    "--pair",
    type=click.Choice(["telling", "paper"]),
    default="telling",
    show_default=True,
    help="The data sets to tell apart: the most telling of a few, or the published pair.",
)
@click.option(
    "--tries",
    type=int,
    default=200,
    show_default=True,
    help="Pairs tried by the exact search, where there is one; 0 for none.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the lower bound.")
@click.option("--repeats", type=int, default=20, show_default=True, help="Simulated data sets for accuracy.")
@click.option("--out", type=click.Path(), help="A picture (.png, .svg or .pdf).")
@click.option("--force", is_flag=True, help="Replace an existing picture.")
@click.option("--jobs", type=int, help="Processes that run a mechanism seen from outside.")
@click.option("--seed", type=int, help="Repeats the audit; harmless, because no private data are used.")
@common
def audit_command(
    mechanisms: tuple[str, ...],
    epsilons: tuple[float, ...],
    out: str | None,
    force: bool,
    repeats: int,
    jobs: int | None,
    seed: int | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Attack MECHANISM on made-up data at a claimed epsilon, and print what the attack shows.

    An audit can refute a claim, not prove it. No private data are read.
    """
    if not mechanisms:
        raise click.UsageError(f"Missing argument 'MECHANISM...': one or more of {', '.join(subjects())}.")
    if repeats < 1 or options["tries"] < 0:
        raise InvalidInput(f"Expected --repeats >= 1 and --tries >= 0, got {repeats} and {options['tries']}.")
    from onedraw.audit.report import table
    from onedraw.audit.subjects import SUBJECTS, audit_subject, root_mean_squared_error
    from onedraw.reports.audit import draw_audit

    claims = {key: options[key] for key in ("delta", "neighbours")}
    for name in mechanisms:  # refuse all that can be refused before the first attack
        for epsilon in epsilons:
            SUBJECTS[name].calibrated(epsilon=epsilon, **claims)
    findings, accuracy = [], []
    with contextlib.nullcontext() if out is None else output_file(out, force=force) as write:
        form = None if out is None else picture_format(out)
        if form is not None:
            new_figure(1.0, 1.0)  # refuse what cannot be drawn before minutes are spent
        for name in dict.fromkeys(mechanisms):
            for epsilon in dict.fromkeys(epsilons):
                with waiting(f"Attacking {name} at epsilon {epsilon:g} ..."):
                    findings.append(
                        audit_subject(
                            SUBJECTS[name], epsilon=epsilon, random_state=seed, n_jobs=jobs, **options
                        )
                    )
                    accuracy.append(
                        root_mean_squared_error(SUBJECTS[name], epsilon=epsilon, repeats=repeats, **claims)
                    )
        if write is not None and form is not None:
            write(as_bytes(draw_audit(findings, accuracy=accuracy), form))
    contradicted = [finding for finding in findings if finding.contradicted]
    if as_json:
        found = [
            {**f.to_dict(), "root_mean_squared_error": a} for f, a in zip(findings, accuracy, strict=True)
        ]
        say_json({"findings": found, "picture": out})
        return CONTRADICTED if contradicted else 0
    say(table(findings))
    say()
    say(
        f"The lower bounds hold with {options['confidence']:.0%} confidence each; 'at most' is what so many "
        "rounds could show of any mechanism. 'exact' is the worst pair found, by quadrature."
    )
    if contradicted:
        names = ", ".join(sorted({finding.name for finding in contradicted}))
        say(f"CONTRADICTED: {names} leaks more than claimed.", style="bold red")
    else:
        say("No claim is contradicted. That is no proof: another attack may show more.")
    if out is not None:
        say(f"Wrote {out}")
    return CONTRADICTED if contradicted else 0
