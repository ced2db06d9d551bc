# SPDX-License-Identifier: Apache-2.0
"""What reproduces the paper stands beside the library: the library never imports it."""

import ast
import subprocess
import sys
from pathlib import Path

import onedraw

PACKAGE = Path(onedraw.__file__).parent
ALLOWED = {"cli/reproduce.py"}
"""The command that runs the experiments."""


def imported(path):
    """Names of modules that a file imports anywhere in its code, and of those that it imports by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value if " " not in node.value else ""


def test_only_the_command_that_reproduces_imports_research():
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != "research"
        and any(name.startswith("onedraw.research") for name in imported(path))
    }
    assert found == ALLOWED


def test_importing_the_library_loads_no_research():
    program = (
        "import sys, onedraw, onedraw.nn, onedraw.audit.subjects;"
        "print([name for name in sys.modules if name.startswith('onedraw.research')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
