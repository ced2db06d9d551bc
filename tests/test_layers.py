# SPDX-License-Identifier: Apache-2.0
"""A module imports only from its own package and from the lines above it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "onedraw"

# Top first. Names on one line do not import each other. ``__init__``, the package itself, may import all.
LAYERS = [
    ["errors", "types", "_version"],
    ["_validate", "_extras"],
    ["_random"],
    ["families"],
    ["losses"],
    ["priors"],
    ["privacy"],
    ["posterior"],
    ["samplers"],
    ["model"],
    ["release"],
    ["uncertainty"],
    ["inference"],
    ["ledger"],
    ["mechanisms"],
    ["estimators"],
    ["unsafe"],
    ["planning"],
    ["nn"],
    ["audit"],
    ["reports"],
    ["research"],
    ["cli"],
    ["__init__", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules(package=PACKAGE):
    return sorted(package.rglob("*.py"))


def layer_of(path, package=PACKAGE):
    """The top-level module or package that a file belongs to."""
    return path.relative_to(package).parts[0].removesuffix(".py")


def imported_names(tree, parts):
    """Dotted names of all modules that the code imports, wherever in the file; ``parts`` is its package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*parts[: len(parts) - node.level + 1]] if node.level else []
            stem = ".".join(base + ([node.module] if node.module else []))
            # ``from onedraw import families`` names a module, ``from onedraw import Release`` the package.
            yield from (f"{stem}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in {"import_module", "importlib.import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def violations(path, source, package=PACKAGE):
    own = layer_of(path, package)
    parts = ["onedraw", *path.relative_to(package).parent.parts]
    for name in imported_names(ast.parse(source), parts):
        head, *rest = name.split(".")
        if head != "onedraw":
            continue
        target = rest[0] if rest and rest[0] in LEVEL else "__init__"
        if target != own and LEVEL[target] >= LEVEL[own]:
            yield f"{own} imports {name}: {target} is not in a layer above it"


def test_every_top_level_module_has_a_layer():
    unknown = sorted({layer_of(path) for path in modules()} - set(LEVEL))
    assert not unknown, f"add {unknown} to LAYERS in tests/test_layers.py, below all that they import"


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_point_upwards(path):
    if layer_of(path) not in LEVEL:
        pytest.skip("no layer yet; test_every_top_level_module_has_a_layer says so")
    found = list(violations(path, path.read_text(encoding="utf-8")))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source", "allowed"),
    [
        ("losses/gibbs.py", "from onedraw.families.base import Family", True),
        ("losses/gibbs.py", "from onedraw.losses.base import Loss", True),
        ("losses/gibbs.py", "from .base import Loss", True),
        ("losses/gibbs.py", "from . import base", True),
        ("losses/gibbs.py", "from ..privacy import guarantee", False),
        ("losses/gibbs.py", "from .. import posterior", False),
        ("losses/gibbs.py", "import onedraw.posterior", False),
        ("losses/gibbs.py", "import onedraw", False),
        ("losses/gibbs.py", "from onedraw import Release", False),
        ("losses/gibbs.py", "from onedraw import families", True),
        ("losses/gibbs.py", "def f():\n    from onedraw import posterior", False),
        ("losses/gibbs.py", "import importlib\nimportlib.import_module('onedraw.cli')", False),
        ("losses/gibbs.py", "import numpy.random, onedrawing", True),
        ("types.py", "from onedraw.errors import InvalidInput", False),
        ("__init__.py", "from onedraw.cli import main", True),
        ("losses/__init__.py", "from onedraw.losses.gibbs import Gibbs", True),
        ("losses/__init__.py", "from .gibbs import Gibbs", True),
    ],
)
def test_the_rule_itself(file, source, allowed):
    assert (not list(violations(PACKAGE / file, source))) is allowed
