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
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

from onedraw._version import __version__
from onedraw.cli.output import say, say_json
from onedraw.errors import (
    CHARGE_STANDS,
    BudgetExceeded,
    InvalidInput,
    LedgerError,
    MissingExtra,
    OnedrawError,
    ReleaseFormatError,
    SamplingError,
    TableError,
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
    (TableError, 5),
    (ReleaseFormatError, 5),
    (LedgerError, 5),
)
"""Exit codes by error; 0 is success, 1 an unexpected error, 130 an interrupt. See ``docs/command.md``."""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "audit": ("audit_command", "Attack a mechanism: what epsilon does it show?"),
    "calibrate": ("calibrate_command", "Beta and weight for a wanted epsilon."),
    "check": ("check_command", "PRIVATE: which lines of a table a fit would refuse."),
    "explain": ("explain_command", "What an attacker can learn about one person."),
    "fit": ("fit_command", "Fit a model to a table and write a private release."),
    "ledger": ("ledger_commands", "Keep count of what is released about each data set."),
    "plan": ("plan_command", "Expected accuracy at each epsilon, without data."),
    "predict": ("predict_command", "Predict new rows with a release."),
    "reproduce": ("reproduce_command", "The paper's figures, and whether its claims hold."),
    "show": ("show_command", "What a release file says."),
}
"""The commands, in modules of their names that are imported when they are run; what each is called there."""


def exit_code(error: BaseException) -> int:
    """The exit code that documents this error."""
    return next((code for kind, code in CODES if isinstance(error, kind)), 1)


class Commands(click.Group):
    """A group that imports a command when it is run; its ``main`` reports errors as this package does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(f"onedraw.cli.{cmd_name}"), COMMANDS[cmd_name][0])
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command and leave with its exit code."""
        arguments = list(sys.argv[1:] if args is None else args)
        debug, as_json = "--debug" in arguments, "--json" in arguments
        extra.pop("standalone_mode", None)
        try:
            with warnings.catch_warnings(), killable():
                if not debug:
                    warnings.simplefilter("ignore")  # those of other libraries may quote a record, too
                result = super().main(arguments, prog_name or "onedraw", standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt) as error:
            say(f"Stopped. {charge_of(error)}".rstrip(), err=True)
            sys.exit(143 if isinstance(error, Killed) or isinstance(error.__cause__, Killed) else 130)
        except BrokenPipeError:  # the reader of our output left, as head does
            with contextlib.suppress(OSError, ValueError):  # Python would complain at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except Exception as error:
            if debug:
                traceback.print_exc()
            report(error, as_json=as_json, flags=self.flags(arguments))
            sys.exit(exit_code(error))
        sys.exit(result if isinstance(result, int) else 0)

    def flags(self, arguments: Sequence[str]) -> set[str] | None:
        """The options of the command that these arguments name, which advice is worded for."""
        context = click.Context(self)
        command = self.get_command(context, next((a for a in arguments if not a.startswith("-")), ""))
        if command is None:
            return None
        return {flag for parameter in command.get_params(context) for flag in parameter.opts}


class Killed(KeyboardInterrupt):
    """Somebody asked the process to end; as an interrupt, so that what stands is said."""


@contextlib.contextmanager
def killable() -> Iterator[None]:
    """A request to end (SIGTERM) is answered like an interrupt at the keyboard."""

    def end(*_: Any) -> None:
        raise Killed

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread, which alone is told
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def charge_of(error: BaseException) -> str:
    """What there is to say about the charge behind which an error happened."""
    marked = (error, error.__cause__)  # click raises its own error from an interrupt
    return CHARGE_STANDS if any(getattr(one, "charged", False) for one in marked) else ""


def report(error: Exception, *, as_json: bool = False, flags: set[str] | None = None) -> None:
    """The error on stderr, in a line or two."""
    code = exit_code(error)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = f"{error.format_message()}\nSee: {error.ctx.command_path} --help"
    elif isinstance(error, click.ClickException):
        message = error.format_message()
    elif isinstance(error, OnedrawError):
        message = error.for_shell(flags)
    else:
        message = (
            f"Unexpected {type(error).__name__}. "
            "Add --debug to see where (a traceback can quote data: do not share it unread). "
            f"{charge_of(error)}"
        ).rstrip()
    if as_json:
        content: dict[str, Any] = {"type": type(error).__name__, "message": message, "exit_code": code}
        if isinstance(error, BudgetExceeded):
            content.update(requested=error.requested, remaining=error.remaining, dataset=error.dataset)
        say_json({"error": content}, err=True)
    else:
        say(f"error: {message}", style="red", err=True)


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
