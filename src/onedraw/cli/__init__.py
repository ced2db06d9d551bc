# SPDX-License-Identifier: Apache-2.0
"""The command ``onedraw``: from a table to a published release; ``docs/command.md`` documents it."""

from onedraw.cli.app import main
from onedraw.cli.audit import audit_command
from onedraw.cli.calibrate import calibrate_command
from onedraw.cli.explain import explain_command
from onedraw.cli.fit import fit_command
from onedraw.cli.ledger import ledger_commands
from onedraw.cli.plan import plan_command
from onedraw.cli.predict import predict_command
from onedraw.cli.reproduce import reproduce_command
from onedraw.cli.show import show_command

for _command in (
    audit_command,
    calibrate_command,
    explain_command,
    fit_command,
    ledger_commands,
    plan_command,
    predict_command,
    reproduce_command,
    show_command,
):
    main.add_command(_command)

__all__ = ["main"]
