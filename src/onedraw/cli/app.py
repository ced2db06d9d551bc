# SPDX-License-Identifier: Apache-2.0
"""The group of commands: errors become one or two lines and an exit code, never a traceback.

A message of another library may quote a record, so an unexpected error shows its type only; ``--debug``
shows all.

>>> exit_code(BudgetExceeded("...")), exit_code(UnknownDataset("...")), exit_code(KeyError("..."))
(3, 2, 1)
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from onedraw._version import __version__
from onedraw.cli.output import say, say_json
from onedraw.errors import (
    BudgetExceeded,
    InvalidInput,
    LedgerError,
    MissingExtra,
    OnedrawError,
    ReleaseFormatError,
    SamplingError,
    UnknownDataset,
)

F = TypeVar("F", bound=Callable[..., Any])

CODES: tuple[tuple[type[Exception], int], ...] = (
    (BudgetExceeded, 3),
    (UnknownDataset, 2),
    (InvalidInput, 2),
    (MissingExtra, 2),
    (click.ClickException, 2),
    (SamplingError, 4),
    (ReleaseFormatError, 5),
    (LedgerError, 5),
)
"""Exit codes by error; 0 is success, 1 an unexpected error, 130 an interrupt. See ``docs/command.md``."""

_CALL = re.compile(r"""Ledger\((?P<path>'[^']*'|"[^"]*")\)\.(?P<verb>\w+)\((?P<args>[^()]*)\)""")


def exit_code(error: BaseException) -> int:
    """The exit code that documents this error."""
    return next((code for kind, code in CODES if isinstance(error, kind)), 1)


class Commands(click.Group):
    """A group whose ``main`` reports errors as this package does."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command and leave with its exit code."""
        arguments = list(sys.argv[1:] if args is None else args)
        debug, as_json = "--debug" in arguments, "--json" in arguments
        extra.pop("standalone_mode", None)
        try:
            with warnings.catch_warnings():
                if not debug:
                    warnings.simplefilter("ignore")  # those of other libraries may quote a record, too
                result = super().main(arguments, prog_name or "onedraw", standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt):
            say("Stopped.", err=True)
            sys.exit(130)
        except BrokenPipeError:  # the reader of our output left, as head does
            with contextlib.suppress(OSError, ValueError):  # Python would complain at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except Exception as error:
            if debug:
                traceback.print_exc()
            report(error, as_json=as_json)
            sys.exit(exit_code(error))
        sys.exit(result if isinstance(result, int) else 0)


def report(error: Exception, *, as_json: bool = False) -> None:
    """The error on stderr, in a line or two."""
    code = exit_code(error)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = f"{error.format_message()}\nSee: {error.ctx.command_path} --help"
    elif isinstance(error, click.ClickException):
        message = error.format_message()
    elif isinstance(error, OnedrawError):
        message = as_commands(str(error))
    else:
        message = (
            f"Unexpected {type(error).__name__}. "
            "Add --debug to see where (a traceback can quote data: do not share it unread)."
        )
    if as_json:
        content: dict[str, Any] = {"type": type(error).__name__, "message": message, "exit_code": code}
        if isinstance(error, BudgetExceeded):
            content.update(requested=error.requested, remaining=error.remaining, dataset=error.dataset)
        say_json({"error": content}, err=True)
    else:
        say(f"error: {message}", style="red", err=True)


def as_commands(message: str) -> str:
    """Advice to call Python turned into the command that does the same.

    >>> as_commands("0.1 remains (see: Ledger('a b.db').show('adult')).")
    "0.1 remains (see: onedraw ledger show 'a b.db' adult)."
    """

    def command(match: re.Match[str]) -> str:
        arguments = [match["path"], *filter(None, match["args"].split(", "))]
        words = [shlex.quote(word[1:-1]) for word in arguments if word[0] in "'\""]
        words += ["--epsilon ..."] if "epsilon=" in match["args"] else []
        return " ".join(["onedraw ledger", match["verb"], *words])

    message = message.replace("Ledger(path).create(...)", "onedraw ledger create")
    return _CALL.sub(command, message)


def common(command: F) -> F:
    """The options that every command has."""
    command = click.option(
        "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error; it can quote data."
    )(command)
    return click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for machines.")(command)


def privacy(command: F) -> F:
    """The options that say what is guaranteed."""
    for option in (
        click.option(
            "--rows-per-person", type=int, default=1, show_default=True, help="Rows that one person may hold."
        ),
        click.option(
            "--neighbours",
            type=click.Choice(["replace_one", "add_remove"]),
            default="replace_one",
            show_default=True,
            help="Whether a person's data are replaced (the number of rows is public), or added and removed.",
        ),
        click.option(
            "--delta",
            type=float,
            default=0.0,
            show_default=True,
            help="Of (epsilon, delta)-DP, far below 1/rows; helps with several draws.",
        ),
        click.option("--epsilon", type=float, required=True, help="The privacy loss, for example 1."),
    ):
        command = option(command)
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="onedraw")
def main() -> None:
    """Publish regressions on private data with differential privacy; epsilon is the only number to choose."""
