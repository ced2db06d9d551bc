# SPDX-License-Identifier: Apache-2.0
"""``onedraw ledger``: register a data set's budget, and see what became of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from onedraw.cli.app import common, privacy
from onedraw.cli.output import aligned, say, say_json
from onedraw.cli.show import read_release
from onedraw.errors import InvalidInput
from onedraw.ledger import Ledger

ALTERED = 5
"""Exit code of ``verify`` when it finds something."""


@click.group("ledger", short_help="Keep count of what is released about each data set.")
def ledger_commands() -> None:
    """Keep count of what is released about each data set, in one file."""


@ledger_commands.command("create")
@click.argument("path", type=click.Path())
@click.argument("dataset")
@privacy
@click.option(
    "--delta-for-charges",
    type=float,
    default=0.0,
    show_default=True,
    help="The part of delta kept for mechanisms with a delta of their own. Draws need none.",
)
@click.option("--who", help="The person responsible; by default the name of the user.")
@common
def create_command(path: str, dataset: str, as_json: bool, **options: Any) -> None:
    """Register DATASET in the ledger at PATH with its total budget, for good."""
    account = Ledger(path).create(dataset, **options)
    if as_json:
        say_json(dataclasses.asdict(account))
    else:
        say(str(account))


@ledger_commands.command("show")
@click.argument("path", type=click.Path())
@click.argument("dataset", required=False)
@common
def show_ledger_command(path: str, dataset: str | None, as_json: bool) -> None:
    """Show how DATASET stands, or all data sets of the ledger at PATH."""
    ledger = Ledger(path)
    accounts = ledger.datasets() if dataset is None else (ledger.show(dataset),)
    if as_json:
        say_json({"datasets": [dataclasses.asdict(account) for account in accounts]})
    else:
        say("\n\n".join(str(account) for account in accounts) or "(no data set)")


@ledger_commands.command("history")
@click.argument("path", type=click.Path())
@click.argument("dataset", required=False)
@common
def history_command(path: str, dataset: str | None, as_json: bool) -> None:
    """Show what happened in the ledger at PATH, in order: to DATASET, or to all."""
    entries = Ledger(path).history(dataset)
    if as_json:
        say_json({"history": [dataclasses.asdict(entry) for entry in entries]})
        return
    names = ("number", "date", "kind", "dataset", "epsilon", "delta", "draws", "mechanism", "who", "outcome")
    rows = [[_cell(getattr(entry, name)) for name in names] for entry in entries]
    say(aligned(rows, header=names, right=False))


@ledger_commands.command("verify")
@click.argument("path", type=click.Path())
@click.argument("releases", nargs=-1, type=click.Path())
@common
def verify_command(path: str, releases: tuple[str, ...], as_json: bool) -> int:
    """Check that the history at PATH is as it was written, and holds the charges of these RELEASES.

    The exit code is 5 if something was altered.
    """
    receipts = []
    for name in releases:
        receipt = read_release(name).receipt
        if receipt is None:
            raise InvalidInput(f"The release {name!r} has no receipt: it was made without ledger. Omit it.")
        receipts.append(receipt)
    found = Ledger(path).verify(receipts)
    if as_json:
        say_json({**dataclasses.asdict(found), "ok": found.ok})
    else:
        say(str(found), style="" if found.ok else "bold red")
    return 0 if found.ok else ALTERED


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
