# SPDX-License-Identifier: Apache-2.0
"""``onedraw reproduce``: the paper's figures, each as numbers, pictures and a verdict on what it shows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from onedraw._progress import progress
from onedraw._validate import one_of
from onedraw.cli.app import common
from onedraw.cli.output import aligned, say, say_json
from onedraw.errors import InvalidInput

BOTH = "both"


@click.command("reproduce", short_help="The paper's figures, and whether its claims hold.")
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Name the experiments and leave.")
@click.option("--size", type=click.Choice(["paper", "smoke"]), default="paper", show_default=True)
@click.option(
    "--version",
    type=click.Choice(["corrected", "as-published", BOTH]),
    default="corrected",
    show_default=True,
    help="Valid guarantees only, or the published calibration with its errors, labelled.",
)
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes that compute.")
@click.option(
    "--minutes",
    type=float,
    help="Stop each run after so many, and report its complete repetitions; the same command goes on.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("reproduction"))
@click.option(
    "--page", type=click.Path(dir_okay=False, path_type=Path), help="Also write a page of all results."
)
@click.option("--redraw", is_flag=True, help="Compute nothing: draw the pictures of the folder again.")
@common
def reproduce_command(
    name: str | None,
    listing: bool,
    size: str,
    version: str,
    jobs: int,
    minutes: float | None,
    out: Path,
    page: Path | None,
    redraw: bool,
    as_json: bool,
) -> None:
    """Run the experiment NAME, or all of them, and write numbers, pictures and verdicts to a folder.

    A run that was stopped goes on where it stopped. No private data are read: the data sets are public.
    """
    from onedraw.research.experiments import EXPERIMENTS, VERSIONS, run
    from onedraw.research.experiments.runner import check_extra
    from onedraw.research.reports import reproduction
    from onedraw.research.reports.page import write_page

    if listing:
        rows = [(e.name, e.figures, e.title) for e in EXPERIMENTS.values()]
        if as_json:
            say_json([dict(zip(("name", "figures", "title"), row, strict=True)) for row in rows])
        else:
            say(aligned(rows, header=("name", "figures", "title"), right=False))
        return
    if name is None:
        raise InvalidInput("Expected the name of an experiment, or 'all'. See: onedraw reproduce --list")
    one_of([*EXPERIMENTS, "all"], name=name, remedy="See: onedraw reproduce --list")
    chosen = list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
    _check_pictures()
    cells = out / reproduction.CELLS
    if not redraw:
        for experiment in chosen:
            check_extra(experiment)
        if jobs > 1:
            _share_compiled(cells)
    reports = []
    for experiment in chosen:
        for kind in VERSIONS if version == BOTH else [version]:
            report = reproduction.redraw(experiment, kind, out) if redraw else None
            if not redraw:
                with _cells(f"{experiment.name}, {kind}") as show:
                    results = run(
                        experiment,
                        version=kind,
                        size=size,
                        folder=cells,
                        jobs=jobs,
                        minutes=minutes,
                        progress=show,
                    )
                report = reproduction.publish(results, out)
            if report is None:
                continue
            reports.append(report)
            if not as_json:
                _say_report(report, out)
    if page is not None:
        write_page(out, page)
        if not as_json:
            say(f"Wrote {page}")
    if as_json:
        say_json([{key: value for key, value in report.items() if key != "table"} for report in reports])


def _say_report(report: dict[str, Any], out: Path) -> None:
    say(f"{report['title']} ({report['version']}): {report['cells']} cells", style="bold")
    for claim in report["claims"]:
        word = f"{claim['verdict']} {claim['count']}".rstrip()
        say(f"  {claim['statement']}\n    {word}: {claim['numbers']}")
    files = [f"{report['experiment']}.{report['version']}.csv", *(p["file"] for p in report["pictures"])]
    say(f"  Wrote {', '.join(files)} to {out}")
    say()


def _share_compiled(folder: Path) -> None:
    """Let workers share what JAX has compiled, and compute in one thread each. Their environment is ours."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str((folder / "compiled").absolute()))
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")


def _check_pictures() -> None:
    """Say that the plots extra is missing before minutes are spent."""
    from onedraw.reports.canvas import new_figure

    new_figure(1.0, 1.0)


@contextlib.contextmanager
def _cells(what: str) -> Iterator[Callable[[int, int], None]]:
    """Shows how many cells are done, of how many: what the runner tells."""
    with contextlib.ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        known = 0

        def show(done: int, total: int) -> None:
            nonlocal advance, known
            if advance is None:  # their number is known from the first call on
                advance = stack.enter_context(progress(what, total, shown=True))
            advance(done - known)
            known = done

        yield show
