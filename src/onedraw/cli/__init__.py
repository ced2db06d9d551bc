# SPDX-License-Identifier: Apache-2.0
"""The command ``onedraw``: from a table to a published release; ``docs/command.md`` documents it."""

from onedraw.cli.app import main

__all__ = ["main"]
